"""Log-probabilities, one token at a time."""

import numpy as np


def log_softmax(logits):
    """Log probabilities of one row of logits [V]."""
    top = np.max(np.real(logits))
    return logits - top - np.log(np.sum(np.exp(logits - top)))
