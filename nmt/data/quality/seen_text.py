"""Know a training text again by the smallest hashes of its pairs, of which a checkpoint keeps a few thousand.

The pairs of another text whose hashes are as small are a sample of it; the share of them that was kept estimates how
much of that text, in any order or part, was trained on (bottom-k sketches; Cohen and Kaplan 2007).
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence

import numpy as np

_KEPT = 4096
"""The number of hashes that are kept."""
_LEAST = 5
"""The number of sampled pairs from which a share is estimated."""

Rows = Iterable[Sequence[int] | np.ndarray]
"""The ids of each line."""


def sketch_of(src: Rows, tgt: Rows) -> str:
    """Return the smallest hashes of pairs of ids as text."""
    return base64.b64encode(_hashes(src, tgt)[:_KEPT].tobytes()).decode()


def share_seen(sketch: str, src: Rows, tgt: Rows) -> float | None:
    """Return the estimated share of pairs that are in the text of a sketch; None if too few of them tell."""
    known = np.frombuffer(base64.b64decode(sketch), "<u4")
    found = _hashes(src, tgt)
    if len(known) == _KEPT:
        found = found[found <= known[-1]]
    return float(np.isin(found, known).mean()) if len(known) and len(found) >= _LEAST else None


def _hashes(src: Rows, tgt: Rows) -> np.ndarray:
    """Return the distinct hashes of pairs, smallest first: uint32."""
    sides = (map(_bytes, rows) for rows in (src, tgt))
    return np.unique(np.fromiter((zlib.crc32(two, zlib.crc32(one)) for one, two in zip(*sides, strict=True)), "<u4"))


def _bytes(ids: Sequence[int] | np.ndarray) -> bytes:
    return np.asarray(ids, "<i4").tobytes()
