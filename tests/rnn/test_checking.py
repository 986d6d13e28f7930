"""`nmt.rnn.check` says what is wrong; that it says what is right is shown by docs/add-a-cell.md and its test. And a
cell that is edited is another cell, however it was edited: what a notebook does to classes, methods, helpers and
constants. Against the interpreter, which traces anew whenever it is asked."""

import functools
import gc
import weakref

import numpy as np
import pytest

from nmt.rnn import Cell, Param, Scan, State, check, check_cell, exp, tanh
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.cells import DropoutCell, ResidualCell, StackCell
from nmt.rnn.compiler import identity
from nmt.rnn.graph import Graph
from nmt.rnn.kernels.loops import emit_cpu
from nmt.rnn.scan.scan_setup import compile_step
from tests.rnn import scan_cases as cases


class Fickle(Cell):
    """Its step is another one each time that it is traced, so the program is not what the step says."""

    factor = 1.0

    def __init__(self, input_size, hidden_size):
        self.input_size = self.output_size = hidden_size

    def params(self):
        return {"u": Param((self.output_size,))}

    def states(self):
        return {"h": self.output_size}

    def step(self, p, x, s):
        Fickle.factor *= 1.5
        h = tanh(x + Fickle.factor * p.u * s.h)
        return h, State(h=h)


def test_a_program_that_is_not_the_step_is_found(capsys, monkeypatch):
    monkeypatch.setattr(check_cell, "_check_numbers", lambda cell: None)  # which would notice it first
    assert not check(Fickle)
    printed = capsys.readouterr().out
    assert "WRONG program = interpreter, all steps" in printed
    assert printed.rstrip().splitlines()[-1].startswith("Fickle: ") and "do not hold" in printed


class Growing(Fickle):
    """Its numbers overflow, whoever computes them."""

    def step(self, p, x, s):
        h = exp(100.0 * (x + p.u * s.h))
        return h, State(h=h)


class Steep(Fickle):
    """Its numbers are finite, and the product of a slope of zero and one of infinity is not."""

    def step(self, p, x, s):
        h = tanh(exp(1000.0 * (x + p.u * s.h)))
        return h, State(h=h)


class Narrow(Fickle):
    """Its step does not fit its states."""

    def states(self):
        return {"h": self.output_size - 1}


class LowRank(Cell):
    """Its recurrent product has two factors; the second reads what all threads have written of the first."""

    def __init__(self, input_size, hidden_size):
        self.input_size = self.output_size = self.hidden_size = hidden_size

    def params(self):
        H = self.hidden_size
        return {"U": Param((H, H)), "V": Param((H, H))}

    def states(self):
        return {"h": self.hidden_size}

    def step(self, p, x, s):
        h = tanh(x + s.h @ p.U @ p.V)
        return h, State(h=h)


def test_a_race_between_threads_is_found(capsys, monkeypatch):
    assert check(LowRank)
    between_kinds = emit_cpu._FunctionWriter._steps_before_barriers
    monkeypatch.setattr(emit_cpu._FunctionWriter, "_steps_before_barriers", lambda self: between_kinds(self) - {0})
    capsys.readouterr()
    assert not check(type("Unmet", (LowRank,), {}))  # another class, because the program of the first is kept
    wrong = [line for line in capsys.readouterr().out.splitlines() if "WRONG" in line]
    assert len(wrong) == 1 and "two threads dividing units" in wrong[0]


class Matrix(LowRank):
    """Its step takes a matrix for a vector."""

    def step(self, p, x, s):
        h = tanh(x + s.h * p.U)
        return h, State(h=h)


FINITE = "must compute finite numbers from those of a normal distribution, got inf or nan in"


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (Fickle, "Fickle.step: must compute the same twice, got other numbers of y"),
        (Growing, f"{FINITE} y; "),
        (Steep, f"{FINITE} the gradient of x; "),
        (Narrow, "widths must be equal"),
        (Matrix, "got the matrix parameter U [7, 7]; multiply by it, x @ p.U, or declare a vector"),
    ],
)
def test_a_step_that_is_wrong_is_one_line(capsys, monkeypatch, recwarn, cell, words):
    monkeypatch.setattr(Fickle, "factor", 1.0)
    assert not check(cell)
    printed = capsys.readouterr().out
    assert words in printed and printed.count("\n") == 1 and not recwarn.list


class Idle(LowRank):
    """Its step forgets a parameter."""

    def step(self, p, x, s):
        h = tanh(x + s.h @ p.U)
        return h, State(h=h)


def test_a_parameter_that_nothing_reads_is_found(capsys):
    assert not check(Idle)
    assert "WRONG every parameter has a gradient, but V" in capsys.readouterr().out


def test_nan_never_passes():
    found, expected = {"y": np.array([np.nan])}, {"y": np.ones(1)}
    error = check_cell._difference(found, expected)
    assert not check_cell.Finding("x", error, 1e9).passed


D, H, T, B = 3, 4, 3, 2

SOURCE = """
from nmt.rnn import Cell, Param, State, exp, relu, sigmoid, tanh

class MyCell(Cell):
    def __init__(self, input_size, hidden_size):
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size

    def params(self):
        return {"W": Param((self.input_size, self.hidden_size)), "U": Param((self.hidden_size, self.hidden_size))}

    def states(self):
        return {"h": self.hidden_size}

    def step(self, p, x, s):
        h = STEP
        return h, State(h=h)
"""
STEPS = [
    "tanh(x @ p.W + s.h @ p.U)",
    "tanh(x @ p.W + 0.5 * s.h @ p.U)",
    "sigmoid(x @ p.W + s.h @ p.U)",
    "tanh(x @ p.W) + 0.25 * s.h",
    "tanh(x @ p.W + s.h @ p.U) * s.h + x @ p.W",
]


def defined(step, namespace=None):
    """Define the cell as a notebook's cell does, in a namespace that stays."""
    namespace = {} if namespace is None else namespace
    namespace.setdefault("__name__", "__main__")
    exec(SOURCE.replace("STEP", step), namespace)
    return namespace["MyCell"]


def draw(cell):
    return cases.draw(cell, "float64", rows=B, steps=T)


def steps_of(scan, case):
    return cases.stepped(scan, Weights(case.params), case.x, case.initial)["y"]


def meant(cell):
    """Outputs of the interpreter, which are those of the cell's program, as its gradients and single steps are."""
    case = draw(cell)
    found, expected = cases.agreeing(case, 1e-12), cases.interpreted(case, {})
    steps = {"y": steps_of(Scan(cell, dtype="float64", threads=1), case)}
    for got, one in (*zip(found[:2], expected, strict=True), (steps, {"y": expected[0]["y"]})):
        for name, value in one.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-9, atol=1e-12, err_msg=name)
    return expected[0]["y"]


def test_a_cell_edited_five_times_in_a_notebook_has_its_own_results_each_time(capsys):
    namespace, seen = {}, []
    for step in STEPS:
        seen.append(meant(defined(step, namespace)(D, H)))
    assert all(np.abs(one - other).max() > 1e-3 for n, one in enumerate(seen) for other in seen[:n])
    assert check(namespace["MyCell"]), capsys.readouterr().out
    assert "MyCell: all 13 hold" in capsys.readouterr().out


def test_a_method_patched_in_its_class():
    """As IPython's autoreload does: class and instances stay the same objects."""
    kind = defined(STEPS[0])
    cell = kind(D, H)
    before = meant(cell)
    kind.step = defined(STEPS[2]).step
    assert np.abs(meant(cell) - before).max() > 1e-3


def test_a_scan_stays_what_it_was_made_of():
    """Its passes belong together: those of training are not made from another step than those before."""
    kind = defined(STEPS[0])
    cell = kind(D, H)
    case, expected = draw(cell), meant(cell)
    scan = Scan(cell, dtype="float64", threads=1)
    kind.step = defined(STEPS[3]).step
    for training in (False, True):
        y = scan.forward(Weights(case.params), case.x, case.initial, training=training).y
        np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(steps_of(scan, case), expected, rtol=1e-9, atol=1e-12)


def edited_helper():
    namespace = {"squash": tanh}
    kind = defined("squash(x @ p.W + s.h @ p.U)", namespace)
    yield kind
    namespace["squash"] = lambda value: 2 * tanh(value)
    yield kind


def edited_constant():
    namespace = {"SHARE": 0.5}
    kind = defined("tanh(x @ p.W + SHARE * s.h)", namespace)
    yield kind
    namespace["SHARE"] = 0.25
    yield kind


def edited_parent():
    namespace = {"__name__": "__main__"}
    parent = defined("self.squashed(x @ p.W + s.h @ p.U)", namespace)
    parent.squashed = lambda self, value: tanh(value)
    kind = type("Child", (parent,), {})
    yield kind
    parent.squashed = lambda self, value: tanh(value) * 0.5
    yield kind


def captured_values():
    """Two classes of one name in one module, which differ by what their function has captured alone."""

    def made(share):
        class Local(defined(STEPS[0])):
            def step(self, p, x, s):
                h = tanh(x @ p.W + share * s.h)
                return h, State(h=h)

        return Local

    yield from map(made, (0.5, 0.25))


def partial_functions():
    kind = defined("self.squash(x @ p.W + s.h @ p.U)")

    def made(share):
        cell = kind(D, H)
        cell.squash = functools.partial(lambda share, value: share * tanh(value), share)
        return cell

    yield from (lambda *sizes, share=share: made(share) for share in (0.5, 0.25))


def mutable_attribute():
    kind = defined("tanh(x @ p.W + self.shares['h'] * s.h)")
    cell = kind(D, H)
    for share in (0.5, 0.25):
        cell.shares = {"h": share}
        yield lambda *sizes: cell


def wrapped():
    """The edited cell is within others."""
    for step in (STEPS[0], STEPS[1]):
        kind = defined(step)
        yield lambda D, H, kind=kind: StackCell([kind(D, H), DropoutCell(ResidualCell(kind(H, H)), 0.0)])


EDITS = [edited_helper, edited_constant, edited_parent, captured_values, partial_functions, mutable_attribute, wrapped]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_whatever_is_edited_the_program_follows(edit):
    found = [meant(make(D, H)) for make in edit()]
    assert len(found) == 2 and np.abs(found[0] - found[1]).max() > 1e-3


def test_cells_made_alike_share_one_program():
    one, other = (Scan(defined(STEPS[0])(D, H), dtype="float64") for _ in range(2))
    assert one.cell is not other.cell and type(one.cell) is not type(other.cell)
    assert one.plan(training=True) is other.plan(training=True)
    misses = compile_step.cache_info().misses
    assert Scan(defined(STEPS[0])(D, H), dtype="float64").plan(training=True) is one.plan(training=True)
    assert compile_step.cache_info().misses == misses
    assert Scan(defined(STEPS[0])(D, H + 1), dtype="float64").plan(training=True) is not one.plan(training=True)


def test_dropout_of_another_rate_is_another_program():
    inner = defined(STEPS[0])
    plans = {id(Scan(DropoutCell(inner(D, H), rate)).plan(training=True)): rate for rate in (0.0, 0.25, 0.5, 0.25)}
    assert len(plans) == 3


def test_numbers_are_told_apart_by_their_bits():
    class Plus(Cell):
        input_size = output_size = D

        def __init__(self, number):
            self.number = number

        def step(self, p, x, s):
            return x.graph.apply("maximum", x, self.number), State()

    steps = [identity.traced(Plus(number)) for number in (0.0, -0.0, float("nan"), float("nan"), 0)]
    assert steps[0] is not steps[1] and steps[2] is steps[3] and steps[4] is steps[0]


def test_steps_that_nobody_uses_are_forgotten():
    steps = [weakref.ref(identity.traced(defined(f"tanh(x @ p.W + {n} * s.h)")(D, H))) for n in range(20)]
    gc.collect()
    assert not any(step() for step in steps)
    assert compile_step.cache_info().maxsize is not None


def test_a_copied_graph_grows_alone_and_alike():
    graph = Graph()
    x = graph.leaf("input", "x", ("B",), 4)
    y = tanh(x * 0.5 + x)
    copied = graph.copied()
    assert identity.computed(copied.values) == identity.computed(graph.values) and repr(copied.values) == repr(
        graph.values
    )
    again = copied.values[x.id] * 0.5 + copied.values[x.id]
    assert again.graph is copied and again.id < y.id, "what was computed before is found again"
    assert copied.apply("tanh", copied.values[y.id]).id == y.id + 1 == len(graph.values)
