"""Search by brute force: every sequence of a tiny vocabulary is scored and sorted. The model is a callback,
`log_probs(prefix: tuple[int, ...]) -> vector [V]`: the log probability of each next token after the given words
(without BOS). Tokens in `forbidden` are never produced."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sequence:
    """One output: `ids` without EOS; `log_prob` sums over its tokens, and EOS if finished."""

    ids: tuple[int, ...]
    log_prob: float
    score: float
    finished: bool


def penalised(log_prob, length, length_penalty):
    """The score that ranks: `length` counts every produced token, EOS too. "none": the sum itself; "average": sum /
    length; a number alpha: sum / ((5 + length) / 6) ** alpha (Wu et al., 2016, equation 14)."""
    if length_penalty == "none":
        return log_prob
    if length_penalty == "average":
        return log_prob / length
    return log_prob / ((5.0 + length) / 6.0) ** float(length_penalty)


def all_sequences(log_probs, *, eos, max_length, length_penalty="none", forbidden=()):
    """Every sequence of at most `max_length` tokens (EOS counted), best score first. Those that used all their tokens
    without EOS are in the list too, with finished = False."""
    found = []

    def visit(prefix, log_prob):
        if len(prefix) == max_length:
            score = penalised(log_prob, len(prefix), length_penalty)
            found.append(Sequence(prefix, log_prob, score, finished=False))
            return
        next_log_probs = log_probs(prefix)
        for token in range(len(next_log_probs)):
            if token in forbidden:
                continue
            total = log_prob + float(next_log_probs[token])
            if token == eos:
                score = penalised(total, len(prefix) + 1, length_penalty)
                found.append(Sequence(prefix, total, score, finished=True))
            else:
                visit((*prefix, token), total)

    visit((), 0.0)
    return sorted(found, key=lambda sequence: -sequence.score)


def greedy(log_probs, *, eos, max_length, length_penalty="none", forbidden=()):
    """Take the likeliest token at every step until EOS or until `max_length` tokens are out."""
    ids, log_prob = (), 0.0
    for _ in range(max_length):
        allowed = np.array(log_probs(ids), np.float64)
        allowed[list(forbidden)] = -np.inf
        token = int(np.argmax(allowed))
        log_prob += float(allowed[token])
        if token == eos:
            return Sequence(ids, log_prob, penalised(log_prob, len(ids) + 1, length_penalty), finished=True)
        ids = (*ids, token)
    return Sequence(ids, log_prob, penalised(log_prob, len(ids), length_penalty), finished=False)
