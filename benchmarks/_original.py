"""Runs in another toolkit's environment: its own model's scores and translations, and the seconds that they took.

Reads {"model", "src", "ref", "beams", "batch", "threads", "most", "turns"} as JSON from standard input, and writes
{"scores": [...], "BEAM": {"texts", "seconds"}} to the file that is named. Lines are subwords divided by spaces. Reading
the model is not in the seconds; lines go through in batches of similar length.
"""

import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

try:
    import torch
except ImportError:  # Marian's environment has none
    torch = None


def _fastest(call, turns):
    """What a call gives, and the seconds of its fastest turn."""
    best = None
    for _ in range(turns):
        start = time.perf_counter()
        found = call()
        seconds = time.perf_counter() - start
        best = seconds if best is None else min(best, seconds)
    return found, best


class OpenNMT:
    """OpenNMT-py 3: its inference engine, and its model's forward pass for scores."""

    def __init__(self, asked):
        self.asked = asked

    def _engine(self, beam):
        parser = importlib.import_module("onmt.bin.translate")._get_parser()
        with tempfile.NamedTemporaryFile("w", suffix=".src", delete=False) as file:
            file.write("\n".join(self.asked["src"]) + "\n")
        options = {"model": self.asked["model"], "src": file.name, "output": file.name + ".out", "beam_size": beam}
        options |= {"batch_size": self.asked["batch"], "gpu": -1, "max_length": self.asked["most"]}
        options |= {"length_penalty": "none", "max_length_ratio": 0}
        words = [str(word) for name, value in options.items() for word in (f"-{name}", value)]
        opt = parser.parse_args(words)
        found = importlib.import_module("onmt.utils.parse").ArgumentParser
        found.validate_translate_opts(opt)
        found._get_all_transform_translate(opt)
        found._validate_transforms_opts(opt)
        found.validate_translate_opts_dynamic(opt)
        return importlib.import_module("onmt.inference_engine").InferenceEnginePY(opt)

    def translate(self, beam, turns):
        engine = self._engine(beam)
        (_, texts), seconds = _fastest(lambda: engine.infer_list(self.asked["src"]), turns)
        return [one[0] for one in texts], seconds

    def scores(self):
        engine = self._engine(1)
        model, vocabs, found = engine.translator.model, engine.vocabs, []
        with torch.no_grad():
            for src, ref in zip(self.asked["src"], self.asked["ref"], strict=True):
                ids = torch.tensor([[[vocabs["src"].lookup_token(t)] for t in src.split()]])
                words = ["<s>", *ref.split(), "</s>"]
                tgt = torch.tensor([[[vocabs["tgt"].lookup_token(t)] for t in words]])
                out, _ = model(ids, tgt, torch.tensor([ids.shape[1]]))
                log_probs = torch.log_softmax(model.generator(out), dim=-1)[0]
                found.append(float(log_probs.double().gather(1, tgt[0, 1:]).sum()))
        return found


class Joey:
    """JoeyNMT 2: its model, its search."""

    def __init__(self, asked):
        from joeynmt.config import _check_special_symbols, load_config
        from joeynmt.model import build_model
        from joeynmt.vocabulary import build_vocab

        self.asked, folder = asked, Path(asked["model"]).parent
        cfg = load_config(folder / "config.yaml")
        for side in ("src", "trg"):
            cfg["data"][side]["voc_file"] = str(folder / f"{side}_vocab.txt")
        special = _check_special_symbols(dict(cfg["data"].get("special_symbols", {})))
        cfg["data"]["special_symbols"] = SimpleNamespace(**special)
        self.src, self.trg = build_vocab(cfg["data"], model_dir=folder)
        self.model = build_model(cfg["model"], src_vocab=self.src, trg_vocab=self.trg)
        self.model.load_state_dict(torch.load(asked["model"], map_location="cpu", weights_only=False)["model_state"])
        self.model.eval()

    def _batch(self, lines):
        src, lengths, _ = self.src.sentences_to_ids([line.split() for line in lines], bos=False, eos=True)
        src = torch.tensor(src)
        mask = (src != self.src.pad_index).unsqueeze(1)
        return SimpleNamespace(src=src, src_length=torch.tensor(lengths), src_mask=mask, has_trg=False)

    def _all(self, beam):
        from joeynmt.search import search

        lines, size = self.asked["src"], self.asked["batch"]
        order, found = sorted(range(len(lines)), key=lambda n: -len(lines[n].split())), {}
        for first in range(0, len(order), size):
            some = order[first : first + size]
            batch = self._batch([lines[n] for n in some])
            out, _, _ = search(self.model, batch, self.asked["most"], beam, -1, 1)
            rows = self.trg.arrays_to_sentences(arrays=out, cut_at_eos=True, skip_pad=True)
            for n, row in zip(some, rows, strict=True):
                found[n] = " ".join(token for token in row if token != "</s>")
        return [found[n] for n in range(len(lines))]

    def translate(self, beam, turns):
        with torch.no_grad():
            return _fastest(lambda: self._all(beam), turns)

    def scores(self):
        found = []
        with torch.no_grad():
            for src, ref in zip(self.asked["src"], self.asked["ref"], strict=True):
                batch = self._batch([src])
                trg, _, _ = self.trg.sentences_to_ids([ref.split()], bos=True, eos=True)
                trg = torch.tensor(trg)
                mask = torch.ones_like(trg[:, :-1], dtype=torch.bool).unsqueeze(1)
                out = self.model._encode_decode(batch.src, trg[:, :-1], batch.src_mask, batch.src_length, mask)[0]
                log_probs = torch.log_softmax(out, dim=-1)[0]
                found.append(float(log_probs.double().gather(1, trg[0, 1:, None]).sum()))
        return found


class Marian:
    """Marian's commands, as pymarian brings them; vocab.yml, of both sides, is next to the model."""

    def __init__(self, asked):
        self.asked = asked
        vocabulary = str(Path(asked["model"]).parent / "vocab.yml")
        self.model = ["-m", asked["model"], "-v", vocabulary, vocabulary, "--quiet", "-w", "600"]
        self.model += ["--cpu-threads", str(asked["threads"])]

    def _run(self, *words):
        command = [str(Path(sys.executable).parent / "pymarian"), *words, *self.model]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()

    def _written(self, lines):
        with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
            file.write("".join(f"{line}\n" for line in lines))
        return file.name

    def translate(self, beam, turns):
        how = ["-b", str(beam), "--normalize", "0", "--max-length-factor", "3"]
        how += ["--mini-batch", str(self.asked["batch"]), "--maxi-batch", "100", "--maxi-batch-sort", "src"]
        whole, first = self._written(self.asked["src"]), self._written(self.asked["src"][:1])
        found, seconds = _fastest(lambda: self._run("decode", "-i", whole, *how), turns)
        _, start = _fastest(lambda: self._run("decode", "-i", first, *how), turns)
        return found, seconds - start  # the command reads the model each time

    def scores(self):
        texts = [self._written(self.asked[name]) for name in ("src", "ref")]
        lines = self._run("score", "-t", *texts, "--mini-batch", "32", "--max-length", "1000")
        return [float(line.split()[-1]) for line in lines]


def main():
    """Answer what was asked."""
    asked = json.load(sys.stdin)
    if torch is not None:
        torch.set_num_threads(asked["threads"])
    original = {"onmt": OpenNMT, "joey": Joey, "marian": Marian}[sys.argv[1]](asked)
    found = {"scores": original.scores()}
    for beam in asked["beams"]:
        texts, seconds = original.translate(beam, asked["turns"])
        found[str(beam)] = {"texts": texts, "seconds": seconds}
    Path(sys.argv[2]).write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main()
