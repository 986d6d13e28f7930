"""Choose the device of a run: the processor, the first GPU, or the one that a name asks for.

This module is above the devices and their parts; each is imported when it is first requested.
"""

from __future__ import annotations

import logging
from functools import lru_cache

from nmt.errors import DeviceError
from nmt.rnn.device import Device

_logger = logging.getLogger("nmt")


@lru_cache(maxsize=1)
def cpu() -> Device:
    """Return the processor."""
    from nmt.rnn.kernels.device_cpu import CPUDevice

    return CPUDevice()


@lru_cache(maxsize=1)
def cuda() -> Device:
    """Return the first GPU. Raises DeviceError: the packages, the driver or a sufficient GPU is missing."""
    from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime

    # The runtime comes first: without its packages the kernels cannot even be imported.
    runtime = CupyRuntime()
    from nmt.rnn.kernels.cuda.device_cuda import CudaDevice

    return CudaDevice(runtime)


def resolved_dtype(name: str, device: Device | None = None) -> str:
    """Return a `compute_dtype`, with `auto` replaced by the choice for the device; None is the processor."""
    if name != "auto":
        return name
    from nmt.rnn.kernels.machine_code.features import multiplies_pairs_fast

    on_gpu = device is not None and not device.is_cpu
    return "bfloat16" if on_gpu or multiplies_pairs_fast() else "float32"


def choose_device(name: str) -> Device:
    """Return the device called `cpu` or `cuda`; `auto` is the GPU if there is one, else the processor with a message
    why. Raises DeviceError: `cuda` was requested and there is no usable GPU, or the name is unknown."""
    if name not in ("cpu", "cuda", "auto"):
        raise DeviceError(f"device must be cpu, cuda or auto, got {name!r}")
    if name == "cpu":
        return cpu()
    try:
        return cuda()
    except DeviceError as error:
        if name == "cuda":
            raise
        fact, _, _ = str(error).removeprefix("cuda: ").partition("; ")
        _logger.warning("device auto: the processor, for %s", fact)
        return cpu()
