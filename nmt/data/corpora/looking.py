"""Look at a table before it is read: which row has headings, which columns have the texts, and in which languages they
are. All that is guessed can be said, asked or overridden; `look` gives it as data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import NamedTuple, TypeVar

from nmt.data.corpora.language_names import (
    code_named,
    is_code,
    language_by_text,
    language_of,
    languages_named,
    names_in,
    script_of,
)
from nmt.data.tables.objects import LOOKED_AT
from nmt.data.tables.readers import GRIDS, OBJECTS, RECORDS, form_of, paired
from nmt.data.tables.sheets import column_of
from nmt.errors import DataError
from nmt.system.lines import while_unchanged

_OF_SIDES = (
    frozenset("src source original input lemma word headword lexeme vernacular grapheme graphemes".split()),
    frozenset(
        "tgt trg target ref translation output form inflection pronunciation phoneme phonemes ipa gloss "
        "definition".split()
    ),
)
"""Words of a heading that say which side a column is."""
_ABOUT = frozenset("id no nr number note notes comment comments pos category speaker date reference verse".split())
"""Words of a heading that name notes on a pair, its number or its origin."""
_NO_TEXT = frozenset("id notes comments speaker".split())
"""Those of them that hardly begin a list of words."""
_BESIDE = _ABOUT | frozenset("text texts sentence sentences segment phrase lang language column example".split())
"""Words that may come with those of a side, or name another column."""
_MOST_WORDS = 4
_LEAST_BELOW = 10
_WORDS = re.compile(r"[^\W_]+")


class Label(NamedTuple):
    """The meaning of a heading: the side that its column is, None if it names none; and its languages."""

    side: int | None
    languages: frozenset[str]


def is_about_pairs(heading: str) -> bool:
    """Return whether a heading names notes on the pairs, their numbers or origin."""
    words = _WORDS.findall(heading.casefold())
    return bool(words) and _ABOUT.issuperset(words)


def is_heading(cells: Sequence[str], langs: Sequence[str]) -> bool:
    """Return whether the cells of source and target in the first line of a table, or its only cell, are headings for
    languages with the codes `langs`. The line may be the first pair of a dictionary: all of its cells must be clear,
    and name two sides or two languages."""
    labels = [label_of(cell, langs) for cell in cells]
    if len(cells) == 1:
        return cells[0].strip().strip('"').casefold() in {"text", "sentence", *(lang.casefold() for lang in langs)}
    known = [label for label in labels if label is not None]
    if len(known) != 2 or len(labels) != 2:
        return False
    first, second = known
    if first.side is not None or second.side is not None:
        return first.side != second.side
    return bool(first.languages and second.languages) and not first.languages & second.languages


def heading_labels(
    cells: Sequence[str], below: Sequence[Sequence[str]], langs: Sequence[str]
) -> list[Label | None] | None:
    """Return the meaning of the cells of the first row of a table, or None if it has texts. `below`: the cells of each
    column in the rows after it; what comes again there is no heading.

    Of two cells that name two sides or two languages (see `is_heading`), of a name of a language next to a short cell,
    of short cells above numbers or another script, and of short cells with one such as Notes, a row is a heading.
    """
    fresh = ["" if cell in under else cell.strip() for cell, under in zip(cells, below, strict=True)]
    named = [place for place, cell in enumerate(fresh) if is_code(cell) or languages_named(cell)]
    named = [place for place in named if not is_about_pairs(fresh[place])]
    are_two = len({fresh[place].casefold() for place in named}) == len(named) == 2
    are_two = are_two and _are_above_texts([(fresh[place], below[place]) for place in named])
    if are_two and not any(langs):
        langs = [fresh[place] for place in named]
    labels = [label_of(cell, langs) for cell in fresh]
    if are_two:  # also languages that are others than those of a model
        return labels
    places = [place for place, label in enumerate(labels) if label is not None]
    if any(is_heading((fresh[a], fresh[b]), langs) for a in places for b in places if a < b):
        return labels
    if len(fresh) == 1 and is_heading(fresh, langs):
        return labels
    is_other = [_is_other(cell, under) for cell, under in zip(fresh, below, strict=True) if cell]
    is_short = all(len(cell.split()) <= _MOST_WORDS and cell[:1] != cell[:1].lower() for cell in fresh if cell)
    if len(fresh) > 2 and any(is_other) and all(fresh):
        return labels
    if not is_short or sum(map(bool, fresh)) < 2:
        return None
    named = [place for place in places if languages_named(fresh[place])]
    about = sum(is_about_pairs(fresh[place]) for place in places)
    is_sure = len(fresh) > 2 and any(cell.casefold() in _NO_TEXT for cell in fresh)
    return labels if len(named) == 1 and len(places) - about == 1 or is_sure or any(is_other) else None


def _are_above_texts(columns: Sequence[tuple[str, Sequence[str]]]) -> bool:
    """Return whether codes of languages are above texts: above another script, or above texts longer than words that
    look like codes, such as `is`, `am` and `to`."""
    are_long = (
        len(texts) >= _LEAST_BELOW and sum(map(len, texts)) >= 3 * _LEAST_BELOW * len(texts) / 4 for _, texts in columns
    )
    return any(_is_other(code, texts) for code, texts in columns) or all(are_long)


def _is_other(cell: str, below: Sequence[str]) -> bool:
    """Return whether a cell is of Latin letters above a column of numbers, or of nearly only another script."""
    filled = [one for one in below if one.strip()]
    if len(filled) < _LEAST_BELOW or script_of([cell]) != "LATIN":
        return False
    return not any(letter.isalpha() for one in filled for letter in one) or script_of(filled) not in ("LATIN", "")


def contradicts(cells: Sequence[str], langs: Sequence[str]) -> bool:
    """Return whether a heading names other sides or languages than those as which its columns are read."""
    labels = [label_of(cell, langs) for cell in cells]
    known = {language_of(lang) for lang in langs} - {None}
    for cell, lang, label in zip(cells, map(language_of, langs), labels, strict=False):
        if label is None and None not in (lang, language_of(cell)) and language_of(cell) != lang:
            return True
    return any(
        label is not None
        and language_of(langs[side]) not in label.languages  # English translation, where English is the source
        and (label.side not in (None, side) or label.side is None and label.languages and bool(known))
        for side, label in enumerate(labels)
    )


def label_of(cell: str, langs: Sequence[str]) -> Label | None:
    """Return what a cell says as a heading; None if it is a text."""
    text = cell.strip().strip('"').casefold()
    for side, lang in enumerate(langs):
        if text and text.replace("-", "_") == lang.casefold().replace("-", "_"):
            return Label(side, frozenset())
    if "_" in text.replace("-", "_") and is_code(text):
        return Label(None, frozenset({str(language_of(text))}))
    words = _WORDS.findall(text)
    if not 0 < len(words) <= _MOST_WORDS:
        return None
    roles = {side for side, of_side in enumerate(_OF_SIDES) for word in words if word in of_side}
    rest = [word for word in words if not any(word in known for known in (*_OF_SIDES, _BESIDE))]
    languages = _languages(rest, langs)
    if rest and not languages:
        return None
    if not roles:
        roles = {side for side, lang in enumerate(langs) if language_of(lang) in languages}
    return Label(roles.pop() if len(roles) == 1 else None, languages)


def _languages(words: Sequence[str], langs: Sequence[str]) -> frozenset[str]:
    """Return the languages that the words of a heading name together, or each alone, by a name or a code of `langs`."""
    if not words:
        return frozenset()
    if whole := languages_named(" ".join(words)):
        return whole
    known = {lang.casefold(): code for lang in langs if (code := language_of(lang)) is not None}
    known |= {name: code for code in (*known.values(),) for name in names_in(code, tuple(known.values()))}
    each = [languages_named(word) | {known[one] for one in (word, " ".join(words)) if one in known} for word in words]
    return frozenset.intersection(*each)


MOST_OF = 0.9
LEAST = 10
"""The number of filled rows from which a column is judged by what most of them have."""
_TITLES = 10
"""First rows in which headings are looked for: a title may stand above them."""
FILLED = 0.1
"""Share of filled rows from which a column may be a text to learn from."""
_RARE = 0.05
"""Share of the most frequent kind of pairs below which another kind is not asked about."""
_KINDS = (
    (("lexeme", "lx", "lc"), ("gloss", "ge", "gn", "gr", "g"), ("definition", "de", "dn", "dr", "d")),
    (("example", "xv"), ("translation", "xe", "xn", "xr")),
    (("text", "tx", "t"), ("free", "ft", "f", "fe", "fn"), ("literal", "lt")),
    (("word",), ("gloss",)),  # of an interlinear text without translations
)
"""Kinds of texts in a lexicon or an interlinear text, and the kinds that translate them, the best first; markers of
Toolbox by the Multi-Dictionary Formatter."""

_APART = re.compile(r" [=|:~–—-] | {3,}")
"""Signs that people write between the two sides of a list."""
Column = int | str | None
T = TypeVar("T")
_Rows = list[tuple[int, list[str]]]


@dataclass(frozen=True)
class ColumnFacts:
    """Facts about a column in the first rows. column: Its name, a number from 1 or that of a field. heading: Its
    heading. language: The code that its heading or name says. filled: Share of rows with text. numbers, same: Shares of
    these rows that have no letters, and the most frequent text. examples: Its first texts."""

    column: int | str
    heading: str
    language: str | None
    filled: float
    numbers: float
    same: float
    examples: tuple[str, ...]

    @property
    def is_text(self) -> bool:
        """Return whether it may be a text to learn from."""
        return self.filled >= FILLED and self.numbers < MOST_OF and self.same < MOST_OF

    @property
    def name(self) -> str:
        """Return its number and heading, or its name, for messages."""
        return f"{self.column} {self.heading}" if self.heading and isinstance(self.column, int) else str(self.column)


@dataclass(frozen=True)
class Look:
    """The findings of a look at a table. heading: The number of the row with headings, which is skipped with all above
    it; 0 for none. columns: All columns. chosen: Those of source and target, None if the user must choose. langs: Codes
    for these, None where nothing says one. why: The reason for the choice. kinds: For records, the pairs of columns
    that translate one another, with their number in the first records."""

    heading: int
    columns: tuple[ColumnFacts, ...]
    chosen: tuple[int | str, ...] | None
    langs: tuple[str | None, ...] = (None, None)
    why: str = ""
    kinds: tuple[tuple[str, str, int], ...] = ()

    def question(self, path: str) -> str:
        """Return the error that asks for the columns."""
        if self.kinds:
            found = ", ".join(f"{a},{b} ({count:,} of the first records)" for a, b, count in self.kinds)
            return f"{path}: must have one kind of pairs, got several; choose with --columns: {found}"
        if not self.columns:
            return f"{path}: must have two columns with text, got an empty table; give another file"
        texts = [one for one in self.columns if one.is_text] or list(self.columns)
        shown = ", ".join(f"{one.name} ({one.examples[0][:30] if one.examples else 'empty'})" for one in texts[:12])
        if len(self.columns) < 2:
            signs = {found[0] for one in texts[0].examples for found in [_APART.search(one)] if found}
            advice = f"put a tab in the place of {signs.pop()!r}" if len(signs) == 1 else "name a table that has both"
            return f"{path}: must have two columns, got one, {shown}; {advice}"
        first = ",".join(str(one.column) for one in texts[:2])
        return (
            f"{path}: must have two columns with text, got {len(texts)}: {shown}; choose source and target, as with "
            f"--columns {first}, or keep these two alone"
        )


@while_unchanged(64)
def look(
    path: str,
    langs: tuple[str | None, ...] = (None, None),
    columns: tuple[Column, ...] = (None, None),
    header: bool | None = None,
    sheet: str | None = None,
) -> Look:
    """Return what the first rows of a table say, a grid or records (`readers.GRIDS`, `readers.RECORDS`).

    langs: Codes of the sides, as far as they are known; of one side for a text of one language. columns: Their columns,
    numbers or headings, as far as they are named. header: Whether the first row has headings; None finds out.

    Raises DataError if the file cannot be read, or lacks a named column.
    """
    form = form_of(path)
    if form in RECORDS:
        return _look_at_records(path, form, langs, columns)
    rows = [*islice(GRIDS[form](path, sheet, True), LOOKED_AT)]
    width = max((len(cells) for _, cells in rows), default=0)
    table = [(number, cells + [""] * (width - len(cells))) for number, cells in rows]
    codes = [lang or "" for lang in langs]
    columns = _columns_named(path, table[: 1 if form in OBJECTS else _TITLES], columns, 0 if form in OBJECTS else width)
    if form in OBJECTS:
        heading, labels = 0, [label_of(_last(name), codes) for name in table[0][1]]
        columns = _keys(table[0][1], langs, columns)
    else:
        heading, labels = _heading(table, [one for one in columns if isinstance(one, str)], codes, header)
    names = next((cells for number, cells in table if number == heading), [""] * width)
    below = [cells for number, cells in table if number > heading and any(map(str.strip, cells))]
    facts = tuple(
        _facts(
            place + 1, name.strip(), code_named(_last(name)) if form in OBJECTS else None, [row[place] for row in below]
        )
        for place, name in enumerate(names)
    )
    headings = [one.heading for one in facts]
    chosen = [headings.index(column) + 1 if isinstance(column, str) else column for column in columns]
    why = ""
    if set(columns) == {None}:
        chosen, why = _chosen(facts, labels, codes)
    elif None in chosen:
        raise DataError(f"{path}: must have a column named for each side, or none, got {columns}; name the other one")
    texts = [[cells[place - 1] for cells in below] if place is not None else [] for place in chosen]
    found = tuple(
        lang or (None if place is None else facts[place - 1].language or language_by_text(lines))
        for lang, place, lines in zip(langs, chosen, texts, strict=True)
    )
    known = tuple(place for place in chosen if place is not None)
    return Look(heading, facts, known if len(known) == len(chosen) else None, found, why)


def _keys(names: Sequence[str], langs: Sequence[str | None], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns of objects: where none is named, the key that is the code of the side, or translation.CODE."""
    found = tuple(
        next((key for key in (lang, f"translation.{lang}") if key in names), None) if column is None else column
        for lang, column in zip(langs, columns, strict=True)
    )
    return columns if None in found else found


def _last(key: str) -> str:
    """Return the key inside: b of a.b."""
    return key.rpartition(".")[2]


def _heading(table: _Rows, named: list[str], codes: list[str], header: bool | None) -> tuple[int, list[Label | None]]:
    """Return the number of the row with headings, 0 for none, and what its cells mean."""
    found: tuple[int, list[Label | None]] = (0, [])
    for place, (number, cells) in enumerate(table[:_TITLES]):
        filled = sum(map(bool, map(str.strip, cells)))
        if named:
            if not set(named) <= set(map(str.strip, cells)):
                continue
        elif header is False or filled < min(2, len(codes)):
            continue
        under = [other for _, other in table[place + 1 :] if other != cells]  # headings may come again
        labels = heading_labels(cells, [[other[column] for other in under] for column in range(len(cells))], codes)
        if found[0] and sum(label is not None and bool(label.languages) for label in labels or ()) < 2:
            break  # below roles, as source and target, may stand their languages
        if labels is None and not header and not named:
            break
        found = number, labels or [label_of(cell, codes) for cell in cells]
        if named or any(label is not None and label.languages for label in found[1]):
            break
    return found


def _facts(column: int | str, heading: str, language: str | None, texts: list[str]) -> ColumnFacts:
    """Return the facts about a column."""
    filled = [text.strip() for text in texts if text.strip()]
    digits = sum(not any(map(str.isalpha, text)) for text in filled)
    most = Counter(filled).most_common(1)[0][1] if len(filled) >= LEAST else 0
    shares = (len(filled) / max(1, len(texts)), digits / max(1, len(filled)), most / max(1, len(filled)))
    return ColumnFacts(
        column, heading, language or code_named(heading) if heading else language, *shares, tuple(filled[:3])
    )


def name_among(name: T, names: Collection[str]) -> T | str:
    """Return the name of a column as it is among others, where one is like it but for case; else as it is."""
    if name in names or not isinstance(name, str):
        return name
    alike = {one for one in names if one.casefold() == name.casefold()}
    return alike.pop() if len(alike) == 1 else name


def _columns_named(path: str, rows: _Rows, columns: tuple[Column, ...], letters: int) -> tuple[Column, ...]:
    """Return the columns by the first row that has most of those that are named, in any case. In the first row of cells
    a name comes before the letter that a spreadsheet gives to one of `letters` columns: A, B and so on. Raises
    DataError if a column is missing."""
    best: tuple[int, list[Column], list[str]] = (-1, [*columns], [])
    is_first = True
    for _, row in rows:
        cells = [cell.strip() for cell in row]
        both = [(name_among(column, cells), _of_letters(column, letters)) for column in columns]
        found = [name if name in cells and (is_first or not isinstance(n, int)) else n for name, n in both]
        if (count := sum(one in cells for one in found)) > best[0] or sum(map(bool, best[2])) < 2:
            best = count, found, cells
        is_first = is_first and sum(map(bool, cells)) < 2
    _, found, cells = best
    for column in found:
        if isinstance(column, str) and column not in cells or isinstance(column, int) and column > len(cells) > 0:
            shown = ", ".join(filter(None, cells))[:200] or "an empty table"
            raise DataError(f"{path}: must have the column {column}, got {shown}; name one of these, or give a number")
    return tuple(found)


def _of_letters(column: Column, most: int) -> Column:
    """Return the number of a column that a spreadsheet calls A to ZZ, if it is at most `most`; others as they are."""
    if not isinstance(column, str) or not re.fullmatch("[A-Za-z]{1,2}", column):
        return column
    number = column_of(column.upper().encode())
    return number if number <= most else column


def _chosen(
    facts: tuple[ColumnFacts, ...], labels: list[Label | None], codes: list[str]
) -> tuple[list[int | None], str]:
    """Return the columns of the sides, or None for each, and what the choice follows."""
    texts = [place for place, one in enumerate(facts) if one.is_text]
    if len(texts) < 2:
        texts = [place for place, one in enumerate(facts) if one.filled >= FILLED]
    if len(codes) == 1:
        return [1], ""
    sides: list[list[int]] = []
    known = [(place, label) for place, label in enumerate(labels) if label is not None]
    for side, code in enumerate(map(language_of, codes)):
        named = [place for place, label in known if code is not None and code in label.languages]
        sides.append(named or [place for place, label in known if label.side == side])
    if not any(codes):
        named = [place for place in texts if facts[place].language is not None]
        if len({facts[place].language for place in named}) == len(named) == 2:
            named.sort(key=lambda place: (place in sides[1]) - (place in sides[0]))
            return [place + 1 for place in named], "by the headings"
    if len(sides[0]) == len(sides[1]) == 1 and sides[0] != sides[1]:
        return [sides[0][0] + 1, sides[1][0] + 1], "by the headings"
    others = [place for place in texts if is_about_pairs(facts[place].heading)]
    if len(texts) - len(others) == 2:
        texts = [place for place in texts if place not in others]
        why = "the only ones with text" if len(facts) > 2 else ""
        why += f" besides {' and '.join(facts[place].heading for place in others)}" if others else ""
        one = next((place for place in texts if [place] in sides), None)
        first = texts[0] if one is None else one if [one] == sides[0] else sum(texts) - one
        return [first + 1, sum(texts) - first + 1], why
    return ([1, 2], "") if len(facts) == 2 else ([None, None], "")


def _look_at_records(path: str, form: str, langs: tuple[str | None, ...], columns: tuple[Column, ...]) -> Look:
    """Return what a look at the first records tells."""
    records = [fields for _, fields in islice(RECORDS[form](path), LOOKED_AT)]
    texts: dict[str, list[str]] = {}
    for fields in records:
        for name, text in fields:
            texts.setdefault(name, []).append(text)
    facts = tuple(_facts(name, "", _language_of_field(form, name), lines) for name, lines in texts.items())
    if not facts:
        raise DataError(f"{path}: must have records with texts, got none; name another file")
    columns = tuple(name_among(column, texts) for column in columns)
    for column in columns:
        if column is not None and column not in texts:
            shown = ", ".join(list(texts)[:20])
            raise DataError(f"{path}: must have the field {column}, got {shown}; name one of these")
    names = [str(column) for column in columns if column is not None]
    kinds: list[tuple[str, str, int]] = []
    if not names and len(langs) == 2:
        counts = {pair: 0 for pair in _pairs(form, list(texts), langs)}
        for pair in counts:
            counts[pair] = sum(all(found) for fields in records for found in paired(fields, pair))
        least = _RARE * max(counts.values(), default=0)
        if not (kinds := [(*pair, count) for pair, count in counts.items() if count > least]):
            wanted = " and ".join(lang for lang in langs if lang) or "pairs of known kinds"
            raise DataError(
                f"{path}: must have texts of {wanted}, got {', '.join(list(texts)[:20])}; name two with --columns"
            )
        names = [*kinds[0][:2]] if len(kinds) == 1 else []
    found = tuple(
        lang or _language_of_field(form, name) or language_by_text(texts[name])
        for lang, name in zip(langs, names, strict=False)
    )
    why = "the only kind of pairs" if kinds and len(facts) > 2 else ""
    return Look(0, facts, tuple(names) or None, found or langs, why, tuple(kinds))


def _pairs(form: str, names: list[str], langs: tuple[str | None, ...]) -> list[tuple[str, str]]:
    """Return the pairs of fields that may translate one another, in the direction of the languages."""
    found: list[tuple[str, str]] = []
    if form == "tmx":
        found = [(a, b) for a, b in product(names, names) if a != b and (any(langs) or names.index(a) < names.index(b))]
    for heads, *others in _KINDS if form != "tmx" else ():
        of_kind = [[name for name in names if name.partition(":")[0] in kinds] for kinds in (heads, *others)]
        if not found or heads != ("word",):
            found += product(of_kind[0], next(filter(None, of_kind[1:]), []))
    fitting = []
    for pair in found:
        for one in (pair, pair[::-1]):
            fits = [
                None in (code, lang) or language_of(str(code)) == language_of(str(lang))
                for code, lang in zip([_language_of_field(form, name) for name in one], langs, strict=True)
            ]
            if all(fits):
                fitting.append(one)
                break
    return list(dict.fromkeys(fitting))


def _language_of_field(form: str, name: str) -> str | None:
    """Return the language that the name of a field says."""
    if form == "sfm":
        return "en" if name in ("ge", "de", "xe", "fe") else None
    code = name if form == "tmx" else name.partition(":")[2]
    head = re.split("[-_]", code)[0]  # OmegaT writes EN
    return head.lower() + code[len(head) :] or None


def columns_advice(path: str) -> str:
    """Return how to name the columns of a table, by an example of the option and of the settings."""
    src, tgt = ("2", "3") if form_of(path) in GRIDS else ("NAME", "OTHER")
    example = f"data: {{train: [{{path: {path}, src_column: {src}, tgt_column: {tgt}}}], ...}}"
    return f"name the columns of source and target: --columns {src},{tgt}, or in a config {example}"
