"""The machine that runs programs: built from `machine.cpp` by the C++ compiler of this system."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel
from tests.ptx.program import Program, PtxError

SOURCE = Path(__file__).with_suffix(".cpp")
OPTIONS = "-std=c++20 -O1 -fPIC -shared -fwrapv -fno-strict-aliasing -ffp-contract=off".split()
TOGETHER = 4  # blocks that run at once, unless they wait for one another
_ADDRESS = ctypes.c_void_p


def compiler() -> str | None:
    """The path of a C++ compiler, or None."""
    return next(filter(None, map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))), None)


def cache_folder() -> Path:
    """Where the machine and PTX are kept between runs: of this user alone."""
    folder = Path(tempfile.gettempdir()) / f"nmt-test-ptx-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PtxError(f"{folder}: must belong to this user; remove it")
    return folder


@lru_cache(maxsize=1)
def library() -> Any:
    """The machine, built once for each version of its source."""
    found = compiler()
    if found is None:
        raise PtxError("no C++ compiler")
    key = hashlib.sha256(SOURCE.read_bytes() + " ".join([found, *OPTIONS]).encode()).hexdigest()[:20]
    path = cache_folder() / f"machine-{key}.so"
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}")
        subprocess.run([found, *OPTIONS, "-o", made, SOURCE], check=True)
        made.replace(path)
    machine = ctypes.CDLL(str(path))
    machine.ptx_code.restype = _ADDRESS
    machine.ptx_add_memory.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
    machine.ptx_remove_memory.argtypes = [ctypes.c_uint64]
    machine.ptx_free.argtypes = [_ADDRESS]
    return machine


class Code:
    """A program that the machine can run."""

    def __init__(self, program: Program) -> None:
        self.program, machine = program, library()
        names = (ctypes.c_char_p * len(program.names))(*(name.encode() for name in program.names))
        tables = (
            np.array(program.guards, np.int32),
            np.array(program.operands, np.int32),
            np.array(program.offsets, np.int64),
            program.constants,
        )
        unknown = ctypes.c_int(-1)
        self.code = machine.ptx_code(
            len(program.names),
            names,
            *(_ADDRESS(table.ctypes.data) for table in tables),
            *(ctypes.c_uint64(n) for n in (len(program.constants), program.words, program.shared)),
            ctypes.byref(unknown),
        )
        if not self.code:
            raise PtxError(f"not simulated: {program.texts[unknown.value]}")

    def __del__(self) -> None:
        if getattr(self, "code", None):
            library().ptx_free(self.code)

    def run(
        self, kernel: GPUKernel, grid: Sequence[int], given: bytes, arrays: Sequence[tuple[int, np.ndarray]], seed: int
    ) -> None:
        """Run a grid with parameters of 8 bytes each, which may use these arrays at these addresses. Raises PtxError
        for what a GPU would do wrongly."""
        report, text = (ctypes.c_int32 * 6)(), ctypes.create_string_buffer(300)
        places = np.array([[at, one.ctypes.data, one.nbytes] for at, one in arrays], np.uint64)
        failed = library().ptx_run(
            _ADDRESS(self.code),
            *((ctypes.c_uint32 * 3)(*size) for size in (grid, kernel.block)),
            kernel.shared_bytes,
            given,
            _ADDRESS(places.ctypes.data),
            len(arrays),
            ctypes.c_uint64(seed),
            0 if kernel.cooperative else TOGETHER,
            report,
            text,
            len(text),
        )
        if failed:
            place, other, *at, thread = report
            texts = self.program.texts
            beside = f"; the other: {texts[other]}" if other >= 0 else ""
            raise PtxError(
                f"{text.value.decode()}: {texts[place]}, instruction {place}, thread {thread} of block {at}{beside}"
            )


def add_memory(start: int, size: int) -> None:
    """Let programs use these bytes."""
    library().ptx_add_memory(start, size)


def remove_memory(start: int) -> None:
    """Let programs use them no longer."""
    library().ptx_remove_memory(start)
