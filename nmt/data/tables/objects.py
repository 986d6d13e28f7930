"""Read tables of objects, whose keys are the headings: JSON lines (jsonlines.org), and Parquet by pyarrow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from nmt.errors import DataError, how_to_install
from nmt.system.files import explain
from nmt.system.lines import read_lines, text_file

LOOKED_AT = 1000
"""The number of first rows that are judged: keys that come later are no columns."""
_ROWS = 4096
"""The number of Parquet rows read at once."""


def json_rows(path: str, sheet: str | None = None, lenient: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield 0 and the keys of the first objects, then the number of each line and the texts of its object; `a.b` is key
    b of an object inside. `sheet` is ignored; `lenient` is that of `read_lines`. Raises DataError for another line."""

    def objects() -> Iterator[tuple[int, Any]]:
        for number, line in enumerate(read_lines(path, lenient=lenient), start=1):
            try:
                if line.strip():
                    yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"{path}: line {number} must be a JSON object, got something else ({error}); correct the line"
                ) from None

    return _grid(path, objects())


def parquet_rows(path: str, sheet: str | None = None, lenient: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a Parquet table as `json_rows` does."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"{path}: needs the extra [parquet] to be read; {how_to_install('parquet')}") from None
    try:
        with pyarrow.parquet.ParquetFile(text_file(path)) as table:
            records = chain.from_iterable(batch.to_pylist() for batch in table.iter_batches(_ROWS))
            yield from _grid(path, enumerate(records, start=1))
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(
            f"{path}: must be a Parquet file, got one that cannot be read ({explain(error)}); copy it again"
        ) from None


def _grid(path: str, objects: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, list[str]]]:
    """Yield the keys of the first objects, then the texts of each object for these keys."""
    rows = ((number, _fields(path, number, one)) for number, one in objects)
    first = list(islice(rows, LOOKED_AT))
    names = list(dict.fromkeys(name for _, fields in first for name in fields))
    yield 0, names
    for number, fields in chain(first, rows):
        yield number, [_text(fields.get(name)) for name in names]


def _fields(path: str, number: int, record: Any, before: str = "") -> dict[str, Any]:
    """Return the values of an object, those of objects inside it by `a.b`."""
    if not isinstance(record, dict):
        raise DataError(f"{path}: row {number} must be an object, got a {type(record).__name__}; correct the row")
    found: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found |= _fields(path, number, value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value
    return found


def _text(value: Any) -> str:
    """Return a value as the text of a cell, in one line."""
    if not isinstance(value, str):
        return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return value.replace("\r\n", " ").replace("\n", " ")
