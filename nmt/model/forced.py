"""Given translations put through the model: what probability each token has, and what it attends to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nmt.errors import DeviceError
from nmt.rnn.cells import AttentionProbe
from nmt.rnn.workspace import Fresh
from nmt.special_tokens import BOS_ID, EOS_ID, PAD_ID

if TYPE_CHECKING:
    from nmt.model.network import Network
    from nmt.model.translation import TranslationModel

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
    each sentence and, with `attention`, arrays [T, S], S counting EOS. Raises DeviceError for a model on a card.
    """
    if model.device.name != "cpu":
        raise DeviceError(
            f"scoring: must run on the processor, got the device {model.device.name}; use --device cpu, every model "
            "runs there"
        )
    src, src_lengths = pad_sources(src_ids)
    source = model.encode(src, src_lengths, threads)
    tgt_in, tgt_out, lengths = _pad_targets(tgt_ids)
    captured, scan, width = {"memory": source.memory}, model.decoder, model.decoder.cell.output_size
    if attention:
        count = rounded_up(len(src))
        captured["positions"] = positions(source.memory, count)
        scan = scan.around(AttentionProbe(scan.cell, count))
        scan.threads = threads
    y = scan.forward(
        model.weights.view("decoder"),
        model.embed("tgt", tgt_in, threads, Fresh()),
        source.states,
        lengths=lengths,
        captured=captured,
        source_lengths=source.lengths,
        label="decoder",
    ).y
    scores = token_log_probs(model, y[..., :width], tgt_out, lengths, threads)
    weights = [y[:n, i, width : width + len(s) + 1] for i, (n, s) in enumerate(zip(lengths, src_ids, strict=True))]
    return scores, weights if attention else []


def token_log_probs(
    model: Network, y: np.ndarray, tgt_out: np.ndarray, lengths: np.ndarray, threads: int
) -> list[np.ndarray]:
    """The log-probability of each row's first lengths[b] tokens of tgt_out [T, B], for outputs y [T, B, H]."""
    b = np.repeat(np.arange(len(lengths)), lengths)
    t = np.concatenate([np.arange(n) for n in lengths.tolist()]) if len(lengths) else np.zeros(0, np.int64)
    scores = np.empty(len(b), model.dtype)
    for start in range(0, len(b), _ROWS):
        rows = slice(start, start + _ROWS)
        outputs = np.ascontiguousarray(y[t[rows], b[rows]])
        everything = model.device.log_probs(outputs, model.output_layer, threads)
        scores[rows] = everything[np.arange(len(everything)), tgt_out[t[rows], b[rows]]]
    return np.split(scores, np.cumsum(lengths)[:-1])


def positions(memory: np.ndarray, count: int) -> np.ndarray:
    """What `AttentionProbe` reads for memory [S, B, M]: [S, B, count]."""
    S, B, _ = memory.shape
    return np.ascontiguousarray(np.broadcast_to(np.eye(S, count, dtype=memory.dtype)[:, None], (S, B, count)))


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


def _pad_targets(sentences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the decoder reads and is to say, [T, B] each, and lengths [B]."""
    lengths = np.array([len(s) for s in sentences], np.int64)
    tgt_in = np.full((int(lengths.max(initial=0)), len(sentences)), PAD_ID, np.int32)
    tgt_out = tgt_in.copy()
    for b, sentence in enumerate(sentences):
        tgt_out[: len(sentence), b] = sentence
        tgt_in[: len(sentence), b] = [BOS_ID, *sentence][: len(sentence)]
    return tgt_in, tgt_out, lengths
