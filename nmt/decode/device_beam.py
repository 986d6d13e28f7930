"""Beam search that stays on a GPU: sentences in blocks of fixed size, with steps that need no host.

The rules are those of `beam.BeamCell` and its selectors, so translations are the same; only the schedule differs. On
the processor, a sentence that ends makes room for the next one; here a block of sentences of similar lengths runs until
all have ended. The host polls every few steps whether they have, and reads the translations of a block at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.decode.ensemble import Ensemble
from nmt.decode.hypotheses import Hypothesis, SearchModel, best_of, length_blocks
from nmt.decode.rules.options import SearchOptions, beam_settings
from nmt.decode.rules.selectors import sample_keys
from nmt.rnn.arrays.beam_state import BeamRules, BeamSettings, BeamState
from nmt.rnn.kernels.search.search_rules import tokens_wanted
from nmt.special_tokens import EOS_ID, UNK_ID

if TYPE_CHECKING:
    from nmt.rnn.device import Device

STEPS_BETWEEN_LOOKS = 8
"""Steps between two checks of the host whether all sentences have ended: a check costs a wait, a late one wasted
steps."""

STEPS_PLAIN = 2
"""Steps launched one by one before recording: the first allocates memory and compiles, in the second memory is in its
final place."""


@dataclass(frozen=True)
class BlockSearch:
    """A search on a GPU."""

    model: SearchModel
    options: SearchOptions

    @property
    def device(self) -> Device:
        """Return the device of the model."""
        return self.model.device

    def run(
        self,
        src_ids: Sequence[Sequence[int]],
        limits: np.ndarray,
        *,
        batch_size: int,
        on_ended: Callable[[int], None] | None,
    ) -> list[list[Hypothesis]]:
        """Return the n best translations of sentences, of at most limits [N] tokens; see `search.search`."""
        found: list[list[Hypothesis]] = [[] for _ in src_ids]
        for block in length_blocks(src_ids, batch_size):
            hypotheses = self._block(src_ids, block, limits[block])
            for n, ended in zip(block, hypotheses, strict=True):
                whole = ended if limits[n] > 0 else [Hypothesis([], 0.0, 0.0, False)]
                found[n] = best_of(whole, self.options.n_best)
            if on_ended is not None:
                on_ended(len(block))
        return found

    def _block(self, src_ids: Sequence[Sequence[int]], block: list[int], limits: np.ndarray) -> list[list[Hypothesis]]:
        """Return the hypotheses of the sentences of one block."""
        sources, top, K = [src_ids[n] for n in block], int(limits.max()), self.options.beam_size
        decoder, settings = self.model.block_decoder(sources, K), beam_settings(self.options, len(block), top)
        beams = BeamState.start(
            self.device.xp,
            limits=limits,
            K=K,
            token=decoder.first,
            divisors=settings.divisors,
            live=K if self.options.sampling else 1,
        )
        rules = self._rules(src_ids, block, settings, max(1, top))

        def launch() -> None:
            self._step(decoder, beams, settings, rules)

        for step in range(top):
            if step % STEPS_BETWEEN_LOOKS == 0 and not int(self.device.download(beams.going)[0]):
                break
            if step == STEPS_PLAIN and decoder.repeats:  # no array has moved: the same launches on the same arrays
                launch = self.device.record(launch)
            launch()
        return _read(self.device, beams, K)

    def _step(self, decoder: Any, beams: BeamState, settings: BeamSettings, rules: BeamRules | None) -> None:
        """Extend every live hypothesis by one token and keep the best; the host does not wait."""
        outputs, places = decoder.step(beams.tokens), tokens_wanted(settings.beam_size)
        if rules is None:
            tokens, scores = decoder.best_tokens(outputs, UNK_ID, places)
            plain = scores
        else:
            log_probs = decoder.log_probs(outputs)
            places = min(places, log_probs.shape[1])
            tokens, scores, plain = self.device.search.choose_tokens(log_probs, rules, beams, places, decoder.memory)
        self.device.search.beam_step(tokens, scores, plain, beams, settings, rules)
        decoder.follow(beams.parents)

    def _rules(
        self, src_ids: Sequence[Sequence[int]], block: list[int], settings: BeamSettings, T: int
    ) -> BeamRules | None:
        """Return the rules of a block, or None if the best tokens of the output layer are all that is needed."""
        options = self.options
        plain = options.generate_unk and not options.sampling and not options.rules(EOS_ID)
        if plain and not isinstance(self.model, Ensemble):
            return None
        keys = sample_keys([src_ids[n] for n in block], options.sampling_seed) if options.sampling else None
        return BeamRules.make(self.device, options.token_rules(block), settings, T, keys=keys)


def _read(device: Device, beams: BeamState, K: int) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence in the order in which they ended."""
    ids = device.download(device.search.trace_back(beams)).tolist()
    given = (beams.end_steps, beams.end_log_probs, beams.end_scores, beams.end_finished)
    columns = (device.download(array).reshape(-1).tolist() for array in given)
    ended = [
        Hypothesis(row[: steps - finished], log_prob, score, bool(finished)) if steps else None
        for row, steps, log_prob, score, finished in zip(ids, *columns, strict=True)
    ]
    return [[h for h in ended[at : at + K] if h is not None] for at in range(0, len(ended), K)]
