"""Many callers of shared models at once: every answer must be the serial one.

Translators of three types and two numbers of threads share their models; callers translate, draw, constrain, score and
train, in batches of 1 to 200 lines, and change places after every instruction.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nmt import Translator
from nmt.data.batching.batches import make_batch
from nmt.decode import Shortlist
from nmt.inference.pipeline import source_ids
from nmt.inference.translator import Constraints
from nmt.model.translation import TranslationModel
from tests.saved_models import write_folder
from tests.waiting import at_once

DTYPES = ("float32", "bfloat16", "int8")
LARGEST = 200


def shortlist_for(source: int, target: int) -> Shortlist:
    """Three words for each, and a third of all for everybody."""
    rng = np.random.default_rng(1)
    tokens = rng.integers(4, target, 3 * source).astype(np.int32)
    return Shortlist(np.arange(source + 1) * 3, tokens, np.arange(3, target, 3, dtype=np.int32), target)


def translators(folder: Path, dtypes: Sequence[str] = DTYPES) -> list[Translator]:
    """Of each type two that share a model: one for each number of threads."""
    found = []
    for dtype in dtypes:
        one = Translator.load(folder, compute_dtype=dtype)
        sizes = one.src_subwords.vocab_size, one.tgt_subwords.vocab_size
        for threads in (1, 2):
            parts = one.model, one.src_subwords, one.tgt_subwords, one.config, threads
            found.append(Translator(*parts, shortlist=shortlist_for(*sizes)))
    return found


Answers = list[Any]
Kind = Callable[[Translator, Sequence[str]], Answers]
"""Gives an answer for each line, which depends on nothing but the line."""


def plain(**settings: Any) -> Kind:
    """N best translations with scores."""

    def ask(translator: Translator, lines: Sequence[str]) -> Answers:
        found = translator.translate_nbest(lines, **settings)
        return [[(t.text, t.score, t.log_prob) for t in translations] for translations in found]

    return ask


def with_constraint(**texts: str) -> Kind:
    """The same with a constraint for every line."""

    def ask(translator: Translator, lines: Sequence[str]) -> Answers:
        constraints = Constraints(
            prefixes=[texts["prefix"]] * len(lines) if "prefix" in texts else None,
            glossary=[[texts["glossary"]]] * len(lines) if "glossary" in texts else None,
            forbidden=[texts["forbidden"]] if "forbidden" in texts else (),
        )
        found = translator.translate_nbest(lines, constraints=constraints)
        return [[(t.text, t.score) for t in translations] for translations in found]

    return ask


def scored(translator: Translator, lines: Sequence[str]) -> Answers:
    """What the model thinks of a line as its own translation."""
    found = translator.score(lines, lines)
    return [(tuple(one.log_probs), one.attention.tobytes()) for one in found]


def kinds(word: str) -> dict[str, Kind]:
    """Everything that is asked for; `word` is one that the model knows."""
    return {
        "beam": plain(beam_size=5),
        "greedy": plain(beam_size=1),
        "n best": plain(beam_size=4, n_best=4, length_penalty=0.7),
        "shortlist": plain(beam_size=3, shortlist=True),
        "sampling": plain(sampling=True, sampling_topk=8, n_best=2, sampling_seed=3),
        "rules": plain(beam_size=3, no_repeat_ngram_size=2, repetition_penalty=1.2, min_length=2),
        "few in work": plain(beam_size=3, batch_size=4),
        "prefix": with_constraint(prefix=word),
        "glossary": with_constraint(glossary=word),
        "forbidden": with_constraint(forbidden=word),
        "scores": scored,
    }


class Training:
    """Updates of a model that nobody else has."""

    def __init__(self, like: Translator, lines: Sequence[str], updates: int = 4) -> None:
        self._ids = [source_ids(like, [line])[0] or [4] for line in lines[:40]]
        self._sizes = like.src_subwords.vocab_size, like.tgt_subwords.vocab_size
        self._config, self._updates = like.config.model, updates

    def run(self, threads: int) -> dict[str, bytes]:
        """The parameters after some updates."""
        source, target = self._sizes
        model = TranslationModel(self._config, source, target)
        model.initialize(3)
        targets = [[min(token, target - 1) for token in ids] for ids in self._ids]
        for n in range(self._updates):
            rows = [(10 * n + k) % len(targets) for k in range(10)]
            batch = make_batch([self._ids[r] for r in rows], [targets[r] for r in rows], rows)
            _, gradients = model.loss_and_gradients(batch, seed=n, threads=threads)
            for name, array in model.params.items():
                array -= 0.1 * gradients[name]
            model.changed()
        return {name: array.tobytes() for name, array in model.params.items()}


class Callers:
    """What is asked, and the serial answers."""

    def __init__(self, shared: Sequence[Translator], lines: Sequence[str], asked: dict[str, Kind]) -> None:
        self.shared, self.lines, self.asked = shared, lines, asked
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self.training = Training(shared[0], lines)
        self.trained = self.training.run(1)
        # Translators of one type have the same answers whatever their threads: those of the first are kept.
        self.answers = {
            (n // 2, name): dict(zip(lines, ask(shared[n], lines), strict=True))
            for n in range(0, len(shared), 2)
            for name, ask in asked.items()
        }

    def run(self, threads: int, calls: int) -> None:
        """Call from so many threads, so often each."""
        with switching_often():
            at_once(*[partial(self._call, seed, calls) for seed in range(threads)])

    def _call(self, seed: int, calls: int) -> None:
        draw = random.Random(seed)
        for _ in range(calls):
            try:
                self._one(draw, seed)
            except BaseException as error:  # noqa: BLE001 - told at the end
                self.wrong.append(f"{type(error).__name__}: {error}"[:300])

    def _one(self, draw: random.Random, seed: int) -> None:
        if seed == 0 and draw.random() < 0.5:
            if self.training.run(draw.choice([1, 2])) != self.trained:
                self.wrong.append("training: other parameters")
            self.counts["training"] += 1
            return
        n, name = draw.randrange(len(self.shared)), draw.choice(list(self.asked))
        lines = [draw.choice(self.lines) for _ in range(draw.choice([1, 1, 1, 2, 5, 17, 64, LARGEST]))]
        found, expected = self.asked[name](self.shared[n], lines), self.answers[n // 2, name]
        bad = sum(one != expected[line] for line, one in zip(lines, found, strict=True))
        if bad:
            self.wrong.append(f"{name}, translator {n}: {bad} of {len(lines)} lines")
        self.counts[name] += len(lines)


@contextmanager
def switching_often() -> Any:
    """Threads change places after every instruction, as nearly as the interpreter does that."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def random_model(folder: Path, size: int, vocab_size: int = 400) -> Path:
    """A translator of this size that has learnt nothing."""
    whole = {"embeddings": {"embedding_dim": max(4, size // 2)}, "hidden_size": size}
    encoder = {"embeddings": whole["embeddings"], "hidden_size": max(2, size // 2)}
    return write_folder(folder / "model", encoder=encoder, decoder=whole, vocab_size=48, subwords="unigram")
