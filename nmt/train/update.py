"""One update of the parameters: loss and gradients of its batches, the norm, the optimizer's step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nmt.model.network import LossStats
from nmt.rnn.arrays.flat_arrays import whole_of
from nmt.rnn.profile import operation
from nmt.train.dealing import SingleBatch
from nmt.train.optimizer import clip_scale, gradient_norm
from nmt.train.state import batch_seed

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.model.network import Network
    from nmt.rnn.arrays.flat_arrays import Group
    from nmt.train.dealing import UpdateBatches
    from nmt.train.optimizer import Optimizer


@dataclass(frozen=True)
class Outcome:
    """What an update did: sums of its batches, the gradient's norm before clipping, whether it was applied."""

    stats: LossStats
    norm: float
    is_finite: bool


class Updater:
    """Changes a model update by update; the arrays of the gradients are made once.

    Args:
        config: The settings of the run.
        model, optimizer: Changed in place.
        num_threads: Cores to use.
    """

    def __init__(self, config: Config, model: Network, optimizer: Optimizer, num_threads: int) -> None:
        self._config, self._model, self._optimizer = config, model, optimizer
        self._num_threads = num_threads
        self.gradients: Group | None = None
        """Of the last update; None before the first."""
        self._one: Group | None = None  # of one batch, where an update has several

    def update(self, batches: UpdateBatches | SingleBatch, number: int, learning_rate: float) -> Outcome:
        """Do update `number`, counted from 1, unless its loss or gradient is not finite."""
        stats = self._add_up(batches, number)
        if self.gradients is None:
            raise RuntimeError("an update without a batch")
        norm = gradient_norm(self.gradients, self._num_threads, self._model.device)
        is_finite = math.isfinite(stats.loss) and math.isfinite(norm)
        if is_finite:
            scale = clip_scale(norm, self._config.training.clip_grad_norm)
            self._optimizer.step(self._model.params, self.gradients, learning_rate, scale)
            self._model.changed()
        else:
            self._model.carry({})  # states of a loss that is not finite are no better
        return Outcome(stats, norm, is_finite)

    def update_with(self, batch: Any, number: int, learning_rate: float) -> Outcome:
        """The same with one batch."""
        return self.update(SingleBatch(batch), number, learning_rate)

    def _add_up(self, batches: UpdateBatches | SingleBatch, number: int) -> LossStats:
        """The gradients of all batches into `gradients`, in their order: each is computed by itself and then added, so
        that ranks which compute some each get the same sum."""
        of_batches: list[LossStats] = []
        for place, batch in batches:
            into = self._one if of_batches else self.gradients
            stats, found = self._model.loss_and_gradients(
                batch,
                seed=batch_seed(self._config.seed, number, place),
                label_smoothing=self._config.training.label_smoothing,
                threads=self._num_threads,
                into=into,
                tokens=batches.num_tgt_tokens,
            )
            if of_batches:
                self._one = found
                self._add(found)
            else:
                self.gradients = found
            of_batches.append(stats)
        return sum_of(of_batches)

    def _add(self, others: Group) -> None:
        """Add the gradients of a batch to those of the ones before it."""
        if self.gradients is None:
            raise RuntimeError("there is nothing to add to")
        wholes = whole_of(self.gradients), whole_of(others)
        pairs = [wholes] if None not in wholes else [(self.gradients[name], others[name]) for name in others]
        with operation("gradients: adding those of a batch"):
            for total, one in pairs:
                self._model.device.add_scaled(total.reshape(-1), one.reshape(-1), 1.0)


def sum_of(parts: Sequence[LossStats]) -> LossStats:
    """The sums of all batches of an update, added in their order."""
    return LossStats(
        nll=sum(part.nll for part in parts),
        loss=sum(part.loss for part in parts),
        tokens=sum(part.tokens for part in parts),
        correct=sum(part.correct for part in parts),
    )
