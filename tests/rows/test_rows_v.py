"""Rows V of docs/engine-rows.md: what loops over time, layers and masks promised elsewhere."""

import numpy as np
import pytest

from nmt.errors import ShapeError
from nmt.model.parts.cells import encoder_cells
from nmt.model.translation import TranslationModel
from nmt.rnn import LSTM, AttentionCell, GRUCell, LSTMCell, Scan, StackCell, Weights, interpreter
from nmt.rnn.cells.by_name import CELLS_BY_NAME
from nmt.rnn.layers.sequences import pack, unpack
from tests import small_models
from tests.oracle import layers
from tests.rnn import operator_calls
from tests.rnn import scan_cases as cases
from tests.rows.support import MIXED, B, D, H, T, all_close, close, draw, plan_of, same_bits
from tests.rows.test_rows_m import count_plans, layer_of


def scan_of(case):
    return Scan(case.cell, dtype="float64", threads=1), Weights(case.params)


def test_V01_the_number_of_steps_is_a_value_of_each_call(monkeypatch):
    case = cases.draw(GRUCell(D, H), "float64", steps=9)
    scan, weights = scan_of(case)
    whole = scan.forward(weights, case.x)
    made = count_plans(monkeypatch)
    for steps in (1, 4, 7, 0):
        np.testing.assert_array_equal(scan.forward(weights, case.x[:steps]).y, whole.y[:steps])
    assert made == []


def test_V03_the_gradient_of_a_loop_is_a_loop():
    """The way back is made by the same passes from the same kind of step: products before, in and after its loop."""
    plan = plan_of(LSTMCell(D, H))
    assert type(plan.backward) is type(plan.forward)
    assert plan.backward.loop.steps and plan.backward.after.steps


def test_V04_nothing_of_a_step_runs_in_python(monkeypatch):
    """The cell's step is called to be traced and never again."""

    class Counted(GRUCell):
        calls = 0

        def step(self, p, x, s):
            Counted.calls += 1
            return super().step(p, x, s)

    case = cases.draw(Counted(D, H), "float64", steps=50)
    scan, weights = scan_of(case)
    for steps in (2, 50, 7):
        result = scan.forward(weights, case.x[:steps], training=True)
        scan.backward(result.tape, case.d_y[:steps])
    assert Counted.calls == 1


@pytest.mark.parametrize("lengths", [None, MIXED])
def test_V05_layer_after_layer_or_all_layers_at_every_step(lengths):
    case = cases.draw(StackCell([GRUCell(D, H), GRUCell(H, H)]), "float64", lengths)
    outputs, _, _ = cases.compiled(case)
    params = {}
    for n in range(2):
        names = {"W_x": "W_x", "W_h": "W_h", "b_x": "b", "b_h": "b_h"}
        params |= {f"{ours}_l{n}": case.params[f"{n}.{own}"] for ours, own in names.items()}
    layer = operator_calls.build("gru", D, H, params, np.float64, num_layers=2)
    found = operator_calls.forward(layer, case.x, np.stack([case.initial["0.h"], case.initial["1.h"]]), None, lengths)
    close(found["y"], outputs["y"], tolerance=1e-13)
    close(found["hy"][1], outputs["final 1.h"], tolerance=1e-13)


def test_V06_batch_major_in_and_out():
    params = layers.random_params(np.random.default_rng(3), "lstm", D, H)
    x = draw(B, T, D)
    layer = operator_calls.build("lstm", D, H, params, np.float64, batch_first=True)
    y, hy, cy = layer(x, lengths=MIXED)
    expected = layers.run("lstm", params, x.swapaxes(0, 1), lengths=MIXED)
    all_close({"y": y.swapaxes(0, 1), "hy": hy, "cy": cy}, dict(zip(("y", "hy", "cy"), expected, strict=True)))
    assert y.shape == (B, T, H)


def test_V07_batch_and_steps_are_those_of_the_data():
    layer, params = layer_of("gru")
    for steps, rows in ((1, 1), (9, 2), (3, 17), (0, 4), (2, 0)):
        x = draw(steps, rows, D)
        y, _ = layer(x)
        close(y, layers.run("gru", params, x)[0])


@pytest.mark.parametrize("batch_first", [False, True])
def test_V10_the_whole_sequence_or_its_last_output(batch_first):
    layer = LSTM(D, H, batch_first=batch_first, dtype=np.float64)
    x = draw(B, T, D) if batch_first else draw(T, B, D)
    y, last, _ = layer(x, lengths=MIXED)
    sequence = y.swapaxes(0, 1) if batch_first else y
    np.testing.assert_array_equal(last[0], sequence[np.array(MIXED) - 1, np.arange(B)])


def test_V12_lengths_need_not_be_known_before_and_masking_works():
    """Each row alone, as long as it is, gives the bits that it has among others; what lies behind is never read."""
    layer, _ = layer_of("lstm")
    x = draw(T, B, D)
    for row, n in enumerate(MIXED):
        x[n:, row] = np.nan
    y, hy, cy = layer(x, lengths=MIXED)
    for row, n in enumerate(MIXED):
        alone = layer(np.ascontiguousarray(x[:n, row : row + 1]))
        found = (y[:n, row : row + 1], hy[:, row : row + 1], cy[:, row : row + 1])
        for one, other in zip(found, alone, strict=True):
            np.testing.assert_array_equal(one, other)
        assert not y[n:, row].any()


def test_V14_a_step_a_call_with_its_own_way_back():
    """Tapes of single steps, used last first, give what one run over the sequence gives."""
    case = cases.draw(LSTMCell(D, H), "float64")
    whole, found, _ = cases.compiled(case)
    scan, weights = scan_of(case)
    states, tapes, outputs = case.initial, [], []
    for x in case.x:
        result = scan.forward(weights, x[None], states, training=True)
        states, tapes, outputs = result.final, [*tapes, result.tape], [*outputs, result.y]
    np.testing.assert_array_equal(np.concatenate(outputs), whole["y"])
    d_states, d_x, shares = case.d_final, [], {name: np.zeros_like(p) for name, p in case.params.items()}
    for tape, d_y in zip(reversed(tapes), case.d_y[::-1], strict=True):
        step = scan.backward(tape, d_y[None], d_states, shares)
        d_states, d_x = step.initial, [step.x, *d_x]
    close(np.concatenate(d_x), found["d_x"])
    all_close({f"d_{k}": a for k, a in shares.items()}, {f"d_{k}": found[f"d_{k}"] for k in shares})
    all_close({f"d_initial {k}": a for k, a in d_states.items()}, {k: found[k] for k in found if "initial" in k})


def test_V15_sequences_directions_and_attention_are_one_call():
    """A sequence, both directions of it, and a decoder that attends to them."""
    x, lengths = draw(T, B, D), np.array(MIXED)
    encoder, params = layer_of("gru", bidirectional=True)
    memory, _ = encoder(x, lengths=lengths)
    close(memory, layers.run("gru", params, x, lengths=MIXED, bidirectional=True)[0])
    cell = AttentionCell(LSTMCell(3 + 4, H), 2 * H, 4)
    case = cases.draw(cell, "float64")
    scan, weights = scan_of(case)
    options = {"captured": {"memory": memory}, "source_lengths": lengths}
    y = scan.forward(weights, case.x, **options).y
    assert y.shape == (T, B, 4)
    close(y, interpreter.forward(cell, case.params, case.x, **options).y)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])
def test_V16_rows_of_different_lengths_in_any_order(kind):
    """Also empty ones: their states stay as they were given."""
    layer, params = layer_of(kind, bidirectional=True)
    x, hx, cx, lengths = draw(T, B, D), draw(2, B, H), draw(2, B, H, seed=1), [0, 4, 0, 6, 1]
    found = operator_calls.infer(layer, x, hx, cx, lengths)
    expected = layers.run(kind, params, x, hx, cx, lengths, bidirectional=True)
    all_close(found, dict(zip(found, expected, strict=False)))
    np.testing.assert_array_equal(found["hy"][:, 0], hx[:, 0])


@pytest.mark.parametrize("lengths", [MIXED, (0, 3, 0, 1, 6), (0,) * B, (T,) * B])
@pytest.mark.parametrize("trailing", [(), (D,), (2, 3)])
def test_V17_sequences_one_after_another_in_one_array(lengths, trailing):
    """There and back; each is the gradient of the other; rows without steps are allowed."""
    padded = draw(T, B, *trailing)
    values = pack(padded, lengths)
    rows = [padded[:n, row] for row, n in enumerate(lengths)]
    np.testing.assert_array_equal(values, np.concatenate(rows))
    back = unpack(values, lengths, T)
    for row, n in enumerate(lengths):
        np.testing.assert_array_equal(back[:n, row], padded[:n, row])
        assert not back[n:, row].any()
    d_values = draw(*values.shape)
    assert np.sum(values * d_values) == pytest.approx(np.sum(padded * unpack(d_values, lengths, T)))
    assert unpack(values, lengths).shape == (max(lengths), B, *trailing)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: pack(draw(T, B, D), [1, 2]), "pack: lengths must be 5 integers from 0 to 6, got"),
        (lambda: pack(draw(T), [1]), r"pack: padded must be \[T, B, ...\], got \[6\]"),
        (lambda: unpack(draw(4, D), [1, 2]), "unpack: values must be as many as all lengths together, 3, got 4"),
        (lambda: unpack(draw(3, D), [1, 2], 1), "unpack: lengths must be 2 integers from 0 to 1, got"),
        (lambda: unpack(draw(3, D), [1.5, 1.5], 3), "unpack: lengths must be 2 integers from 0 to 3, got"),
    ],
)
def test_V17_what_does_not_fit_is_one_line(act, message):
    with pytest.raises(ShapeError, match=message):
        act()


def test_V17_a_scan_over_packed_sequences():
    """A product of all steps is one product of the packed matrix; a scan takes them padded and gives them back."""
    layer, params = layer_of("gru")
    values = draw(sum(MIXED), D)
    y, _ = layer(unpack(values, MIXED), lengths=MIXED)
    rows = np.split(values, np.cumsum(MIXED)[:-1])
    expected = [layers.run("gru", params, row[:, None])[0][:, 0] for row in rows]
    close(pack(y, MIXED), np.concatenate(expected))


def test_V18_a_node_works_on_a_slice_of_time_and_on_the_whole():
    case = cases.draw(StackCell([LSTMCell(D, H), GRUCell(H, 4)]), "float64")
    scan, weights = scan_of(case)
    whole, states = scan.forward(weights, case.x), {}
    for t in range(T):
        one = scan.forward(weights, case.x[t : t + 1], states)
        np.testing.assert_array_equal(one.y[0], whole.y[t])
        states = one.final
    same_bits(states, whole.final)


def test_V20_a_recurrent_layer_is_one_line_of_the_settings():
    for kind, cell in (("lstm", LSTMCell), ("gru", GRUCell)):
        settings = small_models.model_settings(encoder={"rnn_type": kind})
        assert all(isinstance(one, cell) for one in encoder_cells(settings))


@pytest.mark.parametrize("kind", sorted(CELLS_BY_NAME))
def test_V21_recurrent_networks_are_first_class(kind):
    """Every cell there is encodes and decodes, chosen by a word of the settings."""
    settings = small_models.model_settings(encoder={"rnn_type": kind}, decoder={"rnn_type": kind})
    model = TranslationModel(settings, 9, 9, True)
    plan = model.decoder.plan(training=True)
    assert plan.backward is not None and model.num_params > 0
    assert all(scan.plan(training=True).backward is not None for scan in model.encoder.scans)
