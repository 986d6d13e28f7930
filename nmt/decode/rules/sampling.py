"""Sampling: translations drawn at random instead of searched for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from nmt.decode.hypotheses import Beam, Search
from nmt.decode.rules.score_rules import Rule
from nmt.decode.rules.selectors import RuledSelector
from nmt.overriding import override
from nmt.rnn.kernels.search.choose import draw_tokens
from nmt.rnn.kernels.search.search_rules import mix


class SamplingSelector(RuledSelector):
    """Draw the next token of each row from the model's distribution; a sentence has `count` rows.

    A random number is a function of the seed, the source tokens, the index of the sample and the step: neither batches
    nor threads nor the order of the sentences change a sample.
    """

    def __init__(
        self,
        src_ids: Sequence[Sequence[int]],
        count: int,
        rules: Sequence[Rule] = (),
        *,
        seed: int,
        temperature: float,
        top_k: int,
        top_p: float,
    ) -> None:
        super().__init__(rules)
        self.count, self.temperature, self.top_k, self.top_p = count, temperature, top_k, top_p
        self._keys = sample_keys(src_ids, seed)

    @override
    def start(self, search: Search, first: Beam) -> Beam:
        rows = np.repeat(np.arange(len(first)), self.count)
        first = super().start(search, repeated(first, rows))
        first.extra["sample"] = np.tile(np.arange(self.count, dtype=np.uint64), len(rows) // self.count)
        return first

    @override
    def select(
        self, search: Search, beam: Beam, scores: np.ndarray, live: np.ndarray, bounds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        steps = search.steps(beam.sentence).astype(np.uint64)
        numbers = mix(mix(self._keys[beam.sentence] + beam.extra["sample"]) + steps)
        uniforms = (numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53
        tokens = draw_tokens(scores, uniforms, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)
        parent = np.flatnonzero(tokens >= 0)
        return parent, tokens[parent]


def repeated(beam: Beam, rows: np.ndarray) -> Beam:
    """Return a beam of the given rows of `beam`, which may repeat; they continue the same states."""
    return Beam(
        states=beam.states,
        parent=beam.parent[rows],
        tokens=beam.tokens[rows],
        sums=beam.sums[rows],
        sentence=beam.sentence[rows],
        history=beam.history[rows],
        extra={name: v[rows] for name, v in beam.extra.items()},
    )


def sample_keys(src_ids: Sequence[Sequence[int]], seed: int) -> np.ndarray:
    """Return the random key of each sentence, uint64 [N]: a hash of its tokens and the seed."""
    return mix(np.array([_key(ids) for ids in src_ids], np.uint64) ^ np.uint64(seed % 2**64))


def _key(ids: Sequence[int]) -> int:
    digest = hashlib.blake2b(np.array(ids, "<i4").tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
