"""The numbers of the host that differ between passes of a model over batches of the same sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


class Seed(int):
    """A pass's seed times `factor` plus `more`, modulo 2**64: a recording of the pass computes it from another one."""

    of_pass: int
    factor: int
    more: int

    def __new__(cls, of_pass: int, factor: int = 1, more: int = 0) -> Seed:
        """Return the seed for this one of the pass."""
        made = super().__new__(cls, of_pass * factor + more)
        made.of_pass, made.factor, made.more = of_pass, factor, more
        return made

    def __add__(self, other: int) -> Seed:
        return Seed(self.of_pass, self.factor, self.more + other)

    def __mul__(self, other: int) -> Seed:
        return Seed(self.of_pass, self.factor * other, self.more * other)

    __radd__, __rmul__ = __add__, __mul__


@dataclass(frozen=True, eq=False)
class PassNumbers:
    """The numbers that a pass reads of its batch.

    key: everything else that decides what is launched, the same for all batches that one recording serves. arrays: host
    arrays that the pass uploads or takes as an index, `frozen`, in the same order and shapes each time. lengths: those
    among them of rows, and the most they may be. words: ids int32 among them whose rows of a table receive gradients,
    and the rows of that table. seed: of dropout. scale: of the gradients, as the pass hands it over."""

    key: tuple[Any, ...]
    arrays: Sequence[np.ndarray]
    lengths: Sequence[tuple[np.ndarray, int]]
    words: Sequence[tuple[np.ndarray, int]]
    seed: int
    scale: float


def frozen(array: np.ndarray, dtype: Any = None) -> np.ndarray:
    """Return a read-only view of an array, or a contiguous copy of this type: it keeps its address where it is used."""
    view = np.ascontiguousarray(array, dtype)[...]
    view.flags.writeable = False
    return view
