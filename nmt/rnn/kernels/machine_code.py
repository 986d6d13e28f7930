"""Machine code of one function as an object file, loaded into this process. Imports no Numba.

One engine has them all, for to make one takes longer than to load an object. An object has a single symbol, named by
its content; what they call of one another, or of the system, are symbols of the process, known before.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from llvmlite import binding

from nmt.interruption import forkable

_loading = forkable(Lock())
_engine: list[Any] = []  # one, never freed: a thread may be anywhere in its code
_loaded: dict[str, int] = {}


def unresolved(symbols: list[str]) -> list[str]:
    """Those of them that this process does not know; LLVM would end it on the way."""
    return [name for name in symbols if not binding.address_of_symbol(name)]


def add_symbol(name: str, address: int) -> None:
    """From now on code that is loaded may call it by this name."""
    binding.add_symbol(name, address)


def load(code: bytes, entry: str) -> int:
    """The address of a function in an object file, all of whose symbols the process knows. Objects of one entry are
    the same.

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
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
