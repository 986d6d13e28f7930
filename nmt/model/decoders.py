"""The model's decoder as search wants it: a step at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.model.candidates import NarrowOutput
from nmt.model.parts.padding import positions, rounded_up
from nmt.rnn import tuning
from nmt.rnn.arrays.workspace import Workspace
from nmt.rnn.cells import CoverageCell
from nmt.rnn.kernels.memory.runs import distinct
from nmt.rnn.profile import operation
from nmt.rnn.stepping.fixed_stepper import FixedStepper
from nmt.rnn.stepping.search_steps import SearchSteps
from nmt.rnn.stepping.stepper import Stepper
from nmt.special_tokens import BOS_ID, EOS_ID

if TYPE_CHECKING:
    from nmt.model.network import Network
    from nmt.model.source_encoder import Source
    from nmt.rnn.device import CandidateLists, OutputLayer
    from nmt.rnn.scan.scan import Scan
    from nmt.rnn.stepping.beam_settings import BeamSettings
    from nmt.rnn.stepping.compiled_beam import CompiledBeam

States = dict[str, np.ndarray]

Encode = Callable[[Sequence[Sequence[int]], int], "Source"]
"""Encodes sentences (ids without EOS) on so many threads; rows stay in their order."""
Read = Callable[[Sequence[Sequence[int]], int], States]
"""Reads texts, each up to its last token, on so many threads: the states [B, n] after that by name."""

_MOST_IDLE = 8
"""Steppers that wait for a search of so many threads; others are made anew."""


class StepDecoder:
    """A network's decoder, a step at a time: what search asks of a model, but for taking sentences in."""

    def __init__(self, network: Network, threads: int, scan: Scan | None = None) -> None:
        """`scan`: instead of the network's step, with the same parameters."""
        self.network, self.threads = network, threads
        self.eos_id = EOS_ID
        self._idle = network.idle_steppers.setdefault(threads, []) if scan is None else []
        # Taking from and adding to a list are each one step for the interpreter.
        try:
            self._steps = self._idle.pop()
        except IndexError:
            stepper = Stepper(scan or network.step_decoder, network.weights.view("decoder"), threads)
            self._steps = SearchSteps(stepper)
        self._stepper = self._steps.stepper
        self._table = network.positions.get("tgt")
        # Where a decoder is told its position, a state counts the steps.
        self._counted = {"place": 1} if self._table else {}
        self._narrow: NarrowOutput | None = None
        self._memory = Workspace(network.device.xp, tuning.SENTENCE_BYTES)  # of a step's input
        self._sentence_ids = np.zeros(0, np.int64)  # of the sentences of the last step's rows

    def _narrow_to(self, sentence_ids: np.ndarray, candidates: Sequence[np.ndarray] | None) -> None:
        """These sentences come in, with candidates (see `Decoder.admit`) for all that come or for none."""
        if candidates is not None:
            self._narrow = self._narrow or NarrowOutput(self.network.device, self.network.output_layer, self.threads)
            self._narrow.admit(sentence_ids, candidates)

    def release(self, sentence_ids: np.ndarray) -> None:
        """These sentences are not asked for any more."""
        if self._narrow is not None:
            self._narrow.release(sentence_ids)

    def begin_loop(self, settings: BeamSettings) -> CompiledBeam | None:
        """Return the search of this decoder as one computation; None where a step wants more than the engine's."""
        scan = self._stepper.scan
        plain = scan.device.name == "cpu" and self._table is None and not scan.checks.sequences
        if not plain or scan is not self.network.step_decoder:
            return None
        if self._steps.loop is None:
            from nmt.rnn.stepping.compiled_beam import CompiledBeam

            self._steps.loop = CompiledBeam(self._stepper, self.network.output_layer, self.threads)
        table, scale = self.network.embedding("tgt")
        self._steps.loop.begin(settings, table, scale)
        return self._steps.loop

    def narrowed(self) -> tuple[OutputLayer, CandidateLists, np.ndarray] | None:
        """Return the output layer of all candidates of the sentences that `admit` took in, their lists, and the ids of
        the sentences that have them, rising; None where there are no candidates."""
        narrow = self._narrow
        return None if narrow is None else (narrow.narrow, narrow.lists, narrow.sentence_ids)

    def close(self) -> None:
        """The search is over: what was prepared for its steps is the next one's."""
        self._steps.rest()
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(self._steps)

    def step(
        self, tokens: np.ndarray, states: States, parent: np.ndarray, sentence_ids: np.ndarray
    ) -> tuple[np.ndarray, States]:
        """Return rows tokens [R] continuing states[parent] of sentence_ids [R] -> outputs [R, H] and states after."""
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
        """Return the most probable tokens of each row [R, K] and their log-probabilities, best first; -1 where there
        are no more."""
        places = min(places, self.network.vocab_sizes["tgt"])
        with operation("output layer: best tokens"):
            if self._narrow is not None:
                return self._narrow.best_tokens(outputs, self._sentence_ids, first_token, places)
            layer = self.network.output_layer
            return self.network.device.best_tokens(outputs, layer, first_token, places, self.threads)

    def log_probs(self, outputs: np.ndarray) -> np.ndarray:
        """Return the log-probabilities of all tokens [R, V], for rules that change them."""
        with operation("output layer: log-probabilities"):
            if self._narrow is not None:
                return self._narrow.log_probs(outputs, self._sentence_ids)
            return self.network.device.log_probs(outputs, self.network.output_layer, self.threads)


class ModelDecoder(StepDecoder):
    """The model's decoder, a step at a time, for sentences that come and go."""

    def __init__(self, network: Network, encode: Encode, threads: int, coverage_of: int = 0) -> None:
        """`encode` reads sentences."""
        self._encode, self._positions = encode, rounded_up(coverage_of)
        own = network.step_decoder
        scan = own.around(CoverageCell(own.cell, self._positions)) if coverage_of else None
        super().__init__(network, threads, scan)
        self._states = (scan or own).states | self._counted

    def admit(
        self, src_ids: Sequence[Sequence[int]], candidates: Sequence[np.ndarray] | None = None
    ) -> tuple[np.ndarray, States, np.ndarray]:
        """Encode sentences (ids without EOS), with candidates (see `Decoder.admit`) for all that come or for none.
        Returns their ids [B], and the states and token before the first step, one row a sentence."""
        source = self._encode(src_ids, self.threads)
        captured = {"memory": source.memory}
        if self._positions:
            captured["positions"] = positions(self.network.device, source.memory, self._positions)
        sentence_ids = self._stepper.admit(captured, source.lengths)
        self._narrow_to(sentence_ids, candidates)
        zero = {name: np.zeros((len(sentence_ids), width), self.network.dtype) for name, width in self._states.items()}
        if self._positions:
            zero["coverage"][np.arange(self._positions)[None] >= source.lengths[:, None]] = -1
        return sentence_ids, zero | source.states, np.full(len(sentence_ids), BOS_ID, np.int32)

    def release(self, sentence_ids: np.ndarray) -> None:
        """These sentences are translated."""
        self._stepper.release(sentence_ids)
        super().release(sentence_ids)


class LanguageDecoder(StepDecoder):
    """A language model a step at a time. The sentences are texts, maybe empty, that it goes on from."""

    def __init__(self, network: Network, read: Read, threads: int) -> None:
        """`read` gives the states after all tokens but the last of each text."""
        super().__init__(network, threads)
        self._read, self._count = read, 0

    def admit(
        self, src_ids: Sequence[Sequence[int]], candidates: Sequence[np.ndarray] | None = None
    ) -> tuple[np.ndarray, States, np.ndarray]:
        """Read texts, with candidates as of `ModelDecoder.admit`. Returns their ids [B], and the states and token
        before the first step, one row a text. Nothing is kept of texts but their rows' states."""
        sentence_ids = np.arange(self._count, self._count + len(src_ids))
        self._count += len(src_ids)
        self._narrow_to(sentence_ids, candidates)
        return sentence_ids, self._read(src_ids, self.threads), last_tokens(src_ids)


class BlockDecoder:
    """A network's decoder for a block of sentences that stay until all have ended, K rows each: search on a GPU."""

    def __init__(self, network: Network, stepper: FixedStepper, first: np.ndarray) -> None:
        """`first`: the tokens before the first step, int32 [N], of the host."""
        self.network, self.first, self._stepper = network, first, stepper
        self._table, self._steps = network.positions.get("tgt"), 0
        self.memory = Workspace(network.device.xp)  # of a step

    @property
    def repeats(self) -> bool:
        """Return whether all steps are the same launches: not where the host says what is added at each position."""
        return self._table is None

    def step(self, tokens: Any) -> Any:
        """Return the output [R, H] for the last tokens [R], int32; the host waits for nothing."""
        self.network.embed_into("tgt", tokens, self._stepper.x, 1)
        if self._table is not None:
            self._stepper.x += self._table.rows(self.network.weights, np.array([self._steps]))
            self._steps += 1
        self.memory.reset()
        return self._stepper.step()

    def best_tokens(self, outputs: Any, first_token: int, places: int) -> tuple[Any, Any]:
        """See `StepDecoder`; until the next step."""
        layer, places = self.network.output_layer, min(places, self.network.vocab_sizes["tgt"])
        return self.network.device.best_tokens(outputs, layer, first_token, places, 1, self.memory)

    def log_probs(self, outputs: Any) -> Any:
        """See `StepDecoder`; until the next step."""
        return self.network.device.log_probs(outputs, self.network.output_layer, 1, self.memory)

    def coverage(self) -> Any:
        """Return what each source position [R, n] has got, after the last step; -1 where there is none."""
        return self._stepper.state("coverage")

    def follow(self, parents: Any) -> None:
        """Row r goes on from what row parents[r] became in the last step."""
        self._stepper.follow(parents)


def translation_block(network: Network, source: Source, K: int, coverage_of: int = 0) -> BlockDecoder:
    """For these sentences. With `coverage_of`, the longest source in tokens with EOS, the decoder keeps the attention
    that each source position has got."""
    scan, device = network.step_decoder, network.device
    captured, states = {"memory": source.memory}, dict(source.states)
    if coverage_of:
        count = rounded_up(coverage_of)
        scan = scan.around(CoverageCell(scan.cell, count))
        captured["positions"] = positions(device, source.memory, count)
        there = np.arange(count)[None] < source.lengths[:, None]
        states["coverage"] = device.upload(np.where(there, 0, -1).astype(network.dtype))
    stepper = FixedStepper(scan, network.weights.view("decoder"), captured, source.lengths, states, K)
    return BlockDecoder(network, stepper, np.full(len(source.lengths), BOS_ID, np.int32))


def language_block(network: Network, texts: Sequence[Sequence[int]], states: States, K: int) -> BlockDecoder:
    """For these texts, maybe empty, which were read up to their last tokens: the states after that."""
    ones = np.ones(len(texts), np.int64)  # as if each had one source position: no cell looks at any
    stepper = FixedStepper(network.step_decoder, network.weights.view("decoder"), {}, ones, states, K)
    return BlockDecoder(network, stepper, last_tokens(texts))


def last_tokens(texts: Sequence[Sequence[int]]) -> np.ndarray:
    """Return what is to be read when all else of texts has been, int32 [B]: EOS where a text is empty."""
    return np.array([text[-1] if len(text) else EOS_ID for text in texts], np.int32)
