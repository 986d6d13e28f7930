"""The memory that a scan on a GPU takes, against what its plan says."""

import pytest

from nmt.rnn import Scan, Weights
from nmt.rnn.arrays.workspace import Workspace
from nmt.rnn.scan.memory_forecast import peak_bytes, scan_phases
from tests.rnn import scan_cases as cases


@pytest.mark.parametrize("name", ["stack", "lstm_bahdanau_feed"])
def test_memory_is_predicted(device, name):
    case = cases.on_device(cases.draw(cases.CELLS[name](), "float32"), device)
    scan, memory = Scan(case.cell, device=device), Workspace(device.xp)
    weights = Weights(case.params)
    tape = scan.forward(weights, case.x, captured=case.captured, training=True, allocate=memory).tape
    scan.backward(tape, case.d_y, None, {k: device.xp.zeros_like(p) for k, p in case.params.items()})
    there, back = scan_phases(scan, cases.T, cases.B, cases.S)
    assert memory.taken == pytest.approx(peak_bytes([*there, *back]).total(), rel=0.02)
