"""The one way functions here are compiled: without the interpreter lock, cached on disk."""

# Features first: a forced target has to be known before Numba reads its settings.
from nmt.rnn.kernels.features import FINGERPRINT  # isort: skip

from collections.abc import Callable
from functools import wraps
from typing import Any

from nmt.interruption import forkable, uninterrupted

with uninterrupted():  # an import of compiled modules that was cut short cannot be done again
    import numba
    from llvmlite import binding, ir
    from numba import carray
    from numba import types as numba_types
    from numba.core.ccallback import CFunc
    from numba.core.compiler_lock import global_compiler_lock
    from numba.extending import intrinsic, overload

__all__ = [
    "FAST",
    "INSIDE",
    "carray",
    "exact_kernel",
    "external",
    "inner_kernel",
    "intrinsic",
    "kernel",
    "overload",
    "numba_types",
    "stamp_cache",
    "task",
    "with_arity",
]

# Reassociation and fused multiply-add, but infinities and NaN keep their meaning: a broken gradient
# must stay visible.
FAST = {"reassoc", "contract", "arcp", "nsz"}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first call for the types it meets; `error_model="numpy"` lets loops with a
    division vectorise."""
    compiled = numba.njit(nogil=True, error_model="numpy", fastmath=FAST)(function)
    _enable_cache(compiled)
    return _whole(compiled)


def inner_kernel(function: Callable[..., Any]) -> Any:
    """The same for what only compiled code calls: it becomes part of its callers and has no entrance of its own, which
    for many arrays takes longer to compile than what it does."""
    return _whole(numba.njit(**INSIDE, fastmath=FAST)(function))


def exact_kernel(function: Callable[..., Any]) -> Any:
    """An `inner_kernel` whose sums are not reassociated."""
    return _whole(numba.njit(**INSIDE)(function))


INSIDE: Any = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def task(function: Callable[..., Any]) -> Any:
    """Compile a function (part, parts, table) at once; `.address` is that of its code, for `team.run_team`.

    The table is an address: of int64 numbers and addresses, which the function knows the order of. A call
    with three numbers costs a fraction of one that hands over twenty arrays. The function must return
    nothing and raise nothing.
    """
    arguments = (numba_types.int64, numba_types.int64, numba_types.voidptr)
    options = {"error_model": "numpy", "nogil": True, "fastmath": FAST}
    code = CFunc(function, (arguments, numba_types.void), locals={}, options=options)
    _enable_cache(code)
    _whole(code).compile()
    return code


def _whole(compiled: Any) -> Any:
    """The same function, whose compiling an interruption does not cut in two: Numba keeps state of its own about it."""
    compile_it = compiled.compile

    @wraps(compile_it)
    def compile(*args: Any, **options: Any) -> Any:
        with uninterrupted():
            return compile_it(*args, **options)

    compiled.compile = compile
    return compiled


if hasattr(global_compiler_lock, "_lock"):
    forkable(global_compiler_lock._lock)


def _enable_cache(compiled: Any) -> None:
    try:
        compiled.enable_caching()
    except RuntimeError:
        # Numba found no folder it may write to, or no file behind the source: everything works,
        # compiled anew each time.
        return
    stamp_cache(compiled)


def stamp_cache(compiled: Any) -> None:
    """Tie a function's disk cache to the kernel sources, besides its own file.

    Numba stamps a cache with the date of the function's own file only, but callees from other files
    are compiled in. Where a later Numba keeps the stamp elsewhere, its own rule stays in force.
    """
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is not None and hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = (FINGERPRINT, cache_file._source_stamp)


def external(function: Callable[..., Any], argument_types: tuple[Any, ...], *, fast: bool = False) -> Any:
    """Compile once per process, under a name of its own; return what compiled code calls.

    A function called in the usual way is compiled again into each of its callers. The large ones
    are instead machine code that callers reach by symbol, also callers from a disk cache: they name
    it, they do not contain it. The function must return nothing and raise nothing. Callable inside
    compiled code only. `fast`: sums may be reassociated, as in a `kernel`; here all callers get the same
    bits, which compiled into each of them they need not.
    """
    signature = numba_types.void(*argument_types)
    options = {"error_model": "numpy", "nogil": True, "fastmath": FAST if fast else False}
    code = CFunc(function, (signature.args, signature.return_type), locals={}, options=options)
    _enable_cache(code)
    _whole(code).compile()
    name = f"nmt_{function.__name__}"
    binding.add_symbol(name, code.address)
    _KEEP_ALIVE.append(code)

    def call(typing_context: Any, *arguments: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            kinds = [context.get_value_type(argument) for argument in argument_types]
            callee = builder.module.globals.get(name)
            if callee is None:
                callee = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
            builder.call(callee, args)
            return context.get_dummy_value()

        return signature, codegen

    return intrinsic(with_arity(call, len(argument_types), function.__name__))


_KEEP_ALIVE: list[Any] = []


def with_arity(call: Callable[..., Any], count: int, name: str) -> Callable[..., Any]:
    """`call`, which takes a typing context and `count` arguments, as a function with so many names."""
    # Numba reads an intrinsic's parameters from its Python signature, which therefore has to be a
    # real one.
    names = ", ".join(f"a{i}" for i in range(count))
    scope: dict[str, Any] = {"call": call}
    exec(f"def {name}(typing_context, {names}):\n    return call(typing_context, {names})\n", scope)  # noqa: S102
    return scope[name]
