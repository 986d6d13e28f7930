"""Pair the subtitles of two languages by their times: they seldom have as many lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nmt.system.lines import read_lines

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
