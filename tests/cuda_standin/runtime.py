"""The package's runtime on the stand-in, without kernels."""

from __future__ import annotations

from typing import Any

from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime, Packages
from tests.cuda_standin.cublas import ByColumns
from tests.cuda_standin.cupy import make_cupy
from tests.cuda_standin.gpu import Gpu


def packages_of(gpu: Gpu) -> Packages:
    """What a runtime is made of, for this GPU."""
    library: Any = ByColumns(
        lambda start, size, stream: gpu.bytes_at(start, size, "cublasGemmEx", stream),
        lambda handle, work: _submit(gpu, library, handle, work),
    )
    return Packages(make_cupy(gpu), gpu.driver(), lambda: library, gpu.compile)


def idle_runtime(multiprocessors: int | None = None) -> CupyRuntime:
    """A runtime that counts launches and does none; `gpu` is its attribute for tests."""
    gpu = Gpu()
    gpu.idle = True
    gpu.multiprocessors = multiprocessors or gpu.multiprocessors
    runtime = CupyRuntime(packages=packages_of(gpu))
    runtime.gpu = gpu
    return runtime


def _submit(gpu: Gpu, library: ByColumns, handle: Any, work: Any) -> None:
    stream = gpu.streams[library.streams[handle.value]]
    if stream.captured is None:
        gpu.counts["product"] += 1
    if not gpu.idle:
        stream._do(work)
