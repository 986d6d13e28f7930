"""Beam search on a GPU: one step of all sentences' beams, and the reading of translations.

N sentences of K rows each. Rows without a hypothesis are computed too; their results are ignored.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda, float64, int32, int64

from nmt.rnn.arrays.beam_state import BeamSettings, BeamState
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel, argument_names, device_function
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime
from nmt.rnn.kernels.cuda.rows.row_operations import NUMBERS
from nmt.rnn.kernels.search import search_rules

_NEVER = float64(-math.inf)

_best_length = device_function(search_rules.best_length)
_best_score = device_function(search_rules.best_score)
_can_improve = device_function(search_rules.can_improve)
_ends = device_function(search_rules.ends)
_may_come = device_function(search_rules.may_come)
_room_left = device_function(search_rules.room_left)
_score = device_function(search_rules.score)
_score_to_beat = device_function(search_rules.score_to_beat)
_wins = device_function(search_rules.wins)


@lru_cache
def beam_step_kernel(dtype: np.dtype, K: int, places: int) -> GPUKernel:
    """Return a kernel with a warp per sentence that selects the best continuations of its rows together. It treats them
    as `decode.beam.BeamCell` does, by the same rules: ended hypotheses leave, and a sentence that cannot improve any
    more ends. Arguments are the step's, some of `BeamSettings` and the arrays of `BeamState`, by their names."""
    number = NUMBERS[dtype]
    candidates = K * places

    def beam_step(  # type: ignore[no-untyped-def]
        found,
        scores,
        plain,
        eos_id,
        never,
        n_best,
        word_reward,
        T,
        tokens,
        parents,
        sums,
        log_probs,
        live,
        room,
        steps,
        limits,
        to_beat,
        divisors,
        end_log_probs,
        end_scores,
        end_steps,
        end_tokens,
        end_parents,
        end_finished,
        history,
        going,
    ):
        totals = cuda.shared.array(candidates, float64)
        offered = cuda.shared.array(candidates, int32)
        heads = cuda.shared.array(K, int32)
        chosen_sums = cuda.shared.array(K, float64)
        chosen_log_probs = cuda.shared.array(K, float64)
        chosen_tokens = cuda.shared.array(K, int32)
        chosen_rows = cuda.shared.array(K, int32)
        n = int64(cuda.blockIdx.x)
        rows = int64(live[n])
        for i in range(int64(cuda.threadIdx.x), rows * places, 32):
            row = i // places
            offered[i] = found[n * K * places + i]
            totals[i] = sums[n * K + row] + float64(scores[n * K * places + i])
        cuda.syncthreads()
        if cuda.threadIdx.x != 0 or rows == 0:
            return
        # The rows' candidates are sorted: only the first remaining one of each competes.
        count = int64(0)
        for row in range(rows):
            heads[row] = int32(0)
        while count < int64(room[n]):
            best, at = _NEVER, int64(-1)
            for row in range(rows):
                head = int64(heads[row])
                while head < places and not _may_come(offered[row * places + head], 0, never):
                    head += 1
                heads[row] = int32(head)
                if head < places and _wins(totals[row * places + head], best):
                    best, at = totals[row * places + head], int64(row)
            if at < 0:
                break
            chosen_sums[count], chosen_rows[count] = best, int32(at)
            head = at * places + int64(heads[at])
            chosen_tokens[count] = offered[head]
            chosen_log_probs[count] = log_probs[n * K + at] + float64(plain[n * K * places + head])
            heads[at] += int32(1)
            count += 1
        step, limit = int64(steps[n]) + 1, int64(limits[n])
        steps[n] = int32(step)
        # Ended hypotheses, in order.
        former = int64(K) - int64(room[n])
        ended, kept = former, int64(0)
        for c in range(count):
            if _ends(chosen_tokens[c], eos_id, step, limit):
                place = n * K + ended
                end_log_probs[place] = chosen_log_probs[c]
                rewarded = float64(step)
                end_scores[place] = _score(chosen_sums[c], divisors[step], word_reward, rewarded)
                end_steps[place] = int32(step)
                end_tokens[place] = chosen_tokens[c]
                end_parents[place] = int32(n * K + int64(chosen_rows[c]))
                end_finished[place] = int32(1) if chosen_tokens[c] == eos_id else int32(0)
                ended += 1
            else:
                chosen_sums[kept], chosen_rows[kept] = chosen_sums[c], chosen_rows[c]
                chosen_tokens[kept], chosen_log_probs[kept] = chosen_tokens[c], chosen_log_probs[c]
                kept += 1
        if ended > former:
            room[n] = int32(_room_left(int64(room[n]), ended - former))
            to_beat[n] = _score_to_beat(end_scores, end_finished, n * K, ended, n_best, to_beat[n])
        if kept > 0:
            rewarded = float64(_best_length(word_reward, step, limit))
            bound = _best_score(chosen_sums[0], divisors[step + 1], divisors[limit], word_reward, rewarded)
            if not _can_improve(bound, to_beat[n]):
                kept = int64(0)
        R = int64(cuda.gridDim.x) * K
        for row in range(K):
            r = n * K + row
            there = row < kept
            tokens[r] = chosen_tokens[row] if there else int32(0)
            parent = n * K + int64(chosen_rows[row]) if there else r
            parents[r] = parent
            sums[r] = chosen_sums[row] if there else float64(0)
            log_probs[r] = chosen_log_probs[row] if there else float64(0)
            history[(step - 1) * R + r] = tokens[r]
            history[(T + step - 1) * R + r] = int32(parent)
        live[n] = int32(kept)
        if kept == 0:
            cuda.atomic.add(going, 0, int32(-1))

    kinds: dict[str, Any] = {name: _KINDS[element][::1] for name, element in BeamState.elements().items()}
    kinds |= {"found": _KINDS["int32"][::1], "scores": number[::1], "plain": number[::1]} | _CHOICE
    return GPUKernel(beam_step, tuple(kinds[name] for name in argument_names(beam_step)), 32, registers=128)


_KINDS: dict[str, Any] = {"int32": int32, "int64": int64, "float64": float64}
_CHOICE: dict[str, Any] = {"eos_id": int32, "never": int32, "n_best": int64, "word_reward": float64, "T": int64}
"""Types of the step's numbers, by the names of the kernel's arguments."""


def _trace_back(end_steps, end_tokens, end_parents, history, T, R, ids):  # type: ignore[no-untyped-def]
    """Set ids[h, :end_steps[h]] to the tokens of ended hypothesis h, read backwards from its end."""
    h = int64(cuda.grid(1))
    if h < R:
        step = int64(end_steps[h])
        if step > 0:
            ids[h * T + step - 1] = end_tokens[h]
            row = int64(end_parents[h])
            for back in range(step - 1):
                at = (step - 2 - back) * R + row
                ids[h * T + step - 2 - back] = history[at]
                row = int64(history[T * R + at])


TRACE_BACK = GPUKernel(
    _trace_back, (int32[::1], int32[::1], int32[::1], int32[::1], int64, int64, int32[::1]), 64, registers=48
)


def beam_step(
    runtime: CupyRuntime, tokens: Any, scores: Any, plain: Any, state: BeamState, settings: BeamSettings
) -> None:
    """Extend every live hypothesis by one token and keep the best, in place; see `Device.beam_step`."""
    N, T = len(state.live), state.history.shape[1]
    kernel = beam_step_kernel(scores.dtype, len(state.tokens) // N, tokens.shape[1])
    given = vars(settings) | state.flat() | {"found": tokens, "scores": scores, "plain": plain, "T": T}
    runtime.launch(kernel, N, *(given[name] for name in argument_names(kernel.function)))


def trace_back(runtime: CupyRuntime, state: BeamState) -> Any:
    """Return the tokens of all ended hypotheses, int32 [N * K, T], with the last one; later entries are arbitrary."""
    _, T, R = state.history.shape
    ids = runtime.xp.zeros((R, T), np.int32)
    given = state.end_steps, state.end_tokens, state.end_parents, state.history
    flat = (array.reshape(-1) for array in given)
    runtime.launch(TRACE_BACK, -(-R // 64), *flat, T, R, ids.reshape(-1))
    return ids
