"""A translation model in plain NumPy: `weights.npz`, `model.json`, and this file. Nothing else is needed.

    echo "a b c" | python plain_numpy.py      # tokens of the source, separated by spaces, to tokens of the target

It translates one sentence at a time, greedily, and follows the textbook formulas; it is meant to be read.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

PAD, UNK, BOS, EOS = 0, 1, 2, 3
BEFORE_AND_AFTER: dict[str, tuple[list[int], list[int]]] = {
    "eos": ([], [EOS]),
    "bos_eos": ([BOS], [EOS]),
    "none": ([], []),
}
States = list[dict[str, np.ndarray]]


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x)), without overflow."""
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


def softmax(x: np.ndarray) -> np.ndarray:
    """Return the softmax over the first axis."""
    e = np.exp(x - x.max(axis=0))
    return e / e.sum(axis=0)


class Model:
    """The weights by name, and the settings that say how to use them."""

    def __init__(self, folder: str | Path) -> None:
        """Load the weights and settings; `folder` contains weights.npz and model.json."""
        with np.load(Path(folder) / "weights.npz", allow_pickle=False) as arrays:
            self.w = {name: arrays[name] for name in arrays.files}
        about = json.loads((Path(folder) / "model.json").read_text("utf-8"))
        self.settings: dict[str, Any] = about["model"]
        self.units: dict[str, list[str]] = about["units"]
        self.most: dict[str, float] = about["longest"]
        self.never = [PAD, BOS] if about["generate_unk"] else [PAD, UNK, BOS]

    def cell(self, kind: str, name: str, x: np.ndarray, s: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the states of a layer after one step, given the input [D] and the states before; the output is the
        state h."""
        w = {k.removeprefix(name + "."): v for k, v in self.w.items() if k.startswith(name + ".")}
        a = x @ w["W_x"] + w["b"]
        if kind == "lstm":
            i, f, g, o = np.split(a + s["h"] @ w["W_h"], 4)
            c = sigmoid(f) * s["c"] + sigmoid(i) * np.tanh(g)
            return {"h": sigmoid(o) * np.tanh(c), "c": c}
        (a_r, a_z, a_n), (u_r, u_z, u_n) = np.split(a, 3), np.split(s["h"] @ w["W_h"] + w["b_h"], 3)
        z, n = sigmoid(a_z + u_z), np.tanh(a_n + sigmoid(a_r + u_r) * u_n)
        return {"h": (1 - z) * n + z * s["h"]}

    def zeros(self, kind: str, size: int) -> dict[str, np.ndarray]:
        """Return the initial states of a layer, all zero."""
        return {name: np.zeros(size, np.float32) for name in (("h", "c") if kind == "lstm" else ("h",))}

    def embed(self, side: str, token: int) -> np.ndarray:
        """Return the embedding of a token."""
        tied = self.settings["tied_embeddings"] == "all"
        table = self.w["embeddings" if tied else f"{side}_embeddings"]
        part = self.settings["encoder" if side == "src" else "decoder"]["embeddings"]
        return table[token] * (part["embedding_dim"] ** 0.5 if part["scale"] else 1.0)

    def encode(self, tokens: list[int]) -> tuple[np.ndarray, States, np.ndarray]:
        """Return the memory [S, M] of a source sentence, the last states of each layer, both directions concatenated,
        and the embeddings of its tokens [S, E]."""
        e = self.settings["encoder"]
        before, after = BEFORE_AND_AFTER[e["boundaries"]]
        xs = words = np.stack([self.embed("src", token) for token in [*before, *tokens, *after]])
        final: States = []
        for layer in range(e["num_layers"]):
            outputs, last = [], []
            for direction in ("forward", "backward")[: 1 + e["bidirectional"]]:
                s, ys = self.zeros(e["rnn_type"], e["hidden_size"]), []
                for x in xs if direction == "forward" else xs[::-1]:
                    s = self.cell(e["rnn_type"], f"encoder.{layer}.{direction}", x, s)
                    ys.append(s["h"])
                outputs.append(np.stack(ys if direction == "forward" else ys[::-1]))
                last.append(s)
            y = np.concatenate(outputs, axis=1)
            xs = y + xs if layer and e["residual"] else y
            final.append({name: np.concatenate([s[name] for s in last]) for name in last[0]})
        return xs, final, words

    def first_states(self, final: States, memory: np.ndarray) -> States:
        """Return the decoder's states before its first step."""
        d = self.settings["decoder"]
        states: States = []
        for layer in range(d["num_layers"]):
            own = self.zeros(d["rnn_type"], d["hidden_size"])
            source = final[-1] if d["init_from"] == "top" else final[min(layer, len(final) - 1)]
            for name in own if d["init_hidden"] != "zero" else ():
                got = source["h"] if d["init_from"] == "top" or name not in source else source[name]
                got = memory.mean(axis=0) if d["init_from"] == "mean" else got
                if d["init_hidden"] == "bridge":
                    got = got @ self.w[f"bridge.{layer}.{name}.W"] + self.w[f"bridge.{layer}.{name}.b"]
                    got = np.tanh(got) if d["bridge_activation"] == "tanh" else got
                own[name] = got
            states.append(own)
        return states

    def context(self, query: np.ndarray, memory: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the context vector, attention over the memory [S, M] for a query [H], and the same sum of the source
        embeddings [S, E], which several heads do not have."""
        w, d = {k.removeprefix("decoder."): v for k, v in self.w.items()}, self.settings["decoder"]
        if "W_m" in w:
            memory = np.tanh(memory @ w["W_m"] + w["b_m"])
        kind = d["attention"]
        if kind == "multi_head":
            names = {"q": query, "k": memory, "v": memory}
            q, k, v = (np.split(x @ w[f"W_{n}"] + w[f"b_{n}"], d["attention_heads"], axis=-1) for n, x in names.items())
            heads = [softmax(k[n] @ q[n] * len(q[n]) ** -0.5) @ v[n] for n in range(len(q))]
            return np.concatenate(heads) @ w["W_o"] + w["b_o"], np.zeros(0)
        if kind == "bahdanau":
            scores = np.tanh(memory @ w["W_k"] + query @ w["W_q"] + w.get("b_q", 0.0)) @ w["v"]
        else:
            scores = (memory @ w["W_k"] if kind == "general" else memory) @ query
            scores = scores * len(query) ** -0.5 if kind == "scaled_dot" else scores
        weights = softmax(scores)
        return weights @ memory, weights @ words

    def start(self, tokens: list[int]) -> dict[str, Any]:
        """Return the decoder's state for a new translation of a source."""
        memory, final, words = self.encode(tokens)
        d = self.settings["decoder"]
        size = d["embeddings"]["embedding_dim"] if d["readout"] == "deep" else d["hidden_size"]
        size = d.get("readout_size") or size
        feed = np.zeros(size, np.float32)
        return {"memory": memory, "words": words, "layers": self.first_states(final, memory), "feed": feed} | {
            "readout": self.zeros(d["rnn_type"], d["hidden_size"])
        }

    def step(self, token: int, s: dict[str, Any]) -> np.ndarray:
        """Return the log-probabilities [V] of the token after `token`; `s` is updated."""
        d, word, context, words = self.settings["decoder"], self.embed("tgt", token), np.zeros(0), np.zeros(0)
        x = np.concatenate([word, s["feed"]]) if d["input_feeding"] else word
        for n, states in enumerate(s["layers"]):
            s["layers"][n] = self.cell(d["rnn_type"], f"decoder.cell.{n}", x, states)
            if d["conditional"] and n == 0:
                context, words = self.context(s["layers"][0]["h"], s["memory"], s["words"])
                s["layers"][0] = self.cell(d["rnn_type"], "decoder.second", context, s["layers"][0])
            h = s["layers"][n]["h"]
            x = h + x if n and d["residual"] else h
        if d["attention"] != "none":
            if not d["conditional"]:
                context, words = self.context(x, s["memory"], s["words"])
            if d["readout"] == "recurrent":
                s["readout"] = self.cell(d["rnn_type"], "decoder.readout", np.concatenate([x, context]), s["readout"])
                x = s["readout"]["h"]
            else:
                read = [context, x, word] if d["readout"] == "deep" else [context, x]
                x = np.concatenate(read) @ self.w["decoder.W_c"] + self.w["decoder.b_c"]
                x = x if d["readout"] == "linear" else np.tanh(x)
        s["feed"] = x
        if d["lexical"]:
            mean = np.tanh(words)
            x = x + (np.tanh(mean @ self.w["decoder.W_l"]) + mean) @ self.w["decoder.W_o"]
        tied = {"none": "output.W", "softmax": "tgt_embeddings", "all": "embeddings"}[self.settings["tied_embeddings"]]
        matrix = self.w[tied] if tied == "output.W" else self.w[tied].T
        logits = x @ matrix + self.w["output.b"]
        top = logits.max()
        return logits - top - np.log(np.exp(logits - top).sum())

    def score(self, tokens: list[int], target: list[int]) -> list[float]:
        """Return the log-probability of each token of a given target, and of its EOS."""
        s, found = self.start(tokens), []
        for before, token in zip([BOS, *target], [*target, EOS], strict=True):
            found.append(float(self.step(before, s)[token]))
        return found

    def translate(self, tokens: list[int]) -> list[int]:
        """Return the target of greedy search; padding and BOS are never produced, nor is the unknown token if the
        settings exclude it."""
        s, said = self.start(tokens), [BOS]
        for _ in range(int(self.most["ratio"] * len(tokens)) + int(self.most["extra"])):
            log_probs = self.step(said[-1], s)
            log_probs[self.never] = -np.inf
            said.append(int(log_probs.argmax()))
            if said[-1] == EOS:
                return said[1:-1]
        return said[1:]


def main() -> None:
    """Translate lines of tokens from standard input."""
    streams: list[Any] = [sys.stdin, sys.stdout, sys.stderr]
    for stream in streams:
        stream.reconfigure(encoding="utf-8", newline="\n")  # Windows has another code page, and other ends of lines
    model = Model(Path(__file__).parent)
    places = {unit: n for n, unit in enumerate(model.units["src"])}
    for line in sys.stdin:
        units = [unit for unit in line.rstrip("\r\n").split(" ") if unit]  # other white space may be part of a token
        if sum(unit not in places for unit in units) * 2 > len(units):
            print(
                f"warning: few subwords of the model in {line.strip()!r}; tokenize with the .spm files first",
                file=sys.stderr,
            )
        tokens = [places.get(unit, UNK) for unit in units]
        print(" ".join(model.units["tgt"][token] for token in model.translate(tokens)) if tokens else "")


if __name__ == "__main__":
    main()
