"""What all parts of a model are told of a batch, and of one pass over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nmt.model.objective import LIKELIHOOD, Objective
from nmt.rnn.arrays.workspace import Allocate

if TYPE_CHECKING:
    from nmt.rnn.device import Device


class Targets(Protocol):
    """What every batch has."""

    @property
    def tgt_in(self) -> np.ndarray:
        """Return the tokens to read, int32 [T, B]."""

    @property
    def tgt_out(self) -> np.ndarray:
        """Return the tokens to say, int32 [T, B]."""

    @property
    def tgt_lengths(self) -> np.ndarray:
        """Return how many of each row's are real, [B]."""


@dataclass(frozen=True)
class BatchPass:
    """training: with dropout, drawn from `seed`, and with tapes for the way back. allocate: gives memory that lasts as
    long as the pass and its way back. threads: cores to use. objective: of a pass with gradients."""

    training: bool
    seed: int
    allocate: Allocate
    threads: int
    objective: Objective = LIKELIHOOD

    def lasting(self, device: Device, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array for what the pass gives back: a piece of its memory in training, else one of its own, which
        holds nothing but itself for as long as somebody reads it."""
        return self.allocate(shape, dtype) if self.training else device.xp.empty(shape, dtype)
