"""What this machine's vector unit can hold, and the register tile that fits it. Imports no Numba.

The environment variable `NMT_CPU` (`avx512_bf16`, `avx512_vnni`, `avx512`, `avx2_vnni`, `avx2` or `generic`)
forces a smaller target; it is read once, here.
"""

import hashlib
import os
import platform
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from llvmlite import binding
from numpy.typing import DTypeLike

from nmt.errors import DeviceError

ByteSums = Literal["vnni", "sdot", "pairs", "bytes"]
"""How four products of bytes are added to an int32: one instruction of x86 (unsigned by signed) or Arm (signed by
signed), two products of pairs of 16 bits, or four plain ones."""


@dataclass(frozen=True)
class Target:
    """A vector unit: `lanes` float32 in a register, `vectors` registers across a panel, row tiles
    up to `max_rows`; `has_bf16`: instructions for pairs of bfloat16, without which they are computed
    as float32; `byte_sums`: what products of int8 are made of."""

    name: str
    lanes: int
    vectors: int
    max_rows: int
    has_fma: bool
    has_bf16: bool = False
    byte_sums: ByteSums = "bytes"

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
_IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
_AVX512 = Target("avx512", lanes=16, vectors=2, max_rows=10, has_fma=True, byte_sums="pairs")
_AVX512_VNNI = replace(_AVX512, name="avx512_vnni", byte_sums="vnni")
_AVX512_BF16 = replace(_AVX512_VNNI, name="avx512_bf16", has_bf16=True)
_AVX2 = Target("avx2", lanes=8, vectors=2, max_rows=6, has_fma=True, byte_sums="pairs")
_AVX2_VNNI = replace(_AVX2, name="avx2_vnni", byte_sums="vnni")
_NEON = Target("neon", lanes=4, vectors=3, max_rows=8, has_fma=True)
_NEON_DOT = replace(_NEON, name="neon_dot", byte_sums="sdot")
_GENERIC = Target("generic", lanes=4, vectors=2, max_rows=5, has_fma=False, byte_sums="pairs" if _IS_X86 else "bytes")
_BY_NAME = {t.name: t for t in (_AVX512_BF16, _AVX512_VNNI, _AVX512, _AVX2_VNNI, _AVX2, _GENERIC)}
# What makes a target more than the one below it, as LLVM calls it.
_BF16, _VNNI = "avx512bf16", ("avx512vnni", "avxvnni")


def _host_target() -> Target:
    features = binding.get_host_cpu_features()
    if platform.machine().lower() in ("aarch64", "arm64"):
        return _NEON_DOT if features.get("dotprod") else _NEON
    if features.get("avx512f") and features.get("avx512vl") and features.get("avx512bw"):
        if not features.get("avx512vnni"):
            return _AVX512
        return _AVX512_BF16 if features.get(_BF16) else _AVX512_VNNI
    if features.get("avx2") and features.get("fma"):
        return _AVX2_VNNI if features.get("avxvnni") else _AVX2
    return _GENERIC


def _is_part_of(target: Target, host: Target) -> bool:
    """Whether the host has all that a target of the same family needs."""
    return (
        target.lanes <= host.lanes
        and target.has_bf16 <= host.has_bf16
        and (target.byte_sums != "vnni" or host.byte_sums == "vnni")
    )


def _numba_cpu(name: str) -> tuple[str, str]:
    """What Numba must compile for, so that a forced target really runs without the instructions it
    forgoes: processor and features."""
    features = binding.get_host_cpu_features()
    if name.startswith("avx512"):
        for forgone in (_BF16, *(_VNNI if name == "avx512" else ())):
            features[forgone] = False
        return binding.get_host_cpu_name(), features.flatten()
    # On a processor that has it for AVX-512 only, VNNI on half a register is an instruction of AVX-512 VL.
    vnni = "+avxvnni" if features.get("avxvnni") else "+avx512vl,+avx512vnni"
    return {
        "avx2_vnni": ("haswell", f"+avx2,+fma,{vnni}"),
        "avx2": ("haswell", "+avx2,+fma"),
        "generic": ("generic", ""),
    }[name]


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
    if forced != "generic" and not (_IS_X86 and _is_part_of(target, host)):
        raise DeviceError(f"NMT_CPU: must be a target this {host.name} machine has, got {forced!r}; unset it")
    if target is not host:
        _force_numba(forced)
    return target


def fingerprint(folder: Path = Path(__file__).parent) -> str:
    """A digest of all sources here: any of them may be compiled into another's machine code."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


TARGET = _choose_target()
# Code compiled from one file into another's stored function would go stale unnoticed when the first
# changes; code is therefore named by all those sources at once.
FINGERPRINT = fingerprint()
