"""Shallow fusion: a translation model and a language model in one search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nmt.decode.ensemble import EnsembleBlockDecoder, EnsembleDecoder
from nmt.decode.hypotheses import Decoder, ForcedScores, ScoringModel, SearchModel, States, TokenIds
from nmt.special_tokens import BOS_ID, EOS_ID

if TYPE_CHECKING:
    from nmt.rnn.device import Device


class LineModel(SearchModel, Protocol):
    """A language model as the search uses it in fusion."""

    def line_log_probs(self, lines: TokenIds, threads: int | None = None) -> list[np.ndarray]:
        """Return the log-probabilities [T] of the tokens of each line, scored independently of the other lines; a final
        EOS is scored too."""


class Fusion:
    """A translation model and a language model over the same target vocabulary, which the search treats as one model.

    The score of a token, including EOS, is log p(token | source, previous tokens) + weight * log p(token | previous
    tokens): shallow fusion (Gulcehre et al. 2015, section 4.1). It is not normalised. For the language model each
    translation is a separate line that follows the end of a line.
    """

    loop_obstacle = "a language model takes part in each step"

    def __init__(self, model: ScoringModel, language_model: LineModel, weight: float) -> None:
        """Store the models. Raises ValueError if `weight` is negative: the search relies on sums that only decrease."""
        if not weight >= 0:
            raise ValueError(f"Fusion: weight must be 0 or more, got {weight}; give another one")
        self.model, self.language_model, self.weight = model, language_model, weight

    def __repr__(self) -> str:
        """Return both models and the weight of the language model."""
        return f"Fusion({self.model!r}, {self.language_model!r}, weight {self.weight:g})"

    @property
    def device(self) -> Device:
        """Return the device of the translation model."""
        return self.model.device

    def written(self, ids: list[int]) -> list[int]:
        """Return the tokens that ids write, by the translation model; see `SearchModel`."""
        return self.model.written(ids)

    def search_decoder(self, threads: int | None = None, longest: int = 0) -> EnsembleDecoder:
        """Return a decoder of both models. With candidates, both models normalise over the candidates only."""
        decoder = self.model.search_decoder(threads, longest)
        prior = _LineDecoder(self.language_model.search_decoder(threads))
        return EnsembleDecoder([decoder, prior], partial(weighted_sum, weight=self.weight))

    def block_decoder(self, src_ids: TokenIds, K: int) -> EnsembleBlockDecoder:
        """Return a GPU decoder of both models for a block of sentences."""
        decoder = self.model.block_decoder(src_ids, K)
        prior = _LineBlockDecoder(self.language_model, len(src_ids), K)
        return EnsembleBlockDecoder([decoder, prior], self._weighted_sum)

    def _weighted_sum(self, parts: list[Any]) -> Any:
        """Return the weighted sum of two device arrays, which hold no -inf; see `weighted_sum`."""
        score, prior = parts
        self.device.add_scaled(score.reshape(-1), prior.reshape(-1), self.weight)
        return score

    def forced_log_probs(
        self, src_ids: TokenIds, tgt_ids: TokenIds, *, attention: bool = False, threads: int | None = None
    ) -> ForcedScores:
        """Return the fused scores of the given tokens and the attention of the translation model; see
        `ScoringModel`."""
        scores, weights = self.model.forced_log_probs(src_ids, tgt_ids, attention=attention, threads=threads)
        prior = self.language_model.line_log_probs(tgt_ids, threads)
        return [weighted_sum(both, self.weight) for both in zip(scores, prior, strict=True)], weights


class _LineDecoder:
    """A decoder of a language model that starts a new line for every sentence and ignores the source."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder, self.eos_id = decoder, decoder.eos_id
        self.release, self.close = decoder.release, decoder.close
        self.best_tokens, self.log_probs = decoder.best_tokens, decoder.log_probs

    def admit(
        self, src_ids: list[list[int]], candidates: list[np.ndarray] | None = None
    ) -> tuple[np.ndarray, States, np.ndarray]:
        """Start a new line for each sentence; see `Decoder.admit`."""
        return self._decoder.admit([[] for _ in src_ids], candidates)

    def step(
        self, tokens: np.ndarray, states: States, parent: np.ndarray, sentence_ids: np.ndarray
    ) -> tuple[np.ndarray, States]:
        """Run one step; see `Decoder.step`. BOS, which begins a translation, is replaced by EOS, which precedes a
        line."""
        return self._decoder.step(np.where(tokens == BOS_ID, EOS_ID, tokens), states, parent, sentence_ids)


class _LineBlockDecoder:
    """A language model's block decoder for N new lines."""

    def __init__(self, model: LineModel, N: int, K: int) -> None:
        self._decoder = model.block_decoder([[] for _ in range(N)], K)
        self.repeats, self.log_probs, self.follow = self._decoder.repeats, self._decoder.log_probs, self._decoder.follow
        self._first = model.device.upload(np.repeat(self._decoder.first, K))

    def step(self, tokens: Any) -> Any:
        """Run one step; see `BlockDecoder.step`. The first step reads the token that begins a line."""
        tokens, self._first = (tokens if self._first is None else self._first), None
        return self._decoder.step(tokens)


def weighted_sum(parts: Sequence[np.ndarray], weight: float) -> np.ndarray:
    """Return the first array plus `weight` times the second, computed in place in the first; -inf stays -inf for any
    weight."""
    score, prior = parts
    if weight:  # 0 times -inf is not a number
        score += prior.dtype.type(weight) * prior
    return score
