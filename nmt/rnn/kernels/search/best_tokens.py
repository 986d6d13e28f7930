"""Reduce the decoder's outputs for beam search: find the best tokens of each row, and the best continuations of each
sentence."""

from threading import local
from typing import Any

import numpy as np

from nmt.rnn.kernels.loops.activation_code import exp, log
from nmt.rnn.kernels.machine_code.jit import external, external_by_elements, inlined, inner_kernel, kernel, task
from nmt.rnn.kernels.machine_code.recipes import family
from nmt.rnn.kernels.memory.arrays import array_at, release, scratch
from nmt.rnn.kernels.memory.moves import address
from nmt.rnn.kernels.memory.table_layout import NamedTable, TableLayout, arrays, constants
from nmt.rnn.kernels.model.output import row_max
from nmt.rnn.kernels.products.packing import PANEL_BYTES, words_of
from nmt.rnn.kernels.products.product import round_rows, rows_product
from nmt.rnn.kernels.search import search_rules
from nmt.rnn.kernels.threads.atomics import barrier_wait
from nmt.rnn.kernels.threads.pool import run_parallel, run_team

OUTPUT = TableLayout(
    "output",
    constants("rows", "inputs", "columns", "places", "first_token", "parts"),
    arrays("Y", ("rows", "inputs"), "y"),
    arrays("W", (None,), "weights"),
    arrays("Y", ("columns",), "bias"),
    arrays(np.int32, ("rows", "places"), "tokens"),
    arrays("Y", ("rows", "places"), "scores"),
    constants("words"),
    arrays("W", ("rows", "words"), "rounded"),
)
"""The common fields of the tables of output layer tasks: sizes; the arguments of `best_tokens`, with elements W of the
packed weights and Y of all other arrays; and memory for rounded rows of y, of `words` elements each."""


class OutputTask:
    """The output layer for up to `rows` rows, as a task with its own memory. From call to call only the numbers of rows
    and of places, the first token and the addresses of some arrays change."""

    def __init__(self, layout: TableLayout, task_of_rows: Any, sizes: dict[str, int], **elements: Any) -> None:
        self.parts = sizes["parts"]
        self.table, self.code = NamedTable(layout, sizes, **elements), task_of_rows.address

    def give(self, first_token: int, *arrays: np.ndarray) -> None:
        """Set the first token, y, weights, bias, and the arrays for the resulting tokens and log-probabilities."""
        names = "first_token", "y", "weights", "bias", "tokens", "scores"
        self.table.update(dict(zip(names, (first_token, *arrays), strict=True)))

    def run(self) -> None:
        """Fill the arrays of tokens and log-probabilities."""
        run_team(self.code, self.parts, self.table.address, self.table)


def output_sizes(
    R: int, H: int, columns: int, places: int, parts: int, number: np.dtype, packed: np.dtype
) -> dict[str, int]:
    """Return the sizes in an OUTPUT table, by name."""
    words = words_of(H, packed) if packed != number else 0
    return {"rows": R, "inputs": H, "columns": columns, "places": places, "parts": parts, "words": words}


# Rows and approximate columns of the block of logits that a thread computes at a time; it stays in the L2 cache.
ROWS = 240
_COLUMNS = 128


def chunk_columns(itemsize):  # type: ignore[no-untyped-def]
    """Return the number of columns in a chunk: whole panels of the packed weights, about _COLUMNS wide."""
    width = PANEL_BYTES // itemsize
    return max(1, _COLUMNS // width) * width


_columns_in_chunk = inner_kernel(chunk_columns)


@inner_kernel
def _insert(x, v, count, tokens, scores):  # type: ignore[no-untyped-def]
    """Insert token v with score x into the best so far, behind equal scores; return their number."""
    room = tokens.shape[0]
    if count == room and not x > scores[room - 1]:
        return count
    place = min(count, room - 1)
    while place > 0 and x > scores[place - 1]:
        scores[place], tokens[place] = scores[place - 1], tokens[place - 1]
        place -= 1
    scores[place], tokens[place] = x, v
    return min(count + 1, room)


@kernel
def round_share(part, parts, y, weights, out):  # type: ignore[no-untyped-def]
    """Round this part's rows of y to the elements of `weights`."""
    low, high = y.shape[0] * part // parts, y.shape[0] * (part + 1) // parts
    if high > low:
        source, target = address(y, low * y.shape[1]), address(out, low * out.shape[1])
        round_rows(weights, source, y.shape[1], high - low, y.shape[1], target)


@inner_kernel
def _round_all(table, part, parts, y, weights, rounded):  # type: ignore[no-untyped-def]
    round_share(part, parts, y, weights, rounded)
    barrier_wait(table, part, parts, parts)
    return rounded, 2 * parts


@inner_kernel
def _keep_all(table, part, parts, y, weights, rounded):  # type: ignore[no-untyped-def]
    return y, parts


def rows_to_multiply(number: np.dtype, packed: np.dtype) -> Any:
    """Return the function that a task calls first, with its table, its parts, y, weights of these elements and memory
    for rounded rows. It returns the rows to multiply with the weights, which are y itself or the memory filled by all
    threads, and the goal of the next barrier."""
    return _keep_all if number == packed else _round_all


def _rounded(y: np.ndarray, weights: np.ndarray, parts: int) -> np.ndarray:
    """Return y in the form that is multiplied with `weights`: y itself, or rows of pairs or quads."""
    if weights.dtype == y.dtype:
        return y
    out = np.empty((len(y), words_of(y.shape[1], weights.dtype)), weights.dtype)
    run_parallel(round_share, parts, y, weights, out)
    return out


@inner_kernel
def _logits(y, first, rows, weights, column, columns, out):  # type: ignore[no-untyped-def]
    """Compute out[:rows, :columns] = y[first : first + rows] @ weights[:, column : column + columns]; y has the
    elements of the weights."""
    K, source, target = y.shape[1], address(y, first * y.shape[1]), address(out, 0)
    rows_product(weights, source, K, address(weights, column * K), target, out.shape[1], rows, columns, K, 0)


_POINTER, _SIZE = "voidptr", "int64"


def _reduce_of(number: type) -> Any:
    """Return the function that adds the bias to a row, and writes the row's largest entry to `top` and the sum of
    exp(row - largest) to `total`; all are addresses of numbers of a dtype."""

    def reduce(row, bias, count, top, total):  # type: ignore[no-untyped-def]
        given, added = array_at(row, count, number), array_at(bias, count, number)
        largest, whole = array_at(top, 1, number), array_at(total, 1, number)
        for j in range(given.shape[0]):
            given[j] += added[j]
        largest[0] = row_max(given)
        sum_of_powers = number(0)
        for j in range(given.shape[0]):
            sum_of_powers += exp(given[j] - largest[0])
        whole[0] = sum_of_powers

    types = _POINTER, _POINTER, _SIZE, _POINTER, _POINTER
    return external(reduce, types, fast=True, name=f"reduce_{number.__name__}")


def _join_of(number: type) -> Any:
    """Return the function that writes the log-sum-exp of a row to `norm`, from what `reduce` has written for its
    chunks, in their order; all are addresses of numbers of a dtype."""

    def join(tops, totals, count, norm):  # type: ignore[no-untyped-def]
        largest, sums = array_at(tops, count, number), array_at(totals, count, number)
        top, total, result = largest[0], number(0), array_at(norm, 1, number)
        for chunk in range(largest.shape[0]):
            top = max(top, largest[chunk])
        for chunk in range(largest.shape[0]):
            total += sums[chunk] * exp(largest[chunk] - top)
        result[0] = top + log(total)

    return external(join, (_POINTER, _POINTER, _SIZE, _POINTER), fast=True, name=f"join_{number.__name__}")


# `best_tokens` and `log_probs` share this machine code, so that their bits are the same. Each function has a name here,
# so that wheels can hold it (see `recipe_of`).
_reduce_f4, _reduce_f8 = _reduce_of(np.float32), _reduce_of(np.float64)
_join_f4, _join_f8 = _join_of(np.float32), _join_of(np.float64)
_reduce_in = external_by_elements("reduce_in", {"float32": _reduce_f4, "float64": _reduce_f8})
_join_in = external_by_elements("join_in", {"float32": _join_f4, "float64": _join_f8})


@inner_kernel
def _reduce_row(block, i, count, bias, low, tops, totals, r, chunk):  # type: ignore[no-untyped-def]
    """Call `reduce` for row i of a block of logits [rows, columns]; write the results to [r, chunk]."""
    row, share = address(block, i * block.shape[1]), address(bias, low)
    top, total = address(tops, r * tops.shape[1] + chunk), address(totals, r * tops.shape[1] + chunk)
    _reduce_in(block, row, share, count, top, total)


@inner_kernel
def _norm_of(tops, totals, r, norm):  # type: ignore[no-untyped-def]
    """Return the result of `join` for row r; `norm` is memory for one number."""
    count = tops.shape[1]
    _join_in(tops, address(tops, r * count), address(totals, r * count), count, address(norm, 0))
    return norm[0]


@inner_kernel
def _chunks(part, parts, y, weights, bias, first, tokens, logits, counts, tops, totals):  # type: ignore[no-untyped-def]
    """Process this part's chunks of columns: update the best tokens; store the largest entry and sum of each."""
    columns = _columns_in_chunk(y.itemsize)
    block = scratch((min(ROWS, y.shape[0]), columns), bias.dtype)
    counts[part, :] = 0
    for chunk in range(tops.shape[1] * part // parts, tops.shape[1] * (part + 1) // parts):
        low, high = chunk * columns, min(bias.shape[0], (chunk + 1) * columns)
        for row0 in range(0, y.shape[0], ROWS):
            rows = min(ROWS, y.shape[0] - row0)
            _logits(y, row0, rows, weights, low, high - low, block)
            for i in range(rows):
                r, row = row0 + i, block[i, : high - low]
                _reduce_row(block, i, high - low, bias, low, tops, totals, r, chunk)
                count, best, scores = counts[part, r], tokens[part, r], logits[part, r]
                if count < best.shape[0] or tops[r, chunk] > scores[count - 1]:
                    for v in range(max(first, low), high):
                        count = _insert(row[v - low], v, count, best, scores)
                    counts[part, r] = count
    release(block)


@inner_kernel
def _merge(tokens, logits, counts, tops, totals, best, scores):  # type: ignore[no-untyped-def]
    """Merge the best tokens of all parts, and normalise them by the sum over all chunks in their order."""
    place = scratch(1, tops.dtype)
    for r in range(best.shape[0]):
        norm, count = _norm_of(tops, totals, r, place), np.int64(0)
        for part in range(counts.shape[0]):
            for k in range(counts[part, r]):
                count = _insert(logits[part, r, k], np.int64(tokens[part, r, k]), count, best[r], scores[r])
        for k in range(count):
            scores[r, k] -= norm
        for k in range(count, best.shape[1]):
            best[r, k] = -1
    release(place)


def best_tokens(
    y: np.ndarray, weights: np.ndarray, bias: np.ndarray, first: int, places: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the K = `places` most probable tokens of each row and their log-probabilities, without storing all logits.

    y [R, H]: outputs of the decoder; weights: the packed [H, V] matrix of the output layer (if it is packed in pairs of
    bfloat16 or quads of int8, y is rounded as well); bias [V]. Return tokens [R, K] int32 and log-probabilities [R, K],
    best first; among equal ones the lower token comes first. Tokens below `first` (such as padding) are part of the
    normalisation but are never chosen; unused places have token -1. Each chunk of columns has its own sum, so the bits
    are the same for any number of threads.
    """
    (R, H), V = y.shape, len(bias)
    best, scores = np.empty((R, places), np.int32), np.empty((R, places), y.dtype)
    task_of_rows = _cached_task(R, H, V, places, threads, y.dtype, weights.dtype)
    task_of_rows.give(first, y, weights, bias, best, scores)
    task_of_rows.run()
    return best, scores


BEST = OUTPUT.extended(
    "best_tokens",
    constants("chunks"),
    # By part: its best tokens so far, and their number.
    arrays(np.int32, ("parts", "rows", "places"), "part_tokens"),
    arrays("Y", ("parts", "rows", "places"), "part_logits"),
    arrays(np.int64, ("parts", "rows"), "counts"),
    # The largest entry and the sum of every chunk. Those of a row are adjacent: the order in which they are added must
    # not depend on the number of rows.
    arrays("Y", ("rows", "chunks"), "tops", "totals"),
)
OWN = ("rounded", "part_tokens", "part_logits", "counts", "tops", "totals")
"""Arrays that belong to a task."""


class BestTokens(OutputTask):
    """`best_tokens` as an `OutputTask` of V columns."""

    def __init__(self, R: int, H: int, V: int, places: int, threads: int, number: np.dtype, packed: np.dtype) -> None:
        chunks = -(-V // chunk_columns(number.itemsize))
        sizes = output_sizes(R, H, V, places, min(threads, chunks), number, packed) | {"chunks": chunks}
        super().__init__(BEST, best_task(number, packed), sizes, Y=number, W=packed)
        self.table.allocate(*OWN)


_FEW, _MOST_KEPT = 16, 64
_here = local()


def _cached_task(rows: int, *sizes: Any) -> BestTokens:
    """Return a task of these sizes, for few rows one that this thread has used before: allocating its memory would take
    as long as the work itself."""
    if rows > _FEW:
        return BestTokens(rows, *sizes)
    kept: dict[Any, BestTokens] = _here.__dict__.setdefault("kept", {})
    found = kept.get((rows, *sizes))
    if found is None:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        found = kept[(rows, *sizes)] = BestTokens(rows, *sizes)
    return found


@family
def best_task(number: np.dtype, packed: np.dtype) -> Any:
    """Return the task of `best_tokens` for y and bias of dtype `number` and weights packed as `packed`."""
    best_at, multiplied = BEST.reader(Y=number, W=packed), rows_to_multiply(number, packed)

    def best_of_columns(part, parts, table):  # type: ignore[no-untyped-def]
        given = best_at(table)
        tokens, logits, counts = given.part_tokens, given.part_logits, given.counts
        weights, bias, first, tops, totals = given.weights, given.bias, given.first_token, given.tops, given.totals
        left, goal = multiplied(table, part, parts, given.y, weights, given.rounded)
        _chunks(part, parts, left, weights, bias, first, tokens, logits, counts, tops, totals)
        barrier_wait(table, part, parts, goal)
        if part == parts - 1:
            _merge(tokens, logits, counts, tops, totals, given.tokens, given.scores)

    return task(best_of_columns)


_may_come = inlined(search_rules.may_come)
_wins = inlined(search_rules.wins)


@kernel
def best_continuations(tokens, scores, places, sums, bounds, count, room, never, parents, chosen, totals, width):  # type: ignore[no-untyped-def]
    """Find the best continuations of each of `count` sentences among all its rows.

    tokens, scores [R * places]: from `best_tokens`; sums [R]: the log-probabilities so far, float64; bounds [count +
    1]: rows [bounds[n], bounds[n + 1]) belong to sentence n, which gets at most room[n] continuations, and at most
    `width`; `never`: a token that is not chosen. Writes parents, chosen and totals [count * width], best first; unused
    places have parent -1. search_rules.py says which of two continuations is better.
    """
    for n in range(count):
        start, found = n * width, 0
        for r in range(bounds[n], bounds[n + 1]):
            for k in range(places):
                token = tokens[r * places + k]
                if not _may_come(token, 0, never):
                    continue
                total = sums[r] + scores[r * places + k]
                if found < room[n]:
                    at = start + found
                    found += 1
                elif _wins(total, totals[start + room[n] - 1]):
                    at = start + room[n] - 1
                else:
                    break  # the rest of this row is no better
                while at > start and _wins(total, totals[at - 1]):
                    totals[at], parents[at], chosen[at] = totals[at - 1], parents[at - 1], chosen[at - 1]
                    at -= 1
                totals[at], parents[at], chosen[at] = total, r, token
        for k in range(found, width):
            parents[start + k] = -1


@kernel
def store_chunks(part, parts, y, weights, bias, out, tops, totals):  # type: ignore[no-untyped-def]
    """Store this part's columns of the logits, and for every chunk the largest entry and the sum, as `_chunks` does."""
    columns = _columns_in_chunk(y.itemsize)
    block = scratch((min(ROWS, y.shape[0]), columns), bias.dtype)
    for chunk in range(tops.shape[1] * part // parts, tops.shape[1] * (part + 1) // parts):
        low, high = chunk * columns, min(bias.shape[0], (chunk + 1) * columns)
        for row0 in range(0, y.shape[0], ROWS):
            rows = min(ROWS, y.shape[0] - row0)
            _logits(y, row0, rows, weights, low, high - low, block)
            for i in range(rows):
                _reduce_row(block, i, high - low, bias, low, tops, totals, row0 + i, chunk)
                source, target = block[i], out[row0 + i, low:high]
                for j in range(high - low):  # see packing.pack
                    target[j] = source[j]
    release(block)


@kernel
def normalise(part, parts, out, tops, totals):  # type: ignore[no-untyped-def]
    """Turn this part's rows of logits into log-probabilities, summed as in `_merge`."""
    place = scratch(1, tops.dtype)
    for r in range(out.shape[0] * part // parts, out.shape[0] * (part + 1) // parts):
        norm = _norm_of(tops, totals, r, place)
        for v in range(out.shape[1]):
            out[r, v] -= norm
    release(place)


def log_probs(y: np.ndarray, weights: np.ndarray, bias: np.ndarray, threads: int) -> np.ndarray:
    """Return the log-probabilities of all tokens [R, V], with the arguments and the bits of `best_tokens`."""
    chunks = -(-len(bias) // chunk_columns(y.itemsize))
    parts = min(threads, chunks)
    tops, totals = np.empty((len(y), chunks), y.dtype), np.empty((len(y), chunks), y.dtype)
    out = np.empty((len(y), len(bias)), y.dtype)
    run_parallel(store_chunks, parts, _rounded(y, weights, parts), weights, bias, out, tops, totals)
    run_parallel(normalise, parts, out, tops, totals)
    return out
