"""A kernel's arguments in the driver's format."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba.core import types

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel

# A number in a word of 8 bytes.
_PADDED = {"int32": "ixxxx", "uint32": "Ixxxx", "float32": "fxxxx", "int64": "q", "uint64": "Q", "float64": "d"}
# A 1-D array: two owners (none), the number of elements and the bytes of one, the address, and the length and stride
# of its axis.
_ARRAY = "qqqqQqq"


class Packed(NamedTuple):
    """The last arguments of several launches, from number `first` on, as words; the arrays must outlive it."""

    first: int
    words: bytes


class Parameters:
    """The words of a kernel's arguments as Numba compiled it, and the address of each.

    The words have 8 bytes each, in the same memory for all launches; the driver copies `sizes` of them at a launch.
    """

    def __init__(self, kernel: GPUKernel) -> None:
        self.kernel = kernel
        self.is_array = [isinstance(kind, types.Array) for kind in kernel.signature]
        self.kinds = [np.dtype(str(_element(kind))) for kind in kernel.signature]
        self.codes = [
            _ARRAY if is_array else _PADDED[kind.name] for is_array, kind in zip(self.is_array, self.kinds, strict=True)
        ]
        self.sizes: tuple[int, ...] = ()
        for is_array, kind in zip(self.is_array, self.kinds, strict=True):
            self.sizes += (8,) * len(_ARRAY) if is_array else (kind.itemsize,)
        self.words = bytearray(8 * len(self.sizes))
        start = np.frombuffer(self.words, np.uint64).ctypes.data
        self.places = np.arange(len(self.words) // 8, dtype=np.uint64) * np.uint64(8) + np.uint64(start)
        self._address = int(self.places.ctypes.data)
        self._layouts: dict[tuple[int, int], struct.Struct] = {}

    def fill(self, arguments: tuple[Any, ...]) -> int:
        """Write the arguments, the last of which may be `Packed`; return the address of their addresses. Raises
        TypeError for a mismatch with the signature."""
        packed = arguments[-1] if arguments and type(arguments[-1]) is Packed else None
        given = arguments if packed is None else arguments[:-1]
        if len(given) != (len(self.kinds) if packed is None else packed.first):
            raise TypeError(f"{self.kernel.name}: {len(self.kinds)} arguments, got {len(given)}")
        words = self._pack(0, given)
        self.words[:] = words if packed is None else words + packed.words
        return self._address

    def packed(self, first: int, arguments: Sequence[Any]) -> Packed:
        """Return the arguments from number `first` to the last one as words. Raises TypeError as `fill`."""
        if first + len(arguments) != len(self.kinds):
            raise TypeError(f"{self.kernel.name}: {len(self.kinds) - first} arguments, got {len(arguments)}")
        return Packed(first, self._pack(first, arguments))

    def _pack(self, first: int, arguments: Sequence[Any]) -> bytes:
        last = first + len(arguments)
        values: list[Any] = []
        for n, value in enumerate(arguments, first):
            kind = self.kinds[n]
            if not self.is_array[n]:
                values.append(float(value) if kind.kind == "f" else int(value))
                continue
            if value.dtype != kind or not value.flags.c_contiguous:
                raise TypeError(
                    f"{self.kernel.name}: a C-contiguous array of {kind} must be given, got {value.dtype} "
                    f"with strides {value.strides}"
                )
            size = value.size
            values += [0, 0, size, kind.itemsize, value.data.ptr, size, kind.itemsize]
        layout = self._layouts.get((first, last))
        if layout is None:
            layout = self._layouts[first, last] = struct.Struct("=" + "".join(self.codes[first:last]))
        return layout.pack(*values)


def _element(kind: Any) -> Any:
    return kind.dtype if isinstance(kind, types.Array) else kind
