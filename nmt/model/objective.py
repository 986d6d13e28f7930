"""What training adds to the likelihood of the target: nothing, but where the settings ask for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Alignment:
    """Which source positions the target tokens of a batch translate.

    Entry i says that the token predicted at step `step[i]` of row `row[i]` belongs to source position `position[i]`
    with `share[i]`; the shares of a token add up to 1. int64 [N] and float64 [N], of the host. A token without entries
    is free.
    """

    step: np.ndarray
    row: np.ndarray
    position: np.ndarray
    share: np.ndarray


@dataclass(frozen=True)
class Objective:
    """Weights of what is added to the loss of a batch, each 0 for nothing.

    r_drop: of the divergence between neighbouring rows of the batch, which then holds every sentence twice (see
    consistency.py). guided_alignment: of the cross entropy between attention and `alignment`; coverage: of attention
    that comes back to the same place (see attention_loss.py). widest_source: source positions that a batch may have,
    for which attention is read out; a wider one compiles anew.
    """

    r_drop: float = 0.0
    guided_alignment: float = 0.0
    coverage: float = 0.0
    alignment: Alignment | None = None
    widest_source: int = 0

    @property
    def reads_attention(self) -> bool:
        """Whether the loss is of the attention, too."""
        return self.coverage > 0 or (self.guided_alignment > 0 and self.alignment is not None)


LIKELIHOOD = Objective()
"""The likelihood alone."""
