"""Translate batches of token ids with a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nmt.decode.beam import BeamCell, Decoder, Hypothesis, run
from nmt.decode.penalty import LengthPenalty
from nmt.rnn.kernels.threads import default_threads
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
    threads: int | None = None,
) -> list[list[Hypothesis]]:
    """The n best translations of each sentence (ids without EOS), best first; the batch is translated at once.

    A translation has at most `max_length_ratio` times as many tokens as its source, plus `max_length_extra`, EOS
    counted. The result does not depend on what else is in the batch nor on the number of threads.
    """
    if not src_ids:
        return []
    threads = threads or default_threads()
    limits = np.array([int(max_length_ratio * len(s)) + max_length_extra for s in src_ids], np.int64)
    decoder: Decoder = model.decoder_for(src_ids, threads)
    cell = BeamCell(decoder, limits, beam_size, length_penalty, n_best, UNK_ID, BOS_ID, threads)
    return run(cell)
