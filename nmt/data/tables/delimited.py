"""Read .csv and .tsv: which sign separates cells, and whether quotation marks around them are the table's."""

from __future__ import annotations

import contextlib
import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile

from nmt.errors import DataError
from nmt.system.lines import MAX_LINE_BYTES, open_binary, read_lines, text_file, while_unchanged

_SEPARATORS = "\t;|,"
"""The separators of .csv, the least usual sign of a text first."""
_SAMPLE = 400
_MOST_SCANNED = 2**26
"""Characters in which quotation marks of a .tsv are looked at."""
_MOST_LINES = 64
"""Lines of one cell in such a table."""
_MOST_OF = 0.9
_WIDE = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Dialect:
    """The sign between cells, whether they are quoted (RFC 4180), lines before the first row, spaces after the sign."""

    separator: str = "\t"
    quoted: bool = False
    before: int = 0
    spaced: bool = False


def grid_rows(path: str, sheet: str | None = None, lenient: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of each row, and its cells, whose line breaks become spaces. `sheet` is
    ignored; `lenient` is that of `read_lines`. Raises DataError for quotation marks that contradict one another."""
    dialect = dialect_of(path)
    lines = islice(_lines(path, lenient), dialect.before, None)
    if not dialect.quoted:
        for number, line in enumerate(lines, start=1 + dialect.before):
            yield number, line.split(dialect.separator)
        return
    rows = csv.reader(
        (f"{line}\n" for line in lines), delimiter=dialect.separator, skipinitialspace=dialect.spaced, strict=True
    )
    number = 1
    try:
        for cells in rows:
            yield number + dialect.before, [" ".join(cell.split("\n")) for cell in cells] or [""]
            number = rows.line_num + 1
    except csv.Error:
        raise DataError(
            f"{path}: line {number + dialect.before} must have cells whose quotation marks are doubled, between two of "
            'them, as "He said ""yes""." (RFC 4180), got others; correct it, or save the table again'
        ) from None


@while_unchanged(64)
def dialect_of(path: str) -> Dialect:
    """Return how the cells of a file are separated. Raises DataError if it cannot be read."""
    sample = list(islice(_lines(path, lenient=True), _SAMPLE))
    about = sum(1 for _ in takewhile(lambda line: line.startswith("#") and "\t" not in line, sample))  # Anki, OmegaT
    if ".csv" not in text_file(path).suffixes[-2:] and any("\t" in line for line in sample):
        return Dialect(quoted=_is_quoted(islice(_lines(path, lenient=True), about, None)), before=about)
    if sample and sample[0].lower().startswith("sep=") and len(sample[0]) == 5:  # Excel's own line
        return Dialect(sample[0][4], True, 1)
    separator = max(_SEPARATORS, key=lambda sign: _fits(sample, sign))
    return Dialect(separator, True, spaced=_is_spaced(sample, separator))


def _is_spaced(sample: list[str], sign: str) -> bool:
    """Return whether most lines have a quotation mark after a separator and a space, as people write them by hand."""
    return 2 * sum(f'{sign} "' in line for line in sample) > len(sample)


def _fits(sample: list[str], sign: str) -> float:
    """Return the share of rows that a separator cuts into the same number of cells, two or more. One that mostly has a
    space after it is punctuation, which comes last."""
    try:
        is_spaced = _is_spaced(sample, sign)
        lines = (f"{line}\n" for line in sample)
        rows = [row for row in csv.reader(lines, delimiter=sign, skipinitialspace=is_spaced) if row]
    except csv.Error:
        return -1
    counts = Counter(len(row) for row in rows if len(row) > 1)
    share = max(counts.values(), default=0) / max(1, len(rows))
    cells = [cell for row in rows for cell in row[1:] if cell]
    spaces = sum(cell[0] == " " for cell in cells) if sign in ",;" else 0
    return share - (2 * spaces > len(cells))


def _is_quoted(lines: Iterable[str]) -> bool:
    """Return whether the quotation marks of a table with tabs are those of a spreadsheet, which puts cells with tabs,
    line breaks or quotation marks between two of them, or all cells. In large corpora they are those of the text."""
    rest = iter(lines)
    scanned = rows = sure = all_cells = 0
    for line in rest:
        scanned += len(line)
        rows += bool(line)
        if '"' in line:
            record = [line]
            while sum(one.count('"') for one in record) % 2 and len(record) < _MOST_LINES:
                if (more := next(rest, None)) is None:
                    break
                record.append(more)
            text = "\n".join(record)
            if (cells := _parsed(text)) is None:
                return False
            sure += text == "\t".join(_in_quotes(cell) if set(cell) & set('\t\n"') else cell for cell in cells)
            all_cells += text == "\t".join(map(_in_quotes, cells))
        if scanned > _MOST_SCANNED:
            break
    return sure > 0 or rows > 0 and all_cells >= _MOST_OF * rows


def _parsed(text: str) -> list[str] | None:
    """Return the cells of a row that a spreadsheet may have written; None if none does so."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline="\n"), delimiter="\t", strict=True))
    except csv.Error:
        return None
    if len(rows) != 1:
        return None
    written = {"\t".join(cells) for cells in (rows[0], map(_in_quotes, rows[0]))}
    plain = [cell for cell in rows[0] if '"' in cell and _in_quotes(cell) not in text]
    return None if plain and text not in written else rows[0]


def _in_quotes(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def _lines(path: str, lenient: bool) -> Iterator[str]:
    """Yield the lines of a text in UTF-8, or in UTF-16 if it begins with its mark, as Excel's "Unicode text" does."""
    start = b""
    with contextlib.suppress(OSError, EOFError), open_binary(text_file(path)) as stream:  # reported by `read_lines`
        start = stream.read(2)
    if start not in _WIDE:
        yield from read_lines(path, lenient=lenient)
        return
    with io.TextIOWrapper(open_binary(text_file(path)), "utf-16", newline="\n") as text:
        try:
            while line := text.readline(MAX_LINE_BYTES):
                yield line.removesuffix("\n").removesuffix("\r")
        except UnicodeError:
            raise DataError(f"{path}: must be whole text in UTF-16, got a damaged one; save it again") from None
