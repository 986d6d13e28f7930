"""Each operation of nmt/rnn/ops.py alone: the number that it means, and its gradient by differences."""

import math

import numpy as np
import pytest

from nmt.rnn import (
    Captured,
    State,
    dot,
    exp,
    interpreter,
    maximum,
    relu,
    sigmoid,
    softmax,
    softplus,
    sqrt,
    tanh,
    weighted_sum,
)
from nmt.rnn.ops import OPS, OpKind
from tests.rnn.random_cells import Made

# What an operation is of numbers a and b, by the standard library; and the step that applies it.
ELEMENTWISE = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sub": (lambda a, b: a - b, lambda a, b: a - b),
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "div": (lambda a, b: a / b, lambda a, b: a / b),
    "neg": (lambda a, b: -a, lambda a, b: -a),
    "sigmoid": (lambda a, b: 1 / (1 + math.exp(-a)), lambda a, b: sigmoid(a)),
    "tanh": (lambda a, b: math.tanh(a), lambda a, b: tanh(a)),
    "exp": (lambda a, b: math.exp(a), lambda a, b: exp(a)),
    "sqrt": (lambda a, b: math.sqrt(a + 3), lambda a, b: sqrt(a + 3.0)),
    "softplus": (lambda a, b: math.log1p(math.exp(a)), lambda a, b: softplus(a)),
    "maximum": (max, maximum),
    "relu": (lambda a, b: max(a, 0.0), lambda a, b: relu(a)),
}
T, B, WIDTH = 3, 4, 5


def cell_of(step):
    """Return a cell of y = step(x, v) with a parameter v."""

    def whole(p, x, s):
        h = step(x, p.v) + 0.5 * s.h
        return h, State(h=h)

    return Made(whole, params={"v": (WIDTH,)}, states={"h": WIDTH}, input_size=WIDTH, output_size=WIDTH)


def run_of(cell, x, v, **options):
    return interpreter.forward(cell, {"v": v}, x, {"h": np.zeros((x.shape[1], WIDTH))}, **options)


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-2, 2, (T, B, WIDTH)), rng.uniform(0.5, 2, WIDTH)


def test_every_elementwise_operation_with_a_gradient_is_here():
    found = {name for name, op in OPS.items() if op.kind is OpKind.ELEMENTWISE and op.gradient}
    assert found - {"expand"} == set(ELEMENTWISE)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_operation_means_its_number(name):
    number, step = ELEMENTWISE[name]
    x, v = drawn()
    expected, h = np.zeros_like(x), np.zeros((B, WIDTH))
    for t in range(T):
        h = np.array([[number(a, b) for a, b in zip(row, v, strict=True)] for row in x[t].tolist()]) + 0.5 * h
        expected[t] = h
    np.testing.assert_allclose(run_of(cell_of(step), x, v).y, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_the_gradient_of_an_operation_is_its_slope(name):
    cell = cell_of(ELEMENTWISE[name][1])
    x, v = drawn(1)
    d_y = np.random.default_rng(2).standard_normal(x.shape)
    found = interpreter.backward(run_of(cell, x, v), d_y, {"h": np.zeros((B, WIDTH))})
    step = 1e-6
    for array, gradient in ((x, found.x), (v, found.params["v"])):
        for place in np.ndindex(array.shape):
            former, sums = array[place], []
            for change in (step, -step):
                array[place] = former + change
                sums.append(float((run_of(cell, x, v).y * d_y).sum()))
            array[place] = former
            assert gradient[place] == pytest.approx((sums[0] - sums[1]) / (2 * step), rel=1e-6, abs=1e-7)


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
