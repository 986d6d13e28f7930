"""Functions that are machine code at an address: from the store, or compiled and put there. Imports no Numba.

What runs is always the object that the store keeps, in the process that has compiled it as in all later ones. An object
calls others by symbols of the process; it says which, and they are there before it is loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_int64
from functools import cached_property
from importlib import import_module
from itertools import count
from threading import RLock
from typing import Any

from nmt.rnn.kernels.machine_code import objects as machine_code
from nmt.rnn.kernels.machine_code.code_names import (
    code_name,
    content_of,
    python_code,
    source_name,
    sources_are_unchanged,
)
from nmt.rnn.kernels.machine_code.store import Record, shipped, store
from nmt.system.compile_notice import making_code, note_found
from nmt.system.interruption import forkable, uninterrupted


class Compilable:
    """A function that compiled code calls, whose machine code becomes part of its callers'.

    fastmath: what LLVM may do with its numbers.
    """

    def __init__(self, function: Callable[..., Any], fastmath: frozenset[str] = frozenset()) -> None:
        self.function, self.fastmath = function, fastmath
        self.__doc__, self.__module__ = function.__doc__, function.__module__

    @cached_property
    def content(self) -> str | None:
        """See code_names.py."""
        content = content_of(self.function)
        return None if content is None else f"{type(self).__name__} {content} {sorted(self.fastmath)}"

    @cached_property
    def numba(self) -> Any:
        """Return what Numba knows it by."""
        return self.make()

    def make(self) -> Any:
        """Make that."""
        return _compiler().dispatcher(self.function, self.fastmath)


class Native(ABC):
    """A function that raises nothing, by its address; loaded or compiled when that is first asked for.

    argument_types: names of Numba's types, for an array "float32 2" and the like. result: the name of a type, of
    nothing by default. symbol: what other compiled code calls it by; without one nothing does.
    """

    def __init__(self, argument_types: tuple[str, ...], *, symbol: str | None = None, result: str = "void") -> None:
        self.argument_types, self.symbol, self.result = argument_types, symbol, result
        self._address = 0
        self.recipe: tuple[Any, ...] | list[Any] | None = None  # see recipes.py

    @property
    @abstractmethod
    def label(self) -> str:
        """Return what its names begin with, for readers."""

    @property
    @abstractmethod
    def content(self) -> str | None:
        """See code_names.py."""

    @property
    @abstractmethod
    def _types(self) -> str:
        """Return what it is compiled for, besides."""

    @property
    @abstractmethod
    def _python_code(self) -> str:
        """Return what this process has of its source, where that could have changed since (see
        code_names.code_name)."""

    @abstractmethod
    def compile(self) -> Record:
        """Return its machine code, made anew."""

    @cached_property
    def source_name(self) -> str | None:
        """That of what it is compiled from; None where its content has none."""
        return None if self.content is None else source_name(self.label, self.content, self._types)

    @cached_property
    def entry(self) -> str:
        """Return the one symbol of its machine code."""
        return f"nmt_{self.source_name or f'unnamed_{next(_unnamed)}'}"

    @cached_property
    def code_name(self) -> str | None:
        """That of its machine code in the store; None where its content has none."""
        return None if self.source_name is None else code_name(self.label, self.source_name, self._python_code)

    @property
    def is_loaded(self) -> bool:
        """Return whether its address is known."""
        return self._address != 0

    @property
    def address(self) -> int:
        """Return where its code begins. From then on other code can call it by its symbol."""
        if not self._address:
            for wait in before_compiling:
                wait(self)
            with uninterrupted(), _finding:
                if not self._address:
                    self._address = self._find()
        return self._address

    @cached_property
    def call(self) -> Callable[..., int]:
        """It, for Python: arguments and result are int64, and the interpreter's lock is free meanwhile."""
        return CFUNCTYPE(c_int64 if self.result == "int64" else None, *(c_int64,) * self._arity)(self.address)

    @property
    def _arity(self) -> int:
        return len(self.argument_types)

    def _find(self) -> int:
        found = self._shipped() or self._stored()
        if found is None:
            for begin in when_compiling:
                begin(self)
            with making_code(store().keeps):
                found = self.compile()
                _load_called(found)
            if self.code_name is not None and sources_are_unchanged():
                store().write(self.code_name, found)
        address = machine_code.load(found.code, found.facts["entry"])
        if self.symbol:
            machine_code.add_symbol(self.symbol, address)
        note_found()
        return address

    def _shipped(self) -> Record | None:
        return None if self.source_name is None else _usable(shipped().read(self.source_name))

    def _stored(self) -> Record | None:
        return None if self.code_name is None else _usable(store().read(self.code_name))


class Jitted(Native):
    """One that Numba compiles from a function of Python.

    by_table: its arguments are in a table, by whose address it is called with (part, parts, table); it gets (part,
    parts) first where it `has_parts` (see kernel.py).
    """

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
        if symbol:
            former = _BY_SYMBOL.get(symbol)
            if former and (former.function.__module__, former.function.__qualname__) != (
                function.__module__,
                function.__qualname__,
            ):
                raise RuntimeError(f"{symbol}: two functions have this name")
            _BY_SYMBOL[symbol] = self

    @cached_property
    def content(self) -> str | None:
        """See code_names.py."""
        return content_of(self.function)

    @property
    def label(self) -> str:
        """Return its name."""
        return (self.symbol or self.function.__name__).removeprefix("nmt_").lstrip("_")

    @property
    def _types(self) -> str:
        return repr((self.argument_types, self.result, self.by_table, sorted(self.fastmath)))

    @property
    def _python_code(self) -> str:
        return python_code(self.function.__code__)

    @property
    def _arity(self) -> int:
        return 3 if self.by_table else super()._arity

    def compile(self) -> Record:
        """Return its machine code, made anew."""
        made: Record = _compiler().compile_native(self)
        return made


def _compiler() -> Any:
    """Return the module that imports Numba; by its name, for it is made of what is here."""
    return import_module("nmt.rnn.kernels.memory.compiling")


_BY_SYMBOL: dict[str, Jitted] = {}
_unnamed = count(1)

# One finds its code at a time, with all that it calls.
_finding = forkable(RLock())

before_compiling: list[Callable[[Native], None]] = []
"""What is called when an address is first asked for: to wait until others have compiled it."""

when_compiling: list[Callable[[Native], None]] = []
"""What is called when it was not there."""


def _usable(found: Record | None) -> Record | None:
    """Return a record, all that it calls being there; None where something is not."""
    if found is None:
        return None
    _load_called(found)
    return None if machine_code.unresolved(found.facts["symbols"]) else found


def _load_called(found: Record) -> None:
    """Have all of ours that it calls: LLVM wants to know their symbols before it is loaded."""
    for symbol in found.facts["symbols"]:
        if symbol in _BY_SYMBOL:
            _ = _BY_SYMBOL[symbol].address
