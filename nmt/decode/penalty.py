"""How the length of a hypothesis counts in its score."""

from typing import Literal

import numpy as np

LengthPenalty = Literal["none", "average"] | float


def length_divisor(penalty: LengthPenalty, length: np.ndarray | int) -> np.ndarray:
    """What a sum of log-probabilities over `length` tokens (EOS counted) is divided by; it grows with the length.

    `none`: 1. `average`: the length. A number alpha: ((5 + length) / 6) ** alpha (Wu et al. 2016, section 7,
    equation 14).
    """
    length = np.asarray(length, np.float64)
    if penalty == "none":
        return np.ones_like(length)
    if penalty == "average":
        return np.maximum(length, 1.0)
    return np.asarray(((5.0 + length) / 6.0) ** float(penalty))
