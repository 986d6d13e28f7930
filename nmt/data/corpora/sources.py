"""Read pairs of lines from two parallel files or from the rows of a table; a corpus may match a pattern of several
files.

Formats: lines of text; verses of two books in USFM; tables of cells and records of fields (`nmt.data.tables`); JSON
lines (jsonlines.org); Parquet, by pyarrow. Whatever is not a pair is a DataError that names file and row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from glob import escape, glob, has_magic
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nmt.data.corpora.looking import Column, Look, columns_advice, look
from nmt.data.tables.marked import usfm_rows
from nmt.data.tables.readers import GRIDS, OBJECTS, RECORDS, form_of_two, paired
from nmt.data.tables.readers import form_of as format_of
from nmt.data.tokens.factors import with_features
from nmt.errors import DataError, NMTError
from nmt.system.lines import PACKED, STDIN, Lines, check_is_lines, open_lines, read_lines, text_file
from nmt.system.paths import is_folder

if TYPE_CHECKING:
    from nmt.config import CorpusConfig

Row = tuple[str | None, ...]
"""The lines of all sides; None for a file that has ended before the others."""


@dataclass(frozen=True)
class Source:
    """A corpus as the settings name it (see `CorpusConfig`): prefix, table or pattern, columns, weight and tag."""

    path: str
    columns: tuple[Column, Column] = (None, None)
    weight: float = 1.0
    tag: str | None = None
    tgt_path: str | None = None
    features: int | None = None
    header: bool | None = None
    sheet: str | None = None

    def parts(self, langs: Sequence[str]) -> list[CorpusPart]:
        """Return the files of the corpus in order, for the languages of both sides or of one. Raises DataError if one
        is missing, or if none matches the pattern."""
        if self.tgt_path is not None:
            files = (self.path, self.tgt_path)
            return [CorpusPart(form_of_two(files), files[-len(langs) :], tuple(langs))]
        form = format_of(self.path)
        if form == "lines":
            return [
                CorpusPart(form, tuple(f"{prefix}.{lang}" for lang in langs)) for prefix in self._prefixes(langs[0])
            ]
        columns = self.columns[-len(langs) :]
        found = sorted(glob(self.path, recursive=True)) if has_magic(self.path) else [str(text_file(self.path))]
        if not found:
            raise DataError(f"{self.path}: no such file; give a pattern that matches one")
        features = self.features if len(langs) == 2 else None
        how = features, self.header, self.sheet
        return [CorpusPart(form, (file,) * len(langs), tuple(langs), columns, *how) for file in found]

    def check(self, langs: Sequence[str]) -> None:
        """Raise DataError if a file is missing, or is both source and target, which only a corpus with a tag may be."""
        self.check_prefix(langs)
        for part in self.parts(langs):
            part.check()
            if part.form == "lines" and len(part.files) == 2 and self.tag is None:
                check_two_files(*part.files)

    def check_prefix(self, langs: Sequence[str]) -> None:
        """Raise DataError if the settings name one of the two files, or a folder, instead of their prefix."""
        is_prefix = self.tgt_path is None and format_of(self.path) == "lines" and not has_magic(self.path)
        if not is_prefix or not (is_folder(Path(self.path)) or Path(self.path).is_file()):
            return
        if any(Path(f"{self.path}.{lang}{packed}").is_file() for lang in langs for packed in ("", *PACKED)):
            return
        if is_folder(Path(self.path)):
            text_file(self.path)  # which says what is in it
        plain = self.path
        for ending in (*PACKED, *(f".{lang}" for lang in langs)):
            plain = plain.removesuffix(ending)
        raise DataError(
            f"{self.path}: must be a prefix, P for {' and '.join(f'P.{lang}' for lang in langs)}, got a file; "
            + (f"write {plain}" if plain != self.path else "name the files so, or give a table, NAME.tsv")
        )

    def _prefixes(self, lang: str) -> list[str]:
        """Return the prefix itself, or the prefixes that match the pattern."""
        if not has_magic(self.path):
            return [self.path]
        ends = [f".{lang}{packed}" for packed in ("", *PACKED)]
        found = {file.removesuffix(end) for end in ends for file in glob(self.path + escape(end), recursive=True)}
        if not found:
            raise DataError(
                f"{self.path}: must match a prefix of files of {lang}, got no {self.path}.{lang}; give one that does"
            )
        return sorted(found)


def sources_of(corpora: str | Sequence[CorpusConfig]) -> list[Source]:
    """Return the sources that data.train or a similar setting names by a prefix or a list of corpora."""
    if isinstance(corpora, str):
        return [Source(corpora)]
    return [
        Source(c.path, (c.src_column, c.tgt_column), c.weight, c.tag, c.tgt_path, c.features_column, c.header, c.sheet)
        for c in corpora
    ]


def name_of(corpora: str | Sequence[CorpusConfig]) -> str:
    """Return the name of one or several corpora, for messages."""
    return ", ".join(source.path for source in sources_of(corpora))


def check_sources(corpora: str | Sequence[CorpusConfig], langs: Sequence[str]) -> None:
    """Raise DataError if a file of the corpora is missing."""
    for source in sources_of(corpora):
        source.check(langs)


def are_one_file(one: str, other: str) -> bool:
    """Return whether two names of texts are those of one file, by any link."""
    if STDIN in (one, other):
        return False
    try:
        return text_file(one).samefile(text_file(other))
    except (OSError, NMTError):  # reported by the reader
        return False


def check_two_files(one: str, other: str) -> None:
    """Raise DataError if source and target are one file of lines: no text is a translation of itself."""
    if are_one_file(one, other):
        names = one if one == other else f"{one}, {other}"
        raise DataError(f"{names}: must be two files, source and target, got one file twice; name the other one")


@dataclass(frozen=True)
class CorpusPart:
    """Files whose rows belong together.

    form: lines, usfm, or the kind of table. files: The file of each side; for a table, the same file for each side.
    langs, columns: For a table, the codes of the sides and the columns of their texts; None finds a column (see `look`;
    in objects, by the code). features: The column, from 1, with features of the first side's word (see
    `with_features`). header, sheet: See `look`.
    """

    form: str
    files: tuple[str, ...]
    langs: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    features: int | None = None
    header: bool | None = None
    sheet: str | None = None

    def check(self) -> None:
        """Raise DataError if a file is missing, or begins as markup does instead of lines."""
        for file in dict.fromkeys(self.files):
            text_file(file)
            if self.form == "lines":
                check_is_lines(file, data=False)
                if len(self.files) == 2 and format_of(file) != "lines":
                    raise DataError(
                        f"{file}: must be lines of text, one sentence per line, got a table by its name; give one "
                        "table with both sides; docs/tables.md has a config for several"
                    )

    @property
    def look(self) -> Look | None:
        """Return what a look at a table of cells or fields tells; None of others."""
        if self.form not in (*GRIDS, *RECORDS):
            return None
        return look(self.files[0], self.langs, self.columns, self.header, self.sheet)

    def rows(self, *, lenient: bool = False) -> Iterator[Row]:
        """Yield the lines of all sides, row by row, with None for a file that has ended.

        lenient: Return bytes that are not UTF-8 as lone surrogates.

        Raises DataError, which names file and row, for a row that is not valid.
        """
        if self.form == "lines":
            return zip_longest(*(read_lines(file, lenient=lenient) for file in self.files))
        if self.form == "usfm":
            return usfm_rows(self.files)
        found = cast(Look, self.look)
        return self._cells(found, lenient) if self.form in GRIDS else self._fields(found)

    def _fields(self, found: Look) -> Iterator[Row]:
        """Yield the texts of records."""
        if found.chosen is None:
            raise DataError(found.question(self.files[0]))
        for _, fields in RECORDS[self.form](self.files[0]):
            yield from paired(fields, [str(name) for name in found.chosen])

    def _cells(self, found: Look, lenient: bool) -> Iterator[Row]:
        """Yield the cells of a table. The first columns are read if nothing tells others, but not of objects."""
        if found.chosen is None and self.form in OBJECTS:
            raise DataError(found.question(self.files[0]))
        places = [int(column) - 1 for column in found.chosen or range(1, len(self.langs) + 1)]
        least = max([*places, (self.features or 1) - 1]) + 1
        heads = found.columns if found.heading else ()
        names = [heads[place].heading for place in places if place < len(heads)]
        for number, cells in GRIDS[self.form](self.files[0], self.sheet, lenient):
            if number <= found.heading:
                continue
            if len(cells) < least and not any(map(str.strip, cells)):
                yield ("",) * len(places)  # like a blank line in both files: an empty pair, which training drops
                continue
            if len(cells) < least:
                raise DataError(
                    f"{self.files[0]}: line {number} must have at least {least} cells, got {len(cells)}; correct the "
                    f"line, or {columns_advice(self.files[0])}"
                )
            row = [cells[place] for place in places]
            if row == names:  # headings that come again, as on each page
                row = [""] * len(row)
            if self.features is not None:
                row[0] = with_features(row[0], cells[self.features - 1])
            yield tuple(row)


def side_lines(path: str, side: int, langs: Sequence[str], **how: Any) -> Lines[str]:
    """Return the lines of a text (see `open_lines`), or one side of a table: 0 for the source, 1 for the target. `how`:
    columns, header and sheet of `Source`. Raises DataError, also if its columns must be named."""
    if format_of(path) == "lines":
        return open_lines(path)
    (part,) = Source(path, **how).parts(langs)
    found = part.look
    if found is not None and len(found.columns) == 1 and part.columns == (None, None):
        part = replace(part, files=part.files[:1], langs=(langs[side],), columns=(1,))
    elif found is not None and found.chosen is None:
        raise DataError(found.question(path))
    return Lines(str(row[min(side, len(row) - 1)]) for row in part.rows())


def pair_chunks(part: CorpusPart, size: int) -> Iterator[list[tuple[str, ...]]]:
    """Yield rows in lists of at most `size`. Raises DataError at the end if files differ in length."""
    rows = part.rows()
    total = 0
    while chunk := list(islice(rows, size)):
        whole = [cast(tuple[str, ...], row) for row in chunk if None not in row]
        total += len(whole)
        if len(whole) < len(chunk):
            more = len(chunk) - len(whole) + sum(1 for _ in rows)
            counts = (total, total + more) if chunk[-1][0] is None else (total + more, total)
            raise DataError(
                f"{part.files[0]}, {part.files[-1]}: must have the same number of lines, got {counts[0]} and "
                f"{counts[1]}; line n of one must translate line n of the other"
            )
        yield whole
