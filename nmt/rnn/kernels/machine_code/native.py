"""Functions that are machine code at an address, loaded from the store or compiled and stored. Imports no Numba.

The object file in the store is what runs, both in the process that compiled it and in all later ones. An object calls
others by symbols of the process. It lists these symbols, and they are defined before it is loaded.

A kernel is such a function that Python calls with NumPy arrays and numbers: a call writes them into a table, each with
as many words as its type takes. Threads can therefore share a kernel in the same way as a task (see pool.py)."""

from __future__ import annotations

import array
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from ctypes import CFUNCTYPE, addressof, c_char, c_int64
from functools import cached_property
from importlib import import_module
from itertools import count
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding

from nmt.rnn.arrays.workspace import LINE_BYTES
from nmt.rnn.kernels.machine_code import store
from nmt.rnn.kernels.machine_code.objects import load, spare_memory
from nmt.rnn.kernels.machine_code.store import Record, content_of
from nmt.system.interruption import forkable, uninterrupted
from nmt.system.notices import making_code


class Compilable:
    """A function that becomes part of each compiled caller. fastmath: the fast-math flags that LLVM may use."""

    def __init__(self, function: Callable[..., Any], fastmath: frozenset[str] = frozenset()) -> None:
        self.function, self.fastmath = function, fastmath
        self.__doc__, self.__module__ = function.__doc__, function.__module__

    @cached_property
    def content(self) -> str | None:
        """Return a text for the function, the same in every process (see store.py); None if there is none."""
        content = content_of(self.function)
        return None if content is None else f"{type(self).__name__} {content} {sorted(self.fastmath)}"

    @cached_property
    def numba(self) -> Any:
        """Return the object by which Numba knows the function."""
        return _compiler().dispatcher(self.function, self.fastmath)


class Native(ABC):
    """A function that is called by its address and raises nothing; it is loaded or compiled when the address is first
    used. argument_types: names of Numba's types; an array type is written like "float32 2". result: the name of the
    result's type, "void" for none. symbol: the name by which other compiled code calls it; without one, no compiled
    code does."""

    def __init__(self, argument_types: tuple[str, ...], *, symbol: str | None = None, result: str = "void") -> None:
        self.argument_types, self.symbol, self.result = argument_types, symbol, result
        self._address, self._arity = 0, len(argument_types)
        self.recipe: tuple[Any, ...] | list[Any] | None = None  # see recipes.py

    label: str
    """The readable start of its names."""
    _types: str
    """A text for the types and options that it is compiled with."""
    _python_code: str
    """A text for the imported bytecode, if the source may have changed since (see store.code_name)."""

    @property
    @abstractmethod
    def content(self) -> str | None:
        """Return a text for the function, the same in every process (see store.py); None if there is none."""

    @abstractmethod
    def compile(self) -> Record:
        """Compile the function and return its machine code."""

    @cached_property
    def source_name(self) -> str | None:
        """Return the name of the sources and types that it is compiled from; None if its content is unknown."""
        return None if self.content is None else store.source_name(self.label, self.content, self._types)

    @cached_property
    def entry(self) -> str:
        """Return the only symbol that its machine code defines."""
        return f"nmt_{self.source_name or f'unnamed_{next(_unnamed)}'}"

    @cached_property
    def code_name(self) -> str | None:
        """Return the name of its machine code in the store; None if its content is unknown."""
        return None if self.source_name is None else store.code_name(self.label, self.source_name, self._python_code)

    @property
    def address(self) -> int:
        """Return the address of its machine code. From then on other code can call it by its symbol."""
        if not self._address:
            for hook in when_used:
                hook(self)
            with uninterrupted(), _finding:
                if not self._address:
                    self._address = self._find()
        return self._address

    @cached_property
    def call(self) -> Callable[..., int]:
        """Return the function for Python: arguments and result are int64, and it runs without the interpreter lock."""
        return CFUNCTYPE(c_int64 if self.result == "int64" else None, *(c_int64,) * self._arity)(self.address)

    def _find(self) -> int:
        found = _usable(store.shipped(), self.source_name) or _usable(store.store(), self.code_name)
        if found is None:
            with making_code(store.store().keeps):
                found = self._compiled()
                _load_called(found)
        address = load(found.code, found.facts["entry"])
        if self.symbol:
            binding.add_symbol(self.symbol, address)
        return address

    def made(self) -> Record:
        """Return the machine code, stored or compiled now, but not loaded: it may be that of another machine."""
        found = None if self.code_name is None else store.store().read(self.code_name)
        return self._compiled() if found is None else found

    def _compiled(self) -> Record:
        found = self.compile()
        if self.code_name is not None and store.sources_are_unchanged():
            store.store().write(self.code_name, found)
        return found


class Jitted(Native):
    """A native function that Numba compiles from a Python function. by_table: its arguments are in a table, and it is
    called with (part, parts, table), where `table` is an address. has_parts: the Python function takes (part, parts)
    first (see `Kernel`)."""

    def __init__(
        self,
        function: Callable[..., Any],
        argument_types: tuple[str, ...],
        fastmath: frozenset[str],
        *,
        symbol: str | None = None,
        result: str = "void",
        by_table: bool = False,
        has_parts: bool = False,
    ) -> None:
        super().__init__(argument_types, symbol=symbol, result=result)
        self.function, self.fastmath = function, fastmath
        self.by_table, self.has_parts = by_table, has_parts
        if by_table:
            self._arity = 3
        self.label = (symbol or function.__name__).removeprefix("nmt_").lstrip("_")
        self._types = repr((argument_types, result, by_table, sorted(fastmath)))
        if symbol:
            former = _BY_SYMBOL.setdefault(symbol, self).function
            if (former.__module__, former.__qualname__) != (function.__module__, function.__qualname__):
                raise RuntimeError(f"{symbol}: two functions have this name")
            _BY_SYMBOL[symbol] = self

    @cached_property
    def content(self) -> str | None:
        """Return what `content_of` makes of the function."""
        return content_of(self.function)

    @cached_property
    def _python_code(self) -> str:  # type: ignore[override]
        return store.python_code(self.function.__code__)

    def compile(self) -> Record:
        """Compile the function with Numba and return its machine code."""
        made: Record = _compiler().compile_native(self)
        return made


def _compiler() -> Any:
    """Return the module that imports Numba. It is imported here, and not at the top, because it imports this module."""
    return import_module("nmt.rnn.kernels.memory.compiling")


_BY_SYMBOL: dict[str, Jitted] = {}
_unnamed = count(1)

# Only one thread at a time loads a function, together with those that it calls.
_finding = forkable(RLock())

when_used: list[Callable[[Native], None]] = []
"""Hooks called when an address is first used."""


def _usable(where: store.Pack | store.Store, name: str | None) -> Record | None:
    """Return a record when all that it calls is loaded; None if there is none, or the process lacks a symbol that it
    needs: loading it would make LLVM abort the process."""
    found = None if name is None else where.read(name)
    if found is None:
        return None
    _load_called(found)
    return found if all(map(binding.address_of_symbol, found.facts["symbols"])) else None


def _load_called(found: Record) -> None:
    """Load our functions that this code calls: LLVM must know their symbols before it loads the code."""
    for native in called_by(found):
        _ = native.address


def called_by(found: Record) -> list[Native]:
    """Return our functions that this code calls by their symbols."""
    return [_BY_SYMBOL[symbol] for symbol in found.facts["symbols"] if symbol in _BY_SYMBOL]


Words = array.array
"""A table: words of int64, of typecode "q"; Python makes one in half the time that NumPy takes."""

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


class KernelCall(NamedTuple):
    """A kernel with the arguments of a call; `keep` holds references to the memory that the addresses point to."""

    native: Jitted
    table: int
    keep: Any


class Kernel(Compilable):
    """A function that Python calls with C-contiguous arrays and numbers; it returns nothing and raises nothing. If its
    first parameters are (part, parts), a call does one thread's share of the work, and `pool.run_parallel` does all of
    it. In compiled code it behaves like an `inner_kernel`."""

    def __init__(self, function: Callable[..., Any], fastmath: frozenset[str]) -> None:
        super().__init__(function, fastmath)
        code = function.__code__
        self.has_parts = code.co_varnames[: min(2, code.co_argcount)] == ("part", "parts")
        # By the types of arguments: the kernel compiled for them, and the layout of its table.
        self._entries: dict[tuple[Any, ...], tuple[Jitted, struct.Struct]] = {}

    def __call__(self, *args: Any) -> None:
        """Run one part, or without parts the whole kernel, on this thread."""
        part, parts, args = (args[0], args[1], args[2:]) if self.has_parts else (0, 1, args)
        call = self.with_arguments(args)
        call.native.call(part, parts, call.table)
        if spare_memory.lacked:
            spare_memory.fail()

    def with_arguments(self, args: tuple[Any, ...]) -> KernelCall:
        """Return a call with these arguments, which do not include (part, parts). Raises TypeError: an argument is
        neither an array in the machine's byte order nor a number of a known type. RuntimeError: an array is not
        contiguous."""
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
        native, layout = entry
        table = Words("q", layout.pack(*words))
        return KernelCall(native, start_of(table), (table, args))

    def _entry(self, args: tuple[Any, ...]) -> tuple[Jitted, struct.Struct]:
        forms, words = [], [f"{LINE_BYTES}x"]  # first the cache line for the barrier of the task (see atomics.py)
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
        return self.native(tuple(forms)), struct.Struct("=" + "".join(words))

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
    """Return the address of a NumPy array's first element. Raises RuntimeError: the array is not contiguous."""
    try:
        return addressof(c_char.from_buffer(array))  # takes a quarter of the time of __array_interface__
    except (TypeError, ValueError):  # not writable, empty, or not contiguous
        if not array.flags.c_contiguous:
            raise RuntimeError(f"a table holds contiguous arrays, got strides {array.strides}") from None
    start: int = array.__array_interface__["data"][0]
    return start
