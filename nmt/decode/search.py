"""Translate token ids with a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nmt.decode.beam import BeamCell, Decoder, Hypothesis, run
from nmt.decode.blocks import length_blocks
from nmt.decode.penalty import LengthPenalty
from nmt.special_tokens import BOS_ID, UNK_ID

if TYPE_CHECKING:
    from nmt.model import TranslationModel


def search(
    model: TranslationModel,
    src_ids: Sequence[Sequence[int]],
    *,
    beam_size: int = 5,
    length_penalty: LengthPenalty = 1.0,
    n_best: int = 1,
    max_length_ratio: float = 2.0,
    max_length_extra: int = 10,
    batch_size: int | None = None,
    threads: int | None = None,
    on_ended: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """The n best translations of each sentence (ids without EOS), best first.

    `batch_size` sentences are in work at a time (all of them where None): when one ends the next one joins. A
    translation has at most `max_length_ratio` times as many tokens as its source, plus `max_length_extra`, EOS
    counted. The result depends neither on what else is in work nor on the number of threads. `on_ended` is called
    with the number of sentences that have ended since its last call; it may raise to stop.
    """
    if not src_ids:
        return []
    limits = np.array([int(max_length_ratio * len(s)) + max_length_extra for s in src_ids], np.int64)
    decoder: Decoder = model.search_decoder(threads)
    cell = BeamCell(decoder, limits, beam_size, length_penalty, n_best, UNK_ID, BOS_ID)
    size = batch_size or len(src_ids)
    blocks = ((np.array(block), [list(src_ids[n]) for n in block]) for block in length_blocks(src_ids, size))
    found: list[list[Hypothesis]] = [[] for _ in src_ids]
    for n, hypotheses in run(cell, blocks, size):
        found[n] = hypotheses
        if on_ended is not None:
            on_ended(1)
    return found
