"""The definition of a CUDA kernel, which a runtime runs (`runtime.CupyRuntime`).

A kernel is a plain Python function over flat arrays and numbers that refers to `numba.cuda` as `cuda`. It uses only
`cuda`, the modules `math` and `ptx`, numba's number types, module constants and `device_function`s, and it reads no
shape of an array: sizes are arguments. No index is negative: tests give a kernel arrays whose length is none.

Every `GPUKernel` that is a global name of a module in this package, and each that `tests/cuda/examples.py` makes, is
compiled by the tests, which check its resources against bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

Size = int | tuple[int, ...]


@dataclass(frozen=True, eq=False)
class GPUKernel:
    """A function to be compiled, and how it is launched. Make it once: a runtime recognises it by its identity.

    signature: one numba type per argument: C-contiguous 1-D arrays (`float32[::1]`) and numbers (int32, int64, uint32,
    uint64, float32, float64). threads: of a block. shared_bytes: dynamic shared memory of a block,
    `cuda.shared.array(0, ...)`, in addition to what the function declares itself. cooperative: all blocks run at once
    (they wait for one another); a launch of more blocks than fit is then an error. registers: the maximum per thread;
    the tests check it, and that nothing is spilled.
    """

    function: Callable[..., None]
    signature: tuple[Any, ...]
    threads: Size
    shared_bytes: int = 0
    cooperative: bool = False
    registers: int = 255

    @cached_property
    def name(self) -> str:
        """Return the name for errors and tables."""
        return self.function.__name__

    @cached_property
    def block(self) -> tuple[int, int, int]:
        """Return the threads of a block along x, y and z."""
        return whole_size(self.threads)

    @cached_property
    def block_threads(self) -> int:
        """Return the total number of threads of a block."""
        return prod(self.block)


def whole_size(size: Size) -> tuple[int, int, int]:
    """Return a grid or block along x, y and z; missing sizes are 1."""
    if isinstance(size, int):
        return size, 1, 1
    x, y, z = (*size, 1, 1, 1)[:3]
    return x, y, z


def device_function(function: Callable[..., Any]) -> Any:
    """Mark a function as one that kernels call."""
    from numba import cuda

    return cuda.jit(device=True)(function)


def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a kernel function's arguments, in order."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount]
