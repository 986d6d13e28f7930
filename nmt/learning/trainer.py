"""Learn a pair, or consolidate many: updates of a model's parameters, a function of nothing but their arguments."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nmt.data.batching.batches import Batch, make_batch
from nmt.errors import ConfigError
from nmt.inference.nearest import LEAST_ALIKE, MOST_READ
from nmt.inference.pipeline import rows_of
from nmt.inference.translator import Translator
from nmt.learning.memory import Pair
from nmt.model.network import share
from nmt.model.translation import TranslationModel
from nmt.storage.model_folder import build_model
from nmt.train.updates.optimizer import make_optimizer
from nmt.train.updates.update import Updater

Arrays = dict[str, np.ndarray]

_HALF, _WARMUP, _MOST_VISITS = 16, 10, 20_000
"""Consolidation: pairs of the memory in a batch, and as many of the training text; updates until the full rate; most
pairs in all passes together, so that a large memory is consolidated in minutes."""
_PLAIN: dict[str, Any] = {
    "training.momentum": 0.0,
    "training.weight_decay": 0.0,
    "training.label_smoothing": 0.0,
    "training.r_drop": 0.0,
    **dict.fromkeys(("training.src_word_dropout", "training.tgt_word_dropout"), 0.0),
}
"""Settings of the training of the base model that do not apply: one pair has no state of an optimizer to begin from,
and what was learnt must not depend on what was learnt before, so that a replay gives the same."""


@dataclass(frozen=True)
class Recipe:
    """The settings of learning a pair. A memory keeps them with its pairs, since replays must do the same.

    rate: the learning rate of the gradient descent. updates: how many updates. neighbours: the number of similar pairs
    of the memory that are in the batch, of at least the similarity `least`. replayed: the number of pairs of the
    training text in it. passes, adam_rate: how often consolidation goes over all pairs, and its highest learning rate.
    reads: the number of similar pairs, of at least the similarity `alike`, that a translation reads; 0 for none.
    """

    rate: float = 0.1
    updates: int = 2
    neighbours: int = 2
    least: float = 0.5
    replayed: int = 4
    passes: int = 6
    adam_rate: float = 1e-3
    reads: int = MOST_READ
    alike: float = LEAST_ALIKE

    def __post_init__(self) -> None:
        """Raise ConfigError for a value that no pair can be learnt with: a memory would keep it."""
        for name, value in asdict(self).items():
            kind, most = type(getattr(Recipe, name)), 1.0 if name in ("least", "alike") else float("inf")
            kinds = (int,) if kind is int else (int, float)
            if type(value) not in kinds or not 0 <= value <= most or value == float("inf"):
                what = "a whole number" if kind is int else "a number" if most > 1 else "a number up to 1"
                raise ConfigError(f"recipe.{name}: must be {what}, 0 or more, got {value!r}; correct it")


class Trainer:
    """Learns pairs with the parameters of one project after another, in one thread at a time. `translator`, `base`: of
    the base model, in floating point; `names`: of the parameters that are learnt; `general`: text to replay."""

    def __init__(
        self,
        translator: Translator,
        base: TranslationModel,
        names: Sequence[str],
        recipe: Recipe,
        general: Sequence[tuple[str, str]],
    ) -> None:
        self._translator, self._base, self.recipe = translator, base, recipe
        self._general = rows_of(self._translator, general)
        self.first: Arrays = {name: np.array(base.params[name]) for name in names}
        """The parameters of a project that has learnt nothing."""
        self._boundaries = translator.config.model.encoder.boundaries
        if names:
            self._network, self._updater = self._learner("sgd")
        self._held: Arrays | None = None
        """The parameters that `learn` has returned last, which the network still has: the next pair copies none."""

    def _learner(self, optimizer: str) -> tuple[TranslationModel, Updater]:
        """Return a copy of the model that owns the parameters `first`, and its `Updater`."""
        network = self.network({name: array.copy() for name, array in self.first.items()})
        frozen = [name for name in self._base.shapes if name not in self.first]
        config = self._translator.config.with_changes(
            _PLAIN | {"training.optimizer": optimizer, "training.freeze": frozen}
        )
        # One thread: the bits of a gradient's norm depend on their number, and the others translate.
        return network, Updater(config, network, make_optimizer(config.training, network.params, 1), 1)

    def network(self, own: Mapping[str, np.ndarray], base: TranslationModel | None = None) -> TranslationModel:
        """Return a model with these parameters; others are those of `base`, or of the one in floating point."""
        base = base or self._base
        config, src = self._translator.config, self._translator.src_subwords
        sizes = base.vocab_sizes["src"], base.vocab_sizes["tgt"]
        dtype = base.step_decoder.compute_dtype
        found = build_model(config, *sizes, dtype, src_factor_sizes=src.factor_sizes)
        share(found, base, own)
        return found

    def fits(self, source: str, target: str) -> bool:
        """Return whether both sides have at least one subword and not too many."""
        return bool(rows_of(self._translator, [(source, target)]))

    def ids(self, pairs: Sequence[Pair]) -> list[tuple[list[int], list[int]]]:
        """Return learnt pairs as subwords."""
        return rows_of(self._translator, [(one.source, one.target) for one in pairs])

    def packed(self, own: Arrays) -> bytes:
        """Return the parameters of a project as bytes, for a snapshot."""
        return b"".join(own[name].tobytes() for name in self.first)

    def unpacked(self, content: bytes) -> Arrays:
        """Return the parameters that `packed` made bytes of."""
        found, at = Arrays(), 0
        for name, first in self.first.items():
            found[name] = np.frombuffer(content, first.dtype, first.size, at).reshape(first.shape)
            at += first.nbytes
        return found

    def learn(self, own: Arrays, pair: Pair, neighbours: Sequence[Pair]) -> Arrays:
        """Return the parameters of a project after it has learnt a pair, as new arrays. The batch is the pair, its
        neighbours, and a sample of the training text that depends on the pair alone."""
        if not own:
            return own
        seed = zlib.crc32(f"{pair.source}\n{pair.target}".encode())
        rows = self.ids([pair, *neighbours])
        count = min(self.recipe.replayed, len(self._general))
        rows += [self._general[n] for n in np.random.default_rng(seed).choice(len(self._general), count, replace=False)]
        batch = self.batch(rows)
        params = self._network.params
        if self._held is not own:
            for name, array in own.items():
                params[name][...] = array
            self._network.changed()
        self._held = None
        for number in range(self.recipe.updates):
            self._updater.update_with(batch, seed % 2**30 + number, self.recipe.rate * pair.rate)
        self._held = {name: params[name].copy() for name in own}
        return self._held

    def consolidate(self, pairs: Sequence[Pair], is_cancelled: Callable[[], bool] = lambda: False) -> Arrays | None:
        """Return the parameters of a project that learns pairs together, from the base model, so that a missing pair
        has left no trace: several passes with Adam over all of them, in batches of which half is training text. None if
        it was cancelled between two updates, or a project has no parameters."""
        if not self.first:
            return None
        mine, general = self.ids(pairs), self._general
        network, updater = self._learner("adam")
        passes = max(1, min(self.recipe.passes, _MOST_VISITS // max(1, len(mine))))
        random, number = np.random.default_rng(len(mine)), 0
        replayed, count = random.permutation(len(general)), -(-len(mine) // _HALF)
        total = passes * count
        for _ in range(passes):
            order = random.permutation(len(mine))
            for at in range(0, len(mine), _HALF):
                if is_cancelled():
                    return None
                rows = [mine[n] for n in order[at : at + _HALF]]
                places = np.arange(_HALF * number, _HALF * (number + 1)) % max(1, len(general))
                rows += [general[n] for n in replayed[places[: len(general)]]]
                number += 1
                rate = self.recipe.adam_rate * min(1.0, number / _WARMUP) * (1 - (number - 1) / total)
                updater.update_with(self.batch(rows), number, rate)
        return {name: network.params[name] for name in self.first}

    def mixed(self, own: Arrays, share: float) -> Arrays:
        """Return parameters between those of the base model and `own`: this share of the way."""
        return {name: first + np.float32(share) * (own[name] - first) for name, first in self.first.items()}

    def batch(self, rows: Sequence[tuple[list[int], list[int]]]) -> Batch:
        """Return pairs of subwords as a batch."""
        return make_batch([src for src, _ in rows], [tgt for _, tgt in rows], range(len(rows)), self._boundaries)

    def held_out(self, pairs: Sequence[tuple[str, str]], size: int = 16) -> list[Batch]:
        """Return pairs as batches of similar lengths, to be scored."""
        rows = sorted(rows_of(self._translator, pairs), key=lambda row: (len(row[1]), len(row[0])))
        return [self.batch(rows[at : at + size]) for at in range(0, len(rows), size)]


def loss_of(network: TranslationModel, batches: Sequence[Batch]) -> float:
    """Return the mean negative log-likelihood of the target tokens of batches, in nats."""
    stats = [network.loss(batch, threads=1) for batch in batches]
    return sum(one.nll for one in stats) / max(1, sum(one.tokens for one in stats))
