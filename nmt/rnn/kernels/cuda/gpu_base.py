"""What everything on a GPU knows of it: where kernels are launched, memory that is used again, recorded launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nmt.rnn.device import Array, Device
from nmt.rnn.kernels.cuda.machine_code.kernel import Runtime


class GPUBase(Device):
    """A GPU as products, runs of cells and the operations of a model see it; whole in `device_cuda.CudaDevice`."""

    runtime: Runtime

    def buffer(self, role: str, count: int, dtype: np.dtype) -> Any:
        """`count` stale elements that are the caller's until it, or another, asks again for the same role."""
        raise NotImplementedError

    def repeat(self, key: tuple[Any, ...], arrays: Sequence[Array], launch: Callable[[], None]) -> None:
        """Do what `launch` does, recorded where the same key and places of the arrays it uses come again.

        A key says everything else that decides what is launched; what is in the arrays may change.
        """
        raise NotImplementedError
