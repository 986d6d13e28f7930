"""Cells that use what the engine's interface has beyond a cell's input and states, each with its step for one row."""

from dataclasses import dataclass, field

import numpy as np

from nmt.rnn import Captured, Past, Shape, State, concat, dot, split, tanh
from nmt.rnn.cell import axes_of
from tests.oracle import compare, interface
from tests.rnn import scan_cases
from tests.rnn.random_cells import Made

T, B = 7, 5
D, H, K = 3, 4, 2


def driven_cell():
    """h = tanh(x W + z V + g * (h U)): the sequence z is read by a product, g by the loop."""

    def step(p, x, s):
        h = tanh(x @ p.W + p.z @ p.V + p.g * (s.h @ p.U))
        return h, State(h=h)

    params = {"W": (D, H), "V": (5, H), "U": (H, H)}
    return Made(step, params=params, states={"h": H}, sequences={"z": 5, "g": H})


def driven(p, now, s):
    h = np.tanh(now["x"] @ p["W"] + now["z"] @ p["V"] + now["g"] * (s["h"] @ p["U"]))
    return h, {"h": h}, {}


PAST = Past("h", H, 3)


def narx_cell():
    """h_t = tanh(x W + h_{t-1} U + h_{t-3} V), y = h_t + h_{t-2}."""

    def step(p, x, s):
        h = tanh(x @ p.W + PAST.read(s) @ p.U + PAST.read(s, 3) @ p.V)
        return h + PAST.read(s, 2), PAST.push(s, h)

    return Made(step, params={"W": (D, H), "U": (H, H), "V": (H, H)}, states=PAST.states())


def narx(p, now, s):
    h = np.tanh(now["x"] @ p["W"] + s["h"] @ p["U"] + s["h.3"] @ p["V"])
    return h + s["h.2"], {"h": h, "h.2": s["h"], "h.3": s["h.2"]}, {}


def grid_cell():
    """K columns with the same weights, each also seeing the one beside it and something constant: every array has two
    trailing axes. h[k] = tanh(x[k] W + h[k] U + h[k - 1] * c[k]), y[k] = z[k] * h[k]."""

    def step(p, x, s):
        h, c = split(s.h, K), split(p.c, K)
        new = [tanh(part @ p.W + h[k] @ p.U + h[k - 1] * c[k]) for k, part in enumerate(split(x, K))]
        p.note(h=concat(*new))
        return concat(*new) * p.z, State(h=concat(*new))

    wide = Shape(K, H)
    reads = {"states": {"h": wide}, "sequences": {"z": wide}, "captured": {"c": Captured(wide, source_axis=False)}}
    return Made(step, params={"W": (D, H), "U": (H, H)}, **reads, input_size=Shape(K, D), output_size=wide)


def grid(p, now, s):
    new = [np.tanh(x @ p["W"] + s["h"][k] @ p["U"] + s["h"][k - 1] * p["c"][k]) for k, x in enumerate(now["x"])]
    return np.array(new) * now["z"], {"h": np.array(new)}, {}


def noting_cell():
    """Elman's cell that shows what goes into its activation, and a number that says when a row is done."""

    def step(p, x, s):
        a = x @ p.W + s.h @ p.U
        h = tanh(a)
        p.note(a=a, done=dot(h, p.v) - 0.3)
        return h * h, State(h=h)

    return Made(step, params={"W": (D, H), "U": (H, H), "v": (H,)}, states={"h": H})


def noting(p, now, s):
    a = now["x"] @ p["W"] + s["h"] @ p["U"]
    h = np.tanh(a)
    return h * h, {"h": h}, {"a": a, "done": np.array([h @ p["v"] - 0.3])}


@dataclass
class Run(scan_cases.Case):
    """A case with its cell's step for one row, and how it is run."""

    step: object = None
    reverse: bool = False
    asked: dict = field(default_factory=dict)  # needs, receives, record, stop of the scan

    @property
    def there(self):
        """bool [T, B]."""
        steps, rows = self.x.shape[:2]
        if self.mask is not None:
            return self.mask
        return np.arange(steps)[:, None] < (np.full(rows, steps) if self.lengths is None else np.array(self.lengths))

    @property
    def inputs(self):
        """What is read at every step."""
        return {"x": self.x, **self.sequences}

    @property
    def keywords(self):
        """Of a forward pass."""
        return self.options | {"reverse": self.reverse}


def draw(cell, step=None, *, steps=T, rows=B, seed=0, record=(), **options):
    """Numbers for everything; options: lengths or mask, reverse."""
    case = scan_cases.draw(cell, "float64", rows=rows, steps=steps, seed=seed)
    case.source_lengths = None
    rng = np.random.default_rng(steps)
    case.sequences = {k: rng.normal(size=(steps, rows, *axes_of(n))) for k, n in cell.sequences().items()}
    return Run(**{**vars(case), **options}, step=step, asked={"record": record} if record else {})


def masked(steps=T, rows=B, seed=1):
    """A mask with holes; the first row has no step, the second has all."""
    mask = np.random.default_rng(seed).integers(0, 2, (steps, rows)).astype(bool)
    mask[:, 0], mask[:, 1] = False, True
    return mask


def program(run, **options):
    """(results, gradients) of the compiled program by name."""
    return scan_cases.compiled(run, reverse=run.reverse, **run.asked, **options)[:2]


def leaves(run):
    """Everything a gradient may be asked of."""
    return {**run.inputs, **{f"initial {k}": v for k, v in run.initial.items()}, **run.captured, **run.params}


def oracle(run, now=None):
    """Results by loops, `now` holding all leaves."""
    now = leaves(run) if now is None else now
    p, inputs, captured = ({k: now[k] for k in names} for names in (run.params, run.inputs, run.captured))
    initial = {k: now[f"initial {k}"] for k in run.initial}
    options = {"captured": captured, "reverse": run.reverse, "stop": run.asked.get("stop")}
    return interface.run(run.step, p, inputs, initial, run.there, **options)


def check(run, found, slopes_found):
    """Results and gradients of a program against the oracle: every leaf along a direction, by complex steps."""
    expected = oracle(run)
    compare.assert_all_close(found, {name: expected[name] for name in found}, 1e-12)
    weights = {} if run.d_y is None else {"y": run.d_y}
    weights |= {f"final {k}": d for k, d in run.d_final.items()}
    weights |= {f"recorded {k}": d for k, d in run.d_recorded.items()}

    def loss(now):
        values = oracle(run, now)
        return sum(np.sum(values[name] * w) for name, w in weights.items())

    named = {k: slopes_found[f"d_captured {k}" if k in run.captured else f"d_{k}"] for k in leaves(run)}
    scan_cases.hold_to_complex_steps(loss, leaves(run), named, 1e-10)


def check_interpreter(run, found, slopes_found):
    """The same numbers as the interpreter's."""
    expected = scan_cases.interpreted(run, {}, reverse=run.reverse, record=run.asked.get("record", ()))
    compare.assert_all_close(found, expected[0], 1e-12, "interpreter")
    compare.assert_all_close(slopes_found, expected[1], 1e-12, "interpreter")
