"""Decorators for functions that Numba compiles when they are first needed.

This module does not import Numba, and neither does any module of the kernels at its top level: code that was compiled
before comes from the store (see native.py), so a process that compiles nothing never loads the compiler. Numba and the
parts of llvmlite that intrinsics use are reached through proxies that import them on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any

from llvmlite import ir

from nmt.rnn.kernels.machine_code.native import Compilable, Jitted, Kernel

# Allow reassociation and fused multiply-add, but keep the meaning of infinities and NaN: a broken gradient must stay
# visible.
FAST = frozenset({"reassoc", "contract", "arcp", "nsz"})


class _LazyModule:
    """A module that is imported when one of its attributes is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


numba_types: Any = _LazyModule("numba.types")
cgutils: Any = _LazyModule("numba.core.cgutils")


def kernel(function: Callable[..., Any]) -> Kernel:
    """Make a kernel: Python calls it with NumPy arrays and numbers, and compiled code calls it like an `inner_kernel`.
    It returns nothing (see native.py)."""
    return Kernel(function, FAST)


def inner_kernel(function: Callable[..., Any]) -> Any:
    """Make a function that only compiled code calls; its machine code becomes part of each caller's."""
    return Compilable(function, FAST)


def exact_kernel(function: Callable[..., Any]) -> Any:
    """Make an `inner_kernel` whose sums are not reassociated."""
    return Compilable(function, frozenset())


class Inlined(Compilable):
    """A small plain function that Python may also call directly. Its statements are inlined into each caller before the
    caller is compiled, which for a few statements takes less time than compiling a separate function. Its sums are as
    exact as the caller's."""

    # Numba reads `targetoptions` to decide whether to inline, and then inlines `py_func`.
    targetoptions = {"inline": "always"}  # noqa: RUF012

    @property
    def py_func(self) -> Callable[..., Any]:
        """Return the Python function."""
        return self.function

    def __call__(self, *arguments: Any) -> Any:
        """Call the Python function."""
        return self.function(*arguments)


inlined: Callable[[Callable[..., Any]], Any] = Inlined


class Intrinsic(Compilable):
    """A function that writes LLVM instructions, like an intrinsic of Numba. It is called with the types of its
    arguments and returns a signature and a code generator, or None if it does not accept these types."""

    @cached_property
    def numba(self) -> Any:
        """Return Numba's intrinsic of the function."""
        return import_module("numba.extending").intrinsic(self.function)


intrinsic: Callable[[Callable[..., Any]], Any] = Intrinsic


def instruction(*argument_types: str, result: str = "void") -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for an `intrinsic` of fixed types, given by the names of Numba's types. The function takes
    LLVM's builder and the values of its arguments, and returns the value of the result, nothing for "void"."""

    def decorate(function: Callable[..., Any]) -> Any:
        def call(typing_context: Any, *arguments: Any) -> Any:
            def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
                value = function(builder, *args)
                return context.get_dummy_value() if result == "void" else value

            return getattr(numba_types, result)(*(getattr(numba_types, kind) for kind in argument_types)), codegen

        found = Intrinsic(with_arity(call, len(argument_types), function.__name__))
        found.__doc__ = function.__doc__
        return found

    return decorate


def holds(elements: str) -> Any:
    """Return an intrinsic: whether an array has elements of this type of Numba, by name; a constant when compiling."""

    def call(typing_context: Any, array: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            return ir.Constant(ir.IntType(1), int(array.dtype == getattr(numba_types, elements)))

        return numba_types.boolean(array), codegen

    return intrinsic(call)


# ---------------------------------------------------------------- functions by address


def task(function: Callable[..., Any]) -> Jitted:
    """Make a task: a function (part, parts, table) that is compiled when first used. `.address` is the address of its
    code, for `pool.run_team`. The table is given by its address. It holds int64 numbers and addresses in an order that
    the function knows: a call with three numbers costs a fraction of a call with twenty arrays. The function must
    return nothing and raise nothing."""
    return Jitted(function, ("int64", "int64", "voidptr"), FAST)


def native_function(result: str = "void") -> Callable[[Callable[..., Any]], Jitted]:
    """Return a decorator for functions of int64 arguments that Python calls by `.call`, without the interpreter lock.
    They return the type `result` ("int64", or "void" for nothing) and raise nothing."""

    def decorate(function: Callable[..., Any]) -> Jitted:
        return Jitted(function, ("int64",) * function.__code__.co_argcount, FAST, result=result)

    return decorate


def external(
    function: Callable[..., Any], argument_types: tuple[str, ...], *, fast: bool = False, name: str | None = None
) -> Any:
    """Return a function for compiled code that calls `function` by a symbol. It is compiled once per process, when its
    first caller is.

    A function called in the usual way is compiled again into each of its callers. Large functions are instead separate
    machine code that callers reach by symbol, including callers from the store: these contain only the symbol. The
    function must return nothing and raise nothing, and can only be called in compiled code. `argument_types` are names
    of Numba's types. `fast`: sums may be reassociated, as in a `kernel`; here all callers get the same bits, which is
    not guaranteed if the function is compiled into each of them. `name`: a distinct name, if several functions have the
    same one.
    """
    name = name or function.__name__.lstrip("_")
    native = Jitted(function, argument_types, FAST if fast else frozenset(), symbol=f"nmt_{name}")

    def call(typing_context: Any, *arguments: Any) -> Any:
        return _call_of(native)

    found: Any = Intrinsic(with_arity(call, len(argument_types), name))
    found.native, found.content = native, native.content
    return found


def external_by_elements(name: str, choices: dict[str, Any], *, optional: bool = False) -> Any:
    """Return a function for compiled code that takes an array and arguments, and calls the `external` that `choices`
    has for the name of the array's dtype with the arguments alone. Only the functions that are called get compiled. For
    other dtypes compiling fails, or with `optional` the call does nothing."""
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
    """Return the signature and the code generator of a call by symbol. The types in `before` precede those of the
    native function; their arguments are not passed on."""
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
    """Return `call`, which takes a typing context and `count` arguments, as a function with so many parameters."""
    # Numba reads the parameters of an intrinsic from its Python signature.
    names = ", ".join(f"a{i}" for i in range(count))
    scope: dict[str, Any] = {"call": call}
    exec(f"def {name}(typing_context, {names}):\n    return call(typing_context, {names})\n", scope)  # noqa: S102
    scope[name].written_by = call  # its content is that of `call`
    return scope[name]
