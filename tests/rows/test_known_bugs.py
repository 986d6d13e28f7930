"""What went wrong in the engines before this one: each bug of theirs that this one could have, as a test.

Every test names the system and its commit or file.
"""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from nmt.decode import search
from nmt.decode.beam import BeamCell
from nmt.decode.beam import run as run_beam
from nmt.decode.hypotheses import Block
from nmt.rnn import (
    GRU,
    LSTM,
    RNN,
    AttentionCell,
    Cell,
    DropoutCell,
    ElmanCell,
    GRUCell,
    LSTMCell,
    LSTMVariantCell,
    Param,
    ResidualCell,
    Scan,
    StackCell,
    State,
    Weights,
    interpreter,
    tanh,
    tuning,
)
from nmt.rnn.arrays.workspace import Workspace
from tests import small_models
from tests.oracle import layers
from tests.rnn import operator_calls
from tests.rnn import scan_cases as cases
from tests.rows.support import (
    MEGABYTE,
    MIXED,
    B,
    D,
    H,
    M,
    T,
    WindowDecoder,
    all_close,
    close,
    count_plans,
    draw,
    hold_to_quotients,
    layer_of,
    passes,
    plan_of,
    same_bits,
)

EVERY = pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])


# ------------------------------------------------------------ Caffe2: gradients


class TwoReadersCell(Cell):
    """Two attentions over one memory, one above the other."""

    def __init__(self):
        self.one = AttentionCell(GRUCell(D, H), M, H, attention="general", input_feeding=False)
        self.two = AttentionCell(GRUCell(H, 4), M, 4, attention="general", input_feeding=False)
        self.stack = StackCell([self.one, self.two])
        self.input_size, self.output_size = D, 4

    def params(self):
        return self.stack.params()

    def states(self):
        return self.stack.states()

    def captured(self):
        return self.stack.captured()

    def step(self, p, x, s):
        return self.stack.step(p, x, s)


def test_gradients_of_what_several_cells_read_are_added_not_overwritten():
    """Caffe2 417f7450: in a MultiRNNCell the gradient of a shared blob was that of its last reader."""
    hold_to_quotients(cases.draw(TwoReadersCell(), "float64", MIXED))


class SumFirstCell(Cell):
    """The step begins with a sum of the input and the state."""

    def __init__(self, size):
        self.input_size = self.output_size = size

    def params(self):
        return {"W": Param((self.input_size, self.input_size))}

    def states(self):
        return {"h": self.input_size}

    def step(self, p, x, s):
        h = tanh((x + s.h) @ p.W)
        return h, State(h=h)


def test_a_step_may_begin_with_a_sum():
    """Caffe2 8e01e4c8: gradients of a cell whose first operation was a Sum were wrong."""
    hold_to_quotients(cases.draw(SumFirstCell(D), "float64", MIXED))


@pytest.mark.parametrize("layers_", [1, 3])
def test_gradients_go_around_a_layer_as_well_as_through_it(layers_):
    """Caffe2 1905249f: the share of a residual connection was lost."""
    hold_to_quotients(cases.draw(StackCell([ResidualCell(GRUCell(D, D)) for _ in range(layers_)]), "float64", MIXED))


def test_gradients_of_a_memory_come_through_keys_and_through_the_context():
    """Caffe2 f4920096: an in-place reshape made the attention's blob internal, and its gradient stayed inside."""
    cell = AttentionCell(LSTMCell(D + 11, H), M, 11)
    case = cases.draw(cell, "float64", MIXED)
    _, found, _ = cases.compiled(case)
    hold_to_quotients(case, found)
    blind = replace(case, params={**case.params, "W_k": np.zeros_like(case.params["W_k"])})
    _, through_context, _ = cases.compiled(blind)
    d_memory = through_context["d_captured memory"]
    assert d_memory.any() and not np.allclose(found["d_captured memory"], d_memory)
    for row, n in enumerate(case.source_lengths):
        assert not found["d_captured memory"][n:, row].any()


# ------------------------------------------------------------ Caffe2: options that got lost on the way


@pytest.mark.parametrize("make", [LSTM, GRU, RNN])
def test_what_to_compute_again_reaches_every_layer(make):
    """Caffe2 90d75620: a refactoring cleared the list of what to compute again, unnoticed."""
    layer = make(D, H, 3, bidirectional=True, recompute="gates")
    assert [side.scan.recompute for sides in layer._layers for side in sides] == ["gates"] * 6
    model = small_models.build(9, recompute="gates")
    assert {scan.recompute for scan in (*model.encoder.layers.scans, model.decoder)} == {"gates"}
    x, d_y = draw(300, 8, D), draw(300, 8, 2 * 32)  # megabytes, in which memory is counted
    asked = []
    for recompute in ("attention", "gates"):
        one = make(D, 32, 3, bidirectional=True, recompute=recompute, dtype=np.float64)
        one.forward(x)
        asked.append(one.workspace_bytes)
        one.found = one.backward(d_y)
    assert asked[1] < asked[0] or make is RNN  # a plain layer keeps nothing but states anyway


def test_a_scan_of_the_same_kind_keeps_every_option():
    """The same mistake here: `Scan.around`, for cells around a decoder's, forgot what to compute again and the
    device."""
    options = {"dtype": np.dtype("float64"), "threads": 3, "division": "units"}
    scan = Scan(LSTMCell(D, H), recompute="gates", **options)
    other = scan.around(GRUCell(D, H))
    for name in (*options, "recompute", "device", "packed"):
        assert getattr(other, name) == getattr(scan, name), name


def test_inference_makes_no_plan_for_training(monkeypatch):
    """Caffe2 96e71875: forward_only did not reach the inner nets, so that each built its backward step."""
    made = count_plans(monkeypatch)
    model = small_models.build(11, encoder={"hidden_size": 5}, decoder={"hidden_size": 10, "num_layers": 2})
    limits = {"max_length_ratio": 1.0, "max_length_extra": 2}
    search(model, [[4, 5], [6]], beam_size=2, length_penalty="none", n_best=1, threads=1, **limits)
    LSTM(D, 15, 2, bidirectional=True)(draw(T, B, D).astype("f4"))
    assert made and not any(options["training"] for options in made)


# ------------------------------------------------------------ Caffe2: memory between runs


def test_memory_of_a_long_run_is_not_given_up_for_a_short_one():
    """Caffe2 35977600: the vector of step workspaces shrank with a short sequence and was rebuilt for a long one
    (842dd732: a quarter to two thirds of a training step)."""
    layer = LSTM(D, 64)
    long, short = ((draw(t, 8, D).astype("f4"), draw(t, 8, 64).astype("f4")) for t in (300, 3))
    passes(layer, *long)
    passes(layer, *long)
    tracemalloc.start()
    for _ in range(3):
        passes(layer, *short)
        passes(layer, *long)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    results = 300 * 8 * D * 4 + 64 * 4 * (64 + D) * 4  # of one pass, held by nobody
    assert most < 4 * MEGABYTE + results < layer.workspace_bytes
    take = Workspace()
    first = take((8 << 20,), np.uint8)
    for size in (100, 8 << 20, 1):
        take.reset()
        assert np.shares_memory(take((size,), np.uint8), first)


def test_no_number_of_an_earlier_run_is_seen_in_a_later_one():
    """Caffe2's executor test exists because stale workspaces were read: T, T / 2, 3 T / 4, T, T / 2 + 1."""
    layer, _ = layer_of("lstm", 2, bidirectional=True)
    for steps in (12, 6, 9, 12, 7):
        x, d_y = draw(steps, B, D), draw(steps, B, 2 * H)
        fresh, _ = layer_of("lstm", 2, bidirectional=True)
        lengths = [steps, 1, steps // 2, 0, steps]
        for one in (layer, fresh):
            one.found = operator_calls.forward(one, x, lengths=lengths)
            one.slopes = operator_calls.backward(one, d_y)
        same_bits(layer.found, fresh.found)
        same_bits(layer.slopes.params, fresh.slopes.params)
        np.testing.assert_array_equal(layer.slopes.d_x, fresh.slopes.d_x)
        layer.forward(np.full((20, 9, D), np.nan))


@EVERY
def test_states_are_carried_from_batch_to_batch(kind):
    """Caffe2 4592d671: the second batch began at zero."""
    layer, params = layer_of(kind, 2)
    x = draw(2 * T, B, D)
    _, *states = layer(x[:T])
    y, *_ = layer(x[T:], *states)
    whole = layers.run(kind, params, x, num_layers=2)[0]
    close(y, whole[T:])
    assert not np.allclose(layer(x[T:])[0], whole[T:])


def test_states_of_rows_that_have_ended_are_carried_too():
    """The same, where the rows of the first batch have different lengths, one of them none."""
    layer, params = layer_of("lstm")
    x, first, second = draw(T, B, D), (0, 4, 2, 6, 1), (6, 1, 2, 0, 5)
    _, hy, cy = layer(x, lengths=first)
    y, *_ = layer(x, hy, cy, lengths=second)
    for row, (n, m) in enumerate(zip(first, second, strict=True)):
        whole = np.concatenate([x[:n, [row]], x[:m, [row]]])
        close(y[:m, [row]], layers.run("lstm", params, whole)[0][n:])


def test_dropout_costs_no_preparation_in_later_passes(monkeypatch):
    """Caffe2 684e49cd: the dropout descriptor was set up again, at great cost, in every run."""
    layer = GRU(D, H, 3, dropout=0.4)
    x, d_y = draw(T, B, D).astype("f4"), draw(T, B, H).astype("f4")
    passes(layer, x, d_y)
    made = count_plans(monkeypatch)
    outputs = [layer.forward(x)[0].copy() for _ in range(3)]
    assert made == [] and not np.array_equal(outputs[0], outputs[1])


def test_array_of_sources_by_features_is_not_kept_for_every_step():
    """Caffe2 8be1311d: the attention's sum of encoder and decoder cost 2.4 GB at 100 x 100 steps."""
    plan = plan_of(AttentionCell(LSTMCell(D + 11, H), M, 11))
    stored = [p for one in (plan.forward, plan.backward) for p in one.arrays.values()]
    assert stored and not any(p.source_axis and p.width is not None for p in stored)


@pytest.mark.parametrize("threads", [2, 5])
def test_many_threads_never_race_and_never_wait_for_ever(threads, monkeypatch):
    """Caffe2 7bef67bb, 5ec033d7, 4d3c374a: races of the parallel executor, and a watchdog for its deadlocks."""
    monkeypatch.setattr(tuning, "ALONE_BELOW", 0)
    expected = {}
    for turn in range(30):
        steps = (T, 1, T // 2, T - 1, 2)[turn % 5]
        case = cases.draw(LSTMCell(D, H), "float64", steps=steps)
        outputs, found, _ = cases.compiled(case, threads=threads, division=("units", "rows")[turn % 2])
        same_bits({**outputs, **found}, expected.setdefault(steps, {**outputs, **found}))
    one, slopes, _ = cases.compiled(cases.draw(LSTMCell(D, H), "float64"))
    same_bits({**one, **slopes}, expected[T])


# ------------------------------------------------------------ Caffe2: search


def translations(decoder, beam_size, limit, n_best):
    cell = BeamCell(decoder, np.array([limit]), beam_size, "none", n_best, first_token=1, never=2)
    (found,) = dict(run_beam(cell, iter([Block(np.arange(1), [[0]])]), 1)).values()
    return found


@pytest.mark.parametrize("seed", range(5))
def test_what_has_ended_has_no_successors(seed):
    """Caffe2 3187cf8d, fixed again in 5afe4443: hypotheses went on after their end, and took places in the beam."""
    decoder = WindowDecoder(seed)
    for h in translations(decoder, 6, 12, 6):
        assert decoder.eos_id not in h.ids
        words = (*h.ids, decoder.eos_id) if h.finished else tuple(h.ids)
        assert h.log_prob == pytest.approx(sum(decoder(words[:n])[words[n]] for n in range(len(words))))


def test_search_ends_before_its_limit():
    """Caffe2's beam always ran the whole length, twice the source and five, whatever had ended."""
    decoder = WindowDecoder(1)
    found = translations(decoder, 4, 500, 1)
    assert found[0].finished and len(decoder.rows) < 100


# ------------------------------------------------------------ MXNet


@EVERY
def test_adding_to_gradients_adds_once_a_pass(kind):
    """MXNet's fused operator on the processor (rnn_impl.h, request "add"): a bias's old gradient was doubled at every
    step."""
    cell = {"lstm": LSTMCell, "gru": GRUCell, "rnn_tanh": ElmanCell}[kind](D, H)
    case = cases.draw(cell, "float64", MIXED)
    scan, weights = Scan(cell, dtype="float64", threads=1), Weights(case.params)
    start = {name: draw(*p.shape, seed=9) for name, p in case.params.items()}
    sums, once = {k: a.copy() for k, a in start.items()}, {k: np.zeros_like(a) for k, a in start.items()}
    for shares, times in ((once, 1), (sums, 3)):
        for _ in range(times):
            tape = scan.forward(weights, case.x, case.initial, lengths=MIXED, training=True).tape
            scan.backward(tape, case.d_y, case.d_final, shares)
    all_close(sums, {name: start[name] + 3 * once[name] for name in start})


@pytest.mark.parametrize("frozen", [False, True])
@EVERY
def test_new_weights_are_used_at_once(kind, frozen):
    """MXNet's oneDNN path kept reordered weights by a version number that was never raised
    (test_rnn_with_new_param)."""
    layer, params = layer_of(kind, 2)
    x = draw(T, B, D)
    for turn in range(3):
        if frozen:
            layer.params.update({name: p * (turn + 1) for name, p in params.items()})
            layer.freeze()
        else:
            for name, p in params.items():
                layer.params[name][...] = p * (turn + 1)
        now = {name: p * (turn + 1) for name, p in params.items()}
        expected = layers.run(kind, now, x, num_layers=2)[0]
        close(layer(x)[0], expected)
        close(layer(x[:1])[0], expected[:1])
        close(layer.forward(x)[0], expected)


def test_a_projection_trains_on_the_processor():
    """MXNet: "No training support for LSTM with projection on CPU currently"."""
    hold_to_quotients(cases.draw(LSTMVariantCell(D, H, projection=3), "float64", MIXED))


@EVERY
def test_lengths_count_on_the_processor(kind):
    """MXNet: use_sequence_length worked with cuDNN only. Padded outputs are exactly zero, whatever lies in x there."""
    layer, params = layer_of(kind, 2, bidirectional=True)
    x = draw(T, B, D)
    expected = layers.run(kind, params, x, lengths=MIXED, num_layers=2, bidirectional=True)
    for row, n in enumerate(MIXED):
        x[n:, row] = np.nan
    found = layer(x, lengths=MIXED)
    for one, other in zip(found, expected, strict=False):
        close(one, other)
    for row, n in enumerate(MIXED):
        np.testing.assert_array_equal(found[0][n:, row], 0)


def test_a_layer_s_parameters_are_counted_right():
    """MXNet test_layer_fill_shape: ten units on seven inputs have 760 numbers."""
    assert sum(p.size for p in LSTM(7, 10).params.values()) == 760


# ------------------------------------------------------------ oneDNN, cuDNN, Haste, Keras, Theano


def test_gradients_may_be_asked_for_twice():
    """oneDNN: a workspace was good for one backward pass; the second, over overwritten numbers, was wrong."""
    case = cases.draw(AttentionCell(LSTMCell(D + 11, H), M, 11), "float64", MIXED)
    scan, weights = Scan(case.cell, dtype="float64", threads=1), Weights(case.params)
    tape = scan.forward(weights, case.x, case.initial, **case.options, training=True).tape
    runs = []
    for d_y in (case.d_y, 2 * case.d_y, case.d_y):
        shares = {name: np.zeros_like(p) for name, p in case.params.items()}
        found = scan.backward(tape, d_y, case.d_final if d_y is case.d_y else None, shares)
        runs.append({"x": found.x.copy(), **{k: a.copy() for k, a in found.captured.items()}, **shares})
    same_bits(runs[2], runs[0])
    assert not np.allclose(runs[1]["x"], runs[0]["x"])


@pytest.mark.parametrize("division", ["rows", "units"])
def test_rows_of_different_lengths_take_the_fast_path(division):
    """cuDNN's persistent kernels refuse packed batches: others run another program then, with other rounding."""
    case = cases.draw(LSTMCell(D, H), "float32", (6,) * B)
    whole, _, _ = cases.compiled(case, threads=2, division=division)
    mixed, _, _ = cases.compiled(replace(case, lengths=(6, 6, 2, 6, 1)), threads=2, division=division)
    for row in (0, 1, 3):
        np.testing.assert_array_equal(mixed["y"][:, row], whole["y"][:, row])
    np.testing.assert_array_equal(mixed["y"][:2, 2], whole["y"][:2, 2])


@pytest.mark.parametrize("reverse", [False, True])
def test_outputs_beyond_the_end_are_zero_in_both_directions(reverse):
    """Haste did not mask them; Keras and Caffe2 repeat the last output."""
    case = cases.draw(GRUCell(D, H), "float64", MIXED)
    outputs, _, _ = cases.compiled(case, reverse=reverse)
    for row, n in enumerate(MIXED):
        assert outputs["y"][:n, row].all() and not outputs["y"][n:, row].any()


class OneStateCell(Cell):
    """Keras's OneStateRNNCell: h' = x W + h U."""

    def __init__(self, size):
        self.input_size, self.output_size = 3, size

    def params(self):
        return {"W": Param((3, self.output_size)), "U": Param((self.output_size, self.output_size))}

    def states(self):
        return {"h": self.output_size}

    def step(self, p, x, s):
        h = x @ p.W + s.h @ p.U
        return h, State(h=h)


@pytest.mark.parametrize(
    "steps", [{"lengths": [3, 2]}, {"mask": np.array([[1, 1, 1, 0], [1, 1, 0, 0]], bool).T.copy()}]
)
def test_masked_steps_leave_the_state_alone(steps):
    """Keras's literal numbers for masks [1 1 1 0] and [1 1 0 0]; dynamic and unrolled loops differed once."""
    x = np.arange(24, dtype=float).reshape(2, 4, 3).swapaxes(0, 1).copy()
    weights = Weights({"W": np.ones((3, 2)), "U": np.ones((2, 2))})
    result = Scan(OneStateCell(2), dtype="float64").forward(weights, x, **steps)
    np.testing.assert_array_equal(result.final["h"], [[57, 57], [126, 126]])
    np.testing.assert_array_equal(result.y[..., 0].T, [[3, 18, 57, 0], [39, 126, 0, 0]])


def test_no_steps_give_outputs_without_rows_and_the_states_given():
    """Theano's scan failed at n_steps = 0 before it learned to return no rows."""
    case = cases.draw(LSTMCell(D, H), "float64", steps=1)
    scan, weights = Scan(case.cell, dtype="float64"), Weights(case.params)
    result = scan.forward(weights, case.x[:0], case.initial, training=True)
    assert result.y.shape == (0, B, H)
    same_bits(result.final, case.initial)
    found = scan.backward(result.tape, case.d_y[:0], case.d_final)
    same_bits(found.initial, case.d_final)


def test_a_row_of_no_steps_carries_what_it_was_given():
    """ONNX Runtime returns zero there, PyTorch refuses; the interpreter says what is meant here."""
    case = cases.draw(GRUCell(D, H), "float64", (0, 6, 0, 2, 1))
    outputs, found, _ = cases.compiled(case)
    np.testing.assert_array_equal(outputs["final h"][[0, 2]], case.initial["h"][[0, 2]])
    np.testing.assert_array_equal(found["d_initial h"][[0, 2]], case.d_final["h"][[0, 2]])


@pytest.mark.parametrize("variational", [False, True])
def test_dropout_masks_are_held_over_time_only_where_asked(variational):
    """Keras holds a recurrent mask over time, others draw a new one at every step; a run is right for the mask it
    drew."""
    cell = DropoutCell(GRUCell(D, H), 0.5, variational)
    case = cases.draw(cell, "float64")
    outputs, found, masks = cases.compiled(case)
    (mask,) = masks.values()
    assert mask.shape == ((B, D) if variational else (T, B, D))
    assert set(np.unique(mask)) == {0.0, 2.0}
    expected, slopes = cases.interpreted(case, masks)
    all_close(outputs, expected)
    all_close(found, slopes)
    plain = interpreter.forward(GRUCell(D, H), case.params, case.x, case.initial)
    all_close(cases.inferred(case), cases.named(plain))
