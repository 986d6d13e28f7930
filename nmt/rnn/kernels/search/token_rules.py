"""The rules of a search on the next token, each written once, for a row of scores.

The search in steps calls them for all rows (`reweight_rows`, `forbid_rows`), programs for each row (ruled_tokens.py),
and a GPU in a kernel with a block of threads for each row. Their settings reach all of these as three arrays, so that a
new rule is a name in NUMBERS or REALS and a few lines here. Rules that change scores come before those that forbid
tokens, so that no forbidden token comes back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.kernels.machine_code.jit import exact_kernel, inlined, kernel
from nmt.rnn.kernels.search import search_rules

NUMBERS = ("min_length", "no_repeat_ngram_size", "forbidden", "sampling", "sampling_topk", "sampling_seed")
"""Settings that are integers, by their places: those of rules, 0 for none, and those of drawing. `forbidden` is the
number of sequences."""
REALS = ("repetition_penalty", "sampling_temperature", "sampling_topp")
"""Settings that are real numbers: those of rules, 1 for none, and those of drawing."""
LEAST, NO_REPEAT, FORBIDDEN, SAMPLING, TOP_K, SEED = range(len(NUMBERS))
REPETITION, TEMPERATURE, TOP_P = range(len(REALS))


@dataclass(frozen=True, eq=False)
class TokenRules:
    """Settings of the rules for some sentences: numbers int64, reals float64; lists int32, where each forbidden
    sequence begins among their tokens, and these tokens; prefixes: the first tokens of each sentence, an empty list for
    no prefixes at all."""

    numbers: np.ndarray
    reals: np.ndarray
    lists: np.ndarray
    prefixes: Sequence[Sequence[int]] = ()

    @classmethod
    def of(cls, options: Any, prefixes: Sequence[Sequence[int]] = ()) -> TokenRules:
        """Return the rules of options, which have the settings as attributes, `forbidden` as the sequences."""
        sequences = sorted({tuple(one) for one in options.forbidden if len(one)})
        values = {name: getattr(options, name) for name in NUMBERS} | {"forbidden": len(sequences)}
        starts = np.cumsum([0, *map(len, sequences)])
        return cls(
            np.array([values[name] for name in NUMBERS], np.int64),
            np.array([getattr(options, name) for name in REALS], np.float64),
            np.array([*starts, *(token for one in sequences for token in one)], np.int32),
            prefixes,
        )

    def check(self, vocab_size: int) -> None:
        """Raise ShapeError: a token is none of so many; compiled code would write beyond its row."""
        tokens = self.lists[int(self.numbers[FORBIDDEN]) + 1 :]
        every = [*tokens.tolist(), *(token for one in self.prefixes for token in one)]
        if every and not 0 <= min(every) <= max(every) < vocab_size:
            wrong = min(every) if min(every) < 0 else max(every)
            raise ShapeError(
                f"search: tokens of forbidden and prefixes must be from 0 to {vocab_size - 1}, got {wrong}"
            )

    @property
    def reweights(self) -> bool:
        """Return whether a rule changes scores."""
        return bool((self.reals[:TEMPERATURE] != 1.0).any())

    @property
    def drawing(self) -> tuple[float, int, float]:
        """Return the temperature, top_k and top_p by which tokens are drawn."""
        return float(self.reals[TEMPERATURE]), int(self.numbers[TOP_K]), float(self.reals[TOP_P])

    @property
    def forbids(self) -> bool:
        """Return whether a rule forbids tokens."""
        return bool(self.numbers[:SAMPLING].any())


@inlined
def has_rules(numbers: Any, reals: Any) -> Any:
    """Return whether there is a rule, or tokens are drawn."""
    found = False
    for n in range(TEMPERATURE):
        found = found or reals[n] != 1.0
    for n in range(SAMPLING + 1):
        found = found or numbers[n] != 0
    return found


def rules_of_rows(compiled: Any, meet: Any, rounded: Any) -> tuple[Any, Any]:
    """Return the functions that change the scores of a row, and that forbid tokens.

    They are called by `threads` threads that share the row, whose scores begin at scores[row]; its hypothesis has the
    tokens history[first : first + steps]. compiled: makes functions of `search_rules` callable; meet: waits for these
    threads; rounded: returns a real number as one like the scores.
    """
    ends_with, occurs = compiled(search_rules.ends_with), compiled(search_rules.occurs)
    penalised, too_early = compiled(search_rules.penalised), compiled(search_rules.too_early)

    def reweight(scores, row, history, first, steps, reals, thread, threads):  # type: ignore[no-untyped-def]
        if reals[REPETITION] != 1.0:
            factor = rounded(scores, reals[REPETITION])
            for i in range(thread, steps, threads):
                token = history[first + i]
                if not occurs(token, history, first, i):  # once for each token
                    scores[row + token] = penalised(scores[row + token], factor)
        meet()

    def forbid(scores, row, history, first, steps, numbers, lists, eos, thread, threads):  # type: ignore[no-untyped-def]
        size, count = numbers[NO_REPEAT], numbers[FORBIDDEN]
        if size > 0:
            for i in range(thread, steps - size + 1, threads):
                if ends_with(history, first, steps, history, first + i, size - 1):
                    scores[row + history[first + i + size - 1]] = -math.inf
        for n in range(thread, count, threads):
            start, before = count + 1 + lists[n], lists[n + 1] - lists[n] - 1
            if ends_with(history, first, steps, lists, start, before):
                scores[row + lists[start + before]] = -math.inf
        if thread == 0 and too_early(eos, eos, steps, numbers[LEAST]):
            scores[row + eos] = -math.inf
        meet()

    return reweight, forbid


@inlined
def _alone() -> None:
    """Do nothing: one thread has the row."""


@inlined
def _rounded(scores: Any, number: Any) -> Any:
    return scores.dtype.type(number)


reweight, forbid = map(exact_kernel, rules_of_rows(inlined, _alone, _rounded))


@kernel
def reweight_rows(scores, history, steps, reals):  # type: ignore[no-untyped-def]
    """Change scores [R, V] of the tokens after history [R, W], of which row r has steps[r]."""
    for r in range(scores.shape[0]):
        reweight(scores[r], 0, history[r], 0, steps[r], reals, 0, 1)


@kernel
def forbid_rows(scores, history, steps, numbers, lists, eos):  # type: ignore[no-untyped-def]
    """Set scores [R, V] of forbidden tokens after history [R, W], of which row r has steps[r], to -inf."""
    for r in range(scores.shape[0]):
        forbid(scores[r], 0, history[r], 0, steps[r], numbers, lists, eos, 0, 1)
