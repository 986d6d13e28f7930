"""Shared parts of the cells of linear recurrences: activations, norms, a short convolution, sizes of heads."""

import math
from collections.abc import Sequence

from nmt.errors import ShapeError
from nmt.rnn.cell import Param, Scope, State
from nmt.rnn.functions import axes, concat, mean, sigmoid, sqrt, tanh, total
from nmt.rnn.graph import Value

EPSILON = 1e-5
"""A number added to a mean of squares, so that its root has a gradient at zero."""


def silu(x: Value) -> Value:
    """Return x sigmoid(x)."""
    return x * sigmoid(x)


def gelu(x: Value) -> Value:
    """Return the Gaussian error linear unit in its approximation with tanh (Hendrycks and Gimpel 2016, section 2)."""
    return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))


def rms_norm(x: Value, gain: Value) -> Value:
    """Return x / sqrt(mean of squares over the features + EPSILON) * gain (Zhang and Sennrich 2019, equation 4)."""
    return x * (1 / sqrt(mean(x * x) + EPSILON)) * gain


def head_norm(y: Value, gain: Value, size: int) -> Value:
    """Return y [h, v] with each head normalised so, and one gain [v] for all heads."""
    return y * (1 / sqrt(total(y * y, "v") * (1 / size) + EPSILON)) * axes(gain, v=size)


def unit(x: Value, axis: str) -> Value:
    """Return x with length one along a named axis; 1e-6 is added to the square of its length."""
    return x * (1 / sqrt(total(x * x, axis) + 1e-6))


def constants(like: Value, numbers: Sequence[float]) -> Value:
    """Return these numbers as features, the same for all rows, in the graph of `like`."""
    graph = like.graph
    return concat(*(graph.apply("expand", graph.const(number), axes=(), width=1) for number in numbers))


def heads_of(name: str, width: int, heads: int | None, size: int = 64) -> int:
    """Return how many heads share a width: `heads`, or if it is None as many as have at least `size` units each.

    Raises ShapeError: they do not divide it.
    """
    if heads is None:
        return next(h for h in range(max(1, width // size), 0, -1) if width % h == 0)
    if heads < 1 or width % heads:
        raise ShapeError(f"{name}: heads must divide hidden_size {width}, got {heads}")
    return heads


def short_convolution_params(window: int, width: int) -> dict[str, Param]:
    """Return a vector of weights for each input of the window, `c_0` for the newest, which begins as their mean."""
    return {f"c_{k}": Param((width,), start=1 / window) for k in range(window)}


def short_convolution_states(window: int, width: int) -> dict[str, int]:
    """Return the states: `past1`, the share of past inputs in the next sum; `past2` in the one after it; ..."""
    return {f"past{k}": width for k in range(1, window)}


def short_convolution(p: Scope, x: Value, s: State, window: int) -> tuple[Value, State]:
    """Return the sum over the window of inputs times weights, each feature by itself, and the new states."""
    parts = [x * p[f"c_{k}"] for k in range(window)]
    parts = [part + s[f"past{k + 1}"] if k + 1 < window else part for k, part in enumerate(parts)]
    return parts[0], State({f"past{k}": part for k, part in enumerate(parts) if k})
