"""Machine code of one function as an object file: made from LLVM's instructions, and loaded into this process.
Imports no Numba.

One engine has them all, for to make one takes longer than to load an object. An object has a single symbol, named by
its content; what they call of one another, or of the system, are symbols of the process, known before.
"""

from __future__ import annotations

import platform
import re
from functools import cache
from threading import Lock
from typing import Any

from llvmlite import binding

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.store import Record
from nmt.system.interruption import forkable

_loading = forkable(Lock())
_engine: list[Any] = []  # one, never freed: a thread may be anywhere in its code
_loaded: dict[str, int] = {}


_DECLARED = re.compile(r'^(?:declare .*?|(?=@.* external ))@"?([^"\s(]+)', re.MULTILINE)


def object_of(module: binding.ModuleRef, entry: str) -> Record:
    """Return a module as an object file in which only `entry` has a name, with the symbols of the process that it
    calls."""
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != entry:
            value.linkage = "private"
    machine = _target_machine()
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    module.verify()
    symbols = sorted({name for name in _DECLARED.findall(str(module)) if not name.startswith("llvm.")})
    return Record({"entry": entry, "symbols": symbols}, machine.emit_object(module))


@cache
def _target_machine() -> Any:
    """That of our level of processors; code goes where it likes, for nothing but its entrance is known."""
    _begin()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=TARGET.cpu,
        features=TARGET.features,
        opt=3,
        reloc="static" if platform.machine().lower() in ("x86_64", "amd64") else "default",
        codemodel="jitdefault",
        jit=True,
    )


def unresolved(symbols: list[str]) -> list[str]:
    """Return those of them that this process does not know; LLVM would end it on the way."""
    return [name for name in symbols if not binding.address_of_symbol(name)]


def add_symbol(name: str, address: int) -> None:
    """From now on code that is loaded may call it by this name."""
    binding.add_symbol(name, address)


def load(code: bytes, entry: str) -> int:
    """Return the address of a function in an object file, all of whose symbols the process knows. Objects of one entry
    are the same.

    Raises RuntimeError: the file has no such function.
    """
    with _loading:
        if entry not in _loaded:
            if not _engine:
                _engine.append(_new_engine())
            _engine[0].add_object_file(binding.ObjectFileRef.from_data(code))
            _engine[0].finalize_object()
            _loaded[entry] = _engine[0].get_function_address(entry)
        address = _loaded[entry]
    if not address:
        raise RuntimeError(f"no {entry} in its machine code")
    return address


def _new_engine() -> Any:
    _begin()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def _begin() -> None:
    """What LLVM wants first; again does no harm."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
