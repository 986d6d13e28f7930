"""The rules of beam search, each written once: plain functions of numbers.

`decode.beam` calls them as they stand, the compiled search on the processor as `jit.inlined`, the step on a GPU as
device functions. So a rule calls no other one, and takes and gives numbers; where it is made of operators alone, it
takes NumPy arrays as well. Its vectorised form for the others is in `decode.penalty`, held to it by a test.
"""

from __future__ import annotations

from typing import Any


def may_come(token: Any, first_token: Any, never: Any) -> Any:
    """Return whether a token may continue a hypothesis. One below 0 is no token."""
    return (token >= first_token) & (token != never)


def tokens_wanted(room: Any) -> Any:
    """Return the best tokens of a row that a choice needs: a row cannot give more continuations than its sentence has
    room for; one more, where `never` is passed over."""
    return room + 1


def wins(total: Any, other: Any) -> Any:
    """Return whether a continuation comes before another one that was found earlier: of equal ones the earlier row,
    then the better place within it, stays first."""
    return total > other


def ends(token: Any, eos_id: Any, steps: Any, limit: Any) -> Any:
    """Return whether a hypothesis of so many tokens, this one the last, gets no more."""
    return (token == eos_id) | (steps >= limit)


def room_left(room: Any, ended: Any) -> Any:
    """Return places in a beam after so many more hypotheses have ended: each leaves it one narrower."""
    return room - ended


def rewarded_tokens(length: Any, expected: Any) -> Any:
    """Return tokens that earn the word reward: all, or no more than are expected (infinity: no bound)."""
    return min(length, expected)


def score(total: Any, divisor: Any, word_reward: Any, rewarded: Any) -> Any:
    """Return what hypotheses are ranked by: the sum of log-probabilities by the divisor of the length, and the word
    reward for each of `rewarded` tokens."""
    return total / divisor + word_reward * rewarded


def best_length(word_reward: Any, steps: Any, limit: Any) -> Any:
    """Return the length at which the word reward of a hypothesis of so many tokens would be the most."""
    return limit if word_reward > 0 else steps + 1


def best_score(total: Any, next_divisor: Any, last_divisor: Any, word_reward: Any, rewarded: Any) -> Any:
    """Return a bound on the score of what continues a hypothesis. Log-probabilities only fall: it can at best keep its
    sum. Below zero that counts least at the maximum length; a sum above, of what rules add, counts most at once.
    `rewarded`: the tokens that are, of `best_length`."""
    return max(total / last_divisor, total / next_divisor) + word_reward * rewarded


def can_improve(bound: Any, to_beat: Any) -> Any:
    """Return whether a sentence may still find a translation that counts."""
    return bound > to_beat


def score_to_beat(scores: Any, finished: Any, first: Any, count: Any, n_best: Any, former: Any) -> Any:
    """Return the n-th best score of the finished ones among hypotheses first, ... first + count - 1; `former` where
    fewer are."""
    for i in range(first, first + count):
        better, equal = 0, 0
        for j in range(first, first + count):
            if finished[j] != 0:
                if scores[j] > scores[i]:
                    better += 1
                elif scores[j] == scores[i]:
                    equal += 1
        if finished[i] != 0 and better < n_best and n_best <= better + equal:
            return scores[i]
    return former
