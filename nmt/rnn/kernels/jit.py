"""The one way functions here are compiled: without the interpreter lock, kept on disk (see store.py)."""

# Features first: a forced target has to be known before Numba reads its settings.
from nmt.rnn.kernels.code_names import code_name, sources_are_unchanged  # isort: skip

import pickle
from collections.abc import Callable
from functools import wraps
from typing import Any

from nmt.interruption import forkable, uninterrupted

with uninterrupted():  # an import of compiled modules that was cut short cannot be done again
    import numba
    from llvmlite import ir
    from numba import carray
    from numba import types as numba_types
    from numba.core.compiler import CompileResult
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.errors import TypingError
    from numba.core.serialize import dumps
    from numba.core.types import unliteral
    from numba.extending import intrinsic, overload

    from nmt.rnn.kernels.native import Native, read, symbols_of

from nmt.rnn.kernels.store import Record, store

__all__ = [
    "FAST",
    "INSIDE",
    "carray",
    "exact_kernel",
    "external",
    "external_by_elements",
    "inner_kernel",
    "intrinsic",
    "kernel",
    "overload",
    "numba_types",
    "task",
    "with_arity",
]

# Reassociation and fused multiply-add, but infinities and NaN keep their meaning: a broken gradient
# must stay visible.
FAST = {"reassoc", "contract", "arcp", "nsz"}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first call for the types it meets; `error_model="numpy"` lets loops with a
    division vectorise."""
    compiled: Any = numba.njit(nogil=True, error_model="numpy", fastmath=FAST)(function)
    compiled._cache = _KernelStore(function)
    return _whole(compiled)


def inner_kernel(function: Callable[..., Any]) -> Any:
    """The same for what only compiled code calls: it becomes part of its callers and has no entrance of its own, which
    for many arrays takes longer to compile than what it does."""
    return _whole(numba.njit(**INSIDE, fastmath=FAST)(function))


def exact_kernel(function: Callable[..., Any]) -> Any:
    """An `inner_kernel` whose sums are not reassociated."""
    return _whole(numba.njit(**INSIDE)(function))


INSIDE: Any = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def _whole(compiled: Any) -> Any:
    """The same function, whose compiling an interruption does not cut in two: Numba keeps state of its own about it.
    Where other kernels call it, it is compiled for the types of its arguments, not once more for each number that is
    written there: it becomes part of them, and what is constant is found then."""
    compile_it, choose_it = compiled.compile, compiled.get_call_template

    @wraps(compile_it)
    def compile(*args: Any, **options: Any) -> Any:
        with uninterrupted():
            return compile_it(*args, **options)

    @wraps(choose_it)
    def get_call_template(args: Any, named: Any) -> Any:
        return choose_it(tuple(map(unliteral, args)), {name: unliteral(kind) for name, kind in named.items()})

    compiled.compile, compiled.get_call_template = compile, get_call_template
    return compiled


if hasattr(global_compiler_lock, "_lock"):
    forkable(global_compiler_lock._lock)


class _KernelStore:
    """The store, as Numba asks for what was compiled before."""

    cache_path = None

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled function for these types; None where it is not there."""
        name = code_name(self._function, str(signature))
        found = None if name is None else read(name)
        if found is None:
            return None
        context.refresh()
        # Numba's own form, which could name any function: it comes whole and from a file of our own (see store.py).
        return CompileResult._rebuild(context, *pickle.loads(found.code))

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep it for later processes, where its content has a name."""
        name = code_name(self._function, str(signature))
        if name is not None and not result.library.has_dynamic_globals and sources_are_unchanged():
            facts = {"symbols": symbols_of(result.library)}
            store().write(name, Record(facts, dumps(result._reduce())))


# ---------------------------------------------------------------- functions by address

_BY_ADDRESS: Any = {"nogil": True, "error_model": "numpy"}


def task(function: Callable[..., Any]) -> Native:
    """A function (part, parts, table), compiled when first used; `.address` is that of its code, for `team.run_team`.

    The table is an address: of int64 numbers and addresses, which the function knows the order of. A call
    with three numbers costs a fraction of one that hands over twenty arrays. The function must return
    nothing and raise nothing.
    """
    arguments = (numba_types.int64, numba_types.int64, numba_types.voidptr)
    return Native(function, arguments, _BY_ADDRESS | {"fastmath": FAST})


def external(
    function: Callable[..., Any], argument_types: tuple[Any, ...], *, fast: bool = False, name: str | None = None
) -> Any:
    """Compile once per process, under a name of its own, when the first caller is; return what compiled code calls.

    A function called in the usual way is compiled again into each of its callers. The large ones
    are instead machine code that callers reach by symbol, also callers from the store: they name
    it, they do not contain it. The function must return nothing and raise nothing. Callable inside
    compiled code only. `fast`: sums may be reassociated, as in a `kernel`; here all callers get the same
    bits, which compiled into each of them they need not. `name`: where several functions have one.
    """
    options = _BY_ADDRESS | {"fastmath": FAST if fast else False}
    name = name or function.__name__.lstrip("_")
    native = Native(function, argument_types, options, f"nmt_{name}")

    def call(typing_context: Any, *arguments: Any) -> Any:
        return _call_of(native)

    found: Any = intrinsic(with_arity(call, len(argument_types), name))
    found.native, found.code_name = native, native.code_name
    return found


def external_by_elements(name: str, choices: dict[Any, Any], *, optional: bool = False) -> Any:
    """What compiled code calls with an array and arguments: the `external` for its elements' type, which gets the
    arguments alone. Only what is called is compiled. Other types are refused, or with `optional` nothing happens."""
    natives = {elements: chosen.native for elements, chosen in choices.items()}
    argument_types = next(iter(natives.values())).argument_types

    def call(typing_context: Any, array: Any, *arguments: Any) -> Any:
        if array.dtype not in natives:
            if not optional:
                raise TypingError(f"{name}: elements must be of {', '.join(map(str, natives))}, got {array}")
            return numba_types.void(array, *argument_types), lambda context, *_: context.get_dummy_value()
        return _call_of(natives[array.dtype], array)

    return intrinsic(with_arity(call, 1 + len(argument_types), name))


def _call_of(native: Native, *before: Any) -> Any:
    """The signature and code of a call by symbol, with arguments before those that are handed over."""
    _ = native.address  # LLVM wants to know the symbol as soon as it is called somewhere

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kinds = [context.get_value_type(argument) for argument in native.argument_types]
        callee = builder.module.globals.get(native.symbol)
        if callee is None:
            callee = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), kinds), native.symbol)
        builder.call(callee, args[len(before) :])
        return context.get_dummy_value()

    return numba_types.void(*before, *native.argument_types), codegen


def with_arity(call: Callable[..., Any], count: int, name: str) -> Callable[..., Any]:
    """`call`, which takes a typing context and `count` arguments, as a function with so many names."""
    # Numba reads an intrinsic's parameters from its Python signature, which therefore has to be a
    # real one.
    names = ", ".join(f"a{i}" for i in range(count))
    scope: dict[str, Any] = {"call": call}
    exec(f"def {name}(typing_context, {names}):\n    return call(typing_context, {names})\n", scope)  # noqa: S102
    return scope[name]
