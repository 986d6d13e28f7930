"""Fences around arrays: a read or write beyond the memory of an array ends the process at once.

Compiled code has no check of bounds, so that only the system can see such an access (Electric Fence, Perens 1987).
`NMT_FENCE=end` lets every NumPy array end where a page begins that must not be touched, `NMT_FENCE=begin` lets it begin
right after such a page. What the package aligns, or cuts from a workspace, gets memory of its own. Memory that is not
zeroed holds NaN, so that a number that is read before it is written spoils the result.

    python -m tests.witness.fence                 # the tests of the engine, search and model, behind both fences
    python -m tests.witness.fence --side end tests/rnn/test_scan.py
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

_SET_HANDLER = 304
"""The place of PyDataMem_SetHandler in NumPy's C interface (since NumPy 1.22, NEP 49)."""
COMPILER = shutil.which("cc")
FOLDERS = "tests/rnn", "tests/decode", "tests/model"
_MEASURE_MEMORY = (
    "test_aligned or test_workspace or test_release_lets_memory_go or "
    "test_blocks_that_are_admitted_later_use_the_same_memory"
)
"""Tests of where arrays begin and of how large a workspace is, which fences change."""


class Side(Enum):
    """The end of the arrays that is at a fence."""

    BEGIN = "begin"
    END = "end"


def raise_fences(side: Side) -> None:
    """Allocate the arrays of this thread by the handler in fence.c from now on, and those of the package apart."""
    _KEPT.append(handler := _compiled(side))
    _set_handler(ctypes.addressof(ctypes.c_char.in_dll(handler, "fence_handler")))
    _allocate_apart()


_KEPT: list[Any] = []
"""What must stay in memory."""


def _compiled(side: Side) -> ctypes.CDLL:
    """Return fence.c as a library."""
    assert COMPILER is not None, "NMT_FENCE needs a C compiler, cc"
    source = Path(__file__).with_name("fence.c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "fence.so"
        at_end = f"-DAT_END={int(side is Side.END)}"
        subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", at_end, "-o", library, source], check=True)
        return ctypes.CDLL(str(library))


def _set_handler(address: int) -> None:
    """Call PyDataMem_SetHandler of NumPy."""
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.argtypes, capsule.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    table = ctypes.cast(pointer(np._core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])(capsule(address, b"mem_handler", None))


def _allocate_apart() -> None:
    """Give each array that the package aligns, or cuts from a workspace, memory of its own."""
    from nmt.rnn.arrays import workspace
    from nmt.rnn.kernels.model import output
    from nmt.rnn.kernels.products import packing
    from nmt.rnn.kernels.threads import pool
    from nmt.rnn.stepping import compiled_beam

    def apart(shape: tuple[int, ...], dtype: Any, *, zeros: bool = False) -> np.ndarray:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        return (np.zeros if zeros else np.empty)(size, np.uint8).view(dtype).reshape(shape)

    for module in (workspace, output, packing, pool, compiled_beam):
        module.aligned = apart
    workspace.Workspace.__call__ = lambda self, shape, dtype: workspace.zeros_of(self._xp, shape, dtype)


def main() -> None:
    """Run files of tests behind fences, each in a process of its own: a process may have some 16,000 arrays. Exit with
    1 if a test fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--side", choices=[side.value for side in Side], help="one fence; both without it")
    parser.add_argument("files", nargs="*", default=FOLDERS, help="files or folders of tests")
    given = parser.parse_args()
    paths = [path for one in map(Path, given.files) for path in (sorted(one.rglob("test_*.py")) or [one])]
    failed = False
    for side in [Side(given.side)] if given.side else list(Side):
        passed, wrong = 0, []
        for path in paths:
            words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", ""]
            words += ["-k", f"not ({_MEASURE_MEMORY})"]
            environment = {**os.environ, "NMT_FENCE": side.value}
            done = subprocess.run([*words, str(path)], env=environment, capture_output=True, text=True)
            passed += sum(map(int, re.findall(r"(\d+) passed", done.stdout)))
            if done.returncode not in (0, 5):  # 5: no tests
                wrong.append(f"{path}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
                print(wrong[-1], flush=True)
            print(f"{side.value}: {path}: {passed} passed", file=sys.stderr, flush=True)
        print(f"fence at the {side.value}: {passed} tests passed, {len(wrong)} files failed", flush=True)
        failed |= bool(wrong)
    sys.exit(failed)


if __name__ == "__main__":
    main()
