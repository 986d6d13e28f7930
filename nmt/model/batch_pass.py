"""The interface of batches, and the settings of one pass over a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nmt.model.objective import LIKELIHOOD, Objective
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


@dataclass(frozen=True)
class BatchPass:
    """Settings of a pass over a batch. training: whether to use dropout, drawn from `seed`, and to record tapes for the
    backward pass. allocate: allocates memory that is valid until the end of the pass and its backward pass. threads:
    cores to use. objective: the objective of a pass with gradients. is_transient: whether results are used up before
    that memory is reused."""

    training: bool
    seed: int
    allocate: Allocate
    threads: int
    objective: Objective = LIKELIHOOD
    is_transient: bool = False

    def lasting(self, device: Device, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array for a result of the pass: part of its workspace in training or if results are transient,
        otherwise a separate array, which keeps nothing else in memory while it is referenced."""
        is_shared = self.training or self.is_transient
        return self.allocate(shape, dtype) if is_shared else device.xp.empty(shape, dtype)


def real_positions(batch: Targets) -> np.ndarray:
    """Return the sorted positions of real tokens in arrays [T * B, ...]."""
    real = np.arange(len(batch.tgt_out))[:, None] < batch.tgt_lengths[None, :]
    return np.flatnonzero(real.reshape(-1))
