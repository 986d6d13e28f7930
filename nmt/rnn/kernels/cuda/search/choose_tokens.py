"""Search rules on a GPU: forbidden tokens, penalties, and tokens drawn at random.

The rules are those of `token_rules`, the random numbers those of `kernels.search.choose.draw_tokens` and
`decode.rules.sampling`; a sum over all tokens is computed in another order here.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda, float64, int32, int64, uint64

from nmt.rnn.arrays.beam_state import BeamRules, BeamState
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel, device_function
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime
from nmt.rnn.kernels.cuda.rows.row_functions import (
    THREADS,
    WARPS,
    block_first_max,
    block_sum,
    registers_for,
    row_threads,
)
from nmt.rnn.kernels.cuda.rows.row_operations import NUMBERS, blocks_for
from nmt.rnn.kernels.cuda.search.best import LOWEST, NO_TOKEN, best_tokens
from nmt.rnn.kernels.search import search_rules
from nmt.rnn.kernels.search.token_rules import rules_of_rows

_may_come = device_function(search_rules.may_come)
_mix = device_function(search_rules.mix)

_NEVER = -math.inf
_UNIT = 2.0**-53


@device_function
def _meet() -> None:
    cuda.syncthreads()


@lru_cache
def rules_kernel(dtype: np.dtype, threads: int = THREADS) -> GPUKernel:
    """Return a kernel with a block per row: scores [V] from log-probabilities [V] by the rules of token_rules.py. Both
    may be the same memory."""
    number = NUMBERS[dtype]

    @device_function
    def rounded(scores, x):  # type: ignore[no-untyped-def]
        return number(x)

    reweight, forbid = map(device_function, rules_of_rows(device_function, _meet, rounded))

    def apply_rules(  # type: ignore[no-untyped-def]
        log_probs, scores, history, steps, numbers, reals, lists, prefixes, K, V, width, first, never, eos, longest
    ):
        thread, num_threads = int64(cuda.threadIdx.x), int64(cuda.blockDim.x)
        row = int64(cuda.blockIdx.x)
        n, base = row // K, row * V
        step = int64(steps[n])
        line = ((step & 1) * int64(cuda.gridDim.x) + row) * width + 1
        forced = int64(-1)
        if step < longest:
            forced = int64(prefixes[n * longest + step])
        kept = number(0)
        if forced >= 0:
            kept = log_probs[base + forced]
        cuda.syncthreads()  # all threads have read the forced token's value
        for j in range(thread, V, num_threads):
            x = log_probs[base + j]
            if forced >= 0 or not _may_come(j, first, never):
                x = number(_NEVER)
            scores[base + j] = x
        cuda.syncthreads()
        if forced >= 0:
            if thread == 0:
                scores[base + forced] = kept
            return
        reweight(scores, base, history, line, step, reals, thread, num_threads)
        forbid(scores, base, history, line, step, numbers, lists, eos, thread, num_threads)

    whole = int32[::1]
    settings = int64[::1], float64[::1], whole, whole
    signature = (number[::1], number[::1], whole, whole, *settings, *[int64] * 7)
    return GPUKernel(apply_rules, signature, threads, registers=registers_for(4))


@lru_cache
def draw_kernel(dtype: np.dtype, threads: int = THREADS) -> GPUKernel:
    """Return a kernel with a block per row that draws one token from its scores [V]; -1 where all are -inf. Among all
    tokens it is found by partial sums. Among the best few (top_k, top_p) the next best one is searched repeatedly, so
    that a drawing takes as many passes over the row as tokens are kept."""
    number = NUMBERS[dtype]

    @device_function
    def next_best(scores, base, V, value, index, shared, at):  # type: ignore[no-untyped-def]
        """Return the token after (value, index) in the order of scores, and its score; NO_TOKEN if there is none."""
        best, place = number(LOWEST), NO_TOKEN
        for j in range(int64(cuda.threadIdx.x), V, int64(cuda.blockDim.x)):
            x = scores[base + j]
            if (x < value or (x == value and j > index)) and x > best:
                best, place = x, j
        return block_first_max(best, place, shared, at)

    def draw_tokens(scores, keys, history, steps, K, V, width, temperature, top_k, top_p, tokens, drawn):  # type: ignore[no-untyped-def]
        shared = cuda.shared.array(WARPS, number)
        at = cuda.shared.array(WARPS, int64)
        sums = cuda.shared.array(WARPS, float64)
        parts = cuda.shared.array(threads, float64)
        thread, row = int64(cuda.threadIdx.x), int64(cuda.blockIdx.x)
        n, base = row // K, row * V
        step = int64(steps[n])
        sample = uint64(history[((step & 1) * int64(cuda.gridDim.x) + row) * width])
        uniform = float64(_mix(_mix(keys[n] + sample) + uint64(step)) >> uint64(11)) * _UNIT
        best, first = next_best(scores, base, V, number(-_NEVER), int64(-1), shared, at)
        if first == NO_TOKEN:
            if thread == 0:
                tokens[row] = int32(-1)
                drawn[row] = number(0)
            return
        top, chosen = float64(best), int64(-1)
        share = (V + threads - 1) // threads
        mine = float64(0)
        for j in range(thread * share, min(V, (thread + 1) * share)):
            mine += math.exp((float64(scores[base + j]) - top) / temperature)
        if top_k == 0 and top_p >= 1.0:
            parts[thread] = mine
            cuda.syncthreads()
            if thread == 0:
                total = float64(0)
                for part in range(threads):
                    total += parts[part]
                goal, running, part = uniform * total, float64(0), int64(0)
                while part < threads - 1 and running + parts[part] <= goal:
                    running += parts[part]
                    part += 1
                for j in range(part * share, V):
                    x = scores[base + j]
                    if x > number(_NEVER) and running <= goal:
                        chosen = j
                        running += math.exp((float64(x) - top) / temperature)
        else:
            most, enough = V, float64(0)
            if top_k == 0:
                enough = top_p * block_sum(mine, sums)
            else:
                most, count, total = min(V, top_k), int64(0), float64(0)
                value, index = best, first
                while count < most and index != NO_TOKEN:
                    total += math.exp((float64(value) - top) / temperature)
                    count += 1
                    value, index = next_best(scores, base, V, value, index, shared, at)
                enough = top_p * total
            kept, nucleus = int64(0), float64(0)
            value, index = best, first
            while index != NO_TOKEN and kept < most and (kept == 0 or nucleus < enough):
                nucleus += math.exp((float64(value) - top) / temperature)
                kept += 1
                value, index = next_best(scores, base, V, value, index, shared, at)
            goal, running, count = uniform * nucleus, float64(0), int64(0)
            value, index = best, first
            while count < kept and running <= goal:
                chosen = index
                running += math.exp((float64(value) - top) / temperature)
                count += 1
                value, index = next_best(scores, base, V, value, index, shared, at)
        if thread == 0:
            if chosen < 0:
                chosen = first
            tokens[row] = int32(chosen)
            drawn[row] = scores[base + chosen]

    whole = int32[::1]
    numbers = int64, int64, int64, float64, int64, float64
    signature = (number[::1], uint64[::1], whole, whole, *numbers, whole, number[::1])
    return GPUKernel(draw_tokens, signature, threads, registers=registers_for(2))


@lru_cache
def pick_kernel(dtype: np.dtype, threads: int = THREADS) -> GPUKernel:
    """Return a kernel: out[r, k] = x[r, tokens[r, k]], 0 where there is no token; x [R, V], out [R, places]."""
    number = NUMBERS[dtype]

    def pick(x, tokens, out, size, places, V):  # type: ignore[no-untyped-def]
        for i in range(int64(cuda.grid(1)), size, int64(cuda.gridsize(1))):
            token = int64(tokens[i])
            if token >= 0:
                out[i] = x[i // places * V + token]
            else:
                out[i] = number(0)

    return GPUKernel(pick, (number[::1], int32[::1], number[::1], int64, int64, int64), threads, registers=48)


def _extend_history(history, parents, tokens, steps, live, K, width):  # type: ignore[no-untyped-def]
    """Write each row's history after a step, by a warp: its parent's and its own token, into the half not just read."""
    row = int64(cuda.blockIdx.x)
    n = row // K
    step, rows = int64(steps[n]), int64(cuda.gridDim.x)
    if row - n * K < int64(live[n]):
        old = (((step - 1) & 1) * rows + int64(parents[row])) * width
        new = ((step & 1) * rows + row) * width
        for i in range(int64(cuda.threadIdx.x), step, 32):
            history[new + i] = history[old + i]
        if cuda.threadIdx.x == 0:
            history[new + step] = tokens[row]


EXTEND_HISTORY = GPUKernel(
    _extend_history, (int32[::1], int64[::1], int32[::1], int32[::1], int32[::1], int64, int64), 32, registers=40
)


def choose_tokens(
    runtime: CupyRuntime, log_probs: Any, rules: BeamRules, state: BeamState, places: int, allocate: Allocate
) -> tuple[Any, Any, Any]:
    """Return the best or drawn tokens; see `Device.choose_tokens`."""
    R, V = log_probs.shape
    kind, N, width, longest = log_probs.dtype, len(state.live), rules.history.shape[-1], rules.prefixes.shape[1]
    K, threads = R // N, row_threads(V)
    scores = allocate((R, V), kind) if rules.reweights else log_probs
    given = rules.history, state.steps, rules.numbers, rules.reals, rules.lists, rules.prefixes
    of_search = rules.settings.first_token, rules.settings.never, rules.settings.eos_id
    runtime.launch(rules_kernel(kind, threads), R, log_probs, scores, *given, K, V, width, *of_search, longest)
    drawing = rules.drawing
    places = places if drawing is None else 1
    tokens, found = allocate((R, places), np.int32), allocate((R, places), kind)
    if drawing is None:
        best_tokens(runtime, scores, scores, 0, tokens, found, normalise=False)
    else:
        keys, *settings = drawing
        runtime.launch(draw_kernel(kind, threads), R, scores, keys, *given[:2], K, V, width, *settings, tokens, found)
    if not rules.reweights:
        return tokens, found, found
    plain = allocate((R, places), kind)
    pick = pick_kernel(kind, row_threads(R * places))
    runtime.launch(pick, blocks_for(pick, R * places), log_probs, tokens, plain, R * places, places, V)
    return tokens, found, plain


def extend_history(runtime: CupyRuntime, rules: BeamRules, state: BeamState) -> None:
    """Update the history of every row after a beam's step."""
    R, width = len(state.tokens), rules.history.shape[-1]
    given = state.parents, state.tokens, state.steps, state.live
    runtime.launch(EXTEND_HISTORY, R, rules.history, *given, R // len(state.live), width)
