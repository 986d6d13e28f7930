"""The interface of batches, and the settings of one pass over a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nmt.model.objective import LIKELIHOOD, Objective
from nmt.rnn.arrays.flat_arrays import Group
from nmt.rnn.arrays.workspace import Allocate

if TYPE_CHECKING:
    from nmt.rnn.device import Device


class Targets(Protocol):
    """The target side that every batch has."""

    @property
    def tgt_in(self) -> np.ndarray:
        """Return the input tokens of the decoder, int32 [T, B]."""

    @property
    def tgt_out(self) -> np.ndarray:
        """Return the tokens to predict, int32 [T, B]."""

    @property
    def tgt_lengths(self) -> np.ndarray:
        """Return the number of real tokens of each row, [B]."""


def ready_for_nobody(*names: str) -> None:
    """Do nothing: the default of `GradientTarget.ready`."""


@dataclass(frozen=True)
class GradientTarget:
    """A sink for a batch's gradients. `tokens`: the divisor of the loss, the real target tokens of the update that
    the batch belongs to. `ready` is called with names, or prefixes before a dot, of parameters whose gradients are
    final, in the order of the backward pass; parameters that it is not called with are ready at the end.
    """

    arrays: Group
    tokens: int
    ready: Callable[..., None] = ready_for_nobody


@dataclass(frozen=True)
class BatchPass:
    """Settings of a pass over a batch. allocate: allocates memory that is valid until the end of the pass and its
    backward pass. threads: cores to use. target: where gradients go, with dropout drawn from `seed`, label smoothing
    and an objective; None for a pass without gradients. is_transient: whether results are used up before that memory is
    reused."""

    allocate: Allocate
    threads: int
    target: GradientTarget | None = None
    seed: int = 0
    label_smoothing: float = 0.0
    objective: Objective = LIKELIHOOD
    is_transient: bool = False

    @property
    def training(self) -> bool:
        """Return whether to use dropout and to record tapes for the backward pass."""
        return self.target is not None

    def lasting(self, device: Device, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array for a result of the pass: part of its workspace in training or if results are transient,
        otherwise a separate array, which keeps nothing else in memory while it is referenced."""
        is_shared = self.training or self.is_transient
        return self.allocate(shape, dtype) if is_shared else device.xp.empty(shape, dtype)


def real_positions(batch: Targets) -> np.ndarray:
    """Return the sorted positions of real tokens in arrays [T * B, ...]."""
    real = np.arange(len(batch.tgt_out))[:, None] < batch.tgt_lengths[None, :]
    return np.flatnonzero(real.reshape(-1))
