"""Cross entropy with label smoothing, one token at a time."""

import numpy as np


def log_softmax(logits):
    """Log probabilities of one row of logits [V]."""
    top = np.max(np.real(logits))
    return logits - top - np.log(np.sum(np.exp(logits - top)))


def cross_entropy(logits, targets, label_smoothing=0.0):
    """(nll, loss, correct), sums over the rows of logits [N, V] with targets [N].

    loss = (1 - eps) * nll + eps * the mean over ALL V classes of -log p (Szegedy et al., 2016,
    section 7).
    """
    nll, loss, correct = 0.0, 0.0, 0
    for row, target in zip(logits, targets, strict=True):
        log_probs = log_softmax(row)
        of_row = -log_probs[target]
        nll = nll + of_row
        loss = loss + (1.0 - label_smoothing) * of_row - label_smoothing * np.mean(log_probs)
        correct += int(np.argmax(np.real(row)) == target)
    return nll, loss, correct
