"""The LSTM of g2p-id-py (https://pypi.org/project/g2p-id-py/, Apache 2.0): Indonesian words to sounds.

Keras' character-level example (https://keras.io/examples/nlp/lstm_seq2seq/) as tf2onnx wrote it: encoder_model.onnx and
decoder_model.onnx, one LSTM each over one-hot characters, with g2id.json, p2id.json and config.json beside them
(lstm.py of 0.4.2). A word is filled up with spaces to the length that the config says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.vocabulary import Frame, Vocabulary
from nmt.errors import CheckpointError
from nmt.importing.g2p_fa import last_state_settings
from nmt.importing.imported import Imported, Params, Tensors, our_order, rows_of
from nmt.importing.onnx_file import Graph, Node, read_onnx
from nmt.importing.settings_text import read_settings
from nmt.importing.unit_lists import read_units

KIND = "g2p-id"
_ENCODER, _DECODER = "encoder_model.onnx", "decoder_model.onnx"
_ACTIVATIONS = [b"Sigmoid", b"Tanh", b"Tanh"]
_TIME_FIRST = [1, 0, 2]
_LONGEST = 10_000
# Operators that move numbers and leave them as they are.
_MOVING = {"Transpose", "Squeeze", "Unsqueeze", "Reshape", "Identity"}


def knows(path: Path, values: Any) -> bool:
    """Whether a file is one of the two."""
    return isinstance(values, Graph) and path.name in (_ENCODER, _DECODER)


def read(path: Path) -> Imported:
    """The model of which `path` is one of the two files. Raises CheckpointError: parts are missing, or others."""
    folder = path.parent
    sides = [_Network(folder / name) for name in (_ENCODER, _DECODER)]
    sides[0].check_encoder()
    softmax = sides[1].check_decoder()
    letters, sounds = (read_units(folder / name) for name in ("g2id.json", "p2id.json"))
    config = _config(folder / "config.json", letters, sounds)
    tensors = Tensors(str(folder), {})
    params = Params(tensors)
    src_order = [-1] * 4 + list(range(len(letters)))
    bos, eos = (sounds.index(config[f"{name}_token"]) for name in ("bos", "eos"))
    tgt_order, units = our_order(str(folder), sounds, -1, -1, bos, eos)
    hidden = _lstm(params, "encoder.0.forward", sides[0], len(letters))
    if _lstm(params, "decoder.cell.0", sides[1], len(sounds)) != hidden:
        raise CheckpointError(f"{folder}: {_DECODER} must have states of {hidden}, as {_ENCODER}, got another size")
    for side, order in (("src", src_order), ("tgt", tgt_order)):
        params.give(
            f"{side}_embeddings", rows_of(np.eye(max(order) + 1, dtype=np.float32), order), "one-hot, our order"
        )
    weight, bias = softmax
    params.output_of(f"{_DECODER}: MatMul", weight.T, bias, tgt_order, hidden, f"{_DECODER}: Add")
    settings = last_state_settings((len(letters), len(sounds)), hidden, 1, config["max_decoder_seq_length"] + 1)
    settings["data"] = {"src": {"lowercase": True}}
    frame = Frame((), (), config["pad_token"], config["max_encoder_seq_length"])
    src = Vocabulary(letters, split="characters", unknown="left_out", frame=frame)
    return Imported(KIND, settings, params.arrays, src, Vocabulary(units, split="characters"), params.lines)


class _Network:
    """One of the two files: its only LSTM, and what leads to it and away."""

    def __init__(self, path: Path) -> None:
        self.path, self.graph = path, read_onnx(path)
        self.made = {name: node for node in self.graph.nodes for name in node.outputs if name}
        found = [node for node in self.graph.nodes if node.op == "LSTM"]
        if len(found) != 1:
            raise self.wrong("one LSTM", f"{len(found)}")
        self.lstm = found[0]
        rest = dict(self.lstm.attributes)
        known = {"activations": _ACTIVATIONS, "direction": b"forward", "layout": 0}
        rest.pop("hidden_size", None)
        if other := [name for name, value in rest.items() if name not in known or value != known[name]]:
            raise self.wrong("an LSTM of ONNX' own activations that reads forward", f"one with another {other[0]:.40}")
        if len(self.lstm.inputs) != 7 or self.lstm.inputs[4] or len(self.lstm.outputs) != 3:
            raise self.wrong("an LSTM with first states, without lengths and peepholes", "another")

    def check_encoder(self) -> None:
        """Raise CheckpointError: it does more than read its input from zeros on and give the last states."""
        graph, lstm = self.graph, self.lstm
        self._same("its input", [self._origin(lstm.inputs[0])], graph.inputs)
        for name in lstm.inputs[5:7]:
            origin = self._origin(name)
            node = self.made.get(origin)
            start = graph.tensors.get(node.inputs[0] if node is not None and node.op == "Expand" else origin)
            if start is None or np.any(start):
                raise self.wrong("an LSTM that starts from zeros", "another start")
        self._same("its outputs", [self._origin(name) for name in graph.outputs], lstm.outputs[1:])

    def check_decoder(self) -> tuple[np.ndarray, np.ndarray]:
        """The output layer's weights [H, V] and bias [V]. Raises CheckpointError: it does more than one step, or
        something else."""
        graph, lstm = self.graph, self.lstm
        self._same("its inputs", [self._origin(lstm.inputs[n]) for n in (0, 5, 6)], graph.inputs)
        self._same("its states", [self._origin(name) for name in graph.outputs[1:]], lstm.outputs[1:])
        last = self.made.get(graph.outputs[0])
        if last is None or last.op != "Softmax" or last.attributes.get("axis", -1) not in (-1, 2):
            raise self.wrong("a softmax at its end", "something else")
        add = self._node(last.inputs[0], "Add")
        product = self._node(add.inputs[0], "MatMul")
        self._same("its output layer", [self._origin(product.inputs[0])], lstm.outputs[:1])
        return self.constant(product.inputs[1]), self.constant(add.inputs[1])

    def constant(self, name: str) -> np.ndarray:
        """A constant tensor in float32. Raises CheckpointError: there is none of finite numbers."""
        found = self.graph.tensors.get(name)
        if found is None or found.dtype.kind != "f" or not np.isfinite(found).all():
            raise self.wrong(f"finite numbers for {name!r:.60}", "none")
        return found.astype(np.float32)

    def wrong(self, expected: str, got: str) -> CheckpointError:
        """The error for a file that is another network."""
        return CheckpointError(f"{self.path}: must be a network with {expected}, got {got}; this is not g2p-id's LSTM")

    def _origin(self, name: str) -> str:
        """Where a value comes from, behind operators that only move numbers. Raises CheckpointError."""
        for _ in range(len(self.graph.nodes) + 1):
            node = self.made.get(name)
            if node is None or node.op not in _MOVING:
                return name
            if node.op == "Transpose" and node.attributes.get("perm") != _TIME_FIRST:
                break
            name = node.inputs[0] if node.inputs else ""
        raise self.wrong("values that keep their order", "others")

    def _node(self, name: str, op: str) -> Node:
        """The node that makes a value. Raises CheckpointError: it is another operator."""
        node = self.made.get(self._origin(name))
        if node is None or node.op != op or len(node.inputs) != 2:
            raise self.wrong(f"{op} before its softmax", "something else")
        return node

    def _same(self, what: str, found: list[str], expected: list[str]) -> None:
        if found != expected:
            raise self.wrong(f"{what} joined to the LSTM", "other connections")


def _lstm(params: Params, name: str, network: _Network, inputs: int) -> int:
    """ONNX' LSTM (operator's page: W [1, 4H, in], R [1, 4H, H], B [1, 8H], gates i, o, f, c) as ours; returns H.
    Raises CheckpointError: it has another shape."""
    W, R, B = (network.constant(one) for one in network.lstm.inputs[1:4])
    hidden = R.shape[-1] if R.ndim else 0
    wanted = [(1, 4 * hidden, inputs), (1, 4 * hidden, hidden), (1, 8 * hidden)]
    if not hidden or [W.shape, R.shape, B.shape] != wanted:
        raise network.wrong(f"an LSTM over {inputs} characters", f"weights of {list(W.shape)}")
    gates = np.arange(4 * hidden).reshape(4, hidden)[[0, 2, 3, 1]].ravel()
    said = f"{network.path.name}: LSTM"
    params.give(f"{name}.W_x", W[0, gates].T, f"{said} W, gates i, o, f, c as i, f, g, o, transposed")
    params.give(f"{name}.W_h", R[0, gates].T, f"{said} R, the same")
    params.give(f"{name}.b", B[0, : 4 * hidden][gates] + B[0, 4 * hidden :][gates], f"{said} B, both halves added")
    return hidden


def _config(path: Path, letters: list[str], sounds: list[str]) -> Mapping[str, Any]:
    """Special tokens and lengths. Raises CheckpointError: they are missing or others."""
    found = read_settings(path)
    for name, units in (("bos_token", sounds), ("eos_token", sounds), ("pad_token", letters)):
        if not isinstance(found.get(name), str) or found[name] not in units:
            raise CheckpointError(f"{path}: {name} must be a unit of the vocabulary, got {found.get(name)!r:.40}")
    for name in ("max_encoder_seq_length", "max_decoder_seq_length"):
        value = found.get(name)
        if type(value) is not int or not 0 < value <= _LONGEST:
            raise CheckpointError(f"{path}: {name} must be from 1 to {_LONGEST:,}, got {value!r:.40}")
    if found["bos_token"] == found["eos_token"]:
        raise CheckpointError(f"{path}: bos_token and eos_token must be two, got {found['bos_token']!r:.40} twice")
    return found
