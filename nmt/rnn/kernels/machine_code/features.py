"""Choose the target: the vector unit of this machine, and the register tile that fits it. Imports no Numba.

The environment variable `NMT_CPU` (`avx512_amx`, `avx512_bf16`, `avx512_vnni`, `avx512`, `avx2_vnni`, `avx2` or
`generic`; on Arm `neon_bf16`, `neon_dotprod`, `neon` or `generic`) forces a smaller target; `native` compiles for
exactly this processor instead of for its whole level. The variable is read once, when this module is imported. With
`NMT_CPU_UNCHECKED=1` it may also be a level that this machine cannot run, `wasm` among them: its code is compiled here
and run elsewhere. With `NMT_CPU_UNCHECKED=library` the code may also be linked into a library. `windows` and
`windows-library` are the same for Windows on x86, `macos` and `macos-library` for macOS on x86 and Arm.
"""

import ctypes
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

ByteSums = Literal["vnni", "sdot", "pairs", "dot", "bytes"]
"""The way to add four products of bytes to an int32: by one instruction of x86 (unsigned by signed, "vnni") or of Arm
(signed by signed, "sdot"), as two products of 16-bit pairs of x86 ("pairs") or of WebAssembly ("dot"), or as four plain
products."""


@dataclass(frozen=True)
class Target:
    """A vector unit and what LLVM compiles for.

    `lanes`: float32 numbers in a register. `vectors`: registers across a panel. `max_rows`: the largest number of rows
    in a register tile. `has_bf16`: there are instructions for pairs of bfloat16; without them pairs are computed as
    float32. `has_amx`: there is a matrix unit for them (see bfloat16.py) and the system lets this process use it.
    `byte_sums`: how products of int8 are added. `cpu` and `features`: what LLVM compiles for, no more than every
    processor of this level has, so that the code runs on all of them and gives the same bits. `triple`: LLVM's name of
    the machine, if the code runs on another one than this. `is_linked`: the code is for a library, which may be placed
    at any address. `is_small`: it is downloaded, so that all functions but the busiest are to be small.
    """

    name: str
    lanes: int
    vectors: int
    max_rows: int
    has_fma: bool
    has_bf16: bool = False
    has_amx: bool = False
    byte_sums: ByteSums = "bytes"
    cpu: str = ""
    features: str = ""
    triple: str = ""
    is_linked: bool = False
    is_small: bool = False

    @property
    def machine(self) -> tuple[str, str]:
        """Return the kind of processor and the system that run the code."""
        kind, _, system, *_ = f"{self.triple}---".split("-")
        here = platform.machine(), sys.platform
        there = ("AMD64", "win32") if system == "windows" else (kind, "darwin" if "mac" in system else system)
        return there if self.triple else here

    @property
    def rows(self) -> tuple[int, ...]:
        """Return the heights of the register tiles, largest first."""
        return tuple(range(self.max_rows, 0, -1))

    @property
    def pairs_at_a_time(self) -> int:
        """Return how many pairs of bfloat16 along K a product takes at a time; operands are padded to a multiple."""
        return 16 if self.has_amx else 1

    def panel_width(self, dtype: DTypeLike) -> int:
        """Return the number of columns in a packed panel: as many float32 numbers, or half as many float64, as
        `vectors` registers hold."""
        return self.lanes * self.vectors * 4 // np.dtype(dtype).itemsize


# max_rows * vectors accumulators, `vectors` panel registers and one broadcast must fit the register
# file: a tile that spills loses more than half of the speed. x86 has 16 registers before AVX-512,
# everything else 32.
_IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
_IS_ARM = platform.machine().lower() in ("aarch64", "arm64")
# The levels of the x86-64 psABI (section 3.1.1), and features that only some processors of a level have.
_V3 = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_BF16, _VNNI = "avx512bf16", "avx512vnni"
# LLVM schedules for one processor of the level, which is up to a tenth faster than its "x86-64-v4"
# (12995ccb:benchmarks/levels.py); the features that this processor has beyond the level are turned off. Loops use
# 512-bit registers: by default LLVM prefers 256 bits there.
_NOT_OF_V3 = "-fsgsbase,-invpcid,-pclmul,-rdrnd,-xsaveopt"
_NOT_OF_V4 = (
    f"-prefer-256-bit,{_NOT_OF_V3},-adx,-aes,-clflushopt,-clwb,-pku,-rdseed,-xsavec,-xsaves,-avx512ifma,-avx512vbmi,"
    "-avx512vbmi2,-avx512bitalg,-avx512vpopcntdq,-gfni,-vaes,-vpclmulqdq,-sha,-rdpid"
)
_NOT_OF_AMX = (
    f"{_NOT_OF_V4},-amx-int8,-avx512fp16,-avxvnni,-cldemote,-enqcmd,-movdir64b,-movdiri,-pconfig,"
    "-ptwrite,-serialize,-shstk,-tsxldtrk,-uintr,-waitpkg,-wbnoinvd"
)
_NOT_OF_BF16 = f"{_NOT_OF_AMX},-amx-bf16,-amx-tile"
_AVX512 = Target(
    name="avx512",
    lanes=16,
    vectors=2,
    max_rows=10,
    has_fma=True,
    byte_sums="pairs",
    cpu="skylake-avx512",
    features=_NOT_OF_V4,
)
_AVX512_VNNI = replace(_AVX512, name="avx512_vnni", byte_sums="vnni", cpu="icelake-server")
_AVX512_BF16 = replace(_AVX512_VNNI, name="avx512_bf16", has_bf16=True, cpu="sapphirerapids", features=_NOT_OF_BF16)
_AVX512_AMX = replace(_AVX512_BF16, name="avx512_amx", has_amx=True, features=_NOT_OF_AMX)
_AVX2 = Target(
    "avx2", lanes=8, vectors=2, max_rows=6, has_fma=True, byte_sums="pairs", cpu="haswell", features=_NOT_OF_V3
)
_AVX2_VNNI = replace(_AVX2, name="avx2_vnni", byte_sums="vnni", features=f"{_NOT_OF_V3},+avxvnni")
# Version 8.0 of Arm's 64-bit architecture, the product of bytes of 8.2, and those of bfloat16 of 8.6.
_NEON = Target("neon", lanes=4, vectors=3, max_rows=8, has_fma=True, cpu="generic", features="+neon")
_NEON_DOTPROD = replace(_NEON, name="neon_dotprod", byte_sums="sdot", features="+neon,+dotprod")
_NEON_BF16 = replace(_NEON_DOTPROD, name="neon_bf16", has_bf16=True, features="+neon,+dotprod,+bf16")
_GENERIC = Target(
    "generic", lanes=4, vectors=2, max_rows=5, has_fma=False, byte_sums="pairs" if _IS_X86 else "bytes",
    cpu="x86-64" if _IS_X86 else "generic",
)  # fmt: skip
_OF_X86 = (_AVX512_AMX, _AVX512_BF16, _AVX512_VNNI, _AVX512, _AVX2_VNNI, _AVX2) if _IS_X86 else ()
_OF_ARM = (_NEON_BF16, _NEON_DOTPROD, _NEON)
LEVELS = {t.name: t for t in (*_OF_X86, *(_OF_ARM if _IS_ARM else ()), _GENERIC)}
"""Targets of this architecture, which NMT_CPU may force; their code runs on every processor of the level."""
# Vectors of 128 bits and moves of blocks of memory are in all browsers since 2021. A browser for x86 has 16 registers.
_WASM = Target(
    "wasm", lanes=4, vectors=2, max_rows=5, has_fma=False, byte_sums="dot", cpu="generic",
    features="+simd128,+bulk-memory,+sign-ext,+nontrapping-fptoint,+mutable-globals", triple="wasm32-unknown-unknown",
    is_small=True,
)  # fmt: skip
# Within a process LLVM loads ELF on Windows, too; linkers there take COFF.
_TRIPLES_OF_X86 = {
    "windows": "x86_64-pc-windows-msvc-elf",
    "windows-library": "x86_64-pc-windows-gnu",
    "macos": "x86_64-apple-macosx11",
    "macos-library": "x86_64-apple-macosx11",
}
_TRIPLES_OF_ARM = dict.fromkeys(("macos", "macos-library"), "arm64-apple-macosx11")
_ARM_TRIPLE = "aarch64-unknown-linux-gnu"
_ELSEWHERE = {one.name: one for one in (_WASM, *(replace(arm, triple=_ARM_TRIPLE) for arm in _OF_ARM))}
"""Levels of other machines, for which code is made here."""


def _may_use_tiles() -> bool:
    """Return whether the system lets this process and its children use the tile registers of AMX. Linux requires a
    request, because it keeps 8 KB for them in each thread (arch_prctl(2), ARCH_REQ_XCOMP_PERM). On other systems,
    return False."""
    if not sys.platform.startswith("linux"):
        return False
    arch_prctl, ask_for_state, tile_data = (ctypes.c_long(number) for number in (158, 0x1023, 18))
    try:
        answer: int = ctypes.CDLL(None).syscall(arch_prctl, ask_for_state, tile_data)
    except (OSError, AttributeError):  # a C library without syscall()
        return False
    return answer == 0


def _is_in_apple(feature: str) -> bool:
    """Return whether macOS says that the processor has a feature (sysctl(3), hw.optional.arm)."""
    there, size = ctypes.c_int(0), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
    name = f"hw.optional.arm.FEAT_{feature}".encode()
    failed = ctypes.CDLL(None).sysctlbyname(name, ctypes.byref(there), ctypes.byref(size), None, ctypes.c_size_t(0))
    return not failed and bool(there.value)


def _of_arm() -> Target:
    """Return the largest target that this Arm processor supports. Linux tells each process what there is (getauxval(3);
    HWCAP_ASIMDDP, bit 20, and HWCAP2_BF16, bit 14), and so does macOS; LLVM, which is asked elsewhere, reads
    /proc/cpuinfo, which an emulated process has of another machine, and knows of no features on macOS."""
    if sys.platform == "darwin":
        has_dotprod, has_bf16 = _is_in_apple("DotProd"), _is_in_apple("BF16")
    elif sys.platform.startswith("linux"):
        ask = ctypes.CDLL(None).getauxval
        ask.argtypes, ask.restype = [ctypes.c_ulong], ctypes.c_ulong
        has_dotprod, has_bf16 = ask(16) >> 20 & 1, ask(26) >> 14 & 1
    else:
        features = binding.get_host_cpu_features()
        has_dotprod, has_bf16 = features.get("dotprod"), features.get("bf16")
    if not has_dotprod:
        return _NEON
    return _NEON_BF16 if has_bf16 else _NEON_DOTPROD


def _host_target() -> Target:
    """Return the largest target that this processor supports."""
    if _IS_ARM:
        return _of_arm()
    features = binding.get_host_cpu_features()
    if all(features.get(name) for name in _V4):
        if not features.get(_VNNI):
            return _AVX512
        if not features.get(_BF16):
            return _AVX512_VNNI
        return _AVX512_AMX if features.get("amx-bf16") and _may_use_tiles() else _AVX512_BF16
    if all(features.get(name) for name in _V3):
        return _AVX2_VNNI if features.get("avxvnni") else _AVX2
    return _GENERIC


def _is_part_of(target: Target, host: Target) -> bool:
    """Return whether the host supports everything that a target of the same family needs."""
    return (
        target.lanes <= host.lanes
        and target.has_bf16 <= host.has_bf16
        and target.has_amx <= host.has_amx
        and (target.byte_sums not in ("vnni", "sdot") or host.byte_sums == target.byte_sums)
    )


# Numba resolves calls by catching errors; colouring their text takes a tenth of the compile time.
_PLAIN = "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"
TARGET_SETTINGS = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", _PLAIN)
"""Settings of Numba that this module makes."""


def _configure_numba(target: Target) -> None:
    """Make Numba compile for the target, whether or not it has been imported already."""
    cpu, features = ("generic", "") if target.triple else (target.cpu, target.features)
    os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"] = cpu, features
    os.environ.setdefault(_PLAIN, "1")
    numba_config = sys.modules.get("numba.core.config")
    if numba_config is not None:
        vars(numba_config).update(CPU_NAME=cpu, CPU_FEATURES=features)


def _choose_target() -> Target:
    host, forced = _host_target(), os.environ.get("NMT_CPU", "")
    if not forced:
        # Numba itself was set to a generic processor: use the tile that every machine can run.
        return _GENERIC if os.environ.get("NUMBA_CPU_NAME") == "generic" else host
    if forced == "native":
        return replace(host, cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten())
    elsewhere = os.environ.get("NMT_CPU_UNCHECKED", "")
    is_linked = elsewhere.endswith("library")
    unchecked = is_linked or elsewhere in ("1", "windows", "macos")  # code made here is run elsewhere
    if forced in _ELSEWHERE and unchecked:
        target = _ELSEWHERE[forced]
        triple = target.triple if target is _WASM else _TRIPLES_OF_ARM.get(elsewhere, target.triple)
        return replace(target, is_linked=is_linked, triple=triple)
    if forced not in LEVELS:
        choices = ", ".join((*LEVELS, "native"))
        raise DeviceError(f"NMT_CPU: must be one of {choices}, got {forced!r}; unset it to use the whole machine")
    target = LEVELS[forced]
    if unchecked and _IS_X86:
        return replace(target, is_linked=is_linked, triple=_TRIPLES_OF_X86.get(elsewhere, ""))
    if forced != "generic" and not _is_part_of(target, host):
        raise DeviceError(f"NMT_CPU: must be a target this {host.name} machine has, got {forced!r}; unset it")
    if target is _AVX2_VNNI and not binding.get_host_cpu_features().get("avxvnni"):
        # If the processor has VNNI for AVX-512 only, VNNI on 256 bits is an instruction of AVX-512 VL.
        return replace(target, features=f"{_NOT_OF_V3},+avx512vl,+avx512vnni")
    return target


def multiplies_pairs_fast() -> bool:
    """Return whether products of bfloat16 are faster than those of float32: with AMX, or with the vector instruction of
    AMD. The same instruction takes twice the time on Intel."""
    return TARGET.has_amx or (TARGET.has_bf16 and binding.get_host_cpu_name().startswith("znver"))


def fingerprint(folder: Path = Path(__file__).parents[1]) -> str:
    """Return a digest of all source files of the CPU kernels: any may be compiled into the code of another."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder)
        if name.parts[0] != "cuda":
            digest.update(name.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


TARGET = _choose_target()
_configure_numba(TARGET)
# Stored code may contain functions of several files, and would go stale unnoticed if one of them changed. Therefore
# its name depends on all source files at once.
FINGERPRINT = fingerprint()
