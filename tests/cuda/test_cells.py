"""Cells, scans and layers on a GPU: the tests of the processor, and what the two must have in common."""

from dataclasses import replace

import numpy as np
import pytest

from nmt.errors import NMTError, ShapeError
from nmt.rnn import LSTM, LSTMCell, Scan, Weights
from nmt.rnn.arrays.workspace import Workspace
from nmt.rnn.devices import cpu
from nmt.rnn.kernels.cuda.device_cuda import CudaDevice
from nmt.rnn.kernels.cuda.emit_cuda import HEADER
from nmt.rnn.ops import OPS, OpKind
from tests.devices import AT_FULL_SIZE, ON_GPU, runtime_with
from tests.oracle import compare
from tests.refusals import refused
from tests.rnn import more_cell_cases as more
from tests.rnn import scan_cases as cases
from tests.rnn import test_operators_oracle, test_random_cells, test_scan, test_stepper

# Every cell is met, in both directions and with all kinds of lengths, but not every combination of them: the
# stand-in takes its time.
LENGTHS = list(cases.LENGTHS)
PROGRAMS = [(name, "float64", LENGTHS[(n + 1) % len(LENGTHS)], n % 2 == 1) for n, name in enumerate(cases.CELLS)] + [
    ("lstm", "float64", "mixed", True),
    ("gru", "float64", "zeros", False),
    ("stack", "float32", "mixed", False),
    ("lstm_bahdanau_feed", "float32", "mixed", True),
]


def shortened(case):
    """Return a case for the stand-in, which is slow: three rows and at most four steps of it."""
    if AT_FULL_SIZE:
        return case
    few, lengths = case.rows(range(3)), None if case.lengths is None else tuple(min(n, 4) for n in case.lengths[:3])
    return replace(few, x=few.x[:4], d_y=few.d_y[:4], lengths=lengths)


@pytest.mark.parametrize(("name", "dtype", "lengths", "reverse"), PROGRAMS)
def test_a_program_means_what_the_interpreter_says(device, name, dtype, lengths, reverse):
    case = cases.draw(cases.CELLS[name](), dtype, cases.LENGTHS[lengths])
    test_scan.check_case(shortened(case), reverse, device)


OTHERS = "layer_norm_lstm mi_lstm_layer_norm peepholes_clip projection_cell_clip deep_transition_gru slstm sru "
OTHERS += "qrnn_window2 convolution hawk gla"


@pytest.mark.parametrize("name", more.COMPILED if AT_FULL_SIZE else OTHERS.split())
def test_every_other_cell_means_what_the_interpreter_says(device, name):
    case = shortened(more.draw(name, cases.LENGTHS["mixed"]))
    if Scan(case.cell).traced.has_named_axes:
        refused(NMTError, "device must be cpu for a step with named axes, got cuda", Scan, case.cell, device=device)
        return
    test_scan.check_case(case, name in ("slstm", "sru", "min_lstm"), device)


@pytest.mark.parametrize("name", ["context", "delay", "row_gate", "still", "names"])
def test_a_step_is_computed_as_it_is_written(device, name):
    test_random_cells.check_step(name, device)


def test_every_operation_has_a_meaning_in_a_kernel():
    """A name in an operation's form that the header of generated kernels lacks would show on a GPU alone."""
    header: dict = {}
    exec(HEADER.format(dtype="float32"), header)
    names = {form.partition("(")[0] for op in OPS.values() if op.kind is OpKind.ELEMENTWISE and (form := op.code)}
    names = {name for name in names if name.isidentifier()} - {"positive"}  # written as a comparison
    assert names > {"sigmoid", "maximum"}
    assert names <= set(header)


@pytest.mark.parametrize(
    ("name", "reverse", "options"),
    [("lstm", False, {}), ("lstm_general", True, {}), ("lstm_bahdanau_feed", False, {"compute_dtype": "bfloat16"})],
)
def test_padding_is_never_read(device, name, reverse, options):
    test_scan.check_padding(name, reverse, np.nan, device=device, **options)


@pytest.mark.parametrize("name", ["gru_reset_before", "lstm_bahdanau_feed"])
def test_blocks_of_time_never_show(device, name, monkeypatch):
    case = cases.draw(cases.CELLS[name](), "float64", cases.LENGTHS["mixed"], steps=7)
    whole = cases.compiled(case, device=device)
    monkeypatch.setattr(device, "block_rows", 20)
    parted = cases.compiled(case, device=device)
    compare.assert_same_bits(parted[0], whole[0], "output")
    compare.assert_all_close(parted[1], whole[1], 1e-12, "gradient")


def test_recomputing_gates_changes_nothing(device):
    case = cases.draw(cases.CELLS["lstm"](), "float64", cases.LENGTHS["mixed"])
    kept, again = (cases.compiled(case, reverse=True, recompute=r, device=device) for r in ("attention", "gates"))
    compare.assert_all_close(again[0], kept[0], 1e-12, "output")
    compare.assert_all_close(again[1], kept[1], 1e-12, "gradient")


@pytest.mark.parametrize("name", ["lstm", "gru_reset_before", "lstm_bahdanau_feed"])
def test_products_in_bfloat16_round_as_the_processor_does(device, name):
    """The same numbers are rounded the same way: what is left is the order of sums."""
    case = cases.draw(cases.CELLS[name](), "float32", cases.LENGTHS["mixed"])
    found = cases.compiled(case, device=device, compute_dtype="bfloat16")
    expected = cases.compiled(case, compute_dtype="bfloat16")
    exact = cases.compiled(case)
    for mine, theirs, whole in zip(found[:2], expected[:2], exact[:2], strict=True):
        for key, value in theirs.items():
            # A sum in another order may fall on the other side of a rounding to bfloat16, here and there.
            error = compare.norm_error(mine[key], value)
            assert error < 1e-3, f"{key}: off by {error:.2e} of its norm"
            assert compare.norm_error(mine[key], whole[key]) > 1e-5, f"{key}: was not computed in bfloat16"


@pytest.mark.parametrize("seed", [0, 5, 2**63 + 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dropout_masks_are_the_processor_s(device, dtype, seed):
    drawn = np.empty(300, dtype)
    cpu().dropout_mask(drawn, 0.7, seed, 3 << 40, 1)
    out = device.xp.empty(300, dtype)
    device.dropout_mask(out, 0.7, seed, 3 << 40, 1)
    np.testing.assert_array_equal(device.download(out), drawn)
    assert 0 < np.count_nonzero(drawn) < 300


def test_a_sentence_without_source_weighs_nothing(device):
    case = replace(cases.draw(cases.CELLS["gru_bahdanau"](), "float64"), source_lengths=(0, 1, 0, 2, 4))
    found, expected = cases.compiled(case, device=device), cases.compiled(case)
    compare.assert_all_close(found[0], expected[0], 1e-12, "output")
    compare.assert_all_close(found[1], expected[1], 1e-12, "gradient")


def test_rows_of_a_step_share_words_parents_and_ragged_sources(device):
    together, apart = test_stepper.shared_step(device)
    expected, _ = test_stepper.shared_step()
    for name, array in expected.items():
        compare.assert_close(together[name], array, 1e-12, name)
        compare.assert_close(apart[name], array, 1e-12, f"{name}, each for itself")


@pytest.mark.parametrize(
    ("kind", "num_layers", "bidirectional", "size"),
    [
        ("lstm", 2, True, "all_length_one"),
        ("lstm", 1, False, "wide"),
        ("gru", 1, True, "one_row"),
        ("gru_reset_before", 1, False, "unsorted"),
        ("rnn_tanh", 2, False, "all_equal_and_short"),
    ],
)
def test_layers_equal_the_oracle(device, kind, num_layers, bidirectional, size):
    test_operators_oracle.check_outputs_and_gradients(kind, num_layers, bidirectional, size, "float64", device)


def test_frozen_layers_drop_and_take_single_steps(device):
    """Dropout between layers is the processor's; frozen parameters give what they gave before."""
    x = np.random.default_rng(0).standard_normal((1, 2, 3)).astype(np.float32)
    mine, theirs = (LSTM(3, 4, num_layers=2, dropout=0.5, batch_first=True, device=d) for d in (device, None))
    for layer in (mine, theirs):
        layer.forward(layer.device.upload(x))
        layer.freeze()
    for call in ("forward", "__call__", "__call__"):
        found = mine.device.download(getattr(mine, call)(device.upload(x))[0])
        compare.assert_close(found, getattr(theirs, call)(x)[0], 1e-5, call)


def test_the_order_of_threads_never_shows():
    if ON_GPU:
        pytest.skip("a GPU chooses its own order")
    case = cases.draw(cases.CELLS["lstm_bahdanau_feed"](), "float32", cases.LENGTHS["mixed"])
    one, *others = (cases.compiled(case, device=CudaDevice(runtime_with(seed=s))) for s in (1, None, 2, 3))
    for other in others:
        compare.assert_same_bits(other[0], one[0], "output")
        compare.assert_same_bits(other[1], one[1], "gradient")


def test_other_sizes_compile_nothing(device):
    """A batch of another size or length runs the kernels that are there."""
    scan = Scan(cases.CELLS["lstm_bahdanau_feed"](), dtype=np.float64, device=device)
    kernels = [k.kernel for k in scan.compiled(True).step.forward_module.kernels]
    for rows, steps, places in ((1, 1, 1), (3, 2, 5)):
        cases.compiled(cases.draw(scan.cell, "float64", rows=rows, steps=steps, places=places), device=device)
    assert [k.kernel for k in scan.compiled(True).step.forward_module.kernels] == kernels


def test_a_wrong_array_is_one_line(device):
    scan, case = Scan(LSTMCell(5, 7), dtype=np.float64, device=device), cases.draw(LSTMCell(5, 7), "float64")
    weights = Weights({k: device.upload(v) for k, v in case.params.items()})
    for wrong in (device.upload(case.x.astype(np.float32)), case.x.tolist()):
        with pytest.raises(ShapeError, match=r"^LSTMCell: x must be float64 \[any, any, 5\].*cuda, got [^\n]*$"):
            scan.forward(weights, wrong)


def recording_device():
    """A device whose recordings are counted, and the function that counts."""
    if ON_GPU:
        pytest.skip("a GPU does not count replays")
    runtime = runtime_with(seed=1)
    return CudaDevice(runtime), lambda: runtime.gpu.counts["graph"]


class Place:
    """Memory in which one run after another finds its arrays where the last one had them."""

    def __init__(self, case, device, compute_dtype):
        self.scan = Scan(case.cell, compute_dtype=compute_dtype, device=device)
        self.held, self.memory = cases.on_device(case, device), Workspace(device.xp)
        self.weights = Weights(self.held.params)

    def run(self, case, reverse):
        """Outputs and gradients of another case of the same shapes."""
        held, memory, device = self.held, self.memory, self.scan.device
        for name in ("params", "x", "initial", "captured", "d_y", "d_final"):
            mine, theirs = getattr(held, name), getattr(case, name)
            for key in mine if isinstance(mine, dict) else [...]:
                mine[key][...] = device.upload(theirs[key])
        self.weights.changed()
        memory.reset()
        result = self.scan.forward(
            self.weights, held.x, held.initial, **{**case.options, "captured": held.captured},
            reverse=reverse, training=True, allocate=memory,
        )  # fmt: skip
        shares = {name: device.xp.zeros_like(p) for name, p in held.params.items()}
        found = self.scan.backward(result.tape, held.d_y, held.d_final, shares)
        return cases.on_host(({**cases.named(result), **cases.gradients(found, shares)},), device)[0]


@pytest.mark.parametrize(("name", "compute_dtype"), [("gru_reset_before", "bfloat16"), ("lstm_bahdanau_feed", None)])
def test_loops_that_come_again_are_recorded(name, compute_dtype):
    """In the same memory: other numbers there count; other lengths, and the other direction, are other recordings."""
    device, replays = recording_device()
    one, two = (draw_again(name, seed) for seed in (0, 1))
    place = Place(draw_again(name, 0), device, compute_dtype)
    other = replace(one, lengths=(6, 2, 1, 5, 3))
    expected: dict = {}
    for case, reverse in [(one, False), (two, False)] * 2 + [(other, False), (one, True), (two, False)]:
        key = id(case), reverse
        if key not in expected:
            expected[key] = Place(draw_again(name, 0), recording_device()[0], compute_dtype).run(case, reverse)
        compare.assert_same_bits(place.run(case, reverse), expected[key], f"{key}")
    # Forward and backward; the second run of a kind is recorded, or the third where memory had to grow first.
    assert replays() in (2 * 3, 2 * 4)


@pytest.mark.parametrize(("name", "reverse"), [("gru_reset_before", True), ("lstm_bahdanau_feed", False)])
def test_a_recording_serves_all_lengths(name, reverse):
    """Where most rows are active: lengths are read on the GPU, of rows and of sources. Bits are those of launches."""
    (device, replays), (plain, _) = recording_device(), recording_device()
    plain.replay = lambda key, arrays, launch: launch()
    full = [(6, 5, 6, 4, 6), (6, 6, 5, 6, 5), (5, 6, 6, 6, 6), (6, 5, 5, 5, 6), (6, 6, 6, 4, 5)]
    sources = np.array([[4, 3, 2, 4, 1], [1, 4, 4, 4, 2], [4, 4, 4, 3, 4], [2, 2, 4, 4, 4], [4, 1, 4, 4, 4]])
    place, launched = (Place(draw_again(name, 0), one, None) for one in (device, plain))
    for number, lengths in enumerate(full):
        case = replace(draw_again(name, number), lengths=lengths)
        if case.captured:
            case = replace(case, source_lengths=sources[number])
        found = place.run(case, reverse)
        compare.assert_same_bits(found, launched.run(case, reverse), f"{number}")
        expected = cases.compiled(case, reverse=reverse)
        for key, value in {**expected[0], **expected[1]}.items():
            assert compare.norm_error(found[key], value) < 1e-5, (number, key)
    # Forward and backward: recorded in the second or third run, repeated in all after that.
    assert replays() >= 2 * 3


def draw_again(name, seed):
    return cases.draw(cases.CELLS[name](), "float32", cases.LENGTHS["mixed"], seed=seed)
