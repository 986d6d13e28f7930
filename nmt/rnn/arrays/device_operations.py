"""Operations that one kind of device has: the processor, with rows of logits that Python may change and lists of
candidates, or a GPU, with a search of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nmt.rnn.arrays.beam_state import BeamChoice, BeamRules, BeamState
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Allocate

Array = Any
"""An array of a device, of the type of its `xp`."""


@dataclass(frozen=True)
class OutputLayer:
    """outputs @ matrix + bias: two of `weights` by name, matrix [H, V], or [V, H] where it is `tied` to an embedding;
    `packed` is the type of the products (see weights.packed_dtype)."""

    weights: Weights
    matrix: str
    bias: str
    tied: bool
    packed: np.dtype


@dataclass(frozen=True)
class OutputGradients:
    """Arrays for the gradients of an output layer: h [R, H] is overwritten, matrix and bias are added to."""

    h: Array
    matrix: Array
    bias: Array


@dataclass(frozen=True)
class CandidateLists:
    """Lists of tokens that rows may choose among, and the list of each row.

    ids: int32 [U], the tokens that the columns of a narrowed output layer stand for, in rising order. places: int32,
    the columns of all lists one after another, each list rising; list n is places[starts[n] : starts[n + 1]]. bias:
    the bias of each place. row_lists: int64 [R]. longest: entries of the longest list. All are host arrays.
    """

    ids: np.ndarray
    places: np.ndarray
    bias: np.ndarray
    starts: np.ndarray
    row_lists: np.ndarray
    longest: int


class ProcessorOperations(ABC):
    """Operations of the processor alone: see `Device.processor`."""

    @abstractmethod
    def each_logits(
        self,
        h: Array,
        layer: OutputLayer,
        fill: Callable[[np.ndarray, slice], None],
        gradients: OutputGradients | None,
        threads: int,
    ) -> None:
        """Call `fill` with the logits of a few rows of h [R, H] at a time.

        `fill` gets logits [n, V] and the slice of their rows; with gradients, it replaces the logits by the derivative
        of the loss with respect to them.
        """

    @abstractmethod
    def best_candidates(
        self, outputs: Array, layer: OutputLayer, lists: CandidateLists, first: int, places: int, threads: int
    ) -> tuple[Array, Array]:
        """Return `best_tokens` within the list of each row; the layer has the columns `lists.ids`.

        Log-probabilities are normalised over the list, and their bits depend only on the row and its list.
        """

    @abstractmethod
    def candidate_log_probs(
        self, outputs: Array, layer: OutputLayer, lists: CandidateLists, vocab_size: int, threads: int
    ) -> Array:
        """Return `log_probs` within the list of each row [R, vocab_size], -inf elsewhere.

        They are bit-identical to those of `best_candidates`.
        """


class SearchOperations(ABC):
    """A search on a GPU: see `Device.search`."""

    @abstractmethod
    def choose_tokens(
        self, log_probs: Array, rules: BeamRules, state: BeamState, places: int, allocate: Allocate
    ) -> tuple[Array, Array, Array]:
        """Return the `places` best tokens of each row of log-probabilities [R, V] under the rules.

        If the rules draw, the one token drawn (`places` is 1). The log-probabilities may be overwritten. Returns tokens
        [R, places], -1 where there are no more; their scores; and their log-probabilities.
        """

    @abstractmethod
    def beam_step(
        self,
        tokens: Array,
        scores: Array,
        plain: Array,
        state: BeamState,
        choice: BeamChoice,
        rules: BeamRules | None = None,
    ) -> None:
        """Extend every live hypothesis by one token and keep the best, in place.

        tokens, scores and log-probabilities (`plain`) come from `best_tokens` or `choose_tokens`; `rules` are those
        given to `choose_tokens`, whose history of tokens is updated.
        """

    @abstractmethod
    def average_log_probs(self, arrays: Sequence[Array], kind: Literal["log_prob", "prob"]) -> Array:
        """Average several models' log-probabilities or probabilities into the first array."""

    @abstractmethod
    def trace_back(self, state: BeamState) -> Array:
        """Return the tokens of all ended hypotheses, int32 [N * K, T], including the last one.

        The entries after a hypothesis's end are arbitrary.
        """
