"""Diverse beam search: groups of hypotheses that avoid each other's tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.decode.hypotheses import Beam, Search
from nmt.decode.rules.sampling import repeated
from nmt.decode.rules.score_rules import Rule
from nmt.decode.rules.selectors import RuledSelector, continuations
from nmt.overriding import override
from nmt.rnn.kernels.search.choose import top_tokens


class DiverseSelector(RuledSelector):
    """Divide the beam into `groups` of equal size. At each step a group pays `strength` for every hypothesis of the
    previous groups that has just taken the same token (Vijayakumar et al. 2018, section 3, Hamming diversity). The
    penalty affects this choice only: hypotheses are ranked by their log-probabilities."""

    def __init__(self, num_sentences: int, groups: int, group_size: int, strength: float, rules: Sequence[Rule] = ()):
        super().__init__(rules)
        self.groups, self.group_size, self.strength = groups, group_size, strength
        self._room = np.full((num_sentences, groups), group_size, np.int64)

    def start(self, search: Search, first: Beam) -> Beam:
        """Return a beam with one row per group; see `CandidateSelector`."""
        rows = np.repeat(np.arange(len(first)), self.groups)
        first = super().start(search, repeated(first, rows))
        first.extra["group"] = np.tile(np.arange(self.groups), len(rows) // self.groups)
        return first

    @override
    def select(
        self, search: Search, beam: Beam, scores: np.ndarray, live: np.ndarray, bounds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        number = np.repeat(np.arange(len(live)), np.diff(bounds))
        group = beam.extra["group"]
        taken: list[tuple[np.ndarray, np.ndarray]] = []  # sentence indices and tokens of the previous groups
        parents, tokens = [], []
        for g in range(self.groups):
            rows = np.flatnonzero(group == g)
            if not len(rows):
                continue
            own = scores[rows]
            for numbers, used in taken:
                self._pay(own, number[rows], numbers, used)
            edges = np.flatnonzero(np.diff(number[rows], prepend=-1, append=-1))
            room = self._room[live[number[rows[edges[:-1]]]], g]
            best, values = top_tokens(own, int(room.max()))
            parent, chosen, _ = continuations(best, values, beam.sums[rows], edges, room, -1)
            parents.append(rows[parent])
            tokens.append(chosen)
            taken.append((number[rows[parent]], chosen))
        parent, token = np.concatenate(parents), np.concatenate(tokens)
        ended = parent[token == search.decoder.eos_id]
        np.subtract.at(self._room, (beam.sentence[ended], group[ended]), 1)
        order = np.lexsort((group[parent], number[parent]))
        return parent[order], token[order]

    def _pay(self, scores: np.ndarray, number: np.ndarray, numbers: np.ndarray, used: np.ndarray) -> None:
        rows, at = np.nonzero(number[:, None] == numbers[None])
        np.subtract.at(scores, (rows, used[at]), self.strength)
