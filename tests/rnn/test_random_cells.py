"""The compiler computes what a step means, whatever the step, or refuses it in one line."""

import dataclasses

import numpy as np
import pytest

from nmt.errors import ShapeError
from nmt.rnn import Axes, Captured, Scan, State, Weights, ops
from nmt.rnn.cells import LayerNormLSTMCell
from nmt.rnn.functions import axes, concat, dot, flat, mean, sigmoid, softmax, split, tanh, total, weighted_sum
from nmt.rnn.scan.layered import LayeredScan
from nmt.rnn.stepping.stepper import Stepper
from tests.refusals import refused
from tests.rnn.random_cells import Made, check, random_axes_cell, random_cell

FIXED = {"f": Captured(3, source_axis=False)}
MEMORY = {"memory": Captured(4)}


def context(p, x, s):
    v = weighted_sum(softmax(dot(p.memory, s.h @ p.Q)), p.memory)
    h = tanh(v @ p.B + x @ p.U)
    return h, State(seen=tanh(v), h=h)


def scores_read_later(p, x, s):
    scores = dot(p.memory, s.h) * 0.5
    v = weighted_sum(softmax(scores), p.memory) @ p.Q
    h = tanh(weighted_sum(scores, p.memory * v) + x @ p.U)
    return h, State(h=h)


def delay(p, x, s):
    h, before = split(s.m, 2)
    h = tanh(x @ p.U + h @ p.Q + before)
    return h, State(m=concat(h, x @ p.Z))


def row_gate(p, x, s):
    g = sigmoid(dot(x, p.v))
    h = (1 - g) * s.h + mean(s.h) * tanh((g * x) @ p.U)
    return h, State(h=h)


def lasting_dropout(p, x, s):
    h = tanh(x @ p.U + s.h @ p.Q + p.dropout(p.f, 0.3, variational=True) @ p.U)
    return h, State(h=h)


def vectors(p, x, s):
    h = tanh(concat(x, p.v) @ p.J + p.v @ p.U + s.h * 0.0)
    return h, State(h=h)


def still(p, x, s):
    return p.f @ p.U, State(c=tanh(p.f @ p.U), h=tanh(x @ p.U + s.h + s.c))


def names(p, x, s):
    a = tanh(x @ p["K_shared0"] + s["in.h"] * p["in.h"])
    b = tanh(s["in_h"] @ p.Q + s["s3"] + p["invariant0"] @ p["K_shared0"])
    return a + b, State(
        {"in.h": a, "in_h": b, "s3": a * b, "y": s["y"] - s["x"] @ p.Q, "x": s["größe 'x'"] * a, "größe 'x'": b}
    )


def matrices_in_turn(p, x, s):
    """Matrix states that become others as they are, stay, or come again as a vector."""
    S = tanh(axes(x @ p.U, k=2, v=2) + s.S * 0.5 + s.before * s.stays)
    return flat(S), State(S=S, last=s.S, before=s.last, stays=s.stays, row=flat(s.S))


def part_across_heads(p, x, s):
    """Half of a matrix for each of two heads, read as a number for each row of all of them."""
    half, _ = split(flat(tanh(s.S)), 2)
    S = tanh(axes(half, h=2, k=2) * 3.0 + s.S + axes(x @ p.U, h=2, k=2))
    return flat(total(S, "v")), State(S=S)


UQ = {"U": (3, 4), "Q": (4, 4)}
STEPS = {
    "context": (context, {**UQ, "B": (4, 4)}, {"seen": 4, "h": 4}, MEMORY),
    "scores_read_later": (scores_read_later, UQ, {"h": 4}, MEMORY),
    "delay": (delay, {**UQ, "Z": (3, 4)}, {"m": 8}, {}),
    "row_gate": (row_gate, {**UQ, "v": (3,)}, {"h": 4}, {}),
    "lasting_dropout": (lasting_dropout, UQ, {"h": 4}, FIXED),
    "vectors": (vectors, {"U": (3, 4), "v": (3,), "J": (6, 4)}, {"h": 4}, {}),
    "still": (still, UQ, {"h": 4, "c": 4}, FIXED),
    "matrices_in_turn": (
        matrices_in_turn, UQ, dict.fromkeys(("S", "last", "before", "stays"), Axes(k=2, v=2)) | {"row": 4}, {}
    ),
    "part_across_heads": (part_across_heads, UQ, {"S": Axes(h=2, k=2, v=2)}, {}),
    "names": (
        names, {"K_shared0": (3, 4), "Q": (4, 4), "in.h": (4,)},
        dict.fromkeys(("in.h", "in_h", "s3", "y", "x", "größe 'x'"), 4), {"invariant0": FIXED["f"]},
    ),
}  # fmt: skip


def check_step(name, device=None):
    step, params, states, captured = STEPS[name]
    check(Made(step, params=params, states=states, captured=captured), device)


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_computed_as_it_is_written(name):
    check_step(name)


@pytest.mark.parametrize("seed", [0, 6, 33, 43, 54])
def test_random_cells_are_computed_as_they_are_written(seed):
    check(random_cell(seed))


@pytest.mark.parametrize("seed", [0, 1, 7, 13, 15])
def test_random_cells_with_named_axes_are_computed_as_they_are_written(seed):
    """Of these, the loops over heads of all but the second would compute something else as one loop."""
    check(random_axes_cell(seed))


def test_what_would_be_kept_for_every_position_and_step_is_refused():
    def step(p, x, s):
        weights = softmax(p.memory * s.h)
        v = weighted_sum(weights, p.memory) @ p.Q
        h = weighted_sum(weights, p.memory * v)
        return h, State(h=h)

    cell = Made(step, params=UQ, states={"h": 4}, captured=MEMORY)
    refused(ShapeError, "would need a buffer of its own for every source position", Scan(cell).plan, False)


@pytest.mark.parametrize(("params", "captured"), [({"x": (4,)}, {}), ({"f": (4,)}, FIXED), ({}, {"x": FIXED["f"]})])
def test_what_a_step_reads_by_name_has_names_of_its_own(params, captured):
    cell = Made(lambda p, x, s: (s.h, s), params=params, states={"h": 4}, captured=captured)
    refused(ShapeError, "must have different names, got '[xf]' twice", Scan, cell)


def test_a_value_noted_under_the_name_of_the_output_cannot_be_recorded():
    def step(p, x, s):
        p.note(y=s.h)
        return s.h, s

    promise = "record must name noted values other than the output y"
    refused(ShapeError, promise, Scan, Made(step, states={"h": 4}), record=["y"])


def test_the_gradient_of_what_a_step_does_not_read_is_zero():
    cell = Made(lambda p, x, s: (tanh(s.h + 1), State(h=tanh(s.h + 1))), states={"h": 4}, captured=FIXED)
    scan, x = Scan(cell, threads=1), np.ones((3, 2, 3), np.float32)
    result = scan.forward(Weights({}), x, captured={"f": x[0]}, training=True)
    found = scan.backward(result.tape, np.ones_like(result.y))
    assert found.x.shape == x.shape and not found.x.any()
    assert found.captured["f"].shape == (2, 3) and not found.captured["f"].any()
    layers = LayeredScan([Made(lambda p, x, s: (x, s), output_size=3), Made(cell._step, states={"h": 4})], threads=1)
    result = layers.forward(Weights({}), x, training=True)
    assert not layers.backward(result.tape, np.ones_like(result.y)).x.any()
    without = Scan(cell, threads=1, needs=[])
    result = without.forward(Weights({}), x, captured={"f": x[0]}, training=True)
    assert without.backward(result.tape, np.ones_like(result.y)).x is None


def doubled(v, change=lambda v: v - 1e-4 * v * v):
    """A value after many changes, each of which reads the one before more than once."""
    for _ in range(40):
        v = change(v)
    return v


def doubled_states(p, x, s):
    h = doubled(x @ p.U + s.h)
    return h, State(h=h)


def doubled_activations(p, x, s):
    h = doubled(x @ p.U + s.h, lambda v: v - 1e-4 * v * tanh(v))
    return h, State(h=h)


def doubled_matrices(p, x, s):
    m = doubled(s.m + axes(tanh(x @ p.U), k=4))
    return total(m, "k") @ p.q, State(m=m)


def doubled_positions(p, x, s):
    memory = doubled(p.memory * s.h)
    h = tanh(weighted_sum(softmax(dot(memory, s.h)), memory)) + x @ p.U
    return h, State(h=h)


def doubled_sums(p, x, s):
    f = doubled(p.f * 0.5**40, lambda v: v + v)
    h = tanh(x @ p.U + s.h + f @ p.U)
    return h, State(h=h)


@pytest.mark.parametrize("recompute", ["attention", "gates"])
@pytest.mark.parametrize(
    ("step", "more"),
    [
        (doubled_states, {}),
        (doubled_activations, {}),
        (doubled_matrices, {"params": {"U": (3, 4), "q": (3, 4)}, "states": {"m": Axes(k=4, v=3)}}),
        (doubled_positions, {"captured": MEMORY}),
        (doubled_sums, {"captured": FIXED}),
    ],
)
def test_a_value_that_is_read_more_than_once_is_looked_at_once(step, more, recompute):
    """There are 3 ** 40 ways from the last of such values to the first."""
    check(Made(step, **{"params": {"U": (3, 4)}, "states": {"h": 4}} | more), recompute=recompute)


@pytest.mark.parametrize("width", [8, 15])
def test_normalised_rows_have_the_same_bits_in_any_batch(width):
    """The sums of a normalisation run in the loop that writes the memory. Whether its old slot was thought to overlap
    the new one depended on how far apart they lay, and so on the number of rows."""
    rng = np.random.default_rng(0)
    cell = LayerNormLSTMCell(width, width)
    scan = Scan(cell, threads=1)
    weights = Weights({k: rng.normal(size=p.shape).astype(np.float32) for k, p in cell.params().items()})
    x = rng.normal(size=(4, 9, width)).astype(np.float32)
    states = {k: rng.normal(size=(9, n)).astype(np.float32) for k, n in cell.states().items()}
    whole, stepper = scan.forward(weights, x).y, Stepper(scan, weights)
    stepped = stepper.step(x[0], states)[0].copy()
    for rows in range(1, 9):
        alone = scan.forward(weights, np.ascontiguousarray(x[:, :rows])).y
        assert alone.tobytes() == np.ascontiguousarray(whole[:, :rows]).tobytes()
        y, _ = stepper.step(x[0][:rows], {k: a[:rows] for k, a in states.items()})
        assert y.tobytes() == stepped[:rows].tobytes()


def test_a_planted_gradient_is_found_by_differences(monkeypatch):
    right = ops.OPS["tanh"]
    wrong = dataclasses.replace(right, gradient=lambda g, v: [g * (1 - v)])
    monkeypatch.setitem(ops.OPS, "tanh", wrong)
    with pytest.raises(AssertionError, match="gradients by differences"):
        for seed in range(990_001, 990_005):  # no other test's: compiled programs are kept
            check(random_cell(seed))
