"""How much text there is, and how far the reading of it has come."""

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from nmt.data.corpora.sources import Source
from nmt.system.lines import PACKED, text_file
from nmt.system.notices import Show

_PACKED_FACTOR = 4
_LINES = 4096


def text_bytes(source: Source, langs: Sequence[str]) -> int:
    """Return bytes of the files of a corpus, of packed ones about what they hold. Raises DataError where a file is
    missing."""
    files = [text_file(file) for part in source.parts(langs) for file in dict.fromkeys(part.files)]
    factors = [_PACKED_FACTOR if file.suffix in (*PACKED, ".parquet") else 1 for file in files]
    return sum(factor * file.stat().st_size for factor, file in zip(factors, files, strict=True))


class ReadingMeter:
    """Tells how far a reading is, by characters read of bytes in the files.

    Args:
        name: What the line begins with.
        size: Bytes in the files.
        show: Told.
    """

    def __init__(self, name: str, size: int, show: Show) -> None:
        self._name, self._size, self._show = name, size, show
        self._began = self._told = time.monotonic()
        self._read = 0

    def show(self, lines: int, characters: int) -> None:
        """Note some more characters, and tell now and then; `lines` is how many were read in all."""
        self._read += characters
        now = time.monotonic()
        if now - self._told < 1.0:
            return
        self._told = now
        took = now - self._began
        left = max(0.0, took * (self._size / max(1, self._read) - 1))
        self._show(f"{self._name}: {lines:,} lines, {lines / took:,.0f}/s, about {left / 60:.0f} min left")


def metered(lines: Iterable[str], meter: ReadingMeter) -> Iterator[str]:
    """Yield the same lines; the meter is told of them."""
    count, left = 0, iter(lines)
    while some := list(islice(left, _LINES)):
        count += len(some)
        meter.show(count, sum(map(len, some)))
        yield from some
