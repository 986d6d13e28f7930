"""Beam search on a card: the best tokens of each row, and one step of all sentences' beams.

N sentences of K rows each. Rows of a sentence that have no hypothesis are computed along; nobody reads them.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda, float32, float64, int32, int64

from nmt.rnn.beam_state import BeamState
from nmt.rnn.kernels.cuda.blocks import THREADS, WARPS, block_first_max, registers_for, row_threads
from nmt.rnn.kernels.cuda.kernel import Kernel, Runtime
from nmt.rnn.kernels.cuda.rows import NUMBERS

_ALL_LANES = 0xFFFFFFFF
_LOWEST = float32(-3.0e38)  # a number, so that the exponential of a difference of two is one
_NOBODY = int64(1 << 62)  # behind every token
_NEVER = float64(-math.inf)


@lru_cache
def best_tokens_kernel(dtype: np.dtype, places: int, threads: int = THREADS) -> Kernel:
    """A block a row, one pass over its logits [V]: the `places` best tokens from `first` on and their
    log-probabilities.

    Every thread keeps the sum of exponentials relative to its largest logit, and the best of its own in registers;
    then the block takes the best of all, a place at a time.
    """
    number = NUMBERS[dtype]

    def best_tokens(logits, bias, V, first, tokens, scores):  # type: ignore[no-untyped-def]
        shared = cuda.shared.array(WARPS, number)
        sums = cuda.shared.array(WARPS, number)
        at = cuda.shared.array(WARPS, int64)
        best = cuda.local.array(places, number)
        ids = cuda.local.array(places, int64)
        row = int64(cuda.blockIdx.x)
        for k in range(places):
            best[k], ids[k] = number(_LOWEST), _NOBODY
        top, total = number(_LOWEST), number(0)
        for j in range(int64(cuda.threadIdx.x), V, cuda.blockDim.x):
            x = logits[row * V + j] + bias[j]
            if x > top:
                total = total * math.exp(top - x) + number(1)
                top = x
            else:
                total += math.exp(x - top)
            if j >= first:
                token = j
                for k in range(places):  # without branches: values move between registers
                    larger = x > best[k]
                    value, index = best[k], ids[k]
                    best[k], ids[k] = (x, token) if larger else (value, index)
                    x, token = (value, index) if larger else (x, token)
        for offset in (16, 8, 4, 2, 1):
            other = cuda.shfl_xor_sync(_ALL_LANES, top, offset)
            its = cuda.shfl_xor_sync(_ALL_LANES, total, offset)
            larger_top = max(top, other)
            # The same operands in the same order in both lanes of a pair, so that all lanes hold the same bits.
            one, two = total * math.exp(top - larger_top), its * math.exp(other - larger_top)
            total, top = one + two, larger_top
        if cuda.threadIdx.x & 31 == 0:
            shared[cuda.threadIdx.x >> 5] = top
            sums[cuda.threadIdx.x >> 5] = total
        cuda.syncthreads()
        top = shared[0]
        for warp in range(1, cuda.blockDim.x >> 5):
            top = max(top, shared[warp])
        total = number(0)
        for warp in range(cuda.blockDim.x >> 5):
            total += sums[warp] * math.exp(shared[warp] - top)
        norm = top + math.log(total)
        cuda.syncthreads()
        for place in range(places):
            value, token = block_first_max(best[0], ids[0], shared, at)
            if cuda.threadIdx.x == 0:
                there = token != _NOBODY
                tokens[row * places + place] = int32(token) if there else int32(-1)
                scores[row * places + place] = value - norm
            if ids[0] == token:
                for k in range(places - 1):
                    best[k], ids[k] = best[k + 1], ids[k + 1]
                best[places - 1], ids[places - 1] = number(_LOWEST), _NOBODY

    signature = (number[::1], number[::1], int64, int64, int32[::1], number[::1])
    return Kernel(best_tokens, signature, threads, registers=registers_for(2))


@lru_cache
def beam_step_kernel(dtype: np.dtype, K: int, places: int) -> Kernel:
    """A warp a sentence: the best continuations of its rows together, and what `decode.beam.BeamCell` does with them:
    those that ended leave, a sentence that cannot improve any more leaves altogether."""
    number = NUMBERS[dtype]
    candidates = K * places

    def beam_step(  # type: ignore[no-untyped-def]
        found,
        scores,
        eos,
        never,
        n_best,
        T,
        tokens,
        parents,
        sums,
        live,
        room,
        steps,
        limits,
        to_beat,
        divisors,
        end_sums,
        end_scores,
        end_steps,
        end_tokens,
        end_parents,
        end_finished,
        history,
        going,
    ):
        totals = cuda.shared.array(candidates, float64)
        words = cuda.shared.array(candidates, int32)
        heads = cuda.shared.array(K, int32)
        chosen_sums = cuda.shared.array(K, float64)
        chosen_words = cuda.shared.array(K, int32)
        chosen_rows = cuda.shared.array(K, int32)
        n = int64(cuda.blockIdx.x)
        rows = int64(live[n])
        for i in range(int64(cuda.threadIdx.x), rows * places, 32):
            row = i // places
            words[i] = found[n * K * places + i]
            totals[i] = sums[n * K + row] + float64(scores[n * K * places + i])
        cuda.syncthreads()
        if cuda.threadIdx.x != 0 or rows == 0:
            return
        # The rows' candidates are sorted: only the first that is left of each competes.
        count = int64(0)
        for row in range(rows):
            heads[row] = int32(0)
        while count < int64(room[n]):
            best, at = _NEVER, int64(-1)
            for row in range(rows):
                head = int64(heads[row])
                if head < places and words[row * places + head] == never:
                    head += 1
                    heads[row] = int32(head)
                if head < places and words[row * places + head] >= 0 and totals[row * places + head] > best:
                    best, at = totals[row * places + head], int64(row)
            if at < 0:
                break
            chosen_sums[count], chosen_rows[count] = best, int32(at)
            chosen_words[count] = words[at * places + int64(heads[at])]
            heads[at] += int32(1)
            count += 1
        step = int64(steps[n]) + 1
        steps[n] = int32(step)
        # Those that end, in order.
        ended = int64(K) - int64(room[n])
        kept = int64(0)
        for c in range(count):
            finished = chosen_words[c] == eos
            if finished or step >= int64(limits[n]):
                place = n * K + ended
                end_sums[place] = chosen_sums[c]
                end_scores[place] = chosen_sums[c] / divisors[step]
                end_steps[place] = int32(step)
                end_tokens[place] = chosen_words[c]
                end_parents[place] = int32(n * K + int64(chosen_rows[c]))
                end_finished[place] = int32(1) if finished else int32(0)
                ended += 1
            else:
                chosen_sums[kept], chosen_rows[kept] = chosen_sums[c], chosen_rows[c]
                chosen_words[kept] = chosen_words[c]
                kept += 1
        room[n] = int32(K - ended)
        for i in range(ended):  # the n-th best score: fewer than n are better, n or more are as good
            better, equal = int64(0), int64(0)
            mine = end_scores[n * K + i]
            for other in range(ended):
                if end_finished[n * K + other] != 0:
                    if end_scores[n * K + other] > mine:
                        better += 1
                    elif end_scores[n * K + other] == mine:
                        equal += 1
            if end_finished[n * K + i] != 0 and better < n_best and n_best <= better + equal:
                to_beat[n] = mine
        # Log-probabilities only fall: a hypothesis can at best keep its sum up to the maximum length.
        if kept > 0 and not chosen_sums[0] / divisors[int64(limits[n])] > to_beat[n]:
            kept = int64(0)
        R = int64(cuda.gridDim.x) * K
        for row in range(K):
            r = n * K + row
            there = row < kept
            tokens[r] = chosen_words[row] if there else int32(0)
            parent = n * K + int64(chosen_rows[row]) if there else r
            parents[r] = parent
            sums[r] = chosen_sums[row] if there else float64(0)
            history[(step - 1) * R + r] = tokens[r]
            history[(T + step - 1) * R + r] = int32(parent)
        live[n] = int32(kept)
        if kept == 0:
            cuda.atomic.add(going, 0, int32(-1))

    rows_of, words_of, sums_of = int64[::1], int32[::1], float64[::1]
    state = (words_of, rows_of, sums_of, *[words_of] * 4, sums_of, sums_of, sums_of, sums_of, *[words_of] * 6)
    signature = (words_of, number[::1], int32, int32, int64, int64, *state)
    return Kernel(beam_step, signature, 32, registers=128)


def _trace_back(end_steps, end_tokens, end_parents, history, T, R, words):  # type: ignore[no-untyped-def]
    """words[h, :end_steps[h]] = the tokens of ended hypothesis h, read backwards from where it ended."""
    h = int64(cuda.grid(1))
    if h < R:
        step = int64(end_steps[h])
        if step > 0:
            words[h * T + step - 1] = end_tokens[h]
            row = int64(end_parents[h])
            for back in range(step - 1):
                at = (step - 2 - back) * R + row
                words[h * T + step - 2 - back] = history[at]
                row = int64(history[T * R + at])


TRACE_BACK = Kernel(
    _trace_back, (int32[::1], int32[::1], int32[::1], int32[::1], int64, int64, int32[::1]), 64, registers=48
)


def best_tokens(runtime: Runtime, logits: Any, bias: Any, first: int, tokens: Any, scores: Any) -> None:
    """The K best tokens of each row and their log-probabilities, best first; of equal ones the lower token.

    logits [R, V] (without bias), bias [V]; tokens int32 [R, K], scores [R, K]. Tokens below `first` count for the
    normalisation but are never chosen; unused places have token -1.
    """
    R, V = logits.shape
    if R:
        kernel = best_tokens_kernel(logits.dtype, tokens.shape[1], row_threads(V))
        flat = tokens.reshape(-1), scores.reshape(-1)
        runtime.launch(kernel, R, logits.reshape(-1), bias, V, first, *flat)


def beam_step(
    runtime: Runtime, tokens: Any, scores: Any, state: BeamState, *, eos: int, never: int, n_best: int
) -> None:
    """Extend every live hypothesis by one token and keep the best, in place; tokens and scores from `best_tokens`."""
    N, T = len(state.live), state.history.shape[1]
    kernel = beam_step_kernel(scores.dtype, len(state.tokens) // N, tokens.shape[1])
    flat = tokens.reshape(-1), scores.reshape(-1)
    runtime.launch(kernel, N, *flat, eos, never, n_best, T, *state.arrays())


def trace_back(runtime: Runtime, state: BeamState) -> Any:
    """The tokens of all ended hypotheses, int32 [N * K, T], the last one included; what lies behind is arbitrary."""
    _, T, R = state.history.shape
    words = runtime.xp.zeros((R, T), np.int32)
    given = state.end_steps, state.end_tokens, state.end_parents, state.history
    flat = (array.reshape(-1) for array in given)
    runtime.launch(TRACE_BACK, -(-R // 64), *flat, T, R, words.reshape(-1))
    return words


def example_kernels() -> dict[str, Kernel]:
    """Usual beams, for the tests that compile."""
    found = {"trace_back": TRACE_BACK}
    for kind in NUMBERS:
        for K in (1, 5, 10):
            found[f"best_tokens {kind} of {K + 1}"] = best_tokens_kernel(kind, K + 1)
            found[f"beam_step {kind} of {K}"] = beam_step_kernel(kind, K, K + 1)
    return found
