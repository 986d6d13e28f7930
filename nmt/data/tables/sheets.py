"""Read the sheets of .xlsx, .xls and .ods by calamine. What an archive claims is checked before: calamine trusts it."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from nmt.errors import DataError, how_to_install
from nmt.system.file_kinds import HEAD_BYTES, kind_of_bytes
from nmt.system.lines import text_file, while_unchanged

_MOST_BYTES = 2**28
"""Bytes of all parts of a workbook, unpacked."""
_MOST_CELLS = 10_000_000
"""Cells of a sheet from the first one to the last, of which calamine keeps each, filled or not."""
_PARTS = re.compile(r"mimetype|.*\.(xml|rels)")
_SHEETS = re.compile(r"xl/worksheets/[^/]+\.xml|content\.xml")
_CELL = re.compile(rb'<(?:\w+:)?c\s[^>]*?\br="([A-Z]{1,3})(\d{1,7})"')
_ROW = re.compile(rb"<table:(table-row|(?:covered-)?table-cell)\b([^>]*)>")
_REPEATED = re.compile(rb'number-(?:rows|columns)-repeated="(\d{1,9})"')
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\b|number-(?:rows|columns)-spanned="(?:[2-9]|\d\d)')
_HIDDEN = re.compile(
    rb'<(?:\w+:)?row\b[^>]*\bhidden="(?:1|true)"|<table:table-row\b[^>]*visibility="(?:collapse|filter)'
)
_OLD = b"\xd0\xcf\x11\xe0"
"""The first bytes of .xls, and of workbooks with a password."""
_EMPTY_FORMULA = re.compile(rb"</(?:\w+:)?f>\s*(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>")


@dataclass(frozen=True)
class Book:
    """An opened workbook. sheets: Those with cells that are not hidden, by name. merged: Merged ranges. hidden: Rows
    that are hidden or filtered out. formulas: Cells with a formula and no result."""

    sheets: dict[str, Any]
    merged: int = 0
    hidden: int = 0
    formulas: int = 0


def grid_rows(path: str, sheet: str | None = None, lenient: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each row of a sheet, and its cells as text without line breaks. `lenient` is ignored. Raises
    DataError if it is no workbook, exceeds limits, or has several sheets and none is named."""
    for number, cells in enumerate(book_of(path).sheets[sheet_of(path, sheet)].iter_rows(), start=1):
        yield number, [_text(cell) for cell in cells]


def sheet_of(path: str, sheet: str | None) -> str:
    """Return the name of the sheet to read: the named one, or the only one with two columns. Raises DataError."""
    sheets = book_of(path).sheets
    found = [name for name, one in sheets.items() if sheet or one.width > 1] or list(sheets)
    if sheet is None and len(found) == 1:
        return found[0]
    if sheet in found:
        return str(sheet)
    if not found:
        raise DataError(f"{path}: must have a sheet with cells, got an empty workbook; give another file")
    named = ", ".join(found[:8]) + (", ..." if len(found) > 8 else "")
    wanted = "one sheet with cells" if sheet is None else f"the sheet {sheet}"
    raise DataError(f"{path}: must have {wanted}, got {named}; name one with --sheet NAME (sheet: NAME in a config)")


def doubts(path: str) -> list[str]:
    """Return what a reader of the table should know: merged cells, hidden rows, formulas without results."""
    book, told = book_of(path), []
    if book.merged:
        told.append(
            f"{path}: the text of merged cells is read in their first row alone; ranges of them: {book.merged:,}"
        )
    if book.hidden:
        told.append(f"{path}: hidden rows are read like others, {book.hidden:,} of them; delete those that are wrong")
    if book.formulas:
        told.append(
            f"{path}: {book.formulas:,} cells have formulas without results, and are empty: open it in a spreadsheet "
            "program and save it"
        )
    return told


@while_unchanged(2)
def book_of(path: str) -> Book:
    """Return a workbook, the last one from memory. Raises DataError."""
    path = str(text_file(path))
    try:
        from python_calamine import CalamineError, CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum
    except ImportError:
        raise DataError(f"{path}: needs the extra [tables] to be read; {how_to_install('tables')}") from None
    content, counts = _checked(path)
    try:
        book = CalamineWorkbook.from_filelike(content)
        sheets = {
            one.name: book.get_sheet_by_name(one.name)
            for one in book.sheets_metadata
            if one.typ == SheetTypeEnum.WorkSheet and one.visible == SheetVisibleEnum.Visible
        }
        filled = {name: sheet for name, sheet in sheets.items() if sheet.start is not None}
    except CalamineError as error:
        raise _broken(path, error) from None
    except BaseException as error:  # what it did not expect ends in a panic, which is no Exception
        if type(error).__name__ != "PanicException":
            raise
        raise _broken(path, "an unexpected part") from None
    return Book(filled, *counts)


def _checked(path: str) -> tuple[io.BytesIO, list[int]]:
    """Return a workbook, of a packed one its parts of XML alone, written again as they unpack here, and the numbers of
    merged cells, hidden rows, and formulas without results. Raises DataError if it is none, or exceeds the limits."""
    new, counts = io.BytesIO(), [0, 0, 0]
    try:
        with open(path, "rb") as file:
            if file.read(len(_OLD)) == _OLD:
                return io.BytesIO(_OLD + file.read()), counts
        with zipfile.ZipFile(path) as archive, zipfile.ZipFile(new, "w") as kept:
            parts = [one for one in archive.infolist() if _PARTS.fullmatch(one.filename)]
            if sum(one.file_size for one in parts) > _MOST_BYTES:
                raise DataError(f"{path}: must unpack to at most {_MOST_BYTES:,} bytes, got more; split it")
            for one in parts:
                content = archive.read(one)
                if b"<!DOCTYPE" in content[:HEAD_BYTES] or b"<!ENTITY" in content:
                    raise DataError(f"{path}: must declare no entities, got some; save it again")
                if _SHEETS.fullmatch(one.filename):
                    _check_cells(path, content)
                    kinds = (_MERGED, _HIDDEN, _EMPTY_FORMULA)
                    counts = [n + len(kind.findall(content)) for n, kind in zip(counts, kinds, strict=True)]
                kept.writestr(one.filename, content)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError, OSError) as error:
        raise _broken(path, error) from None
    new.seek(0)
    return new, counts


def _check_cells(path: str, content: bytes) -> None:
    """Raise DataError if a sheet reaches so far that it does not fit into memory."""
    rows = columns = cells = 0
    for letters, number in _CELL.findall(content):
        rows, columns = max(rows, int(number)), max(columns, column_of(letters))
    repeats = width = filled = total = 0
    for kind, attributes in _ROW.findall(content):
        times = int(found[1]) if (found := _REPEATED.search(attributes)) else 1
        if kind == b"table-row":
            total, width, filled, repeats = total + repeats * filled, 0, 0, times
        else:
            width += times
            filled = filled if attributes.endswith(b"/") else width
    cells = max(rows * columns, total + repeats * filled)
    if cells > _MOST_CELLS:
        raise DataError(
            f"{path}: must have at most {_MOST_CELLS:,} cells from the first to the last, got {cells:,}; delete the "
            "rows and columns beyond the table, or save it as .csv"
        )


@lru_cache(maxsize=1024)
def column_of(letters: bytes) -> int:
    """Return the number of a column: 1 for A, 27 for AA."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


def _broken(path: str, error: object) -> DataError:
    with open(path, "rb") as file:
        start = file.read(HEAD_BYTES)
    other = kind_of_bytes(start)
    if other is not None and not start.startswith(b"PK"):
        return DataError(f"{path}: must be a workbook, got {other.what}; save it as .xlsx without a password")
    return DataError(f"{path}: must be a workbook (.xlsx, .ods), got one that cannot be read ({error}); save it again")


def _text(cell: Any) -> str:
    """Return the text of a cell; whole numbers as such."""
    if isinstance(cell, str):
        return " ".join(cell.split("\n")) if "\n" in cell else cell
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell.isoformat(" ") if isinstance(cell, datetime) else str(cell)
