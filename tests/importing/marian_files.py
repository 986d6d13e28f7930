"""Models in Marian's layout, and what Marian computes of them: src/models/s2s.h, src/rnn/cells.h and attention.h of
1.12, checked against its own scores when it was written."""

import json
import struct

import numpy as np

from nmt.importing.marian import NEMATUS_NAMES
from tests.importing.witness import doubles, drawn, log_prob, sigmoid, softmax

E, H = 5, 4
SRC = ["</s>", "<unk>", "no", "cat", "1.5", "."]
TGT = ["</s>", "<unk>", "▁die", "▁Ka", "tze", "~", "."]
ROWS = len(TGT) + 1
"""Of the target's table: one more than the vocabulary has units."""
PAIRS = [("no cat .", "▁die ▁Ka tze ."), ("cat", "▁Ka tze ~"), ("1.5 dogs no", "▁die"), ("cat cat", "")]
CASES = {
    "gru": {"enc-cell": "gru", "dec-cell": "gru", "type": "s2s"},
    "deep": {"enc-cell": "lstm", "dec-cell": "lstm", "type": "s2s", "enc-depth": 2, "dec-depth": 2, "skip": True},
    "tied": {"enc-cell": "lstm", "dec-cell": "gru", "type": "s2s", "tied-embeddings": True},
    "amun": {"type": "amun"},
}


def cell_shapes(name, kind, size, width=H):
    if kind == "lstm":
        parts = {"W": (size, 4 * width), "U": (width, 4 * width), "b": (1, 4 * width)}
    else:
        parts = {"W": (size, 2 * width), "Wx": (size, width), "U": (width, 2 * width), "Ux": (width, width)}
        parts |= {"b": (1, 2 * width), "bx": (1, width)}
    return {f"{name}_{part}": shape for part, shape in parts.items()}


def gru(w, name, x, h, final=False):
    gates = x @ w[f"{name}_W"] + h @ w[f"{name}_U"] + w[f"{name}_b"][0]
    r, z = np.split(sigmoid(gates), 2)
    u, b = h @ w[f"{name}_Ux"], w[f"{name}_bx"][0]
    n = np.tanh(x @ w[f"{name}_Wx"] + (r * (u + b) if final else r * u + b))
    return ((1 - z) * n + z * h,)


def lstm(w, name, x, h, c, final=False):
    f, i, g, o = np.split(x @ w[f"{name}_W"] + h @ w[f"{name}_U"] + w[f"{name}_b"][0], 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


class Marian:
    """A model of a case of CASES with drawn parameters, in float64."""

    def __init__(self, name):
        self.options = {"enc-depth": 1, "dec-depth": 1, "skip": False, "tied-embeddings": False} | CASES[name]
        self.kinds = [self.options.get(f"{side}-cell", "gru") for side in ("enc", "dec")]
        self.arrays = drawn(np.random.default_rng(8), self.shapes())
        self.w = doubles(self.arrays)

    def shapes(self):
        shapes = {"encoder_Wemb": (len(SRC), E), "decoder_Wemb": (ROWS, E)}
        for end in ("", "_r"):
            for layer in range(self.options["enc-depth"]):
                shapes |= cell_shapes(self.of_encoder(end, layer), self.kinds[0], H if layer else E)
        shapes |= cell_shapes("decoder_cell1", self.kinds[1], E) | cell_shapes("decoder_cell2", self.kinds[1], 2 * H)
        for layer in range(1, self.options["dec-depth"]):
            shapes |= cell_shapes(f"decoder_l{layer + 1}_cell1", self.kinds[1], H)
        shapes |= {"decoder_W_comb_att": (H, 2 * H), "decoder_Wc_att": (2 * H, 2 * H), "decoder_b_att": (1, 2 * H)}
        shapes |= {"decoder_U_att": (2 * H, 1), "decoder_ff_state_W": (2 * H, H), "decoder_ff_state_b": (1, H)}
        for n, size in enumerate((E, H, 2 * H)):
            shapes |= {f"decoder_ff_logit_l1_W{n}": (size, E), f"decoder_ff_logit_l1_b{n}": (1, E)}
        if not self.options["tied-embeddings"]:
            shapes["decoder_ff_logit_l2_Wt"] = (ROWS, E)
        return shapes | {"decoder_ff_logit_l2_b": (1, ROWS)}

    def of_encoder(self, end, layer):
        return f"encoder_bi{end}" + (f"_l{layer + 1}_cell1" if layer else "")

    def run(self, kind, names, xs):
        """The outputs of layers one above the other, with what is added to them."""
        for layer, name in enumerate(names):
            state, ys = (np.zeros(H),) * (1 + (kind == "lstm")), []
            for x in xs:
                state = (lstm if kind == "lstm" else gru)(self.w, name, x, *state)
                ys.append(state[0])
            xs = np.stack(ys) + (xs if layer and self.options["skip"] else 0)
        return xs

    def scores(self, source, target):
        w, kind = self.w, self.kinds[1]
        xs = w["encoder_Wemb"][[*(SRC.index(word) if word in SRC else 1 for word in source.split()), 0]]
        names = [[self.of_encoder(end, layer) for layer in range(self.options["enc-depth"])] for end in ("", "_r")]
        memory = np.hstack([self.run(self.kinds[0], names[0], xs), self.run(self.kinds[0], names[1], xs[::-1])[::-1]])
        start = np.tanh(memory.mean(axis=0) @ w["decoder_ff_state_W"] + w["decoder_ff_state_b"][0])
        states = [(start,) * (1 + (kind == "lstm"))] * self.options["dec-depth"]
        x, found = np.zeros(E), []
        for said in [*map(TGT.index, target.split()), 0]:
            found.append(log_prob(self.logits(x, memory, states), said))
            x = w["decoder_Wemb"][said]
        return found

    def logits(self, x, memory, states):
        """Of a step that reads x; the states go on."""
        w, step = self.w, lstm if self.kinds[1] == "lstm" else gru
        asked = step(w, "decoder_cell1", x, *states[0])
        keys = memory @ w["decoder_Wc_att"] + w["decoder_b_att"] + asked[0] @ w["decoder_W_comb_att"]
        context = softmax((np.tanh(keys) @ w["decoder_U_att"])[:, 0]) @ memory
        states[0] = step(w, "decoder_cell2", context, *asked, final=True)
        y = states[0][0]
        for layer in range(1, len(states)):
            states[layer] = step(w, f"decoder_l{layer + 1}_cell1", y, *states[layer])
            y = states[layer][0] + (y if self.options["skip"] else 0)
        parts = enumerate((x, y, context))
        read = np.tanh(sum(v @ w[f"decoder_ff_logit_l1_W{n}"] + w[f"decoder_ff_logit_l1_b{n}"][0] for n, v in parts))
        return w.get("decoder_ff_logit_l2_Wt", w["decoder_Wemb"]) @ read + w["decoder_ff_logit_l2_b"][0]

    def save(self, folder, *, binary=False, **changes):
        """The file with what lies beside it, in a folder."""
        theirs = {ours: name for name, ours in NEMATUS_NAMES.items()} if self.options["type"] == "amun" else {}
        arrays = {theirs.get(name, name): array for name, array in self.arrays.items()}
        arrays |= {"decoder_c_tt": np.zeros((1, 0), np.float32)} if theirs else {}
        settings = json.dumps(self.options | changes).encode() + b"\0"
        arrays["special:model.yml"] = np.frombuffer(settings, np.int8)
        path = folder / ("model.bin" if binary else "model.npz")
        write_binary(path, arrays) if binary else np.savez(path, **arrays)
        # Words that YAML could take for something else stand there as Marian writes them.
        for name, units in (("vocab.en.yml", SRC), ("vocab.de.yml", TGT)):
            (folder / name).write_text("".join(f"{unit}: {n}\n" for n, unit in enumerate(units)))
        vocabs = "vocabs:\n  - /elsewhere/vocab.en.yml\n  - data/vocab.de.yml\n"
        (folder / f"{path.name}.decoder.yml").write_text(f"{vocabs}beam-size: 6\nnormalize: 1\n")
        return path


def write_binary(path, arrays):
    """Marian's binary form."""
    kinds = {np.dtype(np.float32): 0x0404, np.dtype(np.int8): 0x0101}
    names = [name.encode() + b"\0" for name in arrays]
    head = struct.pack("<QQ", 1, len(arrays))
    for name, array in zip(names, arrays.values(), strict=True):
        head += struct.pack("<QQQQ", len(name), kinds[array.dtype], array.ndim, array.nbytes)
    head += b"".join(names) + b"".join(struct.pack(f"<{a.ndim}i", *a.shape) for a in arrays.values())
    gap = -(len(head) + 8) % 256
    head += struct.pack("<Q", gap) + bytes(gap)
    path.write_bytes(head + b"".join(array.tobytes() for array in arrays.values()))
