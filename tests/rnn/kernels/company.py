"""What tests of kernels share: numbers, runs of rows, and what machine code there is of a function."""

from unittest import mock

import numpy as np
from llvmlite import binding

from nmt.rnn.kernels.machine_code import objects as machine_code
from nmt.rnn.kernels.products import packing
from nmt.rnn.kernels.threads.pool import run_parallel
from tests.processes import python


def normal(rng, *shape):
    return rng.standard_normal(shape).astype("f4")


def packed(weights, row0=0, row1=None, parts=1, *, pack=packing.pack, kind=None):
    """Rows of a matrix, packed into an array whose former numbers are NaN."""
    row1, kind = len(weights) if row1 is None else row1, kind or weights.dtype
    out = np.empty(packing.packed_size(row1 - row0, weights.shape[1], kind), kind)
    out.view("u1").fill(0xFF)
    run_parallel(pack, parts, weights, row0, row1, out)
    return out


def results_on(target, module, changed="", **environment):
    """What the `results` of a module of tests are on another target, in a process of its own; `changed`: statements
    before."""
    code = (
        f"{changed}from nmt.rnn.kernels.machine_code.features import TARGET; "
        f"from tests.rnn.kernels.{module} import results; print(TARGET.name, results(2))"
    )
    name, found = python(code, NMT_CPU=target, **environment).stdout.split()
    assert name == target
    return found


def segments_of(rows):
    """Two runs of rows out of order, one empty; and the rows themselves."""
    runs = np.array([[rows // 2, rows - rows // 2], [0, rows // 3], [rows // 3, 0]], np.int64)
    return runs, np.r_[rows // 2 : rows, 0 : rows // 3]


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
