"""What this machine's vector unit can hold, and the register tile that fits it. Imports no Numba.

The environment variable `NMT_CPU` (`avx512_bf16`, `avx512`, `avx2` or `generic`) forces a smaller
target; it is read once, here.
"""

import hashlib
import os
import platform
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from llvmlite import binding
from numpy.typing import DTypeLike

from nmt.errors import DeviceError


@dataclass(frozen=True)
class Target:
    """A vector unit: `lanes` float32 in a register, `vectors` registers across a panel, row tiles
    up to `max_rows`; `has_bf16`: instructions for pairs of bfloat16, without which they are computed
    as float32."""

    name: str
    lanes: int
    vectors: int
    max_rows: int
    has_fma: bool
    has_bf16: bool = False

    @property
    def rows(self) -> tuple[int, ...]:
        """The heights of the register tiles, largest first."""
        return tuple(range(self.max_rows, 0, -1))

    def panel_width(self, dtype: DTypeLike) -> int:
        """Columns in one packed panel: as many float32, or half as many float64, as `vectors`
        registers hold."""
        return self.lanes * self.vectors * 4 // np.dtype(dtype).itemsize


# max_rows * vectors accumulators, `vectors` panel registers and one broadcast must fit the register
# file: a tile that spills loses more than half of the speed. x86 has 16 registers before AVX-512,
# everything else 32.
_AVX512 = Target("avx512", lanes=16, vectors=2, max_rows=10, has_fma=True)
_AVX512_BF16 = replace(_AVX512, name="avx512_bf16", has_bf16=True)
_AVX2 = Target("avx2", lanes=8, vectors=2, max_rows=6, has_fma=True)
_NEON = Target("neon", lanes=4, vectors=3, max_rows=8, has_fma=True)
_GENERIC = Target("generic", lanes=4, vectors=2, max_rows=5, has_fma=False)
_BY_NAME = {target.name: target for target in (_AVX512_BF16, _AVX512, _AVX2, _GENERIC)}


def _host_target() -> Target:
    if platform.machine().lower() in ("aarch64", "arm64"):
        return _NEON
    features = binding.get_host_cpu_features()
    if features.get("avx512f") and features.get("avx512vl"):
        return _AVX512_BF16 if features.get("avx512bf16") and features.get("avx512bw") else _AVX512
    if features.get("avx2") and features.get("fma"):
        return _AVX2
    return _GENERIC


def _numba_cpu(name: str) -> tuple[str, str]:
    """What Numba must compile for, so that a forced target really runs without the instructions it
    forgoes: processor and features."""
    if name == "avx512":
        features = binding.get_host_cpu_features()
        features["avx512bf16"] = False
        return binding.get_host_cpu_name(), features.flatten()
    return {"avx2": ("haswell", "+avx2,+fma"), "generic": ("generic", "")}[name]


def _force_numba(name: str) -> None:
    """Make Numba compile for the forced target, whether or not it has been imported already."""
    cpu, features = _numba_cpu(name)
    os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"] = cpu, features
    numba_config = sys.modules.get("numba.core.config")
    if numba_config is not None:
        vars(numba_config).update(CPU_NAME=cpu, CPU_FEATURES=features)


def _choose_target() -> Target:
    host, forced = _host_target(), os.environ.get("NMT_CPU", "")
    if not forced:
        # Someone who told Numba itself to hold back gets the tile that every machine can run.
        return _GENERIC if os.environ.get("NUMBA_CPU_NAME") == "generic" else host
    if forced not in _BY_NAME:
        choices = ", ".join(_BY_NAME)
        raise DeviceError(f"NMT_CPU: must be one of {choices}, got {forced!r}; unset it to use the whole machine")
    target = _BY_NAME[forced]
    if host is _NEON or target.lanes > host.lanes or target.has_bf16 > host.has_bf16:
        if forced != "generic":
            raise DeviceError(f"NMT_CPU: must be a target this {host.name} machine has, got {forced!r}; unset it")
    if target is not host:
        _force_numba(forced)
    return target


# The files whose functions are compiled into others' machine code.
_COMPILED_IN = (
    *("activations", "barrier", "bfloat16", "features", "gradients", "jit", "memory", "microkernel", "moves"),
    *("packing", "products", "segments", "softmax", "team", "threads", "update"),
)


def _fingerprint() -> str:
    """A digest of the sources above."""
    digest = hashlib.sha256()
    for name in _COMPILED_IN:
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return digest.hexdigest()[:16]


TARGET = _choose_target()
# Code compiled from one file into another's cached function goes stale unnoticed when the first
# changes; caches are therefore keyed by all those sources at once.
FINGERPRINT = _fingerprint()
