"""Functions of the operating system that compiled code calls: memory, threads, the clock."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from mmap import mmap
from typing import Any

from llvmlite import ir

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.objects import add_symbol

ON_WINDOWS = TARGET.machine[1] == "win32"
"""Whether the code that is made here runs there."""
_NUMBER, _POINTER = ir.IntType(32), ir.IntType(8).as_pointer()

# By the name in compiled code: the library, the name in the system, and the type of the result.
_FUNCTIONS: dict[str, tuple[str | None, str, ir.Type]] = (
    {
        "nmt_allocate": ("msvcrt", "_aligned_malloc", _POINTER),
        "nmt_free": ("msvcrt", "_aligned_free", ir.VoidType()),
        "nmt_yield_processor": ("kernel32", "SwitchToThread", _NUMBER),
        "nmt_sleep": ("kernel32", "Sleep", ir.VoidType()),
        "nmt_lock": ("kernel32", "AcquireSRWLockExclusive", ir.VoidType()),
        "nmt_unlock": ("kernel32", "ReleaseSRWLockExclusive", ir.VoidType()),
        "nmt_wait": ("kernel32", "SleepConditionVariableSRW", _NUMBER),
        "nmt_wake": ("kernel32", "WakeAllConditionVariable", ir.VoidType()),
    }
    if ON_WINDOWS
    else {
        "nmt_allocate": (None, "aligned_alloc", _POINTER),
        "nmt_free": (None, "free", ir.VoidType()),
        "nmt_yield_processor": (None, "sched_yield", _NUMBER),
        "nmt_sleep": (None, "usleep", _NUMBER),
        "nmt_lock": (None, "pthread_mutex_lock", _NUMBER),
        "nmt_unlock": (None, "pthread_mutex_unlock", _NUMBER),
        "nmt_wait": (None, "pthread_cond_wait", _NUMBER),
        "nmt_wake": (None, "pthread_cond_broadcast", _NUMBER),
        "nmt_clock": (None, "clock_gettime", _NUMBER),
    }
)
_OWN: dict[str, ir.Type] = {"nmt_spare": _POINTER}


def system_function(name: str, library: str | None = None) -> Any:
    """Return a function of the system for Python; `library` is the library that contains it on Windows."""
    return getattr(ctypes.CDLL(library), name)


for _name, (_library, _theirs, _) in _FUNCTIONS.items() if ON_WINDOWS == (os.name == "nt") else ():
    add_symbol(_name, ctypes.cast(system_function(_theirs, _library), ctypes.c_void_p).value or 0)


class SpareMemory:
    """Memory that is held for compiled functions, which cannot stop when the system has no more: they get it instead,
    and their caller raises an error once they have ended. The system counts it as used when it is written to.

    lacked: whether it was needed; then `fail`.
    """

    def __init__(self) -> None:
        self.lacked = False
        self._allocate = system_function(_FUNCTIONS["nmt_allocate"][1], _FUNCTIONS["nmt_allocate"][0])
        self._allocate.restype, self._allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2
        self._give = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(self.give)
        self._held: mmap | None = None
        add_symbol("nmt_spare", ctypes.cast(self._give, ctypes.c_void_p).value or 0)
        self.hold()

    def hold(self) -> None:
        """Hold the memory, if it is not held and there is any."""
        if self._held is None:
            with suppress(OSError, MemoryError):
                self._held = mmap(-1, _SPARE_BYTES)

    def give(self, one: int, other: int) -> int:
        """Return memory by the arguments of the system's function. Ends the process with a line if there is none."""
        if self._held is not None:
            self._held.close()
        self._held, self.lacked = None, True
        found = self._allocate(one, other)
        if not found:
            os.write(2, b"nmt: no memory is left for a step of the computation; use a smaller batch or beam\n")
            os._exit(1)
        return int(found)

    def fail(self) -> None:
        """Raise MemoryError, as a function lacked memory that has ended since."""
        self.lacked = False
        self.hold()
        raise MemoryError("no memory for a step of the computation; use a smaller batch or beam")


_SPARE_BYTES = 64 << 20
spare_memory = SpareMemory()


def call_system(builder: ir.IRBuilder, name: str, *arguments: ir.Value) -> ir.Value:
    """Write a call of a function of the system, by the name that compiled code has for it, and return its result."""
    result = _OWN[name] if name in _OWN else _FUNCTIONS[name][2]
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)
