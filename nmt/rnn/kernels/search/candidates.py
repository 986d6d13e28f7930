"""The output layer over candidates: each row chooses among its own list of tokens.

The rows share the products, which are computed for the union of all lists. After that only the logits of a row's own
list are read, chunk by chunk in the order of the list. So a row's bits do not depend on the lists of other rows.
"""

from typing import Any

import numpy as np

from nmt.rnn.arrays.device_operations import CandidateLists
from nmt.rnn.kernels.machine_code.jit import inner_kernel, kernel, task
from nmt.rnn.kernels.machine_code.recipes import family
from nmt.rnn.kernels.memory.arrays import array_at, release, scratch
from nmt.rnn.kernels.memory.moves import address
from nmt.rnn.kernels.memory.table_layout import arrays, constants
from nmt.rnn.kernels.search.best_tokens import (
    OUTPUT,
    ROWS,
    OutputTask,
    _columns_in_chunk,
    _insert,
    _logits,
    _norm_of,
    _reduce_row,
    _rounded,
    output_sizes,
    rows_to_multiply,
)
from nmt.rnn.kernels.threads.atomics import barrier_wait
from nmt.rnn.kernels.threads.pool import run_parallel

_ALONE_BELOW = 1 << 21
"""Below this number of multiply-adds a second thread would start too late to help."""


@kernel
def _store_logits(part, parts, y, weights, columns, out):  # type: ignore[no-untyped-def]
    """Compute this part's columns of y @ weights, chunk by chunk."""
    width = _columns_in_chunk(y.itemsize)
    chunks = (columns + width - 1) // width
    block = scratch((min(ROWS, y.shape[0]), width), out.dtype)
    for chunk in range(chunks * part // parts, chunks * (part + 1) // parts):
        low, high = chunk * width, min(columns, (chunk + 1) * width)
        for row0 in range(0, y.shape[0], ROWS):
            rows = min(ROWS, y.shape[0] - row0)
            _logits(y, row0, rows, weights, low, high - low, block)
            for i in range(rows):
                source, target = block[i], out[row0 + i, low:high]
                for j in range(high - low):  # see packing.pack
                    target[j] = source[j]
    release(block)


@inner_kernel
def _reduce_list(logits, r, places, bias, first, count, own, top, total):  # type: ignore[no-untyped-def]
    """Gather row r's logits at places[first : first + count], add the biases, and write them to `own` [chunks, width].
    Write the largest entry and the sum of each chunk into top and total [1, chunks]. Return the log-sum-exp over the
    list."""
    width = _columns_in_chunk(logits.itemsize)
    for chunk in range(top.shape[1]):
        low, high = chunk * width, min(count, (chunk + 1) * width)
        for k in range(low, high):
            own[chunk, k - low] = logits[r, places[first + k]]
        _reduce_row(own, chunk, high - low, bias, first + low, top, total, 0, chunk)
    place = scratch(1, logits.dtype)
    norm = _norm_of(top, total, 0, place)
    release(place)
    return norm


@inner_kernel
def _best(part, parts, logits, bias, ids, places, starts, lists, longest, first, tokens, scores):  # type: ignore[no-untyped-def]
    """Find the best tokens of each list for this part's rows, normalised over the list."""
    width = _columns_in_chunk(logits.itemsize)
    most = (longest + width - 1) // width
    own, tops, totals = scratch((most, width), logits.dtype), scratch(most, bias.dtype), scratch(most, bias.dtype)
    for r in range(lists.shape[0] * part // parts, lists.shape[0] * (part + 1) // parts):
        start, count = starts[lists[r]], starts[lists[r] + 1] - starts[lists[r]]
        chunks = (count + width - 1) // width
        found = np.int64(0)
        if count:
            top = array_at(address(tops, 0), (1, chunks), bias.dtype)
            total = array_at(address(totals, 0), (1, chunks), bias.dtype)
            base = _reduce_list(logits, r, places, bias, start, count, own, top, total)
            for chunk in range(chunks):
                if found < tokens.shape[1] or top[0, chunk] > scores[r, found - 1]:
                    for k in range(chunk * width, min(count, (chunk + 1) * width)):
                        token = np.int64(ids[places[start + k]])
                        if token >= first:
                            found = _insert(own[chunk, k - chunk * width], token, found, tokens[r], scores[r])
            for k in range(found):
                scores[r, k] -= base
        for k in range(found, tokens.shape[1]):
            tokens[r, k] = -1
    release(own)
    release(tops)
    release(totals)


@kernel
def _spread(part, parts, logits, bias, ids, places, starts, lists, longest, out):  # type: ignore[no-untyped-def]
    """Write this part's rows of log-probabilities, -inf for tokens outside the row's list."""
    width = _columns_in_chunk(logits.itemsize)
    most = (longest + width - 1) // width
    own, tops, totals = scratch((most, width), logits.dtype), scratch(most, bias.dtype), scratch(most, bias.dtype)
    for r in range(lists.shape[0] * part // parts, lists.shape[0] * (part + 1) // parts):
        out[r, :] = -np.inf
        start, count = starts[lists[r]], starts[lists[r] + 1] - starts[lists[r]]
        chunks = (count + width - 1) // width
        if count:
            top = array_at(address(tops, 0), (1, chunks), bias.dtype)
            total = array_at(address(totals, 0), (1, chunks), bias.dtype)
            base = _reduce_list(logits, r, places, bias, start, count, own, top, total)
            for k in range(count):
                out[r, ids[places[start + k]]] = own[k // width, k % width] - base
    release(own)
    release(tops)
    release(totals)


def best_candidates(
    y: np.ndarray, weights: np.ndarray, lists: CandidateLists, first: int, places: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the `places` most probable tokens of each row's list and their log-probabilities within the list. y [R,
    H]; weights: the packed [H, U] matrix of the columns `lists.ids`. The results are those of `search.best_tokens`,
    with token ids of the vocabulary."""
    task_of_rows = BestCandidates(*y.shape, places, threads, weights, lists, y.dtype)
    tokens, scores = np.empty((len(y), places), np.int32), np.empty((len(y), places), y.dtype)
    task_of_rows.give(first, y, weights, lists.bias, tokens, scores)
    task_of_rows.run()
    return tokens, scores


_CANDIDATES = OUTPUT.extended(
    "candidates",
    constants("longest"),
    arrays("Y", ("rows", "columns"), "logits"),
    # See `CandidateLists`.
    arrays(np.int32, ("columns",), "ids"),
    arrays(np.int32, (None,), "list_places"),
    arrays(np.int64, (None,), "starts"),
    arrays(np.int64, ("rows",), "row_lists"),
)


class BestCandidates(OutputTask):
    """`best_candidates` as an `OutputTask`; changing `lists.row_lists` changes the lists of its rows."""

    def __init__(
        self, R: int, H: int, places: int, threads: int, weights: np.ndarray, lists: CandidateLists, number: np.dtype
    ) -> None:
        U, packed = len(lists.ids), weights.dtype
        parts = threads if R * H * U >= _ALONE_BELOW else 1
        sizes = output_sizes(R, H, U, places, parts, number, packed) | {"longest": lists.longest}
        super().__init__(_CANDIDATES, _candidates_task(number, packed), sizes, Y=number, W=packed)
        self.table.allocate("rounded", "logits")
        given = {"ids": lists.ids, "list_places": lists.places, "starts": lists.starts, "row_lists": lists.row_lists}
        self.table.update(given)


@family
def _candidates_task(number: np.dtype, packed: np.dtype) -> Any:
    """Return the task of `best_candidates` for y and bias of dtype `number` and weights packed as `packed`."""
    candidates_at, multiplied = _CANDIDATES.reader(Y=number, W=packed), rows_to_multiply(number, packed)

    def best_of_lists(part, parts, table):  # type: ignore[no-untyped-def]
        given = candidates_at(table)
        logits, bias, ids, places, starts = given.logits, given.bias, given.ids, given.list_places, given.starts
        lists, longest, first = given.row_lists, given.longest, given.first_token
        left, goal = multiplied(table, part, parts, given.y, given.weights, given.rounded)
        _store_logits(part, parts, left, given.weights, given.columns, logits)
        barrier_wait(table, part, parts, goal)
        _best(part, parts, logits, bias, ids, places, starts, lists, longest, first, given.tokens, given.scores)

    return task(best_of_lists)


def candidate_log_probs(
    y: np.ndarray, weights: np.ndarray, lists: CandidateLists, vocab_size: int, threads: int
) -> np.ndarray:
    """Return the log-probabilities of all tokens [R, vocab_size], -inf for those outside the row's list; the arguments
    are those of `best_candidates`, and the scores have the same bits."""
    U = len(lists.ids)
    parts = threads if y.size * U >= _ALONE_BELOW else 1
    logits, out = np.empty((len(y), U), y.dtype), np.empty((len(y), vocab_size), y.dtype)
    run_parallel(_store_logits, parts, _rounded(y, weights, parts), weights, U, logits)
    given = lists.bias, lists.ids, lists.places, lists.starts, lists.row_lists, lists.longest
    run_parallel(_spread, min(parts, len(y)), logits, *given, out)
    return out
