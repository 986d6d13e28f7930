"""Kernels: compiled functions that Python calls with NumPy arrays and numbers. Imports no Numba.

A call writes its arguments into a table, each with as many words as its type takes, and calls the machine code for
these types by its address. Threads can therefore share a kernel in the same way as a task (see pool.py). The machine
code turns the words of the table into arrays again.
"""

from __future__ import annotations

import array
import struct
from collections.abc import Callable
from ctypes import addressof, c_char
from typing import Any, NamedTuple

import numpy as np

from nmt.rnn.kernels.machine_code.native import Compilable, Jitted

Words = array.array
"""A table: words of int64, of typecode "q"; Python makes one in half the time that NumPy takes."""

LINE_BYTES = 64
"""Bytes at the start of a table: the cache line for the barrier of its task (see barrier.py)."""

# For each class of numbers: the name of Numba's type, and the format in a table (see `struct`).
_NUMBERS: dict[type, tuple[str, str]] = {
    bool: ("boolean", "?7x"),
    int: ("int64", "q"),
    float: ("float64", "d"),
    np.bool_: ("boolean", "?7x"),
    np.int32: ("int32", "i4x"),
    np.int64: ("int64", "q"),
    np.uint64: ("uint64", "Q"),
    np.float32: ("float32", "f4x"),
    np.float64: ("float64", "d"),
}


class _TypedKernel(NamedTuple):
    """A kernel compiled for certain types of arguments, and the layout of its table."""

    native: Jitted
    words: struct.Struct


class KernelCall(NamedTuple):
    """A kernel with the arguments of a call; `keep` holds references to the memory that the addresses point to."""

    native: Jitted
    table: int
    keep: Any


class Kernel(Compilable):
    """A function that Python calls with C-contiguous arrays and numbers; it returns nothing and raises nothing.

    If its first parameters are (part, parts), a call does one thread's share of the work, and `pool.run_parallel` does
    all of it. In compiled code it behaves like an `inner_kernel`.
    """

    def __init__(self, function: Callable[..., Any], fastmath: frozenset[str]) -> None:
        super().__init__(function, fastmath)
        code = function.__code__
        self.has_parts = code.co_varnames[: min(2, code.co_argcount)] == ("part", "parts")
        self._entries: dict[tuple[Any, ...], _TypedKernel] = {}

    def __call__(self, *args: Any) -> None:
        """Run one part, or without parts the whole kernel, on this thread."""
        part, parts, args = (args[0], args[1], args[2:]) if self.has_parts else (0, 1, args)
        call = self.with_arguments(args)
        call.native.call(part, parts, call.table)

    def with_arguments(self, args: tuple[Any, ...]) -> KernelCall:
        """Return a call with these arguments, which do not include (part, parts).

        Raises TypeError: an argument is neither an array in the machine's byte order nor a number of a known type.
        RuntimeError: an array is not contiguous.
        """
        kinds: list[Any] = []
        words: list[Any] = []
        for value in args:
            if isinstance(value, np.ndarray):
                kinds += value.dtype, value.ndim
                words.append(address_of(value))
                words += value.shape
            elif type(value) in _NUMBERS:
                kinds.append(type(value))
                words.append(value)
            else:
                self._refuse(value)
        entry = self._entries.get(tuple(kinds))
        if entry is None:
            entry = self._entries[tuple(kinds)] = self._entry(args)
        table = Words("q", entry.words.pack(*words))
        return KernelCall(entry.native, start_of(table), (table, args))

    def _entry(self, args: tuple[Any, ...]) -> _TypedKernel:
        forms, words = [], [f"{LINE_BYTES}x"]
        for value in args:
            form = _NUMBERS.get(type(value))
            if form is not None:
                forms.append(form[0])
                words.append(form[1])
            elif not value.dtype.isnative or value.ndim == 0:
                self._refuse(value)
            else:
                forms.append(f"{value.dtype} {value.ndim}")
                words.append("q" * (1 + value.ndim))
        return _TypedKernel(self.native(tuple(forms)), struct.Struct("=" + "".join(words)))

    def _refuse(self, value: Any) -> None:
        """Raise TypeError for a value that cannot be an argument: for anything but an array, only NumPy would know how
        long its address stays valid."""
        got = f"{type(value).__name__} {getattr(value, 'dtype', '')} {getattr(value, 'shape', '')}".rstrip()
        numbers = ", ".join(kind.__name__ for kind in _NUMBERS)
        raise TypeError(f"{self.function.__name__}: takes arrays of this machine's byte order and {numbers}, got {got}")

    def native(self, forms: tuple[str, ...]) -> Jitted:
        """Return the machine code for arguments of these types; an array type is written like "float32 2"."""
        return Jitted(self.function, forms, self.fastmath, by_table=True, has_parts=self.has_parts)


def start_of(words: Words[int]) -> int:
    """Return the address of the first of some int64 words."""
    return words.buffer_info()[0]


def address_of(array: Any) -> int:
    """Return the address of the first element of a contiguous NumPy array.

    Raises RuntimeError: the array is not contiguous.
    """
    try:
        return addressof(c_char.from_buffer(array))  # takes a quarter of the time of __array_interface__
    except (TypeError, ValueError):  # not writable, empty, or not contiguous
        if not array.flags.c_contiguous:
            raise RuntimeError(f"a table holds contiguous arrays, got strides {array.strides}") from None
    start: int = array.__array_interface__["data"][0]
    return start
