"""A language model that has a say in the search."""

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
    """A language model as a search hears it."""

    def line_log_probs(self, lines: TokenIds, threads: int | None = None) -> list[np.ndarray]:
        """Return the log-probabilities [T] of the tokens of lines, each by itself, with the EOS where it has one."""


class Fusion:
    """A translation model and a language model over the same target tokens, which search takes for one model.

    A token's score, the end's too, is log p(token | source, tokens before it) + weight * log p(token | tokens before
    it): shallow fusion (Gulcehre et al. 2015, section 4.1). It is not normalised. The language model reads each
    translation as a line by itself, after the end of a line.
    """

    def __init__(self, model: ScoringModel, language_model: LineModel, weight: float) -> None:
        """`weight` is 0 or more: the search relies on sums that only fall. Raises ValueError."""
        if not weight >= 0:
            raise ValueError(f"Fusion: weight must be 0 or more, got {weight}; give another one")
        self.model, self.language_model, self.weight = model, language_model, weight

    def __repr__(self) -> str:
        """Return both models and the weight of the second."""
        return f"Fusion({self.model!r}, {self.language_model!r}, weight {self.weight:g})"

    @property
    def device(self) -> Device:
        """Return where the translation model computes."""
        return self.model.device

    def search_decoder(self, threads: int | None = None, coverage_of: int = 0) -> EnsembleDecoder:
        """Return what search needs; coverage is that of the translation model. Where there are candidates, both models'
        probabilities are among them."""
        decoder = self.model.search_decoder(threads, coverage_of)
        prior = _LineDecoder(self.language_model.search_decoder(threads))
        return EnsembleDecoder([decoder, prior], partial(weighted_sum, weight=self.weight))

    def block_decoder(self, src_ids: TokenIds, K: int, coverage_of: int = 0) -> EnsembleBlockDecoder:
        """Return what search on a GPU needs."""
        decoder = self.model.block_decoder(src_ids, K, coverage_of)
        prior = _LineBlockDecoder(self.language_model, len(src_ids), K)
        return _FusionBlockDecoder([decoder, prior], self.device, self._weighted_sum)

    def _weighted_sum(self, parts: list[Any]) -> Any:
        """See `weighted_sum`; arrays of the device, where nothing is -inf."""
        score, prior = parts
        self.device.add_scaled(score.reshape(-1), prior.reshape(-1), self.weight)
        return score

    def forced_log_probs(
        self, src_ids: TokenIds, tgt_ids: TokenIds, *, attention: bool = False, threads: int | None = None
    ) -> ForcedScores:
        """Return scores of given tokens, and the attention of the translation model; see `ScoringModel`."""
        scores, weights = self.model.forced_log_probs(src_ids, tgt_ids, attention=attention, threads=threads)
        said = self.language_model.line_log_probs(tgt_ids, threads)
        return [weighted_sum(both, self.weight) for both in zip(scores, said, strict=True)], weights


class _LineDecoder:
    """A language model's decoder for which every sentence is a new line, whatever its source."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder, self.eos_id = decoder, decoder.eos_id
        self.release, self.close = decoder.release, decoder.close
        self.best_tokens, self.log_probs = decoder.best_tokens, decoder.log_probs

    def admit(
        self, src_ids: list[list[int]], candidates: list[np.ndarray] | None = None
    ) -> tuple[np.ndarray, States, np.ndarray]:
        """See `Decoder`."""
        return self._decoder.admit([[] for _ in src_ids], candidates)

    def step(
        self, tokens: np.ndarray, states: States, parent: np.ndarray, sentence_ids: np.ndarray
    ) -> tuple[np.ndarray, States]:
        """See `Decoder`. A translation begins with BOS, a line after the EOS of the one before it."""
        return self._decoder.step(np.where(tokens == BOS_ID, EOS_ID, tokens), states, parent, sentence_ids)


class _FusionBlockDecoder(EnsembleBlockDecoder):
    """A translation model's block decoder and a language model's."""

    def coverage(self) -> Any:
        """That of the translation model."""
        return self.decoders[0].coverage()


class _LineBlockDecoder:
    """A language model's block decoder for N new lines."""

    def __init__(self, model: LineModel, N: int, K: int) -> None:
        self._decoder = model.block_decoder([[] for _ in range(N)], K)
        self.repeats, self.log_probs, self.follow = self._decoder.repeats, self._decoder.log_probs, self._decoder.follow
        self._first = model.device.upload(np.repeat(self._decoder.first, K))

    def step(self, tokens: Any) -> Any:
        """See `BlockDecoder`; before the first step a line has a token of its own."""
        tokens, self._first = (tokens if self._first is None else self._first), None
        return self._decoder.step(tokens)


def weighted_sum(parts: Sequence[np.ndarray], weight: float) -> np.ndarray:
    """Return the first array plus `weight` times the second, in the memory of the first; -inf stays so at any
    weight."""
    score, prior = parts
    if weight:  # 0 times -inf is not a number
        score += prior.dtype.type(weight) * prior
    return score
