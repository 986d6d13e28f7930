"""What the products of every type promise of rows; and what machine code there is of a function."""

import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
from llvmlite import binding

from nmt.rnn.kernels.machine_code import objects as machine_code
from nmt.rnn.kernels.products import product as products


def assert_same_bits_in_any_company(A, packed):
    """Each row of A [29, 77] @ packed [77, 70] is the same whichever other rows take part."""
    whole = np.empty((29, 70), "f4")
    products.product(0, 1, A, 0, packed, whole, 0, 77, 70, np.array([[0, 29]]), 0)
    for runs in ([[3, 1]], [[0, 5], [20, 9]], [[28, 1], [0, 1], [7, 12]]):
        some = np.empty((29, 70), "f4")
        products.product(0, 1, A, 0, packed, some, 0, 77, 70, np.array(runs), 0)
        for start, count in runs:
            np.testing.assert_array_equal(some[start : start + count], whole[start : start + count])


def results_on(target, module, changed="", **environment):
    """What the `results` of a module of tests are on another target, in a process of its own; `changed`: statements
    before."""
    code = (
        f"{changed}from nmt.rnn.kernels.machine_code.features import TARGET; "
        f"from tests.rnn.kernels.{module} import results; print(TARGET.name, results(2))"
    )
    environment |= {"NMT_CPU": target, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)
    assert found.stdout.split()[:1] == [target], found.stderr
    return found.stdout.split()[1]


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
