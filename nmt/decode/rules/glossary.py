"""Phrases that a translation is rewarded for holding, tracked inside the beam."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nmt.decode.hypotheses import Beam
from nmt.decode.rules.score_rules import Extra, Rule
from nmt.overriding import override

Phrase = tuple[int, ...]


@dataclass(frozen=True)
class Progress:
    """Progress of a hypothesis through its sentence's phrases: which are complete, and how far it is in the one that it
    is in the middle of. Its last tokens count for whichever phrases they begin or complete (Aho and Corasick 1975), so
    that a phrase which repeats its own beginning, or lies within another one, is seen where it stands."""

    phrases: tuple[Phrase, ...]
    done: frozenset[int] = field(default_factory=frozenset)
    phrase: int = -1  # in the middle of which
    place: int = 0  # tokens said of it

    @property
    def begun(self) -> float:
        """Return how much of the phrase it is in the middle of: its tokens so far, divided by all."""
        return self.place / len(self.phrases[self.phrase]) if self.place else 0.0

    @property
    def worth(self) -> float:
        """Phrases said so far, the one begun by its share."""
        return len(self.done) + self.begun

    def next_tokens(self) -> set[int]:
        """Return tokens that begin a phrase not yet said, or go on with the one begun."""
        return {p[k] for n, p in self._left() for k in range(len(p)) if _ends_in(self._said, p[:k])}

    def after(self, token: int) -> Progress:
        """Progress after another token; of phrases that begin alike the longest is begun."""
        said = (*self._said, token)
        # Of a phrase that is wanted twice one is said.
        complete = {p: n for n, p in reversed(list(self._left())) if _ends_in(said, p)}
        rest = replace(self, done=self.done | set(complete.values()), phrase=-1, place=0)
        begun = [(k, len(p), -n) for n, p in rest._left() for k in range(1, len(p)) if _ends_in(said, p[:k])]
        if not begun:
            return rest
        place, _, phrase = max(begun)
        return replace(rest, phrase=-phrase, place=place)

    @property
    def _said(self) -> Phrase:
        """Return the last tokens, as far as they begin a phrase."""
        return self.phrases[self.phrase][: self.place] if self.place else ()

    def _left(self) -> Iterator[tuple[int, Phrase]]:
        """Return the phrases not yet said, with their numbers."""
        return ((n, p) for n, p in enumerate(self.phrases) if n not in self.done)


def _ends_in(said: Phrase, phrase: Phrase) -> bool:
    return len(phrase) <= len(said) and said[len(said) - len(phrase) :] == phrase


class Glossary(Rule):
    """A bonus for each wanted phrase, which its tokens earn in equal shares, taken back where the phrase is left off; a
    phrase counts once. phrases[n] are those of sentence n; empty ones are omitted. A phrase is some nats less probable
    than the model's own choice, however many tokens it has: a bonus for each token would be too much for long ones."""

    reweights = True

    def __init__(self, phrases: Sequence[Iterable[Sequence[int]]], bonus: float) -> None:
        self.phrases, self.bonus = phrases, bonus

    @override
    def start(self, sentence: np.ndarray) -> Extra:
        found = np.empty(len(sentence), object)
        for row, n in enumerate(sentence.tolist()):
            found[row] = Progress(tuple(tuple(p) for p in self.phrases[n] if len(p)))
        return {"glossary": found}

    @override
    def apply(self, scores: np.ndarray, beam: Beam, steps: np.ndarray) -> None:
        for row, progress in enumerate(beam.extra["glossary"]):
            if progress.place:
                scores[row] -= self.bonus * progress.begun
            for token in progress.next_tokens():
                scores[row, token] += self.bonus * _gain(progress, token)

    def reward_given(self, score: np.ndarray, extra: Extra, token: int) -> None:
        """Return the rewards of given tokens, by the steps of `apply`, so that the bits are the same (see `Rule`)."""
        (progress,) = extra["glossary"]
        if progress.place:
            score -= self.bonus * progress.begun
        if token in progress.next_tokens():
            score[0] += self.bonus * _gain(progress, token)

    @override
    def follow(self, extra: Extra, tokens: np.ndarray) -> None:
        for row, token in enumerate(tokens.tolist()):
            extra["glossary"][row] = extra["glossary"][row].after(token)

    @override
    def most_to_gain(self, beam: Beam, rows: np.ndarray) -> np.ndarray:
        return np.array([self.bonus * (len(p.phrases) - p.worth) for p in beam.extra["glossary"][rows]], np.float64)


def _gain(progress: Progress, token: int) -> float:
    """Return what a token adds to the score before the bonus of an abandoned phrase is subtracted."""
    return progress.after(token).worth - progress.worth + progress.begun
