"""The parts of a GPU device that all its modules use: kernel launches, reused memory, recorded launches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.device import Device
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import Runtime


class GPUBase(Device):
    """A GPU as products, runs of cells and the operations of a model use it; `device_cuda.CudaDevice` is the whole."""

    runtime: Runtime

    @abstractmethod
    def buffer(self, role: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Return an array of stale elements, valid until the next request for the same role."""

    @abstractmethod
    def repeat(self, key: tuple[Any, ...], arrays: Sequence[Array], launch: Callable[[], None]) -> None:
        """Do what `launch` does, replaying a recording if the same key and addresses of arrays occur again.

        The key must contain everything else that decides what is launched; the arrays' contents may change.
        """
