"""Read pairs of lines from two parallel files or from the rows of a table; a corpus may match a pattern of several
files.

Formats: lines of text; TSV, whose cells are separated by tabs (no quotes, as in all large parallel corpora); JSON lines
(jsonlines.org); Parquet, by pyarrow. Whatever is not a pair is a DataError that names file and row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from glob import escape, glob, has_magic
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from nmt.errors import DataError
from nmt.system.files import explain
from nmt.system.lines import PACKED, read_lines, text_file

if TYPE_CHECKING:
    from nmt.config import CorpusConfig

_FORMATS = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_ROWS = 4096
"""The number of Parquet rows read at once."""

Column = int | str | None
Row = tuple[str | None, ...]
"""The lines of all sides; None for a file that has ended before the others."""


@dataclass(frozen=True)
class Source:
    """A corpus as the settings name it: prefix, table or pattern, the columns of source and target, and how its pairs
    are used (see `CorpusConfig`)."""

    path: str
    columns: tuple[Column, Column] = (None, None)
    weight: float = 1.0
    tag: str | None = None

    def parts(self, langs: Sequence[str]) -> list[Part]:
        """Return the files of the corpus in order, for the languages of both sides or of one.

        Raises DataError if one is missing, or if none matches the pattern.
        """
        form = format_of(self.path)
        if form == "lines":
            return [LineFiles(tuple(f"{prefix}.{lang}" for lang in langs)) for prefix in self._prefixes(langs[0])]
        columns = self.columns[-len(langs) :]
        numbered = [number for number, _ in enumerate(langs, start=1)]
        found = sorted(glob(self.path, recursive=True)) if has_magic(self.path) else [str(text_file(self.path))]
        if not found:
            raise DataError(f"{self.path}: must match a file, got nothing there; give a pattern that does")
        chosen: list[Column] = [
            column if column is not None else numbered[side] if form == "tsv" else None
            for side, column in enumerate(columns)
        ]
        if form == "tsv" and len({isinstance(column, int) for column in chosen}) > 1:
            raise DataError(f"{self.path}: must have columns that are all numbers or all names, got {_listed(chosen)}")
        return [_TABLES[form](file, tuple(langs), tuple(chosen)) for file in found]

    def check_prefix(self, langs: Sequence[str]) -> None:
        """Raise DataError if the settings name one of the two files instead of their prefix."""
        if format_of(self.path) != "lines" or has_magic(self.path) or not Path(self.path).is_file():
            return
        if any(_is_text(f"{self.path}.{lang}") for lang in langs):
            return
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
    return [Source(one.path, (one.src_column, one.tgt_column), one.weight, one.tag) for one in corpora]


def name_of(corpora: str | Sequence[CorpusConfig]) -> str:
    """Return the name of one or several corpora, for messages."""
    return ", ".join(source.path for source in sources_of(corpora))


def check_sources(corpora: str | Sequence[CorpusConfig], langs: Sequence[str]) -> None:
    """Raise DataError if a file of the corpora is missing."""
    for source in sources_of(corpora):
        source.check_prefix(langs)
        for part in source.parts(langs):
            part.check()


def _is_text(path: str) -> bool:
    return any(Path(f"{path}{packed}").is_file() for packed in ("", *PACKED))


def format_of(path: str) -> str:
    """Return the format of a corpus, judged by its name: lines, or a kind of table."""
    plain = Path(path)
    if plain.suffix in PACKED:
        plain = plain.with_suffix("")
    return _FORMATS.get(plain.suffix, "lines")


class Part(Protocol):
    """Files whose rows belong together."""

    @property
    def files(self) -> tuple[str, ...]:
        """Return the file of each side; for a table, the same file for each side."""

    def check(self) -> None:
        """Raise DataError if a file is missing."""

    def rows(self, *, lenient: bool = False) -> Iterator[Row]:
        """Yield the lines of all sides, row by row, with None for a file that has ended.

        lenient: Return bytes that are not UTF-8 as lone surrogates.

        Raises DataError, which names file and row, for a row that is not valid.
        """


@dataclass(frozen=True)
class LineFiles:
    """One file for each side, with one sentence per line. See `Part`."""

    files: tuple[str, ...]

    def check(self) -> None:
        """Raise DataError if a file is missing."""
        for file in self.files:
            text_file(file)

    def rows(self, *, lenient: bool = False) -> Iterator[Row]:
        """Yield the rows (see `Part`)."""
        return zip_longest(*(read_lines(file, lenient=lenient) for file in self.files))


@dataclass(frozen=True)
class _Table:
    """A file with one pair per row. See `Part`.

    langs: The codes of the sides. columns: The columns of their texts; None finds them by the code.
    """

    file: str
    langs: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """Return the file once for each side."""
        return (self.file,) * len(self.langs)

    def check(self) -> None:
        """Raise DataError if the file is missing."""
        text_file(self.file)

    def _texts(self, number: int, record: Any) -> Row:
        """Return the texts of a row that is an object. Raises DataError if one is missing or is not text."""
        found = []
        for lang, column in zip(self.langs, self.columns, strict=True):
            keys = [lang, f"translation.{lang}"] if column is None else [str(column)]
            values = [value for key in keys if (value := _value(record, key)) is not None]
            if not values or not isinstance(values[0], str):
                fact = f"{type(values[0]).__name__} {str(values[0])[:40]!r}" if values else f"none, but {_keys(record)}"
                raise DataError(
                    f"{self.file}: row {number} must have text in {' or '.join(keys)}, got {fact}; "
                    "name it src_column and tgt_column of its corpus, or correct the row"
                )
            found.append(_one_line(values[0]))
        return tuple(found)


class Tsv(_Table):
    """A text file with one row per line, whose cells are separated by tabs."""

    def rows(self, *, lenient: bool = False) -> Iterator[Row]:
        """Yield the rows (see `Part`)."""
        lines = read_lines(self.file, lenient=lenient)
        named = isinstance(self.columns[0], str)
        places = self._named(next(lines, "")) if named else [int(cast(int, column)) - 1 for column in self.columns]
        least = max(places) + 1
        for number, line in enumerate(lines, start=1 + named):
            cells = line.split("\t")
            if len(cells) < least and not line.strip():
                yield ("",) * len(places)  # like a blank line in both files: an empty pair, which training drops
                continue
            if len(cells) < least:
                raise DataError(
                    f"{self.file}: line {number} must have at least {least} cells between tabs, got {len(cells)}; "
                    "correct the line, or name other columns"
                )
            yield tuple(cells[place] for place in places)

    def _named(self, line: str) -> list[int]:
        """Return the positions of the columns, found by the names in the first line."""
        names = line.split("\t")
        for column in self.columns:
            if column not in names:
                raise DataError(
                    f"{self.file}: line 1 must name the column {column}, got {_listed(names)}; "
                    "name one of them, or give its number"
                )
        return [names.index(str(column)) for column in self.columns]


class JsonLines(_Table):
    """A file with one JSON object per line."""

    def rows(self, *, lenient: bool = False) -> Iterator[Row]:
        """Yield the rows (see `Part`)."""
        for number, line in enumerate(read_lines(self.file, lenient=lenient), start=1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"{self.file}: line {number} must be a JSON object, got something else ({error}); correct the line"
                ) from None
            yield self._texts(number, record)


class Parquet(_Table):
    """A Parquet table."""

    def rows(self, *, lenient: bool = False) -> Iterator[Row]:
        """Yield the rows (see `Part`)."""
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise DataError(
                f"{self.file}: needs the extra [parquet] to be read; pip install 'recurrent-nmt[parquet]'"
            ) from None
        with ExitStack() as stack:
            try:
                table = stack.enter_context(pyarrow.parquet.ParquetFile(self.file))
                names = table.schema_arrow.names
                columns = [name for name in names if self._may_have(name)]
                number = 0
                for batch in table.iter_batches(_ROWS, columns=columns or names):
                    for record in batch.to_pylist():
                        number += 1
                        yield self._texts(number, record)
            except (pyarrow.ArrowException, OSError) as error:
                raise DataError(
                    f"{self.file}: must be a Parquet file, got one that cannot be read ({explain(error)}); "
                    "copy it again"
                ) from None

    def _may_have(self, name: str) -> bool:
        """Return whether a column may contain the text that is needed."""
        if None in self.columns and name in (*self.langs, "translation"):
            return True
        return any(name == column or str(column).startswith(f"{name}.") for column in self.columns)


_TABLES: dict[str, type[Tsv] | type[JsonLines] | type[Parquet]] = {
    "tsv": Tsv,
    "jsonl": JsonLines,
    "parquet": Parquet,
}


def pair_chunks(part: Part, size: int) -> Iterator[list[tuple[str, ...]]]:
    """Yield the rows of a part in lists of at most `size`. Raises DataError at the end if the files have different
    numbers of lines."""
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


def _value(record: Any, key: str) -> Any:
    """Return the value of a key, or None; the key may be `a.b` for a key inside another object."""
    if not isinstance(record, dict):
        return None
    if key in record:
        return record[key]
    first, _, rest = key.partition(".")
    return _value(record.get(first), rest) if rest else None


def _one_line(text: str) -> str:
    """Return a text as a single line: its line breaks become spaces, because files of lines could not represent
    them."""
    return text.replace("\r\n", " ").replace("\n", " ") if "\n" in text else text


def _keys(record: Any) -> str:
    return _listed(list(record)) if isinstance(record, dict) else f"a {type(record).__name__}"


def _listed(names: Sequence[Any]) -> str:
    """Return names as text for a message; of many only the first."""
    return ", ".join(str(name)[:40] for name in names[:8]) + (", ..." if len(names) > 8 else "") if names else "nothing"
