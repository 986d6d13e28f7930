"""Models in the layouts of OpenNMT-py and JoeyNMT, beside NumPy after their decoders' code; and what all toolkits say.

Written after onmt/decoders/decoder.py and onmt/modules/global_attention.py of OpenNMT-py 3.5, and after decoders.py,
encoders.py and attention.py of JoeyNMT 2.3.
"""

import json

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.importing.sources import import_model
from tests.importing import marian_files, test_fairseq
from tests.importing.checks import check_scores, check_search, imported
from tests.importing.marian_files import Marian
from tests.importing.test_fairseq import Fairseq
from tests.importing.torch_files import Namespace, save
from tests.importing.witness import cell, cell_shapes, doubles, drawn, layers, log_prob, softmax
from tests.refusals import refused

E, F, H = 4, 5, 6
SRC = ["<unk>", "<blank>", "<s>", "</s>", "the", "cat", "sat", "."]
TGT = ["<unk>", "<blank>", "<s>", "</s>", "die", "Katze", "sa\u00df", "hier", "."]
PAIRS = [("the cat sat .", "die Katze sa\u00df ."), ("cat", "Katze"), ("the dog .", "hier die ."), ("sat sat", "")]
OPENNMT = {
    "mlp": {"rnn_type": "LSTM", "encoder_type": "brnn", "global_attention": "mlp", "feeds": True, "layers": 1},
    "general": {"rnn_type": "GRU", "encoder_type": "rnn", "global_attention": "general", "feeds": False, "layers": 2},
}
JOEY = {
    "bridge": {"rnn_type": "lstm", "attention": "bahdanau", "init_hidden": "bridge", "feeds": True, "layers": 1},
    "last": {"rnn_type": "gru", "attention": "luong", "init_hidden": "last", "feeds": False, "layers": 2},
}


def decoder_cells(prefix, kind, feeds, num_layers, stacked):
    """Shapes of the decoder's cells, and how each is called: prefix and end of its names."""
    shapes, names, size = {}, [], F + H * feeds
    for layer in range(num_layers):
        name = (f"{prefix}layers.{layer}.", "") if stacked else (prefix, f"_l{layer}")
        shapes |= cell_shapes(name[0], kind, size, H, name[1])
        names.append(name)
        size = H
    return shapes, names


def encoder_shapes(kind, width, num_layers, directions):
    shapes, size = {}, E
    for layer in range(num_layers):
        for end in ("", "_reverse")[:directions]:
            shapes |= cell_shapes("encoder.rnn.", kind, size, width, f"_l{layer}{end}")
        size = width * directions
    return shapes


def step(w, kind, names, x, states):
    """One step of the decoder's layers."""
    for n, (prefix, end) in enumerate(names):
        states[n] = cell(kind)(w, prefix, x, *states[n], end=end)
        x = states[n][0]
    return x


class OpenNMT:
    def __init__(self, name):
        self.case = case = OPENNMT[name]
        self.kind, self.directions = case["rnn_type"].lower(), 1 + (case["encoder_type"] == "brnn")
        decoder, self.names = decoder_cells("decoder.rnn.", self.kind, case["feeds"], case["layers"], case["feeds"])
        shapes = encoder_shapes(self.kind, H // self.directions, case["layers"], self.directions) | decoder
        table = "{}.embeddings.make_embedding.emb_luts.0.weight"
        shapes |= {table.format("encoder"): (len(SRC), E), table.format("decoder"): (len(TGT), F)}
        shapes |= {"decoder.attn.linear_out.weight": (H, 2 * H)}
        if name == "mlp":
            shapes |= {f"decoder.attn.linear_{part}.weight": (H, H) for part in ("context", "query")}
            shapes |= {f"decoder.attn.linear_{part}.bias": (H,) for part in ("query", "out")}
            shapes |= {"decoder.attn.v.weight": (1, H)}
        else:
            shapes |= {"decoder.attn.linear_in.weight": (H, H)}
        rng = np.random.default_rng(5)
        self.model, self.generator = drawn(rng, shapes), drawn(rng, {"weight": (len(TGT), H), "bias": (len(TGT),)})
        self.w = doubles(self.model | self.generator)
        self.table = table

    def save(self, folder, **changes):
        options = {k: v for k, v in self.case.items() if k not in ("feeds", "layers")} | changes
        content = {
            "model": self.model,
            "generator": self.generator,
            "vocab": {"src": SRC, "tgt": TGT, "data_task": "seq2seq", "decoder_start_token": "<s>"},
            "opt": Namespace(bridge=False, copy_attn=False, **options),
            "optim": {"training_step": 7},
        }
        return save(folder / "model_step_7.pt", content)

    def scores(self, source, target):
        ids = [SRC.index(word) if word in SRC else 0 for word in source.split()]
        xs = self.w[self.table.format("encoder")][ids]
        memory, finals = layers(self.w, "encoder.rnn.", self.kind, xs, self.case["layers"], self.directions)
        states, feed, token, scores = list(finals), np.zeros(H), 2, []
        for said in [*map(TGT.index, target.split()), 3]:
            x = self.w[self.table.format("decoder")][token]
            query = step(self.w, self.kind, self.names, np.concatenate([x, feed]) if self.case["feeds"] else x, states)
            feed = self.attend(memory, query)
            scores.append(log_prob(self.w["weight"] @ feed + self.w["bias"], said))
            token = said
        return scores

    def attend(self, memory, query):
        a = {k.removeprefix("decoder.attn."): v for k, v in self.w.items()}
        if "v.weight" in a:
            asked = a["linear_query.weight"] @ query + a["linear_query.bias"]
            scores = np.tanh(asked + memory @ a["linear_context.weight"].T) @ a["v.weight"][0]
        else:
            scores = memory @ (a["linear_in.weight"] @ query)
        y = a["linear_out.weight"] @ np.concatenate([softmax(scores) @ memory, query])
        return y + a["linear_out.bias"] if "v.weight" in a else np.tanh(y)


class Joey:
    def __init__(self, name):
        self.case = case = JOEY[name]
        self.kind = case["rnn_type"]
        decoder, self.names = decoder_cells("decoder.rnn.", self.kind, case["feeds"], case["layers"], False)
        shapes = encoder_shapes(self.kind, H, case["layers"], 2) | decoder
        shapes |= {"src_embed.lut.weight": (len(SRC), E), "trg_embed.lut.weight": (len(TGT), F)}
        shapes |= {"decoder.att_vector_layer.weight": (H, 3 * H), "decoder.att_vector_layer.bias": (H,)}
        shapes |= {"decoder.output_layer.weight": (len(TGT), H), "decoder.attention.key_layer.weight": (H, 2 * H)}
        if case["attention"] == "bahdanau":
            shapes |= {"decoder.attention.query_layer.weight": (H, H), "decoder.attention.energy_layer.weight": (1, H)}
        if case["init_hidden"] == "bridge":
            shapes |= {"decoder.bridge_layer.weight": (H, 2 * H), "decoder.bridge_layer.bias": (H,)}
        self.state = drawn(np.random.default_rng(6), shapes)
        self.w = doubles(self.state)

    def save(self, folder, **changes):
        names = {0: "<unk>", 1: "<pad>", 2: "<s>", 3: "</s>"}
        for side, units in (("src", SRC), ("trg", TGT)):
            lines = [names.get(n, unit) for n, unit in enumerate(units)]
            (folder / f"{side}_vocab.txt").write_text("".join(f"{line}\n" for line in lines))
        part = {"type": "recurrent", "rnn_type": self.kind, "num_layers": self.case["layers"]}
        settings = {k: self.case[k] for k in ("attention", "init_hidden")} | {"input_feeding": self.case["feeds"]}
        config = {
            "data": {"src": {"lang": "en", "level": "word"}, "trg": {"lang": "de", "level": "word"}},
            "model": {
                "encoder": part | {"embeddings": {"embedding_dim": E, "scale": True}, "bidirectional": True},
                "decoder": part | settings | {"embeddings": {"embedding_dim": F}} | changes,
            },
        }
        (folder / "config.yaml").write_text(json.dumps(config))
        save(folder / "best.ckpt", {"model_state": self.state, "steps": 7, "best_ckpt_score": 1.5})
        return folder

    def scores(self, source, target):
        ids = [*(SRC.index(word) if word in SRC else 0 for word in source.split()), 3]
        xs = self.w["src_embed.lut.weight"][ids] * np.sqrt(E)
        memory, finals = layers(self.w, "encoder.rnn.", self.kind, xs, self.case["layers"])
        h = finals[-1][0]
        if self.case["init_hidden"] == "bridge":
            h = np.tanh(self.w["decoder.bridge_layer.weight"] @ h + self.w["decoder.bridge_layer.bias"])
        states = [(h[:H],) * (1 + (self.kind == "lstm")) for _ in self.names]
        feed, token, scores = np.zeros(H), 2, []
        for said in [*map(TGT.index, target.split()), 3]:
            x = self.w["trg_embed.lut.weight"][token]
            query = step(self.w, self.kind, self.names, np.concatenate([x, feed]) if self.case["feeds"] else x, states)
            feed = self.attend(memory, query)
            scores.append(log_prob(self.w["decoder.output_layer.weight"] @ feed, said))
            token = said
        return scores

    def attend(self, memory, query):
        a = {k.removeprefix("decoder.attention."): v for k, v in self.w.items()}
        keys = memory @ a["key_layer.weight"].T
        if "energy_layer.weight" in a:
            scores = np.tanh(keys + a["query_layer.weight"] @ query) @ a["energy_layer.weight"][0]
        else:
            scores = keys @ query
        joined = np.concatenate([query, softmax(scores) @ memory])
        return np.tanh(a["decoder.att_vector_layer.weight"] @ joined + a["decoder.att_vector_layer.bias"])


CASES = {OpenNMT: OPENNMT, Joey: JOEY, Marian: marian_files.CASES, Fairseq: test_fairseq.CASES}
WITNESSES = [(witness, name) for witness, cases in CASES.items() for name in cases]


@pytest.mark.parametrize(("witness", "name"), WITNESSES, ids=[f"{w.__name__}-{n}" for w, n in WITNESSES])
def test_log_probabilities_are_the_toolkits(tmp_path, witness, name):
    model, pairs = witness(name), marian_files.PAIRS if witness is Marian else PAIRS
    translator = imported(model.save(tmp_path), tmp_path / "model")
    check_scores(translator, pairs, [model.scores(*pair) for pair in pairs])
    check_search(translator, model, [src for src, _ in pairs], ("<unk>", "<unused", "madeupword"), beam_size=3)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"global_attention_function": "sparsemax"}, "global_attention_function must be softmax, got 'sparsemax'"),
        ({"coverage_attn": True}, "coverage_attn must be false, got True"),
        ({"bridge": True}, "bridge must be false"),
        ({"encoder_type": "transformer"}, "encoder_type must be brnn or rnn, got 'transformer'"),
    ],
)
def test_what_opennmt_computes_otherwise_is_refused(tmp_path, change, line):
    path = OpenNMT("mlp").save(tmp_path)
    options = {"bridge": False, "copy_attn": False, "rnn_type": "LSTM", "encoder_type": "brnn"}
    save(path, {"model": {}, "generator": {}, "vocab": {}, "opt": Namespace(**(options | change))})
    refused(CheckpointError, line, import_model, path)


@pytest.mark.parametrize(
    ("model", "change", "line"),
    [
        (Joey("bridge"), {"attention": "coverage"}, "decoder.attention must be bahdanau or luong, got 'coverage'"),
        (Joey("bridge"), {"type": "transformer"}, "model.decoder.type must be recurrent"),
        (Joey("bridge"), {"activation": "relu"}, "model.decoder.activation must be tanh"),
        (Marian("gru"), {"type": "transformer"}, "type must be s2s or amun or nematus, got 'transformer'"),
        (Marian("gru"), {"layer-normalization": True}, "layer-normalization must be false, got True"),
        (Marian("gru"), {"enc-type": "alternating"}, "enc-type must be bidirectional, got 'alternating'"),
        (Marian("gru"), {"dec-cell-base-depth": 4}, "dec-cell-base-depth must be 2, got 4; it cannot be represented"),
        (Marian("gru"), {"dec-cell": "mlstm"}, "dec-cell must be gru or lstm"),
        (Marian("gru"), {"enc-cell": ["gru"]}, "enc-cell must be"),
    ],
)
def test_what_a_toolkit_computes_otherwise_is_refused(tmp_path, model, change, line):
    refused(CheckpointError, line, import_model, model.save(tmp_path, **change))


def test_what_lies_beside_a_checkpoint_is_needed(tmp_path):
    folder = Joey("bridge").save(tmp_path)
    (folder / "trg_vocab.txt").write_text("die\n")
    refused(CheckpointError, r"trg_embed.lut.weight must be \[5, 5\]", import_model, folder)
    (folder / "trg_vocab.txt").unlink()
    refused(CheckpointError, "trg_vocab.txt: must be the vocabulary next to the checkpoint", import_model, folder)
    (folder / "config.yaml").write_text("model: [")
    refused(CheckpointError, "config.yaml: must have settings in YAML", import_model, folder)
