"""A memory that is read while translating, beside learning by updates, on streams as those of learning.py.

    python benchmarks/neighbours.py runs/chr data/cherokee/train data/cherokee/out data/cherokee/dev -n 127

k-nearest-neighbour translation (Khandelwal et al. 2021): the outputs of the decoder for the words of confirmed pairs
are keys, 64 principal components of those of general text (TRAIN) in int8 (Wang et al. 2022 learn a compression); the
next tokens are values. The search mixes the probabilities of the model and of the neighbours. The weight is learned
from the pairs themselves, each of them scored before it is added, by expectation maximisation (Zheng et al. 2021 train
a network): one weight for each range of distances, for neighbours that agree or not, for models that are sure or not.
All keys count that are nearly as near as the nearest, so there is no number of neighbours.

Prints BLEU (chrF) of the first N sentences of STREAM, each translated before it is confirmed, of the next N, and of
general text DEV; how many of every tenth pair are translated as confirmed at once; and the milliseconds from confirmed
to known, median and 95th percentile.
"""

import argparse
import tempfile
import time
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from learning import read, shown

from nmt import LearningTranslator, Translator
from nmt.inference.pipeline import source_ids, target_ids
from nmt.model.parts.padding import pad_targets
from nmt.rnn.arrays.workspace import Fresh
from nmt.rnn.kernels.search.choose import top_tokens
from nmt.special_tokens import EOS_ID

EDGES = np.array([0.003, 0.03, 0.1, 0.2, 0.35])
"""Distances between the ranges; 1 is the median of two states of general text."""
PRIOR, PRIOR_COUNT = np.array([0.95, 0.5, 0.2, 0.1, 0.05, 0.02]), 8.0
NEAREST, WIDENS, FARTHEST = 0.003, 0.3, 12.0
"""Neighbours count exp(-x), x = (distance - least) / (NEAREST + WIDENS * least), if x is less than FARTHEST. Chosen by
the likelihood of 300 travel sentences and of the two Cherokee texts."""


def states(translator: Translator, sources: list[str], targets: list[str]) -> list[tuple[np.ndarray, ...]]:
    """Outputs [T, H], next tokens [T] and log-probabilities [T, V] of the words of each pair."""
    model: Any = translator.model
    found = []
    for source, target in zip(sources, targets, strict=True):
        src_ids, tgt_ids = source_ids(translator, [source]), [[*target_ids(translator, [target])[0], EOS_ID]]
        read, (tgt_in, tgt_out, lengths) = model._encode_ids(src_ids, 1), pad_targets(tgt_ids)
        y = model.decoder.forward(
            model.weights.view("decoder"),
            model.embed_sequence("tgt", tgt_in, 1, Fresh(np)),
            read.states,
            lengths=lengths,
            captured={"memory": read.memory},
            source_lengths=read.lengths,
            threads=1,
        ).y
        h = np.ascontiguousarray(y[:, 0, : model.decoder.cell.output_size])
        found.append((h.copy(), tgt_out[:, 0], np.array(model.device.log_probs(h, model.output_layer, 1))))
    return found


class Memory:
    """Keys and values of confirmed pairs, and the weights of the mixture."""

    def __init__(self, translator: Translator, sources: list[str], targets: list[str], size: int = 64) -> None:
        h = np.concatenate([one[0] for one in states(translator, sources, targets)])
        self.mean = h.mean(axis=0)
        self.matrix = np.linalg.svd((h - self.mean)[:8000], full_matrices=False)[2][:size].T.copy()
        self.scale = 127 / np.quantile(np.abs((h - self.mean) @ self.matrix), 0.999)
        keys, random = self.keys_of(h), np.random.default_rng(0)
        some, others = (keys[random.permutation(len(keys))[:1000]] for _ in range(2))
        self.unit = np.median(((some - others) ** 2).sum(axis=1))
        self.keys, self.values = keys[:0], np.zeros(0, np.int64)
        self.seen, self.explained = np.zeros((6, 2, 2)), np.zeros((6, 2, 2))

    def keys_of(self, h: np.ndarray) -> np.ndarray:
        """Keys: whole numbers, so that products are exact in any order."""
        return np.clip(np.rint((h - self.mean) @ self.matrix * self.scale), -127, 127).astype(np.float32)

    def neighbours(self, h: np.ndarray, log_probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of the next tokens by the neighbours [R, V], and the weights of these [R, 1]."""
        q, found = self.keys_of(h), np.zeros(log_probs.shape)
        distances = (self.keys**2).sum(axis=1)[None] - 2 * (q @ self.keys.T) + (q**2).sum(axis=1)[:, None]
        distances /= self.unit
        least = distances.min(axis=1, keepdims=True)
        x = (distances - least) / (NEAREST + WIDENS * least)
        row, at = np.nonzero(x < FARTHEST)
        np.add.at(found, (row, self.values[at]), np.exp(-x[row, at]))
        found /= found.sum(axis=1, keepdims=True)
        agree, sure = found.max(axis=1) > 0.8, log_probs.max(axis=1) > np.log(0.5)
        self.cell = np.searchsorted(EDGES, least[:, 0]), agree.astype(int), sure.astype(int)
        prior = PRIOR[:, None, None] * np.array([0.5, 1.0])[None, :, None]
        prior[0] = PRIOR[0]
        weights = (PRIOR_COUNT * prior + self.explained) / (PRIOR_COUNT + self.seen)
        return found, weights[self.cell][:, None]

    def mixed(self, h: np.ndarray, log_probs: np.ndarray) -> np.ndarray:
        """Log-probabilities [R, V] of model and neighbours together."""
        if not len(self.keys):
            return log_probs
        found, weight = self.neighbours(h, log_probs)
        with np.errstate(divide="ignore"):
            return np.log((1 - weight) * np.exp(log_probs) + weight * found).astype(log_probs.dtype)

    def add(self, h: np.ndarray, tokens: np.ndarray, log_probs: np.ndarray) -> None:
        """Learn the weights from a pair, then remember it."""
        if len(self.keys):
            found, weight = self.neighbours(h, log_probs)
            place = np.arange(len(tokens))
            mine, model = weight[:, 0] * found[place, tokens], (1 - weight[:, 0]) * np.exp(log_probs[place, tokens])
            np.add.at(self.seen, self.cell, 1)
            np.add.at(self.explained, self.cell, mine / (mine + model))
        self.keys = np.concatenate([self.keys, self.keys_of(h)])
        self.values = np.concatenate([self.values, tokens])


class Reading:
    """A model that reads a memory in each step of a search; and its decoder."""

    loop_obstacle = "a memory is read in each step"

    def __init__(self, inner: Any, memory: Memory) -> None:
        self.inner, self.memory = inner, memory

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def search_decoder(self, *given: Any, **options: Any) -> "Reading":
        """The decoder, which reads the memory."""
        return Reading(self.inner.search_decoder(*given, **options), self.memory)

    def log_probs(self, outputs: np.ndarray) -> np.ndarray:
        """The mixture."""
        return self.memory.mixed(outputs, self.inner.log_probs(outputs))

    def best_tokens(self, outputs: np.ndarray, first_token: int, places: int) -> tuple[np.ndarray, np.ndarray]:
        """The best tokens by the mixture; see `Decoder.best_tokens`."""
        scores = self.log_probs(outputs)
        scores[:, :first_token] = -np.inf
        return top_tokens(scores, places)


def reading(translator: Translator, memory: Memory) -> Translator:
    """A translator that reads a memory."""
    found: Any = copy(translator)
    found.model = Reading(translator.model, memory)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "train", "stream", "dev"):
        parser.add_argument(name)
    parser.add_argument("-n", "--count", type=int, default=300)
    parser.add_argument("--general", type=int, default=150)
    arguments = parser.parse_args()
    base, n = Translator.load(arguments.model, threads=1), arguments.count
    langs = base.config.data.src.lang, base.config.data.tgt.lang
    (src, tgt), dev = read(arguments.stream, langs, 2 * n), read(arguments.dev, langs, arguments.general)
    general = read(arguments.train, langs, 800)

    def row(name: str, found: list[str], last: Translator, known: int | str = "", times: list[float] = []) -> None:  # noqa: B006
        cells = [(found, tgt[:n]), (last.translate(src[n:]), tgt[n:]), (last.translate(dev[0]), dev[1])]
        taken = " / ".join(f"{1e3 * np.percentile(times, p):.0f}" for p in (50, 95)) if times else ""
        print(f"| {name} | {' | '.join(shown(*one) for one in cells)} | {known} | {taken} |", flush=True)

    def is_known(translator: Translator, i: int) -> bool:
        return i % 10 == 0 and translator.translate(src[i]).lower().split() == tgt[i].lower().split()

    row("no learning", base.translate(src[:n]), base)
    memory, found, known, times = Memory(base, *general), [], 0, []
    reader = reading(base, memory)
    for i in range(n):
        found.append(reader.translate(src[i]))
        began = time.perf_counter()
        memory.add(*states(base, src[i : i + 1], tgt[i : i + 1])[0])
        times.append(time.perf_counter() - began)
        known += is_known(reader, i)
    row(f"memory, {len(memory.keys):,} keys", found, reader, known, times)
    with tempfile.TemporaryDirectory() as place:
        one = LearningTranslator(Translator.load(arguments.model, threads=1), Path(place) / "memory", idle=None)
        other, alone, both, known, times = Memory(base, *general), [], [], 0, []
        for i in range(n):
            alone.append(one.translate(src[i]))
            both.append(reading(one.translator(), other).translate(src[i]))
            began = time.perf_counter()
            one.learn(src[i], tgt[i])
            times.append(time.perf_counter() - began)
            other.add(*states(one.translator(), src[i : i + 1], tgt[i : i + 1])[0])
            known += is_known(one.translator(), i)
        one.wait()
        row("updates", alone, one.translator(), known, times)
        row("both", both, reading(one.translator(), other))
        one.consolidate()
        last = one.translator()
        row("updates, consolidated", alone, last)
        memory.keys, memory.values = memory.keys[:0], memory.values[:0]
        for each in states(last, src[:n], tgt[:n]):
            memory.add(*each)
        row("memory, then consolidated with its keys made anew", found, reading(last, memory))
        one.close()


if __name__ == "__main__":
    main()
