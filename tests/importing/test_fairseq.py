"""Models in the layout of fairseq's lstm, beside NumPy after its code (fairseq/models/lstm.py of 0.12)."""

import numpy as np

from nmt.errors import CheckpointError
from nmt.importing.sources import import_model
from tests.importing.torch_files import Namespace, save
from tests.importing.witness import cell_shapes, doubles, drawn, layers, log_prob, lstm, softmax
from tests.refusals import refused

E, F, W, H, OUT = 4, 5, 3, 6, 7
SRC, TGT = ["the", "cat", "sat", "madeupword0000"], ["die", "Katze", "saß", "hier", "."]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
CASES = {
    "proj": {"both": True, "layers": 2, "attention": True, "fc": False, "shared": False},
    "last": {"both": False, "layers": 1, "attention": True, "fc": True, "shared": False},
    "plain": {"both": False, "layers": 2, "attention": False, "fc": False, "shared": True},
}


class Fairseq:
    def __init__(self, name):
        self.case = case = CASES[name]
        self.directions = 1 + case["both"]
        self.width = W if case["both"] else H
        self.memory = self.width * self.directions if name != "proj" else 2 * W
        self.E, self.F = E, (H if case["shared"] else F)
        shapes = {"encoder.embed_tokens.weight": (8, E), "decoder.embed_tokens.weight": (9, self.F)}
        size = E
        for layer in range(case["layers"]):
            for end in ("", "_reverse")[: self.directions]:
                shapes |= cell_shapes("encoder.lstm.", "lstm", size, self.width, f"_l{layer}{end}")
            size = self.memory
        size = self.F + H
        for layer in range(case["layers"]):
            shapes |= cell_shapes(f"decoder.layers.{layer}.", "lstm", size, H)
            size = H
        if name == "proj":
            shapes["decoder.encoder_hidden_proj.weight"] = shapes["decoder.encoder_cell_proj.weight"] = (H, self.memory)
            shapes["decoder.encoder_hidden_proj.bias"] = shapes["decoder.encoder_cell_proj.bias"] = (H,)
        if case["attention"]:
            shapes["decoder.attention.input_proj.weight"] = (self.memory, H)
            shapes["decoder.attention.output_proj.weight"] = (H, self.memory + H)
        if case["fc"]:
            shapes |= {"decoder.additional_fc.weight": (OUT, H), "decoder.additional_fc.bias": (OUT,)}
        if not case["shared"]:
            shapes |= {"decoder.fc_out.weight": (9, OUT if case["fc"] else H), "decoder.fc_out.bias": (9,)}
        self.state = drawn(np.random.default_rng(7), shapes)
        self.w = doubles(self.state)

    def save(self, folder, **content):
        for lang, words in (("en", SRC), ("de", TGT)):
            lines = [f"{word} {9 - n}" for n, word in enumerate(words)]
            (folder / f"dict.{lang}.txt").write_text("\n".join([*lines[:-1], lines[-1] + " #fairseq:overwrite", ""]))
        settings = {"args": Namespace(arch="lstm", source_lang="en", target_lang="de")}
        return save(folder / "checkpoint_best.pt", {"model": self.state} | (content or settings))

    def scores(self, source, target):
        w = self.w
        src, tgt = [*SPECIAL, *SRC], [*SPECIAL, *TGT]
        ids = [*(src.index(word) if word in src else 3 for word in source.split()), 2]
        xs = w["encoder.embed_tokens.weight"][ids]
        memory, finals = layers(w, "encoder.lstm.", "lstm", xs, self.case["layers"], self.directions)
        states = [self.first(final) for final in finals]
        feed, token, found = np.zeros(H), 2, []
        for said in [*map(tgt.index, target.split()), 2]:
            x = np.concatenate([w["decoder.embed_tokens.weight"][token], feed])
            for layer in range(len(states)):
                states[layer] = lstm(w, f"decoder.layers.{layer}.", x, *states[layer])
                x = states[layer][0]
            feed = self.attend(memory, x)
            y = feed
            if self.case["fc"]:
                y = w["decoder.additional_fc.weight"] @ y + w["decoder.additional_fc.bias"]
            if self.case["shared"]:
                logits = w["decoder.embed_tokens.weight"] @ y
            else:
                logits = w["decoder.fc_out.weight"] @ y + w["decoder.fc_out.bias"]
            found.append(log_prob(logits, said))
            token = said
        return found

    def first(self, final):
        if "decoder.encoder_hidden_proj.weight" not in self.w:
            return final
        both = zip([f"decoder.encoder_{kind}_proj" for kind in ("hidden", "cell")], final, strict=True)
        return tuple(self.w[f"{name}.weight"] @ x + self.w[f"{name}.bias"] for name, x in both)

    def attend(self, memory, h):
        if not self.case["attention"]:
            return h
        scores = memory @ (self.w["decoder.attention.input_proj.weight"] @ h)
        both = np.concatenate([softmax(scores) @ memory, h])
        return np.tanh(self.w["decoder.attention.output_proj.weight"] @ both)


def test_newer_settings_name_the_languages_too(tmp_path):
    path = Fairseq("last").save(tmp_path, args=None, cfg={"task": {"source_lang": "en", "target_lang": "de"}})
    assert import_model(path).kind == "fairseq"


def test_what_is_missing_is_named(tmp_path):
    path = Fairseq("last").save(tmp_path, args=None, cfg=None)
    refused(CheckpointError, "source_lang must be in its settings", import_model, path)
    path = Fairseq("last").save(tmp_path)
    (tmp_path / "dict.de.txt").write_text("die 4\nKatze\n")
    refused(CheckpointError, r"dict.de.txt: line 2 must be a word and a number, got 'Katze'", import_model, path)
    (tmp_path / "dict.de.txt").unlink()
    refused(CheckpointError, "dict.de.txt: must be the vocabulary next to the checkpoint", import_model, path)


def test_a_tensor_more_is_refused(tmp_path):
    model = Fairseq("last")
    model.state["decoder.adaptive_softmax.head.weight"] = np.zeros((2, 2), np.float32)
    line = r"decoder.adaptive_softmax.head.weight.*has no counterpart here"
    refused(CheckpointError, line, import_model, model.save(tmp_path))
