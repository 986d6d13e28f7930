"""Given translations put through the model: what probability each token has, and what it attends to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.rnn.arrays.workspace import Fresh
from nmt.rnn.cells import AttentionProbe
from nmt.special_tokens import BOS_ID, EOS_ID, PAD_ID

if TYPE_CHECKING:
    from nmt.model.network import Network
    from nmt.model.translation import TranslationModel
    from nmt.rnn.device import Device

_ROWS = 256
"""Rows whose log-probabilities of all tokens exist at a time."""

_STEP = 32
"""Lengths that attention is read out for are multiples of this, so that few programs serve all."""


def force(
    model: TranslationModel,
    src_ids: Sequence[Sequence[int]],
    tgt_ids: Sequence[Sequence[int]],
    attention: bool,
    threads: int,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Log-probabilities of target tokens, and the attention weights with which they were predicted.

    src_ids: sources without EOS. tgt_ids: tokens to force, EOS among them where it is meant. Returns arrays [T] for
    each sentence and, with `attention`, arrays [T, S], S counting EOS, all of the host.
    """
    src, src_lengths = pad_sources(src_ids)
    source = model.encode(src, src_lengths, threads)
    tgt_in, tgt_out, lengths = pad_targets(tgt_ids)
    device, captured, width = model.device, {"memory": source.memory}, model.decoder.cell.output_size
    forward = model.decoder.forward
    if attention:
        count = rounded_up(len(src))
        captured["positions"] = positions(device, source.memory, count)
        probe = model.step_decoder.around(AttentionProbe(model.decoder.cell, count))
        forward = probe.forward
    y = forward(
        model.weights.view("decoder"),
        model.embed_sequence("tgt", tgt_in, threads, Fresh(device.xp)),
        source.states,
        lengths=lengths,
        captured=captured,
        source_lengths=source.lengths,
        label="decoder",
        threads=threads,
    ).y
    scores = token_log_probs(model, y[..., :width], tgt_out, lengths, threads)
    if not attention:
        return scores, []
    shown = device.download(y[..., width:])
    return scores, [shown[:n, i, : len(s) + 1] for i, (n, s) in enumerate(zip(lengths, src_ids, strict=True))]


def token_log_probs(
    model: Network, y: np.ndarray, tgt_out: np.ndarray, lengths: np.ndarray, threads: int
) -> list[np.ndarray]:
    """The log-probability of each row's first lengths[b] tokens of tgt_out [T, B] of the host, for outputs y [T, B, H]
    of the model's device; arrays of the host."""
    device = model.device
    b = np.repeat(np.arange(len(lengths)), lengths)
    t = np.concatenate([np.arange(n) for n in lengths.tolist()]) if len(lengths) else np.zeros(0, np.int64)
    scores = np.empty(len(b), model.dtype)
    for start in range(0, len(b), _ROWS):
        rows = slice(start, start + _ROWS)
        outputs = device.xp.ascontiguousarray(y[device.index(t[rows]), device.index(b[rows])])
        everything = device.log_probs(outputs, model.output_layer, threads)
        wanted = device.index(np.arange(len(everything))), device.index(tgt_out[t[rows], b[rows]])
        scores[rows] = device.download(everything[wanted])
    return np.split(scores, np.cumsum(lengths)[:-1])


def positions(device: Device, memory: Any, count: int) -> Any:
    """What `AttentionProbe` reads for memory [S, B, M]: [S, B, count]."""
    S, B, _ = memory.shape
    unit = np.broadcast_to(np.eye(S, count, dtype=memory.dtype)[:, None], (S, B, count))
    return device.upload(np.ascontiguousarray(unit))


def rounded_up(count: int) -> int:
    """The width that attention over so many positions is read out with."""
    return -(-count // _STEP) * _STEP


def pad_sources(sentences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Source ids with EOS, time-major and padded: [S, B] and lengths [B]."""
    lengths = np.array([len(s) + 1 for s in sentences], np.int64)
    src = np.full((int(lengths.max(initial=1)), len(sentences)), PAD_ID, np.int32)
    for b, sentence in enumerate(sentences):
        src[: len(sentence), b] = sentence
        src[len(sentence), b] = EOS_ID
    return src, lengths


def pad_targets(sentences: Sequence[Sequence[int]], first: int = BOS_ID) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the decoder reads, the token `first` before the others, and is to say, [T, B] each, and lengths [B]."""
    lengths = np.array([len(s) for s in sentences], np.int64)
    tgt_in = np.full((int(lengths.max(initial=0)), len(sentences)), PAD_ID, np.int32)
    tgt_out = tgt_in.copy()
    for b, sentence in enumerate(sentences):
        tgt_out[: len(sentence), b] = sentence
        tgt_in[: len(sentence), b] = [first, *sentence][: len(sentence)]
    return tgt_in, tgt_out, lengths
