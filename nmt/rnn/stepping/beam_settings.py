"""What a search on the processor is asked for."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BeamSettings:
    """What a search is asked for.

    size: most sentences in work; beam_size: places of each; n_best: translations wanted. eos_id ends a hypothesis;
    `never` and tokens below first_token are never produced. divisors: float64, what a sum over 0, 1, ... tokens is
    divided by; word_reward: added for each token, for no more than are expected of a sentence.
    """

    size: int
    beam_size: int
    n_best: int
    eos_id: int
    never: int
    first_token: int
    divisors: np.ndarray
    word_reward: float = 0.0
