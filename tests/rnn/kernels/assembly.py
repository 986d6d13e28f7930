"""What machine code there is of a function, to be looked at."""

from unittest import mock

from llvmlite import binding

from nmt.rnn.kernels.machine_code import objects as machine_code


def assembly_of(native):
    """The instructions of a function, and of all that has become part of it, as the store's object has them."""
    machine = machine_code._target_machine()
    found = []

    def emit(module: binding.ModuleRef) -> bytes:
        found.append(machine.emit_assembly(module))
        return b""

    with mock.patch.object(machine, "emit_object", emit):
        native.compile()
    (text,) = found
    return text
