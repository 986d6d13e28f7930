"""States with named axes: what a step may write, slots, checkpoints; and each operation of ops.py by differences."""

import math

import numpy as np
import pytest

from nmt.errors import NMTError, ShapeError
from nmt.rnn import Axes, Captured, Param, Scan, State, Weights, interpreter, softmax, tuning, weighted_sum
from nmt.rnn.cells import GRUCell, HeadsCell, LinearAttentionCell, LSTMCell, MLSTMCell, ZoneoutCell
from nmt.rnn.devices import cpu
from nmt.rnn.functions import axes, concat, dot, flat, maximum, mean, sigmoid, softplus, split, tanh, total
from tests.oracle import compare
from tests.refusals import refused
from tests.rnn import product_cases as products
from tests.rnn import scan_cases as cases
from tests.rnn.random_cells import Made

D, H = cases.D, 6
EVERY = tuning.CHECKPOINT_STEPS


def written(step):
    """Return a cell around one step, with a parameter of each kind."""
    params = {"W": Param((D, 2 * H), gates=2), "U": Param((H, H)), "u": Param((H,)), "a": Param((3,))}
    params["k"] = Param((2,), start=(0.25, 0.5))
    states = {"S": Axes(h=2, k=2, v=3), "n": Axes(h=2, v=3)}
    return Made(step, params=params, states=states, input_size=D, output_size=H)


def everything(p, x, s):
    """Sums over the first, a middle and the last axis; axes that a value lacks, of parameters too; views of views."""
    z, g = split(x @ p.W, 2)
    a = axes(z, h=2, v=3)
    decay = sigmoid(axes(p.k, k=2) + total(s.S, "v") * 0.1)  # [h, k]
    column = tanh(total(a, "h") + axes(p.a, v=3))  # [v]
    S = decay * s.S + axes(p.k, h=2) * (a * column)
    n = sigmoid(mean(p.u)) * s.n + sigmoid(axes(p.u, h=2, v=3)) * total(S, "k") - total(total(a, "v"), "h") * 0.1
    y = flat(n * axes(p.u, h=2, v=3))
    first, last = split(y, 2)
    return (concat(last, first) * g + flat(axes(tanh(y), h=2, v=3) * n)) @ p.U, State(S=S, n=n)


def product_of_state(p, x, s):
    """A product of the state, so that no row can run by itself."""
    z, g = split(x @ p.W, 2)
    a = axes(tanh(z + flat(total(s.S, "k")) @ p.U), h=2, v=3)
    S = sigmoid(axes(p.k, k=2)) * s.S + a
    return flat(a + s.n) * g, State(S=S, n=0.5 * s.n + a)


def whole_state(p, x, s):
    """A product after the loop that reads a state as it is; and a value that need not be kept."""
    z, g = split(x @ p.W, 2)
    n = 0.5 * s.n + axes(z, h=2, v=3)
    gate = tanh(total(s.S, "k"))
    p.note(gate=gate)
    return (flat(n) @ p.U) * g + flat(gate), State(S=0.9 * s.S + n * gate, n=n)


def flat_results(p, x, s):
    """An output that is a state with its axes as one. The way back reads x @ W only where it computes states again."""
    n = 0.5 * s.n + axes(split(x @ p.W, 2)[0], h=2, v=3)
    return flat(n), State(S=0.9 * s.S + n * axes(p.k, k=2), n=n)


def flat_of_product(p, x, s):
    """Outputs that are products and sums with their axes as one."""
    z, g = split(x @ p.W, 2)
    n = 0.5 * s.n + axes(g @ p.U, h=2, v=3)
    p.note(sum=flat(total(s.S, "k") + n))
    return flat(axes(z @ p.U, h=2, v=3)), State(S=0.9 * s.S + n, n=n)


def flat_in_parts(p, x, s):
    """An output that is put together of parts with their axes as one."""
    n = 0.5 * s.n + axes(split(x @ p.W, 2)[0], h=2, v=3)
    first = total(n, "h")
    return concat(flat(first), flat(first * axes(p.a, v=3))), State(S=0.9 * s.S + n, n=n)


def other_heads(p, x, s):
    """Every head reads the matrix that the second one has just got, and a sum over the heads."""
    z, g = split(x @ p.W, 2)
    S = 0.9 * s.S + axes(z, h=2, v=3) * axes(p.k, k=2)
    second = axes(split(flat(S), 2)[1], h=2, v=3)
    n = 0.5 * s.n + second * sigmoid(total(tanh(second), "h"))
    return flat(n) * g, State(S=S, n=n)


@pytest.mark.parametrize(
    "step", [everything, product_of_state, whole_state, flat_results, flat_of_product, flat_in_parts, other_heads]
)
@pytest.mark.parametrize("reverse", [False, True])
def test_what_a_step_may_write_is_what_is_computed(step, reverse):
    for lengths in ("full", "mixed", "zeros"):
        case = cases.draw(written(step), "float64", cases.LENGTHS[lengths])
        keep = {"keep": {"gate": True}} if step is whole_state else {}
        for options in ({}, {"recompute": "gates"}, keep):
            cases.agreeing(case, reverse=reverse, **options)
        expected, _ = cases.interpreted(case, {}, reverse=reverse)
        compare.assert_all_close(cases.inferred(case, reverse=reverse), expected)


@pytest.mark.parametrize("steps", [1, EVERY - 1, EVERY, EVERY + 1, 3 * EVERY + 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_checkpoints_change_nothing(steps, reverse, monkeypatch):
    """Around a whole number of checkpoints, in blocks of time, for rows that end anywhere and on threads."""
    lengths = tuple(min(n, steps) for n in (steps, 0, EVERY, EVERY + 1, steps // 2, 1))
    for make in (lambda: MLSTMCell(D, H, heads=2, key_size=2), lambda: written(everything)):
        case = cases.draw(make(), "float64", lengths, rows=6, steps=steps)
        outputs, gradients, _ = found = cases.agreeing(case, reverse=reverse)
        for threads in (2, 3):
            cases.assert_same_run(cases.compiled(case, reverse=reverse, threads=threads), found)
        with monkeypatch.context() as patch:
            patch.setattr(tuning, "BLOCK_ROWS", 6 * 4)  # 4 steps, which become a whole checkpoint's
            blocks = cases.compiled(case, reverse=reverse)
            compare.assert_same_bits(blocks[0], outputs)
            compare.assert_all_close(blocks[1], gradients, 1e-12)


def test_products_in_bfloat16_leave_states_in_float32(monkeypatch):
    case = cases.draw(LinearAttentionCell(D, 32, heads=2, delta=True, decay="head"), "float32", steps=40)
    products.round_products(monkeypatch)
    expected = cases.interpreted(case, {})
    outputs, gradients, _ = cases.compiled(case, compute_dtype="bfloat16")
    assert outputs["final S"].dtype == np.float32
    for name, value in (expected[0] | expected[1]).items():
        assert compare.norm_error((outputs | gradients)[name], value) < compare.BFLOAT16_TOLERANCE, name


def test_dropout_of_a_matrix():
    """Of a value of the step, and of states by zoneout."""

    def step(p, x, s):
        y, new = everything(p, x, s)
        return p.dropout(y, 0.3), State(new, S=p.dropout(new.S, 0.4, variational=True))

    for cell in (written(step), ZoneoutCell(MLSTMCell(D, H, heads=2, key_size=2), {"C": 0.4, "n": 0.2})):
        cases.agreeing(cases.draw(cell, "float64", cases.LENGTHS["mixed"]))


# ------------------------------------------------------------ memory


def stacks(scan, training):
    """The states of which every step is kept."""
    return {name for name in scan.states if name not in scan.plan(training).slots}


def test_which_states_have_a_stack():
    """In inference none that has axes; in training those of a loop with a product, and where gates are recomputed."""
    plain, product = written(everything), written(product_of_state)
    assert stacks(Scan(plain), False) == stacks(Scan(product), False) == set()
    assert stacks(Scan(plain), True) == set()
    assert stacks(Scan(plain, recompute="gates"), True) == stacks(Scan(product), True) == {"S", "n"}
    assert stacks(Scan(written(whole_state)), True) == {"S", "n"}
    window = LinearAttentionCell(D, H, heads=2, window=3)
    assert stacks(Scan(window), True) == {"past1", "past2"}


def test_nothing_as_large_as_a_broadcast_value_is_kept():
    plan = Scan(written(everything)).plan(True)
    kept = [plan.trace.graph.values[i] for i in plan.memory.kept]
    assert kept and all(v.dims in ((), (("h", 2), ("k", 2)), (("h", 2), ("v", 3)), (("v", 3),)) for v in kept)


# ------------------------------------------------------------ heads


def test_heads_are_cells_side_by_side():
    case = cases.draw(HeadsCell(LSTMCell, D, H, 3), "float64", cases.LENGTHS["mixed"])
    outputs, _, _ = cases.agreeing(case)
    for n in range(3):
        own = {k.removeprefix(f"{n}."): v for k, v in case.params.items() if k.startswith(f"{n}.")}
        start = {k: case.initial[f"{n}.{k}"] for k in "hc"}
        scan = Scan(LSTMCell(D, 2), dtype="float64", threads=1)
        alone = scan.forward(Weights(own), case.x, start, lengths=case.lengths)
        compare.assert_all_close({"y": outputs["y"][..., 2 * n : 2 * n + 2]}, {"y": alone.y})
    refused(ShapeError, "HeadsCell: heads must divide hidden_size 6, got 4", HeadsCell, GRUCell, D, H, 4)


# ------------------------------------------------------------ errors


WRONG = {
    "axes(z, h=5)": "axes: the value must have a width that is the product of h=5, got a width of 12",
    "axes(z, v=6, h=2)": "axes: must have the order h v, as elsewhere in the step, got v=6 h=2",
    "axes(axes(z, h=12), h=3, k=4)": "axes: the value must have a width that is the product of h=3 k=4, got h=12",
    "axes(z, h=0, k=2)": "axes: sizes must be whole numbers of at least 1, got h=0 k=2",
    "axes(z)": "axes: sizes must be whole numbers of at least 1, got none",
    "s.S + axes(z, h=4, v=3)": "add: axis h must have one size, got 2 and 4",
    "s.S * x": "mul: the features of both must have named axes, got h=2 k=2 v=3 and a width of 5; use axes",
    "total(s.S, 'g')": "total: the value must have the axis g, got h=2 k=2 v=3",
    "total(x, 'h')": "total: the value must have the axis h, got no named axes",
    "mean(s.S)": "sum_last: the value must have one feature axis, got h=2 k=2 v=3; use total",
    "dot(s.n, s.n)": "sum_last: the value must have one feature axis, got h=2 v=3; use total",
    "split(s.n, 2)": "slice: the value must have one feature axis, got h=2 v=3; use flat",
    "concat(s.n, x)": "concat: every part must have a feature axis, got h=2 v=3; use flat",
    "p.dropout(mean(x), 0.5)": "dropout: the value must have a feature axis, got one number per row",
}


@pytest.mark.parametrize("text", WRONG)
def test_an_error_says_what_to_do(text):
    names = {"axes": axes, "total": total, "mean": mean, "dot": dot, "split": split, "concat": concat}

    def step(p, x, s):
        z = x @ p.W
        return eval(text, names, {"p": p, "x": x, "s": s, "z": z}), s

    assert WRONG[text] in refused(ShapeError, "", Scan, written(step))


def test_results_of_a_step_have_the_declared_axes():
    other = written(lambda p, x, s: (split(x @ p.W, 2)[0], State(S=s.S, n=flat(s.n))))
    refused(ShapeError, r"state n must be \[B, h=2 v=3\], got \[B, 6\] \(", Scan, other)
    other = written(lambda p, x, s: (s.n, s))
    refused(ShapeError, r"output must be \[B, 6\], got \[B, h=2 v=3\]; use flat \(", Scan, other)
    case, start = cases.draw(written(everything), "float32"), {"S": np.zeros((5, 12), "f4")}
    refused(ShapeError, "initial S must be .*2, 2, 3", Scan(case.cell).forward, Weights(case.params), case.x, start)


def test_a_gpu_refuses_in_a_line():
    class Elsewhere(type(cpu())):
        name, is_cpu = "cuda", False

    message = refused(NMTError, "", Scan, MLSTMCell(D, H), device=Elsewhere())
    assert message == (
        "MLSTMCell: device must be cpu for a step with named axes, got cuda; there are no kernels of a GPU for them, "
        "use --device cpu"
    )


T, B, WIDTH = 3, 4, 5


def cell_of(step):
    """Return a cell of y = step(x, v) with a parameter v."""

    def whole(p, x, s):
        h = step(x, p.v) + 0.5 * s.h
        return h, State(h=h)

    return Made(whole, params={"v": (WIDTH,)}, states={"h": WIDTH}, input_size=WIDTH, output_size=WIDTH)


def run_of(cell, x, v, **options):
    return interpreter.forward(cell, {"v": v}, x, {"h": np.zeros((x.shape[1], WIDTH))}, **options)


def test_of_two_equal_numbers_the_second_has_the_gradient():
    cell = cell_of(maximum)
    x, v = np.ones((1, 1, WIDTH)), np.ones(WIDTH)
    found = interpreter.backward(run_of(cell, x, v), np.ones((1, 1, WIDTH)), {"h": np.zeros((1, WIDTH))})
    assert found.x.tolist() == [[[0.0] * WIDTH]] and found.params["v"].tolist() == [1.0] * WIDTH


@pytest.mark.parametrize("size", [-800.0, 800.0])
def test_large_numbers_do_not_overflow(size):
    x, v = np.full((1, 1, WIDTH), size), np.ones(WIDTH)
    with np.errstate(over="raise", invalid="raise"):
        assert run_of(cell_of(lambda a, b: softplus(a)), x, v).y[0, 0, 0] == max(size, 0.0)
        assert run_of(cell_of(lambda a, b: sigmoid(a)), x, v).y[0, 0, 0] == float(size > 0)


@pytest.mark.parametrize("shift", [0.0, 900.0, -900.0])
def test_softmax_is_a_mean_over_real_positions_whatever_is_added(shift):
    """A row without any position has the sum 0."""
    lengths, rng = np.array([3, 1, 0]), np.random.default_rng(3)
    scores, values = rng.standard_normal((4, 3)) + shift, rng.standard_normal((4, 3, WIDTH))
    first = np.eye(1, WIDTH)

    def step(p, x, s):
        h = weighted_sum(softmax(dot(p.keys, x)), p.values) + 0.0 * s.h
        return h, State(h=h)

    captured = {"keys": Captured(WIDTH), "values": Captured(WIDTH)}
    cell = Made(step, states={"h": WIDTH}, captured=captured, input_size=WIDTH, output_size=WIDTH)
    found = interpreter.forward(
        cell, {}, np.broadcast_to(first, (1, 3, WIDTH)), {"h": np.zeros((3, WIDTH))},
        captured={"keys": scores[..., None] * first, "values": values}, source_lengths=lengths,
    ).y[0]  # fmt: skip
    for row, length in enumerate(lengths):
        weights = [math.exp(score - shift) for score in scores[:length, row]]
        expected = sum((w * value for w, value in zip(weights, values[:, row], strict=False)), np.zeros(WIDTH))
        np.testing.assert_allclose(found[row], expected / (sum(weights) or 1.0), rtol=1e-10, atol=1e-12)
