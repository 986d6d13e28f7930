"""Read pairs of lines from two parallel files or from the rows of a table; a corpus may match a pattern of several
files.

Formats: lines of text; TSV, whose cells are separated by tabs (no quotes, as in all large parallel corpora); JSON lines
(jsonlines.org); Parquet, by pyarrow. Whatever is not a pair is a DataError that names file and row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import escape, glob, has_magic
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nmt.data.corpora.headings import is_heading
from nmt.data.tokens.features import with_features
from nmt.errors import DataError, NMTError
from nmt.system.extras import how_to_install
from nmt.system.files import explain
from nmt.system.lines import PACKED, STDIN, check_is_lines, read_lines, text_file, without_packing

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
    """A corpus as the settings name it (see `CorpusConfig`): prefix, table or pattern, columns, weight and tag."""

    path: str
    columns: tuple[Column, Column] = (None, None)
    weight: float = 1.0
    tag: str | None = None
    tgt_path: str | None = None
    features: int | None = None

    def parts(self, langs: Sequence[str]) -> list[Part]:
        """Return the files of the corpus in order, for the languages of both sides or of one.

        Raises DataError if one is missing, or if none matches the pattern.
        """
        if self.tgt_path is not None:
            return [Part("lines", (self.path, self.tgt_path)[-len(langs) :])]
        form = format_of(self.path)
        if form == "lines":
            return [Part(form, tuple(f"{prefix}.{lang}" for lang in langs)) for prefix in self._prefixes(langs[0])]
        columns = self.columns[-len(langs) :]
        numbered = [number for number, _ in enumerate(langs, start=1)]
        found = sorted(glob(self.path, recursive=True)) if has_magic(self.path) else [str(text_file(self.path))]
        if not found:
            raise DataError(f"{self.path}: no such file; give a pattern that matches one")
        chosen: list[Column] = [
            column if column is not None else numbered[side] if form == "tsv" else None
            for side, column in enumerate(columns)
        ]
        if form == "tsv" and len({isinstance(column, int) for column in chosen}) > 1:
            raise DataError(f"{self.path}: must have columns that are all numbers or all names, got {_listed(chosen)}")
        features = self.features if len(langs) == 2 else None
        return [Part(form, (file,) * len(langs), tuple(langs), tuple(chosen), features) for file in found]

    def check(self, langs: Sequence[str]) -> None:
        """Raise DataError if a file is missing, or is both source and target, which only a corpus with a tag may be."""
        self.check_prefix(langs)
        for part in self.parts(langs):
            part.check()
            if part.form == "lines" and len(part.files) == 2 and self.tag is None:
                check_two_files(*part.files)

    def check_prefix(self, langs: Sequence[str]) -> None:
        """Raise DataError if the settings name one of the two files instead of their prefix."""
        is_prefix = self.tgt_path is None and format_of(self.path) == "lines" and not has_magic(self.path)
        if not is_prefix or not Path(self.path).is_file():
            return
        if any(Path(f"{self.path}.{lang}{packed}").is_file() for lang in langs for packed in ("", *PACKED)):
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
    return [
        Source(one.path, (one.src_column, one.tgt_column), one.weight, one.tag, one.tgt_path, one.features_column)
        for one in corpora
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


def columns_advice(path: str) -> str:
    """Return how to name the columns of a table, by an example of the settings."""
    src, tgt = ("2", "3") if format_of(path) == "tsv" else ("NAME", "OTHER")
    example = f"data: {{train: [{{path: {path}, src_column: {src}, tgt_column: {tgt}}}], ...}}"
    return f"name the columns of source and target in a config, {example}"


def format_of(path: str) -> str:
    """Return the format of a corpus, judged by its name: lines, or a kind of table."""
    return _FORMATS.get(without_packing(path).suffix, "lines")


@dataclass(frozen=True)
class Part:
    """Files whose rows belong together.

    form: lines, or the kind of table. files: The file of each side; for a table, the same file for each side. langs,
    columns: For a table, the codes of the sides and the columns of their texts; None finds a column by the code.
    features: The column, from 1, with features of the first side's word (see `with_features`).
    """

    form: str
    files: tuple[str, ...]
    langs: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    features: int | None = None

    def check(self) -> None:
        """Raise DataError if a file is missing, or begins as markup does instead of lines."""
        for file in dict.fromkeys(self.files):
            text_file(file)
            if self.form == "lines":
                check_is_lines(file, data=False)

    @property
    def heading(self) -> tuple[str, ...] | None:
        """Return the cells of source and target in the first line of a table with tabs, if these are headings (see
        `is_heading`), although its columns have numbers; otherwise None."""
        if self.form != "tsv" or isinstance(self.columns[0], str):
            return None
        cells = next(read_lines(self.files[0], lenient=True), "").split("\t")
        places = [int(cast(int, column)) - 1 for column in self.columns]
        if max(places) >= len(cells):
            return None
        found = tuple(cells[place] for place in places)
        return found if is_heading(found, self.langs) else None

    def rows(self, *, lenient: bool = False) -> Iterator[Row]:
        """Yield the lines of all sides, row by row, with None for a file that has ended.

        lenient: Return bytes that are not UTF-8 as lone surrogates.

        Raises DataError, which names file and row, for a row that is not valid.
        """
        if self.form == "parquet":
            return self._parquet_rows()
        if self.form == "lines":
            return zip_longest(*(read_lines(file, lenient=lenient) for file in self.files))
        lines = read_lines(self.files[0], lenient=lenient)
        return self._tsv_rows(lines) if self.form == "tsv" else self._json_rows(lines)

    def _tsv_rows(self, lines: Iterator[str]) -> Iterator[Row]:
        """Yield the rows of a table whose cells are separated by tabs."""
        named = isinstance(self.columns[0], str)
        places = self._named(next(lines, "")) if named else [int(cast(int, column)) - 1 for column in self.columns]
        least = max([*places, (self.features or 1) - 1]) + 1
        if has_heading := self.heading is not None:
            next(lines)
        for number, line in enumerate(lines, start=1 + named + has_heading):
            cells = line.split("\t")
            if len(cells) < least and not line.strip():
                yield ("",) * len(places)  # like a blank line in both files: an empty pair, which training drops
                continue
            if len(cells) < least:
                raise DataError(
                    f"{self.files[0]}: line {number} must have at least {least} cells between tabs, got {len(cells)}; "
                    f"correct the line, or {columns_advice(self.files[0])}"
                )
            row = [cells[place] for place in places]
            if self.features is not None:
                row[0] = with_features(row[0], cells[self.features - 1])
            yield tuple(row)

    def _named(self, line: str) -> list[int]:
        """Return the positions of the columns, found by the names in the first line."""
        names = line.split("\t")
        for column in self.columns:
            if column not in names:
                raise DataError(
                    f"{self.files[0]}: line 1 must name the column {column}, got {_listed(names)}; "
                    "name one of them, or give its number"
                )
        return [names.index(str(column)) for column in self.columns]

    def _json_rows(self, lines: Iterator[str]) -> Iterator[Row]:
        """Yield the rows of a file with one JSON object per line."""
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"{self.files[0]}: line {number} must be a JSON object, got something else ({error}); "
                    "correct the line"
                ) from None
            yield self._texts(number, record)

    def _parquet_rows(self) -> Iterator[Row]:
        """Yield the rows of a Parquet table."""
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise DataError(
                f"{self.files[0]}: needs the extra [parquet] to be read; {how_to_install('parquet')}"
            ) from None
        try:
            with pyarrow.parquet.ParquetFile(self.files[0]) as table:
                names = table.schema_arrow.names
                columns = [name for name in names if self._may_have(name)]
                batches = table.iter_batches(_ROWS, columns=columns or names)
                records = chain.from_iterable(batch.to_pylist() for batch in batches)
                for number, record in enumerate(records, start=1):
                    yield self._texts(number, record)
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(
                f"{self.files[0]}: must be a Parquet file, got one that cannot be read ({explain(error)}); "
                "copy it again"
            ) from None

    def _may_have(self, name: str) -> bool:
        """Return whether a column may contain the text that is needed."""
        if None in self.columns and name in (*self.langs, "translation"):
            return True
        return any(name == column or str(column).startswith(f"{name}.") for column in self.columns)

    def _texts(self, number: int, record: Any) -> Row:
        """Return the texts of a row that is an object. Raises DataError if one is missing or is not text."""
        found = []
        for lang, column in zip(self.langs, self.columns, strict=True):
            keys = [lang, f"translation.{lang}"] if column is None else [str(column)]
            values = [value for key in keys if (value := _value(record, key)) is not None]
            if not values or not isinstance(values[0], str):
                there = _listed(list(record)) if isinstance(record, dict) else f"a {type(record).__name__}"
                fact = f"{type(values[0]).__name__} {str(values[0])[:40]!r}" if values else f"none, but {there}"
                raise DataError(
                    f"{self.files[0]}: row {number} must have text in {' or '.join(keys)}, got {fact}; "
                    f"correct the row, or {columns_advice(self.files[0])}"
                )
            # Files of lines could not represent line breaks.
            found.append(values[0].replace("\r\n", " ").replace("\n", " "))
        return tuple(found)


def pair_chunks(part: Part, size: int) -> Iterator[list[tuple[str, ...]]]:
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


def _value(record: Any, key: str) -> Any:
    """Return the value of a key, or None; the key may be `a.b` for a key inside another object."""
    if not isinstance(record, dict):
        return None
    if key in record:
        return record[key]
    first, _, rest = key.partition(".")
    return _value(record.get(first), rest) if rest else None


def _listed(names: Sequence[Any]) -> str:
    """Return names as text for a message; of many only the first."""
    return ", ".join(str(name)[:40] for name in names[:8]) + (", ..." if len(names) > 8 else "") if names else "nothing"
