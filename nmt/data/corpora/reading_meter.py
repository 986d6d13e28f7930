"""Measure the size of a text, and report the progress of reading it."""

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from tqdm import tqdm

from nmt.data.corpora.sources import Source
from nmt.system.lines import PACKED, text_file
from nmt.system.notices import Show

_PACKED_FACTOR = 4
_LINES = 4096


def text_bytes(source: Source, langs: Sequence[str]) -> int:
    """Return the bytes of a corpus, estimated for compressed files. Raises DataError if a file is missing."""
    files = [text_file(file) for part in source.parts(langs) for file in dict.fromkeys(part.files)]
    factors = [_PACKED_FACTOR if file.suffix in (*PACKED, ".parquet") else 1 for file in files]
    return sum(factor * file.stat().st_size for factor, file in zip(factors, files, strict=True))


class ReadingMeter:
    """Reports the progress of reading, as characters read relative to bytes in the files."""

    def __init__(self, name: str, size: int, show: Show) -> None:
        self._name, self._size, self._show = name, size, show
        self._began = self._shown_at = time.monotonic()
        self._read = 0

    def show(self, lines: int, characters: int) -> None:
        """Count `characters` more characters, and report now and then; `lines` is the number of lines read so far."""
        self._read += characters
        now = time.monotonic()
        if now - self._shown_at < 1.0:
            return
        self._shown_at = now
        text = tqdm.format_meter(
            self._read, max(self._size, self._read), now - self._began, 0, self._name, unit="B", unit_scale=True
        )
        self._show(f"{text}  {lines:,} lines")


def metered(lines: Iterable[str], meter: ReadingMeter) -> Iterator[str]:
    """Yield the lines unchanged, counting them in the meter."""
    count, left = 0, iter(lines)
    while some := list(islice(left, _LINES)):
        count += len(some)
        meter.show(count, sum(map(len, some)))
        yield from some
