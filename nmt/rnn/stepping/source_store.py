"""Captured arrays of sentences that come and go, stored one after another without padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sources:
    """The arrays and positions by which rows read their sentences."""

    arrays: dict[str, Any]  # [positions, n] by name; another dictionary after they have moved
    starts: np.ndarray  # int64 [R], the first position of each row's sentence
    lengths: np.ndarray  # int64, found at first positions
    longest: int  # maximum length of the stored sentences


class SourceStore:
    """Arrays [positions, n] by name in which every sentence has a contiguous range of positions. widths: n of each
    array, None where a position has one number. narrow: arrays that have one entry per sentence, stored at its first
    position. starts: first positions, int64 by sentence id, the first of which is first_id. Sentence ids are never
    reused. The memory is proportional to the sentences stored at a time."""

    def __init__(self, widths: dict[str, int | None], narrow: set[str], dtype: Any, xp: Any = np) -> None:
        """Create an empty store. `xp`: of the device where the arrays are."""
        self._xp, self._dtype = xp, dtype
        self.arrays = {k: xp.zeros((0,) if n is None else (0, n), dtype) for k, n in widths.items()}
        self.narrow = narrow
        self._lengths_at = np.zeros(0, np.int64)  # by first position
        self._end = self._longest = 0
        self._live: dict[int, tuple[int, int]] = {}  # first position and length, in order of positions
        self.starts = np.zeros(0, np.int64)
        self.first_id = self._next_id = 0

    def emptied(self) -> SourceStore:
        """Return a new, empty store for arrays of the same kind."""
        widths = {k: a.shape[1] if a.ndim == 2 else None for k, a in self.arrays.items()}
        return SourceStore(widths, self.narrow, self._dtype, self._xp)

    def add(self, arrays: dict[str, np.ndarray], lengths: np.ndarray) -> np.ndarray:
        """Copy the real positions of arrays [S, B, n], narrow ones [B, n]; return sentence ids, int64 [B]."""
        self._make_room(int(np.maximum(lengths, 1).sum()))
        sentence_ids = np.arange(self._next_id, self._next_id + len(lengths), dtype=np.int64)
        for b, length in enumerate(lengths.tolist()):
            start, self._end = self._end, self._end + max(1, length)
            for name, target in self.arrays.items():
                if name in self.narrow:
                    target[start] = arrays[name][b]
                else:
                    target[start : start + length] = arrays[name][:length, b]
            self._live[self._next_id] = start, length
            self._lengths_at[start] = length
            self._next_id += 1
        self.first_id = next(iter(self._live), self._next_id)
        self.starts = np.zeros(self._next_id - self.first_id, np.int64)
        for n, (start, _) in self._live.items():
            self.starts[n - self.first_id] = start
        self._longest = max((length for _, length in self._live.values()), default=0)
        return sentence_ids

    def remove(self, sentence_ids: np.ndarray) -> None:
        """Free the sentences' positions."""
        for n in sentence_ids.tolist():
            del self._live[n]

    def of(self, sentence_ids: np.ndarray) -> Sources:
        """Return the sources for rows that read these sentences [R]."""
        return self.at(self.starts[sentence_ids - self.first_id])

    def at(self, starts: np.ndarray) -> Sources:
        """Return the sources for rows whose sentences begin at these positions [R]."""
        return Sources(self.arrays, starts, self._lengths_at, self._longest)

    def _make_room(self, count: int) -> None:
        """Move the stored positions to the front, into larger arrays if necessary, so that `count` more fit."""
        capacity = len(self._lengths_at)
        if self._end + count <= capacity:
            return
        needed = sum(max(1, length) for _, length in self._live.values()) + count
        old = self.arrays
        if needed > capacity // 2:
            self.arrays = {k: self._xp.zeros((2 * needed, *a.shape[1:]), a.dtype) for k, a in old.items()}
            self._lengths_at = np.zeros(2 * needed, np.int64)
        self._end = 0
        for n, (start, length) in self._live.items():
            taken = max(1, length)
            for k, target in self.arrays.items():
                target[self._end : self._end + taken] = old[k][start : start + taken]
            self._lengths_at[self._end] = length
            self._live[n] = self._end, length
            self._end += taken
