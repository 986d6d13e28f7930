"""What a CUDA kernel is here, and what runs it: a GPU (`runtime.CupyRuntime`) or the emulator of the tests.

A kernel is a plain Python function over flat arrays and numbers that says `cuda` for `numba.cuda`. It is compiled as
it stands, or run as it stands on NumPy arrays by the emulator, which gives the name `cuda` another meaning. So a
kernel names `cuda`, the modules `math` and `ptx`, numba's number types, module constants and `device_function`s, and
nothing else; it reads no shape of an array: sizes are arguments.

Every `Kernel` that is a global name of a module in this package, and every one that a function `example_kernels()`
of such a module returns by name, or `chosen_kernels(capability)` for a GPU, is compiled and its resources are held
to bounds by the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np

__all__ = ["Kernel", "Runtime", "Size", "device_function"]

Size = int | tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Kernel:
    """A function to be compiled, and how it is launched. Make it once: a runtime knows it by its identity.

    signature: one numba type an argument: C-contiguous 1-D arrays (`float32[::1]`) and numbers (int32, int64, uint32,
    uint64, float32, float64).
    threads: of a block. shared_bytes: dynamic shared memory of a block, `cuda.shared.array(0, ...)`, beside what the
    function declares itself. cooperative: all blocks run at once (they wait for one another); a launch of more blocks
    than fit is an error then. registers: how many a thread may use; the tests hold it to that, without spills.
    """

    function: Callable[..., None]
    signature: tuple[Any, ...]
    threads: Size
    shared_bytes: int = 0
    cooperative: bool = False
    registers: int = 255

    @property
    def name(self) -> str:
        """For errors, profiles and tables."""
        return self.function.__name__

    @property
    def block(self) -> tuple[int, int, int]:
        """Return the threads of a block along x, y and z."""
        return whole_size(self.threads)

    @property
    def block_threads(self) -> int:
        """Return all threads of a block."""
        return prod(self.block)


def whole_size(size: Size) -> tuple[int, int, int]:
    """Return a grid or block along x, y and z; what is not named is 1."""
    given = (size,) if isinstance(size, int) else tuple(size)
    x, y, z = (*given, 1, 1, 1)[:3]
    return x, y, z


def device_function(function: Callable[..., Any]) -> Any:
    """Return a function that kernels call."""
    from numba import cuda

    return cuda.jit(device=True)(function)


def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return what a kernel's function calls its arguments, in their order."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


class Runtime(Protocol):
    """A GPU, or what stands for one. Arrays are `xp` arrays, C-contiguous where not said otherwise.

    Work is done in the order in which it was given, behind the caller's back; `download` and `synchronize` wait.
    Raises DeviceError where the GPU or its memory does not suffice.
    """

    xp: Any
    multiprocessors: int
    shared_per_block: int
    capability: tuple[int, int]
    memory: int

    def launch(self, kernel: Kernel, grid: Size, *arguments: Any) -> None:
        """Run a kernel over `grid` blocks. Arrays of the signature's element types and any shape, C-contiguous, which
        the kernel sees flat; numbers are converted."""

    def gemm(
        self,
        a: Any,
        b: Any,
        out: Any,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        accumulate: bool = False,
    ) -> None:
        """out [M, N] = a [M, K] @ b [K, N], added to what out holds with `accumulate`.

        A transposed operand is given as [K, M] or [N, K]. All are 2-D arrays or views with rows apart by any stride
        of at least their columns. float32 (sums and products in float32) or float64 throughout, or a and b bfloat16
        numbers held as uint16 and out float32.
        """

    def upload(self, array: np.ndarray) -> Any:
        """Return a copy on the device."""

    def download(self, array: Any) -> np.ndarray:
        """Return a copy on the host, once all work given before is done."""

    def synchronize(self) -> None:
        """Wait for all work given before; raises DeviceError for what went wrong in it."""

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return what does again what `function` launches, without calling it, as long as somebody holds it; nothing is
        done yet.

        It may launch kernels and products on arrays that stay where they are, each of them for the second time at
        least, and nothing else: no allocation, no copy to or from the host.
        """

    def now(self) -> Any:
        """Return a moment: when all work given before is done."""

    def seconds(self, began: Any, ended: Any) -> float:
        """Between two moments, by the GPU's clock; waits for the second."""
