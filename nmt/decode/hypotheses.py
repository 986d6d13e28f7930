"""What a search works on: hypotheses in a beam, and what decoders and selectors have to know of one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from nmt.rnn.device import CandidateLists, Device, OutputLayer
    from nmt.rnn.stepping.beam_settings import BeamSettings
    from nmt.rnn.stepping.compiled_beam import CompiledBeam

States = dict[str, np.ndarray]
TokenIds = Sequence[Sequence[int]]
"""Of each sentence."""
ForcedScores = tuple[list[np.ndarray], list[np.ndarray]]
"""See `ScoringModel.forced_log_probs`."""


@dataclass(frozen=True)
class Hypothesis:
    """A translation: token ids without EOS, the sum of their log-probabilities (EOS counted), the score by which it
    is ranked.

    `finished` is False where the maximum length cut it off.
    """

    ids: list[int]
    log_prob: float
    score: float
    finished: bool


def best_of(hypotheses: list[Hypothesis], n_best: int) -> list[Hypothesis]:
    """Return the n best of a sentence, finished ones first, then by score; of equal ones those that ended first."""
    return sorted(hypotheses, key=lambda h: (not h.finished, -h.score))[:n_best]


class Decoder(Protocol):
    """What search needs to know of a model. It gives each sentence that comes in an id."""

    eos_id: int

    def admit(
        self, src_ids: list[list[int]], candidates: list[np.ndarray] | None = None
    ) -> tuple[np.ndarray, States, np.ndarray]:
        """Return the sentences' ids [B], and the states and token before the first step, one row a sentence. Where
        there are
        `candidates`, int32 in rising order for each sentence, no other tokens are for it: they have no probability."""

    def release(self, sentence_ids: np.ndarray) -> None:
        """These sentences are not asked for any more."""

    def close(self) -> None:
        """Nothing is asked for any more."""

    def step(
        self, tokens: np.ndarray, states: States, parent: np.ndarray, sentence_ids: np.ndarray
    ) -> tuple[np.ndarray, States]:
        """Row r reads tokens[r], continues states[parent[r]], is of sentence_ids[r] -> outputs [R, H], states
        after."""

    def best_tokens(self, outputs: np.ndarray, first_token: int, places: int) -> tuple[np.ndarray, np.ndarray]:
        """Of the last step's outputs: at most `places` most probable tokens of each row [R, K] and their
        log-probabilities, best first; -1 where there are no more."""

    def log_probs(self, outputs: np.ndarray) -> np.ndarray:
        """Of the last step's outputs: the log-probabilities of all tokens of each row [R, V]; the array may be written
        to."""


class SearchDecoder(Decoder, Protocol):
    """A decoder that can say whether a whole search over it is one computation."""

    def begin_loop(self, settings: BeamSettings) -> CompiledBeam | None:
        """Return the plain search as one computation; None where it has to go step by step."""

    def narrowed(self) -> tuple[OutputLayer, CandidateLists, np.ndarray] | None:
        """Return the output layer of all candidates of the sentences admitted, their lists, and the ids, rising, of the
        sentences that have them; None where there are no candidates."""


class SearchModel(Protocol):
    """What search asks of a model."""

    @property
    def device(self) -> Device:
        """Return where it computes."""

    def search_decoder(self, threads: int | None = None, coverage_of: int = 0) -> SearchDecoder:
        """Return its decoder, a step at a time. With coverage_of, the longest source in tokens with EOS, there is a
        state
        `coverage`: the attention each source position has got, -1 where there is none."""

    def block_decoder(self, src_ids: TokenIds, K: int, coverage_of: int = 0) -> Any:
        """Return its decoder for these sentences with K rows each, on a GPU; the sentences are encoded."""


class ScoringModel(SearchModel, Protocol):
    """A model that can score given translations, too."""

    def forced_log_probs(
        self, src_ids: TokenIds, tgt_ids: TokenIds, *, attention: bool = False, threads: int | None = None
    ) -> ForcedScores:
        """Return the log-probabilities [T] of given tokens (EOS among them where it is meant) of each source (without
        EOS) and, with `attention`, the attention [T, S] with which they were predicted, S counting EOS; arrays of the
        host."""


@dataclass
class Beam:
    """The state of the search. One row per live hypothesis; rows of a sentence are neighbours, the best one first."""

    states: States  # [P, n], of rows that have been continued
    parent: np.ndarray  # int64 [R], which of these each row continues
    tokens: np.ndarray  # int32 [R], the last token
    sums: np.ndarray  # float64 [R], what continuations are compared by: log-probability so far, and what rules add
    sentence: np.ndarray  # int64 [R]
    words: np.ndarray  # int32 [R, W], all tokens so far
    extra: dict[str, np.ndarray] = field(default_factory=dict)  # [R, ...], what the selector keeps of each row

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Block:
    """Sentences that come in together: their numbers [B], source ids and, where there is a shortlist, candidates."""

    sentences: np.ndarray
    src_ids: list[list[int]]
    candidates: list[np.ndarray] | None = None


class Search(Protocol):
    """A search as those see it who choose its next tokens. Tokens below `first_token` and `never` are not produced."""

    decoder: Decoder
    first_token: int
    never: int

    def room(self, sentence: np.ndarray) -> np.ndarray:
        """Free places in these sentences' beams."""

    def steps(self, sentence: np.ndarray) -> np.ndarray:
        """Return how many tokens the hypotheses of these sentences have."""
