"""Export a model as two ONNX graphs: all that depends on the source alone, and one step of the decoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import ConfigError, how_to_install
from nmt.exporting.page import check_exported, save_export, weights_of

if TYPE_CHECKING:
    from nmt.exporting.onnx_graph import Graph
    from nmt.storage.saved_model import SavedModel

ENCODER_NAME, DECODER_NAME, PAGE = "encoder.onnx", "decoder.onnx", "run_onnx.py"
_CELLS = ("lstm", "gru", "gru_reset_before")
_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "gru_reset_before": (1, 0, 2)}
"""The positions of ONNX's gates, i o f c and z r h, among ours."""


def save_onnx(out: Path, saved: SavedModel) -> None:
    """Write `encoder.onnx`, `decoder.onnx`, `model.json` and the script that runs them as a new folder. Raises
    CheckpointError if that is impossible for the folder or the model, and ConfigError without the package onnx."""
    check_exported(saved, _CELLS, "ONNX")
    try:
        from nmt.exporting.onnx_graph import Graph
    except ImportError:
        raise ConfigError(
            f"nmt-export: must have the package onnx for --to onnx, got none; {how_to_install('onnx')}"
        ) from None
    writer = _Writer(saved.config.model.to_dict(), weights_of(saved))
    encoder, decoder = Graph("encoder", writer.w), Graph("decoder", writer.w)
    writer.encoder(encoder)
    states = writer.decoder(decoder)

    def save_graphs(folder: Path) -> None:
        encoder.save(folder / ENCODER_NAME)
        decoder.save(folder / DECODER_NAME)

    save_export(out, saved, PAGE, save_graphs, {"states": states})


class _Writer:
    """Builds the graphs of a model from its settings and weights."""

    def __init__(self, settings: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
        self.e, self.d, self.w = settings["encoder"], settings["decoder"], weights
        self.ties = settings["tied_embeddings"]
        self.memory = self.e["hidden_size"] * (1 + self.e["bidirectional"])

    # ------------------------------------------------------------ the source

    def encoder(self, graph: Graph) -> None:
        """Build the encoder: tokens [S, B], lengths [B] -> keys, values [S, B, n] and first states [B, n] but zeros."""
        tokens, lengths = graph.input("tokens", "int64", "S", "B"), graph.input("lengths", "int32", "B")
        x = words = self._embed(graph, "src", tokens)
        final = []
        for layer in range(self.e["num_layers"]):
            y, states = self._layer(graph, layer, x, lengths)
            x = graph.op("Add", y, x) if layer and self.e["residual"] else y
            final.append(states)
        if self.d["attention"] != "none":
            self._keys_and_values(graph, x, words)
        for name, value in self._first_states(graph, final, x, lengths).items():
            graph.output(value, f"state.{name}", "B", self.d["hidden_size"])

    def _embed(self, graph: Graph, side: str, tokens: str) -> str:
        """Return the embeddings of tokens."""
        rows = graph.op("Gather", graph.weight("embeddings" if self.ties == "all" else f"{side}_embeddings"), tokens)
        sizes = (self.e if side == "src" else self.d)["embeddings"]
        return graph.op("Mul", rows, graph.constant("scale", sizes["embedding_dim"] ** 0.5)) if sizes["scale"] else rows

    def _layer(self, graph: Graph, layer: int, x: str, lengths: str) -> tuple[str, dict[str, str]]:
        """Return the outputs [S, B, M] and last states [B, M] of an encoder layer, by ONNX's recurrent operator."""
        kind, hidden = self.e["rnn_type"], self.e["hidden_size"]
        directions = ("forward", "backward")[: 1 + self.e["bidirectional"]]
        found = [self._onnx_weights(kind, f"encoder.{layer}.{direction}") for direction in directions]
        names = [
            graph.constant(f"encoder.{layer}.{name}", np.stack(arrays))
            for name, arrays in zip("WRB", zip(*found, strict=True), strict=True)
        ]
        more: dict[str, Any] = {} if kind == "lstm" else {"linear_before_reset": int(kind == "gru")}
        outputs = graph.add(
            "LSTM" if kind == "lstm" else "GRU",
            *(x, *names, lengths),
            outputs=3 if kind == "lstm" else 2,
            hidden_size=hidden,
            direction="bidirectional" if len(directions) > 1 else "forward",
            **more,
        )
        y = graph.op("Transpose", outputs[0], perm=[0, 2, 1, 3])
        y = graph.op("Reshape", y, graph.constant("joined outputs", np.array([0, 0, self.memory])))
        states = {}
        for name, value in zip("hc", outputs[1:], strict=False):
            side_by_side = graph.op("Transpose", value, perm=[1, 0, 2])
            states[name] = graph.op("Reshape", side_by_side, graph.constant("joined", np.array([0, self.memory])))
        return y, states

    def _onnx_weights(self, kind: str, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the weights of a cell in ONNX's layout: W [G H, D], R [G H, H] and B [2 G H]."""
        w = {k.removeprefix(f"{name}."): v for k, v in self.w.items() if k.startswith(f"{name}.")}
        W_h = np.hstack([w["W_rz"], w["W_n"]]) if kind == "gru_reset_before" else w["W_h"]
        biases = [w["b"], w["b_h"] if "b_h" in w else np.zeros_like(w["b"])]

        def turned(array: np.ndarray) -> np.ndarray:
            parts = np.split(array, len(_ORDER[kind]), axis=-1)
            return np.concatenate([parts[n] for n in _ORDER[kind]], axis=-1)

        return turned(w["W_x"]).T, turned(W_h).T, np.concatenate([turned(b) for b in biases])

    def _keys_and_values(self, graph: Graph, memory: str, words: str) -> None:
        """Add the outputs `keys` and `values` of attention, including all projections that depend on the source alone.
        Of a lexical output model the embeddings of the source follow the values."""
        kind, width = self.d["attention"], self.memory
        values = memory
        if self.e["projection"]:
            values = graph.op("Tanh", graph.linear(memory, "decoder.W_m", "decoder.b_m"))
            width = self.e["projection"]
        keys, size = values, width
        if kind in ("bahdanau", "general"):
            names = ("decoder.W_k", "decoder.b_q")[: 1 + (kind == "bahdanau" and self.d["attention_bias"])]
            keys, size = graph.linear(values, *names), self.w["decoder.W_k"].shape[1]
        if kind == "multi_head":
            keys = graph.linear(values, "decoder.W_k", "decoder.b_k")
            values = graph.linear(values, "decoder.W_v", "decoder.b_v")
            size = width = self.w["decoder.W_k"].shape[1]
        if self.d["lexical"]:
            values = graph.op("Concat", values, words, axis=-1)
            width += len(self.w["decoder.W_l"])
        graph.output(keys, "keys", "S", "B", size)
        graph.output(values, "values", "S", "B", width)

    def _first_states(self, graph: Graph, final: list[dict[str, str]], memory: str, lengths: str) -> dict[str, str]:
        """Return the decoder's states before its first step."""
        d, found = self.d, {}
        if d["init_hidden"] == "zero":
            return {}
        mean = ""
        if d["init_from"] == "mean":
            total = graph.op("ReduceSum", memory, graph.constant("steps", np.array([0])), keepdims=0)
            count = graph.op("Unsqueeze", graph.op("Cast", lengths, to=1), graph.constant("last", np.array([1])))
            mean = graph.op("Div", total, count)
        for layer in range(d["num_layers"]):
            source = final[-1] if d["init_from"] == "top" else final[min(layer, len(final) - 1)]
            for name in ("h", "c")[: 1 + (d["rnn_type"] == "lstm")]:
                got = mean or (source["h"] if d["init_from"] == "top" or name not in source else source[name])
                if d["init_hidden"] == "bridge":
                    names = f"bridge.{layer}.{name}.W", f"bridge.{layer}.{name}.b"
                    got = graph.linear(got, *names)
                    got = graph.op("Tanh", got) if d["bridge_activation"] == "tanh" else got
                found[f"cell.{layer}.{name}"] = got
        return found

    # ------------------------------------------------------------ a step

    def decoder(self, graph: Graph) -> dict[str, int]:
        """Build a step: token [B], lengths [B], keys, values, `state.*` -> log_probs [B, V], `next.*`; return sizes."""
        d, states = self.d, self._states()
        token, before = graph.input("token", "int64", "B"), {}
        for name, width in states.items():
            before[name] = graph.input(f"state.{name}", "float32", "B", width)
        source = None
        if d["attention"] != "none":
            source = [graph.input("lengths", "int32", "B")]
            source += [graph.input(name, "float32", "S", "B", f"{name} size") for name in ("keys", "values")]
        word = self._embed(graph, "tgt", token)
        x = graph.op("Concat", word, before["feed"], axis=-1) if d["input_feeding"] else word
        after: dict[str, str] = {}
        context = mean = ""
        for n in range(d["num_layers"]):
            h = self._cell(graph, f"decoder.cell.{n}", f"cell.{n}", x, before, after)
            if n == 0 and d["conditional"] and source:
                context, mean = self._context(graph, h, source)
                h = self._cell(graph, "decoder.second", "cell.0", context, dict(after), after)
            x = graph.op("Add", h, x) if n and d["residual"] else h
        if source:
            if not context:
                context, mean = self._context(graph, x, source)
            x = self._readout(graph, (context, x, word), before, after)
        if d["input_feeding"]:
            after["feed"] = x
        x = self._with_words(graph, x, mean)
        graph.output(graph.op("LogSoftmax", self._logits(graph, x), axis=-1), "log_probs", "B", len(self.w["output.b"]))
        for name, value in after.items():
            graph.output(value, f"next.{name}", "B", states[name])
        return states

    def _states(self) -> dict[str, int]:
        """Return the sizes of the decoder's states by name."""
        d, hidden = self.d, self.d["hidden_size"]
        of_cell = ("h", "c")[: 1 + (d["rnn_type"] == "lstm")]
        states = {f"cell.{n}.{name}": hidden for n in range(d["num_layers"]) for name in of_cell}
        if d["readout"] == "recurrent":
            states |= {f"readout.{name}": hidden for name in of_cell}
        width = d["embeddings"]["embedding_dim"] if d["readout"] == "deep" else hidden
        width = d.get("readout_size") or width
        return states | ({"feed": width} if d["input_feeding"] else {})

    def _cell(self, graph: Graph, name: str, state: str, x: str, before: dict[str, str], after: dict[str, str]) -> str:
        """Add one step of the cell whose states are called `state`, and return its output."""
        kind, H, h = self.d["rnn_type"], self.d["hidden_size"], before[f"{state}.h"]
        a = graph.linear(x, f"{name}.W_x", f"{name}.b")
        if kind == "lstm":
            a = graph.op("Add", a, graph.linear(h, f"{name}.W_h"))
            i, f, g, o = graph.split(a, 4, H)
            kept = graph.op("Mul", graph.op("Sigmoid", f), before[f"{state}.c"])
            c = graph.op("Add", kept, graph.op("Mul", graph.op("Sigmoid", i), graph.op("Tanh", g)))
            after[f"{state}.c"] = c
            after[f"{state}.h"] = graph.op("Mul", graph.op("Sigmoid", o), graph.op("Tanh", c))
            return after[f"{state}.h"]
        a_r, a_z, a_n = graph.split(a, 3, H)
        if kind == "gru":
            u_r, u_z, u_n = graph.split(graph.linear(h, f"{name}.W_h", f"{name}.b_h"), 3, H)
        else:
            b_r, b_z, b_n = np.split(self.w[f"{name}.b_h"], 3)
            gates = graph.linear(h, f"{name}.W_rz")
            both = graph.constant(f"{name}.b_rz", np.hstack([b_r, b_z]))
            u_r, u_z = graph.split(graph.op("Add", gates, both), 2, H)
        r, z = graph.op("Sigmoid", graph.op("Add", a_r, u_r)), graph.op("Sigmoid", graph.op("Add", a_z, u_z))
        if kind == "gru":
            inner = graph.op("Mul", r, u_n)
        else:
            inner = graph.linear(graph.op("Mul", r, h), f"{name}.W_n")
            inner = graph.op("Add", inner, graph.constant(f"{name}.b_n", b_n))
        n = graph.op("Tanh", graph.op("Add", a_n, inner))
        new = graph.op("Mul", graph.op("Sub", graph.constant("one", np.float32(1)), z), n)
        after[f"{state}.h"] = graph.op("Add", new, graph.op("Mul", z, h))
        return after[f"{state}.h"]

    def _with_words(self, graph: Graph, y: str, words: str) -> str:
        """Return the input of the output layer, with the lexical output model if there is one."""
        if not self.d["lexical"]:
            return y
        f = graph.op("Tanh", words)
        lexical = graph.op("Add", graph.op("Tanh", graph.linear(f, "decoder.W_l")), f)
        return graph.op("Add", y, graph.linear(lexical, "decoder.W_o"))

    def _context(self, graph: Graph, query: str, source: list[str]) -> tuple[str, str]:
        """Return the context vectors [B, n] of attention for queries [B, H], and the same sum of the source
        embeddings; an empty name if there is no lexical output model."""
        d, (lengths, keys, values) = self.d, source
        kind, heads = d["attention"], d["attention_heads"]
        first = graph.constant("first axis", np.array([0]))
        if kind == "bahdanau":
            asked = graph.op("Unsqueeze", graph.linear(query, "decoder.W_q"), first)
            vector = graph.constant("decoder.v", self.w["decoder.v"][:, None])
            scores = graph.op("MatMul", graph.op("Tanh", graph.op("Add", keys, asked)), vector)
        else:
            if kind == "multi_head":
                query = graph.linear(query, "decoder.W_q", "decoder.b_q")
            parts = graph.constant("heads", np.array([0, 0, heads, -1]))
            asked = graph.op("Reshape", graph.op("Unsqueeze", query, first), parts)
            products = graph.op("Mul", graph.op("Reshape", keys, parts), asked)
            scores = graph.op("ReduceSum", products, graph.constant("sizes", np.array([3])), keepdims=0)
            if kind in ("scaled_dot", "multi_head"):
                size = self.w["decoder.W_q"].shape[1] // heads if kind == "multi_head" else d["hidden_size"]
                scores = graph.op("Mul", scores, graph.constant("root", np.float32(size**-0.5)))
        weights = graph.op("Softmax", self._masked(graph, scores, lengths), axis=0)
        cut = graph.op("Reshape", values, graph.constant("parts", np.array([0, 0, heads, -1])))
        weighed = graph.op("Mul", cut, graph.op("Unsqueeze", weights, graph.constant("behind", np.array([3]))))
        context = graph.op("ReduceSum", weighed, first, keepdims=0)
        context = graph.op("Reshape", context, graph.constant("whole", np.array([0, -1])))
        if kind == "multi_head":
            return graph.linear(context, "decoder.W_o", "decoder.b_o"), ""
        if not d["lexical"]:
            return context, ""
        width = self.e["projection"] or self.memory
        sizes = graph.constant("context and words", np.array([width, len(self.w["decoder.W_l"])]))
        values_and_words = graph.add("Split", context, sizes, outputs=2, axis=-1)
        return values_and_words[0], values_and_words[1]

    def _masked(self, graph: Graph, scores: str, lengths: str) -> str:
        """Return the scores [S, B, n], with positions after the end of a source so low that their weight is zero."""
        steps = graph.op("Squeeze", graph.op("Shape", scores, end=1), graph.constant("only axis", np.array([0])))
        zero, one = graph.constant("zero", np.int64(0)), graph.constant("one step", np.int64(1))
        places = graph.op("Unsqueeze", graph.op("Range", zero, steps, one), graph.constant("rows", np.array([1, 2])))
        ends = graph.op("Cast", lengths, to=7)
        ends = graph.op("Unsqueeze", ends, graph.constant("columns", np.array([0, 2])))
        return graph.op("Where", graph.op("Less", places, ends), scores, graph.constant("low", np.float32(-1e30)))

    def _readout(self, graph: Graph, read: tuple[str, str, str], before: dict[str, str], after: dict[str, str]) -> str:
        """Return the input of the output layer, computed from context, query and the embedding of the last token."""
        context, query, word = read
        kind = self.d["readout"]
        if kind == "recurrent":
            both = graph.op("Concat", query, context, axis=-1)
            return self._cell(graph, "decoder.readout", "readout", both, before, after)
        parts = (context, query, word)[: 3 if kind == "deep" else 2]
        y = graph.linear(graph.op("Concat", *parts, axis=-1), "decoder.W_c", "decoder.b_c")
        return y if kind == "linear" else graph.op("Tanh", y)

    def _logits(self, graph: Graph, x: str) -> str:
        """Return the result of the output layer."""
        if self.ties == "none":
            return graph.linear(x, "output.W", "output.b")
        name = "embeddings" if self.ties == "all" else "tgt_embeddings"
        table = graph.op("Transpose", graph.weight(name), perm=[1, 0])
        return graph.op("Add", graph.op("MatMul", x, table), graph.weight("output.b"))
