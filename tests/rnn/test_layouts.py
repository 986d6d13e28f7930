"""Parameters of other systems: their equations in their own gate order and layout give what our operators give."""

import numpy as np
import pytest

from nmt.errors import ShapeError
from nmt.rnn import GRU, LSTM, RNN, layouts
from tests.oracle import compare, vectors
from tests.oracle.layers import sigmoid
from tests.refusals import refused

D, H, T, B = 3, 4, 5, 2


def draw(*shape, seed=0):
    return 0.6 * np.random.default_rng(seed).standard_normal(shape)


def slices(order):
    """Columns of each gate of one matrix, in a system's order."""
    return {gate: slice(n * H, (n + 1) * H) for n, gate in enumerate(order)}


def gru_rows(x, kernel, recurrent, bias, recurrent_bias, order, *, reset_after=True):
    """One layer for one row, x [T, D], as Keras writes it; with the reset before the product all of bias and recurrent
    bias acts outside it."""
    at, h, ys = slices(order), np.zeros(H), []
    for x_t in x:
        a = x_t @ kernel + bias
        u = h @ recurrent + recurrent_bias
        r, z = (sigmoid(a[at[gate]] + u[at[gate]]) for gate in "rz")
        if reset_after:
            inner = r * u[at["n"]]
        else:
            inner = (r * h) @ recurrent[:, at["n"]] + recurrent_bias[at["n"]]
        h = z * h + (1 - z) * np.tanh(a[at["n"]] + inner)
        ys.append(h)
    return np.array(ys)


def assert_runs_as(layer, expected_of_row):
    x = draw(T, B, D, seed=9)
    y = layer(x)[0]
    for row in range(B):
        compare.assert_close(y[:, row], expected_of_row(x[:, row]), 1e-12, f"row {row}")


@pytest.mark.parametrize("reset_after", [True, False])
def test_gates_of_keras_are_put_in_order(reset_after):
    kernel, recurrent, bias = draw(D, 3 * H), draw(H, 3 * H, seed=1), draw(2, 3 * H, seed=2)
    layer = GRU(D, H, reset_after=reset_after, dtype=np.float64)
    other = bias[1] if reset_after else np.zeros(3 * H)
    given = zip(("W_x_l0", "W_h_l0", "b_x_l0", "b_h_l0"), (kernel, recurrent, bias[0], other), strict=True)
    layer.load({name: layouts.reorder_gates(array, "zrn", "rzn") for name, array in given})
    assert_runs_as(layer, lambda x: gru_rows(x, kernel, recurrent, bias[0], other, "zrn", reset_after=reset_after))
    refused(ShapeError, "3 gates wide, got 4", layouts.reorder_gates, np.ones((2, 4)), "zrn", "rzn")
    promise = "layouts.from_keras is not there any more; layouts.reorder_gates"
    refused(AttributeError, promise, lambda: layouts.from_keras)


def test_the_flat_vector_of_cudnn_and_mxnet():
    """Written piece by piece as those systems do: matrices [G*H, in] of both directions, then biases."""
    shapes = (3 * H, D), (3 * H, H), (3 * H,), (3 * H,)
    pieces = {end: [draw(*s, seed=4 * n + m) for m, s in enumerate(shapes)] for n, end in enumerate(("", "_reverse"))}
    matrices = [m for end in pieces for m in pieces[end][:2]]
    biases = [b for end in pieces for b in pieces[end][2:]]
    vector = np.concatenate([a.ravel() for a in (*matrices, *biases)])
    layer = GRU(D, H, bidirectional=True, dtype=np.float64)
    layer.load(layouts.from_flat(vector, layer.params))
    np.testing.assert_array_equal(layouts.to_flat(layer.params), vector)

    def both(x):
        sides = []
        for end, turn in (("", slice(None)), ("_reverse", slice(None, None, -1))):
            kernel, recurrent, b_x, b_h = pieces[end]
            sides.append(gru_rows(x[turn], kernel.T, recurrent.T, b_x, b_h, "rzn")[turn])
        return np.concatenate(sides, axis=-1)

    assert_runs_as(layer, both)


@pytest.mark.skipif(not vectors.PRESENT, reason=vectors.ABSENT)
def test_torch_and_onnx_files_are_read_as_the_oracle_reads_them():
    for name in vectors.torch_layer_names():
        file = vectors.arrays("torch", name)
        state = {key.removeprefix("w_"): value for key, value in file.items() if key.startswith("w_")}
        assert_same(layouts.from_torch(state), vectors.torch_layer(name).params)
        assert_same(layouts.to_torch(layouts.from_torch(state)), state)
    for name in vectors.onnx_layer_names():
        file, case = vectors.arrays("onnx", name), vectors.onnx_layer(name)
        arrays = {key: file[f"in_{key}"] for key in "WRBP" if f"in_{key}" in file}
        op = str(file["op"])
        found = layouts.from_onnx(op, **arrays, direction=case.direction)
        assert_same({k: v for k, v in found.items() if not k.startswith("w_")}, case.params)
        assert_same(layouts.to_onnx(op, found), arrays)


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, name)
        assert found[name].flags.c_contiguous


def fill(layer):
    layer.flat[...] = np.random.default_rng(4).standard_normal(layer.flat.shape)
    return {name: array.copy() for name, array in layer.params.items()}


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("operator", [LSTM, GRU, RNN])
def test_there_and_back(operator, bidirectional):
    layer = operator(D, H, 2, bidirectional=bidirectional, dtype=np.float64)
    ours, kind = fill(layer), operator.__name__
    assert_same(layouts.from_torch(layouts.to_torch(ours, "rnn."), "rnn."), ours)
    assert_same(layouts.from_mxnet(layouts.to_mxnet(ours)), ours)
    assert ("r1_h2h_weight" in layouts.to_mxnet(ours)) == bidirectional
    assert_same(layouts.from_flat(layouts.to_flat(ours), ours), ours)
    direction = "bidirectional" if bidirectional else "forward"
    found = {}
    for n in range(2):
        found |= layouts.from_onnx(kind, **layouts.to_onnx(kind, ours, layer=n), direction=direction, layer=n)
    assert_same(found, ours)


def test_what_only_some_systems_have():
    coupled = fill(LSTM(D, H, input_forget=True, peepholes=True, dtype=np.float64))
    node = layouts.to_onnx("LSTM", coupled)
    assert node["W"].shape == (1, 4 * H, D) and node["P"].shape == (1, 3 * H)
    np.testing.assert_array_equal(node["W"][0, 2 * H : 3 * H], 0)  # f, which nobody reads
    assert_same(layouts.from_onnx("LSTM", **node, input_forget=True), coupled)
    projected = fill(LSTM(D, H, proj_size=2, bidirectional=True, dtype=np.float64))
    assert layouts.to_torch(projected)["weight_hr_l0_reverse"].shape == (2, H)
    assert_same(layouts.from_mxnet(layouts.to_mxnet(projected)), projected)
    assert_same(layouts.from_flat(layouts.to_flat(projected), projected), projected)
    without = fill(GRU(D, H, bias=False, dtype=np.float64))
    assert_same(layouts.from_onnx("GRU", **layouts.to_onnx("GRU", without)), without)
    learnt = LSTM(D, H, learn_initial=True).params
    for act, words in (
        (lambda: layouts.to_onnx("LSTM", projected), "without a projection"),
        (lambda: layouts.to_torch(learnt), "got start_h_l0"),
        (lambda: layouts.to_flat(learnt), "parameters must be W_x"),
        (lambda: layouts.from_torch({"weight_l0": np.ones(2)}), "got weight_l0"),
        (lambda: layouts.from_flat(np.ones(3), projected), "the vector must be"),
        (lambda: layouts.from_torch([1]), "parameters must be a dict of arrays by name, got list"),
        (lambda: layouts.from_torch({"a.weight_ih_l0": np.ones((2, 2))}, "b."), "prefix must begin some .* got 'b.'"),
        (lambda: layouts.to_onnx("LSTM", coupled, layer=3), "layer must be among those of .* got 3"),
        (lambda: layouts.onnx_options("GRU", {"direction": "up"}), "direction must be one of"),
        (lambda: layouts.onnx_options("Gru", {}), "op must be one of LSTM, GRU, RNN, got Gru"),
        (lambda: layouts.from_onnx("RNN", *np.ones((2, 1, 4, 4)), direction="up"), "direction must be one of"),
    ):
        refused(ShapeError, words, act)


def test_attributes_of_a_node():
    given = {
        "direction": "bidirectional",
        "clip": 2.0,
        "activations": ["HardSigmoid", "LeakyRelu", "Affine"] * 2,
        "activation_alpha": [0.3, 0.2, 1.5] * 2,
        "activation_beta": [0.4, 0.1] * 2,
    }
    options = layouts.onnx_options("LSTM", given, ["B", "P"])
    functions = ("hard_sigmoid", 0.3, 0.4), ("leaky_relu", 0.2), ("affine", 1.5, 0.1)
    assert options["activations"] == functions and options["peepholes"] and options["bias"]
    assert options["bidirectional"] and options["clip"] == 2.0 and options["empty"] == "zero"
    LSTM(D, H, **options)
    assert layouts.onnx_options("GRU", {"linear_before_reset": 1})["reset_after"]
    assert layouts.onnx_options("RNN", {"activations": ["Relu"], "direction": "reverse"})["nonlinearity"] == "relu"
    other = {"activations": ["Relu", "Tanh"]}
    refused(ShapeError, "both directions must have the same", layouts.onnx_options, "RNN", other)
