"""Kernels: compiled functions that Python calls with NumPy arrays and numbers. Imports no Numba.

A call writes its arguments into a table, as many words for each as its kind takes, and calls the machine code for
these kinds by its address: with what runs a table, threads can share a kernel as they share a task (see pool.py). The
machine code makes arrays of the table's words again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from ctypes import addressof, c_char
from typing import Any, NamedTuple

import numpy as np

from nmt.rnn.kernels.machine_code.native import Compilable, Jitted

LINE_BYTES = 64
"""What a table begins with: the cache line of its task's meetings (see barrier.py)."""

# Of a number, by its class: the name of Numba's type, and what it is in a table.
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


class _Entry(NamedTuple):
    """A kernel compiled for kinds of arguments."""

    native: Jitted
    words: struct.Struct


class Call(NamedTuple):
    """A kernel with the arguments of a call; `keep` is what the table and its addresses are of."""

    native: Jitted
    table: int
    keep: Any


class Kernel(Compilable):
    """A function that Python calls with C-contiguous arrays and numbers; it returns and raises nothing.

    Where its first parameters are (part, parts) it does one thread's share of the work, and `pool.run_parallel` all of
    it. In compiled code it is what `jit.inner_kernel` makes.
    """

    def __init__(self, function: Callable[..., Any], fastmath: frozenset[str]) -> None:
        super().__init__(function, fastmath)
        code = function.__code__
        self.has_parts = code.co_varnames[: min(2, code.co_argcount)] == ("part", "parts")
        self._entries: dict[tuple[Any, ...], _Entry] = {}

    def __call__(self, *args: Any) -> None:
        """Do one part, or all of it, on this thread."""
        part, parts, args = (args[0], args[1], args[2:]) if self.has_parts else (0, 1, args)
        call = self.with_arguments(args)
        call.native.call(part, parts, call.table)

    def with_arguments(self, args: tuple[Any, ...]) -> Call:
        """Return what runs it on these, but for (part, parts).

        Raises TypeError: something is neither an array of the machine's byte order nor a number of a known kind.
        RuntimeError: an array is not contiguous.
        """
        kinds: list[Any] = []
        words: list[Any] = []
        for value in args:
            kind = type(value)
            if kind in _NUMBERS:
                kinds.append(kind)
                words.append(value)
            elif kind is not np.ndarray and not isinstance(value, np.ndarray):
                self._refuse(value)
            else:
                kinds += value.dtype, value.ndim
                words.append(address_of(value))
                words += value.shape
        entry = self._entries.get(tuple(kinds))
        if entry is None:
            entry = self._entries[tuple(kinds)] = self._entry(args)
        table = bytearray(entry.words.size)
        entry.words.pack_into(table, 0, *words)
        return Call(entry.native, addressof(c_char.from_buffer(table)), (table, args))

    def _entry(self, args: tuple[Any, ...]) -> _Entry:
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
        return _Entry(self.native(tuple(forms)), struct.Struct("=" + "".join(words)))

    def _refuse(self, value: Any) -> None:
        """Say that it can be no argument: of anything but an array only NumPy would know how long its address holds."""
        got = f"{type(value).__name__} {getattr(value, 'dtype', '')} {getattr(value, 'shape', '')}".rstrip()
        numbers = ", ".join(kind.__name__ for kind in _NUMBERS)
        raise TypeError(f"{self.function.__name__}: takes arrays of this machine's byte order and {numbers}, got {got}")

    def native(self, forms: tuple[str, ...]) -> Jitted:
        """Return its machine code for arguments of these types, arrays as "float32 2" and the like."""
        return Jitted(self.function, forms, self.fastmath, by_table=True, has_parts=self.has_parts)


def address_of(array: Any) -> int:
    """Return where the numbers of a contiguous NumPy array begin."""
    try:
        return addressof(c_char.from_buffer(array))  # a quarter of the time of the array's own interface
    except (TypeError, ValueError):  # not writable, empty, or not contiguous
        if not array.flags.c_contiguous:
            raise RuntimeError(f"a table holds contiguous arrays, got strides {array.strides}") from None
    start: int = array.__array_interface__["data"][0]
    return start
