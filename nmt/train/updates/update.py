"""One update of the parameters: loss and gradients of its batches, the norm, the optimizer's step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import DataError
from nmt.model.network import LossStats
from nmt.rnn.profile import operation
from nmt.train.distributed.ranks import Ranks
from nmt.train.updates.dealing import SingleBatch
from nmt.train.updates.methods import Methods
from nmt.train.updates.optimizer import clip_scale, gradient_norm
from nmt.train.updates.state import batch_seed

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.alignment.word_alignment import WordAlignments
    from nmt.data.tokens.subwords import Subwords
    from nmt.model.network import Network
    from nmt.rnn.arrays.flat_arrays import Group
    from nmt.train.distributed.reduction import Reduction
    from nmt.train.updates.dealing import UpdateBatches
    from nmt.train.updates.optimizer import Optimizer


@dataclass(frozen=True)
class Outcome:
    """What an update did: sums of its batches, the gradient's norm before clipping, whether it was applied."""

    stats: LossStats
    norm: float
    is_finite: bool
    is_spike: bool = False
    """Its loss leapt, and it was not applied."""


class Updater:
    """Changes a model update by update; the arrays of the gradients are made once.

    Args:
        config: The settings of the run.
        model, optimizer: Changed in place.
        num_threads: Cores to use.
        ranks: Who else computes batches of each update; None for nobody.
        alignments: Of the training pairs, where attention is guided by them.
        tgt_subwords: For what translations cost, in minimum risk training.
        is_spike: Whether an update of this loss a token is to be left out.
    """

    def __init__(
        self,
        config: Config,
        model: Network,
        optimizer: Optimizer,
        num_threads: int,
        ranks: Ranks | None = None,
        *,
        alignments: WordAlignments | None = None,
        tgt_subwords: Subwords | None = None,
        is_spike: Callable[[float], bool] = lambda loss: False,
    ) -> None:
        self._config, self._model, self._optimizer = config, model, optimizer
        self._num_threads = num_threads
        self._is_spike = is_spike
        self._methods = Methods(config, model, num_threads, alignments, tgt_subwords)
        self._ranks = ranks or Ranks()
        self._gradients = GradientSum(model, config.training.gradient_dtype, self._ranks)

    @property
    def gradients(self) -> Group:
        """Of the last update."""
        return self._gradients.arrays

    @property
    def reduction(self) -> Reduction | None:
        """Return what adds up the gradients of all ranks; None where there is one."""
        return self._gradients.reduction

    def update(self, batches: UpdateBatches | SingleBatch, number: int, learning_rate: float) -> Outcome:
        """Do update `number`, counted from 1, unless its loss or gradient is not finite, or its loss leaps."""
        stats = self._add_up(batches, number)
        for name in self._optimizer.frozen:
            self.gradients[name][...] = 0
        norm = gradient_norm(self.gradients, self._num_threads, self._model.device)
        is_finite = math.isfinite(stats.loss) and math.isfinite(norm)
        is_spike = is_finite and self._is_spike(stats.loss / max(1, stats.tokens))
        if is_finite and not is_spike:
            scale = clip_scale(norm, self._config.training.clip_grad_norm)
            self._optimizer.step(self._model.params, self.gradients, learning_rate, scale)
            self._model.changed()
        else:
            self._model.carry({})  # states of a loss that is not finite are no better
        return Outcome(stats, norm, is_finite, is_spike)

    def update_with(self, batch: Any, number: int, learning_rate: float) -> Outcome:
        """Return the same with one batch."""
        return self.update(SingleBatch(batch), number, learning_rate)

    def _add_up(self, batches: UpdateBatches | SingleBatch, number: int) -> LossStats:
        """Return the gradients of all batches of all ranks into `gradients`, in their order; returns the sums of
        losses."""
        found = np.zeros((len(batches), 4))
        own = []
        for place, batch in batches:
            seed = batch_seed(self._config.seed, number, place)
            own.append((place, seed, self._methods.prepare(batch, number, seed)))
        tokens_in_all = batches.num_tgt_tokens
        if self._methods.recounts:
            mine = np.array([sum(prepared.num_tgt_tokens for *_, prepared in own)], np.float64)
            tokens_in_all = int(self._ranks.total(mine)[0])
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
                **prepared.options,
            )
            found[place] = stats.nll, stats.loss, stats.tokens, stats.correct
            self._gradients.ready()
        nll, loss, tokens, correct = (sum(column) for column in self._gradients.finish(found).T.tolist())
        if tokens != tokens_in_all:
            raise DataError(
                f"data.train: must be the same text for every rank, {tokens_in_all} target tokens in update "
                f"{number}, got {tokens:.0f}; copy it to all machines"
            )
        times = self._methods.repeats
        return LossStats(nll / times, loss / times, int(tokens) // times, int(correct) // times)


class GradientSum:
    """The gradients of the batches of an update, of all ranks. Each batch's are computed by themselves and then added,
    in the order of the batches, so that ranks which compute some of them each come to the same sum.

    Args:
        model: Whose gradients.
        wire_dtype: What they are sent as from rank to rank.
        ranks: Who else computes some.
    """

    def __init__(self, model: Network, wire_dtype: str, ranks: Ranks) -> None:
        self._model, self._ranks = model, ranks
        self.arrays = model.gradient_group()
        self._one: Group | None = None  # of one batch, where this process computes several
        self._unadded: list[str] = []
        self._is_last = False
        device = model.device
        is_host = ranks.size == 1 or device.name == "cpu"
        self._host = None if is_host else {name: device.download(array) for name, array in self.arrays.items()}
        self.reduction = ranks.reduction(self.arrays if self._host is None else self._host, wire_dtype)

    def begin(self, own: Sequence[Any]) -> None:
        """Start an update of which this process computes some batches, maybe none."""
        self._unadded = []
        if not own:
            for array in self.arrays.values():
                array[...] = 0
        if self.reduction is not None:
            self.reduction.begin(self._model.touched_rows(own))

    def arrays_for(self, done: int, *, is_last: bool) -> Group:
        """Return where the gradients of the next batch of this process go, after `done` others."""
        self._is_last = is_last
        if not done:
            return self.arrays
        if self._one is None:
            self._one = self._model.gradient_group()
        self._unadded = list(self._one)
        return self._one

    def ready(self, *names: str) -> None:
        """The gradients of a batch below these names are there, all of them where no names are given: add them to those
        of the batches before it; after the last batch they may be sent."""
        if self._one is not None and self._unadded:
            with operation("gradients: adding those of a batch"):
                for name in [name for name in self._unadded if not names or name.startswith(names)]:
                    total, one = self.arrays[name].reshape(-1), self._one[name].reshape(-1)
                    self._model.device.add_scaled(total, one, 1.0)
                    self._unadded.remove(name)
        if names and self._is_last and self.reduction is not None and self._host is None:
            self.reduction.ready(*names)

    def finish(self, losses: np.ndarray) -> np.ndarray:
        """Wait for the sum of all ranks; returns that of float64 numbers, which are zero in all of them but one."""
        if self.reduction is None:
            return losses
        with operation("gradients: waiting for other ranks"):
            if self._host is not None:
                for name, array in self.arrays.items():
                    self._host[name][...] = self._model.device.download(array)
            self.reduction.finish()
            if self._host is not None:
                for name, array in self._host.items():
                    self.arrays[name][...] = self._model.device.upload(array)
            return self._ranks.total(losses)
