"""Judge what a user names as source and target: by endings, by headings and columns, and by the language of the lines.

Each judgement is one line, a fact and advice. A certain fault, one file on both sides, is an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from nmt.data.corpora.headings import contradicts
from nmt.data.corpora.language_names import language_of
from nmt.data.corpora.sources import Part, Source, are_one_file, check_two_files, columns_advice, format_of
from nmt.errors import NMTError
from nmt.system.lines import STDIN, check_is_lines, read_lines, without_packing
from nmt.system.paths import is_file

_LOOKED_AT = 1000
"""The number of first rows that are judged."""
_LEAST = 10
"""The number of filled rows from which a column is judged by what most of them have."""
_MOST_OF = 0.9
_LEAST_DETECTED, _MOST_DETECTED, _TOGETHER = 100, 400, 10
"""The lines from which a language is detected, at most so many, and how many of them are judged as one text."""
_SURE = 0.95
"""Share of these texts that must be in the other language, for both sides where there are two."""
_ROLES = ({"src", "source"}, {"tgt", "trg", "target"})
"""Endings that say which side a file is, where both files have one."""
_PROCESSED = frozenset(
    "txt text tok bpe lc tc raw norm clean cleaned sp spm true low lower utf8 snt sent detok plain out".split()
)
"""Endings that say how a text was made; the language stands before them."""
_ENDING = re.compile(r"[A-Za-z]{1,8}([-_][A-Za-z0-9]{2,8})*")
_NO_LANGUAGE = frozenset({"mt"})
"""Codes of languages that as endings of files mean something else: machine translation."""


@dataclass(frozen=True)
class Named:
    """A text that a user names: its path; `what`, the option or argument that names it; `side`, 0 for the source and 1
    for the target."""

    path: str
    what: str
    side: int


def judged(texts: Sequence[Named], langs: Sequence[str], *, lines: bool = True) -> list[str]:
    """Return a line for each doubt about texts that are lines of a source or a target, whose languages have the codes
    `langs`. A language that nothing is known about raises none. Raises DataError if a source is also a target, or, with
    `lines`, if a file is markup."""
    texts = [one for one in texts if format_of(one.path) == "lines"]
    told = []
    for number, one in enumerate(texts):
        if lines:
            check_is_lines(one.path, data=False)
        for other in texts[:number]:
            if one.side != other.side:
                check_two_files(other.path, one.path)
            elif are_one_file(other.path, one.path):
                told.append(f"{one.path}: {one.what} must be a text of its own, and is that of {other.what}")
    doubted = {one: said for one in texts if (said := _by_ending(one.path, one.side, langs)) is not None}
    swapped = len(doubted) == len(texts) == 2 and texts[0].side != texts[1].side
    told += [_line(one.path, one.what, langs[one.side], said, swapped) for one, said in doubted.items()]
    for one in texts if not doubted else ():
        if one.path != STDIN and is_file(Path(one.path)) and _is_in(_first_lines(one.path), one.side, langs):
            told.append(_line(one.path, one.what, langs[one.side], f"{langs[1 - one.side]} by its words", False))
    return told


def judged_output(path: str, what: str, langs: Sequence[str]) -> list[str]:
    """Return a line if the ending of a file for translations contradicts the target language."""
    said = None if path == STDIN else _by_ending(path, 1, langs)
    return [] if said is None else [f"{path}: {what} gets {langs[1]}, and is {said}; name it by its language"]


def judged_corpus(source: Source, langs: Sequence[str]) -> list[str]:
    """Return a line for each doubt about a corpus of pairs for training or validation, by its endings and its first
    rows. Files that cannot be read are skipped: the reader reports them."""
    told: list[str] = []
    for part in source.parts(langs)[:_LEAST]:
        try:
            rows = list(_first_rows(part))
        except NMTError:
            continue
        texts = [[str(line) for line in lines] for lines in zip(*rows, strict=True)] or [[], []]
        if part.form == "lines":
            doubts = _by_endings(part.files, langs)
        else:
            doubts = [*_by_heading(part, langs), *_by_columns(part, source, texts)]
        told += doubts or _by_words(part, texts, langs)
        told += _by_values(part, texts)
    return told


def ending_of(path: str) -> tuple[str, bool] | None:
    """Return the code of a language that the name of a file ends in, and whether it is an ending of its own, as in t.de
    and t.de.txt, or the last part of the name, as in train-de.txt; None if there is none."""
    name = without_packing(path).name
    stem, dot, last = name.rpartition(".")
    while dot and last.lower() in _PROCESSED:
        stem, dot, last = stem.rpartition(".") if "." in stem else ("", "", stem)
    if dot and _ENDING.fullmatch(last):
        return last, True
    tail = "" if dot else re.split(r"[-_.]", last)[-1]
    return (tail, False) if re.fullmatch(r"[A-Za-z]{2,3}", tail) else None


def _by_ending(path: str, side: int, langs: Sequence[str]) -> str | None:
    """Return `NAME by its name` if the name of a file says that it is another language than that of its side."""
    found = ending_of(path)
    if found is None:
        return None
    code, is_ending = found
    own, other = langs[side], langs[1 - side]
    if _is_same(code, own):
        return None
    if _is_same(code, other):
        return f"{code} by its name"
    known = is_ending and code.lower() not in _NO_LANGUAGE and language_of(code) is not None
    return f"{code} by its name" if known and language_of(own) is not None else None


def _is_same(code: str, lang: str) -> bool:
    """Return whether an ending means a language of the model: by its code, or by another code of it."""
    if code.lower() == lang.lower():
        return True
    known = language_of(code)
    if known is None or known != language_of(lang):
        return known in _NORWEGIAN and language_of(lang) in _NORWEGIAN and "no" in (known, language_of(lang))
    # en and en_GB are the same, en_GB and en_US are two sides.
    return min(len(code), len(lang)) <= 3 or code.lower().replace("_", "-") == lang.lower().replace("_", "-")


_NORWEGIAN = frozenset({"no", "nb", "nn"})


def _by_endings(files: Sequence[str], langs: Sequence[str]) -> list[str]:
    """Return the doubts about two files of lines by their names."""
    if len(files) != 2:
        return []
    ends = [(ending_of(file) or ("", False))[0].lower() for file in files]
    if ends[0] in _ROLES[1] and ends[1] in _ROLES[0] and [lang.lower() for lang in langs] != ends:
        found: list[str | None] = [f"{end} by its name" for end in ends]
    else:
        found = [_by_ending(file, side, langs) for side, file in enumerate(files)]
    return [
        _line(file, _NAMES[side], langs[side], said, None not in found)
        for side, (file, said) in enumerate(zip(files, found, strict=True))
        if said is not None
    ]


_NAMES = ("the source", "the target")


def _line(path: str, what: str, lang: str, said: str, swapped: bool) -> str:
    """Return a doubt about the language of a text."""
    advice = "swap the two files" if swapped else "name another file"
    return f"{path}: {what} must be {lang}, and is {said}; {advice}, or correct the languages"


def _by_heading(part: Part, langs: Sequence[str]) -> list[str]:
    """Return the doubts about the first line of a table that has headings."""
    heading = part.heading
    if heading is None:
        first = next(_first_rows(part), ())
        codes = {language_of(str(cell)) for cell in first} - {None}
        if not any(map(language_of, langs)) and len(codes) == 2:
            return [f"{part.files[0]}: line 1 is {' | '.join(map(str, first))}; if it has the codes, give -s and -t"]
        return []
    told = f"{part.files[0]}: line 1 has headings, {' | '.join(cell.strip()[:40] for cell in heading)}, and is skipped"
    if not contradicts(heading, langs):
        return [told]
    return [
        f"{told}; they are not {' and '.join(langs)}, as which the columns are read: correct the languages, or "
        f"{columns_advice(part.files[0])}"
    ]


def _by_columns(part: Part, source: Source, texts: Sequence[Sequence[str]]) -> list[str]:
    """Return the doubts about a table with columns that were chosen by default, and about quotes."""
    told = []
    file = part.files[0]
    filled = [row for row in zip(*texts, strict=True) if any(row)]
    quoted = sum(any(_QUOTED.fullmatch(cell) for cell in row) for row in filled)
    doubled = any(_DOUBLED.fullmatch(cell) for row in filled for cell in row)
    if doubled or len(filled) >= _LEAST and quoted >= _MOST_OF * len(filled):
        told.append(
            f"{file}: {quoted:,} of the first {len(filled):,} rows have cells in quotes, as a spreadsheet writes them, "
            "which are read as text; save it with tabs and without quotes"
        )
    if part.form == "tsv" and source.columns == (None, None):
        if unread := _unread(part):
            told.append(f"{file}: not read: column {unread}; if a text is there, {columns_advice(file)}")
    return told


def _unread(part: Part) -> str:
    """Return the numbers of the columns of a table with tabs that are filled in most rows and not read; empty for
    none."""
    rows = [line.split("\t") for line in islice(read_lines(part.files[0], lenient=True), _LOOKED_AT) if line.strip()]
    filled = Counter(place for cells in rows for place, cell in enumerate(cells, start=1) if cell.strip())
    unread = [
        place for place in filled if place not in (*part.columns, part.features) and 2 * filled[place] > len(rows)
    ]
    return ", ".join(map(str, sorted(unread)))


_QUOTED, _DOUBLED = re.compile(r'\s*"([^"]|"")*"\s*'), re.compile(r'\s*"([^"]|"")*""([^"]|"")*"\s*')


def _by_values(part: Part, texts: Sequence[Sequence[str]]) -> list[str]:
    """Return the doubts about a side that has digits alone, or nearly always the same text."""
    told = []
    for side, lines in enumerate(texts):
        filled = [line.strip() for line in lines if line.strip()]
        if len(filled) < _LEAST:
            continue
        digits = sum(_NUMBER.fullmatch(line) is not None for line in filled)
        (most, count), *_ = Counter(filled).most_common(1)
        if digits >= _MOST_OF * len(filled):
            what = "have digits alone, as numbers of lines do"
        elif count >= _MOST_OF * len(filled):
            digits, what = count, f"are {most[:40]!r}"
        else:
            continue
        told.append(f"{_place(part, side)}: {digits:,} of the first {len(filled):,} rows {what}; {_other(part)}")
    return told


_NUMBER = re.compile(r"[#№]?\d+[.:)]?")


def _place(part: Part, side: int) -> str:
    """Return the name of a side of a corpus: its file, or the column of a table."""
    file = part.files[side]
    if part.form == "lines":
        return file
    column = part.columns[side] if part.columns[side] is not None else part.langs[side]
    return f"{file}, column {column} ({_NAMES[side][4:]})"


def _other(part: Part) -> str:
    return "name another file" if part.form == "lines" else columns_advice(part.files[0])


def _by_words(part: Part, texts: Sequence[Sequence[str]], langs: Sequence[str]) -> list[str]:
    """Return a doubt if each side is in the language of the other."""
    if len(texts) != 2 or not all(_is_in(lines, side, langs) for side, lines in enumerate(texts)):
        return []
    names = ", ".join(dict.fromkeys(part.files))
    where = "the two files" if part.form == "lines" else "the languages"
    return [
        f"{names}: source and target must be {' and '.join(langs)}, and are {langs[1]} and {langs[0]} by their words; "
        f"swap {where}"
    ]


def _is_in(lines: Sequence[str], side: int, langs: Sequence[str]) -> bool:
    """Return whether lines are beyond doubt in the language of the other side, by a detector that knows both; False
    without one, or if the lines are few or short."""
    own, other = (language_of(langs[number]) for number in (side, 1 - side))
    filled = [line for line in dict.fromkeys(lines) if len(line) >= _TOGETHER][:_MOST_DETECTED]
    if own is None or other is None or own == other or len(filled) < _LEAST_DETECTED:
        return False
    identifier = _identifier()
    if identifier is None or not {own, other} <= set(identifier.nb_classes):
        return False
    texts = [" ".join(filled[start : start + _TOGETHER]) for start in range(0, len(filled), _TOGETHER)]
    votes = sum(identifier.classify(text)[0] == other for text in texts)
    return votes >= _SURE * len(texts)


@lru_cache(maxsize=1)
def _identifier() -> Any:
    """Return the detector of languages; None if the extra that has it is not installed."""
    if find_spec("py3langid") is None:
        return None
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)


def _first_lines(path: str) -> list[str]:
    """Return the first lines of a text, without those that cannot be decoded."""
    try:
        return [str(line) for (line,) in _first_rows(Part("lines", (path,)))]
    except NMTError:  # reported by the reader
        return []


def _first_rows(part: Part) -> Iterator[tuple[str | None, ...]]:
    """Yield the first rows that are whole."""
    return (row for row in islice(part.rows(lenient=True), _LOOKED_AT) if None not in row)
