"""Phrases that a translation must contain, or is rewarded for holding, tracked inside the beam."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nmt.decode.hypotheses import Beam, Search
from nmt.decode.rules.score_rules import Extra, Rule
from nmt.decode.rules.selectors import RuledSelector
from nmt.overriding import override
from nmt.rnn.kernels.search.choose import top_tokens

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
    def met(self) -> int:
        """Return tokens of phrases said so far."""
        return sum(len(self.phrases[n]) for n in self.done) + self.place

    @property
    def total(self) -> int:
        """Return tokens of all phrases."""
        return sum(map(len, self.phrases))

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


def first_progress(phrases: Sequence[Iterable[Sequence[int]]], sentence: np.ndarray) -> np.ndarray:
    """Progress objects of the first rows of sentences, whose phrases are phrases[n]; empty ones are omitted."""
    found = np.empty(len(sentence), object)
    for row, n in enumerate(sentence.tolist()):
        found[row] = Progress(tuple(tuple(p) for p in phrases[n] if len(p)))
    return found


class ConstrainedSelector(RuledSelector):
    """Beam search whose finished translations hold given phrases; phrases[n] are those of sentence n.

    The beam of a sentence is divided among hypotheses by how many tokens of phrases they have said, so that it stays
    as wide as it was, and sentences in one batch may have different phrases or none (Post and Vilar 2018, sections
    3.1 and 3.2). EOS waits until every phrase is there.
    """

    def __init__(self, phrases: Sequence[Iterable[Sequence[int]]], rules: Sequence[Rule] = ()) -> None:
        super().__init__(rules)
        self.phrases = phrases

    @override
    def start(self, search: Search, first: Beam) -> Beam:
        first = super().start(search, first)
        first.extra["constraints"] = first_progress(self.phrases, first.sentence)
        return first

    @override
    def select(
        self, search: Search, beam: Beam, scores: np.ndarray, live: np.ndarray, bounds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        progress = beam.extra["constraints"]
        waiting = np.array([p.met < p.total for p in progress])
        scores[waiting, search.decoder.eos_id] = -np.inf
        room = search.room(live)
        best = top_tokens(scores, int(room.max()))[0]
        parents, tokens = [], []
        for n in range(len(live)):
            rows = range(bounds[n], bounds[n + 1])
            found = _candidates(rows, best, progress, scores, beam.sums)
            for row, token in _allocate(found, int(room[n]), progress[rows[0]].total):
                parents.append(row)
                tokens.append(token)
        return np.array(parents, np.int64), np.array(tokens, np.int32)

    @override
    def follow(self, extra: Extra, tokens: np.ndarray) -> None:
        super().follow(extra, tokens)
        advance(extra["constraints"], tokens)


def advance(progress: np.ndarray, tokens: np.ndarray) -> None:
    """Each row's progress after its token, in place."""
    for row, token in enumerate(tokens.tolist()):
        progress[row] = progress[row].after(token)


Candidate = tuple[float, int, int, int]  # sum, row, token, tokens of phrases said


def _candidates(
    rows: range, best: np.ndarray, progress: np.ndarray, scores: np.ndarray, sums: np.ndarray
) -> list[Candidate]:
    """Return the best tokens of each row and those that go on with a phrase; the best first."""
    found = []
    for row in rows:
        tokens = {t for t in best[row].tolist() if t >= 0} | progress[row].next_tokens()
        for token in tokens:
            if (score := float(scores[row, token])) > -np.inf:
                found.append((float(sums[row]) + score, row, token, progress[row].after(token).met))
    return sorted(found, key=_order)


def _allocate(candidates: list[Candidate], room: int, total: int) -> list[tuple[int, int]]:
    """Divide the beam evenly among banks: hypotheses with equally many constraint tokens. The remainder goes to the
    fullest banks (Post and Vilar 2018)."""
    banks: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        banks.setdefault(candidate[3], []).append(candidate)
    share = room // (total + 1)
    kept = {bank: min(share, len(found)) for bank, found in banks.items()}
    left = room - sum(kept.values())
    for bank in sorted(banks, reverse=True):
        more = min(left, len(banks[bank]) - kept[bank])
        kept[bank] += more
        left -= more
    chosen = [c for bank, found in banks.items() for c in found[: kept[bank]]]
    return [(row, token) for _, row, token, _ in sorted(chosen, key=_order)]


def _order(candidate: Candidate) -> tuple[float, int, int]:
    return -candidate[0], candidate[1], candidate[2]


class Glossary(Rule):
    """A bonus for each wanted phrase, which its tokens earn in equal shares, taken back where the phrase is left off; a
    phrase counts once. phrases[n] are those of sentence n.

    A phrase is some nats less probable than the model's own choice, however many tokens it has: a bonus for each token
    would be too much for long ones."""

    reweights = True

    def __init__(self, phrases: Sequence[Iterable[Sequence[int]]], bonus: float) -> None:
        self.phrases, self.bonus = phrases, bonus

    @override
    def start(self, sentence: np.ndarray) -> Extra:
        return {"glossary": first_progress(self.phrases, sentence)}

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
        advance(extra["glossary"], tokens)

    @override
    def most_to_gain(self, beam: Beam, rows: np.ndarray) -> np.ndarray:
        return np.array([self.bonus * (len(p.phrases) - p.worth) for p in beam.extra["glossary"][rows]], np.float64)


def _gain(progress: Progress, token: int) -> float:
    """Return what a token adds to the score before the bonus of an abandoned phrase is subtracted."""
    return progress.after(token).worth - progress.worth + progress.begun
