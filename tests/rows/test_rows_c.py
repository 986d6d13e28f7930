"""Rows C of docs/engine-rows.md: layers with the interface (x, hx, cx) -> (y, hy, cy)."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from nmt.errors import NMTError
from nmt.rnn import GRU, LSTM, RNN, LinearCell, LSTMVariantCell, PeepholeLSTMCell, Scan, StackCell, Weights
from tests.oracle import gradients, layers
from tests.oracle import more_cells as oracle
from tests.rnn import operator_calls
from tests.rnn import scan_cases as cases
from tests.rows.support import MIXED, B, D, H, T, all_close, close, draw, hold_to_quotients
from tests.rows.test_rows_m import layer_of, shapes_of_the_benchmark

BOTH = pytest.mark.parametrize("bidirectional", [False, True])


def shapes(layer, T=T, B=B, states=None):
    """Shapes of one pass: y, hy, cy and the gradients of x, hx, cx."""
    x = draw(T, B, D)
    results = operator_calls.forward(layer, x, *(states or ()))
    found = operator_calls.backward(layer, draw(*results["y"].shape))
    return results, {"d_x": found.d_x, "d_hx": found.d_hx, "d_cx": found.d_cx}


@BOTH
def test_C01_sequences_are_time_batch_features(bidirectional):
    layer = LSTM(D, H, bidirectional=bidirectional, dtype=np.float64)
    results, slopes = shapes(layer)
    assert results["y"].shape == (T, B, H * (1 + bidirectional))
    assert slopes["d_x"].shape == (T, B, D)


@BOTH
@pytest.mark.parametrize("num_layers", [1, 3])
def test_C02_states_are_layers_batch_units(num_layers, bidirectional):
    """Layer by layer, forward before reverse."""
    layer, params = layer_of("lstm", num_layers, bidirectional=bidirectional)
    shape = (num_layers * (1 + bidirectional), B, H)
    hx, cx, x = draw(*shape), draw(*shape, seed=1), draw(T, B, D)
    results, slopes = shapes(layer, states=(hx, cx))
    assert {a.shape for a in (results["hy"], results["cy"], slopes["d_hx"], slopes["d_cx"])} == {shape}
    _, hy, cy = layers.run("lstm", params, x, hx, cx, num_layers=num_layers, bidirectional=bidirectional)
    all_close({k: results[k] for k in ("hy", "cy")}, {"hy": hy, "cy": cy})


def test_C04_a_forward_for_training_and_one_for_inference():
    """Both give y, hy, cy; only the first can be followed by a way back."""
    layer, _ = layer_of("lstm", 2)
    x, hx = draw(T, B, D), draw(2, B, H)
    trained, inferred = layer.forward(x, hx, hx), layer(x, hx, hx)
    for one, other in zip(trained, inferred, strict=True):
        close(one, other, tolerance=1e-14)
    assert layer.backward(trained[0]).d_x.shape == x.shape
    layer(x, hx, hx)
    with pytest.raises(NMTError, match="LSTM.backward: must follow a forward, got none"):
        layer.backward(trained[0])


def test_C08_nothing_given_is_zero():
    """States before, and gradients of y, hy and cy."""
    layer, _ = layer_of("lstm", 2)
    x, zero = draw(T, B, D), np.zeros((2, B, H))
    for absent, given in zip(layer(x), layer(x, zero, zero), strict=True):
        np.testing.assert_array_equal(absent, given)
    d_hy = draw(2, B, H)
    found = []
    for cotangents in ((None, d_hy, None), (np.zeros((T, B, H)), d_hy, zero)):
        layer.forward(x)
        found.append(layer.backward(*cotangents))
    np.testing.assert_array_equal(found[0].d_x, found[1].d_x)
    np.testing.assert_array_equal(found[0].d_cx, found[1].d_cx)
    assert found[0].d_x.any()


def test_C09_the_workflow_forward_backward_update_clear():
    """Sums of gradients over two passes, a step of descent, cleared, and so on: the loss falls."""
    layer, x, goal = GRU(D, H, dtype=np.float64), draw(T, B, D), 0.5 * np.tanh(draw(T, B, H, seed=1))
    d_w, losses = {name: np.zeros_like(p) for name, p in layer.params.items()}, []
    for _ in range(40):
        total = 0.0
        for half in (slice(0, 3), slice(3, None)):
            y, _ = layer.forward(np.ascontiguousarray(x[:, half]))
            error = y - goal[:, half]
            total += float(np.sum(error**2))
            for name, gradient in layer.backward(2 * error).params.items():
                d_w[name] += gradient
        losses.append(total)
        for name, p in layer.params.items():
            p -= 0.01 * d_w[name]
            d_w[name][...] = 0
    assert losses[-1] < 0.6 * losses[0]
    assert all(later < earlier for earlier, later in zip(losses, losses[1:], strict=False))


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])
def test_C10_layers_are_stacked_inside_one_call(kind):
    """What three calls give, each with the output of the one below."""
    stack, params = layer_of(kind, 3)
    x = draw(T, B, D)
    y, *final = stack(x)
    below = x
    for n in range(3):
        own = {name.replace(f"_l{n}", "_l0"): p for name, p in params.items() if name.endswith(f"_l{n}")}
        one = operator_calls.build(kind, below.shape[-1], H, own, np.float64)
        below, *last = one(below)
        for whole, part in zip(final, last, strict=True):
            np.testing.assert_array_equal(whole[n], part[0])
    np.testing.assert_array_equal(y, below)


def test_C11_first_weights_are_small_and_random_and_the_user_s_to_change():
    layer = LSTM(D, H)
    gates = (layer.params["b_x_l0"] + layer.params["b_h_l0"]).reshape(4, H)
    np.testing.assert_array_equal(gates, np.array([[0], [1], [0], [0]]) * np.ones(H))  # i, f, g, o
    limit = np.sqrt(6 / (D + H))
    assert 0 < np.abs(layer.params["W_x_l0"]).max() <= limit and np.std(layer.params["W_x_l0"]) > limit / 4
    x = draw(T, B, D).astype("f4")
    before = layer(x)[0]
    layer.params["b_x_l0"].reshape(4, H)[1] = 5
    assert not np.array_equal(layer(x)[0], before)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])
def test_C12_states_handed_on_join_batches_into_one_sequence(kind):
    """Two parts are one run to the last bit, and truncated gradients are those with the state held fixed."""
    layer, _ = layer_of(kind, 2)
    x, d_y = draw(2 * T, B, D), draw(T, B, H)
    whole = layer(x)
    y, *states = layer(x[:T])
    rest, *final = layer(x[T:], *[s.copy() for s in states])
    for one, other in zip((np.concatenate([y, rest]), *final), whole, strict=True):
        np.testing.assert_array_equal(one, other)
    held = [s.copy() for s in states]
    layer.forward(x[T:], *held)
    found = layer.backward(d_y)
    leaves = {"W_h_l0": layer.params["W_h_l0"], "hx": held[0]}
    slopes = {"W_h_l0": found.params["W_h_l0"], "hx": found.d_hx}

    def loss():
        return np.sum(layer(x[T:], *held)[0] * d_y)

    assert not gradients.check(loss, leaves, slopes, np.random.default_rng(0), rtol=1e-6, atol=1e-7)


def test_C13_without_states_nothing_reaches_beyond_the_batch():
    """The second part does not know the first."""
    layer, _ = layer_of("gru")
    x, other = draw(T, B, D), draw(T, B, D, seed=1)
    layer(x)
    first = layer(other)[0]
    layer(3 * x)
    np.testing.assert_array_equal(layer(other)[0], first)


@pytest.mark.parametrize("use", ["y", "hy", "both"])
def test_C14_outputs_of_all_steps_and_of_the_last(use):
    """One, the other or both may have a gradient."""
    layer, _ = layer_of("lstm")
    x, d_y, d_hy = draw(T, B, D), draw(T, B, H), draw(1, B, H)
    y, hy, _ = layer.forward(x)
    np.testing.assert_array_equal(y[-1], hy[0])
    given = {"y": (d_y, None), "hy": (None, d_hy), "both": (d_y, d_hy)}[use]
    found = layer.backward(*given)

    def loss():
        y, hy, _ = layer(x)
        return sum(np.sum(a * d) for a, d in zip((y, hy), given, strict=True) if d is not None)

    leaves, slopes = {"x": x, **layer.params}, {"x": found.d_x, **found.params}
    assert not gradients.check(loss, leaves, slopes, np.random.default_rng(0), rtol=1e-6, atol=1e-7)


def test_C15_networks_of_different_structure_hand_over_their_states():
    """A deep two-way GRU encodes, an LSTM of another size decodes; a linear layer fits the one to the other."""
    encoder, _ = layer_of("gru", 2, bidirectional=True)
    decoder = LSTM(3, 4, dtype=np.float64)
    bridge = Scan(LinearCell(4 * H, 2 * 4, "tanh"), dtype="float64")
    weights = Weights(cases.draw(bridge.cell, "float64").params)
    x, target, d_y = draw(T, B, D), draw(T, B, 3), draw(T, B, 4)

    def forward():
        _, hy = encoder.forward(x, lengths=MIXED)
        last = np.ascontiguousarray(hy.transpose(1, 0, 2).reshape(1, B, 4 * H))
        states = bridge.forward(weights, last, training=True)
        hx, cx = (np.ascontiguousarray(states.y[..., part]) for part in (slice(0, 4), slice(4, 8)))
        y, _, _ = decoder.forward(target, hx, cx)
        return y, states.tape

    _, tape = forward()
    back = decoder.backward(d_y)
    d_states = np.concatenate([back.d_hx, back.d_cx], axis=-1)
    d_last = bridge.backward(tape, d_states).x
    found = encoder.backward(None, np.ascontiguousarray(d_last.reshape(B, 4, H).transpose(1, 0, 2)))
    leaves = {"x": x, **encoder.params}
    slopes = {"x": found.d_x, **found.params}
    complaints = gradients.check(
        lambda: np.sum(forward()[0] * d_y), leaves, slopes, np.random.default_rng(0), rtol=1e-6, atol=1e-7
    )
    assert not complaints


@pytest.mark.parametrize("frozen", [False, True])
def test_C16_generation_is_a_step_a_call_fed_with_the_last_output(frozen):
    """Each call's output is the next one's input: what one run over those inputs gives, to the last bit."""
    layer = operator_calls.build("lstm", H, H, layers.random_params(np.random.default_rng(0), "lstm", H, H), np.float64)
    if frozen:
        layer.freeze()
    x, states, inputs, outputs = draw(1, 1, H), (None, None), [], []
    for _ in range(5):
        inputs.append(x)
        x, *states = (a.copy() for a in layer(x, *states))
        outputs.append(x)
    whole, *final = layer(np.concatenate(inputs))
    np.testing.assert_array_equal(np.concatenate(outputs), whole)
    for one, other in zip(states, final, strict=True):
        np.testing.assert_array_equal(one, other)


def test_C17_only_the_top_layer_is_seen():
    for num_layers in (1, 2, 4):
        layer, _ = layer_of("gru", num_layers)
        y, hy = layer(draw(T, B, D))
        assert y.shape == (T, B, H) and hy.shape == (num_layers, B, H)
        np.testing.assert_array_equal(y[-1], hy[-1])


@BOTH
def test_C18_the_size_of_the_output(bidirectional):
    layer, _ = layer_of("rnn_tanh", 2, bidirectional=bidirectional)
    assert layer(draw(T, B, D))[0].size == T * H * B * (2 if bidirectional else 1)


def test_C19_dropout_lies_between_layers_only():
    """One layer has none; of two, the output is whole and the lower one's is not."""
    x, options = draw(T, B, D), {"dropout": 0.6, "dtype": np.float64}
    one, plain = RNN(D, H, **options), RNN(D, H, dtype=np.float64)
    close(one.forward(x)[0], plain(x)[0], tolerance=1e-14)
    two = RNN(D, 50, 2, **options)
    y, _ = two.forward(x)
    assert np.all(y != 0) and not np.allclose(y, two(x)[0])
    alone = RNN(D, 50, 2, dtype=np.float64)
    np.testing.assert_array_equal(two(x)[0], alone(x)[0])  # none in inference


def test_C21_layers_of_any_sizes_share_one_loop():
    """All layers a step at a time, or each over all steps: the same numbers. A wavefront over layers gains nothing on
    the processor (benchmarks/schedules.py), so none is built in."""
    sizes = [D, 7, 4, 6]
    inner = [cases.LSTMCell(a, b) for a, b in zip(sizes, sizes[1:], strict=False)]
    case = cases.draw(StackCell(inner), "float64", MIXED)
    together, _, _ = cases.compiled(replace(case, initial={}))
    below = case.x
    for n, cell in enumerate(inner):
        own = {k.removeprefix(f"{n}."): v for k, v in case.params.items() if k.startswith(f"{n}.")}
        below = Scan(cell, dtype="float64").forward(Weights(own), below, lengths=MIXED, training=True).y
    close(together["y"], below, tolerance=1e-13)


def test_C22_peepholes_are_there():
    """As in Gers and Schmidhuber's cell: i and f see the memory before, o the memory after."""
    case = cases.draw(PeepholeLSTMCell(D, H), "float64", MIXED)
    assert {"w_i", "w_f", "w_o"} <= set(case.params)
    outputs, found, _ = cases.compiled(case)
    y, final = oracle.run(oracle.lstm_variant(), case.params, case.x, case.initial, case.lengths)
    all_close(outputs, {"y": y, **{f"final {k}": v for k, v in final.items()}})
    hold_to_quotients(case, found)
    assert isinstance(case.cell, LSTMVariantCell)


def test_C23_the_toy_converges():
    """Batch 1, 3 steps, 20 units, 2 layers, words of a vocabulary of 255 one by one: the next word is learned."""
    words, vocabulary = np.array([17, 200, 3, 91]), 255
    x = np.zeros((3, 1, vocabulary))
    x[np.arange(3), 0, words[:3]] = 1
    layer, out = LSTM(vocabulary, 20, 2, dtype=np.float64), 0.1 * draw(20, vocabulary)
    losses = []
    for _ in range(150):
        y, _, _ = layer.forward(x)
        logits = y[:, 0] @ out
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        losses.append(-np.mean(np.log(p[np.arange(3), words[1:]])))
        d_logits = p.copy()
        d_logits[np.arange(3), words[1:]] -= 1
        found = layer.backward((d_logits @ out.T)[:, None])
        out -= 0.5 * y[:, 0].T @ d_logits
        for name, gradient in found.params.items():
            layer.params[name] -= 0.5 * gradient
    assert abs(losses[0] - np.log(vocabulary)) < 0.2 and losses[-1] < 0.05
    np.testing.assert_array_equal(np.argmax(logits, axis=1), words[1:])


def test_C24_the_core_needs_no_framework():
    """NumPy and llvmlite; of our own packages the engine, with what lies below it: errors, files, interruptions, the
    terminal, and the notice that code is compiled. Numba only compiles: once a process has done so, the next one does
    without it."""
    code = (
        "import sys, numpy as np\nfrom nmt.rnn import LSTM\nlayer = LSTM(3, 4, 2, bidirectional=True)\n"
        "y, hy, cy = layer.forward(np.ones((5, 2, 3), 'f4'))\nlayer.backward(y)\n"
        "print(*{name.split('.')[0] for name in sys.modules}, *[m for m in sys.modules if m.startswith('nmt.')])"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        loaded = set(done.stdout.split())
        assert {"numpy", "llvmlite"} <= loaded
        assert not {"torch", "tensorflow", "jax", "pydantic", "click", "sentencepiece"} & loaded
        others = {m for m in loaded if m.startswith("nmt.") and not m.startswith("nmt.rnn")}
        system = {f"nmt.system.{name}" for name in ("files", "interruption", "compile_notice", "terminal")}
        assert others <= {"nmt.errors", "nmt.overriding", "nmt.system", *system}
    assert "numba" not in loaded


def test_C25_the_benchmark_has_the_figure_s_shape():
    """Three layers in one call against three calls: 8 steps of 128 rows, 1,024 wide."""
    shape = shapes_of_the_benchmark()["cudnn"]
    assert (shape.T, shape.N, shape.I, shape.H, shape.layers) == (8, 128, 1024, 1024, 3)
