"""What a search on the processor is asked for."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BeamSettings:
    """What a search is asked for.

    size: most sentences in work; beam: places of each; n_best: translations wanted. eos ends a hypothesis; `never` and
    tokens below first_token are never produced. divisors: float64, what a sum over 0, 1, ... tokens is divided by;
    word_reward: added for each token, with `bounded` for no more than are expected.
    """

    size: int
    beam: int
    n_best: int
    eos: int
    never: int
    first_token: int
    divisors: np.ndarray
    word_reward: float = 0.0
    bounded: bool = False
