"""Comparison of everything the engine derives from a new cell with the meaning of its step: `nmt.rnn.check(MyCell)`.

The interpreter runs the step as written, in float64. The compiled program, its gradients, schedules and step-by-step
calls must agree with it, and its gradients must agree with difference quotients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from nmt.errors import NMTError
from nmt.rnn import interpreter, tuning
from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.cell import Cell, axes_of
from nmt.rnn.compiler.trace import Declared
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.own_code import make_cell
from nmt.rnn.scan.passes import Tape
from nmt.rnn.scan.scan import Scan
from nmt.rnn.stepping.stepper import Stepper

STEPS, ROWS, PLACES = 6, 5, 4
LENGTHS = (3, STEPS, 1, 0, 2)
ROUNDING = 1e-9
"""Two float64 programs that add in different orders differ by about 1e-14 here; a wrong formula by far more."""
QUOTIENT_STEP, QUOTIENT_LIMIT = 1e-5, 1e-6
_RACES = 10


@dataclass(frozen=True)
class Finding:
    """One comparison: its name, the largest difference relative to the largest number (or 1), and the tolerance."""

    what: str
    error: float
    limit: float

    @property
    def passed(self) -> bool:
        """Return whether the difference is within the tolerance; never with NaN."""
        return self.error <= self.limit


@dataclass
class _RandomRun:
    """Random numbers for everything a cell reads, and the options of one run."""

    params: Arrays
    x: np.ndarray
    initial: Arrays
    captured: Arrays
    sequences: Arrays
    d_y: np.ndarray
    d_final: Arrays
    options: dict[str, Any] = field(default_factory=dict)  # lengths, reverse

    @property
    def keywords(self) -> dict[str, Any]:
        """Return the keyword arguments of a forward pass."""
        return {"captured": self.captured, "sequences": self.sequences, **self.options}


def check(cell: Cell | Callable[[int, int], Cell], *, input_size: int = 5, hidden_size: int = 7) -> bool:
    """Check a cell, or a class (or any function) that makes one of these sizes; print a table; return whether all
    passed. It compiles the cell four times, which takes some ten seconds the first time."""
    name = getattr(cell, "__name__", type(cell).__name__)
    try:
        made = cell if isinstance(cell, Cell) else make_cell(f"{name}:", cell, input_size, hidden_size)
        Declared(made)  # raises ShapeError
        _check_numbers(made)
        print(_heading(made))
        size = hidden_size * (2 * TARGET.panel_width(np.float32) // hidden_size + 1)  # columns for two threads
        wide = cell if isinstance(cell, Cell) else make_cell(f"{name}:", cell, input_size, size)
        findings = [*_findings(made), *_findings_of_threads(wide)]
    except NMTError as error:
        print(error)
        return False
    for one in findings:
        print(f"  {'ok' if one.passed else 'WRONG':6}{one.what:58}{one.error:9.1e}   at most {one.limit:.0e}")
    wrong = sum(not one.passed for one in findings)
    print(f"{name}: {f'{wrong} of {len(findings)} do not hold' if wrong else f'all {len(findings)} hold'}")
    return wrong == 0


def _check_numbers(cell: Cell) -> None:
    """Raise NMTError if the cell's own numbers, as its step says, are not finite or not the same twice."""
    run, found = _draw(cell), list[Arrays]()
    with np.errstate(all="ignore"):
        for _ in range(2):
            result = interpreter.forward(cell, run.params, run.x, run.initial, **run.keywords)
            found.append(_named(result) | _slopes(result, run))
    for name, one in found[0].items():
        if not np.array_equal(one, found[1][name], equal_nan=True):
            got = f"other numbers of {name}; does it draw random ones? p.dropout draws a mask"
            raise NMTError(f"{type(cell).__name__}.step: must compute the same twice, got {got}")
        if not np.isfinite(one).all():
            what = name if name == "y" or name.startswith("final ") else f"the gradient of {name}"
            promise = "must compute finite numbers from those of a normal distribution"
            got = f"inf or nan in {what}; bound what grows, such as exp"
            raise NMTError(f"{type(cell).__name__}.step: {promise}, got {got}")


def _heading(cell: Cell) -> str:
    """Return the two lines above the table: sizes of the cell, and the number of products in each phase of its plan."""
    plan, shapes = Scan(cell, dtype="float64").plan(True), cell.params()
    forward, backward = plan.forward, plan.backward
    if backward is None:
        raise RuntimeError("a training plan has no backward pass")
    loops = f"{len(forward.loop.products)} forward and {len(backward.loop.products)} backward"
    outside = sum(len(p.products) for p in (forward.before, forward.after, backward.before, backward.after))
    size = sum(int(np.prod(p.shape)) for p in shapes.values())
    states = ", ".join(f"{k} {n}" for k, n in cell.states().items()) or "none"
    return (
        f"{type(cell).__name__}: {cell.input_size} -> {cell.output_size}, {size} parameters, states {states}\n"
        f"  products in the time loop: {loops}; outside: {outside}; sums for weights' gradients: {len(plan.sinks)}"
    )


def _findings(cell: Cell) -> Iterator[Finding]:
    """Yield all comparisons in turn. A program is compiled when the first comparison that needs it is requested."""
    run = _draw(cell)
    ways: dict[str, dict[str, Any]] = {
        "all steps": {},
        f"lengths {' '.join(map(str, LENGTHS))}": {"lengths": LENGTHS},
        "from the last step to the first": {"lengths": LENGTHS, "reverse": True},
    }
    for label, options in ways.items():
        run.options = options
        outputs, found, tape = _compiled(cell, run)
        meant = _meaning(cell, run, tape)
        slopes = _slopes(meant, run)
        yield Finding(f"program = interpreter, {label}", _difference(outputs, _named(meant)), ROUNDING)
        yield Finding(f"gradients = interpreter's, {label}", _difference(found, slopes), ROUNDING)
        if label == "all steps":
            given = cell.learned().values()  # of initial states, which the run is given
            without = ", ".join(name for name in run.params if name not in given and not found[name].any())
            yield Finding(f"every parameter has a gradient{without and f', but {without}'}", float(bool(without)), 0.0)
            yield Finding("gradients = difference quotients", _quotients(cell, run, tape, slopes), QUOTIENT_LIMIT)
    again, again_slopes, _ = _compiled(cell, run, recompute="gates")
    error = max(_difference(again, outputs), _difference(again_slopes, found))
    yield Finding("recompute: gates changes nothing", error, ROUNDING)
    run.options = {}
    result = Scan(cell, dtype="float64", threads=1).forward(Weights(run.params), run.x, run.initial, **run.keywords)
    plain = interpreter.forward(cell, run.params, run.x, run.initial, **run.keywords)
    whole = _named(result)
    yield Finding("inference = interpreter", _difference(whole, _named(plain)), ROUNDING)
    yield Finding("step by step = one call", _difference(_stepped(cell, run), whole), ROUNDING)


def _findings_of_threads(cell: Cell) -> Iterator[Finding]:
    """Yield the comparisons of two threads with one. They run several times, because a race does not always show."""
    run = _draw(cell)
    run.options = {"lengths": LENGTHS, "reverse": True}
    outputs, found, _ = _compiled(cell, run)
    for division in ("rows", "units"):
        error = 0.0
        with patch.multiple(tuning, ALONE_BELOW=0, ALONE_A_STEP=0):  # divide little work, too
            for _ in range(_RACES):
                two, two_slopes, _ = _compiled(cell, run, threads=2, division=division)
                error = max(error, _difference(two, outputs), _difference(two_slopes, found))
        yield Finding(f"two threads dividing {division}: the same bits", error, 0.0)


def _draw(cell: Cell) -> _RandomRun:
    """Draw, from a fixed seed, numbers for everything that the cell reads and for the gradients of all its results."""
    rng = np.random.default_rng(0)

    def normal(*sizes: int) -> np.ndarray:
        return rng.normal(size=[n for size in sizes for n in axes_of(size)])

    return _RandomRun(
        {name: 0.4 * normal(*p.shape) for name, p in cell.params().items()},
        normal(STEPS, ROWS, cell.input_size),
        {name: normal(ROWS, cell.states()[name]) for name in cell.starts()},
        {k: normal(*((PLACES,) if c.source_axis else ()), ROWS, c.width) for k, c in cell.captured().items()},
        {k: normal(STEPS, ROWS, n) for k, n in cell.sequences().items()},
        normal(STEPS, ROWS, cell.output_size),
        {name: normal(ROWS, n) for name, n in cell.states().items()},
    )


def _named(result: Any) -> Arrays:
    """Return the outputs of a run under the names that findings use."""
    return {"y": result.y, **{f"final {k}": a for k, a in result.final.items()}}


def _leaves(found: Any, params: Arrays) -> Arrays:
    """Return what a run reads, or the gradients of it, under the names that findings use."""
    return {
        "x": found.x,
        **{f"initial {k}": a for k, a in found.initial.items()},
        **{f"captured {k}": a for k, a in found.captured.items()},
        **{f"sequence {k}": a for k, a in found.sequences.items()},
        **params,
    }


def _compiled(cell: Cell, run: _RandomRun, **options: Any) -> tuple[Arrays, Arrays, Tape]:
    """Return outputs and gradients of the compiled program, and its tape."""
    scan = Scan(cell, dtype="float64", **{"threads": 1, **options})
    result = scan.forward(Weights(run.params), run.x, run.initial, **run.keywords, training=True, seed=1)
    if result.tape is None:
        raise RuntimeError("a training run kept no tape")
    shares = {name: np.zeros_like(p) for name, p in run.params.items()}
    found = scan.backward(result.tape, run.d_y, run.d_final, shares)
    return _named(result), _leaves(found, shares), result.tape


def _meaning(cell: Cell, run: _RandomRun, tape: Tape) -> interpreter.Interpretation:
    """Return the interpreter's run with the same dropout masks as the tape."""
    masks = {m.name: tape.arrays[m.array] for m in tape.compiled.step.plan.trace.masks}
    return interpreter.forward(cell, run.params, run.x, run.initial, **run.keywords, masks=masks)


def _slopes(result: interpreter.Interpretation, run: _RandomRun) -> Arrays:
    """Return the interpreter's gradients."""
    found = interpreter.backward(result, run.d_y, run.d_final)
    return _leaves(found, found.params)


def _difference(found: Arrays, expected: Arrays) -> float:
    """Return the largest difference of all arrays, relative to each one's largest number, or 1; NaN if there is one."""
    errors = [0.0]
    for name, value in expected.items():
        if value.size:
            errors.append(float(np.max(np.abs(found[name] - value)) / max(1.0, float(np.max(np.abs(value))))))
    return float(np.max(errors))


def _quotients(cell: Cell, run: _RandomRun, tape: Tape, slopes: Arrays) -> float:
    """Return the difference between the gradients and central differences along a random direction of each array."""
    leaves, rng, errors = _leaves(run, run.params), np.random.default_rng(1), [0.0]

    def loss() -> float:
        result = _meaning(cell, run, tape)
        final = sum(float(np.sum(a * run.d_final[k])) for k, a in result.final.items())
        return float(np.sum(result.y * run.d_y)) + final

    for name, array in leaves.items():
        direction = rng.normal(size=array.shape)
        direction /= np.linalg.norm(direction)
        kept, values = array.copy(), []
        for sign in (1, -1):
            array[...] = kept + sign * QUOTIENT_STEP * direction
            values.append(loss())
        array[...] = kept
        promised = float(np.sum(slopes[name] * direction))
        got = (values[0] - values[1]) / (2 * QUOTIENT_STEP)
        errors.append(abs(got - promised) / max(1.0, float(np.linalg.norm(slopes[name]))))
    return float(np.max(errors))


def _stepped(cell: Cell, run: _RandomRun) -> Arrays:
    """Return outputs and final states when `Stepper` runs one step after another, as search does."""
    scan, weights = Scan(cell, dtype="float64", threads=1), Weights(run.params)
    states = {k: np.zeros((ROWS, *axes_of(n))) for k, n in scan.states.items()} | run.initial
    y = np.zeros((STEPS, ROWS, *axes_of(cell.output_size)))
    stepper = Stepper(scan, weights)
    sentence_ids = stepper.admit(run.captured) if run.captured else None
    for t, x in enumerate(run.x):
        y[t], new = stepper.step(x, states, sentence_ids, sequences={k: a[t] for k, a in run.sequences.items()})
        states = {k: v.copy() for k, v in new.items()}
    return {"y": y, **{f"final {k}": a for k, a in states.items()}}
