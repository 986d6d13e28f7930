"""The model's decoder as search wants it: a step at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nmt.model.forced import pad_sources, positions, rounded_up
from nmt.rnn.cells import CoverageCell
from nmt.rnn.fixed_stepper import FixedStepper
from nmt.rnn.stepper import Stepper
from nmt.rnn.workspace import Fresh, Workspace
from nmt.special_tokens import BOS_ID, EOS_ID

if TYPE_CHECKING:
    from nmt.model.language import LanguageModel
    from nmt.model.network import Network
    from nmt.model.translation import TranslationModel
    from nmt.rnn.beam_state import BeamState
    from nmt.rnn.scan import Scan

States = dict[str, np.ndarray]


class StepDecoder:
    """A network's decoder, a step at a time: what search asks of a model, but for taking sentences in."""

    def __init__(self, network: Network, threads: int, scan: Scan | None = None) -> None:
        """`scan`: instead of the network's decoder, with the same parameters."""
        self.network, self.threads = network, threads
        self.eos_id = EOS_ID
        self._stepper = Stepper(scan or network.decoder, network.weights.view("decoder"))

    def step(
        self, tokens: np.ndarray, states: States, parent: np.ndarray, names: np.ndarray
    ) -> tuple[np.ndarray, States]:
        """Rows tokens [R] continuing states[parent] of the sentences names [R] -> outputs [R, H] and states after."""
        words, word = np.unique(tokens, return_inverse=True)
        x = self.network.embed("tgt", words, self.threads, Fresh())
        return self._stepper.step(x, states, names, word=word, parent=parent)

    def best_tokens(self, outputs: np.ndarray, first_token: int, places: int) -> tuple[np.ndarray, np.ndarray]:
        """The most probable tokens of each row [R, K] and their log-probabilities, best first; -1 where there are no
        more."""
        places = min(places, self.network.vocab_sizes["tgt"])
        return self.network.device.best_tokens(outputs, self.network.output_layer, first_token, places, self.threads)

    def log_probs(self, outputs: np.ndarray) -> np.ndarray:
        """The log-probabilities of all tokens [R, V], for rules that change them."""
        return self.network.device.log_probs(outputs, self.network.output_layer, self.threads)


class ModelDecoder(StepDecoder):
    """The model's decoder, a step at a time, for sentences that come and go."""

    def __init__(self, model: TranslationModel, threads: int, coverage_of: int = 0) -> None:
        self.model = model
        self._positions = rounded_up(coverage_of)
        scan = model.decoder.around(CoverageCell(model.decoder.cell, self._positions)) if coverage_of else model.decoder
        self._states = scan.states
        super().__init__(model, threads, scan)

    def admit(self, src_ids: Sequence[Sequence[int]]) -> tuple[np.ndarray, States, np.ndarray]:
        """Encode sentences (ids without EOS). Returns their names [B], and the states and token before the first
        step, one row a sentence."""
        src, lengths = pad_sources(src_ids)
        source = self.model.encode(src, lengths, self.threads)
        captured = {"memory": source.memory}
        if self._positions:
            captured["positions"] = positions(source.memory, self._positions)
        names = self._stepper.admit(captured, source.lengths)
        zero = {name: np.zeros((len(names), width), self.model.dtype) for name, width in self._states.items()}
        if self._positions:
            zero["coverage"][np.arange(self._positions)[None] >= source.lengths[:, None]] = -1
        return names, zero | source.states, np.full(len(names), BOS_ID, np.int32)

    def release(self, names: np.ndarray) -> None:
        """These sentences are translated."""
        self._stepper.release(names)


class LanguageDecoder(StepDecoder):
    """A language model a step at a time. The sentences are texts, maybe empty, that it goes on from."""

    def __init__(self, model: LanguageModel, threads: int) -> None:
        super().__init__(model, threads)
        self.model, self._count = model, 0

    def admit(self, src_ids: Sequence[Sequence[int]]) -> tuple[np.ndarray, States, np.ndarray]:
        """Read texts. Returns their names [B], and the states and token before the first step, one row a text."""
        names = np.arange(self._count, self._count + len(src_ids))
        self._count += len(src_ids)
        last = np.array([ids[-1] if len(ids) else EOS_ID for ids in src_ids], np.int32)
        return names, self.model.continue_from(src_ids, self.threads), last

    def release(self, names: np.ndarray) -> None:
        """Nothing is kept of texts but their rows' states."""


class BlockDecoder:
    """The model's decoder for a block of sentences that stay until all have ended, K rows each: search on a card."""

    def __init__(self, model: TranslationModel, src_ids: Sequence[Sequence[int]], K: int, first_token: int) -> None:
        self.model, self.first = model, BOS_ID
        self._first_token, self._places = first_token, min(K + 1, model.vocab_sizes["tgt"])
        source = model.encode(*pad_sources(src_ids))
        weights, captured = model.weights.view("decoder"), {"memory": source.memory}
        self._stepper = FixedStepper(model.decoder, weights, captured, source.lengths, source.states, K)
        self._memory = Workspace(model.device.xp)

    def step(self, beams: BeamState, *, never: int, n_best: int) -> None:
        """Extend every live hypothesis by one token, and keep the best; the host waits for nothing."""
        model, stepper = self.model, self._stepper
        model.embed_into("tgt", beams.tokens, stepper.x, 1)
        self._memory.reset()
        found = model.device.best_tokens(
            stepper.step(), model.output_layer, self._first_token, self._places, 1, self._memory
        )
        model.device.beam_step(*found, beams, eos=EOS_ID, never=never, n_best=n_best)
        stepper.follow(beams.parents)
