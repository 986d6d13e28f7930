"""LSTM and GRU scans by the persistent kernels, held to what all scans are held to."""

from dataclasses import replace

import numpy as np
import pytest

from nmt.rnn import DropoutCell, ElmanCell, GRUCell, LSTMCell, OutputDropoutCell, Scan, StackCell
from nmt.rnn.graph import Value
from nmt.rnn.kernels.cuda.device_cuda import CudaDevice
from nmt.rnn.kernels.cuda.run_persistent import PersistentRun, recognise
from tests.cuda.test_cells import Place
from tests.devices import ON_GPU, runtime_with
from tests.oracle import compare
from tests.rnn import scan_cases as cases

D, H, ROWS, STEPS = 5, 32, 3, 3
CELLS = {"lstm": LSTMCell, "gru": GRUCell}


@pytest.fixture(scope="module")
def wide_device(runtime):
    """With room for all blocks of a layer at once."""
    return CudaDevice(runtime_with(multiprocessors=8, seed=1))


def assert_near(found, expected, tolerance=1e-5):
    """Outputs and gradients by their names, each near by its norm."""
    for mine, theirs in zip(found, expected, strict=True):
        assert set(mine) == set(theirs)
        for key, value in theirs.items():
            assert compare.norm_error(mine[key], value) < tolerance, key


@pytest.fixture
def launches(monkeypatch):
    """Forward runs by the persistent kernels."""
    seen, forward = [], PersistentRun.forward
    monkeypatch.setattr(PersistentRun, "forward", lambda self, *args: seen.append(self.cell) or forward(self, *args))
    return seen


@pytest.mark.parametrize(
    ("name", "compute_dtype", "lengths", "reverse"),
    [
        ("lstm", None, (3, 0, 2), False),
        ("lstm", "bfloat16", (3, 0, 1), True),
        ("gru", None, (3, 0, 1), True),
        ("gru", "bfloat16", (1, 3, 0), False),
    ],
)
def test_a_layer_means_what_the_interpreter_says(wide_device, launches, name, lengths, reverse, compute_dtype):
    """Whatever lies in padding."""
    case = cases.draw(CELLS[name](D, H), "float32", lengths, rows=ROWS, steps=STEPS)
    expected = cases.interpreted(case, {}, reverse=reverse)
    dirty = replace(case, x=case.x.copy(), d_y=case.d_y.copy())
    for row, n in enumerate(lengths):
        dirty.x[n:, row] = dirty.d_y[n:, row] = np.nan
    options = {"device": wide_device, "compute_dtype": compute_dtype, "reverse": reverse}
    found = cases.compiled(dirty, **options)
    assert_near(found[:2], expected, compare.BFLOAT16_TOLERANCE if compute_dtype else 1e-5)
    for row, n in enumerate(lengths):
        np.testing.assert_array_equal(found[0]["y"][n:, row], 0)
        np.testing.assert_array_equal(found[1]["d_x"][n:, row], 0)
    for key, value in cases.inferred(dirty, **options).items():
        np.testing.assert_array_equal(value, found[0][key], key)
    assert launches == [name] * 2


def test_full_rows_and_absent_states(wide_device, launches):
    case = cases.draw(LSTMCell(D, H), "float32", rows=ROWS, steps=STEPS)
    case = replace(case, initial={})
    assert_near(cases.compiled(case, device=wide_device)[:2], cases.compiled(case)[:2])
    assert launches == ["lstm"]


@pytest.mark.parametrize("training", [False, True])
def test_only_these_cells_are_recognised(training):
    def found(cell):
        return recognise(Scan(cell).plan(training))

    assert found(LSTMCell(D, H)) == "lstm"
    assert found(GRUCell(D, H)) == "gru"
    for other in (LSTMCell(D, H, bias=False), GRUCell(D, H, reset_after=False), ElmanCell(D, H)):
        assert found(other) is None
    assert found(StackCell([LSTMCell(D, H)])) is None


def test_cells_are_recognised_by_what_they_compute_not_by_how_it_is_shown(monkeypatch):
    shown = iter(range(10**6))
    monkeypatch.setattr(Value, "__repr__", lambda value: str(next(shown)))
    assert recognise(Scan(LSTMCell(D, H + 1)).plan(True)) == "lstm"


@pytest.mark.parametrize("variational", [False, True])
def test_dropout_on_the_input_is_recognised(variational):
    """Every layer of a model that is trained with dropout has it."""
    for name, cell in CELLS.items():
        assert recognise(Scan(DropoutCell(cell(D, H), 0.3, variational)).plan(True)) == name
        assert recognise(Scan(DropoutCell(DropoutCell(cell(D, H), 0.3), 0.2)).plan(True)) is None
        assert recognise(Scan(OutputDropoutCell(cell(D, H), 0.3)).plan(True)) is None


@pytest.mark.parametrize(("name", "variational", "reverse"), [("lstm", False, True), ("gru", True, False)])
def test_a_layer_with_dropout_means_what_the_interpreter_says(wide_device, launches, name, variational, reverse):
    case = cases.draw(DropoutCell(CELLS[name](D, H), 0.4, variational), "float32", (3, 0, 2), rows=ROWS, steps=STEPS)
    *found, masks = cases.compiled(case, device=wide_device, reverse=reverse)
    assert_near(found, cases.interpreted(case, masks, reverse=reverse))
    assert launches == [name]
    assert any((mask == 0).any() for mask in masks.values())


@pytest.mark.parametrize(
    ("name", "compute_dtype", "reverse", "dropout"),
    [("lstm", None, False, 0.4), ("gru", "bfloat16", True, 0.0), ("lstm", "bfloat16", True, 0.0)],
)
def test_a_recording_serves_all_lengths(runtime, name, compute_dtype, reverse, dropout):
    """The whole pass and its sums, by other numbers and lengths each time; bits are those of launches."""
    cell = CELLS[name](D, H)
    cell = DropoutCell(cell, dropout) if dropout else cell
    devices = [CudaDevice(runtime_with(multiprocessors=8, seed=1)) for _ in range(2)]
    devices[1].replay = lambda key, arrays, launch: launch()
    first = cases.draw(cell, "float32", rows=4, steps=4)
    places = [Place(first, device, compute_dtype) for device in devices]
    all_lengths = [(4, 4, 4, 4), (4, 3, 4, 2), (4, 4, 3, 2), (4, 3, 4, 4), (3, 4, 4, 2), (4, 4, 2, 3)]
    for number, lengths in enumerate(all_lengths):
        case = replace(cases.draw(cell, "float32", rows=4, steps=4, seed=number), lengths=lengths)
        found, launched = (place.run(case, reverse) for place in places)
        compare.assert_same_bits(found, launched, f"{lengths}")
    if ON_GPU:
        return  # a GPU does not count replays
    counts = [device.runtime.gpu.counts for device in devices]
    # Whole rows are of a kind of their own; of the others the second is recorded, or the third where memory has grown.
    assert counts[0]["graph"] >= 2 * 3 and not counts[1]["graph"]
    assert counts[0]["cooperative"] <= counts[1]["cooperative"] - 2 * 3


def test_a_layer_is_one_pass_however_long():
    """Other passes are divided into blocks of time."""
    case = replace(cases.draw(LSTMCell(D, H), "float32", rows=4, steps=4), lengths=(4, 3, 4, 2))
    device, short = (CudaDevice(runtime_with(multiprocessors=8, seed=1)) for _ in range(2))
    short.block_rows = 4
    found, expected = (Place(case, one, None).run(case, False) for one in (short, device))
    compare.assert_same_bits(found, expected, "in blocks")


@pytest.mark.parametrize("name", CELLS)
def test_gradients_of_weights_may_come_later(wide_device, launches, name):
    case = cases.draw(CELLS[name](D, H), "float32", (3, 0, 2), rows=ROWS, steps=STEPS)
    whole, later = (cases.compiled(case, device=wide_device, weights_later=after)[1] for after in (False, True))
    assert launches == [name] * 2
    for key in case.params:
        np.testing.assert_array_equal(later[f"d_{key}"], whole[f"d_{key}"], key)
        assert whole[f"d_{key}"].any()
