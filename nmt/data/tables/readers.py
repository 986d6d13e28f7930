"""The table of readers: what the ending of a file says, and who reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.data.tables import delimited, objects, sheets
from nmt.data.tables.marked import XML_RECORDS, Fields, is_usfm, sfm_records
from nmt.errors import NMTError
from nmt.system.lines import read_lines, without_packing

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


_SUFFIXES = (".srt", ".vtt")
_TIME = r"(?:(\d+):)?(\d+):(\d+(?:[.,]\d+)?)"
_CUE = re.compile(rf"^\s*{_TIME}\s*-->\s*{_TIME}.*\n((?:.*\S.*\n)*)", re.MULTILINE)
_TAG = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")


class Cue(NamedTuple):
    """A subtitle, with its times in seconds."""

    start: float
    end: float
    text: str


def cues(path: str) -> list[Cue]:
    """Return the subtitles of a file, none of another kind of file."""
    if Path(path).suffix.lower() not in _SUFFIXES:
        return []
    found = _CUE.findall("\n".join(read_lines(path, lenient=True)) + "\n")
    return [Cue(_seconds(one[:3]), _seconds(one[3:6]), " ".join(_TAG.sub("", one[6]).split())) for one in found]


def _seconds(time: tuple[str, ...]) -> float:
    hours, minutes, seconds = time
    return 3600 * int(hours or 0) + 60 * int(minutes) + float(seconds.replace(",", "."))


def at_once(one: list[Cue], other: list[Cue]) -> Iterator[tuple[int, str, str]]:
    """Yield what is shown at the same time, with the number of its first subtitle: where one language splits a sentence
    and the other does not, their subtitles are joined. Subtitles of one language alone are skipped."""
    i = j = 0
    while i < len(one) and j < len(other):
        if not _meet(one[i], other[j]):
            i, j = (i + 1, j) if one[i].end < other[j].end else (i, j + 1)
            continue
        first, to, last = i, i + 1, j + 1
        while (more := to < len(one) and _meet(one[to], other[last - 1])) or (
            last < len(other) and _meet(one[to - 1], other[last])
        ):
            to, last = (to + 1, last) if more else (to, last + 1)
        yield first + 1, " ".join(cue.text for cue in one[i:to]), " ".join(cue.text for cue in other[j:last])
        i, j = to, last


def _meet(one: Cue, other: Cue) -> bool:
    """Return whether two subtitles are together for most of the shorter one."""
    return 2 * (min(one.end, other.end) - max(one.start, other.start)) > min(
        one.end - one.start, other.end - other.start
    )
