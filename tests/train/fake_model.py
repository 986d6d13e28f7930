"""A translator of a few NumPy lines with the interface of the real one, and a corpus it can learn.

The loop, checkpoints and commands are tested with it: a run takes a second, needs no compiler, and
is exactly repeatable. Run as a script it is one of the commands with the fake model in the real
one's place:

    python tests/train/fake_model.py nmt-train CONFIG.yaml
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt.decode.hypotheses import Hypothesis

WORDS = 20


@dataclass
class LossStats:
    nll: float
    loss: float
    tokens: int
    correct: int


class TranslationModel:
    """P(target word) = softmax of the mean of the source words' rows of a table, plus a bias."""

    broken_calls: set[int] = set()
    """Calls of loss_and_gradients, counted from 1, that return NaN."""
    actions, copies, factors, means = None, False, None, ()

    def __init__(
        self,
        config: Any,
        src_vocab_size: int,
        tgt_vocab_size: int,
        compute_dtype: str | None = None,
        recompute: str = "attention",
        device: Any = None,
        src_factor_sizes: Any = (),
    ) -> None:
        self.device = device
        self.compute_dtype = compute_dtype
        self.params = {
            "table": np.zeros((src_vocab_size, tgt_vocab_size), dtype=np.float32),
            "bias": np.zeros(tgt_vocab_size, dtype=np.float32),
        }
        self.calls = 0
        self.seconds = float(os.environ.get("NMT_FAKE_SECONDS", "0"))

    @property
    def num_params(self) -> int:
        return sum(param.size for param in self.params.values())

    def initialize(self, seed: int, tgt_counts: np.ndarray) -> None:
        generator = np.random.default_rng(seed)
        for param in self.params.values():
            param[...] = generator.normal(0, 0.01, param.shape)

    def changed(self) -> None:
        pass

    def adopt(self, params: dict[str, np.ndarray]) -> None:
        self.params = dict(params)

    def loss_and_gradients(
        self,
        batch: Any,
        *,
        seed: int,
        label_smoothing: float,
        threads: int,
        into: Any = None,
        tokens: int | None = None,
        ready: Any = None,
        objective: Any = None,  # it has no attention
    ) -> tuple[LossStats, dict[str, np.ndarray]]:
        self.calls += 1
        time.sleep(self.seconds)
        stats, grads = self._pass(batch, np.random.default_rng(seed).random(batch.src.shape) < 0.9)
        for grad in grads.values():
            grad *= batch.num_tgt_tokens / (tokens or batch.num_tgt_tokens)
        if into is not None:
            for name, grad in grads.items():
                into[name][...] = grad
            grads = into
        if self.calls in self.broken_calls:
            stats.loss = stats.nll = float("nan")
        return stats, grads

    def gradient_group(self) -> dict[str, np.ndarray]:
        return {name: np.zeros_like(param) for name, param in self.params.items()}

    def loss(self, batch: Any, threads: int) -> LossStats:
        return self._pass(batch, np.ones(batch.src.shape, dtype=bool))[0]

    def _pass(self, batch: Any, keep: np.ndarray) -> tuple[LossStats, dict[str, np.ndarray]]:
        table, bias = self.params["table"], self.params["bias"]
        grads = {name: np.zeros_like(param) for name, param in self.params.items()}
        stats = LossStats(0.0, 0.0, 0, 0)
        for column in range(batch.src.shape[1]):
            real = slice(0, int(batch.src_lengths[column]))
            words = batch.src[real, column][keep[real, column]]
            logits = bias + (table[words].mean(axis=0) if len(words) else 0)
            log_probs = logits - np.logaddexp.reduce(logits)
            tokens = batch.tgt_out[: int(batch.tgt_lengths[column]), column]
            stats.nll -= float(log_probs[tokens].sum())
            stats.tokens += len(tokens)
            stats.correct += int((tokens == log_probs.argmax()).sum())
            d_logits = np.exp(log_probs) * len(tokens)
            np.subtract.at(d_logits, tokens, 1)
            d_logits /= batch.num_tgt_tokens
            grads["bias"] += d_logits
            if len(words):
                np.add.at(grads["table"], words, d_logits / len(words))
        stats.loss = stats.nll
        return stats, grads


def search(model: TranslationModel, src_ids: list[list[int]], *, options: Any, **more: Any) -> list[list[Hypothesis]]:
    """Translate word by word; runners-up lose one word each."""
    table = model.params["table"].copy()
    table[:, :4] = -np.inf
    found = []
    on_ended = more.get("on_ended") or (lambda count: None)
    for row in src_ids:
        time.sleep(model.seconds)
        on_ended(1)
        ids = table[row].argmax(axis=1).tolist()
        ranked = [ids[: max(0, len(ids) - rank)] for rank in range(options.n_best)]
        found.append([Hypothesis(ids, -1.0 - rank, -0.5 - rank, True) for rank, ids in enumerate(ranked)])
    return found


def force(model: TranslationModel, src_ids: Any, tgt_ids: Any, **options: Any) -> list[types.SimpleNamespace]:
    """Each token has log-probability -0.25 and attends to the source token at its place."""
    found = []
    for source, target in zip(src_ids, tgt_ids, strict=True):
        attention = np.zeros((len(target), len(source) + 1), np.float32)
        attention[np.arange(len(target)), np.minimum(np.arange(len(target)), len(source))] = 1
        found.append(types.SimpleNamespace(log_probs=np.full(len(target), -0.25), attention=attention))
    return found


def modules() -> dict[str, types.ModuleType]:
    """The fake in the shape of the modules it stands in for."""
    package = types.ModuleType("nmt.model")
    package.__path__ = [str(Path(__file__).parents[2] / "nmt" / "model")]  # what is not faked is the real one's
    model = types.ModuleType("nmt.model.translation")
    model.TranslationModel = TranslationModel  # type: ignore[attr-defined]
    decode = types.ModuleType("nmt.decode")
    decode.search, decode.force = search, force  # type: ignore[attr-defined]
    decode.SearchOptions = decode.Sampling = types.SimpleNamespace  # type: ignore[attr-defined]
    return {"nmt.model": package, "nmt.model.translation": model, "nmt.decode": decode}


def write_corpus(folder: Path, prefix: str, lines: int, seed: int) -> None:
    """Sentences of `w3 w7 ...` and their translation `z3 z7 ...`."""
    generator = random.Random(seed)  # noqa: S311 - not a secret
    sentences = [[generator.randrange(WORDS) for _ in range(generator.randint(1, 5))] for _ in range(lines)]
    for lang, letter in (("xx", "w"), ("yy", "z")):
        text = "".join(" ".join(f"{letter}{word}" for word in row) + "\n" for row in sentences)
        (folder / f"{prefix}.{lang}").write_text(text, encoding="utf-8")


def write_setup(folder: Path, **training: Any) -> dict[str, Any]:
    """Write corpora and return settings for a run of a second in `folder`/model."""
    from tests.settings import texts_in

    for prefix, lines, seed in (("train", 200, 1), ("dev", 20, 2), ("test", 10, 3)):
        write_corpus(folder, prefix, lines, seed)
    return {
        "model_dir": str(folder / "model"),
        "threads": 1,
        "data": texts_in(folder, subwords={"type": "word", "vocab_size": 60}),
        "training": {"learning_rate": 0.3, "batch_size": 64, "epochs": 4}
        | {"validation_freq": 8, "logging_freq": 4, **training},
    }


def begin(command: list[str], seconds: float) -> subprocess.Popen[str]:
    """Begin a command with the fake model, each of whose updates takes so long."""
    environment = {**os.environ, "NMT_FAKE_SECONDS": str(seconds)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


def main(arguments: list[str]) -> None:
    """Run a command, whose name comes first, with the fake model; `modules` must be in place."""
    from nmt.cli.commands.backtranslate import backtranslate
    from nmt.cli.commands.bundle import bundle
    from nmt.cli.commands.evaluate import evaluate
    from nmt.cli.commands.pages.report import report
    from nmt.cli.commands.score import score
    from nmt.cli.commands.sweep import sweep
    from nmt.cli.commands.train import train
    from nmt.cli.commands.translate import translate

    commands = {"nmt-train": train, "nmt-translate": translate, "nmt-score": score, "nmt-evaluate": evaluate}
    commands |= {"nmt-sweep": sweep, "nmt-backtranslate": backtranslate, "nmt-bundle": bundle, "nmt-report": report}
    sys.argv = arguments
    commands[arguments[0]](prog_name=arguments[0])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    sys.modules.update(modules())
    main(sys.argv[1:])
