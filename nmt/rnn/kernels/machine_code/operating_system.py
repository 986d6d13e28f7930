"""Functions of the operating system that compiled code calls: memory, threads, the clock."""

from __future__ import annotations

import ctypes
import os
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


def system_function(name: str, library: str | None = None) -> Any:
    """Return a function of the system for Python; `library` is the library that contains it on Windows."""
    return getattr(ctypes.CDLL(library), name)


for _name, (_library, _theirs, _) in _FUNCTIONS.items() if ON_WINDOWS == (os.name == "nt") else ():
    add_symbol(_name, ctypes.cast(system_function(_theirs, _library), ctypes.c_void_p).value or 0)


def call_system(builder: ir.IRBuilder, name: str, *arguments: ir.Value) -> ir.Value:
    """Write a call of a function of the system, by the name that compiled code has for it, and return its result."""
    kind = ir.FunctionType(_FUNCTIONS[name][2], [argument.type for argument in arguments])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)
