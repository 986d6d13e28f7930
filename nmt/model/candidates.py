"""The output layer restricted to the candidates of the sentences being translated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nmt.rnn.arrays.device_operations import CandidateLists, OutputLayer
from nmt.rnn.arrays.quantised import Quantised
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.device import Device


@dataclass
class NarrowOutput:
    """An output layer over the union of the candidates of sentences that come and go.

    Rows of the matrix are gathered when sentences are admitted. The probabilities of a sentence are normalised over its
    candidates only: the other sentences do not change a bit of them.
    """

    device: Device
    layer: OutputLayer
    threads: int
    _live: dict[int, np.ndarray] = field(default_factory=dict)

    def admit(self, sentence_ids: np.ndarray, candidates: Sequence[np.ndarray]) -> None:
        """Add sentences [B] with their candidates, sorted int32 arrays that are not empty."""
        self._live |= dict(zip(sentence_ids.tolist(), candidates, strict=True))
        self._sentence_ids = np.fromiter(self._live, np.int64)
        lists = list(self._live.values())
        every = np.concatenate(lists)
        used = np.zeros(len(self.layer.weights[self.layer.bias]), np.bool_)
        used[every] = True
        self._ids = np.flatnonzero(used).astype(np.int32)
        place = np.zeros(len(used), np.int32)
        place[self._ids] = np.arange(len(self._ids))
        self._places = place[every]
        self._bias = self.layer.weights[self.layer.bias][every]
        self._starts = np.concatenate([[0], np.cumsum([len(tokens) for tokens in lists])])
        self._longest = max(map(len, lists))
        self._narrow = narrowed(self.layer, self._ids)

    def release(self, sentence_ids: np.ndarray) -> None:
        """Remove sentences; their candidates leave the layer when the next sentences are admitted."""
        for sentence_id in sentence_ids.tolist():
            del self._live[sentence_id]

    def best_tokens(
        self, outputs: np.ndarray, sentence_ids: np.ndarray, first: int, places: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the best candidates of each row, for sentence_ids [R]; see `Decoder.best_tokens`."""
        lists = self._lists(sentence_ids)
        return self.device.processor.best_candidates(outputs, self._narrow, lists, first, places, self.threads)

    def log_probs(self, outputs: np.ndarray, sentence_ids: np.ndarray) -> np.ndarray:
        """Return log-probabilities, -inf for all tokens but the candidates of a row; see `Decoder.log_probs`."""
        vocab_size = len(self.layer.weights[self.layer.bias])
        lists = self._lists(sentence_ids)
        return self.device.processor.candidate_log_probs(outputs, self._narrow, lists, vocab_size, self.threads)

    @property
    def narrow(self) -> OutputLayer:
        """Return the layer of all candidates."""
        return self._narrow

    @property
    def sentence_ids(self) -> np.ndarray:
        """Return the sorted ids of the sentences that have candidate lists."""
        return self._sentence_ids

    @property
    def lists(self) -> CandidateLists:
        """Return the lists of all candidates, without any rows."""
        return self._lists(self._sentence_ids[:0])

    def _lists(self, sentence_ids: np.ndarray) -> CandidateLists:
        of = np.searchsorted(self._sentence_ids, sentence_ids)
        return CandidateLists(self._ids, self._places, self._bias, self._starts, of, self._longest)


def narrowed(layer: OutputLayer, ids: np.ndarray) -> OutputLayer:
    """Return an output layer of these tokens only: rows of its matrix, which is stored by token if it is tied;
    otherwise a transposed copy is kept with the original. With int8, the numbers and scales are those of the whole
    layer."""
    weights = layer.weights
    stored = weights.quantised(layer.matrix)
    rows = weights[layer.matrix] if stored is None else stored.numbers
    if not layer.tied:
        rows = weights.derived(layer.matrix, ("by token",), lambda former: np.ascontiguousarray(rows.T))
    own = Weights({"b": weights[layer.bias][ids]})
    if stored is None:
        own["W"] = rows[ids]
    else:
        own.hold_quantised("W", Quantised(rows[ids], stored.scales[ids], by_rows=True))
    return OutputLayer(own, "W", "b", True, layer.packed)
