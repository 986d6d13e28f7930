"""Judge what a user names as source and target: by endings, by headings and columns, and by the language of the lines.

Each judgement is one line, a fact and advice. A certain fault, one file on both sides, is an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from nmt.data.corpora.language_names import exchanged_rows, is_code, is_in, is_one_side_only, language_of, script_of
from nmt.data.corpora.looking import FILLED, LEAST, LOOKED_AT, MOST_OF, columns_advice, contradicts
from nmt.data.corpora.sources import CorpusPart, Source, are_one_file, check_two_files, format_of
from nmt.data.tables.marked import usfm_doubts
from nmt.data.tables.readers import GRIDS, OBJECTS, RECORDS
from nmt.data.tables.sheets import doubts as sheet_doubts
from nmt.errors import NMTError
from nmt.system.lines import STDIN, check_is_lines, without_packing
from nmt.system.paths import is_file

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
    """A text that a user names: its path; `what`, the option or argument; `side`, 0 for source and 1 for target."""

    path: str
    what: str
    side: int


def judged(texts: Sequence[Named], langs: Sequence[str], *, lines: bool = True, **how: Any) -> list[str]:
    """Return a line for each doubt about texts that are lines of a source or a target, whose languages have the codes
    `langs`. A language that nothing is known about raises none; nor does INPUT, read as lines, if it is a table. `how`:
    columns, header and sheet of tables. Raises DataError: A source is a target, too, or, with `lines`, markup."""
    pairs = [one.path for one in texts if one.what != "INPUT"]
    tables = dict.fromkeys(path for path in pairs if format_of(path) in (*GRIDS, *RECORDS))
    told = [line for table in tables for line in judged_corpus(Source(table, **how), langs)]
    texts = [one for one in texts if format_of(one.path) == "lines"]
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
        if (
            one.path != STDIN
            and is_file(Path(one.path))
            and is_in(_first_lines(one.path), langs[1 - one.side], langs[one.side])
        ):
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
    for part in source.parts(langs)[:LEAST]:
        try:
            rows = list(_first_rows(part))
        except NMTError:
            continue
        texts = [[str(line) for line in lines] for lines in zip(*rows, strict=True)] or [[], []]
        if part.form == "lines":
            doubts = _by_endings(part.files, langs)
        elif part.form == "usfm":
            doubts = usfm_doubts(part.files)
        else:
            doubts = [*_by_heading(part, langs), *_by_columns(part, source, texts)]
        told += doubts
        if part.form != "lines" or not doubts:
            told += _by_words(part, texts, langs)
        told += _by_values(part, texts)
    return told


def ending_of(path: str) -> tuple[str, bool] | None:
    """Return the code of a language that the name of a file ends in, and whether it is an ending of its own, as in t.de
    and t.de.txt, or the last part of the name, as in train-de.txt; None if there is none."""
    stem, dot, last = without_packing(path).name.rpartition(".")
    while dot and last.lower() in _PROCESSED:
        stem, dot, last = stem.rpartition(".") if "." in stem else ("", "", stem)
    if dot and _ENDING.fullmatch(last):
        return last, True
    tail = "" if dot else re.split(r"[-_.]", last)[-1]
    return (tail, False) if re.fullmatch(r"[A-Za-z]{2,3}", tail) else None


def _by_ending(path: str, side: int, langs: Sequence[str]) -> str | None:
    """Return `NAME by its name` if the name of a file says that it is another language than that of its side."""
    if (found := ending_of(path)) is None:
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


def _by_heading(part: CorpusPart, langs: Sequence[str]) -> list[str]:
    """Return the doubts about the first rows of a table of cells."""
    found, file = part.look, part.files[0]
    if found is None or part.form not in GRIDS:
        return []
    places = [int(column) - 1 for column in found.chosen or (1, 2)]
    heading = [one.heading for one in found.columns]
    shown = " | ".join(name[:40] for name in heading[:8])
    if part.form in OBJECTS:
        told = f"{file}: has the keys {shown}"
    elif not found.heading:
        return _by_first_row(part)
    else:
        told = f"{file}: line {found.heading} has headings, {shown}, and is skipped"
        told += " with all above it" if found.heading > 1 else ""
    is_named = any(isinstance(column, str) for column in part.columns)
    read = [heading[place].rpartition(".")[2] for place in places if place < len(heading)]
    if is_named or not contradicts(read, langs):
        return [] if is_named or part.form in OBJECTS else [told]
    return [
        f"{told}; they are not {' and '.join(langs)}, as which the columns are read: correct the languages, or "
        f"{columns_advice(file)}"
    ]


def _by_first_row(part: CorpusPart) -> list[str]:
    """Return a doubt if the first row of a table is much shorter than the others, as headings are, or two codes."""
    rows = [[str(cell) for cell in row] for row in islice(part.rows(lenient=True), LOOKED_AT)]
    first, *others = [row for row in rows if any(row)] or [[]]
    words = sorted(min(len(cell.split()) for cell in row) for row in others)
    is_short = 0 < max((len(cell.split()) for cell in first), default=0) <= 2 and all(first)
    are_codes = len({language_of(cell) if is_code(cell) else None for cell in first} - {None}) == len(first) == 2
    if part.header is not None or len(words) < LEAST or not (is_short and words[len(words) // 2] >= 4 or are_codes):
        return []
    shown = " | ".join(cell[:40] for cell in first)
    return [f"{part.files[0]}: the first row is read as a pair, {shown}; if it has headings, give --header yes"]


def _by_columns(part: CorpusPart, source: Source, texts: Sequence[Sequence[str]]) -> list[str]:
    """Return the doubts about columns that are not read, quotes, and several senses in a cell."""
    told = []
    file, found = part.files[0], part.look
    filled = [row for row in zip(*texts, strict=True) if any(row)]
    quoted = sum(any(_QUOTED.fullmatch(cell) for cell in row) for row in filled)
    doubled = any(_DOUBLED.fullmatch(cell) for row in filled for cell in row)
    if doubled or len(filled) >= LEAST and quoted >= MOST_OF * len(filled):
        told.append(
            f"{file}: {quoted:,} of the first {len(filled):,} rows have cells in quotes, as a spreadsheet writes them, "
            "which are read as text; save it with tabs and without quotes"
        )
    if found is not None and part.form in GRIDS and source.columns == (None, None):
        read = (*(found.chosen or (1, 2)), part.features)
        unread = [one.name for one in found.columns if one.is_text and one.filled > 0.5 and one.column not in read]
        if unread:
            told.append(f"{file}: not read: column {', '.join(unread)}; if a text is there, {columns_advice(file)}")
        if found.why and found.chosen not in (None, (1, 2)):
            shown = " and ".join(found.columns[int(one) - 1].name for one in found.chosen or ())
            told.append(f"{file}: source and target are columns {shown}, {found.why}")
    if found is not None and part.form in GRIDS:
        last = max(int(one) for one in found.chosen or (1, 2))
        most = 0.5 if found.heading else FILLED
        rest = [one for one in found.columns if not one.heading and 0 < one.filled <= most and int(one.column) > last]
        if rest:
            many = "few" if rest[0].filled < FILLED else "some"
            told.append(
                f"{file}: {many} rows go on in column {', '.join(one.name for one in rest)}, which is not read, as "
                f"{rest[0].examples[0].strip()[:40]!r}; put texts that contain the separator in quotation marks"
            )
    if part.form == "sheet":
        told += sheet_doubts(file)
    for side, lines in enumerate(texts):
        senses = sum(_SENSES.fullmatch(line) is not None for line in lines)
        if senses >= max(LEAST, _MANY_SENSES * len(filled)):
            told.append(
                f"{_place(part, side)}: {senses:,} of the first {len(filled):,} rows have several senses, as `a; b`, "
                "which are learned as one text; give each a row of its own"
            )
        marked = Counter(line.strip() for line in lines if _MARKS.fullmatch(line.strip())).most_common(1)
        tags = [one[0] for line in lines if (one := _MARKUP.search(line))]
        for example, count, what, advice in (
            *((mark, count, "stand for no text", "empty these cells") for mark, count in marked),
            *((tag, len(tags), "have signs of a web page or a document", "remove them") for tag in tags[:1]),
        ):
            if count >= _FEW:
                told.append(
                    f"{_place(part, side)}: {count:,} of the first {len(filled):,} rows {what}, as {example[:40]}, and "
                    f"are learned as they are; {advice}"
                )
    return told


_SENSES = re.compile(r"\s*[^;.?!]{1,40}((;| / )\s*[^;.?!]{1,40})+|\s*1[.)] .*\s2[.)] .*")
_MARKS = re.compile(r"(?i)nan|none|null|\\n|#?n/a|#[A-Z]+[!?]|true|false|[-?–—.x]")
"""Cells by which programs and people say that there is no text."""
_MARKUP = re.compile(r"</?[A-Za-z][^<>]*>|&[a-z]{2,8};|&#\d+;")
_FEW, _FEW_EXCHANGED = 3, 0.01
_MANY_SENSES = 0.05
_QUOTED, _DOUBLED = re.compile(r'\s*"([^"]|"")*"\s*'), re.compile(r'\s*"([^"]|"")*""([^"]|"")*"\s*')


def _by_values(part: CorpusPart, texts: Sequence[Sequence[str]]) -> list[str]:
    """Return the doubts about a side without letters, or that nearly always has the same text."""
    told = []
    for side, lines in enumerate(texts):
        if (found := valueless(lines)) is None:
            continue
        count, value = found
        what = "have no letters, as numbers, dates and times" if value is None else f"are {value[:40]!r}"
        filled = sum(map(bool, map(str.strip, lines)))
        advice = "name another file" if part.form in ("lines", "usfm") else columns_advice(part.files[0])
        told.append(f"{_place(part, side)}: {count:,} of the first {filled:,} rows {what}; {advice}")
    return told


def valueless(lines: Sequence[str]) -> tuple[int, str | None] | None:
    """Return for a side without letters, or nearly always of one text, its number of lines and that text; else None."""
    filled = [line.strip() for line in lines if line.strip()]
    if len(filled) < LEAST:
        return None
    digits = sum(not any(map(str.isalpha, line)) for line in filled)
    (most, count), *_ = Counter(filled).most_common(1)
    if digits >= MOST_OF * len(filled):
        return digits, None
    return (count, most) if count >= MOST_OF * len(filled) else None


def _place(part: CorpusPart, side: int) -> str:
    """Return the name of a side of a corpus: its file, or the column of a table."""
    file = part.files[side]
    if part.form in ("lines", "usfm"):
        return file
    chosen = part.look.chosen if part.look is not None else None
    column = part.columns[side] or (chosen[side] if chosen else side + 1 if part.form in GRIDS else part.langs[side])
    return f"{file}, column {column} ({_NAMES[side][4:]})"


def _by_words(part: CorpusPart, texts: Sequence[Sequence[str]], langs: Sequence[str]) -> list[str]:
    """Return a doubt if the sides, or those of some rows, are in the language of the other."""
    if len(texts) != 2 or len(texts[0]) < LEAST:
        return []
    certain = [is_in(lines, langs[1 - side], langs[side]) for side, lines in enumerate(texts)]
    scripts = {script_of(lines) for lines in texts}
    names = ", ".join(dict.fromkeys(part.files))
    one = any(is_one_side_only(texts[side], texts[1 - side], langs[1 - side]) for side in (0, 1))
    if all(certain) or one or any(certain) and len(scripts - {""}) == 2:
        where = "the two files" if part.form == "lines" else "the languages"
        return [
            f"{names}: source and target must be {' and '.join(langs)}, and are {langs[1]} and {langs[0]} by their "
            f"words; swap {where}"
        ]
    rows = list(zip(*texts, strict=True))
    exchanged = exchanged_rows(rows, langs)
    if len(exchanged) < max(_FEW, _FEW_EXCHANGED * len(rows)):
        return []
    src, tgt = rows[exchanged[0]]
    return [
        f"{names}: at least {len(exchanged):,} of the first {len(rows):,} rows have source and target the other way "
        f"round, as {src[:40]!r} with {tgt[:40]!r}; exchange their sides"
    ]


def _first_lines(path: str) -> list[str]:
    """Return the first lines of a text, without those that cannot be decoded."""
    try:
        return [str(line) for (line,) in _first_rows(CorpusPart("lines", (path,)))]
    except NMTError:  # reported by the reader
        return []


def _first_rows(part: CorpusPart) -> Iterator[tuple[str | None, ...]]:
    """Yield the first rows that are whole."""
    return (row for row in islice(part.rows(lenient=True), LOOKED_AT) if None not in row)
