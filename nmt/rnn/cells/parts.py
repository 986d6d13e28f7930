"""Shared parts of cells: activations by name, as ONNX's recurrent operators know them, and for linear recurrences
norms, a short convolution and sizes of heads."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from numbers import Integral
from typing import Any

from nmt.errors import ShapeError
from nmt.rnn.arguments import is_number
from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.functions import axes, concat, exp, maximum, mean, positive, relu, sigmoid, softplus, sqrt, tanh, total
from nmt.rnn.graph import Value

Activation = Callable[[Value], Value]
ActivationSpec = str | tuple[str, float] | tuple[str, float, float]
"""A name, alone or with the function's parameters in order: ONNX's alpha and beta."""


class EqualCell(Cell):
    """A base of cells whose output and states, named by `_memory`, have hidden_size numbers each."""

    _memory: tuple[str, ...] = ("h",)

    def __init__(self, input_size: int, hidden_size: int) -> None:
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size

    def states(self) -> dict[str, int]:
        return dict.fromkeys(self._memory, self.hidden_size)


class ZeroStartCell(Cell):
    """A base of cells whose states always start at zero."""

    def starts(self) -> tuple[str, ...]:
        return ()


def clip(x: Value, limit: float | None) -> Value:
    """Return x limited to [-limit, limit]; None leaves it unchanged."""
    return x if limit is None else -maximum(-maximum(x, -limit), -limit)


def hard_sigmoid(x: Value, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """Return alpha x + beta limited to [0, 1] (Courbariaux et al. 2015, equation 3, has alpha = beta = 1/2)."""
    return 1 - relu(1 - relu(alpha * x + beta))


def softsign(x: Value) -> Value:
    """Return x / (1 + |x|) (Glorot and Bengio 2010, section 1)."""
    return x / (1 + maximum(x, -x))


def leaky_relu(x: Value, alpha: float = 0.01) -> Value:
    """Return x where it is positive, else alpha x (Maas et al. 2013, section 2)."""
    return relu(x) - alpha * relu(-x)


def elu(x: Value, alpha: float = 1.0) -> Value:
    """Return x where it is positive, else alpha (exp(x) - 1) (Clevert et al. 2016, equation 15)."""
    return relu(x) + alpha * (exp(-relu(-x)) - 1)


def scaled_tanh(x: Value, alpha: float = 1.7159, beta: float = 2 / 3) -> Value:
    """Return alpha tanh(beta x) (LeCun et al. 1998, section 4.4)."""
    return alpha * tanh(beta * x)


def thresholded_relu(x: Value, alpha: float = 1.0) -> Value:
    """Return x where it is above alpha, else 0 (Konda et al. 2015, section 3)."""
    return x * positive(x - alpha)


def affine(x: Value, alpha: float = 1.0, beta: float = 0.0) -> Value:
    """Return alpha x + beta; with the defaults x itself (ONNX: Affine; Keras: linear)."""
    return alpha * x + beta


_BY_NAME: dict[str, Callable[..., Value]] = {
    "sigmoid": sigmoid,
    "tanh": tanh,
    "relu": relu,
    "hard_sigmoid": hard_sigmoid,
    "softsign": softsign,
    "softplus": softplus,
    "leaky_relu": leaky_relu,
    "elu": elu,
    "scaled_tanh": scaled_tanh,
    "thresholded_relu": thresholded_relu,
    "affine": affine,
}


def activation(spec: ActivationSpec, where: str = "step: activation") -> Activation:
    """Return the function of this name with its numbers. Raises ShapeError: an unknown name, or too many numbers."""
    name, *numbers = spec if isinstance(spec, tuple | list) and spec else (spec,)
    if not isinstance(name, str) or name not in _BY_NAME:
        raise ShapeError(f"{where} must be one of {', '.join(_BY_NAME)}, got {name!r}")
    takes = len(signature(_BY_NAME[name]).parameters) - 1
    if len(numbers) > takes or not all(is_number(one) and math.isfinite(one) for one in numbers):
        raise ShapeError(f"{where} must be {name} and at most {takes} numbers, got {spec!r}")
    return lambda x: _BY_NAME[name](x, *numbers)


def checked_activations(where: str, specs: Sequence[ActivationSpec], count: int) -> Any:
    """Return so many activations as a tuple. Raises ShapeError."""
    if not isinstance(specs, tuple | list) or len(specs) != count:
        raise ShapeError(f"{where}: activations must be a tuple of {count}, got {specs!r}")
    for spec in specs:
        activation(spec, f"{where}: activations")
    return tuple(specs)


EPSILON = 1e-5
"""A number added to a mean of squares: a root has a gradient at zero, and what is constant is normalised to zero."""


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
    """Return how many heads share a width: `heads`, or if it is None as many as have at least `size` units each. Raises
    ShapeError: they do not divide it."""
    if heads is None:
        return next(h for h in range(max(1, width // size), 0, -1) if width % h == 0)
    if not isinstance(heads, Integral) or isinstance(heads, bool) or heads < 1 or width % heads:
        raise ShapeError(f"{name}: heads must divide hidden_size {width}, got {heads}")
    return int(heads)


@dataclass(frozen=True)
class ShortConvolution:
    """A sum over the last `window` inputs times weights, each of `width` features by itself, for use within a cell."""

    window: int
    width: int

    def params(self) -> dict[str, Param]:
        """Return a vector of weights for each input of the window, `c_0` for the newest, which begins as their mean."""
        return {f"c_{k}": Param((self.width,), start=1 / self.window) for k in range(self.window)}

    def states(self) -> dict[str, int]:
        """Return the states: `past1`, the share of past inputs in the next sum; `past2` in the one after it; ..."""
        return {f"past{k}": self.width for k in range(1, self.window)}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        """Return the sum and the new states."""
        return over_window([x * p[f"c_{k}"] for k in range(self.window)], s)


def over_window(parts: list[Value], s: State) -> tuple[Value, State]:
    """Return the sum over the window that ends with a step, and the new states. parts: the shares of the step's input
    in this sum and in each later one."""
    parts = [part + s[f"past{k + 1}"] if k + 1 < len(parts) else part for k, part in enumerate(parts)]
    return parts[0], State({f"past{k}": part for k, part in enumerate(parts) if k})


def features(x: Value, start: int, size: int) -> Value:
    """Return `size` features of a value from `start` on."""
    return x.graph.apply("slice", x, start=start, size=size)
