"""What the tests of rows share: small cells of a user's own, runs of them, and difference quotients."""

import numpy as np

from nmt.rnn import Captured, Cell, Param, Scan, State, Weights, tanh
from nmt.rnn.compiler.plan import make_plan
from nmt.rnn.compiler.program import PlaceKind
from nmt.rnn.compiler.trace import trace
from nmt.rnn.scan import scan_setup as engine
from tests.oracle import compare, gradients
from tests.rnn import scan_cases as cases

T, B, S, D, H, M = cases.T, cases.B, cases.S, cases.D, cases.H, cases.M
MIXED = cases.LENGTHS["mixed"]
MEGABYTE = 1 << 20


def draw(*shape, seed=0):
    """Normal numbers in float64."""
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def close(found, expected, what="", tolerance=1e-9):
    """Equal to rounding in float64."""
    compare.assert_close(found, expected, tolerance, what)


def all_close(found, expected, tolerance=1e-9):
    """The same of arrays by name."""
    assert set(found) == set(expected)
    for name, array in expected.items():
        close(found[name], array, name, tolerance)


def hold_to_quotients(case, found=None, *, reverse=False):
    """The gradients of a case's run (by `cases.compiled`'s names) are difference quotients of its own outputs."""
    if found is None:
        _, found, _ = cases.compiled(case, reverse=reverse)
    scan = Scan(case.cell, dtype="float64", threads=1)

    def loss():
        result = scan.forward(Weights(case.params), case.x, case.initial, **case.options, reverse=reverse)
        final = sum(np.sum(result.final[name] * d) for name, d in case.d_final.items())
        return np.sum(result.y * case.d_y) + final

    leaves = {"d_x": case.x, **{f"d_initial {k}": a for k, a in case.initial.items()}}
    leaves |= {f"d_captured {k}": a for k, a in case.captured.items()}
    leaves |= {f"d_{k}": a for k, a in case.params.items()}
    assert set(leaves) == set(found)
    assert not gradients.check(loss, leaves, found, np.random.default_rng(2), rtol=1e-6, atol=1e-7)


def plan_of(cell, *, training=True, **options):
    """The plan of a cell; nothing is compiled."""
    return make_plan(trace(cell, training=training), training=training, **options)


def products(program):
    """(parameter, width of the result) of every product of a program."""
    return [(step.weight.attrs["name"], step.out.width) for step in cases.products(program)]


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


class WindowDecoder:
    """No network at all: the next token's chances depend on the last two tokens, which are its state."""

    eos_id = 3

    def __init__(self, seed):
        self.table = np.log(np.random.default_rng(seed).dirichlet(np.ones(7), size=(7, 7)))
        self.rows = []

    def admit(self, src_ids, candidates=None):
        count = len(src_ids)
        return np.arange(count), {"before": np.full((count, 1), 2.0)}, np.full(count, 2, np.int32)

    def release(self, sentence_ids):
        pass

    def step(self, tokens, states, parent, sentence_ids):
        self.rows.append(len(tokens))
        before = states["before"][parent, 0].astype(int)
        return self.table[before, tokens], {"before": tokens[:, None].astype(float)}

    def best_tokens(self, outputs, first_token, places):
        outputs = outputs.copy()
        outputs[:, :first_token] = -np.inf
        tokens = np.argsort(-outputs, axis=1)[:, :places].astype(np.int32)
        return tokens, np.take_along_axis(outputs, tokens, axis=1)

    def log_probs(self, outputs):
        return outputs.copy()

    def __call__(self, prefix):
        before, last = (2, 2, *prefix)[-2:]
        return self.table[before, last]


class SwapCell(Cell):
    """Two states that read one another: a' = tanh(x W + b), b' = a * captured."""

    def __init__(self, input_size, hidden_size):
        self.input_size, self.output_size = input_size, hidden_size

    def params(self):
        return {"W": Param((self.input_size, self.output_size))}

    def states(self):
        return {"a": self.output_size, "b": self.output_size}

    def captured(self):
        return {"outside": Captured(self.output_size, source_axis=False)}

    def step(self, p, x, s):
        a, b = tanh(x @ p.W + s.b), s.a * p.outside
        return a + b, State(a=a, b=b)


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
