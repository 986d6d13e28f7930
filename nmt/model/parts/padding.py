"""Padding of sentences, and rounded widths that need few compiled programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.special_tokens import BOS_ID, PAD_ID, boundary_ids

if TYPE_CHECKING:
    from nmt.rnn.device import Device

_WIDTH = 32
"""Widths at which attention is recorded are multiples of this, so that few compiled programs serve all."""


def positions(device: Device, memory: Any, count: int) -> Any:
    """Return the input of `AttentionProbe` for memory [S, B, M]: [S, B, count]."""
    S, B, _ = memory.shape
    unit = np.broadcast_to(np.eye(S, count, dtype=memory.dtype)[:, None], (S, B, count))
    return device.upload(np.ascontiguousarray(unit))


def rounded_up(count: int) -> int:
    """Return the width at which attention over `count` positions is recorded."""
    return -(-count // _WIDTH) * _WIDTH


def pad_sources(sentences: Sequence[Sequence[int]], boundaries: str = "eos") -> tuple[np.ndarray, np.ndarray]:
    """Return source ids with their boundary tokens (see `boundary_ids`), time-major and padded: [S, B], and lengths
    [B]."""
    before, after = boundary_ids(boundaries)
    more = len(before) + len(after)
    lengths = np.array([len(s) + more for s in sentences], np.int64)
    src = np.full((max(1, int(lengths.max(initial=1))), len(sentences)), PAD_ID, np.int32)
    for b, sentence in enumerate(sentences):
        src[: lengths[b], b] = [*before, *sentence, *after]
    return src, lengths


def pad_targets(sentences: Sequence[Sequence[int]], first: int = BOS_ID) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the decoder's input tokens, which begin with `first`, and the tokens to predict, [T, B] each, and lengths
    [B]."""
    lengths = np.array([len(s) for s in sentences], np.int64)
    tgt_in = np.full((int(lengths.max(initial=0)), len(sentences)), PAD_ID, np.int32)
    tgt_out = tgt_in.copy()
    for b, sentence in enumerate(sentences):
        tgt_out[: len(sentence), b] = sentence
        tgt_in[: len(sentence), b] = [first, *sentence][: len(sentence)]
    return tgt_in, tgt_out, lengths
