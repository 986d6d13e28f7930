"""Copying of source tokens: the pointer-generator (See, Liu and Manning 2017, "Get To The Point: Summarization with
Pointer-Generator Networks", section 2.2).

The probability of token v is g P(v) + (1 - g) C(v): P is the distribution of the output layer, C(v) the attention that
the source positions of token v receive, and g the gate that the decoder computes (`AttentionCell`, `generates`). Both
sides share a vocabulary, so that a source token has the same id on the target side. Sums run over source positions in
their order, so that they do not depend on padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import DeviceError
from nmt.rnn.device import Device, OutputGradients, OutputLayer
from nmt.special_tokens import PAD_ID

if TYPE_CHECKING:
    from nmt.config import ModelConfig

_LEAST = 1e-30
"""The least probability: smaller ones are raised to it, so that their logarithm is finite."""


@dataclass(frozen=True)
class Copies:
    """The sources of copies: the gate of each row [R], its attention weights [R, n], and the tokens at the positions
    [R, n], which are below V."""

    gate: np.ndarray
    weights: np.ndarray
    ids: np.ndarray

    @classmethod
    def split(cls, outputs: np.ndarray, ids: np.ndarray, width: int) -> tuple[np.ndarray, Copies]:
        """Return the input of the output layer [R, width - 1], and the copies, from outputs [R, width + n] of a decoder
        with an `AttentionProbe`; ids [R, S] with S at most n."""
        weights = outputs[:, width:]
        ids = np.pad(ids, ((0, 0), (0, weights.shape[1] - ids.shape[1])), constant_values=PAD_ID)
        return np.ascontiguousarray(outputs[:, : width - 1]), cls(outputs[:, width - 1], weights, ids)

    def rows(self, part: slice) -> Copies:
        """Return those of some rows."""
        return Copies(self.gate[part], self.weights[part], self.ids[part])

    def attention_by_token(self, vocab_size: int) -> np.ndarray:
        """Return the attention that each token of the vocabulary receives, float64 [R, V]."""
        rows = len(self.ids)
        places = self.ids + np.arange(rows)[:, None] * vocab_size
        summed = np.bincount(places.reshape(-1), self.weights.reshape(-1), rows * vocab_size)
        return summed.reshape(rows, vocab_size)

    def mixed(self, log_probs: np.ndarray) -> np.ndarray:
        """Return the log-probabilities of all tokens [R, V], given those of the output layer; those of tokens with
        neither are -inf."""
        gate = self.gate[:, None].astype(np.float64)
        copied = self.attention_by_token(log_probs.shape[1])
        with np.errstate(divide="ignore"):
            return np.log(gate * np.exp(log_probs) + (1 - gate) * copied).astype(log_probs.dtype)


def copy_loss(
    device: Device,
    layer: OutputLayer,
    h: np.ndarray,
    copies: Copies,
    targets: np.ndarray,
    label_smoothing: float,
    into: OutputGradients | None,
    scale: float,
    threads: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cross entropy of the mixed distribution, and its gradients with respect to the gates and the weights.

    The target distribution q is 1 - label_smoothing at the target plus label_smoothing / V everywhere. With m = g P +
    (1 - g) C and r = q / m, the derivative of the loss is P * sum(g P r) - g P r with respect to the logits, sum of (C
    - P) r with respect to g, and -(1 - g) r at its token with respect to an attention weight.

    Args:
        device, layer: The device, which must be the processor, and the output layer.
        h: [R, H], the input of the output layer.
        targets: int [R].
        into: Gradients of h (overwritten) and of the layer (added to), None for none.
        scale: A factor of the gradients only.
        threads: Cores to use.

    Returns:
        Sums over the rows, float64 [3]: negative log-likelihood, smoothed loss, rows whose target is the most probable
        token; the gradients of the gates [R] and of the weights [R, n].
    """
    sums = np.zeros(3)
    d_gate, d_weights = np.zeros_like(copies.gate), np.zeros_like(copies.weights)

    def fill(logits: np.ndarray, part: slice) -> None:
        one, wanted = copies.rows(part), targets[part]
        row, vocab_size = np.arange(len(logits)), logits.shape[1]
        gate = one.gate[:, None].astype(np.float64)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True), dtype=np.float64)
        generated = powers / powers.sum(axis=1, keepdims=True)
        copied = one.attention_by_token(vocab_size)
        mixed = np.maximum(gate * generated + (1 - gate) * copied, _LEAST)
        surprise = -np.log(mixed)
        nll = surprise[row, wanted].sum()
        sums[0] += nll
        sums[1] += (1 - label_smoothing) * nll + label_smoothing * surprise.mean(axis=1).sum()
        sums[2] += np.count_nonzero(mixed.argmax(axis=1) == wanted)
        if into is None:
            return
        ratio = (label_smoothing / vocab_size) / mixed
        ratio[row, wanted] += (1 - label_smoothing) / mixed[row, wanted]
        d_gate[part] = scale * ((copied - generated) * ratio).sum(axis=1)
        d_weights[part] = -scale * (1 - gate) * ratio[row[:, None], one.ids]
        shares = gate * generated * ratio
        logits[...] = scale * (generated * shares.sum(axis=1, keepdims=True) - shares)

    device.each_logits(h, layer, fill, into, threads)
    return sums, d_gate, d_weights


def check_copying(config: ModelConfig, device: Device) -> None:
    """Raise DeviceError if a decoder is to copy on a GPU."""
    if config.decoder.copy_source and not device.is_cpu:
        raise DeviceError(
            f"model.decoder.copy_source: must be false on a GPU, got true on the device {device.name}; use --device cpu"
        )


def source_rows(src: Any, sentence: np.ndarray) -> np.ndarray:
    """Return the source tokens of rows that read these sentences: [R, S], of src [S, B]."""
    return np.ascontiguousarray(np.asarray(src).T[sentence])
