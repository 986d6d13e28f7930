"""Rows C and M of docs/engine-rows.md that the operators LSTM, GRU and RNN answer."""

import gc
import weakref

import numpy as np
import pytest

from nmt.errors import NMTError
from nmt.rnn import GRU, LSTM, RNN, LSTMCell, Scan
from nmt.rnn.kernels.device_cpu import CPUDevice
from nmt.rnn.layers.reserve import Reserve
from nmt.rnn.layers.weight_layouts import to_flat
from nmt.rnn.scan.plan_cache import compile_step
from tests.oracle import compare, gradients, layers, more_cells
from tests.rnn import operator_calls

D, H, T, B = 3, 4, 5, 2
LENGTHS = [5, 2]


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def passed(layer, *states, seed=0, **options):
    """One forward pass with states of any kind; returns x, the results and cotangents for them."""
    x = draw(T, B, D, seed=seed)
    results = layer.forward(x, *states, **options)
    return x, results, [draw(*r.shape, seed=seed + n + 1) for n, r in enumerate(results)]


def test_C03_one_flat_vector_of_parameters():
    """An update of the vector is an update of all parameters, and the vector of cuDNN is another order of it."""
    layer = GRU(D, H, 2, bidirectional=True, dtype=np.float64)
    x = draw(T, B, D)
    before = layer(x)[0]
    w = layer.flat
    assert w.shape == (sum(p.size for p in layer.params.values()),)
    dw = np.zeros_like(w)
    layer.forward(x)
    layer.backward(np.ones_like(before), into=dw)
    for name, piece in layer.views(dw).items():
        assert piece.any() and np.shares_memory(piece, dw), name
    w -= 1e-4 * dw
    assert np.sum(layer(x)[0]) < np.sum(before)
    np.testing.assert_array_equal(np.sort(to_flat(layer.params)), np.sort(w))


def test_C05_backward_data_gives_gradients_of_x_and_first_states():
    layer = LSTM(D, H, 2, dtype=np.float64)
    hx, cx = draw(2, B, H, seed=7), draw(2, B, H, seed=8)
    x, results, d = passed(layer, hx, cx)
    found = layer.backward_data(*d)

    def loss():
        return sum(np.sum(a * b) for a, b in zip(layer(x, hx, cx), d, strict=True))

    slopes = {"x": found.d_x, "hx": found.d_hx, "cx": found.d_cx}
    assert not gradients.check(loss, {"x": x, "hx": hx, "cx": cx}, slopes, np.random.default_rng(0))
    assert found.params == {}


def test_C06_backward_weights_adds_to_what_is_there():
    """Two passes into one dw without clearing it give the sum; clearing starts again."""
    layer = LSTM(D, H, dtype=np.float64)
    dw, apart = np.zeros_like(layer.flat), []
    for seed in (0, 10):
        *_, d = passed(layer, seed=seed)
        layer.backward_data(*d)
        layer.backward_weights(into=dw)
        apart.append(np.concatenate([g.ravel() for g in layer.backward_weights().values()]))
    compare.assert_close(dw, apart[0] + apart[1], 1e-14, "dw")
    assert np.linalg.norm(apart[0]) > 0.1


def test_C07_data_and_weights_are_separate_calls_with_the_bits_of_one():
    layer = GRU(D, H, 2, bidirectional=True)
    x = draw(T, B, D).astype("f4")
    y, hy = layer.forward(x, lengths=LENGTHS)
    whole = layer.backward(y, hy)
    layer.forward(x, lengths=LENGTHS)
    data, weights = layer.backward_data(y, hy), layer.backward_weights()
    np.testing.assert_array_equal(data.d_x, whole.d_x)
    np.testing.assert_array_equal(data.d_hx, whole.d_hx)
    for name, value in whole.params.items():
        np.testing.assert_array_equal(weights[name], value, name)
    with pytest.raises(NMTError, match="must follow backward_data"):
        layer.forward(x)
        layer.backward_weights()


@pytest.mark.parametrize("split", [False, True])
def test_C08_none_is_zeros_and_what_is_not_needed_is_none(split):
    zeros = np.zeros((1, B, H))
    found = []
    for hx, d_y, d_hy in ((None, None, draw(1, B, H)), (zeros, np.zeros((T, B, H)), draw(1, B, H))):
        layer = LSTM(D, H, dtype=np.float64)
        _, results, _ = passed(layer, hx, None)
        call = layer.backward_data if split else layer.backward
        back = call(d_y, d_hy, None if d_y is None else zeros)
        found.append([*results, back.d_x, back.d_hx, back.d_cx])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
    layer = LSTM(D, H, needs=["x"], dtype=np.float64)
    *_, d = passed(layer)
    back = layer.backward(*d)
    assert back.d_hx is None and back.d_cx is None and not back.params and back.d_x.any()


def test_C09_forward_data_weights_update_clear_repeat():
    """The loop of the row, on its own numbers; the loss goes down."""
    layer = LSTM(D, H, 2, dtype=np.float64)
    x, target = draw(T, B, D), np.tanh(draw(T, B, H, seed=1))
    dw, losses = np.zeros_like(layer.flat), []
    for _ in range(120):
        y, *_ = layer.forward(x)
        losses.append(0.5 * np.sum((y - target) ** 2))
        layer.backward_data(y - target)
        layer.backward_weights(into=dw)
        layer.flat[...] -= 0.2 * dw
        dw[...] = 0
    assert losses[-1] < 0.7 * losses[0]


def test_C20_each_layer_has_a_size_of_its_own():
    layer = LSTM(D, (5, 5, 2), dtype=np.float64)
    *_, d = passed_sizes(layer)
    found = layer.backward(*d)
    assert [a.shape for a in found.d_hx] == [(1, B, 5), (1, B, 5), (1, B, 2)]
    y, hy, cy = layer(draw(T, B, D))
    below, sizes = draw(T, B, D), (5, 5, 2)
    for n, size in enumerate(sizes):
        own = {k.replace(f"_l{n}", "_l0"): v for k, v in layer.params.items() if k.endswith(f"_l{n}")}
        below, h, c = layers.run("lstm", own, below)
        assert below.shape[-1] == size
        compare.assert_close(hy[n], h, 1e-12, f"hy of {n}")
        compare.assert_close(cy[n], c, 1e-12, f"cy of {n}")
    compare.assert_close(y, below, 1e-12, "y")


def passed_sizes(layer):
    x = draw(T, B, D)
    y, hy, cy = layer.forward(x)
    return x, (y, hy, cy), [draw(*y.shape), tuple(draw(*h.shape) for h in hy), tuple(draw(*c.shape) for c in cy)]


def test_C22_peepholes_can_be_added():
    """Against the equations of Graves (2013), row by row."""
    layer = LSTM(D, H, peepholes=True, dtype=np.float64)
    layer.load({name: 0.5 * draw(*a.shape, seed=n) for n, (name, a) in enumerate(layer.params.items())})
    p = {name.removesuffix("_l0"): a for name, a in layer.params.items()}
    p["b"] = p.pop("b_x") + p.pop("b_h")
    x = draw(T, B, D)
    y, _, cy = layer(x)
    for row in range(B):
        state = {"h": np.zeros(H), "c": np.zeros(H)}
        for t in range(T):
            expected, state = more_cells.lstm_variant()(p, x[t, row], state)
            compare.assert_close(y[t, row], expected, 1e-12, f"y[{t}, {row}]")
        compare.assert_close(cy[0, row], state["c"], 1e-12, "cy")


def test_M09_forward_intermediates_are_shared_with_backward():
    """In a reserve, whose memory the next pass uses again."""
    layer = LSTM(D, H)
    reserve = layer.reserve()
    x = draw(T, B, D).astype("f4")
    sizes = []
    for _ in range(3):
        y, *_ = layer.forward(x, reserve=reserve)
        assert layer.backward(y, reserve=reserve).d_x.any()
        sizes.append(reserve.nbytes)
    assert sizes[0] > 0 and len(set(sizes)) == 1
    reserve.release()
    assert reserve.nbytes == 0


def test_M10_kept_by_the_operator_or_in_an_object_passed_to_backward():
    stateful, explicit = GRU(D, H), GRU(D, H)
    x = draw(T, B, D).astype("f4")
    y, _ = stateful.forward(x)
    expected = stateful.backward(y)
    reserve = explicit.reserve()
    assert isinstance(reserve, Reserve)
    explicit.forward(x, reserve=reserve)
    explicit.forward(2 * x)  # the operator's own pass is another one
    found = explicit.backward(y, reserve=reserve)
    np.testing.assert_array_equal(found.d_x, expected.d_x)
    for name, value in expected.params.items():
        np.testing.assert_array_equal(found.params[name], value)


def test_M12_what_cannot_be_combined_says_so():
    asked = [
        (lambda: LSTM(D, H, dtype=np.float16), "dtype must be float32 or float64, got float16"),
        (lambda: LSTM(D, H, dtype=np.int32), "dtype must be float32 or float64, got int32"),
        (lambda: LSTM(D, H, dtype=np.float64, compute_dtype="bfloat16"), "compute_dtype must be float64"),
        (lambda: LSTM(D, H, proj_size=0), "projection must be at least 1"),
        (lambda: LSTM(D, H, clip=0.0), "clip must be above 0"),
        (lambda: GRU(D, H, dropout=1.0), "dropout must be from 0 to less than 1"),
        (lambda: GRU(D, H, bidirectional=True, reverse=True), "bidirectional and reverse must not both be set"),
        (lambda: RNN(D, H, nonlinearity="sine"), "activation: must be one of"),
    ]
    for act, words in asked:
        with pytest.raises(NMTError, match=words) as caught:
            act()
        assert "\n" not in str(caught.value)


EVERY_OPTION = {"peepholes": True, "proj_size": 3, "clip": 2.0, "cell_clip": 1.5, "learn_initial": True}


@pytest.mark.parametrize("recompute", ["attention", "gates"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_M12_and_what_can_works(bidirectional, recompute):
    """Training with projections, clipping, lengths of zero and accumulation, each of which some operator refuses."""
    options = {"bidirectional": bidirectional, "recompute": recompute, "dropout": 0.3, "padding": "carry"}
    layer = LSTM(D, H, 2, dtype=np.float64, **options, **EVERY_OPTION)
    x = draw(T, B, D)
    d_y = draw(T, B, layer.output_size, seed=1)

    def loss():
        layer._passes = 0  # the same dropout
        return np.sum(layer.forward(x, lengths=[5, 0])[0] * d_y)

    loss()
    dw = np.ones_like(layer.flat)
    found = layer.backward(d_y, into=dw)
    slopes = {"x": found.d_x, "w": dw - 1}
    assert not gradients.check(loss, {"x": x, "w": layer.flat}, slopes, np.random.default_rng(0), step=1e-6)


def test_M18_what_backward_needs_passes_with_the_pass_not_with_the_operator():
    """Three passes wait at once, and go back in another order."""
    layer = GRU(D, H, dtype=np.float64)
    reserves = [layer.reserve() for _ in range(3)]
    xs = [draw(T + n, B, D, seed=n) for n in range(3)]
    expected = []
    for x in xs:
        y, _ = layer.forward(x)
        expected.append(layer.backward(np.ones_like(y)))
    for x, reserve in zip(xs, reserves, strict=True):
        layer.forward(x, reserve=reserve)
    for n in (1, 2, 0):
        found = layer.backward(np.ones_like(xs[n][..., :1]).repeat(H, -1), reserve=reserves[n])
        np.testing.assert_array_equal(found.d_x, expected[n].d_x)


def test_M19_plans_are_kept_and_shared():
    """By operators of the same kind, layers of one size and all threads."""
    first, second = LSTM(D, H, 3), LSTM(D, H, 3, bidirectional=True)
    scans = [side.scan for layer in (first, second) for sides in layer._layers for side in sides]
    of_layers = [scan.compiled(training=True) for scan in scans[:3]]
    assert of_layers[1] is of_layers[2] and of_layers[0] is not of_layers[1]
    assert scans[3].compiled(training=True) is of_layers[0] is scans[4].compiled(training=True)


def test_M20_the_key_is_the_cell_the_types_the_device_and_what_is_asked_for():
    """Every part of it makes another plan; sizes of batch and time, lengths, threads and parameters make none."""

    class OtherDevice(CPUDevice):
        pass

    def plan(cell=None, training=True, single_step=False, **options):
        return Scan(cell or LSTMCell(D, H), **options).compiled(training, single_step)

    one_of_each = [
        plan(),
        plan(LSTMCell(D, H + 1)),
        plan(LSTMCell(D, H, bias=False)),
        plan(dtype=np.float64),
        plan(compute_dtype="bfloat16"),
        plan(device=OtherDevice()),
        plan(needs=["W_x"]),
        plan(recompute="gates"),
        plan(training=False),
        plan(training=False, single_step=True),
    ]
    assert len({id(one) for one in one_of_each}) == len(one_of_each)
    assert plan(threads=1) is plan(threads=2) is plan(division="units") is one_of_each[0]
    layer = LSTM(D, H)
    y, *_ = layer.forward(draw(T, B, D).astype("f4"))
    layer.backward(y)
    misses = compile_step.cache_info().misses
    for steps, rows, lengths in ((1, 1, None), (9, 3, None), (4, 2, [0, 3]), (2, 40, None)):
        layer.initialize(steps)
        y, *_ = layer.forward(draw(steps, rows, D).astype("f4"), lengths=lengths)
        layer.backward(y)
    assert compile_step.cache_info().misses == misses


def test_M21_the_second_call_plans_nothing_and_takes_no_memory():
    layer = GRU(D, H, 2, bidirectional=True)
    x = draw(T, B, D).astype("f4")
    held = []
    for _ in range(3):
        y, _ = layer.forward(x)
        layer.backward(y)
        layer(x)
        held.append((compile_step.cache_info().misses, layer.workspace_bytes))
    assert held[0] == held[1] == held[2]


def test_M23_memory_is_used_again_and_grows_only_for_something_larger(monkeypatch):
    from nmt.rnn.arrays import workspace

    layer = LSTM(64, 64)
    found = []
    zeros = workspace.zeros_of
    monkeypatch.setattr(workspace, "zeros_of", lambda *args: found.append(args[1]) or zeros(*args))

    def run(steps, rows):
        found.clear()
        y, *_ = layer.forward(draw(steps, rows, 64).astype("f4"))
        layer.backward(y)
        return len(found)

    assert run(20, 8) > 0
    assert run(20, 8) == run(10, 8) == run(20, 3) == 0
    assert run(400, 40) > 0
    run(400, 40)  # joins what the larger pass had found in pieces
    assert run(400, 40) == run(20, 8) == 0


def test_M24_memory_is_released_with_the_operator_or_when_asked():
    layer = LSTM(D, H)
    x = draw(T, B, D).astype("f4")
    layer.forward(x)
    layer(x)
    chunks = [weakref.ref(chunk.base) for chunk in layer._reserve.memory._chunks]
    assert chunks and layer.workspace_bytes > 0
    layer.release()
    gc.collect()
    assert layer.workspace_bytes == 0 and not any(chunk() is not None for chunk in chunks)
    layer.forward(x)
    kept = weakref.ref(layer), weakref.ref(layer._reserve.memory)
    del layer
    gc.collect()
    assert kept[0]() is None and kept[1]() is None


def test_C10_stacked_layers_are_one_call():
    params = layers.random_params(np.random.default_rng(0), "gru", D, H, num_layers=3)
    layer = operator_calls.build("gru", D, H, params, "float64", num_layers=3)
    x = draw(T, B, D)
    y, hy, _ = layers.run("gru", params, x, num_layers=3)
    found = operator_calls.infer(layer, x)
    compare.assert_close(found["y"], y, 1e-12, "y")
    compare.assert_close(found["hy"], hy, 1e-12, "hy")
