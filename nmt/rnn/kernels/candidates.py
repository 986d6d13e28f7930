"""The output layer over candidates: each row has a list of its own of the tokens it may choose among.

The products are those of all lists together, which rows share; what follows reads of a row's logits its own alone, in
the order of its list. So a row's bits do not depend on the lists of other rows.
"""

import numpy as np

from nmt.rnn.device import CandidateLists
from nmt.rnn.kernels.jit import kernel
from nmt.rnn.kernels.search import _chunk_columns, _insert, _logits, _norm_of, _reduce_row, _rounded
from nmt.rnn.kernels.threads import run_parallel

_ROWS = 240


@kernel
def _store_logits(part, parts, y, weights, columns, out):  # type: ignore[no-untyped-def]
    """This part's columns of y @ weights, a chunk after another."""
    width = _chunk_columns(y.itemsize)
    chunks = (columns + width - 1) // width
    block = np.empty((min(_ROWS, y.shape[0]), width), out.dtype)
    for chunk in range(chunks * part // parts, chunks * (part + 1) // parts):
        low, high = chunk * width, min(columns, (chunk + 1) * width)
        for row0 in range(0, y.shape[0], _ROWS):
            rows = min(_ROWS, y.shape[0] - row0)
            _logits(y, row0, rows, weights, low, high - low, block)
            for i in range(rows):
                out[row0 + i, low:high] = block[i, : high - low]


@kernel
def _own(logits, bias, ids, places, starts, n, r, own, own_bias):  # type: ignore[no-untyped-def]
    """The logits of row r for list n, bias not yet added, and the bias of each; returns how many there are."""
    first, count = starts[n], starts[n + 1] - starts[n]
    for k in range(count):
        place = places[first + k]
        own[0, k], own_bias[k] = logits[r, place], bias[place]
    return count


@kernel
def _best(part, parts, logits, bias, ids, places, starts, lists, longest, first, tokens, scores):  # type: ignore[no-untyped-def]
    """This part's rows: the best tokens of each row's list, normalised over the list."""
    own, own_bias = np.empty((1, longest), logits.dtype), np.empty(longest, logits.dtype)
    top, total, norm = np.empty((1, 1), logits.dtype), np.empty((1, 1), logits.dtype), np.empty(1, logits.dtype)
    for r in range(lists.shape[0] * part // parts, lists.shape[0] * (part + 1) // parts):
        count = _own(logits, bias, ids, places, starts, lists[r], r, own, own_bias)
        found = 0
        if count:
            _reduce_row(own, 0, count, own_bias, 0, top, total, 0, 0)
            base = _norm_of(top, total, 0, norm)
            for k in range(count):
                token = ids[places[starts[lists[r]] + k]]
                if token >= first:
                    found = _insert(own[0, k], token, found, tokens[r], scores[r])
            for k in range(found):
                scores[r, k] -= base
        for k in range(found, tokens.shape[1]):
            tokens[r, k] = -1


@kernel
def _spread(part, parts, logits, bias, ids, places, starts, lists, longest, out):  # type: ignore[no-untyped-def]
    """This part's rows of log-probabilities, -inf but for the row's list."""
    own, own_bias = np.empty((1, longest), logits.dtype), np.empty(longest, logits.dtype)
    top, total, norm = np.empty((1, 1), logits.dtype), np.empty((1, 1), logits.dtype), np.empty(1, logits.dtype)
    for r in range(lists.shape[0] * part // parts, lists.shape[0] * (part + 1) // parts):
        out[r, :] = -np.inf
        count = _own(logits, bias, ids, places, starts, lists[r], r, own, own_bias)
        if count:
            _reduce_row(own, 0, count, own_bias, 0, top, total, 0, 0)
            base = _norm_of(top, total, 0, norm)
            for k in range(count):
                out[r, ids[places[starts[lists[r]] + k]]] = own[0, k] - base


def best_candidates(
    y: np.ndarray, weights: np.ndarray, bias: np.ndarray, lists: CandidateLists, first: int, places: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """The `places` most probable tokens of each row's list and their log-probabilities among the list.

    y [R, H]; weights: the packed [H, U] matrix of the columns `lists.ids`; bias [U]. Returns what `search.best_tokens`
    does, tokens by their number in the vocabulary.
    """
    logits = _all_logits(y, weights, bias, threads)
    tokens, scores = np.empty((len(y), places), np.int32), np.empty((len(y), places), y.dtype)
    arrays = lists.ids, lists.places, lists.starts, lists.row_lists, lists.longest
    run_parallel(_best, min(threads, len(y)), logits, bias, *arrays, first, tokens, scores)
    return tokens, scores


def candidate_log_probs(
    y: np.ndarray, weights: np.ndarray, bias: np.ndarray, lists: CandidateLists, vocab_size: int, threads: int
) -> np.ndarray:
    """The log-probabilities of all tokens [R, vocab_size], -inf for those not in the row's list; arguments as in
    `best_candidates`, whose scores are the same bits."""
    logits = _all_logits(y, weights, bias, threads)
    out = np.empty((len(y), vocab_size), y.dtype)
    arrays = lists.ids, lists.places, lists.starts, lists.row_lists, lists.longest
    run_parallel(_spread, min(threads, len(y)), logits, bias, *arrays, out)
    return out


def _all_logits(y: np.ndarray, weights: np.ndarray, bias: np.ndarray, threads: int) -> np.ndarray:
    """The products [R, U], bias not added."""
    logits = np.empty((len(y), len(bias)), y.dtype)
    run_parallel(_store_logits, threads, _rounded(y, weights, threads), weights, len(bias), logits)
    return logits
