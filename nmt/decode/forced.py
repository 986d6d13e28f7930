"""Forced decoding: the model scores given tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmt.decode.hypotheses import ScoringModel, length_blocks


@dataclass(frozen=True)
class Forced:
    """log_probs [T] of the tokens of a translation, with EOS last if it has ended; attention [T, S] to the source
    tokens and EOS, None if it was not requested or the model has none."""

    log_probs: np.ndarray
    attention: np.ndarray | None


def force(
    model: ScoringModel,
    src_ids: Sequence[Sequence[int]],
    tgt_ids: Sequence[Sequence[int]],
    *,
    attention: bool = False,
    batch_size: int = 64,
    threads: int | None = None,
) -> list[Forced]:
    """Return the scores of given tokens (with EOS if it is to be scored) for each source (without EOS)."""
    found: list[Forced | None] = [None] * len(src_ids)
    lengths = [range(max(len(s), len(t))) for s, t in zip(src_ids, tgt_ids, strict=True)]
    for block in length_blocks(lengths, batch_size):
        there = [n for n in block if len(tgt_ids[n])]
        for n in block:
            if not len(tgt_ids[n]):
                empty = np.zeros((0, len(src_ids[n]) + 1), np.float32)
                found[n] = Forced(np.zeros(0, np.float32), empty if attention else None)
        if not there:
            continue
        scores, weights = model.forced_log_probs(
            [src_ids[n] for n in there], [tgt_ids[n] for n in there], attention=attention, threads=threads
        )
        for i, n in enumerate(there):
            found[n] = Forced(scores[i], weights[i] if weights else None)
    return [f for f in found if f is not None]
