"""What the tests of rows share: small cells of a user's own, runs of them, and difference quotients."""

import numpy as np

from nmt.rnn import Captured, Cell, State, tanh
from nmt.rnn.compiler.plan import make_plan
from nmt.rnn.compiler.program import PlaceKind
from nmt.rnn.compiler.trace import trace
from nmt.rnn.scan import scan_setup as engine
from tests.oracle import compare
from tests.rnn import scan_cases as cases
from tests.rnn.random_cells import Made

T, B, S, D, H, M = cases.T, cases.B, cases.S, cases.D, cases.H, cases.M
MIXED = cases.LENGTHS["mixed"]
MEGABYTE = 1 << 20


def draw(*shape, seed=0):
    """Normal numbers in float64."""
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def close(found, expected, what="", tolerance=1e-9):
    """Equal to rounding in float64."""
    compare.assert_close(found, expected, tolerance, what)


def hold_to_quotients(case):
    """The gradients of a case's run are slopes of the interpreter's loss."""
    cases.hold_to_slopes(case, cases.compiled(case)[1])


def plan_of(cell, *, training=True, **options):
    """The plan of a cell; nothing is compiled."""
    return make_plan(trace(cell, training=training), training=training, **options)


def products(program):
    """(parameter, width of the result) of every product of a program."""
    return [(step.weight.attrs["name"], step.out.width) for step in program.products]


def kept(plan):
    """Widths of what the forward pass stores of every step besides the states; None is one number a row."""
    return [
        place.width for name, place in plan.forward.arrays.items() if place.kind is PlaceKind.SEQUENCE and name != "y"
    ]


def count_plans(monkeypatch):
    """A list that grows by one for every plan that is made from now on."""
    made, make = [], engine.make_plan

    def spy(*args, **options):
        made.append(options)
        return make(*args, **options)

    monkeypatch.setattr(engine, "make_plan", spy)
    return made


def passes(layer, x, d_y):
    """One training pass."""
    layer.forward(x)
    layer.backward(d_y)


def swap_cell():
    """Two states that read one another: a' = tanh(x W + b), b' = a * captured."""

    def step(p, x, s):
        a, b = tanh(x @ p.W + s.b), s.a * p.outside
        return a + b, State(a=a, b=b)

    outside = {"outside": Captured(H, source_axis=False)}
    return Made(step, params={"W": (D, H)}, states={"a": H, "b": H}, captured=outside, input_size=D, output_size=H)


class ClockCell(Cell):
    """A cell that knows the time: h' = h + t * x with t = 0, 1, ..."""

    def __init__(self, size):
        self.input_size = self.output_size = size

    def states(self):
        return {"h": self.input_size, "t": self.input_size}

    def starts(self):
        return ("h",)

    def step(self, p, x, s):
        h = s.h + s.t * x
        return h, State(h=h, t=s.t + 1)
