"""The numbers of the host that a pass over a batch reads, in one block of a GPU's memory: one copy for each pass, to
the same addresses for all batches of the same sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.arrays.pass_numbers import PassNumbers
from nmt.rnn.kernels.cuda.rows.row_operations import sorted_words

_ALIGNED = 64

SEED, SCALE = "seed", "scale"
"""Names of the two numbers; arrays are found by the address of the host's, words by that and `WORDS`."""
WORDS = "words"


class GivenNumbers:
    """The block of one pass. `memory` returns bytes on the GPU in this shape, always the same ones."""

    def __init__(
        self, numbers: PassNumbers, memory: Callable[..., Array], upload: Callable[[np.ndarray], Array]
    ) -> None:
        self.numbers, end = numbers, 0
        self._places: dict[object, tuple[int, int, np.dtype]] = {}  # first byte, bytes, type
        self._views: dict[object, Array] = {}
        parts: dict[object, np.ndarray] = {
            SEED: np.array([int(numbers.seed) % 2**64], np.uint64),
            SCALE: np.array([numbers.scale], np.float64),
            **{address(array): array for array in numbers.arrays},
            **{(WORDS, address(ids)): sorted_words(ids.reshape(-1), rows) for ids, rows in numbers.words},
        }
        for name, part in parts.items():
            self._places[name] = end, part.nbytes, part.dtype
            end += -(-part.nbytes // _ALIGNED) * _ALIGNED
        host = np.zeros(end, np.uint8)
        for (start, size, dtype), part in zip(self._places.values(), parts.values(), strict=True):
            host[start : start + size].view(dtype)[...] = part.reshape(-1)
        self.block = memory((end,))
        self.block[...] = upload(host)

    def find(self, name: object) -> Array | None:
        """Return what is given by this name, flat; None if nothing is."""
        if name not in self._views and name in self._places:
            start, size, dtype = self._places[name]
            self._views[name] = self.block[start : start + size].view(dtype)
        return self._views.get(name)


def address(array: np.ndarray) -> tuple[int, int, str, bool]:
    """Return what tells apart arrays that exist at one time. Another shape is the same array, another order is not."""
    return array.__array_interface__["data"][0], array.size, array.dtype.char, array.flags.c_contiguous
