"""Training objectives that are added to the likelihood of the target; by default there are none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Alignment:
    """The source positions that the target tokens of a batch translate.

    Entry i says that the token predicted at step `step[i]` of row `row[i]` is aligned to source position `position[i]`
    with `share[i]`; the shares of a token add up to 1. int64 [N] and float64 [N], on the host. A token without entries
    is not constrained.
    """

    step: np.ndarray
    row: np.ndarray
    position: np.ndarray
    share: np.ndarray


@dataclass(frozen=True)
class Objective:
    """Weights of the terms that are added to the loss of a batch; 0 disables a term.

    r_drop: of the divergence between adjacent rows of the batch, which then contains every sentence twice (see
    Device.output_loss). guided_alignment: of the cross entropy between attention and `alignment`
    (see attention_loss.py). widest_source: the number of source positions for
    which attention is recorded; a wider batch compiles again. copied: the source tokens
    [S, B] that a decoder copies, None for those of the batch.
    """

    r_drop: float = 0.0
    guided_alignment: float = 0.0
    alignment: Alignment | None = None
    widest_source: int = 0
    copied: np.ndarray | None = None

    @property
    def reads_attention(self) -> bool:
        """Return whether the loss depends on the attention weights."""
        return self.guided_alignment > 0 and self.alignment is not None


LIKELIHOOD = Objective()
"""The likelihood alone."""
