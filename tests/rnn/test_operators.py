"""What LSTM, GRU and RNN add to scans: names, layouts, dropout between layers, the door."""

from functools import partial

import numpy as np
import pytest

from nmt.errors import NMTWarning, ShapeError
from nmt.rnn import GRU, LSTM, RNN, Scan
from tests.oracle import compare
from tests.processes import python
from tests.refusals import refused
from tests.waiting import at_once

D, H = 5, 7


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(("make", "gates"), [(LSTM, 4), (GRU, 3), (RNN, 1)])
def test_parameters_have_their_names_and_shapes(make, gates):
    G, params = gates * H, make(D, H, 2, bidirectional=True).params
    for n, width in enumerate((D, 2 * H)):
        for suffix in (f"l{n}", f"l{n}_reverse"):
            shapes = {"W_x": (width, G), "W_h": (H, G), "b_x": (G,), "b_h": (G,)}
            assert {name: params[f"{name}_{suffix}"].shape for name in shapes} == shapes
    assert len(params) == 16 and all(a.dtype == np.float32 for a in params.values())
    assert len(make(D, H, bias=False).params) == 2


def test_fresh_parameters_are_drawn_and_the_forget_gate_is_open():
    layer = LSTM(D, H)
    biases = layer.params["b_x_l0"] + layer.params["b_h_l0"]
    np.testing.assert_array_equal(biases, np.repeat([0, 1, 0, 0], H))
    before = layer.params["W_x_l0"].copy()
    assert np.std(before) > 0
    layer.initialize(1)
    assert not np.array_equal(layer.params["W_x_l0"], before)


def test_batch_first_is_a_transpose():
    x, d_y, lengths = draw(4, 3, D), draw(4, 3, 2 * H, seed=1), [2, 4, 1]
    options = {"bidirectional": True, "dtype": np.float64}
    layer, other = GRU(D, H, **options), GRU(D, H, batch_first=True, **options)
    y, hy = layer.forward(x, lengths=lengths)
    found = layer.backward(d_y)
    y_first, hy_first = other.forward(x.swapaxes(0, 1).copy(), lengths=lengths)
    found_first = other.backward(d_y.swapaxes(0, 1).copy())
    np.testing.assert_array_equal(y_first.swapaxes(0, 1), y)
    np.testing.assert_array_equal(hy_first, hy)
    np.testing.assert_array_equal(found_first.d_x.swapaxes(0, 1), found.d_x)
    np.testing.assert_array_equal(found_first.params["W_h_l0"], found.params["W_h_l0"])
    assert found.d_cx is None


@pytest.mark.parametrize("make", [LSTM, GRU, lambda *a, **k: GRU(*a, reset_after=False, **k)])
def test_parameters_may_be_written_between_calls(make):
    layer, x = make(D, H, dtype=np.float64), draw(3, 2, D)
    before = layer(x)[0].copy()
    kept = {name: a.copy() for name, a in layer.params.items()}
    for name in layer.params:
        layer.params[name] *= 0.5
        changed = layer(x)[0]
        assert not np.array_equal(changed, before) or not kept[name].any()
        layer.params[name][...] = kept[name]
    np.testing.assert_array_equal(layer(x)[0], before)
    layer.params["W_h_l0"] = np.zeros_like(kept["W_h_l0"])
    assert not np.array_equal(layer(x)[0], before)


@pytest.mark.parametrize("make", [LSTM, GRU, RNN])
def test_frozen_layers_cannot_be_written_and_are_frozen_again(make):
    x = np.random.default_rng(0).standard_normal((4, 2, 3))
    free, frozen = (make(3, 5, num_layers=2, dtype=np.float64) for _ in range(2))
    frozen.freeze()
    compare.assert_same_arrays(frozen(x), free(x))
    with pytest.raises(ValueError, match="read-only"):
        frozen.params["W_h_l0"][0, 0] = 1.0
    frozen.params["W_h_l0"] = 2 * free.params["W_h_l0"]
    frozen.freeze()
    free.params["W_h_l0"] *= 2
    compare.assert_same_arrays(frozen(x), free(x))


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"batch_first": True}, {"threads": 1}], ids=str)
@pytest.mark.parametrize("make", [LSTM, GRU, lambda *a, **k: GRU(*a, reset_after=False, **k), RNN])
def test_short_calls_of_frozen_layers_have_the_bits_of_others(make, options):
    """Calls of one size, of another and of the first again; results stay when the next call has come."""
    free, frozen = (make(D, H, num_layers=2, **options) for _ in range(2))
    frozen.freeze()
    frozen(np.zeros((1, 1, D), "f4"))  # lays the weights out
    kept = []
    for call, (T, B) in enumerate([(1, 1), (1, 5), (4, 3), (1, 5), (1, 1), (0, 2), (2, 0), (200, 1), (1, 5)]):
        shape = (B, T, D) if options.get("batch_first") else (T, B, D)
        x = draw(*shape, seed=call).astype("f4")
        states = [draw(len(free.params) // 4, B, H, seed=call + n).astype("f4") for n in range(len(free.states))]
        if call % 3 == 1:
            states[0] = None
        kept.append((free(x, *states), frozen(x, *states)))
    for expected, got in kept:
        compare.assert_same_arrays(got, expected)


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"dropout": 0.4}], ids=str)
@pytest.mark.parametrize("make", [LSTM, GRU, RNN])
def test_results_of_a_call_outlast_the_next(make, options):
    """Memory is used again; what the caller has is not among it, and numbers left there do no harm, nor do those of an
    inference between a pass and its way back."""

    def results(one, x, d_y, lengths, between=()):
        found = (*one(x, lengths=lengths), *one.forward(x, lengths=lengths))
        for other in between:
            one(other)
        gradients = one.backward(d_y)
        return (*found, gradients.d_x, gradients.d_hx, *gradients.params.values())

    layer, kept = make(D, H, 3, **options), []
    for call, lengths in enumerate([(4, 9, 2), (9, 9, 9), (9, 5, 1), (0, 3, 9)]):
        x, d_y = draw(9, 3, D, seed=call).astype("f4"), draw(9, 3, H * (1 + layer.bidirectional)).astype("f4")
        found = results(layer, x, d_y, lengths, [draw(30, 3, D).astype("f4")])
        kept.append((found, [a.copy() for a in found]))
        alone = make(D, H, 3, **options)
        alone._passes = call
        compare.assert_same_arrays(found, results(alone, x, d_y, lengths))
        layer.forward(np.full((12, 4, D), np.nan, "f4"))
        layer(np.full((12, 4, D), np.nan, "f4"))
        layer._passes = call + 1
    for found, copies in kept:
        compare.assert_same_arrays(found, copies)


def test_frozen_layers_take_calls_from_several_threads(monkeypatch):
    layer = GRU(D, H, threads=2)
    layer.freeze()
    inputs = [draw(1, 3, D, seed=n).astype("f4") for n in range(4)]
    expected = [layer(x)[0] for x in inputs]
    wrong = []
    monkeypatch.delattr(Scan, "forward")  # what is found out once for a size is not found out again

    def call(n):
        for _ in range(50):
            if not np.array_equal(layer(inputs[n])[0], expected[n]):
                wrong.append(n)

    at_once(*[partial(call, n) for n in range(4)])
    assert not wrong


@pytest.mark.parametrize("make", [LSTM, GRU])
def test_passes_in_reserves_of_their_own_may_run_at_once(make):
    layer, wrong = make(D, H, 2, bidirectional=True), []
    inputs = [draw(T, 4, D, seed=T).astype("f4") for T in (3, 9, 20, 30)]

    def gradient(x, reserve):
        y, *_ = layer.forward(x, reserve=reserve)
        return layer.backward(y, reserve=reserve).d_x

    expected = [gradient(x, None) for x in inputs]

    def call(n, reserve):
        wrong.extend(n for _ in range(60) if not np.array_equal(gradient(inputs[n], reserve), expected[n]))

    at_once(*[partial(call, n, layer.reserve()) for n in range(4)])
    assert not wrong


def test_frozen_layers_say_what_is_wrong_with_arrays():
    layer = LSTM(D, H)
    layer.freeze()
    x = np.zeros((1, 2, D), "f4")
    for _ in range(2):
        layer(x)
    for bad in (x[0], x.astype("f8"), np.zeros((1, 2, D + 1), "f4")):
        refused(ShapeError, "x must be float32", layer, bad)
    refused(ShapeError, r"hx must be float32 \[1, 2, 7\], got float32 \[1, 3, 7\]", layer, x, np.zeros((1, 3, H), "f4"))
    refused(ShapeError, "cx must be float32", layer, x, None, np.zeros((1, 2, H)))


def test_dropout_lies_between_layers_in_training_only():
    with pytest.warns(NMTWarning, match="^RNN: dropout must be with two layers or more") as caught:
        RNN(D, H, dropout=0.5)
    assert caught[0].filename == __file__
    options = {"nonlinearity": "tanh", "dtype": np.float64}
    layer, plain = RNN(D, H, 2, dropout=0.5, **options), RNN(D, H, 2, **options)
    x, d_y = draw(6, 4, D), draw(6, 4, H, seed=1)
    np.testing.assert_array_equal(layer(x)[0], plain(x)[0])
    first, second = layer.forward(x)[0], layer.forward(x)[0]
    assert not np.array_equal(first, second)  # every pass draws anew
    again = RNN(D, H, 2, dropout=0.5, threads=1, **options)
    np.testing.assert_array_equal(again.forward(x)[0], first)
    # The last layer's output is whole: tanh is never exactly 0.
    assert np.all(first != 0)
    found = again.backward(d_y)

    def loss(direction, step):
        moved = RNN(D, H, 2, dropout=0.5, **options)  # draws the same mask in its first pass
        moved.params["W_x_l0"] += step * direction
        return np.sum(moved.forward(x)[0] * d_y)

    direction = draw(D, H, seed=2)
    slope = (loss(direction, 1e-6) - loss(direction, -1e-6)) / 2e-6
    compare.assert_close(np.sum(found.params["W_x_l0"] * direction), slope, 1e-7, "slope")


@pytest.mark.parametrize("T", [0, 3])
@pytest.mark.parametrize("B", [0, 2])
def test_nothing_at_all(T, B):
    layer = LSTM(D, H, 2, bidirectional=True, dtype=np.float64)
    hx = draw(4, B, H)
    y, hy, cy = layer.forward(draw(T, B, D), hx)
    assert y.shape == (T, B, 2 * H) and hy.shape == cy.shape == (4, B, H)
    found = layer.backward(np.ones_like(y), np.ones_like(hy))
    assert found.d_x.shape == (T, B, D)
    if T == 0:
        np.testing.assert_array_equal(hy, hx)
        np.testing.assert_array_equal(found.d_hx, 1.0)
    if T * B == 0:
        assert not any(g.any() for g in found.params.values())


def test_the_interpreter_takes_no_compiler():
    """Neither do cells that are only looked at."""
    code = (
        "import sys, numpy as np\nfrom nmt.rnn import LSTMCell, Cell, initial_params, interpreter, tanh\n"
        "cell = LSTMCell(2, 3)\nrun = interpreter.forward(cell, initial_params(cell, 0, float), np.ones((4, 1, 2)))\n"
        "interpreter.backward(run, run.y)\nprint('numba' in sys.modules, 'llvmlite' in sys.modules, run.y.shape)"
    )
    assert python(code).stdout == "False False (4, 1, 3)\n"


def test_every_public_name_is_there():
    import nmt.rnn

    for name in nmt.rnn.__all__:
        assert getattr(nmt.rnn, name).__name__ == name
    with pytest.raises(AttributeError, match="LSTMM"):
        _ = nmt.rnn.LSTMM


def test_the_toy_of_cudnn_converges():
    """Batch 1, T 3, hidden 20, 2 layers, vocabulary 255 (NVIDIA's first sample of recurrent networks); ten segments of
    a text, plain gradient descent."""
    rng = np.random.default_rng(3)
    layer, texts = LSTM(20, 20, num_layers=2), rng.integers(0, 255, (10, 4))
    table, output, rate = rng.normal(0, 0.5, (255, 20)), rng.normal(0, 0.1, (20, 255)), 0.3
    losses = []
    for _ in range(200):
        losses.append(0.0)
        for text in texts:
            y, *_ = layer.forward(table[text[:-1], None].astype(np.float32))
            scores = np.exp(y[:, 0] @ output)
            p = scores / scores.sum(1, keepdims=True)
            losses[-1] -= np.log(p[range(3), text[1:]]).mean() / len(texts)
            p[range(3), text[1:]] -= 1
            found = layer.backward((p @ output.T)[:, None].astype(np.float32))
            output -= rate * y[:, 0].T @ p
            np.subtract.at(table, text[:-1], rate * found.d_x[:, 0])
            for name, value in layer.params.items():
                value -= rate * found.params[name]
    assert losses[0] > np.log(255) / 2 and losses[-1] < 0.05, losses[::30]
