"""One update of the parameters: loss and gradients of its batches, gradient norm, optimizer step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nmt.errors import DataError, NMTError
from nmt.model.batch_pass import LIKELIHOOD, Alignment, Objective
from nmt.model.network import LossStats
from nmt.rnn.cell import belongs
from nmt.special_tokens import EOS_ID, UNK_ID, boundary_ids
from nmt.train.distributed.ranks import Ranks
from nmt.train.updates.optimizer import Optimizer, clip_scale, gradient_norm
from nmt.train.updates.schedule import batch_seed

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.alignment.word_alignment import WordAlignments
    from nmt.model.translation import TranslationModel
    from nmt.rnn.arrays.workspace import Group
    from nmt.train.updates.dealing import UpdateBatches


_SRC, _TGT = range(2)
"""Purposes of a batch's random numbers; each has its own stream."""


class Prepared(NamedTuple):
    """A batch as the update uses it, and the terms that are added to its loss."""

    batch: Any
    objective: Objective


class Methods:
    """The training methods that the settings enable; without any, a batch is unchanged. `alignments`: word alignments
    of the training pairs, if attention is guided by them."""

    def __init__(self, config: Config, model: TranslationModel, alignments: WordAlignments | None = None) -> None:
        settings, source = config.training, config.data.src
        self._settings, self._model = settings, model
        self._alignments = alignments
        before, after = boundary_ids(config.model.encoder.boundaries)
        self._objective = Objective(
            r_drop=settings.r_drop,
            guided_alignment=settings.guided_alignment,
            widest_source=source.max_length + len(before) + len(after),
        )
        if not (settings.r_drop or alignments is not None):
            self._objective = LIKELIHOOD
        self._copies = config.model.decoder.copy_source
        self._changes_batch = any((settings.src_word_dropout, settings.tgt_word_dropout, settings.r_drop))
        self.repeats = 2 if settings.r_drop else 1
        """The count of each target token in a prepared batch."""

    def prepare(self, batch: Any, seed: int) -> Prepared:
        """Return the batch as an update uses it; `seed` determines random draws."""
        objective = self._objective
        if self._alignments is not None:  # from the words before any of them becomes unknown
            step, row, position, share = self._alignments.of_batch(
                batch.src, batch.src_lengths, batch.tgt_out, batch.tgt_lengths, batch.indices
            )
            if self.repeats == 2:
                step, position, share = np.tile(step, 2), np.tile(position, 2), np.tile(share, 2)
                row = np.concatenate([2 * row, 2 * row + 1])
            objective = replace(objective, alignment=Alignment(step, row, position, share))
        if self._copies and self._settings.src_word_dropout:  # an unknown word is copied as what it was
            objective = replace(objective, copied=batch.src)
        if self._changes_batch:
            batch = self._changed(batch, seed)
        return Prepared(batch, objective)

    def _changed(self, batch: Any, seed: int) -> Any:
        """Return the batch after random changes, doubled if it is passed twice (R-Drop)."""
        settings = self._settings
        if rate := settings.tgt_word_dropout:
            batch = replace(batch, tgt_in=_dropped(batch.tgt_in, rate, seed, _TGT))
        if rate := settings.src_word_dropout:
            factors = self._model.factors
            units = batch.src if factors is None else factors.units(batch.src)
            dropped = _dropped(units, rate, seed, _SRC)
            batch = replace(batch, src=dropped + (batch.src - units))  # the factors of an unknown word are kept
        return batch.doubled() if settings.r_drop else batch


def _dropped(ids: np.ndarray, rate: float, *seed: int) -> np.ndarray:
    """Return the ids with a random fraction of the words replaced by the unknown token; special tokens are kept."""
    random = np.random.default_rng(seed)
    return np.where((ids > EOS_ID) & (random.random(ids.shape) < rate), ids.dtype.type(UNK_ID), ids)


@dataclass(frozen=True)
class Outcome:
    """The result of an update: sums over its batches, the gradient norm before clipping, whether it was applied."""

    stats: LossStats
    norm: float
    is_finite: bool


class Updater:
    """Updates a model; the gradient arrays are allocated once. `model`, `optimizer`: changed in place; `ranks`: the
    processes that compute batches of each update; None for this one alone; `alignments`: word alignments of the
    training pairs, if attention is guided by them."""

    def __init__(
        self,
        config: Config,
        model: TranslationModel,
        optimizer: Optimizer,
        num_threads: int,
        ranks: Ranks | None = None,
        *,
        alignments: WordAlignments | None = None,
    ) -> None:
        self._config, self._model, self._optimizer = config, model, optimizer
        self._num_threads = num_threads
        self._methods = Methods(config, model, alignments)
        self._gradients = GradientSum(model, config.training.gradient_dtype, ranks or Ranks())

    @property
    def gradients(self) -> Group:
        """Return the gradients of the last update."""
        return self._gradients.arrays

    def update(self, batches: UpdateBatches, number: int, learning_rate: float) -> Outcome:
        """Do update `number`, counted from 1, unless its loss or gradient is not finite."""
        return self._update(self._add_up(batches, len(batches), batches.num_tgt_tokens, number), learning_rate)

    def update_with(self, batch: Any, number: int, learning_rate: float) -> Outcome:
        """Do update `number` with one batch, and return its outcome."""
        return self._update(self._add_up([(0, batch)], 1, batch.num_tgt_tokens, number), learning_rate)

    def _update(self, stats: LossStats, learning_rate: float) -> Outcome:
        """Change the parameters by the gradients, which have this loss."""
        for name in self._optimizer.frozen:
            self.gradients[name][...] = 0
        norm = gradient_norm(self.gradients, self._num_threads, self._model.device)
        is_finite = math.isfinite(stats.loss) and math.isfinite(norm)
        if is_finite:
            scale = clip_scale(norm, self._config.training.clip_grad_norm)
            params = self._model.params
            self._optimizer.step(params, self.gradients, learning_rate, scale)
            for name, row, rows in self._model.means:
                params[name][row] = params[name][rows].mean(axis=0)
            self._model.changed()
        return Outcome(stats, norm, is_finite)

    def _add_up(self, batches: Iterable[tuple[int, Any]], count: int, tgt_tokens: int, number: int) -> LossStats:
        """Write the sum of the gradients of all batches of all ranks into `gradients`; return the sum of the losses.
        `batches`: those of this process, each with its place among all `count`, which have so many target tokens."""
        times = self._methods.repeats
        found, tokens_in_all = np.zeros((count, 4)), times * tgt_tokens
        own = []
        for place, batch in batches:
            seed = batch_seed(self._config.seed, number, place)
            own.append((place, seed, self._methods.prepare(batch, seed)))
        self._gradients.begin([prepared.batch for *_, prepared in own])
        for done, (place, seed, prepared) in enumerate(own):
            into = self._gradients.arrays_for(done, is_last=done == len(own) - 1)
            stats, _ = self._model.loss_and_gradients(
                prepared.batch,
                seed=seed,
                label_smoothing=self._config.training.label_smoothing,
                threads=self._num_threads,
                into=into,
                tokens=tokens_in_all,
                ready=self._gradients.ready,
                objective=prepared.objective,
            )
            found[place] = stats.nll, stats.loss, stats.tokens, stats.correct
            self._gradients.ready()
        nll, loss, tokens, correct = (sum(column) for column in self._gradients.finish(found).T.tolist())
        if tokens != tokens_in_all:
            raise DataError(
                f"data.train: must be the same text for every rank, {tokens_in_all} target tokens in update "
                f"{number}, got {tokens:.0f}; copy it to all machines"
            )
        return LossStats(nll / times, loss / times, int(tokens) // times, int(correct) // times)


class GradientSum:
    """The sum of the gradients of an update's batches over all ranks. The gradients of each batch are computed
    separately and then added in the order of the batches, so that the sum does not depend on how batches are spread
    over ranks. `wire_dtype`: the dtype in which gradients are sent between ranks."""

    def __init__(self, model: TranslationModel, wire_dtype: str, ranks: Ranks) -> None:
        self._model, self._ranks = model, ranks
        self.arrays = model.gradient_group()
        self._one: Group | None = None  # the gradients of one batch, if this process computes several
        self._unadded: list[str] = []
        self._is_last = False
        device = model.device
        is_host = ranks.size == 1 or device.is_cpu
        self._host = None if is_host else {name: device.download(array) for name, array in self.arrays.items()}
        self.reduction = ranks.reduction(self.arrays if self._host is None else self._host, wire_dtype)

    def begin(self, own: Sequence[Any]) -> None:
        """Start an update of which this process computes the batches `own`, possibly none."""
        self._unadded = []
        if not own:
            for array in self.arrays.values():
                array[...] = 0
        if self.reduction is not None:
            self.reduction.begin()

    def arrays_for(self, done: int, *, is_last: bool) -> Group:
        """Return the arrays for the gradients of this process's next batch, after `done` others."""
        self._is_last = is_last
        if not done:
            return self.arrays
        if self._one is None:
            self._one = self._model.gradient_group()
        self._unadded = list(self._one)
        return self._one

    def ready(self, *names: str) -> None:
        """Add the gradients of a batch that belong to these groups of parameters (all gradients if none are given) to
        those of the batches before it. After the last batch they may be sent."""
        if self._one is not None and self._unadded:
            for name in [name for name in self._unadded if not names or belongs(name, names)]:
                total, one = self.arrays[name].reshape(-1), self._one[name].reshape(-1)
                self._model.device.add_scaled(total, one, 1.0)
                self._unadded.remove(name)
        if names and self._is_last and self.reduction is not None and self._host is None:
            self._model.device.host(self.arrays)  # another thread reads them
            self.reduction.ready(*names)

    def finish(self, losses: np.ndarray) -> np.ndarray:
        """Wait for the gradients of all ranks. Return the sum of `losses` (float64) over the ranks; each element is
        nonzero in one rank only, so the sum is exact."""
        if self.reduction is None:
            return losses
        if self._host is not None:
            for name, array in self.arrays.items():
                self._host[name][...] = self._model.device.download(array)
        self.reduction.finish()
        if self._host is not None:
            for name, array in self._host.items():
                self.arrays[name][...] = self._model.device.upload(array)
        return self._ranks.total(losses)


TIMES_GUESSING = 3.0
LEAST = 20.0
"""Nats per token: a loss has exploded if it exceeds both this and TIMES_GUESSING times the loss of guessing uniformly,
the logarithm of the vocabulary size. A model of very few words that is sure of a wrong one exceeds the latter alone."""

MAX_IN_A_ROW = 10
"""Most updates in a row, exploded or not finite, before the run ends: a single one may be due to one unusual batch."""


@dataclass(frozen=True)
class LossLimit:
    """The loss above which a model with this many target subwords has diverged."""

    vocab_size: int

    @property
    def nats(self) -> float:
        """Return the limit of the mean negative log-likelihood per token, in nats."""
        return max(LEAST, TIMES_GUESSING * math.log(self.vocab_size))

    def is_broken(self, nll: float) -> bool:
        """Return whether the mean negative log-likelihood per token is above the limit, or NaN."""
        return not nll <= self.nats

    def give_up(self, where: str, fact: str) -> NMTError:
        """Return the error that ends the run."""
        return NMTError(
            f"{where}: the loss must be finite and below {self.nats:.1f} nats a token ({TIMES_GUESSING:g} times that "
            f"of guessing among {self.vocab_size:,} subwords, or {LEAST:g}), got {fact}; lower training.learning_rate "
            "or training.clip_grad_norm and run again"
        )
