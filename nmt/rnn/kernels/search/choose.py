"""Choose tokens from rows of scores: the best ones, or one at random."""

import math

import numpy as np

from nmt.rnn.kernels.machine_code.jit import inner_kernel, kernel
from nmt.rnn.kernels.memory.arrays import release, scratch
from nmt.rnn.kernels.model.output import row_max
from nmt.rnn.kernels.search.best_tokens import _insert

BUCKETS, _A_NAT = 2048, 64
"""Scores are sorted by their distance from the best one: so many buckets, so many of them a nat; the last one has all
others."""
_FEW = 128
"""The most tokens that are found by inserting each into the best so far."""


@inner_kernel
def best_of_row(row, tokens, scores):  # type: ignore[no-untyped-def]
    """Fill `tokens` and `scores` with the best entries above -inf; return their number."""
    count = np.int64(0)
    for v in range(row.shape[0]):
        if row[v] > -math.inf:
            count = _insert(row[v], v, count, tokens, scores)
    return count


@kernel
def _best_of_rows(rows, tokens, scores):  # type: ignore[no-untyped-def]
    for r in range(rows.shape[0]):
        for k in range(best_of_row(rows[r], tokens[r], scores[r]), tokens.shape[1]):
            tokens[r, k] = -1


def top_tokens(rows: np.ndarray, places: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the best tokens of each row of scores [R, V] and their scores, both [R, places], best first; among equal
    scores the lower token comes first. Scores of -inf are never chosen; unused places have token -1."""
    places, rows = min(places, rows.shape[1]), np.ascontiguousarray(rows)
    tokens, scores = np.empty((len(rows), places), np.int32), np.empty((len(rows), places), rows.dtype)
    _best_of_rows(rows, tokens, scores)
    return tokens, scores


@inner_kernel
def _draw_from(tokens, scores, count, top, temperature, total, uniform):  # type: ignore[no-untyped-def]
    """Return the token at which the sum of exp((score - top) / temperature) exceeds uniform * total; -1: none."""
    running, chosen = 0.0, -1
    for k in range(count):
        if scores[k] > -math.inf:
            chosen = tokens[k]
            running += math.exp((scores[k] - top) / temperature)
            if running > uniform * total:
                break
    return chosen


@inner_kernel
def _sum(scores, top, temperature):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(scores.shape[0]):
        total += math.exp((scores[k] - top) / temperature)
    return total


@inner_kernel
def _bucket(score, top):  # type: ignore[no-untyped-def]
    distance = (top - score) * _A_NAT
    return np.int64(distance) if distance < BUCKETS - 1 else np.int64(BUCKETS - 1)  # also what is no number


@inner_kernel
def _sorted_tokens(row, top, temperature, least, spare, ends, tokens, scores):  # type: ignore[no-untyped-def]
    """Fill `tokens` and `scores` with the best entries above -inf, best first, equal ones by token; return their
    number. They are at least `least`, and the sum of exp((score - top) / temperature) over the others is at most
    `spare`. `ends` is memory for BUCKETS numbers."""
    ends[:] = 0
    for v in range(row.shape[0]):
        if row[v] > -math.inf:
            ends[_bucket(row[v], top)] += 1
    last, rest = np.int64(BUCKETS - 1), 0.0
    while last > 0:
        if ends[last] > 0:
            rest += ends[last] * math.exp(-last / _A_NAT / temperature)  # at most
            if rest > spare:
                break
        last -= 1
    count = np.int64(0)
    for b in range(BUCKETS):
        if b <= last or count < least:
            ends[b], count, last = count, count + ends[b], max(np.int64(b), last)
    for v in range(row.shape[0]):
        if row[v] > -math.inf and _bucket(row[v], top) <= last:
            place = ends[_bucket(row[v], top)]
            ends[_bucket(row[v], top)] = place + 1
            scores[place], tokens[place] = row[v], v
    for k in range(1, count):  # which moves it within its bucket
        _insert(scores[k], np.int64(tokens[k]), k, tokens, scores)
    return count


@inner_kernel
def draw_token(row, temperature, top_k, top_p, uniform, ends, tokens, scores):  # type: ignore[no-untyped-def]
    """Draw a token of a row; `ends` is memory for BUCKETS numbers, `tokens` and `scores` for a row."""
    top = float(row_max(row))
    if top == -math.inf:
        return np.int64(-1)
    if top_k == 0 and top_p >= 1.0:
        for v in range(row.shape[0]):
            tokens[v] = v
        return np.int64(_draw_from(tokens, row, row.shape[0], top, temperature, _sum(row, top, temperature), uniform))
    if top_k:
        if top_k <= _FEW:
            count = best_of_row(row, tokens[:top_k], scores[:top_k])
        else:
            count = _sorted_tokens(row, top, temperature, top_k, math.inf, ends, tokens, scores)
            count = min(count, np.int64(top_k))
        enough = top_p * _sum(scores[:count], top, temperature)
    else:
        whole = _sum(row, top, temperature)
        enough = top_p * whole
        count = _sorted_tokens(row, top, temperature, 1, whole - enough, ends, tokens, scores)
    kept, nucleus = 0, 0.0
    while kept < count and (kept == 0 or nucleus < enough):
        nucleus += math.exp((scores[kept] - top) / temperature)
        kept += 1
    return np.int64(_draw_from(tokens, scores, kept, top, temperature, nucleus, uniform))


@kernel
def _draw_rows(rows, temperature, top_k, top_p, uniforms, chosen):  # type: ignore[no-untyped-def]
    ends = scratch(BUCKETS, np.int64)
    tokens, scores = scratch(rows.shape[1], np.int32), scratch(rows.shape[1], rows.dtype)
    for r in range(rows.shape[0]):
        chosen[r] = draw_token(rows[r], temperature, top_k, top_p, uniforms[r], ends, tokens, scores)
    release(ends)
    release(tokens)
    release(scores)


def draw_tokens(rows: np.ndarray, uniforms: np.ndarray, *, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """Draw one token for each row of log-probabilities [R, V] with the random numbers `uniforms` [R] in [0, 1); return
    int32 [R]. A token of -inf is never drawn; a row without tokens gives -1.

    Probabilities are raised to the power 1 / temperature. Of these the top_k largest are kept (0: all; Fan et al. 2018,
    section 5.1), and of those the fewest whose sum reaches top_p (Holtzman et al. 2020, section 3.1).
    """
    rows, uniforms, chosen = np.ascontiguousarray(rows), np.ascontiguousarray(uniforms), np.empty(len(rows), np.int32)
    _draw_rows(rows, float(temperature), int(top_k), float(top_p), uniforms, chosen)
    return chosen
