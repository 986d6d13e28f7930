"""The operations a cell may use: shape rule, NumPy meaning, gradient rule and scalar code, side by side.

A value of a step has symbolic axes (a subset of `S`, `B`, in this order) and at most one feature axis of known `width`
(always last), which may be several named ones (`Value.dims`). `meaning` takes NumPy arrays [S, B, width], each axis of
size 1 where the value lacks it (named axes each as one; matrix parameters are [rows, columns]), and the operation's
attributes by name. An operation over S also receives `real`, bool [S, B, 1], which is False at padding; compiled loops
stop at the length instead. `gradient(g, v)` yields a gradient for each argument, written with the same operators a
cell's author uses. `code` is the scalar expression of an elementwise operation.

Adding an operation means adding one entry here (and, unless it is elementwise, its emission in the emitters).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nmt.rnn.graph import Value

Gradients = Iterable["Value"]


class OpKind(Enum):
    """Kinds of operations, by their treatment in the compiler."""

    LEAF = auto()
    """A value given from outside."""
    ELEMENTWISE = auto()
    REDUCE = auto()
    """A sum over one axis."""
    PRODUCT = auto()
    """A product with a weight matrix."""
    COMPOSITE = auto()
    """Several loops over one axis: softmax."""
    LAYOUT = auto()
    """Slices and concatenations: addressing, no arithmetic."""


@dataclass(frozen=True)
class Op:
    """One operation."""

    kind: OpKind
    meaning: Callable[..., Any] | None = None
    gradient: Callable[[Value, Value], Gradients] | None = None
    code: str = ""
    expensive: bool = False  # worth storing rather than computing again


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * (np.tanh(0.5 * x) + 1.0), dtype=x.dtype)


def _softmax(x: np.ndarray, *, real: np.ndarray) -> np.ndarray:
    """Return the softmax over real positions; a row without any is all zero."""
    x = np.where(real, x, -np.inf)
    top = np.max(x, axis=0, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=0, keepdims=True)
    return np.asarray(e / np.where(total == 0, 1, total), dtype=x.dtype)


def _grad_sub(g: Value, v: Value) -> Gradients:
    yield g
    yield -g


def _grad_mul(g: Value, v: Value) -> Gradients:
    yield g * v.args[1]
    yield g * v.args[0]


def _grad_div(g: Value, v: Value) -> Gradients:
    d = g / v.args[1]
    yield d
    yield -(d * v)


def _grad_maximum(g: Value, v: Value) -> Gradients:
    """Yield the gradient for the larger argument; if both are equal, for the second."""
    a, b = v.args
    larger = v.graph.apply("positive", a - b)
    yield g * larger
    yield g * (1 - larger)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.logaddexp(0, x), dtype=x.dtype)


def _same_gradient(g: Value, v: Value) -> Gradients:
    return [g] * len(v.args)  # broadcast over an axis that was summed, where it is added


OPS: dict[str, Op] = {
    # memory from outside the step
    "param": Op(OpKind.LEAF),  # [n] or [n, m], the same for all rows and steps
    "rows_of": Op(OpKind.LEAF, lambda w, start, rows: w[start : start + rows]),  # some rows of a matrix parameter
    "input": Op(OpKind.LEAF),  # one step of a sequence, [B, n]
    "state": Op(OpKind.LEAF),  # the state before the step, [B, n]
    "captured": Op(OpKind.LEAF),  # constant over time, [B, n], [S, B, n] or [S, B]
    "cotangent": Op(OpKind.LEAF),  # gradient of the loss with respect to an output or a new state
    "const": Op(OpKind.LEAF),
    # elementwise
    "add": Op(OpKind.ELEMENTWISE, np.add, _same_gradient, "({} + {})"),
    "sub": Op(OpKind.ELEMENTWISE, np.subtract, _grad_sub, "({} - {})"),
    "mul": Op(OpKind.ELEMENTWISE, np.multiply, _grad_mul, "({} * {})"),
    "div": Op(OpKind.ELEMENTWISE, np.divide, _grad_div, "({} / {})", expensive=True),
    "neg": Op(OpKind.ELEMENTWISE, np.negative, lambda g, v: [-g], "(-{})"),
    "sigmoid": Op(OpKind.ELEMENTWISE, _sigmoid, lambda g, v: [g * v * (1 - v)], "sigmoid({})", expensive=True),
    "tanh": Op(OpKind.ELEMENTWISE, np.tanh, lambda g, v: [g * (1 - v * v)], "tanh({})", expensive=True),
    "exp": Op(OpKind.ELEMENTWISE, np.exp, lambda g, v: [g * v], "exp({})", expensive=True),
    "sqrt": Op(OpKind.ELEMENTWISE, np.sqrt, lambda g, v: [g * 0.5 / v], "sqrt({})", expensive=True),
    "softplus": Op(
        OpKind.ELEMENTWISE,
        _softplus,
        lambda g, v: [g * v.graph.apply("sigmoid", v.args[0])],
        "softplus({})",
        expensive=True,
    ),
    "maximum": Op(OpKind.ELEMENTWISE, np.maximum, _grad_maximum, "maximum({}, {})"),
    "relu": Op(
        OpKind.ELEMENTWISE, lambda x: np.maximum(x, 0), lambda g, v: [g * v.graph.apply("positive", v)], "relu({})"
    ),
    "positive": Op(OpKind.ELEMENTWISE, lambda x: (x > 0).astype(x.dtype), None, "positive({})"),
    "expand": Op(OpKind.ELEMENTWISE, np.broadcast_to, _same_gradient, "{}"),
    # reductions; `total` is over a named axis
    "sum_last": Op(OpKind.REDUCE, lambda x: x.sum(-1, keepdims=True), _same_gradient, expensive=True),
    "total": Op(OpKind.REDUCE, lambda x, axis: x.sum(axis, keepdims=True), _same_gradient, expensive=True),
    "sum_s": Op(
        OpKind.REDUCE, lambda x, real: np.where(real, x, 0).sum(axis=0, keepdims=True), _same_gradient, expensive=True
    ),
    "softmax": Op(OpKind.COMPOSITE, _softmax, lambda g, v: [v * (g - v.graph.apply("sum_s", g * v))], expensive=True),
    # addressing
    "slice": Op(OpKind.LAYOUT, lambda x, start, size: x[..., start : start + size]),
    "axes": Op(OpKind.LAYOUT, lambda x: x, lambda g, v: [v.graph.apply("flat", g)]),  # features as several named axes
    "flat": Op(OpKind.LAYOUT, lambda x: x, lambda g, v: [v.graph.apply("axes", g, dims=v.args[0].dims)]),  # the inverse
    "concat": Op(OpKind.LAYOUT, lambda *parts: np.concatenate(parts, axis=-1)),
    # products with weights
    "matmul": Op(OpKind.PRODUCT, lambda x, w, transposed: x @ (w.T if transposed else w), expensive=True),
}
