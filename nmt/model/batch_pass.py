"""What all parts of a model are told of one pass over a batch."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.model.objective import LIKELIHOOD, Objective
from nmt.rnn.arrays.workspace import Allocate


@dataclass(frozen=True)
class BatchPass:
    """training: with dropout, drawn from `seed`, and with tapes for the way back. allocate: gives memory that lasts as
    long as the pass and its way back. threads: cores to use. objective: of a pass with gradients."""

    training: bool
    seed: int
    allocate: Allocate
    threads: int
    objective: Objective = LIKELIHOOD
