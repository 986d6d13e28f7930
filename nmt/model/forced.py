"""Forced decoding: the probabilities of the tokens of given translations, and their attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nmt.model.batch_pass import pad_targets, positions, rounded_up
from nmt.model.copying import Copies, source_rows
from nmt.rnn.arrays.workspace import Fresh
from nmt.special_tokens import boundary_ids

if TYPE_CHECKING:
    from nmt.model.network import Network
    from nmt.model.source_encoder import Source
    from nmt.rnn.scan.scan import Scan

TokenIds = Sequence[Sequence[int]]
"""Token ids of each sentence."""
ForcedScores = tuple[list[np.ndarray], list[np.ndarray]]
"""Log-probabilities [T] of each sentence's tokens, and attention [T, S] if it was requested."""

_ROWS = 256
"""Rows whose log-probabilities of all tokens are in memory at a time."""


def forced_log_probs(
    model: Network, source: Source, tgt_ids: TokenIds, probe: Callable[[int], Scan], *, attention: bool, threads: int
) -> ForcedScores:
    """Return the log-probabilities of target tokens, and the attention weights with which they were predicted.

    source: the encoded sentences. tgt_ids: the tokens of each, with EOS if it is to be scored. probe: returns the
    decoder that appends its attention to so many positions to its outputs. Returns arrays [T] for each sentence and,
    with `attention`, arrays [T, S] where S includes EOS, all on the host; there are no attention arrays if the model
    has no attention.
    """
    tgt_in, tgt_out, lengths = pad_targets(tgt_ids)
    device, captured, width = model.device, {"memory": source.memory}, model.decoder.cell.output_size
    forward = model.decoder.forward
    attention = attention and model.config.decoder.attention != "none"
    copies = model.config.decoder.copy_source
    if attention or copies:
        count = rounded_up(len(source.memory))
        captured["positions"] = positions(device, source.memory, count)
        forward = probe(count).forward
    y = forward(
        model.weights.view("decoder"),
        model.embed_sequence("tgt", tgt_in, threads, Fresh(device.xp)),
        source.states,
        lengths=lengths,
        captured=captured,
        source_lengths=source.lengths,
        threads=threads,
    ).y
    b = np.repeat(np.arange(len(lengths)), lengths)
    t = np.concatenate([np.arange(n) for n in lengths.tolist()]) if len(lengths) else np.zeros(0, np.int64)
    found = np.empty(len(b), model.dtype)
    for start in range(0, len(b), _ROWS):
        rows = slice(start, start + _ROWS)
        own = y if copies else y[..., :width]
        outputs = device.xp.ascontiguousarray(own[device.index(t[rows]), device.index(b[rows])])
        if copies:
            h, mixture = Copies.split(outputs, source_rows(source.ids, b[rows]), width)
            everything = mixture.mixed(device.log_probs(h, model.output_layer, threads))
        else:
            everything = device.log_probs(outputs, model.output_layer, threads)
        wanted = device.index(np.arange(len(everything))), device.index(tgt_out[t[rows], b[rows]])
        found[rows] = device.download(everything[wanted])
    scores = np.split(found, np.cumsum(lengths)[:-1])
    if not attention:
        return scores, []
    shown = device.download(y[..., width:])
    weights = [shown[:n, i, :s] for i, (n, s) in enumerate(zip(lengths, source.lengths, strict=True))]
    return scores, [_to_words_and_end(one, model.config.encoder.boundaries) for one in weights]


def _to_words_and_end(weights: np.ndarray, boundaries: str) -> np.ndarray:
    """Return attention [T, positions] as [T, S], where S are the source tokens and EOS, for any boundary tokens: the
    attention that no word receives goes to the last column."""
    before, after = boundary_ids(boundaries)
    if boundaries == "eos":
        return weights
    words = weights[:, len(before) : weights.shape[1] - len(after)]
    outer = [weights[:, : len(before)], weights[:, weights.shape[1] - len(after) :]]
    rest = np.concatenate(outer, axis=1).sum(1, keepdims=True)
    return np.concatenate([words, rest.astype(weights.dtype)], axis=1)
