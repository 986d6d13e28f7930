"""Cells that use what the engine's interface has beyond a cell's input and states, each with its step for one row."""

from dataclasses import dataclass, field

import numpy as np

from nmt.rnn import Captured, Cell, Past, Scan, Shape, State, Weights, concat, dot, interpreter, split, tanh
from nmt.rnn.cell import axes_of
from tests.oracle import compare, interface
from tests.oracle import gradients as slopes
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
class Run:
    """A cell, its oracle, numbers for all that is read, and how to run it."""

    cell: Cell
    step: object
    params: dict
    inputs: dict
    initial: dict
    captured: dict
    d: dict  # gradients of results by name
    options: dict = field(default_factory=dict)  # lengths or mask, reverse
    asked: dict = field(default_factory=dict)  # needs, receives, record, stop of the scan

    @property
    def there(self):
        """bool [T, B]."""
        mask, lengths = self.options.get("mask"), self.options.get("lengths")
        steps, rows = self.inputs["x"].shape[:2]
        if mask is not None:
            return mask
        return np.arange(steps)[:, None] < (np.full(rows, steps) if lengths is None else np.array(lengths))

    @property
    def keywords(self):
        """Of a forward pass."""
        return {
            "sequences": {k: v for k, v in self.inputs.items() if k != "x"},
            "captured": self.captured,
        } | self.options


def draw(cell, step, *, steps=T, rows=B, seed=0, record=(), **options):
    """Numbers for everything."""
    rng = np.random.default_rng([seed, steps, rows])

    def normal(*lead, width):
        return rng.normal(size=(*lead, *axes_of(width)))

    d = {"y": normal(steps, rows, width=cell.output_size)}
    d |= {f"final {k}": normal(rows, width=n) for k, n in cell.states().items()}
    inputs = {"x": cell.input_size, **cell.sequences()}
    return Run(
        cell,
        step,
        {k: 0.5 * rng.normal(size=p.shape) for k, p in cell.params().items()},
        {k: normal(steps, rows, width=n) for k, n in inputs.items()},
        {k: normal(rows, width=n) for k, n in cell.states().items()},
        {k: normal(rows, width=c.width) for k, c in cell.captured().items()},
        d,
        options,
        {"record": record} if record else {},
    )


def masked(steps=T, rows=B, seed=1):
    """A mask with holes; the first row has no step, the second has all."""
    mask = np.random.default_rng(seed).integers(0, 2, (steps, rows)).astype(bool)
    mask[:, 0], mask[:, 1] = False, True
    return mask


def program(run, *, chunks=None, **options):
    """(results, gradients) of the compiled program by name."""
    scan = Scan(run.cell, **{"dtype": np.float64, "threads": 1, **run.asked, **options})
    forward, backward = (scan.forward, scan.backward) if chunks is None else chunks(scan)
    result = forward(Weights(run.params), run.inputs["x"], run.initial, training=True, **run.keywords)
    shares = {k: np.zeros_like(p) for k, p in run.params.items()}
    d_final = {k: run.d[f"final {k}"] for k in scan.states}
    d_recorded = {k: run.d[f"recorded {k}"] for k in run.asked.get("receives", ()) if k != "y"}
    extra = {"d_recorded": d_recorded} if d_recorded else {}
    d_y = run.d["y"] if "y" in run.asked.get("receives", "y") else None
    found = backward(result.tape if chunks is None else result, d_y, d_final, shares, **extra)
    return results(result), gradients(found, shares)


def results(result):
    """By the oracle's names."""
    named = {"y": result.y, "taken": result.lengths, **{f"final {k}": v for k, v in result.final.items()}}
    return named | {f"recorded {k}": v for k, v in result.recorded.items()}


def gradients(found, shares):
    """By the names of what they are gradients of."""
    named = {"x": found.x, **found.sequences, **{f"initial {k}": v for k, v in found.initial.items()}}
    return {k: v for k, v in (named | found.captured | shares).items() if v is not None}


def leaves(run):
    """Everything a gradient may be asked of."""
    return {**run.inputs, **{f"initial {k}": v for k, v in run.initial.items()}, **run.captured, **run.params}


def oracle(run, now=None):
    """Results by loops, `now` holding all leaves."""
    now = leaves(run) if now is None else now
    p = {k: now[k] for k in run.params}
    inputs = {k: now[k] for k in run.inputs}
    initial = {k: now[f"initial {k}"] for k in run.initial}
    there = run.there
    options = {"reverse": run.options.get("reverse", False), "stop": run.asked.get("stop")}
    if not run.captured:
        return interface.run(run.step, p, inputs, initial, there, **options)
    parts = []  # what is captured belongs to a row: each is run with its own
    for row in range(there.shape[1]):
        own = p | {k: now[k][row] for k in run.captured}
        one = interface.run(
            run.step, own, {k: v[:, row : row + 1] for k, v in inputs.items()},
            {k: v[row : row + 1] for k, v in initial.items()}, there[:, row : row + 1], **options,
        )  # fmt: skip
        parts.append(one)
    axis = {name: 0 if name.startswith("final") or name == "taken" else 1 for name in parts[-1]}
    like = max(parts, key=len)
    full = [like | {k: np.zeros_like(like[k]) for k in like if k not in part} | part for part in parts]
    return {name: np.concatenate([part[name] for part in full], axis=axis.get(name, 1)) for name in like}


def check(run, found, slopes_found, *, only=None):
    """Results and gradients of a program against the oracle: every leaf along a direction, by complex steps."""
    expected = oracle(run)
    for name, value in found.items():
        compare.assert_close(value, expected[name], 1e-12, name)
    weights = {k: v for k, v in run.d.items() if not k.startswith("recorded")}
    weights |= {f"recorded {k}": run.d[f"recorded {k}"] for k in run.asked.get("receives", ()) if k != "y"}
    if "y" not in run.asked.get("receives", "y"):
        del weights["y"]

    def loss(now):
        values = oracle(run, now)
        return sum(np.sum(values[name] * w) for name, w in weights.items())

    rng, all_leaves = np.random.default_rng(5), leaves(run)
    for name in all_leaves if only is None else only:
        direction = slopes.random_direction(all_leaves, rng, only=[name])
        exact = slopes.complex_step(loss, all_leaves, direction)
        got = slopes.inner({name: slopes_found[name]}, direction)
        scale = max(1.0, float(np.linalg.norm(slopes_found[name])))
        assert abs(got - exact) <= 1e-10 * scale, f"gradient of {name}: {got} instead of {exact}"


def interpreted(run):
    """(results, gradients) of the interpreter."""
    record = run.asked.get("record", ())
    result = interpreter.forward(
        run.cell, run.params, run.inputs["x"], run.initial, **run.keywords, masks={}, record=record
    )
    found = interpreter.backward(
        result,
        run.d["y"] if "y" in run.asked.get("receives", "y") else np.zeros_like(result.y),
        {k: run.d[f"final {k}"] for k in run.cell.states()},
        {k: run.d[f"recorded {k}"] for k in run.asked.get("receives", ()) if k != "y"},
    )
    named = {"y": result.y, **{f"final {k}": v for k, v in result.final.items()}}
    named |= {f"recorded {k}": v for k, v in result.recorded.items()}
    return named, gradients(found, found.params)


def check_interpreter(run, found, slopes_found):
    """The same numbers as the interpreter's."""
    expected, expected_slopes = interpreted(run)
    for got, wanted in ((found, expected), (slopes_found, expected_slopes)):
        for name, value in got.items():
            if name != "taken":
                compare.assert_close(value, wanted[name], 1e-12, f"interpreter: {name}")
