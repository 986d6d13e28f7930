"""What machine code there is of a function, to be looked at."""

from unittest import mock

from llvmlite import binding
from numba.core.registry import cpu_target

from nmt.rnn.kernels import compiling


def assembly_of(native):
    """The instructions of a function, and of all that has become part of it, as the store's object has them."""
    machine = cpu_target.target_context.codegen()._tm
    found = []

    def emit(module: binding.ModuleRef) -> bytes:
        found.append(machine.emit_assembly(module))
        return b""

    with mock.patch.object(machine, "emit_object", emit):
        compiling.compile_native(native)
    (text,) = found
    return text
