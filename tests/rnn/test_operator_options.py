"""What the operators know beyond a plain stack: gradients by difference quotients, and against what is the same in
another way."""

import inspect
import re

import numpy as np
import pytest

from nmt.errors import NMTError
from nmt.rnn import GRU, LSTM, RNN, DropoutCell, LSTMCell
from nmt.rnn.arrays.pass_numbers import frozen
from nmt.rnn.layers.layer_stack import LayerOptions, LayerStack
from tests.oracle import compare, gradients, layers
from tests.refusals import refused
from tests.rnn import operator_calls

D, H, T, B = 3, 4, 5, 4
LENGTHS = [5, 0, 2, 4]
SOFT = (("hard_sigmoid", 0.3, 0.45), ("leaky_relu", 0.2), "softsign")

OPERATORS = {
    "lstm": (LSTM, {}),
    "peepholes_projection": (LSTM, {"num_layers": 2, "peepholes": True, "proj_size": 2, "bidirectional": True}),
    "coupled": (LSTM, {"input_forget": True, "peepholes": True, "activations": SOFT}),
    "clipped": (LSTM, {"clip": 0.4, "cell_clip": 0.3}),
    "gru_clipped": (GRU, {"clip": 0.5, "activations": (("elu", 0.7), ("scaled_tanh", 1.2, 0.6))}),
    "gru_before": (GRU, {"reset_after": False, "num_layers": 2, "reverse": True}),
    "rnn_elu": (RNN, {"nonlinearity": ("elu", 0.5), "clip": 0.8}),
    "sizes": (LSTM, {"hidden_size": (5, 2, 3), "bidirectional": True}),
    "gru_sizes": (GRU, {"hidden_size": (2, 5), "bias": False}),
    "learnt": (LSTM, {"learn_initial": True, "num_layers": 2, "bidirectional": True}),
    "gru_learnt": (GRU, {"learn_initial": True, "reset_after": False}),
    "carry": (LSTM, {"padding": "carry", "bidirectional": True}),
    "carry_zero": (GRU, {"padding": "carry", "empty": "zero", "num_layers": 2}),
    "repeat": (RNN, {"padding": "repeat", "bidirectional": True, "empty": "zero"}),
    "batch_first": (GRU, {"batch_first": True, "padding": "repeat"}),
}


def make(name, **more):
    operator, options = OPERATORS[name]
    options = {"hidden_size": H, "dtype": np.float64, **options, **more}
    layer = operator(D, **options)
    rng = np.random.default_rng(3)
    layer.load({k: 0.5 * rng.standard_normal(a.shape) for k, a in layer.params.items()})
    return layer


def draw(layer, *, steps=T, rows=B, seed=0, given=True):
    """x and states, by name; those of layers of several sizes are tuples."""
    rng = np.random.default_rng(seed)
    shape = (rows, steps, D) if layer.batch_first else (steps, rows, D)
    inputs = {"x": rng.standard_normal(shape).astype(layer.dtype)}
    for name, states in layer._states.items() if given else ():
        arrays = tuple(rng.standard_normal(s).astype(layer.dtype) for s in states.shapes(rows))
        inputs[f"{name}x"] = arrays if len(arrays) > 1 else arrays[0]
    return inputs


def flat(results):
    """Arrays, those of tuples too."""
    return [a for r in results for a in (r if isinstance(r, tuple) else (r,))]


def cotangents(results, seed=1):
    rng = np.random.default_rng(seed)

    def of(a):
        return rng.standard_normal(a.shape).astype(a.dtype)

    return [tuple(map(of, r)) if isinstance(r, tuple) else of(r) for r in results]


@pytest.mark.parametrize("name", OPERATORS)
def test_gradients_are_difference_quotients(name):
    layer = make(name)
    inputs = draw(layer, given="learnt" not in name)
    results = layer.forward(**inputs, lengths=LENGTHS)
    d = cotangents(results)

    def loss():
        return sum(np.sum(a * b) for a, b in zip(flat(layer(**inputs, lengths=LENGTHS)), flat(d), strict=True))

    found = layer.backward(*d)
    arrays = {f"{key}{n}": a for key, value in inputs.items() for n, a in enumerate(flat([value]))}
    slopes = {f"{key}{n}": a for key in inputs for n, a in enumerate(flat([getattr(found, f"d_{key}")]))}
    # Central differences of step 1e-6 in float64 are good to about 1e-9.
    options = {"step": 1e-6, "rtol": 1e-6, "atol": 1e-7}
    rng = np.random.default_rng(5)
    assert not gradients.check(loss, arrays | layer.params, slopes | found.params, rng, **options)
    assert set(found.params) == set(layer.params)


@pytest.mark.parametrize("options", [{}, {"recompute": "gates"}, {"threads": 1}], ids=str)
@pytest.mark.parametrize("name", ["lstm", "peepholes_projection", "gru_before", "learnt", "carry", "sizes"])
def test_data_and_weights_apart_have_the_bits_of_one_call(name, options):
    """More rows of time than a block holds, so that what the sums read would be gone."""
    layer = make(name, **options)
    inputs = draw(layer, steps=70, rows=40, given=name != "learnt")
    lengths = np.random.default_rng(0).integers(0, 71, 40)
    d = cotangents(layer.forward(**inputs, lengths=lengths))
    whole = layer.backward(*d)
    layer.forward(**inputs, lengths=lengths)
    data = layer.backward_data(*d)
    assert not data.params
    for key in inputs:
        compare.assert_same_arrays(flat([getattr(data, f"d_{key}")]), flat([getattr(whole, f"d_{key}")]))
    for _ in range(2):
        weights = layer.backward_weights()
        compare.assert_same_bits(weights, whole.params)


@pytest.mark.parametrize("name", ["coupled", "gru_before", "learnt"])
def test_gradients_are_added_to_what_is_there(name):
    layer = make(name)
    inputs = draw(layer, given=False)
    d = cotangents(layer.forward(**inputs))
    once = layer.backward(*d).params
    vector = np.ones_like(layer.flat)
    layer.forward(**inputs)
    into = layer.views(vector)
    found = layer.backward(*d, into=vector).params
    layer.forward(**inputs)
    layer.backward_data(*d)
    again = layer.backward_weights(into)
    for key, value in once.items():
        np.testing.assert_allclose(into[key], 1 + 2 * value, rtol=1e-14, atol=1e-14, err_msg=key)
        assert np.shares_memory(found[key], vector) and np.shares_memory(again[key], vector)


def test_parameters_are_views_of_one_vector_without_gaps():
    layer = LSTM(7, 10)
    assert layer.flat.shape == (760,)  # 4 * 10 * (7 + 10 + 2)
    np.testing.assert_array_equal(layer.flat, np.concatenate([p.ravel() for p in layer.params.values()]))
    x = np.ones((2, 1, 7), "f4")
    before = layer(x)[0]
    layer.flat[...] *= 0.5
    assert not np.array_equal(layer(x)[0], before)
    mine = np.full((10, 40), 0.25, "f4")
    layer.params["W_h_l0"] = mine
    with_mine = layer(x)[0]
    assert not np.shares_memory(layer.flat, mine)
    np.testing.assert_array_equal(layer.params["W_h_l0"], mine)
    np.testing.assert_array_equal(layer(x)[0], with_mine)
    layer.flat[...] = 0
    assert not layer.params["W_h_l0"].any()


def test_sizes_by_layer_are_a_chain_of_operators():
    layer = make("sizes")
    inputs = draw(layer)
    y, hy, cy = layer(**inputs, lengths=LENGTHS)
    below = inputs["x"]
    for n, size in enumerate((5, 2, 3)):
        one = LSTM(below.shape[-1], size, bidirectional=True, dtype=np.float64)
        one.load({k.replace("_l0", "_l0"): layer.params[k.replace("_l0", f"_l{n}")] for k in one.params})
        below, h, c = one(below, inputs["hx"][n], inputs["cx"][n], lengths=LENGTHS)
        np.testing.assert_array_equal(hy[n], h)
        np.testing.assert_array_equal(cy[n], c)
    np.testing.assert_array_equal(y, below)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", ["learnt", "gru_learnt"])
def test_learnt_states_are_states_given(name, frozen):
    layer = make(name)
    if frozen:
        layer.freeze()
    x = draw(layer)["x"][:2]
    for given in ({}, {"hx": draw(layer)["hx"]}):
        for _ in range(2):  # the second call of a frozen layer is a short one
            first = {}
            for key in layer.states:
                starts = [a for k, a in layer.params.items() if k.startswith(f"start_{key}_l")]
                first[f"{key}x"] = np.stack([np.tile(a, (B, 1)) for a in starts])
            expected = layer(x, **(first | given))
            compare.assert_same_arrays(layer(x, **given), expected)


@pytest.mark.parametrize("empty", ["initial", "zero"])
@pytest.mark.parametrize("padding", ["zero", "repeat", "carry"])
@pytest.mark.parametrize("directions", [{}, {"reverse": True}, {"bidirectional": True}], ids=str)
@pytest.mark.parametrize("kind", ["lstm", "gru_reset_before"])
def test_rows_that_end_early_follow_the_convention(kind, directions, padding, empty):
    rng = np.random.default_rng(0)
    options = {"num_layers": 2, "bidirectional": directions.get("bidirectional", False)}
    params = layers.random_params(rng, kind, D, H, **options)
    if directions.get("reverse"):
        params = {f"{k}_reverse": v for k, v in params.items()}
    x = rng.standard_normal((T, B, D))
    hx = rng.standard_normal((len(params) // 4, B, H))
    cx = rng.standard_normal(hx.shape) if kind == "lstm" else None
    conventions = {"padding": padding, "empty": empty, **directions}
    layer = operator_calls.build(kind, D, H, params, "float64", num_layers=2, **conventions)
    expected = layers.run(kind, params, x, hx, cx, LENGTHS, num_layers=2, **conventions)
    for call in (operator_calls.infer, operator_calls.forward):
        found = call(layer, x, hx, cx, LENGTHS)
        for key, value in zip(found, expected, strict=False):
            compare.assert_close(found[key], value, 1e-12, key)
    none = operator_calls.infer(layer, x[:0], hx, cx)
    np.testing.assert_array_equal(none["hy"], hx if empty == "initial" else 0 * hx)


def test_needs_leave_out_work():
    full, x_only, weights_only = (LSTM(D, H, needs=needs) for needs in (("x", "states", "params"), "x", ["params"]))
    x = np.ones((2, 3, D), "f4")
    found = []
    for layer in (full, x_only, weights_only):
        y, *_ = layer.forward(x)
        found.append(layer.backward(np.ones_like(y)))
    np.testing.assert_array_equal(found[1].d_x, found[0].d_x)
    all_of_it, no_sums, no_d_x = (one._layers[0][0].scan.plan(training=True) for one in (full, x_only, weights_only))
    assert all_of_it.sinks and all_of_it.d_inputs
    assert no_sums.d_inputs and not no_sums.sinks
    assert no_d_x.sinks and not no_d_x.d_inputs
    assert found[1].d_hx is None and found[1].d_cx is None and found[1].params == {}
    assert found[2].d_x is None and found[2].d_hx is None
    compare.assert_same_bits(found[2].params, found[0].params)


def test_a_bidirectional_stack_without_gradient_of_x():
    layer = GRU(D, H, 2, bidirectional=True, needs=["params", "states"])
    full = GRU(D, H, 2, bidirectional=True)
    x = np.random.default_rng(0).standard_normal((T, B, D), "f4")
    for one in (layer, full):
        one.found = one.backward(np.ones_like(one.forward(x)[0]))
    assert layer.found.d_x is None
    np.testing.assert_array_equal(layer.found.d_hx, full.found.d_hx)
    np.testing.assert_array_equal(layer.found.params["W_x_l0"], full.found.params["W_x_l0"])


def test_reserves_hold_several_passes():
    """Two chunks of one sequence through one operator, gradients flowing between them, equal one long pass."""
    layer = make("peepholes_projection", bidirectional=False)
    x = draw(layer, steps=8)["x"]
    d_y = np.random.default_rng(9).standard_normal((8, B, layer.output_size))
    layer.forward(x)
    whole = layer.backward(d_y)
    early, late = layer.reserve(), layer.reserve()
    _, hy, cy = layer.forward(x[:3], reserve=early)
    layer.forward(x[3:], hy, cy, reserve=late)
    second = layer.backward(d_y[3:], reserve=late)
    first = layer.backward(d_y[:3], second.d_hx, second.d_cx, into=second.params, reserve=early)
    compare.assert_close(np.concatenate([first.d_x, second.d_x]), whole.d_x, 1e-12, "d_x")
    compare.assert_all_close(first.params, whole.params, 1e-12)


def test_release_lets_memory_go_and_changes_no_bit():
    layer = make("lstm", dtype=np.float32)
    inputs = draw(layer)
    layer.forward(**inputs)
    expected, held = layer(**inputs), layer.workspace_bytes
    assert held > 0
    layer.release()
    assert layer.workspace_bytes == 0
    refused(NMTError, "must follow a forward", layer.backward, None)
    compare.assert_same_arrays(layer(**inputs), expected)
    layer.forward(**inputs)
    assert layer.workspace_bytes == held


def test_keywords_are_known_in_one_place():
    known = inspect.signature(LayerStack.__init__).parameters.values()
    assert set(LayerOptions.__annotations__) == {p.name for p in known if p.kind is p.KEYWORD_ONLY}


X, NAN, LETTERS = np.ones((2, 2, D), "f4"), float("nan"), iter("x")
WHOLE, FLAG, THREE = "a whole number of at least 1", "True or False", ("sigmoid", np.tanh, ("elu", NAN))
CLIPS = {"-1.0": -1.0, "nan": NAN, "0": 0, "'a'": "a"}
SETS = {"y": ["y"], "{'x': False}": {"x": False}, "None": None, f"{LETTERS}": LETTERS}


@pytest.mark.parametrize(
    ("make", "name", "promise", "values"),
    [
        (GRU, "input_size", "at most 16,777,216", {f"{10**30}": 10**30}),
        (GRU, "input_size", WHOLE, {"True": True, f"{LSTMCell}": LSTMCell}),
        *((GRU, "hidden_size", "at least 1", {"0": wrong}) for wrong in (0, (2, 0))),
        (GRU, "hidden_size", WHOLE, {"'5'": "5", "5.0": 5.0}),
        (GRU, "hidden_size", "a number for each layer", {"none": ()}),
        *((make, name, "at least 1", {"0": 0}) for make, name in ((GRU, "num_layers"), (LSTM, "proj_size"))),
        *((make, name, WHOLE, {"2.5": 2.5}) for make, name in ((GRU, "num_layers"), (LSTM, "proj_size"))),
        *((make, "clip", "above 0 or None", CLIPS) for make in (LSTM, GRU, RNN)),
        (LSTM, "cell_clip", "above 0 or None", {"nan": NAN}),
        (LSTM, "activations", "a tuple of 3", {"('sigmoid', 'tanh')": ("sigmoid", "tanh"), "'tanh'": "tanh"}),
        (LSTM, "activations", "one of sigmoid, tanh, .*", {f"{np.tanh}": THREE}),
        (GRU, "activations", "a tuple of 2", {"'tanh'": "tanh", f"{THREE}": THREE}),
        (GRU, "activations", "elu and at most 1 numbers", {"('elu', nan)": ("sigmoid", ("elu", NAN))}),
        (RNN, "nonlinearity", "one of sigmoid, tanh, .*", {"'sine'": "sine", "None": None}),
        (RNN, "nonlinearity", "tanh and at most 0 numbers", {"('tanh', 1.0)": ("tanh", 1.0)}),
        (GRU, "dropout", "from 0 to less than 1", {"nan": NAN, "'x'": "x", "1.0": 1.0}),
        *((LSTM, name, FLAG, {"'no'": "no", "None": None}) for name in ("bidirectional", "bias", "peepholes")),
        (GRU, "reset_after", FLAG, {"'no'": "no"}),
        (GRU, "threads", "at least 1", {"0": 0}),
        (GRU, "threads", "at most 1,024", {"100000": 100_000}),
        (GRU, "device", "a Device", {"'cpu'": "cpu"}),
        (GRU, "dtype", "float32 or float64", {"foo": "foo", "None": None, "int64": int}),
        (GRU, "compute_dtype", "float32 or bfloat16 or int8 with float32", {"foo": "foo", "[]": []}),
        (GRU, "recompute", "attention or gates", {"all": "all"}),
        (LSTM, "padding", "among zero, repeat, carry", {"nothing": "nothing", "['zero']": ["zero"]}),
        (LSTM, "empty", "among initial, zero", {"full": "full"}),
        (LSTM, "needs", "among x, states, params", SETS),
    ],
)
def test_wrong_options_are_one_line(make, name, promise, values):
    """Values by how they are printed. A name with a slip, too; every layer says which it is."""
    for got, value in values.items():
        options = {"input_size": D, "hidden_size": H, name: value}
        line = f"^{make.__name__}: {name} must (be|have) {promise}, got {re.escape(got)}(; .*)?$"
        refused(NMTError, line, make, **options)
    slip = f"^{make.__name__}: keywords must be among .*, input_size, .* got {name}z; did you mean {name}.$"
    refused(TypeError, slip, make, D, H, **{f"{name}z": value})


def backward_after(split):
    layer = RNN(D, H)
    y, _ = layer.forward(X)
    if split:
        layer.backward_data(y)
        return lambda: layer.backward(y)
    return layer.backward_weights


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: GRU(D, H, bidirectional=True, reverse=True), "must not both be set"),
        (lambda: GRU(D, (2, 3), 3), "num_layers must be 2"),
        (lambda: DropoutCell(LSTMCell(D, H), NAN), "^DropoutCell: rate must be from 0 to less than 1, got nan"),
        (lambda: GRU(D, (2, 3))(np.ones((1, 1, D), "f4"), np.ones((2, 1, 3), "f4")), "hx must be a tuple of 2 arrays"),
        (lambda: RNN(D, H).load({}), "parameters must be W_x_l0"),
        (lambda: RNN(D, H).load([1]), "parameters must be W_x_l0, .* got list"),
        (lambda: RNN(D, H).load(None), "parameters must be W_x_l0, .* got NoneType"),
        (lambda: LSTM(D, H)(X, (X, X)), "hx must be one array, .* got a tuple of 2; give each state by itself"),
        (lambda: LSTM(D, H)(X, [2, 1]), "got a list of 2; give each state by itself, and lengths by name"),
        (lambda: GRU(D, H, compute_dtype="int8").forward(X), "^GRU: compute_dtype must be float32 or bfloat16 to"),
        (lambda: RNN(D, H).views(np.ones(3, "f4")), r"must be contiguous float32 \[36\]"),
        (lambda: RNN(D, H).backward(None), "must follow a forward"),
        (lambda: RNN(D, H)(np.zeros((2, 2, D))), "x must be float32"),
        (lambda: RNN(D, H)([[0.0]]), "x must be float32 .* got list"),
        (lambda: RNN(D, H)(np.ma.masked_array(X, X > 0)), "x must be float32 .* got MaskedArray"),
        (lambda: RNN(D, H)(X, lengths=[1.5, 2]), "^RNN: lengths must be"),
        (backward_after(split=False), "must follow backward_data"),
        (backward_after(split=True), "must come once for each forward"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_are_one_line(act, words):
    refused(NMTError, words, act)


@pytest.mark.parametrize("wrong", [np.ones(3), np.ones((D, H), complex), np.ones((D, H), bool)])
def test_wrong_parameters_are_one_line(wrong):
    layer, good, got = RNN(D, H), dict(RNN(D, H).params), re.escape(f"{wrong.dtype} {[*wrong.shape]}")
    refused(NMTError, rf"^RNN: W_x_l0 must be numbers \[3, 4\], got {got}$", layer.load, good | {"W_x_l0": wrong})
    layer.params["W_x_l0"] = wrong
    refused(NMTError, rf"^RNN: W_x_l0 must be float32 \[3, 4\], got {got}$", layer, X)
    layer.params.update(good | {"W_x_10": good["W_x_l0"]})
    refused(NMTError, "^RNN: parameters must be W_x_l0, .* got .* W_x_10$", layer, X)


def test_reserves_and_targets_of_others_are_one_line():
    layer, other = LSTM(D, H), LSTM(D, H)
    layer.forward(X, reserve=(reserve := layer.reserve()))
    refused(NMTError, "must follow a forward, got that of other layers", other.backward, None, reserve=reserve)
    refused(NMTError, "reserve must be one of layer.reserve.., got bool", layer.forward, X, reserve=True)
    refused(NMTError, "into must be writeable", layer.backward, None, into=frozen(0 * layer.flat), reserve=reserve)
