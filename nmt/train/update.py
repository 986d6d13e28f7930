"""One update of the parameters: loss and gradients of a batch, the norm, the optimizer's step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nmt.train.optimizer import clip_scale, gradient_norm
from nmt.train.state import update_seed

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.model.network import LossStats, Network
    from nmt.rnn.arrays.flat_arrays import Group
    from nmt.train.optimizer import Optimizer


@dataclass(frozen=True)
class Outcome:
    """What an update did: sums of its batch, the gradient's norm before clipping, whether it was applied."""

    stats: LossStats
    norm: float
    is_finite: bool


class Updater:
    """Changes a model batch by batch; the arrays of the gradients are made once.

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

    def update(self, batch: Any, number: int, learning_rate: float) -> Outcome:
        """Do update `number`, counted from 1, unless its loss or gradient is not finite."""
        settings = self._config.training
        stats, self.gradients = self._model.loss_and_gradients(
            batch,
            seed=update_seed(self._config.seed, number),
            label_smoothing=settings.label_smoothing,
            threads=self._num_threads,
            into=self.gradients,
        )
        norm = gradient_norm(self.gradients, self._num_threads, self._model.device)
        is_finite = math.isfinite(stats.loss) and math.isfinite(norm)
        if is_finite:
            scale = clip_scale(norm, settings.clip_grad_norm)
            self._optimizer.step(self._model.params, self.gradients, learning_rate, scale)
            self._model.changed()
        else:
            self._model.carry({})  # states of a loss that is not finite are no better
        return Outcome(stats, norm, is_finite)
