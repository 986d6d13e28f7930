"""The table of readers: what the ending of a file says, and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nmt.data.tables import delimited, objects, sheets
from nmt.data.tables.marked import is_usfm, sfm_records
from nmt.data.tables.xml_records import XML_RECORDS, Fields
from nmt.errors import NMTError
from nmt.system.lines import without_packing

ENDINGS = {
    **{".tsv": "tsv", ".csv": "csv", ".xlsx": "sheet", ".xlsm": "sheet", ".xls": "sheet", ".ods": "sheet"},
    **{".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"},
    **{".tmx": "tmx", ".lift": "lift", ".flextext": "flextext"},
    **dict.fromkeys((".sfm", ".db", ".dic", ".lex", ".usfm", ".ptx"), "sfm"),
}
"""The form of a table by the ending of its name; other files are lines. A corpus of two files of markers is USFM."""
GRIDS: dict[str, Callable[..., Iterator[tuple[int, list[str]]]]] = {
    "tsv": delimited.grid_rows,
    "csv": delimited.grid_rows,
    "sheet": sheets.grid_rows,
    "jsonl": objects.json_rows,
    "parquet": objects.parquet_rows,
}
"""Readers of (path, sheet, lenient): the numbers and the cells of rows."""
OBJECTS = ("jsonl", "parquet")
"""Those whose headings are keys: row 0."""
RECORDS: dict[str, Callable[[str], Iterator[tuple[int, Fields]]]] = {**XML_RECORDS, "sfm": sfm_records}
"""Readers of a path: the numbers of the first lines, and the named fields of records."""


def form_of(path: str) -> str:
    """Return the form of a corpus, judged by its name: lines, or a kind of table."""
    return ENDINGS.get(without_packing(path).suffix.lower(), "lines")


def form_of_two(files: Sequence[str]) -> str:
    """Return the form of a corpus of two files: lines, or usfm."""
    try:
        marked = all(form_of(file) == "sfm" and is_usfm(file) for file in files)
    except NMTError:  # reported by the reader
        return "lines"
    return "usfm" if marked else "lines"


def paired(fields: Fields, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the texts of a record that belong together, for the fields of these names. The name that comes first in the
    record is the head: each text of it is paired with those of the other names that follow before the next head."""
    head = next((name for name, _ in fields if name in names), None)
    found: dict[str, str] = {}
    is_open = False
    for name, text in fields:
        if name not in names:
            continue
        if name == head:
            if is_open:
                yield tuple(found.get(one, "") for one in names)
            found, is_open = {name: text}, True
        else:
            found[name] = text
            if len(found) == len(names):
                yield tuple(found[one] for one in names)
                is_open = False
    if is_open:
        yield tuple(found.get(one, "") for one in names)
