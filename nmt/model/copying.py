"""Copying of source tokens: the pointer-generator (See, Liu and Manning 2017, "Get To The Point: Summarization with
Pointer-Generator Networks", section 2.2).

The probability of token v is g P(v) + (1 - g) C(v): P is the distribution of the output layer, C(v) the attention that
the source positions of token v receive, and g the gate that the decoder computes (`AttentionCell`, `generates`). Both
sides share a vocabulary, so that a source token has the same id on the target side. Sums run over source positions in
their order, so that they do not depend on padding.

And edit actions: a decoder that writes its target by edits of the source (neural transducer, Makarov and Clematide
2018, "Neural Transition-based String Transduction for Limited-Resource Setting in Morphology", section 2).

An action writes a target token or nothing, and then moves the pointer to the next source token or does not. Both sides
share a vocabulary of V tokens. The action t writes the token t before the pointer (insertion), and V + t writes t and
moves (replacement); V + PAD writes nothing and moves (deletion). The model also predicts V + UNK, copying: its
probability is added to that of the replacement by the source token itself, so that the search and the decoder's input
know nothing of it, and actions can be read without the source. A target ends at the end token of the source.

A token that was never seen is copied like any other (see `means_of_unseen`), and the text of a translation has what the
source has in the place of the copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import DeviceError
from nmt.rnn.arrays.device_operations import OutputGradients, OutputLayer
from nmt.rnn.device import Device
from nmt.rnn.kernels.model.output import each_logits
from nmt.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID, UNKNOWN_FEATURE_ID

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

    def attended(self, targets: np.ndarray, vocab_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the entries of a matrix [R, V] that belong to tokens of the sources or to `targets` [R]: their places
        in the flat matrix [M], each once; the attention they receive, float64 [M]; and which of the M each copy [R, n]
        and each target [R] is."""
        first = np.arange(len(self.ids)) * vocab_size
        places = np.concatenate([self.ids + first[:, None], (targets + first)[:, None]], axis=1)
        entries, index = np.unique(places, return_inverse=True)
        index = index.reshape(places.shape)
        copies = np.bincount(index[:, :-1].reshape(-1), self.weights.reshape(-1), len(entries))
        return entries, copies, index[:, :-1], index[:, -1]

    def mixed(self, log_probs: np.ndarray) -> np.ndarray:
        """Return the log-probabilities of all tokens [R, V], given the output layer's; -inf for tokens of neither."""
        vocab_size = log_probs.shape[1]
        entries, copied, _, _ = self.attended(np.full(len(self.ids), PAD_ID), vocab_size)
        row, gate = entries // vocab_size, self.gate.astype(np.float64)
        with np.errstate(divide="ignore"):
            mixed = log_probs + np.log(gate)[:, None]
            mixed.reshape(-1)[entries] = np.logaddexp(mixed.reshape(-1)[entries], np.log((1 - gate[row]) * copied))
        return mixed.astype(log_probs.dtype)


def copy_loss(
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
    - P) r with respect to g, and -(1 - g) r at its token with respect to an attention weight. Of tokens that are
    neither the target nor in the source, C is 0, so g P r is label_smoothing / V: the sums over all of them are short,
    and the matrix [R, V] is read a few times only, in the type of the logits.

    On the processor alone. h: [R, H], the input of the output layer; targets: int [R]; into: the gradients of h
    (overwritten) and of the layer (added to), None for none; scale: a factor of the gradients only. Returns sums over
    the rows, float64 [3]: negative log-likelihood, smoothed loss, rows whose target is the most probable token; and the
    gradients of the gates [R] and of the weights [R, n].
    """
    sums = np.zeros(3)
    d_gate, d_weights = np.zeros_like(copies.gate), np.zeros_like(copies.weights)

    def fill(logits: np.ndarray, part: slice) -> None:
        scales = (label_smoothing, None if into is None else scale)
        of_rows = Copies(copies.gate[part], copies.weights[part], copies.ids[part])
        own, d_gate[part], d_weights[part] = _mixed_loss(logits, of_rows, targets[part], *scales)
        sums[...] += own

    each_logits(h, layer, fill, into, threads)
    return sums, d_gate, d_weights


def _mixed_loss(
    logits: np.ndarray, copies: Copies, targets: np.ndarray, label_smoothing: float, scale: float | None
) -> tuple[np.ndarray, np.ndarray | float, np.ndarray | float]:
    """Return what `copy_loss` does for some rows, whose logits become their gradient. Without a scale the gradients are
    0, and the logits are kept."""
    rows, vocab_size = logits.shape
    share = label_smoothing / vocab_size
    gate = np.maximum(copies.gate.astype(np.float64), _LEAST)
    largest = logits.max(axis=1, keepdims=True)
    all_logits = logits.sum(axis=1, dtype=np.float64)
    powers = np.exp(logits - largest)
    total = powers.sum(axis=1, dtype=np.float64)
    entries, copied, at_copy, at_target = copies.attended(targets, vocab_size)
    row = entries // vocab_size
    generated = powers.reshape(-1)[entries] / total[row]
    mixed = np.maximum(gate[row] * generated + (1 - gate[row]) * copied, _LEAST)
    surprise = -np.log(mixed)
    nll = surprise[at_target].sum()
    # -log m of all tokens as if none were copied, with that of the entries in place of theirs.
    log_gate = np.log(gate)
    without = vocab_size * (largest[:, 0] + np.log(total) - log_gate) - all_logits
    replaced = surprise + np.log(np.maximum(generated, _LEAST)) + log_gate[row]
    smoothed = (1 - label_smoothing) * nll + share * (without.sum() + replaced.sum())
    most = gate * (1 / total)  # m of the largest logit, if it is not copied
    np.maximum.at(most, row, mixed)
    sums = np.array([nll, smoothed, np.count_nonzero(mixed[at_target] >= most)])
    if scale is None:
        return sums, 0.0, 0.0
    ratio = share / mixed
    ratio[at_target] += (1 - label_smoothing) / mixed[at_target]
    others = vocab_size - np.bincount(row, minlength=rows)
    d_gate = scale * (np.bincount(row, (copied - generated) * ratio, rows) - share * others / gate)
    d_weights = (-scale * (1 - gate[row]) * ratio)[at_copy]
    shares = gate[row] * generated * ratio
    all_shares = np.bincount(row, shares, rows) + share * others
    np.multiply(powers, (scale * all_shares / total).astype(powers.dtype)[:, None], out=logits)
    logits -= logits.dtype.type(scale * share)
    logits.reshape(-1)[entries] = scale * (generated * all_shares[row] - shares)
    return sums, d_gate, d_weights


def means_of_unseen(
    src: np.ndarray, tgt: np.ndarray, features: Sequence[int], copy_of: int = 0
) -> list[tuple[str, int, np.ndarray]]:
    """Return the rows of embeddings that no batch reads and that are the mean of others after each update, as the name
    of the parameter, the row and the others, given all source and target ids, those of features, and the id of the copy
    of token 0. An unknown letter and its copy are read as the mean of those that are copied, an unknown feature as that
    of all features. Where training has unknown letters, they are learned instead."""
    letters, known = np.setdiff1d(src, features), np.intersect1d(src, features)
    letters = np.intersect1d(letters[letters > EOS_ID], tgt - copy_of)
    means = [("src_embeddings", UNKNOWN_FEATURE_ID, known)]
    if UNK_ID not in src:
        means.append(("src_embeddings", UNK_ID, letters))
        means.append(("tgt_embeddings", copy_of + UNK_ID, copy_of + letters))
    return [one for one in means if len(one[2])]


def check_device(config: ModelConfig, device: Device) -> None:
    """Raise DeviceError if a decoder is to copy, or to write edit actions, on a GPU."""
    for name in ("copy_source", "edit_actions"):
        if getattr(config.decoder, name) and not device.is_cpu:
            raise DeviceError(
                f"model.decoder.{name}: must be false on a GPU, got true on the device {device.name}; use --device cpu"
            )


def source_rows(src: Any, sentence: np.ndarray) -> np.ndarray:
    """Return the source tokens of rows that read these sentences: [R, S], of src [S, B]."""
    return np.ascontiguousarray(np.asarray(src).T[sentence])


@dataclass(frozen=True)
class EditActions:
    """The actions over a vocabulary of `tokens` tokens."""

    tokens: int

    @property
    def count(self) -> int:
        """Return the number of actions."""
        return 2 * self.tokens

    def ids(self, written: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Return actions, given what they write, PAD for nothing, and whether they move."""
        return written + moves.astype(written.dtype) * written.dtype.type(self.tokens)

    def written(self, ids: Sequence[int]) -> list[int]:
        """Return the tokens that actions write; -1 - n for a copy of an unknown token at source position n."""
        found, place = [], 0
        for action in ids:
            if (token := action % self.tokens) != PAD_ID:
                found.append(token if token != UNK_ID else -1 - place)
            place += action >= self.tokens
        return found

    def moves(self) -> np.ndarray:
        """Return 1 for each action that moves and -1 for the others [count], the last feature of their embeddings."""
        return np.where(np.arange(self.count) < self.tokens, -1.0, 1.0)

    def targets(self, actions: np.ndarray, source: np.ndarray) -> np.ndarray:
        """Return what is to be predicted for actions, given the source token at the pointer, in the same shape: copying
        for a replacement by the same token."""
        return np.where(actions == self.tokens + source, actions.dtype.type(self.tokens + UNK_ID), actions)

    def possible(self, log_probs: np.ndarray, source: np.ndarray) -> np.ndarray:
        """Return the log-probabilities [R, count] of rows whose pointers are at the source tokens [R], in the same
        array: copying is added to its replacement, an unknown token is written by copying only, a target ends at the
        end of the source only, and there it does not move."""
        row, copy = np.arange(len(source)), self.tokens + UNK_ID
        same = self.tokens + source
        log_probs[row, same] = np.where(
            source == UNK_ID, log_probs[:, copy], np.logaddexp(log_probs[row, same], log_probs[:, copy])
        )
        log_probs[source != UNK_ID, copy] = -np.inf
        log_probs[:, UNK_ID] = -np.inf
        log_probs[:, self.tokens + BOS_ID : self.tokens + EOS_ID + 1] = -np.inf
        at_end = source == EOS_ID
        log_probs[at_end, self.tokens :] = -np.inf
        log_probs[~at_end, EOS_ID] = -np.inf
        return log_probs
