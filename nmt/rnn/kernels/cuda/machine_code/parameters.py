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
# A 1-D array in words of 8 bytes: two owners (none), the number of elements and the bytes of one, the address, and the
# length and stride of its axis.
_ARRAY, _ARRAY_WORDS = "16xqqQqq", 7


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
        is_array = [isinstance(kind, types.Array) for kind in kernel.signature]
        self.kinds = [np.dtype(str(_element(kind))) for kind in kernel.signature]
        # What makes a number of a value; None of an array.
        self.numbers = [
            None if array else float if kind.kind == "f" else int
            for array, kind in zip(is_array, self.kinds, strict=True)
        ]
        self.codes = [_ARRAY if array else _PADDED[kind.name] for array, kind in zip(is_array, self.kinds, strict=True)]
        self.sizes: tuple[int, ...] = ()
        for array, kind in zip(is_array, self.kinds, strict=True):
            self.sizes += (8,) * _ARRAY_WORDS if array else (kind.itemsize,)
        self.words = bytearray(8 * len(self.sizes))
        start = np.frombuffer(self.words, np.uint64).ctypes.data
        self.places = np.arange(len(self.words) // 8, dtype=np.uint64) * np.uint64(8) + np.uint64(start)
        self._address = int(self.places.ctypes.data)
        self._parts: dict[tuple[int, int], tuple[struct.Struct, list[Any]]] = {}

    def fill(self, arguments: tuple[Any, ...]) -> int:
        """Write the arguments, the last of which may be `Packed`; return the address of their addresses. Raises
        TypeError for a mismatch with the signature."""
        packed = arguments[-1] if arguments and type(arguments[-1]) is Packed else None
        given = arguments if packed is None else arguments[:-1]
        if len(given) != (len(self.kinds) if packed is None else packed.first):
            raise TypeError(f"{self.kernel.name}: {len(self.kinds)} arguments, got {len(given)}")
        layout, values = self._values(0, given)
        layout.pack_into(self.words, 0, *values)
        if packed is not None:
            self.words[layout.size :] = packed.words
        return self._address

    def packed(self, first: int, arguments: Sequence[Any]) -> Packed:
        """Return the arguments from number `first` to the last one as words. Raises TypeError as `fill`."""
        if first + len(arguments) != len(self.kinds):
            raise TypeError(f"{self.kernel.name}: {len(self.kinds) - first} arguments, got {len(arguments)}")
        layout, values = self._values(first, arguments)
        return Packed(first, layout.pack(*values))

    def _values(self, first: int, arguments: Sequence[Any]) -> tuple[struct.Struct, list[Any]]:
        """Return the format of the arguments from number `first` on, and the numbers to be written in it."""
        key = first, first + len(arguments)
        if key not in self._parts:
            part = slice(*key)
            layout = struct.Struct("=" + "".join(self.codes[part]))
            self._parts[key] = layout, list(zip(self.kinds[part], self.numbers[part], strict=True))
        layout, kinds = self._parts[key]
        values: list[Any] = []
        for value, (kind, number) in zip(arguments, kinds, strict=True):
            if number is not None:
                values.append(number(value))
                continue
            if value.dtype != kind or not value._c_contiguous:  # `flags` would take half the time of a launch
                raise TypeError(
                    f"{self.kernel.name}: a C-contiguous array of {kind} must be given, got {value.dtype} "
                    f"with strides {value.strides}"
                )
            size, itemsize = value.size, kind.itemsize
            values += (size, itemsize, value.data.ptr, size, itemsize)
        return layout, values


def _element(kind: Any) -> Any:
    return kind.dtype if isinstance(kind, types.Array) else kind
