"""Activations by name, as ONNX's recurrent operators know them, from the engine's few operations."""

from collections.abc import Callable
from inspect import signature

from nmt.errors import ShapeError
from nmt.rnn.functions import exp, maximum, positive, relu, sigmoid, softplus, tanh
from nmt.rnn.graph import Value

Activation = Callable[[Value], Value]
ActivationSpec = str | tuple[str, float] | tuple[str, float, float]
"""A name, alone or with the function's parameters in order: ONNX's alpha and beta."""


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


def activation(spec: ActivationSpec) -> Activation:
    """Return the function of this name, with its numbers applied.

    Raises ShapeError: the name is unknown, or it takes fewer numbers.
    """
    name, *numbers = (spec,) if isinstance(spec, str) else spec
    if name not in _BY_NAME:
        raise ShapeError(f"activation: must be one of {', '.join(_BY_NAME)}, got {name}")
    takes = len(signature(_BY_NAME[name]).parameters) - 1
    if len(numbers) > takes:
        raise ShapeError(f"activation {name}: must have at most {takes} numbers besides its name, got {len(numbers)}")
    return lambda x: _BY_NAME[name](x, *numbers)
