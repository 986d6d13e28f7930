"""Parameters of LSTM, GRU and RNN in the layouts of other systems, and back.

Everything is exchanged as dictionaries with this project's names (`W_x_l0`, see operators.py), for `layer.load(...)`
and from `layer.params`. Systems differ in the order of the gates, in which axis of a matrix is the input's, and in how
many biases there are. In all of them z is the weight of the old state, as in ours: h_t = (1 - z) * n + z * h_prev.

| system | LSTM | GRU | matrices | biases |
|---|---|---|---|---|
| ours | i f g o | r z n | [in, G*H] | two |
| PyTorch, cuDNN, MXNet | i f g o | r z n | [G*H, in] | two |
| ONNX | i o f g, peepholes i o f | z r n | [directions, G*H, in] | two, side by side |
| Keras | i f g o | z r n | [in, G*H] | one; two of a GRU with reset_after |

Arrays of Keras and others with matrices [in, G*H] are ours after `reorder_gates`. Where a system has one bias, it
becomes `b_x`, and `b_h` is zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.arrays.array_names import Arrays

_NAME = r"(?P<what>.+)_l(?P<layer>\d+)(?P<side>|_reverse)"

OURS = {"LSTM": "ifgo", "GRU": "rzn", "RNN": "h"}
ONNX = {"LSTM": "iofg", "GRU": "zrn", "RNN": "h"}
COUPLED = "igo"
"""Our gates of an LSTM with input_forget, which has no f."""

_TORCH = {"weight_ih": "W_x", "weight_hh": "W_h", "bias_ih": "b_x", "bias_hh": "b_h", "weight_hr": "W_p"}
_MXNET = {"i2h_weight": "W_x", "h2h_weight": "W_h", "i2h_bias": "b_x", "h2h_bias": "b_h", "h2r_weight": "W_p"}


def reorder_gates(array: np.ndarray, have: str, want: str) -> np.ndarray:
    """Return a copy with the blocks of the last axis, one per letter, in another order; zeros for a missing letter."""
    if array.shape[-1] % len(have):
        raise ShapeError(f"layouts: the last axis must be {len(have)} gates wide, got {array.shape[-1]} numbers")
    parts = dict(zip(have, np.split(array, len(have), axis=-1), strict=True))
    nothing = np.zeros_like(parts[have[0]])
    return np.concatenate([parts.get(gate, nothing) for gate in want], axis=-1)


# ------------------------------------------------------------ PyTorch, cuDNN, MXNet: our gates, matrices transposed


def from_torch(state: Mapping[str, Any], prefix: str = "") -> Arrays:
    """Convert the entries below `prefix` of a state_dict, as NumPy arrays: `weight_ih_l0` [G*H, D] and so on. Raises
    ShapeError: a name that is not one of a layer's parameters."""
    return _transposed(state, _NAME, _TORCH, lambda what, layer, end: f"{what}_l{layer}{end}", prefix)


def to_torch(params: Mapping[str, np.ndarray], prefix: str = "") -> Arrays:
    """Return the entries of a state_dict of torch.nn.LSTM, GRU or RNN. Raises ShapeError: a parameter they lack."""
    theirs = {ours: name for name, ours in _TORCH.items()}
    return _transposed(params, _NAME, theirs, lambda what, layer, end: f"{prefix}{what}_l{layer}{end}")


def from_mxnet(arrays: Mapping[str, Any]) -> Arrays:
    """Convert the parameters of mxnet.gluon.rnn.LSTM, GRU or RNN: `l0_i2h_weight` [G*H, D], `r0_...` for the reverse
    direction. Raises ShapeError: a name that is not one of a layer's parameters."""
    pattern = r"(?P<side>[lr])(?P<layer>\d+)_(?P<what>.+)"
    return _transposed(
        arrays, pattern, _MXNET, lambda what, layer, side: f"{what}_l{layer}{'_reverse' if side == 'r' else ''}"
    )


def to_mxnet(params: Mapping[str, np.ndarray]) -> Arrays:
    """Return the parameters of mxnet.gluon.rnn.LSTM, GRU or RNN, by name. Raises ShapeError: one that they lack."""
    theirs = {ours: name for name, ours in _MXNET.items()}
    return _transposed(params, _NAME, theirs, lambda what, layer, end: f"{'r' if end else 'l'}{layer}_{what}")


def from_flat(vector: np.ndarray, like: Mapping[str, np.ndarray]) -> Arrays:
    """Convert the one vector of cuDNN and of MXNet's RNN operator. It contains all matrices layer by layer and
    direction by direction (input, hidden, projection), then all biases in the same order. `like`: arrays of the right
    shapes, as `layer.params`. Raises ShapeError: the number of entries differs."""
    size = sum(array.size for array in like.values())
    if vector.shape != (size,):
        raise ShapeError(f"from_flat: the vector must be [{size}], got {list(vector.shape)}")
    found, start = dict.fromkeys(like, vector), 0
    for name in _flat_order(like):
        stop = start + like[name].size
        found[name] = np.ascontiguousarray(vector[start:stop].reshape(like[name].shape[::-1]).T)
        start = stop
    return found


def to_flat(params: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the one vector of cuDNN and of MXNet's RNN operator, see `from_flat`."""
    return np.concatenate([np.ravel(params[name].T) for name in _flat_order(params)])


def _flat_order(names: Mapping[str, Any]) -> list[str]:
    """Return names in the vector's order: matrices, then biases. Raises ShapeError: a parameter of neither kind."""
    matrices = [name for name in names if name.startswith("W_")]
    biases = [name for name in names if name.startswith("b_")]
    if len(matrices) + len(biases) < len(names):
        raise ShapeError(f"layouts: parameters must be W_x, W_h, W_p, b_x and b_h of cuDNN, got {', '.join(names)}")
    return matrices + biases


def _transposed(
    arrays: Any, pattern: str, known: Mapping[str, str], name_of: Callable[[str, str, str], str], prefix: str = ""
) -> Arrays:
    """Return matrices transposed, under the names that `name_of` makes of the parameter, layer and direction, which
    `pattern` finds in theirs. `known` translates the parameter."""
    if not isinstance(arrays, Mapping):
        advice = "; give module.state_dict()" if hasattr(arrays, "state_dict") else ""
        raise ShapeError(f"layouts: parameters must be a dict of arrays by name, got {type(arrays).__name__}{advice}")
    found: Arrays = {}
    for name in (name for name in arrays if name.startswith(prefix)):
        own = name[len(prefix) :]
        match = re.fullmatch(pattern, own)
        if not match or match["what"] not in known:
            raise ShapeError(f"layouts: a parameter must be one of {', '.join(known)} of a layer, got {own}")
        ours = name_of(known[match["what"]], match["layer"], match["side"])
        found[ours] = np.ascontiguousarray(np.asarray(arrays[name]).T)
    if prefix and not found:
        raise ShapeError(f"layouts: prefix must begin some of the names, got {prefix!r} and {', '.join(arrays)}")
    return found


# ------------------------------------------------------------ ONNX: one layer a node


def from_onnx(
    op: str,
    W: np.ndarray,
    R: np.ndarray,
    B: np.ndarray | None = None,
    P: np.ndarray | None = None,
    *,
    direction: str = "forward",
    input_forget: bool = False,
    layer: int = 0,
) -> Arrays:
    """Convert the inputs of a node LSTM, GRU or RNN: W [directions, G*H, D], R [directions, G*H, H], B [directions,
    2*G*H], P [directions, 3*H]. `direction` and `input_forget` are the node's, `layer` is the layer's number in our
    stack."""
    ends = _ends(op, direction, layer)
    have, want = ONNX[op], COUPLED if op == "LSTM" and input_forget else OURS[op]
    found: Arrays = {}
    for n, end in enumerate(ends):
        found[f"W_x{end}"] = reorder_gates(np.ascontiguousarray(W[n].T), have, want)
        found[f"W_h{end}"] = reorder_gates(np.ascontiguousarray(R[n].T), have, want)
        if B is not None:
            for name, bias in zip(("b_x", "b_h"), np.split(B[n], 2), strict=True):
                found[name + end] = reorder_gates(bias, have, want)
        if P is not None:
            peepholes = dict(zip("iof", np.split(P[n], 3), strict=True))
            found |= {f"w_{gate}{end}": peepholes[gate].copy() for gate in "ifo" if gate in want}
    return found


def to_onnx(op: str, params: Mapping[str, np.ndarray], *, layer: int = 0) -> Arrays:
    """Return the inputs W, R, and B and P if there are such parameters, of a node for one layer, with all its
    directions. The gate f with input_forget, which ONNX requires but does not read, is zero. Raises ShapeError: a
    projection, which ONNX does not have."""
    ends = [end for end in _ends(op, "bidirectional", layer) if f"W_x{end}" in params]
    if not ends:
        raise ShapeError(f"to_onnx: layer must be among those of {', '.join(params)}, got {layer}")
    if f"W_p{ends[0]}" in params:
        raise ShapeError("to_onnx: parameters must be without a projection, got W_p; ONNX has no such operator")
    want = ONNX[op]
    H = len(params[f"W_h{ends[0]}"])
    have = COUPLED if op == "LSTM" and params[f"W_h{ends[0]}"].shape[1] == 3 * H else OURS[op]

    def gates(name: str) -> np.ndarray:
        return np.stack([reorder_gates(params[name + end], have, want).T for end in ends])

    found = {"W": gates("W_x"), "R": gates("W_h")}
    if f"b_x{ends[0]}" in params:
        found["B"] = np.concatenate([gates("b_x"), gates("b_h")], axis=-1)
    if f"w_i{ends[0]}" in params:
        nothing = np.zeros(H, params[f"w_i{ends[0]}"].dtype)
        found["P"] = np.stack([np.concatenate([params.get(f"w_{g}{end}", nothing) for g in "iof"]) for end in ends])
    return {name: np.ascontiguousarray(array) for name, array in found.items()}


def onnx_options(op: str, attributes: Mapping[str, Any], inputs: Collection[str] = ("B",)) -> dict[str, Any]:
    """Return our operator's keywords for a node's attributes and its inputs, of which B and P matter. `empty` is zero,
    as in ONNX Runtime. `layout` 1 is left to the caller: ONNX then has its states batch first too, which ours never
    are. Raises ShapeError: directions that differ in their activations."""
    direction = attributes.get("direction", "forward")
    _ends(op, direction, 0)
    options: dict[str, Any] = {"bidirectional": direction == "bidirectional", "reverse": direction == "reverse"}
    options |= {"clip": attributes.get("clip"), "empty": "zero", "bias": "B" in inputs}
    if op == "LSTM":
        options["peepholes"] = "P" in inputs
        options["input_forget"] = bool(attributes.get("input_forget", 0))
    if op == "GRU":
        options["reset_after"] = bool(attributes.get("linear_before_reset", 0))
    functions = _onnx_activations(attributes)
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
    if functions and functions[:count] != functions[-count:]:
        raise ShapeError(f"onnx_options: both directions must have the same activations, got {functions}")
    if functions:
        options |= {"nonlinearity": functions[0]} if op == "RNN" else {"activations": tuple(functions[:count])}
    return options


def _onnx_activations(attributes: Mapping[str, Any]) -> list[Any]:
    """Return our names of the activations; alphas and betas go in order to the functions that take them."""
    alphas = list(attributes.get("activation_alpha") or [])
    betas = list(attributes.get("activation_beta") or [])
    found: list[Any] = []
    for theirs in attributes.get("activations") or []:
        name = re.sub("(?<!^)(?=[A-Z])", "_", theirs).lower()
        numbers = [alphas.pop(0)] if alphas and name in _WITH_ALPHA | _WITH_BETA else []
        numbers += [betas.pop(0)] if numbers and betas and name in _WITH_BETA else []
        found.append((name, *numbers) if numbers else name)
    return found


_WITH_BETA = {"affine", "scaled_tanh", "hard_sigmoid"}
_WITH_ALPHA = {"leaky_relu", "thresholded_relu", "elu"}


def _ends(op: str, direction: str, layer: int) -> list[str]:
    """Return a layer's parameter endings, by direction. Raises ShapeError: an unknown operator or direction."""
    if op not in ONNX:
        raise ShapeError(f"layouts: op must be one of {', '.join(ONNX)}, got {op}")
    ends = {"forward": ("",), "reverse": ("_reverse",), "bidirectional": ("", "_reverse")}
    if direction not in ends:
        raise ShapeError(f"layouts: direction must be one of {', '.join(ends)}, got {direction}")
    return [f"_l{layer}{end}" for end in ends[direction]]


def __getattr__(name: str) -> Any:
    """Raise AttributeError, with what takes the place of functions that are gone."""
    if name in ("from_keras", "to_keras", "from_haste", "to_haste"):
        advice = "layouts.reorder_gates(array, 'zrn', 'rzn') puts gates in order, array by array (docs/library.md)"
        raise AttributeError(f"layouts.{name} is not there any more; {advice}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
