"""Run plans on the CPU: find memory, launch products and generated functions, sum gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from nmt.rnn.compiler.plan import Pass, Plan
from nmt.rnn.compiler.program import Place, Product
from nmt.rnn.kernels.emit_cpu import INDEX, Function, Module, Weight, emit, weight_key
from nmt.rnn.kernels.memory import active_rows, prefix_rows, zero_inactive
from nmt.rnn.kernels.modules import load_module
from nmt.rnn.kernels.products import product, sum_rows, weight_gradient
from nmt.rnn.kernels.threads import run_parallel
from nmt.rnn.weights import Weights

Arrays = dict[str, np.ndarray]
Allocate = Callable[[tuple[int, ...], Any], np.ndarray]


@dataclass
class Rows:
    """Which rows take part: lengths per row [B] and per captured row [C], which captured row belongs to each row,
    who does what.

    With `ragged` captured arrays are [positions, n]: `owner` gives each row's first position, and `source_lengths` is
    read there. Other captured arrays may be read by other numbers: `I_` and their name among the arrays.
    """

    T: int
    B: int
    S: int
    lengths: np.ndarray  # int64 [B]
    source_lengths: np.ndarray  # int64 [C]
    owner: np.ndarray  # int64 [B]
    bounds: np.ndarray  # int64 [threads + 1]: rows of each thread
    reverse: bool
    ragged: bool = False
    _segments: dict[tuple[bool, bool], np.ndarray] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """How many threads share the rows."""
        return len(self.bounds) - 1

    def segments(self, wide: bool, *, exact: bool = False) -> np.ndarray:
        """Runs of rows of a [T, B, n] array that take part; with `wide`, of a [1, S, B, n] array.

        A product may run over a prefix of rows that holds some that have ended. A sum over rows is `exact`: what
        lies in padding might be no number, and a row more or less would move the others to other blocks of the sum.
        """
        if (wide, exact) not in self._segments:
            steps = self.S if wide else self.T
            lengths = self.source_lengths if wide else self.lengths
            if len(lengths) and (lengths == steps).all():
                runs = np.array([[0, steps * len(lengths)]], np.int64)
            elif exact:
                runs = active_rows(lengths, steps)
            else:
                runs = prefix_rows(lengths, np.array([0, len(lengths)], np.int64) if wide else self.bounds, steps)
            self._segments[wide, exact] = runs
        return self._segments[wide, exact]


def split_rows(lengths: np.ndarray, threads: int) -> np.ndarray:
    """Bounds that give each thread about as many steps to do; few rows stay on one thread each."""
    B = len(lengths)
    threads = max(1, min(threads, B))
    work = np.concatenate([[0], np.cumsum(lengths + 1)])
    inner = np.searchsorted(work, work[-1] * np.arange(1, threads) / threads, side="left")
    return np.maximum.accumulate(np.concatenate([[0], np.clip(inner, 0, B), [B]])).astype(np.int64)


class Executable:
    """A plan compiled for one dtype."""

    def __init__(self, plan: Plan, dtype: np.dtype) -> None:
        self.plan, self.dtype = plan, dtype
        self.forward_module = emit(plan.forward, dtype, "forward")
        self.backward_module = emit(plan.backward, dtype, "backward") if plan.backward else None

    def forward(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate) -> None:
        """Fill the forward arrays. `arrays` holds inputs, state stacks, captured arrays, masks and parameter
        vectors."""
        self._run(self.plan.forward, self.forward_module, arrays, weights, rows, allocate, flip=int(rows.reverse))

    def backward(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate, gradients: Arrays) -> None:
        """Fill the backward arrays and add to the parameters' `gradients`."""
        if self.plan.backward is None or self.backward_module is None:
            raise RuntimeError("a plan for inference has no backward pass")
        flip = int(rows.reverse)
        self._run(self.plan.backward, self.backward_module, arrays, weights, rows, allocate, flip=flip, turned=True)
        for placed in self.plan.sinks:
            sink = placed.sink
            if sink.name not in gradients:
                continue
            target = gradients[sink.name]
            G = self._rows_of(placed.right, arrays, rows)
            segments = rows.segments(placed.right.source_axis, exact=True)
            N = sink.right.width or 0
            if placed.left is None:
                run_parallel(sum_rows, rows.threads, G, placed.right_offset, N, segments, target, 1)
            else:
                X = self._rows_of(placed.left, arrays, rows)
                K = (sink.left.width if sink.left else 0) or 0
                part = target[sink.start : sink.start + (sink.rows or 0)]
                run_parallel(
                    weight_gradient,
                    rows.threads,
                    X,
                    placed.left_offset,
                    K,
                    G,
                    placed.right_offset,
                    N,
                    segments,
                    part,
                    1,
                )

    def _rows_of(self, place: Place, arrays: Arrays, rows: Rows) -> np.ndarray:
        """A [T, B, n] array, or one slot of a state stack for every step, as a matrix of rows."""
        array = arrays[place.name]
        if place.kind in ("before", "after"):
            first = (place.kind == "after") != rows.reverse
            array = array[1:] if first else array[:-1]
        return array.reshape(-1, array.shape[-1])

    def _run(
        self,
        one: Pass,
        module: Module,
        arrays: Arrays,
        weights: Weights,
        rows: Rows,
        allocate: Allocate,
        flip: int,
        turned: bool = False,
    ) -> None:
        code = load_module(module.source, module.key)
        for name, place in one.arrays.items():
            if name not in arrays:
                arrays[name] = allocate(_shape(place, rows), self.dtype)
                if turned and not place.source_axis:
                    run_parallel(zero_inactive, rows.threads, arrays[name], rows.lengths)
        backwards = int(rows.reverse != turned)
        dims = np.array(module.dims, np.int64)
        C = 1 if rows.ragged else len(rows.source_lengths)
        fixed = (
            rows.bounds,
            rows.T,
            rows.B,
            C,
            rows.S,
            backwards,
            flip,
            dims,
            rows.lengths,
            rows.source_lengths,
            rows.owner,
        )
        steps = [(s, one.before) for s in module.before]
        steps += [(module.loop, one.loop)] if module.loop else []
        steps += [(s, one.after) for s in module.after]
        for step, program in steps:
            if isinstance(step, Product):
                self._product(step, program.places, arrays, weights, rows)
            elif isinstance(step, Function):
                function = getattr(code, step.name)
                packed = [_packed(weights, w, rows.threads) for w in step.weights]
                run_parallel(
                    function, rows.threads, *fixed, *(_argument(arrays, weights, rows, a) for a in step.arrays), *packed
                )

    def _product(
        self, step: Product, places: Mapping[int, Place], arrays: Arrays, weights: Weights, rows: Rows
    ) -> None:
        x, offset = (step.x.args[0], step.x.attrs["start"]) if step.x.op == "slice" else (step.x, 0)
        source, target = places[x.id], places[step.out.id]
        A, C = self._rows_of(source, arrays, rows), self._rows_of(target, arrays, rows)
        packed = _packed(weights, weight_key(step), rows.threads)
        segments = rows.segments(source.source_axis)
        run_parallel(product, rows.threads, A, offset, packed, C, 0, step.x.width, step.out.width, segments, 0)


def _packed(weights: Weights, key: Weight, threads: int) -> np.ndarray:
    return weights.packed(*key, threads)


def _argument(arrays: Arrays, weights: Weights, rows: Rows, name: str) -> np.ndarray:
    if name in arrays:
        return arrays[name]
    if name.startswith(INDEX):
        return rows.owner
    if name.startswith("P_"):
        return weights[name[2:]]
    raise RuntimeError(f"no memory for {name}")


def _shape(place: Place, rows: Rows) -> tuple[int, ...]:
    source = (rows.S,) if place.source_axis else ()
    width = (place.width,) if place.width is not None else ()
    return (rows.T, *source, rows.B, *width)


@lru_cache(maxsize=1)
def _identity(size: int) -> np.ndarray:
    return np.arange(size, dtype=np.int64)


def identity(size: int) -> np.ndarray:
    """0, 1, ... size - 1: every row has a captured row of its own."""
    return _identity(size)
