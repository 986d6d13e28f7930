"""The functions that the author of a cell uses in its step, in addition to the operators of `graph.Value`."""

from __future__ import annotations

from typing import Any

from nmt.errors import ShapeError
from nmt.rnn.graph import Graph, Value


def _graph_of(op: str, *arguments: Value | float) -> Graph:
    """Return the graph of the first value among the arguments. Raises ShapeError: there is none."""
    for a in arguments:
        if isinstance(a, Value):
            return a.graph
    got = ", ".join(type(a).__name__ for a in arguments) or "nothing"
    raise ShapeError(f"{op}: must be given values of the step, got {got}")


def _apply(op: str, *arguments: Value | float, **attrs: Any) -> Value:
    return _graph_of(op, *arguments).apply(op, *arguments, **attrs)


def sigmoid(x: Value) -> Value:
    """Return 1 / (1 + exp(-x))."""
    return _apply("sigmoid", x)


def tanh(x: Value) -> Value:
    """Return the hyperbolic tangent."""
    return _apply("tanh", x)


def relu(x: Value) -> Value:
    """Return max(x, 0); the gradient at 0 is 0."""
    return _apply("relu", x)


def exp(x: Value) -> Value:
    """Return e to the power of x."""
    return _apply("exp", x)


def sqrt(x: Value) -> Value:
    """Return the square root."""
    return _apply("sqrt", x)


def softplus(x: Value) -> Value:
    """Return log(1 + exp(x)), which is -log(sigmoid(-x))."""
    return _apply("softplus", x)


def maximum(a: Value, b: Value | float) -> Value:
    """Return the larger of two values; where they are equal, b receives the gradient."""
    return _apply("maximum", a, b)


def positive(x: Value) -> Value:
    """Return 1 where x > 0, else 0; passes no gradient on."""
    return _apply("positive", x)


def mean(x: Value) -> Value:
    """Return the mean over the feature axis: one number per row."""
    return _apply("sum_last", x) * (1 / (x.width or 1))


def split(x: Value, n: int) -> list[Value]:
    """Split the feature axis into n equal parts."""
    graph, width = _graph_of("split", x), x.width
    if not isinstance(n, int) or n < 1 or width is None or width % n:
        raise ShapeError(f"split: the width must be a multiple of {n}, got {width}")
    size = width // n
    return [graph.apply("slice", x, start=k * size, size=size) for k in range(n)]


def concat(*parts: Value) -> Value:
    """Concatenate along the feature axis."""
    return _apply("concat", *parts)


def dot(a: Value, b: Value) -> Value:
    """Return the sum over the feature axis of a * b: [S, B, n], [B, n] -> [S, B]."""
    return _apply("sum_last", a * b)


def softmax(scores: Value) -> Value:
    """Normalise over the source positions of each row: [S, B] -> [S, B]; positions beyond a row's length get zero."""
    return _apply("softmax", scores)


def weighted_sum(weights: Value, values: Value) -> Value:
    """Return the sum over S of weights [S, B] times values [S, B, n] -> [B, n]."""
    return _apply("sum_s", weights * values)


def source_count(memory: Value) -> Value:
    """Return the number of source positions of each row: [S, B, n] -> [B]."""
    graph = _graph_of("source_count", memory)
    return graph.apply("sum_s", graph.apply("expand", graph.const(1.0), axes=("S", "B"), width=None))


def transposed_matmul(x: Value, w: Value) -> Value:
    """Return x @ W.T for a matrix parameter W."""
    return _apply("matmul", x, w, transposed=True)


def axes(x: Value, **sizes: int) -> Value:
    """Return x with its feature axis as several named ones: `axes(k, h=8, k=64)` of a width of 512."""
    return _apply("axes", x, dims=tuple(sizes.items()))


def flat(x: Value) -> Value:
    """Return x with its named axes as one feature axis, the last of them fastest."""
    return _apply("flat", x)


def total(x: Value, axis: str) -> Value:
    """Return the sum over a named axis."""
    return _apply("total", x, axis=axis)
