"""Make an object file of one function from LLVM instructions, for this machine or another, and load it into this
process. Imports no Numba.

A single engine holds all objects, as making an engine takes longer than loading an object. An object defines one
symbol, named after its content. The functions that it calls, ours or the system's, are symbols of the process and
defined before.

Also: functions of the operating system that compiled code calls, for memory and threads.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from contextlib import suppress
from functools import cache
from mmap import mmap
from threading import Lock
from typing import Any

from llvmlite import binding, ir

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.store import Record
from nmt.system.interruption import forkable

_loading = forkable(Lock())
_loaded: dict[str, int] = {}


_FAST = re.compile("forward_loop|reduce")
"""Functions that are made for speed where the others are made small: those that take most of the time. Tiles of
products are what they are written as, in any case."""
_DECLARED = re.compile(r'^(?:declare .*?|(?=@.* external ))@"?([^"\s(]+)', re.MULTILINE)


def object_of(module: binding.ModuleRef, entry: str) -> Record:
    """Return a module as an object file in which only `entry` has a name, with the process symbols that it calls."""
    machine = _target_machine()
    if TARGET.triple:
        module = binding.parse_assembly(_moved(str(module), str(machine.target_data)))
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != entry:
            value.linkage = "private"
    if TARGET.is_linked:
        module.get_function(entry).visibility = "hidden"
    if TARGET.is_small and not _FAST.search(entry):
        for function in module.functions:
            function.add_function_attribute("optsize")
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    module.verify()
    symbols = sorted({name for name in _DECLARED.findall(str(module)) if not name.startswith("llvm.")})
    return Record({"entry": entry, "symbols": symbols}, machine.emit_object(module))


def _moved(text: str, layout: str) -> str:
    """Return LLVM's text of a module of this machine for the machine that TARGET names, with that one's data layout.
    Addresses are int64 in all our code, so that it has no size of pointers."""
    text = re.sub(r"^target triple.*$", f'target triple = "{TARGET.triple}"', text, flags=re.MULTILINE)
    text = re.sub(r"^target datalayout.*$", f'target datalayout = "{layout}"', text, flags=re.MULTILINE)
    text = re.sub(r'"target-(cpu|features)"="[^"]*"', "", text)
    return text.replace("= common ", "= private ")  # Numba's environments; other formats have no common symbols


@cache
def _target_machine() -> Any:
    """Return LLVM's target machine for the level of processors we compile for. The code may be placed at any address:
    only its entry point is known outside."""
    _initialize_llvm()
    here = not (TARGET.triple or TARGET.is_linked)
    reloc, model = ("pic", "small") if TARGET.is_linked else ("static", "jitdefault")
    if here:
        reloc = "static" if platform.machine().lower() in ("x86_64", "amd64") else "default"
    else:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    if TARGET.name == "wasm":  # which has one model alone; on Windows the default of a JIT is another
        model = "default"
    target = binding.Target.from_triple(TARGET.triple or binding.get_default_triple())
    return target.create_target_machine(
        cpu=TARGET.cpu, features=TARGET.features, opt=3, reloc=reloc, codemodel=model, jit=here
    )


def load(code: bytes, entry: str) -> int:
    """Load an object file whose symbols the process defines, and return the address of its function `entry`. An entry
    that is loaded already is not loaded again. Raises RuntimeError: the file has no such function."""
    with _loading:
        if entry not in _loaded:
            engine = _engine()
            engine.add_object_file(binding.ObjectFileRef.from_data(code))
            engine.finalize_object()
            _loaded[entry] = engine.get_function_address(entry)
        address = _loaded[entry]
    if not address:
        raise RuntimeError(f"no {entry} in its machine code")
    return address


@cache
def _engine() -> Any:
    """Return the engine, which is never freed: a thread may be running its code."""
    _initialize_llvm()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def _initialize_llvm() -> None:
    """Initialize LLVM; calling this again does no harm."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


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
    }
)


def system_function(name: str, library: str | None = None) -> Any:
    """Return a function of the system for Python; `library` is the library that contains it on Windows."""
    return getattr(ctypes.CDLL(library), name)


for _name, (_library, _theirs, _) in _FUNCTIONS.items() if ON_WINDOWS == (os.name == "nt") else ():
    binding.add_symbol(_name, ctypes.cast(system_function(_theirs, _library), ctypes.c_void_p).value or 0)


class SpareMemory:
    """Memory that is held for compiled functions, which cannot stop when the system has no more: they get it instead,
    and their caller raises an error once they have ended. The system counts it as used when it is written to. lacked:
    whether it was needed; then `fail`."""

    def __init__(self) -> None:
        self.lacked = False
        self._held: mmap | None = None
        if ON_WINDOWS != (os.name == "nt"):
            return  # the code is for another system, and is not run
        self._allocate = system_function(_FUNCTIONS["nmt_allocate"][1], _FUNCTIONS["nmt_allocate"][0])
        self._allocate.restype, self._allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2
        self._give = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(self.give)
        binding.add_symbol("nmt_spare", ctypes.cast(self._give, ctypes.c_void_p).value or 0)
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
    result = _POINTER if name == "nmt_spare" else _FUNCTIONS[name][2]
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)
