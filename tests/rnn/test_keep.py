"""What is kept for the way back and what is computed again there, decided value by value, by the names of a cell."""

import pytest

from nmt.errors import NMTError
from nmt.rnn import LSTMCell, Scan, StackCell, Weights
from nmt.rnn.arrays.workspace import LINE_BYTES, Workspace
from nmt.rnn.compiler.program import PlaceKind
from tests.oracle import compare
from tests.rnn import scan_cases as cases

H, T, B = cases.H, cases.T, cases.B
# Cell, policy, what is decided by name, and how many numbers a row and step more are stored for it.
CHOICES = [
    ("lstm", "attention", {"o": False}, -H),
    ("lstm", "attention", {"i": False, "f": False, "g": False, "o": False}, -4 * H),
    ("lstm", "gates", {"i": True, "o": True}, 2 * H),
    ("gru_reset_before", "attention", {"r": True, "n": False}, -H),
    ("lstm_bahdanau_feed", "attention", {"cell.g": False, "weights": True}, -H),
]


def kept_numbers(scan):
    """Numbers a row and step that a training run stores besides its states, without source positions."""
    places = scan.plan(True).forward.arrays.values()
    return sum(place.width or 1 for place in places if place.kind is PlaceKind.SEQUENCE and not place.source_axis)


@pytest.mark.parametrize(("name", "recompute", "keep", "more"), CHOICES)
def test_gradients_stay_and_memory_changes(name, recompute, keep, more):
    case = cases.draw(cases.CELLS[name](), "float64", cases.LENGTHS["zeros"])
    outputs, found, masks = cases.compiled(case, recompute=recompute, keep=keep, reverse=True)
    expected, slopes = cases.interpreted(case, masks, reverse=True)
    for what, value in (expected | slopes).items():
        compare.assert_close((outputs | found)[what], value, 1e-9, what)
    usual, chosen = (Scan(case.cell, recompute=recompute, keep=k) for k in (None, keep))
    assert kept_numbers(chosen) - kept_numbers(usual) == more


def test_a_run_takes_less_memory():
    case, taken = cases.draw(LSTMCell(cases.D, H), "float64"), []
    for keep in ({}, {"o": False}):
        scan, memory = Scan(case.cell, dtype="float64", threads=1, keep=keep), Workspace()
        scan.forward(Weights(case.params), case.x, training=True, allocate=memory)
        taken.append(memory.taken)
    assert taken[0] - taken[1] == -(-T * B * H * 8 // LINE_BYTES) * LINE_BYTES


def test_names_are_those_of_the_cell_and_of_cells_inside_it():
    scan = Scan(StackCell([LSTMCell(5, H), LSTMCell(H, H)]), keep={"1.o": False})
    assert kept_numbers(Scan(scan.cell)) - kept_numbers(scan) == H
    with pytest.raises(NMTError) as caught:
        Scan(LSTMCell(5, H), keep={"o": False, "out": True})
    assert str(caught.value) == "LSTMCell: keep must name values that the step notes, i, f, g, o, got out"


def test_what_cannot_be_computed_again_is_one_line():
    scan = Scan(cases.CELLS["lstm_bahdanau_feed"](), keep={"weights": False})
    with pytest.raises(NMTError, match=r"^keep: weights must be True, for it reads a sum .*, got False; leave it out$"):
        scan.plan(True)


def test_inference_keeps_nothing_whatever_is_named():
    plain, named = (Scan(LSTMCell(5, H), keep=keep) for keep in (None, {"o": False}))
    assert plain.compiled(False) is named.compiled(False)
    assert plain.compiled(True) is not named.compiled(True)
    assert named.compiled(True) is Scan(LSTMCell(5, H), keep={"o": False}).compiled(True)
