"""What compiled code is written in: decorators of functions that Numba compiles when they are first needed.

Nothing here imports Numba, and no module of kernels does at its top: what has been compiled before comes from the
store (see native.py), and a process that compiles nothing never loads the compiler. Numba, and what of LLVM's writer
is needed in the body of an intrinsic, are reached through names that are imported when they are first used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from llvmlite import ir

from nmt.rnn.kernels.machine_code.kernel import Kernel
from nmt.rnn.kernels.machine_code.native import Compilable, Jitted

__all__ = [
    "FAST",
    "cgutils",
    "exact_kernel",
    "external",
    "external_by_elements",
    "inlined",
    "inner_kernel",
    "intrinsic",
    "kernel",
    "native_function",
    "numba_types",
    "task",
    "with_arity",
]

# Reassociation and fused multiply-add, but infinities and NaN keep their meaning: a broken gradient
# must stay visible.
FAST = frozenset({"reassoc", "contract", "arcp", "nsz"})


class _Later:
    """A module that is imported when something in it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


numba_types: Any = _Later("numba.types")
cgutils: Any = _Later("numba.core.cgutils")


def kernel(function: Callable[..., Any]) -> Kernel:
    """Return a function that Python calls with NumPy arrays and numbers, and compiled code as an `inner_kernel`; it
    returns nothing (see kernel.py)."""
    return Kernel(function, FAST)


def inner_kernel(function: Callable[..., Any]) -> Any:
    """Return a function that only compiled code calls, whose machine code becomes part of its callers'."""
    return Compilable(function, FAST)


def exact_kernel(function: Callable[..., Any]) -> Any:
    """Return an `inner_kernel` whose sums are not reassociated."""
    return Compilable(function, frozenset())


class Inlined(Compilable):
    """A small plain function, which Python may call as it stands: its statements become part of each caller's before
    that is compiled, which for so few takes less time than compiling a function does. Its sums are as exact as the
    caller's."""

    # What Numba looks at to see whether to do so, and what it then takes.
    targetoptions = {"inline": "always"}  # noqa: RUF012

    @property
    def py_func(self) -> Callable[..., Any]:
        """Return the function."""
        return self.function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


inlined: Callable[[Callable[..., Any]], Any] = Inlined


class Intrinsic(Compilable):
    """A function that writes LLVM's instructions, as Numba's intrinsics do: called with the types of its arguments it
    returns a signature and what writes them. None: other types are meant."""

    def make(self) -> Any:
        """Numba's own."""
        return import_module("numba.extending").intrinsic(self.function)


intrinsic: Callable[[Callable[..., Any]], Any] = Intrinsic


# ---------------------------------------------------------------- functions by address


def task(function: Callable[..., Any]) -> Jitted:
    """Return a function (part, parts, table), compiled when first used; `.address` is that of its code, for
    `team.run_team`.

    The table is an address: of int64 numbers and addresses, which the function knows the order of. A call
    with three numbers costs a fraction of one that hands over twenty arrays. The function must return
    nothing and raise nothing.
    """
    return Jitted(function, ("int64", "int64", "voidptr"), FAST)


def native_function(result: str = "void") -> Callable[[Callable[..., Any]], Jitted]:
    """For functions of int64 that Python calls by `.call`, without the interpreter's lock; they return this type,
    "int64" or nothing, and raise nothing."""

    def decorate(function: Callable[..., Any]) -> Jitted:
        return Jitted(function, ("int64",) * function.__code__.co_argcount, FAST, result=result)

    return decorate


def external(
    function: Callable[..., Any], argument_types: tuple[str, ...], *, fast: bool = False, name: str | None = None
) -> Any:
    """Compile once per process, under a name of its own, when the first caller is; return what compiled code calls.

    A function called in the usual way is compiled again into each of its callers. The large ones
    are instead machine code that callers reach by symbol, also callers from the store: they name
    it, they do not contain it. The function must return nothing and raise nothing. Callable inside
    compiled code only. `argument_types` are names of Numba's types. `fast`: sums may be reassociated, as in a
    `kernel`; here all callers get the same bits, which compiled into each of them they need not. `name`: where several
    functions have one.
    """
    name = name or function.__name__.lstrip("_")
    native = Jitted(function, argument_types, FAST if fast else frozenset(), symbol=f"nmt_{name}")

    def call(typing_context: Any, *arguments: Any) -> Any:
        return _call_of(native)

    found: Any = Intrinsic(with_arity(call, len(argument_types), name))
    found.native, found.content = native, native.content
    return found


def external_by_elements(name: str, choices: dict[str, Any], *, optional: bool = False) -> Any:
    """Return what compiled code calls with an array and arguments: the `external` for its elements' type, by its name,
    which gets the arguments alone. Only what is called is compiled. Other types are refused, or with `optional` nothing
    happens."""
    natives = {elements: chosen.native for elements, chosen in choices.items()}
    argument_types = next(iter(natives.values())).argument_types

    def call(typing_context: Any, array: Any, *arguments: Any) -> Any:
        elements = str(array.dtype)
        if elements not in natives:
            types = [getattr(numba_types, kind) for kind in argument_types]
            if not optional:
                refused = import_module("numba.core.errors").TypingError
                raise refused(f"{name}: elements must be of {', '.join(natives)}, got {array}")
            return numba_types.void(array, *types), lambda context, *_: context.get_dummy_value()
        return _call_of(natives[elements], array)

    found: Any = Intrinsic(with_arity(call, 1 + len(argument_types), name))
    found.content = "\0".join([name, str(optional), *(f"{kind} {native.content}" for kind, native in natives.items())])
    return found


def _call_of(native: Jitted, *before: Any) -> Any:
    """Return the signature and code of a call by symbol, with arguments before those that are handed over."""
    argument_types = [getattr(numba_types, kind) for kind in native.argument_types]

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = [context.get_value_type(argument) for argument in argument_types]
        callee = builder.module.globals.get(native.symbol)
        if callee is None:
            callee = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), kinds), native.symbol)
        builder.call(callee, args[len(before) :])
        return context.get_dummy_value()

    return numba_types.void(*before, *argument_types), codegen


def with_arity(call: Callable[..., Any], count: int, name: str) -> Callable[..., Any]:
    """`call`, which takes a typing context and `count` arguments, as a function with so many names."""
    # Numba reads an intrinsic's parameters from its Python signature, which therefore has to be a
    # real one.
    names = ", ".join(f"a{i}" for i in range(count))
    scope: dict[str, Any] = {"call": call}
    exec(f"def {name}(typing_context, {names}):\n    return call(typing_context, {names})\n", scope)  # noqa: S102
    scope[name].written_by = call  # what its content is
    return scope[name]
