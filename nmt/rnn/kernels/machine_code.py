"""Machine code of one function as an object file, loaded into this process. Imports no Numba.

Each is loaded by an engine of its own: what two of them call alike inside is not confounded. What they call of one
another, or of the system, are symbols of the process, known before.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from llvmlite import binding

from nmt.interruption import forkable

_loading = forkable(Lock())
_engines: list[Any] = []  # never freed: a thread may be anywhere in their code


def unresolved(symbols: list[str]) -> list[str]:
    """Those of them that this process does not know; LLVM would end it on the way."""
    return [name for name in symbols if not binding.address_of_symbol(name)]


def add_symbol(name: str, address: int) -> None:
    """From now on code that is loaded may call it by this name."""
    binding.add_symbol(name, address)


def load(code: bytes, entry: str) -> int:
    """The address of a function in an object file, all of whose symbols the process knows.

    Raises RuntimeError: the file has no such function.
    """
    with _loading:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine(jit=True)
        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        engine.add_object_file(binding.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address: int = engine.get_function_address(entry)
        _engines.append(engine)
    if not address:
        raise RuntimeError(f"no {entry} in its machine code")
    return address
