"""Rows M of docs/engine-rows.md: a fused operator beside flexible cells, its products, memory and plans."""

import gc
import importlib.util
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from nmt.errors import NMTError
from nmt.rnn import (
    GRU,
    LSTM,
    RNN,
    Cell,
    GRUCell,
    LSTMCell,
    LSTMVariantCell,
    Param,
    Scan,
    State,
    Weights,
    interpreter,
    tanh,
)
from nmt.rnn.division import choose_division
from nmt.rnn.kernels.loops import activation_code
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import kernel
from nmt.rnn.rows import Rows
from nmt.rnn.scan import plan_cache as engine
from tests.devices import device_at
from tests.oracle import gradients, layers
from tests.rnn import operator_calls
from tests.rnn import scan_cases as cases
from tests.rnn.kernels.assembly import assembly_of
from tests.rows.support import (
    MIXED,
    B,
    D,
    H,
    T,
    all_close,
    close,
    draw,
    hold_to_quotients,
    plan_of,
    products,
    same_bits,
)

MAKERS = {"lstm": LSTM, "gru": GRU, "rnn_tanh": RNN}
EVERY = pytest.mark.parametrize("kind", MAKERS)
MEGABYTE = 1 << 20


def layer_of(kind, num_layers=1, **options):
    """An operator in float64 with drawn parameters, and these."""
    options = {"num_layers": num_layers, **options}
    shape = {k: options[k] for k in ("num_layers", "bidirectional") if k in options}
    params = layers.random_params(np.random.default_rng(3), kind, D, H, **shape)
    return operator_calls.build(kind, D, H, params, np.float64, **options), params


@EVERY
def test_M01_cells_and_the_fused_operator_agree(kind):
    """The same numbers through the operator, and through cells that the user stacks."""
    layer, params = layer_of(kind, 2)
    x = draw(T, B, D)
    below = x
    for n in range(2):
        p = {key: params[f"{key}_l{n}"] for key in ("W_x", "W_h", "b_x", "b_h")}
        own = {"W_x": p["W_x"], "W_h": p["W_h"], "b": p["b_x"] + p["b_h"]}
        if kind == "gru":
            own |= {"b": p["b_x"], "b_h": p["b_h"]}
        cell = {"lstm": LSTMCell, "gru": GRUCell}.get(kind, cases.ElmanCell)(below.shape[-1], H)
        below = Scan(cell, dtype="float64").forward(Weights(own), below).y
    np.testing.assert_array_equal(layer(x)[0], below)


@EVERY
def test_M02_the_fused_operator_runs_on_the_processor(kind):
    layer, params = layer_of(kind)
    x = draw(T, B, D)
    assert layer.device.name == "cpu"
    close(layer(x)[0], layers.run(kind, params, x)[0])


def test_M03_the_way_products_are_shared_out_is_chosen_or_given():
    """Threads divide rows, or hidden units where rows are few; the numbers are the same."""
    case = cases.draw(LSTMCell(D, H), "float64", MIXED)
    one = cases.compiled(case)
    for division in ("rows", "units", None):
        two = cases.compiled(case, threads=2, division=division)
        same_bits(two[0], one[0])
        same_bits(two[1], one[1])
    small, large = 1 << 10, 64 * MEGABYTE
    assert choose_division(1, 2, large) == "units"
    assert choose_division(256, 2, small) == "rows"


@pytest.mark.parametrize(("cell", "width"), [(LSTMCell(D, H), 4 * H), (GRUCell(D, H), 3 * H)])
def test_M04_gates_are_one_product(cell, width):
    """Eight products of an LSTM's step (six of a GRU's) are two, of which one is not in the loop."""
    plan = plan_of(cell, training=False)
    assert products(plan.forward.before) == [("W_x", width)]
    assert products(plan.forward.loop) == [("W_h", width)]


def test_M05_a_sentence_of_80_words_is_81_products():
    """Instead of 640: one for all inputs, one for each step."""
    plan = plan_of(LSTMCell(D, H), training=False)
    rows = Rows(80, 1, 1, *[np.full(1, 80)] * 3, np.array([0, 1]), False)
    blocks = len(rows.blocks(backward=False))
    assert blocks * len(products(plan.forward.before)) + 80 * len(products(plan.forward.loop)) == 81


@pytest.mark.parametrize("reset_after", [True, False])
def test_M06_what_does_not_wait_for_the_state_is_done_at_once(reset_after):
    """Inputs' products before the loop, gradients of inputs and all weights after it; both directions of it."""
    plan = plan_of(GRUCell(D, H, reset_after=reset_after))
    recurrent = {"W_h"} if reset_after else {"W_rz", "W_n"}
    assert {name for name, _ in products(plan.forward.loop)} == recurrent
    assert {name for name, _ in products(plan.backward.loop)} == recurrent
    assert [name for name, _ in products(plan.backward.after)] == ["W_x"]
    assert {sink.sink.name for sink in plan.sinks} == {"W_x", "b", "b_h", *recurrent}


def gates(a, c, y):
    """An LSTM's arithmetic over units."""
    for j in range(y.size):
        y[j] = activation_code.sigmoid(a[j]) * activation_code.tanh(c[j])


def test_M07_gates_are_vector_code():
    registers = {16: "zmm", 8: "ymm"}
    if TARGET.lanes not in registers:
        pytest.skip("knows the register names of x86 only")
    code = assembly_of(kernel(gates).native(("float32 1",) * 3))
    packed = [line for line in code.splitlines() if registers[TARGET.lanes] in line]
    assert any("vmulps" in line for line in packed) and any("vdivps" in line for line in packed)


@pytest.mark.parametrize(("name", "exact", "limit"), [("sigmoid", lambda x: 1 / (1 + np.exp(-x)), 1e-6)])
@pytest.mark.parametrize("x", [np.linspace(-90, 90, 40001), np.linspace(-1e-3, 1e-3, 4001)])
def test_M08_fast_functions_have_a_stated_error(name, exact, limit, x):
    """Below 1e-6, as the module says; the hyperbolic tangent also relative to its value."""
    assert "sigmoid and tanh below 1e-6" in activation_code.__doc__
    x = x.astype("f4")
    y, ones = np.empty_like(x), np.full_like(x, 100)
    kernel(gates)(x, ones, y)
    assert np.max(np.abs(y - exact(x.astype("f8")))) < limit
    kernel(gates)(ones, x, y)
    expected = np.tanh(x.astype("f8"))
    assert np.max(np.abs(y - expected) - limit * np.abs(expected)) <= 1e-12


def test_M09_what_the_way_back_needs_is_kept_by_the_forward_run():
    """The activations are not computed again: without them there are no gradients."""
    case = cases.draw(LSTMCell(D, H), "float64")
    scan, weights = Scan(case.cell, dtype="float64"), Weights(case.params)
    tape = scan.forward(weights, case.x, case.initial, training=True).tape
    stored = [a for name, a in tape.arrays.items() if name.startswith("k")]
    assert [a.shape for a in stored] == [(T, B, H)] * 5
    right = scan.backward(tape, case.d_y).x.copy()
    tape = scan.forward(weights, case.x, case.initial, training=True).tape
    for array in (a for name, a in tape.arrays.items() if name.startswith("k")):
        array[...] = 0
    assert not np.allclose(scan.backward(tape, case.d_y).x, right)


def test_M10_the_reserve_is_a_result_or_is_held_by_the_operator():
    """A scan returns its tape, so several runs may wait for their way back; an operator holds its own."""
    case = cases.draw(LSTMCell(D, H), "float64")
    scan, weights = Scan(case.cell, dtype="float64"), Weights(case.params)
    one = scan.forward(weights, case.x, training=True)
    two = scan.forward(weights, 2 * case.x, training=True)
    later, earlier = scan.backward(two.tape, case.d_y).x, scan.backward(one.tape, case.d_y).x
    alone = scan.forward(weights, case.x, training=True)
    np.testing.assert_array_equal(scan.backward(alone.tape, case.d_y).x, earlier)
    assert not np.array_equal(later, earlier)
    layer = LSTM(D, H, dtype=np.float64)
    for name, array in case.params.items():
        if name != "b":
            layer.params[f"{name}_l0"][...] = array
    layer.params["b_x_l0"][...], layer.params["b_h_l0"][...] = case.params["b"], 0
    layer.forward(case.x)
    np.testing.assert_array_equal(layer.backward(case.d_y).d_x, earlier)


def test_M11_only_the_device_changes():
    """The same parameters by the same names, the same call."""
    here, params = layer_of("gru", bidirectional=True)
    there, _ = layer_of("gru", bidirectional=True, device=device_at("cuda"))
    assert {k: v.shape for k, v in there.params.items()} == {k: v.shape for k, v in params.items()}
    x, d_y = draw(2, 2, D), draw(2, 2, 2 * H)
    for one in (here, there):
        one.found = operator_calls.forward(one, x, lengths=[2, 1])
        one.slopes = operator_calls.backward(one, d_y)
    all_close(there.found, here.found)
    all_close(there.slopes.params, here.slopes.params)
    close(there.slopes.d_x, here.slopes.d_x)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: LSTM(D, H, compute_dtype="bfloat16", dtype=np.float64), "compute_dtype must be float64"),
        (lambda: LSTM(D, H, dropout=1.0), "dropout must be from 0 to less than 1, got 1.0"),
        (lambda: RNN(D, H, nonlinearity="sine"), "activation: must be one of sigmoid, tanh, .*, got sine"),
        (lambda: LSTM(D, H)(draw(2, 2, D)), "x must be float32"),
    ],
)
def test_M12_what_is_not_supported_is_said_in_one_line(act, message):
    with pytest.raises(NMTError, match=message) as caught:
        act()
    assert "\n" not in str(caught.value)


def test_M12_what_others_refuse_on_the_processor_runs_here():
    """Dropout between layers, lengths, clipped cells and training with a projection: MXNet's operator ended there."""
    layer = LSTM(D, H, 2, dropout=0.5, dtype=np.float64)
    layer.forward(draw(T, B, D), lengths=MIXED)
    assert layer.backward(draw(T, B, H)).d_x.any()
    hold_to_quotients(cases.draw(LSTMVariantCell(D, H, projection=4, cell_clip=0.6, bias=False), "float64", MIXED))


@pytest.mark.parametrize("kind", cases.RECURRENT)
def test_M13_three_kinds_of_layers(kind):
    """LSTM, GRU with the reset on either side of the product, plain layers with tanh and relu."""
    layer, params = layer_of(kind)
    x = draw(T, B, D)
    close(layer(x)[0], layers.run(kind, params, x)[0])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("num_layers", [1, 3])
@EVERY
def test_M14_each_in_both_directions_and_in_several_layers(kind, num_layers, bidirectional):
    layer, params = layer_of(kind, num_layers, bidirectional=bidirectional)
    x = draw(T, B, D)
    expected = layers.run(kind, params, x, lengths=MIXED, num_layers=num_layers, bidirectional=bidirectional)
    for found, wanted in zip(layer(x, lengths=MIXED), expected, strict=False):
        close(found, wanted)


class VariantCell(Cell):
    """Another variant is one class: h' = tanh(x W + h U) with a gain of each unit."""

    def __init__(self, input_size, hidden_size):
        self.input_size, self.output_size = input_size, hidden_size

    def params(self):
        n, m = self.input_size, self.output_size
        return {"W": Param((n, m)), "U": Param((m, m)), "gain": Param((m,), start=1.0)}

    def states(self):
        return {"h": self.output_size}

    def step(self, p, x, s):
        h = p.gain * tanh(x @ p.W + s.h @ p.U)
        return h, State(h=h)


def test_M15_another_variant_is_one_class():
    case = cases.draw(VariantCell(D, H), "float64", MIXED)
    for reverse in (False, True):
        outputs, found, masks = cases.compiled(case, reverse=reverse)
        expected, slopes = cases.interpreted(case, masks, reverse=reverse)
        all_close(outputs, expected)
        all_close(found, slopes)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_M16_gates_and_directions_and_layers_train(kind):
    """Two layers in both directions: gradients against difference quotients of the operator's own outputs."""
    layer, _ = layer_of(kind, 2, bidirectional=True)
    x, d_y = draw(T, B, D), draw(T, B, 2 * H)
    layer.forward(x, lengths=MIXED)
    found = layer.backward(d_y)
    leaves = {"x": x, **layer.params}
    slopes = {"x": found.d_x, **found.params}
    real = (np.arange(T)[:, None] < np.array(MIXED))[..., None]

    def loss():
        return np.sum(layer(x, lengths=MIXED)[0] * d_y * real)

    assert not gradients.check(loss, leaves, slopes, np.random.default_rng(0), rtol=1e-6, atol=1e-7)


@EVERY
def test_M17_the_paths_of_inference_and_training_give_the_same(kind):
    layer, _ = layer_of(kind, 2, bidirectional=True)
    x = draw(T, B, D)
    for inferred, trained in zip(layer(x, lengths=MIXED), layer.forward(x, lengths=MIXED), strict=True):
        close(inferred, trained, tolerance=1e-14)  # two programs: sums of three are rounded where they are fused


def test_M18_a_run_hands_a_context_to_its_way_back():
    """Plan, arrays, lengths and weights: all that backward reads, and nothing of a later run."""
    case = cases.draw(LSTMCell(D, H), "float64", MIXED)
    scan, weights = Scan(case.cell, dtype="float64"), Weights(case.params)
    result = scan.forward(weights, case.x, lengths=MIXED, training=True)
    assert tuple(result.tape.rows.lengths) == MIXED and result.tape.weights is weights
    assert result.tape.compiled is scan.compiled(training=True)


def count_plans(monkeypatch):
    """A list that grows by one for every plan that is made from now on."""
    made, make = [], engine.make_plan

    def spy(*args, **options):
        made.append(options)
        return make(*args, **options)

    monkeypatch.setattr(engine, "make_plan", spy)
    return made


def test_M19_a_plan_is_made_once_and_serves_every_thread(monkeypatch):
    cell = lambda: LSTMCell(D, 12)  # noqa: E731
    case = cases.draw(cell(), "float64")
    weights, found = Weights(case.params), []
    Scan(cell(), dtype="float64", threads=1).forward(weights, case.x)
    made = count_plans(monkeypatch)

    def work():
        found.append(Scan(cell(), dtype="float64", threads=1).forward(weights, case.x).y)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert made == [] and len(found) == 3
    for y in found[1:]:
        np.testing.assert_array_equal(y, found[0])


def test_M20_what_a_plan_is_kept_by(monkeypatch):
    """Whatever changes a program is in the key; batch, lengths and direction are not, as no program depends on
    them."""
    made = count_plans(monkeypatch)

    def plans(cell, training=True, **options):
        before = len(made)
        Scan(cell, **{"dtype": "float64", **options}).plan(training)
        return len(made) - before

    assert plans(LSTMCell(D, 13)) == 1
    assert plans(LSTMCell(D, 13)) == plans(LSTMCell(D, 13), threads=3) == plans(LSTMCell(D, 13), division="units") == 0
    changes = [
        plans(LSTMCell(D + 1, 13)),
        plans(LSTMCell(D, 14)),
        plans(LSTMCell(D, 13, bias=False)),
        plans(GRUCell(D, 13)),
        plans(LSTMCell(D, 13), training=False),
        plans(LSTMCell(D, 13), dtype="float32"),
        plans(LSTMCell(D, 13), dtype="float32", compute_dtype="bfloat16"),
        plans(LSTMCell(D, 13), recompute="gates"),
        plans(LSTMCell(D, 13), needs=LSTMCell(D, 13).params()),
    ]
    assert changes == [1] * len(changes)
    scan, weights = Scan(LSTMCell(D, 13), dtype="float64"), Weights(cases.draw(LSTMCell(D, 13), "float64").params)
    before = len(made)
    for steps, rows, reverse in ((3, 2, False), (7, 5, True), (1, 1, False)):
        scan.forward(weights, draw(steps, rows, D), training=True, reverse=reverse, lengths=[1] * rows)
    assert len(made) == before


def passes(layer, x, d_y):
    """One training pass."""
    layer.forward(x)
    layer.backward(d_y)


def test_M21_the_second_pass_finds_everything_ready(monkeypatch):
    """No plan is made, and but for the results nothing large is asked of the system."""
    layer, x, d_y = LSTM(D, 64), draw(60, 8, D).astype("f4"), draw(60, 8, 64).astype("f4")
    passes(layer, x, d_y)
    passes(layer, x, d_y)
    made = count_plans(monkeypatch)
    tracemalloc.start()
    passes(layer, x, d_y)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made == [] and most < MEGABYTE
    states, stored = 2 * 61 * 8 * 64 * 4, 5 * 60 * 8 * 64 * 4
    assert states + stored < 2 * MEGABYTE  # what a pass keeps would show


def test_M22_the_reserve_is_the_operator_s_own():
    """Two layers of one kind, their passes interleaved."""
    x, d_y = draw(T, B, D), draw(T, B, H)
    one, two = (layer_of("lstm")[0] for _ in range(2))
    one.forward(x)
    two.forward(5 * x)
    first = one.backward(d_y).d_x
    assert not np.allclose(two.backward(d_y).d_x, first)
    one.forward(x)
    np.testing.assert_array_equal(one.backward(d_y).d_x, first)


def test_M23_the_reserve_is_used_again_also_by_smaller_passes():
    """T, T/2, T: no memory is sought after the first, and no number of one pass is seen in another."""
    layer = LSTM(D, 64)
    sizes = [(60, 8), (30, 8), (60, 8), (45, 3)]
    arrays = [(draw(t, b, D).astype("f4"), draw(t, b, 64).astype("f4")) for t, b in sizes]
    for x, d_y in arrays[:2]:
        passes(layer, x, d_y)
    tracemalloc.start()
    for x, d_y in arrays:
        passes(layer, x, d_y)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < MEGABYTE
    fresh = LSTM(D, 64)
    for x, d_y in arrays:
        layer.forward(x)
        fresh.forward(x)
        np.testing.assert_array_equal(layer.backward(d_y).d_x, fresh.backward(d_y).d_x)


def test_M24_the_reserve_is_released_with_the_operator():
    x, d_y = draw(60, 8, D).astype("f4"), draw(60, 8, 64).astype("f4")
    passes(LSTM(D, 64), x, d_y)
    gc.collect()
    tracemalloc.start()
    layer = LSTM(D, 64)
    passes(layer, x, d_y)
    held, _ = tracemalloc.get_traced_memory()
    del layer
    gc.collect()
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held > 4 * MEGABYTE and left < MEGABYTE


def shapes_of_the_benchmark():
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "_cases.py"
    spec = importlib.util.spec_from_file_location("_cases_of_rows", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module.SHAPES


def test_M25_the_benchmark_has_the_table_s_first_shape():
    shape = shapes_of_the_benchmark()["mxnet"]
    assert (shape.T, shape.N, shape.I, shape.H, shape.layers, shape.bidirectional) == (300, 20, 800, 800, 1, False)


def test_M26_the_benchmark_has_both_readings_of_the_second():
    """The heading says both directions, the caption one: five layers, both ways."""
    shapes = shapes_of_the_benchmark()
    five = [shapes["mxnet5"], shapes["mxnet5bi"]]
    assert [(s.T, s.N, s.I, s.H, s.layers) for s in five] == [(300, 20, 800, 800, 5)] * 2
    assert [s.bidirectional for s in five] == [False, True]


def test_M27_a_reference_stays_that_needs_no_compiler():
    """The interpreter says what is right, in NumPy alone."""
    code = (
        "import sys, numpy as np\nfrom nmt.rnn import LSTMCell, initial_params\n"
        "from nmt.rnn import interpreter\ncell = LSTMCell(2, 3)\n"
        "run = interpreter.forward(cell, initial_params(cell, 0, float), np.ones((4, 1, 2)))\n"
        "interpreter.backward(run, run.y)\nprint('numba' in sys.modules, run.y.shape)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "False (4, 1, 3)\n"


@pytest.mark.parametrize("kind", ["lstm", "gru_reset_before"])
def test_M28_every_path_gives_the_same(kind):
    """Reference, compiled for the processor, compiled for a GPU."""
    case = cases.draw(cases.CELLS[kind](), "float64", (2, 1), rows=2, steps=2)
    result = interpreter.forward(case.cell, case.params, case.x, case.initial, lengths=case.lengths)
    outputs, found, _ = cases.compiled(case)
    all_close(outputs, cases.named(result))
    on_gpu, slopes, _ = cases.compiled(case, device=device_at("cuda"))
    all_close(on_gpu, outputs)
    all_close(slopes, found)
