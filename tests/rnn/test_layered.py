"""Stacks layer by layer, and what leaves the loop."""

import numpy as np
import pytest

from nmt.errors import ShapeError
from nmt.rnn import LSTMCell, Scan, Weights
from nmt.rnn.arrays.weights import initial_params
from nmt.rnn.cells import ConvolutionCell, ResidualCell, StackCell
from nmt.rnn.compiler.plan import make_plan
from nmt.rnn.compiler.program import Product
from nmt.rnn.compiler.trace import trace
from nmt.rnn.scan.layered import LayeredScan
from tests.oracle import compare
from tests.rnn import scan_cases as cases

E, H = 5, 3
LENGTHS = (4, 6, 1, 0, 5)


def stack():
    """A convolution, whose state is a window of its input, and another one above it."""
    return [ConvolutionCell(E, H), ResidualCell(ConvolutionCell(H, H))]


def test_layers_over_finished_sequences_are_the_stack_of_them():
    scan, one = LayeredScan(stack(), dtype="float64", threads=1), Scan(StackCell(stack()), dtype="float64", threads=1)
    case = cases.draw(scan.cell, "float64", LENGTHS, steps=max(LENGTHS))
    runs = []
    for each in (scan, one):
        result = each.forward(Weights(case.params), case.x, lengths=LENGTHS, training=True)
        shares = {key: np.zeros_like(p) for key, p in case.params.items()}
        found = each.backward(result.tape, case.d_y, None, shares)
        runs.append({"y": result.y, "x": found.x} | shares)
    for key, value in runs[1].items():
        compare.assert_close(runs[0][key], value, 1e-12, key)


def products(program):
    """Names of the weights a program multiplies by, once for each product."""
    return sorted(step.weight.attrs["name"] for step in program.steps if isinstance(step, Product))


def test_in_one_loop_a_layer_would_wait_for_the_one_below():
    """The second convolution's window is of outputs of the first, which wait for its state; unless the windows have
    loops of their own, which changes no result."""
    cell = StackCell(stack())
    windows = {f"1.W_{k}" for k in (1, 2)}
    together, apart = (make_plan(trace(cell, training=True), training=True, loops_apart=own) for own in (False, True))
    assert windows <= set(products(together.forward.loop))
    assert windows.isdisjoint(products(apart.forward.loop))
    for lengths, reverse in ((None, False), (cases.LENGTHS["zeros"], True)):
        case = cases.draw(cell, "float64", lengths)
        found = cases.compiled(case, reverse=reverse)
        for got, expected in zip(found[:2], cases.interpreted(case, {}, reverse=reverse), strict=True):
            for key, value in expected.items():
                compare.assert_close(got[key], value, 1e-9, key)


def test_what_is_kept_is_named_as_in_the_stack():
    scan = LayeredScan([LSTMCell(3, 4), LSTMCell(4, 5)], keep={"1.o": False})
    assert [one.keep for one in scan.scans] == [(), (("o", False),)]
    with pytest.raises(ShapeError, match=r"^StackCell: keep must name values .* 0\.i, .* got o$"):
        LayeredScan([LSTMCell(3, 4), LSTMCell(4, 5)], keep={"o": False})


def test_captured_arrays_must_be_those_of_the_layers():
    scan = LayeredScan([LSTMCell(3, 4), LSTMCell(4, 5)])
    weights = Weights({k: np.zeros(p.shape, np.float32) for k, p in scan.params.items()})
    with pytest.raises(ShapeError, match=r"captured arrays must be none, got \['memory'\]$"):
        scan.forward(weights, np.zeros((2, 1, 3), np.float32), captured={"memory": np.zeros((2, 1, 4), np.float32)})


def test_only_the_states_that_are_asked_for():
    """A stack gives the final states and the gradients of initial states that are named, with the same bits."""
    cells = [LSTMCell(5, 4), LSTMCell(4, 3)]
    scan = LayeredScan(cells, threads=1)
    weights, x = Weights(initial_params(scan.cell, 1)), np.random.default_rng(0).standard_normal((3, 2, 5))
    runs = []
    for final, initial in ((None, None), (["1.h"], ["0.c", "1.h"]), ((), ())):
        result = scan.forward(weights, x.astype(np.float32), training=True, final=final)
        found = scan.backward(result.tape, np.ones_like(result.y), initial=initial)
        runs.append((result.final, found.initial))
    for part, names in ((0, ["1.h"]), (1, ["0.c", "1.h"])):
        whole, some, none = (run[part] for run in runs)
        assert set(whole) == {"0.h", "0.c", "1.h", "1.c"} and set(some) == set(names) and not none
        for name in names:
            np.testing.assert_array_equal(some[name], whole[name])
