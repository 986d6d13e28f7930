"""The definition of a CUDA kernel, and the interface that runs it: a GPU (`runtime.CupyRuntime`) or its substitute.

A kernel is a plain Python function over flat arrays and numbers that refers to `numba.cuda` as `cuda`. It uses only
`cuda`, the modules `math` and `ptx`, numba's number types, module constants and `device_function`s, and it reads no
shape of an array: sizes are arguments. No index is negative: tests give a kernel arrays whose length is none.

Every `GPUKernel` that is a global name of a module in this package, and every one that a function `example_kernels()`
of such a module returns by name, or `chosen_kernels(capability)` for a GPU, is compiled by the tests, which check its
resources against bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np

from nmt.rnn.kernels.cuda.blas import Matrix

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
        """Return the name for errors, profiles and tables."""
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


class Runtime(Protocol):
    """A GPU, or its substitute. Arrays are `xp` arrays, C-contiguous unless stated otherwise.

    Work is done asynchronously in the order of submission; `download` and `synchronize` wait. Raises DeviceError if the
    GPU or its memory does not suffice. Any number of threads may use it.
    """

    multiprocessors: int
    shared_per_block: int
    capability: tuple[int, int]
    memory: int

    @property
    def xp(self) -> Any:
        """Return the module of the arrays, whose functions submit their work in this thread as the methods do."""

    def own_stream(self) -> None:
        """Let operators of arrays, in this thread, submit their work as the methods do, until a call of others."""

    def launch(self, kernel: GPUKernel, grid: Size, *arguments: Any) -> None:
        """Run a kernel over `grid` blocks; an empty grid does nothing.

        Array arguments have the signature's element types and any shape, C-contiguous, and the kernel sees them flat;
        numbers are converted. The last argument may be what `packed` returned.
        """

    def packed(self, kernel: GPUKernel, first: int, *arguments: Any) -> Any:
        """Return the arguments from number `first` on, prepared for several launches; their arrays must outlive
        them."""

    def gemm(
        self,
        a: Matrix,
        b: Matrix,
        out: Matrix,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        accumulate: bool = False,
    ) -> None:
        """Compute out [M, N] = a [M, K] @ b [K, N], added to the contents of out with `accumulate`.

        A transposed operand is given as [K, M] or [N, K]. float32 (sums and products in float32) or float64 throughout,
        or a and b bfloat16 numbers stored as uint16 and out float32.
        """

    def upload(self, array: np.ndarray) -> Any:
        """Return a copy on the device."""

    def download(self, array: Any) -> np.ndarray:
        """Return a copy on the host, after all submitted work is done."""

    def synchronize(self) -> None:
        """Wait for all submitted work; raises DeviceError for errors in it."""

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return a callable that replays the launches of `function`, without calling it; nothing is launched yet.

        `function` may launch kernels and products on arrays at fixed addresses, each of them launched at least once
        before, and nothing else: no allocation, no copy to or from the host. The recording exists as long as it is
        referenced.
        """

    def now(self) -> Any:
        """Return a moment: the point at which all submitted work is done."""

    def seconds(self, began: Any, ended: Any) -> float:
        """Return the time between two moments, by the GPU's clock; waits for the second."""
