"""Functions that are machine code at an address: from the store, or compiled and put there.

What runs is always the object that the store keeps, in the process that has compiled it as in all later ones. An object
calls others by symbols of the process; it says which, and they are there before it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

from llvmlite import binding, ir
from numba import types as numba_types
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from nmt.interruption import uninterrupted
from nmt.rnn.kernels import machine_code
from nmt.rnn.kernels.code_names import code_name, sources_are_unchanged
from nmt.rnn.kernels.store import Record, store


class Native:
    """A function that returns and raises nothing, by its address; loaded or compiled when that is first asked for.

    symbol: what other compiled code calls it by; without one nothing does.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        argument_types: tuple[Any, ...],
        options: dict[str, Any],
        symbol: str | None = None,
    ) -> None:
        self.function, self.argument_types, self.options, self.symbol = function, argument_types, options, symbol
        self._address = 0
        if symbol:
            former = _BY_SYMBOL.get(symbol)
            if former and (former.function.__module__, former.function.__qualname__) != (
                function.__module__,
                function.__qualname__,
            ):
                raise RuntimeError(f"{symbol}: two functions have this name")
            _BY_SYMBOL[symbol] = self

    @cached_property
    def code_name(self) -> str | None:
        """That of its content (see code_names.py)."""
        options = sorted((key, sorted(v) if isinstance(v, set) else v) for key, v in self.options.items())
        return code_name(self.function, f"{self.argument_types} {options}")

    @property
    def is_loaded(self) -> bool:
        """Whether its address is known."""
        return self._address != 0

    @property
    def address(self) -> int:
        """Where its code begins. From then on other code can call it by its symbol."""
        if not self._address:
            for wait in before_compiling:
                wait(self)
            # Numba's lock, for who compiles holds it already where it asks for what it calls.
            with uninterrupted(), global_compiler_lock:
                if not self._address:
                    self._address = self._find()
        return self._address

    def _find(self) -> int:
        name = self.code_name
        found = None if name is None else read(name)
        if found is None:
            found = self._compile()
            if name is not None and sources_are_unchanged():
                store().write(name, found)
        address = machine_code.load(found.code, found.facts["entry"])
        if self.symbol:
            binding.add_symbol(self.symbol, address)
        return address

    def _compile(self) -> Record:
        flags = Flags()
        # Nothing else is wanted than the function itself, and that not before our entrance is added to it.
        entrances = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        cpu_target.options.parse_as_flags(flags, self.options | entrances)
        setattr(flags, "no_compile", True)  # noqa: B010 - Numba makes its options while it is imported
        contexts = cpu_target.typing_context, cpu_target.target_context
        made = compile_extra(*contexts, self.function, self.argument_types, numba_types.void, flags, {})
        entry = f"nmt_entry_{made.fndesc.mangled_name}"
        made.library.add_ir_module(_entrance(made.fndesc, entry))
        made.library.finalize()
        code, _ = made.library.serialize_using_object_code()[2]
        return Record({"entry": entry, "symbols": symbols_of(made.library)}, code)


_BY_SYMBOL: dict[str, Native] = {}

before_compiling: list[Callable[[Native], None]] = []
"""What is called when an address is first asked for: to wait until others have compiled it."""


def _entrance(description: Any, name: str) -> ir.Module:
    """A function of C that calls a compiled one. Numba's own would drag in Python, to report what is never raised."""
    context = cpu_target.target_context
    module = context.create_module(name)
    kind = context.call_conv.get_function_type(description.restype, description.argtypes)
    inner = ir.Function(module, kind, description.llvm_func_name)
    values = [context.get_value_type(argument) for argument in description.argtypes]
    outer = ir.Function(module, ir.FunctionType(ir.VoidType(), values), name)
    builder = ir.IRBuilder(outer.append_basic_block("entry"))
    context.call_conv.call_function(
        builder, inner, description.restype, description.argtypes, outer.args, attrs=("noinline",)
    )
    builder.ret_void()
    return module


_DECLARED = re.compile(r'^(?:declare .*?|(?=@.* external ))@"?([^"\s(]+)', re.MULTILINE)


def symbols_of(library: Any) -> list[str]:
    """What a finished library of Numba's calls or reads by name, of the process."""
    return sorted({name for name in _DECLARED.findall(library.get_llvm_str()) if not name.startswith("llvm.")})


def read(name: str) -> Record | None:
    """What the store has under a name, all that it calls being there; None where it has nothing of use."""
    found = store().read(name)
    if found is None:
        return None
    symbols = found.facts["symbols"]
    for symbol in symbols:
        if symbol in _BY_SYMBOL:
            _ = _BY_SYMBOL[symbol].address
    if machine_code.unresolved(symbols):
        with global_compiler_lock:
            rtsys.initialize(cpu_target.target_context)  # which tells LLVM what Numba's runtime has
    return None if machine_code.unresolved(symbols) else found
