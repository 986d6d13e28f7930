"""Decoders for the search: a model's decoder, one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.model.batch_pass import positions, rounded_up
from nmt.model.copying import Copies
from nmt.rnn import tuning
from nmt.rnn.arrays.device_operations import CandidateLists, OutputLayer
from nmt.rnn.arrays.weights import Quantised, Weights
from nmt.rnn.arrays.workspace import Idle, Workspace
from nmt.rnn.cell import axes_of
from nmt.rnn.cells import AttentionProbe
from nmt.rnn.kernels.memory.arrays import distinct
from nmt.rnn.kernels.products.packing import packed_output
from nmt.rnn.kernels.search.candidates import best_candidates, candidate_log_probs
from nmt.rnn.kernels.search.choose import top_tokens
from nmt.rnn.stepping.stepper import FixedStepper, Stepper
from nmt.special_tokens import BOS_ID, EOS_ID, PAD_ID

if TYPE_CHECKING:
    from nmt.model.network import Network
    from nmt.model.source_encoder import Source
    from nmt.rnn.arrays.beam_state import BeamSettings
    from nmt.rnn.stepping.compiled_beam import CompiledBeam


@dataclass
class NarrowOutput:
    """An output layer over the union of the candidates of sentences that come and go. Rows of the matrix are gathered
    when sentences are admitted. The probabilities of a sentence are normalised over its candidates only: the other
    sentences do not change a bit of them."""

    layer: OutputLayer
    threads: int
    _live: dict[int, np.ndarray] = field(default_factory=dict)
    narrow: OutputLayer = field(init=False)
    """The layer of all candidates."""
    sentence_ids: np.ndarray = field(init=False)
    """The sorted ids of the sentences that have candidate lists."""

    def admit(self, sentence_ids: np.ndarray, candidates: Sequence[np.ndarray]) -> None:
        """Add sentences [B] with their candidates, sorted int32 arrays that are not empty."""
        self._live |= dict(zip(sentence_ids.tolist(), candidates, strict=True))
        self.sentence_ids = np.fromiter(self._live, np.int64)
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
        self.narrow = narrowed(self.layer, self._ids)

    def release(self, sentence_ids: np.ndarray) -> None:
        """Remove sentences; their candidates leave the layer when the next sentences are admitted."""
        for sentence_id in sentence_ids.tolist():
            del self._live[sentence_id]

    def best_tokens(
        self, outputs: np.ndarray, sentence_ids: np.ndarray, first: int, places: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the best candidates of each row, for sentence_ids [R]; see `Decoder.best_tokens`."""
        weights, lists = packed_output(self.narrow, self.threads), self.lists(sentence_ids)
        return best_candidates(outputs, weights, lists, first, places, self.threads)

    def log_probs(self, outputs: np.ndarray, sentence_ids: np.ndarray) -> np.ndarray:
        """Return log-probabilities, -inf for all tokens but the candidates of a row; see `Decoder.log_probs`."""
        weights, lists = packed_output(self.narrow, self.threads), self.lists(sentence_ids)
        return candidate_log_probs(outputs, weights, lists, len(self.layer.weights[self.layer.bias]), self.threads)

    def lists(self, sentence_ids: np.ndarray) -> CandidateLists:
        """Return the lists of all candidates, for rows of these sentences."""
        of = np.searchsorted(self.sentence_ids, sentence_ids)
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


States = dict[str, np.ndarray]

Encode = Callable[[Sequence[Sequence[int]], int, Workspace], "Source"]
"""Encodes sentences (ids without EOS) with a number of threads, into a workspace; the rows stay in order."""

Steps = tuple[Stepper, "CompiledBeam | None"]
"""Prepared steps for one search at a time, and the compiled search around them once there has been one."""
_MOST_IDLE = 8
"""The maximum number of idle steppers that are kept for each number of threads."""


class ModelDecoder:
    """The decoder of a translation model, one step at a time, for sentences that come and go."""

    def __init__(self, network: Network, encode: Encode, threads: int, width: int = 0) -> None:
        """Prepare the steps; `encode` encodes sentences. width: positions of the longest source if it copies, or 0."""
        self.network, self.threads, self.eos_id = network, threads, EOS_ID
        self._encode, self._positions = encode, rounded_up(width)
        step, weights = network.step_decoder, network.weights.view("decoder")
        copies = network.config.decoder.copy_source
        if copies:
            step = step.around(AttentionProbe(step.cell, self._positions))
        self._sources: dict[int, np.ndarray] | None = {} if copies else None
        idle: Idle[Steps] = Idle(lambda: (Stepper(step, weights, threads), None), _MOST_IDLE)
        self._idle: Idle[Steps] = idle if copies else network.idle_steppers.setdefault(threads, idle)
        self._stepper, self._loop = self._idle.take()
        self._table = network.positions.get("tgt")
        # With position embeddings, a state counts the steps.
        self._states = step.states | ({"place": 1} if self._table else {})
        self._narrow: NarrowOutput | None = None
        self._memory = Workspace(network.device.xp, tuning.SENTENCE_BYTES)  # for the input of a step
        self._sources_memory = Workspace(network.device.xp, tuning.SENTENCE_BYTES)  # for sentences that are admitted
        self._sentence_ids = np.zeros(0, np.int64)  # the sentence of each row of the last step

    def admit(
        self, src_ids: Sequence[Sequence[int]], candidates: Sequence[np.ndarray] | None = None
    ) -> tuple[np.ndarray, States, np.ndarray]:
        """Encode sentences (ids without EOS); either all of them have candidates (see `Decoder.admit`) or none. Returns
        their ids [B], and the states and tokens before the first step, one row per sentence."""
        # New memory for each block would be mapped page by page, which takes as long as half of the computation.
        self._sources_memory.reset()
        source = self._encode(src_ids, self.threads, self._sources_memory)
        captured = {"memory": source.memory}
        if self._positions:
            captured["positions"] = positions(self.network.device, source.memory, self._positions)
        sentence_ids = self._stepper.admit(captured, source.lengths)
        if candidates is not None:
            self._narrow = self._narrow or NarrowOutput(self.network.output_layer, self.threads)
            self._narrow.admit(sentence_ids, candidates)
        if self._sources is not None:
            missing = self._positions - len(source.ids)
            ids = np.pad(source.ids.T, ((0, 0), (0, missing)), constant_values=PAD_ID)
            self._sources |= dict(zip(sentence_ids.tolist(), ids, strict=True))
        count, dtype = len(sentence_ids), self.network.dtype
        zero = {name: np.zeros((count, *axes_of(width)), dtype) for name, width in self._states.items()}
        states = {name: state.copy() for name, state in source.states.items()}
        if self._sources_memory.nbytes > tuning.KEPT_SOURCE_BYTES:
            self._sources_memory.release()
        return sentence_ids, zero | states, np.full(len(sentence_ids), BOS_ID, np.int32)

    def release(self, sentence_ids: np.ndarray) -> None:
        """Release these sentences, which have been translated."""
        self._stepper.release(sentence_ids)
        if self._narrow is not None:
            self._narrow.release(sentence_ids)
        if self._sources is not None:
            for n in sentence_ids.tolist():
                del self._sources[n]

    def begin_loop(self, settings: BeamSettings) -> CompiledBeam:
        """Return the search of this decoder as one compiled computation; see `Network.loop_obstacle`."""
        if self._loop is None:
            from nmt.rnn.stepping.compiled_beam import CompiledBeam

            self._loop = CompiledBeam(self._stepper, self.network.output_layer, self.threads)
        table, scale = self.network.embedding("tgt")
        self._loop.begin(settings, table, scale)
        return self._loop

    def narrowed(self) -> tuple[OutputLayer, CandidateLists, np.ndarray] | None:
        """Return the output layer restricted to the candidates of all admitted sentences, the candidate lists, and the
        sorted ids of the sentences that have candidates; None if there are no candidates."""
        narrow = self._narrow
        return None if narrow is None else (narrow.narrow, narrow.lists(narrow.sentence_ids[:0]), narrow.sentence_ids)

    def close(self) -> None:
        """End the search and keep its prepared steps for the next one, without the memory of many rows."""
        self._stepper.rest()
        if self._loop is not None and not self._loop.is_small:
            self._loop = None
        self._idle.give((self._stepper, self._loop))

    def step(
        self, tokens: np.ndarray, states: States, parent: np.ndarray, sentence_ids: np.ndarray
    ) -> tuple[np.ndarray, States]:
        """Return the outputs [R, H] and the new states for rows that read tokens [R], continue states[parent] and
        belong to sentence_ids [R]."""
        self._sentence_ids = sentence_ids
        self._memory.reset()
        if self._table is None:
            words, word = distinct(tokens)
            x = self.network.embed("tgt", words, self.threads, self._memory)
            return self._stepper.step(x, states, sentence_ids, word=word, parent=parent)
        place = states["place"][parent]
        words, word = np.unique(np.stack([tokens, place[:, 0].astype(tokens.dtype)]), axis=1, return_inverse=True)
        x = self.network.embed("tgt", words[0], self.threads, self._memory)
        x += self._table.rows(self.network.weights, words[1])
        y, after = self._stepper.step(x, states, sentence_ids, word=word.reshape(-1), parent=parent)
        return y, after | {"place": place + 1}

    def best_tokens(self, outputs: np.ndarray, first_token: int, places: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the best tokens of each row [R, K] and their log-probabilities, in order; missing tokens are -1."""
        network = self.network
        if self._sources is not None or network.actions is not None:
            scores = self.log_probs(outputs)
            scores[:, :first_token] = -np.inf
            return top_tokens(scores, places)
        places = min(places, network.vocab_sizes["tgt"])
        if self._narrow is not None:
            return self._narrow.best_tokens(outputs, self._sentence_ids, first_token, places)
        return network.device.best_tokens(outputs, network.output_layer, first_token, places, self.threads)

    def log_probs(self, outputs: np.ndarray) -> np.ndarray:
        """Return the log-probabilities of all tokens [R, V], for rules that change them."""
        network, h, copies = self.network, outputs, None
        if network.actions is not None:
            h = np.ascontiguousarray(outputs[:, :-1])
        elif self._sources is not None:
            read, place = np.unique(self._sentence_ids, return_inverse=True)
            ids = np.stack([self._sources[n] for n in read.tolist()])[place]
            h, copies = Copies.split(outputs, ids, network.step_decoder.cell.output_size)
        if self._narrow is not None:
            found = self._narrow.log_probs(h, self._sentence_ids)
        else:
            found = network.device.log_probs(h, network.output_layer, self.threads)
        if network.actions is not None:
            return network.actions.possible(found, outputs[:, -1].astype(np.int64))
        return found if copies is None else copies.mixed(found)


class BlockDecoder:
    """A network's decoder for search on a GPU: sentences of a block stay until all have ended, with K rows each."""

    def __init__(self, network: Network, source: Source, K: int) -> None:
        """Prepare the steps for encoded sentences."""
        weights, captured = network.weights.view("decoder"), {"memory": source.memory}
        self._stepper = FixedStepper(network.step_decoder, weights, captured, source.lengths, dict(source.states), K)
        self.network = network
        self.first = np.full(len(source.lengths), BOS_ID, np.int32)
        """The tokens before the first step, on the host."""
        self._table, self._steps = network.positions.get("tgt"), 0
        self.repeats = self._table is None
        """Whether all steps are the same launches: not if the host supplies a position embedding for each step."""
        self.memory = Workspace(network.device.xp)  # for one step

    def step(self, tokens: Any) -> Any:
        """Return the output [R, H] for the last tokens [R], int32; the host does not wait."""
        self.network.embed_into("tgt", tokens, self._stepper.x, 1)
        if self._table is not None:
            self._stepper.x += self._table.rows(self.network.weights, np.array([self._steps]))
            self._steps += 1
        self.memory.reset()
        return self._stepper.step()

    def best_tokens(self, outputs: Any, first_token: int, places: int) -> tuple[Any, Any]:
        """Return the best tokens of each row, valid until the next step; see `ModelDecoder.best_tokens`."""
        layer, places = self.network.output_layer, min(places, self.network.vocab_sizes["tgt"])
        return self.network.device.best_tokens(outputs, layer, first_token, places, 1, self.memory)

    def log_probs(self, outputs: Any) -> Any:
        """Return the log-probabilities of all tokens, valid until the next step; see `ModelDecoder.log_probs`."""
        return self.network.device.log_probs(outputs, self.network.output_layer, 1, self.memory)

    def follow(self, parents: Any) -> None:
        """Reorder the states: row r continues from row parents[r] of the last step."""
        self._stepper.follow(parents)
