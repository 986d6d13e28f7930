"""Translate tables row by row: JSON lines, Parquet, or plain lines. A table keeps its columns and gets further ones; a
plain line becomes its translation.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from nmt.cli.lines.streams import write_errors
from nmt.errors import DataError, DeviceError, how_to_install
from nmt.inference.rows import Rows
from nmt.system.files import explain, replacing
from nmt.system.lines import MAX_LINE_BYTES, read_lines

FORMATS = ("text", "jsonl", "parquet")
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}

Translate = Callable[[list[Any]], Rows]
"""A function that translates the values of a column."""


@dataclass(frozen=True)
class Columns:
    """Names of the column to translate and the columns to add. `scores` may be None for no scores."""

    text: str
    output: str
    errors: str
    scores: str | None

    def of(self, rows: Rows, index: int) -> dict[str, Any]:
        """Return the values to add to a row."""
        found: dict[str, Any] = {self.output: rows.texts[index], self.errors: rows.errors[index]}
        if self.scores is not None:
            score = rows.scores[index]
            found[self.scores] = score if math.isfinite(score) else None
        return found


@dataclass(frozen=True)
class Part:
    """A range of rows of a file: from `first` up to but not including `end`."""

    path: Path
    first: int
    end: int


def format_of(path: Path) -> str:
    """Return the format of a file by its name; a final `.gz` is ignored."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    return _SUFFIXES.get(plain.suffix, "text")


def count_rows(path: Path, form: str) -> int:
    """Return how many rows a file has. Raises DataError: It cannot be read."""
    if form == "parquet":
        with _parquet(path) as file:
            return int(file.metadata.num_rows)
    return sum(1 for _ in (read_lines(path) if form == "text" else _raw_lines(path)))


def translate_part(part: Part, form: str, target: Path, columns: Columns, translate: Translate, size: int) -> int:
    """Translate rows of a file into another file, which appears when it is complete; return how many rows have errors.

    Args:
        part: The rows.
        form: The format of both files, one of FORMATS.
        target: Where to write; with `.gz` it is compressed, as Parquet always is.
        columns: Column names of tables.
        translate: Translates a list of rows.
        size: Number of rows at a time.

    Raises:
        DataError: A file cannot be read or written, is not of that format, or has an error in every row: nothing is
            written then.
    """
    check_ending(target, form)
    errors = _Errors()
    with write_errors(str(target)), replacing(target) as temporary:
        if form == "parquet":
            _translate_parquet(part, temporary, columns, translate, size, errors)
        else:
            with _packing(temporary, target.suffix == ".gz") as stream:
                work = _translate_text if form == "text" else _translate_json
                work(part, stream, columns, translate, size, errors)
        if errors.count and errors.count == errors.rows:
            raise DataError(
                f"{part.path}: must have a row that can be translated, got an error in all {errors.rows}, in the first "
                f"one: {errors.first}; nothing is written"
            )
    return errors.count


def check_ending(target: Path, form: str) -> None:
    """Raise DataError if the ending of a file's name belongs to another format."""
    named_form = format_of(target)
    if named_form not in ("text", form):
        raise DataError(
            f"{target}: must end as INPUT does, got {form} in a file for {named_form}; the output has the form of INPUT"
        )


@dataclass
class _Errors:
    """Counts rows and those with errors, and keeps the first error."""

    rows: int = 0
    count: int = 0
    first: str = ""

    def note(self, errors: list[str]) -> None:
        """Count rows, given the error of each, empty for none."""
        self.rows += len(errors)
        self.count += sum(map(bool, errors))
        self.first = self.first or next(filter(None, errors), "")


def _translate_text(
    part: Part, stream: BinaryIO, columns: Columns, translate: Translate, size: int, errors: _Errors
) -> None:
    lines = islice(read_lines(part.path), part.first, part.end)
    while chunk := list(islice(lines, size)):
        for text in translate(cast(list[Any], chunk)).texts:
            stream.write(text.encode() + b"\n")


def _translate_json(
    part: Part, stream: BinaryIO, columns: Columns, translate: Translate, size: int, errors: _Errors
) -> None:
    """Translate JSON lines. A line that is not an object becomes an object with an error; objects keep their fields."""
    lines = islice(_raw_lines(part.path), part.first, part.end)
    while chunk := list(islice(lines, size)):
        records = [_record(line, columns) for line in chunk]
        rows = translate([None if error else record[columns.text] for record, error in records])
        for index, (record, error) in enumerate(records):
            added = columns.of(rows, index)
            if error:
                added = {name: value for name, value in added.items() if name not in record}
                added[columns.errors] = error
            errors.note([added[columns.errors]])
            stream.write(_line(record | added))


def _line(record: dict[str, Any]) -> bytes:
    """Return an object as a JSON line; if it contains half a surrogate pair, which UTF-8 cannot encode, with
    escapes."""
    try:
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(record).encode() + b"\n"


def _record(line: bytes, columns: Columns) -> tuple[dict[str, Any], str]:
    """Return the object of a line, empty if it is not an object, and the error."""
    try:
        record = json.loads(line.decode())
    except (ValueError, RecursionError) as error:  # a UnicodeDecodeError is one
        return {}, f"must be a line of JSON in UTF-8, got {str(error).splitlines()[0]}"
    if not isinstance(record, dict):
        return {}, f"must be a JSON object, got {type(record).__name__}"
    if columns.text not in record:
        return record, f"must have {columns.text!r}, got an object without it"
    taken = [name for name in (columns.output, columns.errors, columns.scores) if name in record]
    if taken:
        return record, f"must not have {taken[0]!r} already, got an object with it"
    return record, ""


def _translate_parquet(
    part: Part, temporary: Path, columns: Columns, translate: Translate, size: int, errors: _Errors
) -> None:
    import pyarrow
    import pyarrow.parquet

    at = 0
    with _parquet(part.path) as file:
        schema = file.schema_arrow
        _check_columns(part.path, schema.names, columns)
        fields = [pyarrow.field(columns.output, pyarrow.string()), pyarrow.field(columns.errors, pyarrow.string())]
        if columns.scores is not None:
            fields.append(pyarrow.field(columns.scores, pyarrow.float64()))
        for field in fields:
            schema = schema.append(field)
        with pyarrow.parquet.ParquetWriter(temporary, schema) as writer:
            for batch in file.iter_batches(batch_size=size):
                begin, end = max(part.first - at, 0), min(part.end - at, len(batch))
                at += len(batch)
                if begin >= end:
                    continue
                batch = batch.slice(begin, end - begin)
                rows = translate(batch.column(columns.text).to_pylist())
                errors.note(rows.errors)
                added = [columns.of(rows, index) for index in range(len(batch))]
                arrays = [pyarrow.array([one[field.name] for one in added], field.type) for field in fields]
                writer.write_batch(pyarrow.RecordBatch.from_arrays([*batch.columns, *arrays], schema=schema))


def _check_columns(path: Path, names: list[str], columns: Columns) -> None:
    """Raise DataError if a table lacks the column to translate, or already has one to add."""
    if columns.text not in names:
        raise DataError(
            f"{path}: must have the column {columns.text}, got {', '.join(names)}; name another one with --column"
        )
    for name in (columns.output, columns.errors, columns.scores):
        if name in names:
            raise DataError(f"{path}: must not have the column {name} already, got one; give --output-column NAME")


def _parquet(path: Path) -> Any:
    """Return an open Parquet file. Raises DataError: It is not one; DeviceError: The package for it is missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DeviceError(
            f"{path}: must be read by the package pyarrow, got none; {how_to_install('parquet')}"
        ) from None
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: must be a Parquet file, got {explain(error)}; give one that is whole") from None


def _raw_lines(path: Path) -> Iterator[bytes]:
    """Yield lines that are not blank as bytes, without line ends, so that an encoding error affects one line only.
    Raises DataError if the file cannot be read."""
    try:
        with cast(BinaryIO, gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as stream:
            number = 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if not line.strip():
                    continue
                line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if len(line) > MAX_LINE_BYTES:
                    raise DataError(
                        f"{path}: line {number} must have at most {MAX_LINE_BYTES:,} bytes, got more; give an object a "
                        "line"
                    )
                yield line.rstrip(b"\r\n")
    except (OSError, EOFError) as error:  # a damaged archive is one of them
        raise DataError(f"{path}: must be readable, got {explain(error)}; give a file that is whole") from None


def _packing(path: Path, packed: bool) -> BinaryIO:
    """Return a writer through gzip without a timestamp, so that the same rows give the same bytes."""
    return cast(BinaryIO, gzip.GzipFile(path, "wb", mtime=0) if packed else path.open("wb"))
