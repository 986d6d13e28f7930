"""Data structures of the search: hypotheses, beams, and the protocols of decoders and models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from nmt.rnn.arrays.beam_state import BeamSettings
    from nmt.rnn.arrays.device_operations import CandidateLists, OutputLayer
    from nmt.rnn.device import Device
    from nmt.rnn.kernels.search.token_rules import TokenRules
    from nmt.rnn.stepping.compiled_beam import CompiledBeam

States = dict[str, np.ndarray]
TokenIds = Sequence[Sequence[int]]
"""Token ids of each sentence."""
ForcedScores = tuple[list[np.ndarray], list[np.ndarray]]
"""Log-probabilities [T] of each sentence's tokens, and attention [T, S] if it was requested."""


@dataclass(frozen=True)
class Hypothesis:
    """A translation: its token ids without EOS, the sum of its log-probabilities (including EOS), and the score by
    which it is ranked. `finished` is False if it was truncated at the maximum length."""

    ids: list[int]
    log_prob: float
    score: float
    finished: bool

    @property
    def length(self) -> int:
        """Return the number of tokens that `log_prob` is the sum of."""
        return len(self.ids) + self.finished


def best_of(hypotheses: list[Hypothesis], n_best: int) -> list[Hypothesis]:
    """Return the n best hypotheses: finished ones first, then by score; ties keep their order."""
    return sorted(hypotheses, key=lambda h: (not h.finished, -h.score))[:n_best]


class Decoder(Protocol):
    """The methods of a model's decoder that the search calls. The decoder assigns an id to every admitted sentence."""

    eos_id: int

    def admit(
        self, src_ids: list[list[int]], candidates: list[np.ndarray] | None = None
    ) -> tuple[np.ndarray, States, np.ndarray]:
        """Encode sentences and return their ids [B], and the states and tokens before the first step, one row per
        sentence. `candidates` has a sorted int32 array for each: only these tokens may be produced, all others have no
        probability."""

    def release(self, sentence_ids: np.ndarray) -> None:
        """Release the resources of these sentences; they will not be used again."""

    def close(self) -> None:
        """Close the decoder; it will not be used again."""

    def step(
        self, tokens: np.ndarray, states: States, parent: np.ndarray, sentence_ids: np.ndarray
    ) -> tuple[np.ndarray, States]:
        """Run one step and return the outputs [R, H] and the new states. Row r reads tokens[r], continues
        states[parent[r]] and belongs to sentence_ids[r]."""

    def best_tokens(self, outputs: np.ndarray, first_token: int, places: int) -> tuple[np.ndarray, np.ndarray]:
        """Return at most `places` most probable tokens of each row [R, K] and their log-probabilities, best first, for
        the outputs of the last step; missing tokens are -1."""

    def log_probs(self, outputs: np.ndarray) -> np.ndarray:
        """Return the log-probabilities [R, V] of all tokens for the last outputs; the caller may write to them."""


class LoopDecoder(Decoder, Protocol):
    """A decoder that can run a whole search as one compiled computation."""

    def begin_loop(self, settings: BeamSettings) -> CompiledBeam:
        """Return the plain search as one compiled computation."""

    def narrowed(self) -> tuple[OutputLayer, CandidateLists, np.ndarray] | None:
        """Return the output layer restricted to the candidates of all admitted sentences, the candidate lists, and the
        sorted ids of the sentences that have candidates; None if there are no candidates."""


class SearchModel(Protocol):
    """The methods of a model that the search calls."""

    @property
    def device(self) -> Device:
        """Return the device on which the model computes."""

    @property
    def loop_obstacle(self) -> str:
        """Return why the decoder of the model is not a `LoopDecoder`, in words; an empty string if it is one."""

    def written(self, ids: list[int]) -> list[int]:
        """Return the tokens of the target that the ids of a hypothesis write: the same, unless they are edits."""

    def search_decoder(self, threads: int | None = None, longest: int = 0) -> Decoder:
        """Return a decoder that runs step by step, for sources of at most `longest` tokens with EOS."""

    def block_decoder(self, src_ids: TokenIds, K: int) -> Any:
        """Encode these sentences and return a GPU decoder for them, with K rows per sentence."""


class LoopModel(SearchModel, Protocol):
    """A model without a `loop_obstacle`."""

    def search_short(
        self, src_ids: TokenIds, limits: np.ndarray, settings: BeamSettings, threads: int, rules: TokenRules | None
    ) -> list[list[tuple[list[int], float, float, bool]]] | None:
        """Return the hypotheses of each sentence as a compiled loop would (`CompiledBeam.ended`), in one call; None if
        the model does not for these sentences. The rules are followed."""


class ScoringModel(SearchModel, Protocol):
    """A model that can also score given translations."""

    def forced_log_probs(
        self, src_ids: TokenIds, tgt_ids: TokenIds, *, attention: bool = False, threads: int | None = None
    ) -> ForcedScores:
        """Return the log-probabilities [T] of the given target tokens (with EOS if it is to be scored) for each source
        (without EOS), as arrays on the host; with `attention`, also the attention weights [T, S] of each pair, where S
        includes EOS."""


@dataclass
class Beam:
    """The state of the search, with one row per live hypothesis. The rows of a sentence are adjacent, best first."""

    states: States  # [P, n], states of the parent rows
    parent: np.ndarray  # int64 [R], the parent row that each row continues
    tokens: np.ndarray  # int32 [R], the last token
    sums: np.ndarray  # float64 [R], sums that continuations are compared by: log-probabilities, and what rules add
    sentence: np.ndarray  # int64 [R]
    history: np.ndarray  # int32 [R, W], all tokens so far
    extra: dict[str, np.ndarray] = field(default_factory=dict)  # [R, ...], state of the selector for each row

    def __len__(self) -> int:
        return len(self.tokens)

    def chosen(self, rows: np.ndarray) -> Beam:
        """Return these rows, which continue the same states."""
        own = self.parent[rows], self.tokens[rows], self.sums[rows], self.sentence[rows], self.history[rows]
        return Beam(self.states, *own, {name: v[rows] for name, v in self.extra.items()})


@dataclass(frozen=True)
class Block:
    """Sentences that are admitted together: indices [B], source ids and candidates, if there is a shortlist."""

    sentences: np.ndarray
    src_ids: list[list[int]]
    candidates: list[np.ndarray] | None = None


class Search(Protocol):
    """The part of a search that selectors see. Tokens below `first_token`, and BOS, are not produced. room, steps:
    int64 [N], the free places in the beam of each sentence, and the length in tokens of its hypotheses."""

    decoder: Decoder
    first_token: int
    room: np.ndarray
    steps: np.ndarray


_TOKENS_PER_SENTENCE = 200
"""A block contains at most batch_size times this many source subwords, so that long lines come in smaller blocks and
memory stays bounded."""


def length_blocks(ids: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
    """Yield blocks of row indices of similar lengths, the longest first. With the longest first, a lack of memory shows
    at once and not at the end; and at the end, when nothing follows that could fill the batch, the sentences are
    short."""
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    start = 0
    while start < len(order):
        longest = max(1, len(ids[order[start]]))
        size = max(1, min(batch_size, batch_size * _TOKENS_PER_SENTENCE // longest))
        yield order[start : start + size]
        start += size
