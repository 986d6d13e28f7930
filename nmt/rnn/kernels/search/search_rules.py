"""The rules of beam search, each written once as a plain function of numbers and arrays of tokens.

`decode.beam` calls them directly, the compiled search on the CPU calls them as `jit.inlined`, and the kernels of a GPU
as device functions. Therefore a rule calls no other rule, and its result is a number; a rule that consists of operators
alone also accepts NumPy arrays. `decode.rules.penalty` and `decode.rules.score_rules` have vectorised forms of the
others; a test checks that they agree.
"""

from __future__ import annotations

from typing import Any

from numpy import uint64  # by its own name, since kernels of a GPU name no module but math


def may_come(token: Any, first_token: Any, never: Any) -> Any:
    """Return whether a token may continue a hypothesis. A negative token stands for none."""
    return (token >= first_token) & (token != never)


def too_early(token: Any, eos_id: Any, steps: Any, least: Any) -> Any:
    """Return whether a token would end a hypothesis of `steps` tokens before it has `least`."""
    return (token == eos_id) & (steps < least)


def occurs(token: Any, tokens: Any, first: Any, count: Any) -> Any:
    """Return whether tokens[first : first + count] contain a token."""
    for i in range(first, first + count):
        if tokens[i] == token:
            return True
    return False


def ends_with(tokens: Any, first: Any, steps: Any, phrase: Any, start: Any, count: Any) -> Any:
    """Return whether the last tokens of a hypothesis, tokens[first : first + steps], are phrase[start : start + count].
    Then the token after the phrase would complete it; with a phrase of the hypothesis itself, repeat it."""
    if count > steps:
        return False
    for i in range(count):
        if tokens[first + steps - count + i] != phrase[start + i]:
            return False
    return True


def penalised(score: Any, factor: Any) -> Any:
    """Return the score of a token that the hypothesis contains already."""
    return score * factor


def mix(x: Any) -> Any:
    """Return uint64 numbers hashed by the finaliser of SplitMix64 (Steele et al. 2014, figure 17)."""
    x = x + uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
    return x ^ (x >> uint64(31))


def tokens_wanted(room: Any) -> Any:
    """Return how many of the best tokens of a row are needed: a row cannot give more continuations than its sentence
    has room for; one more, in case `never` is among them."""
    return room + 1


def wins(total: Any, other: Any) -> Any:
    """Return whether a continuation precedes one that was found earlier. Among equal ones the earlier row comes first,
    and within a row the better token."""
    return total > other


def ends(token: Any, eos_id: Any, steps: Any, limit: Any) -> Any:
    """Return whether a hypothesis of `steps` tokens, of which `token` is the last, ends here."""
    return (token == eos_id) | (steps >= limit)


def room_left(room: Any, ended: Any) -> Any:
    """Return the width of a beam after `ended` more hypotheses have ended: each makes it narrower by one."""
    return room - ended


def score(total: Any, divisor: Any, word_reward: Any, rewarded: Any) -> Any:
    """Return the score that ranks hypotheses: the sum of log-probabilities divided by the length's divisor, plus the
    word reward for each of `rewarded` tokens."""
    return total / divisor + word_reward * rewarded


def best_length(word_reward: Any, steps: Any, limit: Any) -> Any:
    """Return the length at which a hypothesis of `steps` tokens would get its largest word reward."""
    return limit if word_reward > 0 else steps + 1


def best_score(total: Any, next_divisor: Any, last_divisor: Any, word_reward: Any, rewarded: Any) -> Any:
    """Return an upper bound on the score of all continuations of a hypothesis. Log-probabilities are never positive, so
    its sum can at best stay the same. A negative sum weighs least at the maximum length; a positive one, which rules
    can produce, weighs most at the next step. `rewarded`: the rewarded tokens of `best_length`."""
    return max(total / last_divisor, total / next_divisor) + word_reward * rewarded


def can_improve(bound: Any, to_beat: Any) -> Any:
    """Return whether a sentence may still find a better translation."""
    return bound > to_beat


def score_to_beat(scores: Any, finished: Any, first: Any, count: Any, n_best: Any, former: Any) -> Any:
    """Return the n-th best score of `count` hypotheses from `first` on that are finished; `former` if fewer are."""
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
