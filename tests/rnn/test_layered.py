"""Stacks layer by layer, and the layers of a convolutional translator: program and oracle; what leaves the loop."""

from dataclasses import dataclass

import numpy as np
import pytest

from nmt.errors import ShapeError
from nmt.rnn import LSTMCell, Scan, Weights, interpreter
from nmt.rnn.arrays.weights import initial_params
from nmt.rnn.cells import Attention, ConvDecoderLayer, ConvEncoderLayer, ConvEntryCell, ConvMemoryCell, ConvOutputCell
from nmt.rnn.compiler.plan import make_plan
from nmt.rnn.compiler.trace import trace
from nmt.rnn.scan.layered import LayeredScan
from tests.oracle import compare, more_cells
from tests.refusals import refused
from tests.rnn import scan_cases as cases

E, H = 5, 3
LENGTHS, SOURCES = (4, 6, 1, 0, 5), (4, 1, 3, 2, 4)
ENCODER, DECODER = (5, 3), (("bahdanau", 2), ("dot", 3))  # windows of the layers, and how they attend


def encoder_layers():
    layers = [ConvEncoderLayer(H, E, window) for window in ENCODER]
    return [ConvEntryCell(E, H), *layers, ConvMemoryCell(H, E)]


def decoder_layers():
    layers = [ConvDecoderLayer(H, Attention(kind, 2 * E, E, 7, key_size=E), window) for kind, window in DECODER]
    return [ConvEntryCell(E, H), *layers, ConvOutputCell(H, E)]


def of_layer(leaves, n):
    return {name.removeprefix(f"{n}."): value for name, value in leaves.items() if name.startswith(f"{n}.")}


def encode(leaves, row, length):
    """The oracle's encoder of one row."""
    e = leaves["x"][:length, row]
    h = more_cells.entry(of_layer(leaves, 0), e)
    for n, window in enumerate(ENCODER, 1):
        h = more_cells.encoder_layer(of_layer(leaves, n), h, window)
    return more_cells.memory(of_layer(leaves, len(ENCODER) + 1), h, e)


def decode(leaves, row, length):
    """The oracle's decoder of one row."""
    g, source = leaves["x"][:length, row], leaves["memory"][: SOURCES[row], row]
    h = more_cells.entry(of_layer(leaves, 0), g)
    for n, (kind, _) in enumerate(DECODER, 1):
        h = more_cells.decoder_layer(of_layer(leaves, n), h, g, source, kind)
    return more_cells.output(of_layer(leaves, len(DECODER) + 1), h)


@dataclass
class Stack:
    """Layers, their delays and the oracle of a row."""

    layers: list
    delays: list
    oracle: object

    def whole(self, leaves):
        """The oracle's outputs of all rows; zero beyond a row's length."""
        width = self.layers[-1].output_size
        y = np.zeros((max(LENGTHS), len(LENGTHS), width), np.result_type(*leaves.values()))
        for row, length in enumerate(LENGTHS):
            if length:
                y[:length, row] = self.oracle(leaves, row, length)
        return y


STACKS = {
    "encoder": lambda: Stack(encoder_layers(), [0, *(window // 2 for window in ENCODER), 0], encode),
    "decoder": lambda: Stack(decoder_layers(), [0] * (len(DECODER) + 2), decode),
}


def draw(scan):
    """Numbers for all that a layered scan reads, by the oracle's names, and the gradient of its output."""
    case = cases.draw(scan.cell, "float64", LENGTHS, steps=max(LENGTHS))
    for row, length in enumerate(LENGTHS):
        case.x[length:, row] = 0
    return case, {"x": case.x, **case.captured, **case.params}


@pytest.mark.parametrize("name", STACKS)
def test_layers_over_finished_sequences_are_the_paper_s(name):
    """Outputs, and every gradient along a direction, by complex steps of the oracle."""
    stack = STACKS[name]()
    scan = LayeredScan(stack.layers, delays=stack.delays, dtype="float64", threads=1)
    case, leaves = draw(scan)
    sources = {"captured": case.captured, "source_lengths": SOURCES if case.captured else None}
    result = scan.forward(Weights(case.params), case.x, lengths=LENGTHS, **sources, training=True)
    compare.assert_close(result.y, stack.whole(leaves), 1e-12, "y")
    shares = {key: np.zeros_like(p) for key, p in case.params.items()}
    found = scan.backward(result.tape, case.d_y, None, shares)
    shares |= {"x": found.x, **found.captured}
    assert set(shares) == set(leaves)
    cases.hold_to_complex_steps(lambda now: np.sum(stack.whole(now) * case.d_y), leaves, shares)
    plain = scan.forward(Weights(case.params), case.x, lengths=LENGTHS, **sources)
    compare.assert_close(plain.y, result.y, 1e-12, "inference")


def test_one_step_of_all_decoder_layers_is_the_same_decoder():
    """What search runs: their states are windows."""
    stack = STACKS["decoder"]()
    scan = LayeredScan(stack.layers, dtype="float64")
    case, leaves = draw(scan)
    sources = {"captured": case.captured, "source_lengths": SOURCES}
    found = interpreter.forward(scan.cell, case.params, case.x, lengths=LENGTHS, **sources)
    compare.assert_close(found.y, stack.whole(leaves), 1e-12, "y")


def products(program):
    """Names of the weights a program multiplies by, once for each product."""
    return sorted(step.weight.attrs["name"] for step in program.products)


@pytest.mark.parametrize("name", STACKS)
def test_no_product_of_a_layer_is_in_the_loop(name):
    """A convolution's are done at once before it, the other ones behind it; on the way back as well."""
    for cell in STACKS[name]().layers:
        for plan in (Scan(cell).plan(training) for training in (False, True)):
            assert products(plan.forward.loop) == []
            matrices = [k for k, p in cell.params().items() if len(p.shape) == 2 and k != "W_k"]  # keys are constant
            before = products(plan.forward.before)
            assert sorted(before + products(plan.forward.after)) == sorted(matrices)
            assert {k for k in matrices if k[-1].isdigit()} <= set(before)  # the convolution's
        assert products(plan.backward.loop) == []


@pytest.mark.parametrize("name", STACKS)
def test_in_one_loop_they_would_wait_for_the_layer_below(name):
    """The same layers as one step: the second convolution's window is of outputs of the first, which wait for its
    state; unless the windows have loops of their own, which changes no result. What no state waits for may still be
    done behind the loop."""
    cell = LayeredScan(STACKS[name]().layers).cell
    windows = {f"2.{'cell.' * (name == 'decoder')}W_{k}" for k in (1, 2)}
    together, apart = (make_plan(trace(cell, training=True), training=True, loops_apart=own) for own in (False, True))
    assert windows <= set(products(together.forward.loop))
    assert windows.isdisjoint(products(apart.forward.loop))
    for lengths, reverse in ((None, False), (cases.LENGTHS["zeros"], True)):
        cases.agreeing(cases.draw(cell, "float64", lengths), reverse=reverse)


def test_what_is_kept_is_named_as_in_the_stack():
    cells = [LSTMCell(3, 4), LSTMCell(4, 5)]
    scan = LayeredScan(cells, keep={"1.o": False})
    assert [one.keep for one in scan.scans] == [(), (("o", False),)]
    refused(ShapeError, r"^StackCell: keep must name values .* 0\.i, .* got o$", LayeredScan, cells, keep={"o": False})


def test_captured_arrays_must_be_those_of_the_layers():
    scan = LayeredScan([LSTMCell(3, 4), LSTMCell(4, 5)])
    weights = Weights({k: np.zeros(p.shape, np.float32) for k, p in scan.params.items()})
    x, promise = np.zeros((2, 1, 3), np.float32), r"captured arrays must be none, got \['memory'\]$"
    refused(ShapeError, promise, scan.forward, weights, x, captured={"memory": x})


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
