"""ONNX files of g2p-id's two networks as tf2onnx writes them, in Protocol Buffers' wire format."""

import json
import struct

import numpy as np

ACTIVATIONS = [b"Sigmoid", b"Tanh", b"Tanh"]


def varint(number):
    number &= 2**64 - 1
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, array):
    kind = {"float32": 1, "int32": 6, "int64": 7}[array.dtype.name]
    return b"".join(field(1, n) for n in array.shape) + field(2, kind) + field(8, name) + field(9, array.tobytes())


def attribute(name, value):
    content = field(1, name)
    if isinstance(value, int):
        return content + field(3, value) + field(20, 2)
    if isinstance(value, float):
        return content + varint(2 << 3 | 5) + struct.pack("<f", value) + field(20, 1)
    if isinstance(value, bytes):
        return content + field(4, value) + field(20, 3)
    if isinstance(value[0], int):
        return content + b"".join(field(8, n) for n in value) + field(20, 7)
    return content + b"".join(field(9, text) for text in value) + field(20, 8)


def node(op, inputs, outputs, domain="", **attributes):
    parts = [*(field(1, name) for name in inputs), *(field(2, name) for name in outputs), field(4, op)]
    return b"".join([*parts, *(field(5, attribute(*one)) for one in attributes.items()), field(7, domain)])


def model(inputs, nodes, tensors, outputs):
    graph = [field(1, one) for one in nodes] + [field(5, tensor(*one)) for one in tensors.items()]
    graph += [field(11, field(1, name)) for name in inputs] + [field(12, field(1, name)) for name in outputs]
    return field(1, 7) + field(7, b"".join(graph)) + field(8, field(1, "") + field(2, 14))


class Indonesian:
    """A drawn model in g2p-id's files, and what its lstm.py computes, in float64."""

    LETTERS = ("'", "a", "b", "c", " ")
    SOUNDS = ("\t", "\n", "p", "q", "r", "s", " ")
    H, LONGEST = 6, 8

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        H, ins, outs = self.H, len(self.LETTERS), len(self.SOUNDS)
        sizes = {"W": ins, "V": outs}
        self.w = {name: rng.normal(0, 1, (1, 4 * H, n)).astype(np.float32) for name, n in sizes.items()}
        for name, shape in (("R", (1, 4 * H, H)), ("B", (1, 8 * H)), ("S", (1, 4 * H, H)), ("C", (1, 8 * H))):
            self.w[name] = rng.normal(0, 0.7, shape).astype(np.float32)
        self.w["out"] = rng.normal(0, 2, (H, outs)).astype(np.float32)
        self.w["bias"] = rng.normal(0, 0.5, outs).astype(np.float32)
        self.w["bias"][0] = -30  # what ours never says

    def encoder(self, **changes):
        lstm = {"activations": ACTIVATIONS, "direction": b"forward", "hidden_size": self.H} | changes
        nodes = [
            node("Expand", ["none", "shape"], ["zeros"]),
            node("Unsqueeze", ["zeros", "axis"], ["start"]),
            node("Transpose", ["input_1"], ["x"], perm=[1, 0, 2]),
            node("LSTM", ["x", "W", "R", "B", "", "start", "start"], ["y", "h", "c"], **lstm),
            node("Squeeze", ["h", "axis"], ["last h"]),
            node("Squeeze", ["c", "axis"], ["last c"]),
        ]
        numbers = {name: self.w[name] for name in "WRB"}
        numbers |= {"none": np.zeros((), np.float32), "axis": np.zeros(1, np.int64), "shape": np.ones(2, np.int64)}
        return model(["input_1"], nodes, numbers, ["last h", "last c"])

    def decoder(self, end="Softmax", perm=(1, 0, 2)):
        nodes = [
            node("Unsqueeze", ["input_3", "axis"], ["h0"]),
            node("Unsqueeze", ["input_4", "axis"], ["c0"]),
            node("Transpose", ["input_2"], ["x"], perm=[1, 0, 2]),
            node("LSTM", ["x", "V", "S", "C", "", "h0", "c0"], ["y", "h", "c"], hidden_size=self.H),
            node("Squeeze", ["h", "axis"], ["next h"]),
            node("Squeeze", ["c", "axis"], ["next c"]),
            node("Squeeze", ["y", "second"], ["flat"]),
            node("Transpose", ["flat"], ["rows"], perm=list(perm)),
            node("MatMul", ["rows", "out"], ["product"]),
            node("Add", ["product", "bias"], ["logits"]),
            node(end, ["logits"], ["dense"]),
        ]
        numbers = {name: self.w[name] for name in ("V", "S", "C", "out", "bias")}
        numbers |= {"axis": np.zeros(1, np.int64), "second": np.ones(1, np.int64)}
        return model(["input_2", "input_3", "input_4"], nodes, numbers, ["dense", "next h", "next c"])

    def save(self, folder):
        (folder / "encoder_model.onnx").write_bytes(self.encoder())
        (folder / "decoder_model.onnx").write_bytes(self.decoder())
        for name, units in (("g2id", self.LETTERS), ("p2id", self.SOUNDS)):
            numbered = {unit: n for n, unit in enumerate(units)}
            (folder / f"{name}.json").write_text(json.dumps(numbered, indent="\t"))
        config = {"bos_token": "\t", "eos_token": "\n", "pad_token": " "}
        config |= {"max_encoder_seq_length": self.LONGEST, "max_decoder_seq_length": 9}
        (folder / "config.json").write_text(json.dumps(config, indent="\t"))
        return folder / "encoder_model.onnx"

    def predict(self, word):
        h, c = np.zeros(self.H), np.zeros(self.H)
        for letter in word.ljust(self.LONGEST):
            h, c = self.step(("W", "R", "B"), self.LETTERS.index(letter), h, c)
        said, token = "", 0
        while True:
            h, c = self.step(("V", "S", "C"), token, h, c)
            token = int((h @ self.w["out"] + self.w["bias"]).argmax())
            said += self.SOUNDS[token]
            if self.SOUNDS[token] == "\n" or len(said) > 9:
                return said.replace("\n", "")

    def step(self, names, token, h, c):
        """ONNX' LSTM: gates i, o, f, c."""
        W, R, B = (self.w[name][0].astype(np.float64) for name in names)
        half = 4 * self.H
        i, o, f, g = np.split(W[:, token] + R @ h + B[:half] + B[half:], 4)
        i, o, f = (1 / (1 + np.exp(-gate)) for gate in (i, o, f))
        c = f * c + i * np.tanh(g)
        return o * np.tanh(c), c
