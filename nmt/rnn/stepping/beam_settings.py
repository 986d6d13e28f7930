"""Settings of a search on the processor."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BeamSettings:
    """Settings of a search on the processor.

    size: maximum number of sentences in progress; beam_size: hypotheses per sentence; n_best: translations wanted.
    eos_id ends a hypothesis; the token `never` and tokens below first_token are not produced. divisors: float64, the
    divisor of a sum over 0, 1, ... tokens; word_reward: added for each token.
    """

    size: int
    beam_size: int
    n_best: int
    eos_id: int
    never: int
    first_token: int
    divisors: np.ndarray
    word_reward: float = 0.0
