"""The meaning of a cell over time: its untransformed step, one NumPy operation after another.

No pass but the differentiator has changed the graph, nothing is hoisted, fused or kept, and every row takes part in
every step (the results of a row that has ended are discarded). It is slow, small, and can be verified by reading it
next to `nmt.rnn.ops`. Imports no Numba.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt.rnn.arrays.array_names import ArrayKind, Arrays, flat, parse, shaped
from nmt.rnn.cell import Cell
from nmt.rnn.compiler.differentiate import Sink, differentiate
from nmt.rnn.compiler.trace import Trace, trace
from nmt.rnn.graph import Value, topological
from nmt.rnn.ops import OpKind

Lengths = Sequence[int] | np.ndarray | None


@dataclass
class Interpretation:
    """Outputs [T, B, n], final states, noted values by name, and in `memory` the states before each step."""

    y: np.ndarray
    final: Arrays
    recorded: Arrays
    run: _Evaluation
    memory: dict[int, Arrays]


@dataclass
class InterpretedGradients:
    """Gradients of sum(d_y * y) + sum(d_final * final), by name where there are several."""

    x: np.ndarray
    initial: Arrays
    captured: Arrays
    params: Arrays
    sequences: Arrays


def forward(
    cell: Cell,
    params: Mapping[str, np.ndarray],
    x: np.ndarray,
    initial: Mapping[str, np.ndarray] | None = None,
    *,
    lengths: Lengths = None,
    mask: np.ndarray | None = None,
    sequences: Mapping[str, np.ndarray] | None = None,
    captured: Mapping[str, np.ndarray] | None = None,
    source_lengths: Lengths = None,
    reverse: bool = False,
    masks: Mapping[str, np.ndarray] | None = None,
    record: Sequence[str] = (),
) -> Interpretation:
    """Run the cell as `nmt.rnn.scan.scan.Scan.forward` does, in NumPy; shapes as there, unchecked. masks: the dropout
    masks by their names in the trace, [T, B, n] per step, [B, n] per sequence; None is a run without dropout. record:
    names of noted values."""
    there = np.arange(len(x))[:, None] < (len(x) if lengths is None else np.asarray(lengths)) if mask is None else mask
    there = np.broadcast_to(there, x.shape[:2])
    x = flat(x, 2, cell.input_size)
    others = {k: flat(a, 2, cell.sequences()[k]) for k, a in (sequences or {}).items()}
    known = cell.captured()
    constant = {k: flat(a, 1 + known[k].source_axis, known[k].width) for k, a in (captured or {}).items()}
    run = _Evaluation(cell, params, x, there, others, constant, source_lengths, reverse, masks, record)
    traced, B = run.traced, x.shape[1]
    given = {k: flat(a, 1, cell.states()[k]) for k, a in (initial or {}).items()}
    for name, start in cell.learned().items():
        given.setdefault(name, np.broadcast_to(params[start], (B, len(params[start]))))
    state = {name: given.get(name, np.zeros((B, v.width or 0), x.dtype)) for name, v in traced.states.items()}
    y, memory = np.zeros((len(x), B, cell.output_size), x.dtype), {}
    recorded = {name: np.zeros(run.shape_of(traced.outputs[ArrayKind.NOTED.of(name)]), x.dtype) for name in record}
    for t in run.times:
        memory[t] = state
        values = run.evaluate([*traced.outputs.values(), *traced.new.values()], t, state)
        active = run.active(t)
        y[t] = np.where(active, _rows(values, traced.outputs["y"], B), 0)
        for name, array in recorded.items():
            array[t] = run.real_part(traced.outputs[ArrayKind.NOTED.of(name)], values, t).reshape(array.shape[1:])
        state = {name: np.where(active, _rows(values, v, B), state[name]) for name, v in traced.new.items()}
    run.learned = {name: start for name, start in cell.learned().items() if name not in (initial or {})}
    final = {name: shaped(array, cell.states()[name]) for name, array in state.items()}
    return Interpretation(shaped(y, cell.output_size), final, recorded, run, memory)


def backward(
    result: Interpretation,
    d_y: np.ndarray,
    d_final: Mapping[str, np.ndarray] | None = None,
    d_recorded: Mapping[str, np.ndarray] | None = None,
) -> InterpretedGradients:
    """Return gradients by reverse-mode differentiation of the step's graph, steps in the opposite order."""
    run, given, cell = result.run, d_final or {}, result.run.cell
    d_y = flat(d_y, 2, cell.output_size)
    gradients, sinks = run.differentiated()
    roots = [*gradients.values(), *(v for s in sinks for v in (s.left, s.right) if v is not None)]
    carried = {k: flat(given.get(k, np.zeros_like(v)), 1, cell.states()[k]) for k, v in result.final.items()}
    captured, params, sequences = (
        {k: np.zeros_like(v) for k, v in arrays.items()} for arrays in (run.captured, run.params, run.sequences)
    )
    total = InterpretedGradients(np.zeros_like(run.x), {}, captured, params, sequences)
    seen = {
        ArrayKind.GRADIENT.of(ArrayKind.NOTED.of(k)): (d_recorded or {}).get(k, np.zeros_like(a))
        for k, a in result.recorded.items()
    }
    B = run.x.shape[1]
    for t in reversed(run.times):
        cotangents = {ArrayKind.GRADIENT.of("y"): d_y[t]}
        cotangents |= {ArrayKind.STATE_GRADIENT.of(name): g for name, g in carried.items()}
        cotangents |= {name: array[t] for name, array in seen.items()}
        values = run.evaluate(roots, t, result.memory[t], cotangents)
        active = run.active(t)
        for sink in sinks:
            run.add_share(total.params[sink.name], sink, values, t)
        for array, g in gradients.items():
            match parse(array):
                case None, "x":
                    total.x[t] = np.where(active, _rows(values, g, B), 0)
                case ArrayKind.SEQUENCE, name:
                    total.sequences[name][t] = np.where(active, _rows(values, g, B), 0)
                case ArrayKind.CAPTURED, name:
                    total.captured[name] += run.real_part(g, values, t).reshape(total.captured[name].shape)
        before = {name: gradients.get(ArrayKind.STATE.of(name)) for name in carried}
        shares = {name: 0 if v is None else _rows(values, v, B) for name, v in before.items()}
        carried = {name: np.where(active, shares[name], g) for name, g in carried.items()}
    total.initial = carried
    for name, start in run.learned.items():
        total.params[start] += carried[name].sum(axis=0)
    total.x = shaped(total.x, cell.input_size)
    total.initial = {k: shaped(a, cell.states()[k]) for k, a in total.initial.items()}
    total.captured = {k: shaped(a, cell.captured()[k].width) for k, a in total.captured.items()}
    total.sequences = {k: shaped(a, cell.sequences()[k]) for k, a in total.sequences.items()}
    return total


class _Evaluation:
    """A traced cell and its arrays, of one feature axis; evaluates a step. there: which steps exist, bool [T, B]."""

    def __init__(
        self,
        cell: Cell,
        params: Mapping[str, np.ndarray],
        x: np.ndarray,
        there: np.ndarray,
        sequences: Arrays,
        captured: Arrays,
        source_lengths: Lengths,
        reverse: bool,
        masks: Mapping[str, np.ndarray] | None,
        record: Sequence[str],
    ) -> None:
        S = max((a.shape[0] for a in captured.values() if a.ndim == 3), default=1)
        sources = np.full(x.shape[1], S) if source_lengths is None else np.asarray(source_lengths)
        self.cell = cell
        self.traced: Trace = trace(cell, training=masks is not None, cut=False, record=record)
        self.x, self.there, self.params = x, there, dict(params)
        self.captured, self.sequences = captured, sequences
        self.masks = {m.array: masks[m.name] for m in self.traced.masks if masks}
        self.learned: dict[str, str] = {}
        self.real = (np.arange(S)[:, None] < sources)[:, :, None]  # [S, B, 1]
        self.times = range(len(x) - 1, -1, -1) if reverse else range(len(x))

    def active(self, t: int) -> np.ndarray:
        """Return which rows run step t, bool [B, 1]."""
        return self.there[t][:, None]

    def shape_of(self, v: Value) -> tuple[int, ...]:
        """Return the shape of a noted value over all steps."""
        S, B, _ = self.real.shape
        return (len(self.x), *((S,) if "S" in v.axes else ()), B, v.width or 1)

    def differentiated(self) -> tuple[dict[str, Value], list[Sink]]:
        """Return gradients of input, states and captured arrays by their arrays' names, and the parameters' sinks."""
        traced = self.traced
        results = {
            **{ArrayKind.GRADIENT.of(k): v for k, v in traced.outputs.items()},
            **{ArrayKind.STATE_GRADIENT.of(k): v for k, v in traced.new.items()},
        }
        leaf = traced.graph.leaf
        outputs = [(v, leaf("cotangent", k, v.axes or ("B",), v.width, dims=v.dims)) for k, v in results.items()]
        leaves = {k: v for k, v in traced.leaves.items() if k not in self.masks}
        gradients, sinks = differentiate(outputs, {v.id for v in leaves.values()})
        return {k: gradients[v.id] for k, v in leaves.items() if v.op != "param" and v.id in gradients}, sinks

    def evaluate(
        self, roots: list[Value], t: int, state: Arrays, cotangents: Arrays | None = None
    ) -> dict[int, np.ndarray]:
        """Return all values the roots need, by id; each is [S, B, width] with 1 for a missing axis."""
        values: dict[int, np.ndarray] = {}
        of_step = {ArrayKind.STATE.of(name): array for name, array in state.items()} | (cotangents or {})
        for v in topological(roots):
            if v.kind is OpKind.LEAF and v.op != "rows_of":
                values[v.id] = self._leaf(v, t, of_step)
            else:
                values[v.id] = self._apply(v, [values[a.id] for a in v.args])
        return values

    def real_part(self, v: Value, values: dict[int, np.ndarray], t: int) -> np.ndarray:
        """Return a value with zeros for rows that have ended and source positions that are padding."""
        real = self.active(t) & self.real if "S" in v.axes else self.active(t)
        return np.where(real, values[v.id], 0)

    def add_share(self, target: np.ndarray, sink: Sink, values: dict[int, np.ndarray], t: int) -> None:
        """Add one step's share of a parameter's gradient, summed over rows and positions."""
        right = self.real_part(sink.right, values, t)
        if sink.left is None:
            target += right.sum(axis=(0, 1))
            return
        left = self.real_part(sink.left, values, t)
        outer = left[..., :, None] * right[..., None, :]
        target[sink.start : sink.start + (sink.rows or 0)] += outer.sum(axis=(0, 1))

    def _leaf(self, v: Value, t: int, of_step: Arrays) -> np.ndarray:
        """Return the array of a leaf in step t, [S or 1, B or 1, n]; a matrix as it is."""
        if v.op == "const":
            return np.full((1, 1, 1), v.attrs["value"], self.x.dtype)
        name = v.attrs["name"]
        if v.op == "param":
            array = self.params[name]
            return array if array.ndim == 2 else array[None, None]
        if name in self.masks:
            array = self.masks[name]
            return array[None] if array.ndim == 2 else array[t][None]
        if v.op == "captured":
            array = self.captured[parse(name).base].reshape(-1, self.real.shape[1], v.width or 1)
            return np.where(self.real, array, 0) if "S" in v.axes else array
        kind, base = parse(name)
        if kind is ArrayKind.SEQUENCE:
            return self.sequences[base][t][None]
        array = self.x[t] if v.op == "input" else of_step[name]
        return array if array.ndim == 3 else array[None]

    def _apply(self, v: Value, args: list[np.ndarray]) -> np.ndarray:
        """Compute an operation. Raises RuntimeError: it has no meaning, or the result's shape differs from its rule."""
        if v.rule.meaning is None:
            raise RuntimeError(f"the operation {v.op} has no NumPy meaning")
        attrs = {k: a for k, a in v.attrs.items() if k not in ("name", "dims")}
        S, B, _ = self.real.shape
        if v.dims or v.op == "total":
            return self._apply_named(v, args, attrs)
        shape = (S if "S" in v.axes else 1, B if "B" in v.axes else 1, v.width or 1)
        if v.op in ("softmax", "sum_s"):
            attrs["real"] = self.real
        elif v.op == "expand":
            attrs["shape"] = shape
        result = np.asarray(v.rule.meaning(*args, **attrs))
        if v.op != "rows_of" and result.shape != shape:
            raise RuntimeError(f"{v} must be {shape}, got {result.shape}")
        return result

    def _apply_named(self, v: Value, args: list[np.ndarray], attrs: dict[str, Any]) -> np.ndarray:
        """Compute an operation on values with named axes, each an axis of the arrays, of size 1 where one lacks it."""
        S, B, _ = self.real.shape
        lead = (S if "S" in v.axes else 1, B if "B" in v.axes else 1)
        dims = v.args[0].dims if v.op == "total" else v.dims
        if v.kind is not OpKind.LAYOUT:
            args = [
                a.reshape(*a.shape[:2], *(n if axis in dict(x.dims) else 1 for axis, n in dims))
                for a, x in zip(args, v.args, strict=True)
            ]
        if v.op == "total":
            attrs["axis"] = 2 + [axis for axis, _ in dims].index(attrs["axis"])
        elif v.op == "expand":
            attrs["shape"] = (*lead, *(n for _, n in dims))
        found = np.asarray(v.rule.meaning(*args, **attrs)) if v.rule.meaning else args[0]
        return found.reshape(*lead, v.width or 1)


def _rows(values: dict[int, np.ndarray], v: Value, B: int) -> np.ndarray:
    """Return a value of the step as [B, width]."""
    return np.broadcast_to(values[v.id][0], (B, v.width or 1))
