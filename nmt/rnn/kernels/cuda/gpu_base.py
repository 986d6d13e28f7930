"""The parts of a GPU device that all its modules use: kernel launches, reused memory, recorded launches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.device import Device, Slot
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime
from nmt.rnn.kernels.cuda.rows import row_kernels


class GPUBase(Device):
    """A GPU as products, runs of cells and the operations of a model use it; `device_cuda.CudaDevice` is the whole."""

    runtime: CupyRuntime

    @abstractmethod
    def buffer(self, role: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Return an array of stale elements, valid until the next request for the same role."""

    @abstractmethod
    def replay(self, key: tuple[Any, ...], arrays: Sequence[Array], launch: Callable[[], None]) -> None:
        """Do what `launch` does: replay its recording if the same key and addresses of arrays occur again. The key must
        contain everything else that decides what is launched, the arrays all memory that it uses besides buffers; their
        contents may change. It is recorded when the key occurs for the second time."""

    @abstractmethod
    def given(self, numbers: np.ndarray, *, fixed: bool) -> Array | None:
        """Return contiguous int64 numbers of the host as the pass of this thread reads them, in the same memory each
        time; None if it is in no pass. `fixed`: they depend on sizes alone."""

    def slots_of(self, stack: Array, lengths: Array, slot: Slot, out: Array) -> None:
        """Set out [B, n] to a slot of each row of [slots, B, n]; `lengths` are on the GPU."""
        given = stack, *stack.shape, lengths, *slot, out
        row_kernels.launch(self.runtime, row_kernels.take_slots, stack.dtype, out.size, *given)

    def clear_from(self, array: Array, lengths: Array, low: int = 0) -> None:
        """Zero each row of [steps, B, n] from its length on (int64 [B], on the GPU); the first step is number `low`."""
        steps, B, *width = array.shape
        given = array, steps, B, prod(width), lengths, low
        row_kernels.launch(self.runtime, row_kernels.clear_ended, array.dtype, array.size, *given)
