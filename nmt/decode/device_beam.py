"""Beam search that stays on a card: sentences in blocks of fixed size, a step of all beams without the host.

The rules are those of `beam.BeamCell`, so that translations are the same; what differs is who does the work. There a
sentence that ends makes room for the next one; here a block of sentences of like lengths runs until all have ended. The
host asks now and then whether they have, and reads the translations of a block at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.decode.beam import Hypothesis
from nmt.decode.blocks import length_blocks
from nmt.decode.penalty import LengthPenalty, length_divisor
from nmt.rnn.beam_state import BeamState

if TYPE_CHECKING:
    from nmt.model import TranslationModel

STEPS_BETWEEN_LOOKS = 8
"""Steps after which the host looks whether all sentences have ended: it costs a wait, and late news costs steps."""


def search_in_blocks(
    model: TranslationModel,
    src_ids: Sequence[Sequence[int]],
    limits: np.ndarray,
    *,
    beam_size: int,
    length_penalty: LengthPenalty,
    n_best: int,
    batch_size: int,
    first_token: int,
    never: int,
    on_ended: Callable[[int], None] | None,
) -> list[list[Hypothesis]]:
    """The n best translations of each sentence; see `search.search`. limits [N]: most tokens of a translation."""
    found: list[list[Hypothesis]] = [[] for _ in src_ids]
    for block in length_blocks(src_ids, batch_size):
        numbers = np.array(block)
        top = int(limits[numbers].max())
        decoder = model.block_decoder([src_ids[n] for n in block], beam_size, first_token)
        beams = BeamState.start(
            model.device.xp,
            limits=limits[numbers],
            K=beam_size,
            token=decoder.first,
            divisors=length_divisor(length_penalty, np.arange(top + 1)),
        )
        for step in range(top):
            if step % STEPS_BETWEEN_LOOKS == 0 and not int(model.device.download(beams.going)[0]):
                break
            decoder.step(beams, never=never, n_best=n_best)
        for n, hypotheses in zip(block, _read(model.device, beams, beam_size), strict=True):
            whole = hypotheses if limits[n] > 0 else [Hypothesis([], 0.0, 0.0, False)]
            found[n] = sorted(whole, key=lambda h: (not h.finished, -h.score))[:n_best]
        if on_ended is not None:
            on_ended(len(block))
    return found


def _read(device: Any, beams: BeamState, K: int) -> list[list[Hypothesis]]:
    """Each sentence's hypotheses in the order in which they ended."""
    words = device.download(device.trace_back(beams)).tolist()
    given = (beams.end_steps, beams.end_sums, beams.end_scores, beams.end_finished)
    columns = (device.download(array).reshape(-1).tolist() for array in given)
    ended = [
        Hypothesis(row[: steps - finished], log_prob, score, bool(finished)) if steps else None
        for row, steps, log_prob, score, finished in zip(words, *columns, strict=True)
    ]
    return [[h for h in ended[at : at + K] if h is not None] for at in range(0, len(ended), K)]
