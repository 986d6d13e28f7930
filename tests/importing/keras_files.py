"""A model of netra-transliterate's layers in its own files, and what Keras computes with it, in NumPy."""

import json
import pickle
import struct
import zipfile

import numpy as np

from tests.importing.torch_files import lent
from tests.importing.witness import sigmoid, softmax
from tests.nested import put

NOWHERE = b"\xff" * 8
FLOAT32 = bytes.fromhex("1120 1f00 04000000 0000 2000 17 08 00 17 7f000000")


class Hdf5:
    """Groups and float32 arrays as the oldest version of HDF5 writes them."""

    def __init__(self, tree):
        self.content = bytearray(96)
        root = self._group(tree)
        start = b"\x89HDF\r\n\x1a\n" + bytes([0, 0, 0, 0, 0, 8, 8, 0]) + struct.pack("<HHI", 4, 16, 0)
        start += (
            bytes(8) + NOWHERE + struct.pack("<Q", len(self.content)) + NOWHERE + bytes(8) + struct.pack("<Q", root)
        )
        self.content[: len(start)] = start

    def _put(self, content):
        self.content += bytes(-len(self.content) % 8)
        at = len(self.content)
        self.content += content
        return at

    def _object(self, messages):
        body = b"".join(
            struct.pack("<HHI", kind, len(text) + -len(text) % 8, 0) + text + bytes(-len(text) % 8)
            for kind, text in messages
        )
        return self._put(struct.pack("<BBHII4x", 1, 0, len(messages), 1, len(body)) + body)

    def _array(self, array):
        at = self._put(array.astype("<f4").tobytes())
        space = struct.pack("<BBBB4x", 1, array.ndim, 0, 0) + b"".join(struct.pack("<Q", n) for n in array.shape)
        return self._object([(1, space), (3, FLOAT32), (8, struct.pack("<BBQQ", 3, 1, at, array.size * 4))])

    def _group(self, tree):
        made = {
            name: self._group(one) if isinstance(one, dict) else self._array(one) for name, one in sorted(tree.items())
        }
        names, entries = bytearray(8), b""
        for name, at in made.items():
            entries += struct.pack("<QQII16x", len(names), at, 0, 0)
            names += name.encode() + bytes(8 - len(name) % 8)
        texts = self._put(bytes(names))
        heap = self._put(b"HEAP" + bytes(4) + struct.pack("<QQQ", len(names), len(names), texts))
        node = self._put(b"SNOD\x01\x00" + struct.pack("<H", len(made)) + entries)
        head = b"TREE" + struct.pack("<BBH", 0, 0, 1) + NOWHERE * 2
        at = self._put(head + struct.pack("<QQQ", 0, node, 0))
        return self._object([(0x11, struct.pack("<QQ", at, heap))])


def nested(arrays):
    """A tree of dictionaries of arrays by path."""
    tree = {}
    for path, array in arrays.items():
        put(tree, path.split("/"), array)
    return tree


class Khmer:
    """A drawn model."""

    LETTERS = ("<unk>", "a", "b", "c")
    UNITS = ("<unk>", "k", "h", "m", "e", "r", "\t", "\n")
    E, H, W, LENGTH = 4, 3, 5, 7

    def __init__(self, seed=3):
        rng = np.random.default_rng(seed)
        E, H, W, ins, outs = self.E, self.H, self.W, len(self.LETTERS) + 1, len(self.UNITS) + 1
        shapes = {"embedding/vars/0": (ins, E), "embedding_1/vars/0": (outs, E)}
        cells = {"bidirectional/forward_layer": H, "bidirectional/backward_layer": H, "gru": W}
        for name, size in cells.items():
            both = ((E, 3 * size), (size, 3 * size), (2, 3 * size))
            shapes |= {f"{name}/cell/vars/{n}": shape for n, shape in enumerate(both)}
        shapes |= {"time_distributed/layer/vars/0": (2 * H, W), "time_distributed/layer/vars/1": (W,)}
        shapes |= {"additive_attention/vars/0": (W,), "dense/vars/0": (2 * W, outs), "dense/vars/1": (outs,)}
        self.w = {name: rng.normal(0, 1.5, shape).astype(np.float32) for name, shape in shapes.items()}
        self.w["dense/vars/1"][[0, 7]] = -50  # what ours never says
        gru = {"activation": "tanh", "recurrent_activation": "sigmoid", "use_bias": True, "reset_after": True}
        gru |= {"return_sequences": True, "stateful": False, "unroll": False, "go_backwards": False}
        linear = {"activation": "linear", "use_bias": True}
        around = {"merge_mode": "concat", "layer": {"config": gru}}
        around |= {"backward_layer": {"config": gru | {"go_backwards": True}}}
        self.layers = [
            self.layer("InputLayer", "in"),
            self.layer("InputLayer", "in2"),
            self.layer("Embedding", "e", "in", mask_zero=False),
            self.layer("Embedding", "e2", "in2", mask_zero=False),
            self.layer("Bidirectional", "bi", "e", **around),
            self.layer("GRU", "g", "e2", **gru),
            self.layer("TimeDistributed", "td", "bi", layer={"config": linear}),
            self.layer("AdditiveAttention", "att", ["g", "td"], use_scale=True),
            self.layer("Concatenate", "cat", ["g", "att"], axis=-1),
            self.layer("Dense", "out", "cat", activation="softmax", use_bias=True),
        ]

    @staticmethod
    def layer(kind, name, read=None, **config):
        def tensor(one):
            return {"class_name": "__keras_tensor__", "config": {"keras_history": [one, 0, 0]}}

        args = [[tensor(one) for one in read]] if isinstance(read, list) else [tensor(read)]
        nodes = [] if read is None else [{"args": args, "kwargs": {}}]
        return {"class_name": kind, "name": name, "config": config, "inbound_nodes": nodes}

    def save(self, folder):
        content = {"layers": self.layers, "input_layers": [["in", 0, 0], ["in2", 0, 0]]}
        content["output_layers"] = [["out", 0, 0]]
        weights = {"optimizer/vars/0": np.zeros(3, np.float32)} | {f"layers/{k}": v for k, v in self.w.items()}
        with zipfile.ZipFile(folder / "model.keras", "w") as archive:
            archive.writestr("config.json", json.dumps({"class_name": "Functional", "config": content}))
            archive.writestr("model.weights.h5", bytes(Hdf5(nested(weights)).content))
        (folder / "gru_transliteration_assets.pkl").write_bytes(self.assets())
        return folder / "model.keras"

    def assets(self, **changes):
        """A pickle of two of Keras' tokenizers."""

        class Tokenizer:
            def __init__(self, units):
                self.word_index, self.char_level = {unit: n for n, unit in enumerate(units, 1)}, True

        content = {"eng_tokenizer": Tokenizer(self.LETTERS), "khm_tokenizer": Tokenizer(self.UNITS)}
        with lent(keras_text={"Tokenizer": Tokenizer}):
            return pickle.dumps(content | {"max_eng_len": self.LENGTH} | changes, protocol=4)

    def gru(self, folder, x, h):
        """Keras' cell with reset_after: gates z, r, h."""
        kernel, recurrent, bias = (self.w[f"{folder}/cell/vars/{n}"].astype(np.float64) for n in range(3))
        (x_z, x_r, x_h), (h_z, h_r, h_h) = np.split(x @ kernel + bias[0], 3), np.split(h @ recurrent + bias[1], 3)
        z = sigmoid(x_z + h_z)
        return z * h + (1 - z) * np.tanh(x_h + sigmoid(x_r + h_r) * h_h)

    def log_probs(self, word, ids):
        """Log-probabilities of what follows these numbers of units, behind the begin, in the order of theirs."""
        w = {name: array.astype(np.float64) for name, array in self.w.items()}
        numbers = [self.LETTERS.index(letter) + 1 for letter in word]
        xs = w["embedding/vars/0"][numbers + [0] * (self.LENGTH - len(numbers))]
        sides = []
        for side, steps in (("forward", xs), ("backward", xs[::-1])):
            h, out = np.zeros(self.H), []
            for x in steps:
                h = self.gru(f"bidirectional/{side}_layer", x, h)
                out.append(h)
            sides.append(out if side == "forward" else out[::-1])
        memory = np.concatenate(sides, axis=1) @ w["time_distributed/layer/vars/0"] + w["time_distributed/layer/vars/1"]
        h = np.zeros(self.W)
        for token in [self.UNITS.index("\t") + 1, *ids]:
            h = self.gru("gru", w["embedding_1/vars/0"][token], h)
        weights = softmax(np.tanh(h + memory) @ w["additive_attention/vars/0"])
        return np.log(softmax(np.concatenate([h, weights @ memory]) @ w["dense/vars/0"] + w["dense/vars/1"]))

    def predict(self, word):
        ids = []
        while len(ids) < 31:
            ids.append(int(self.log_probs(word, ids).argmax()))
            if self.UNITS[ids[-1] - 1] == "\n":
                ids.pop()
                break
        return "".join(self.UNITS[n - 1] for n in ids)
