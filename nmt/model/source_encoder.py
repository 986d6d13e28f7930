"""Encoding of source sentences in any order: their embeddings, the encoder, and the row order that it needs."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.model.batch_pass import BatchPass
from nmt.model.network import Network
from nmt.model.parts.encoder import Encoded, Encoder, States
from nmt.rnn.arrays.flat_arrays import Group

if TYPE_CHECKING:
    from nmt.model.network import Network


@dataclass
class Source:
    """An encoded batch in its original row order: its tokens as the encoder reads them [S, B] (on the host), memory
    [S, B, M], the number of real positions of each row, and the initial states of the decoder."""

    ids: np.ndarray
    memory: np.ndarray
    lengths: np.ndarray
    states: States


@dataclass
class EncodedRows:
    """Memory [S, B, M], final states of each layer [B, M] and the embeddings below the encoder [S, B, E], with rows in
    the original order; and what the backward pass needs, whose rows are sorted by source length. There are embeddings
    only for a decoder that reads them (`model.decoder.lexical`)."""

    memory: np.ndarray
    final: list[States]
    order: np.ndarray
    sorted_src: np.ndarray
    sorted: Encoded
    words: np.ndarray | None = None


class SourceEncoder:
    """A network's encoder with the embeddings below it.

    Scans take rows in any order, but a step costs less if the rows that have ended are the last ones. So this class
    sorts the rows by length, longest first, and restores the order, in the forward and the backward pass.
    """

    def __init__(self, network: Network, encoder: Encoder) -> None:
        self._network: Network = weakref.proxy(network)  # which has this object, and is freed when it is replaced
        self._encoder = encoder

    def forward(self, src: np.ndarray, lengths: np.ndarray, how: BatchPass) -> EncodedRows:
        """Encode src [S, B], which is on the host, with the length of each row [B]."""
        network = self._network
        order = np.argsort(-lengths, kind="stable")
        src = src[:, order]
        x = network.embed_sequence("src", src, how.threads, how.allocate)
        encoded = self._encoder.forward(network.weights.view("encoder"), x, lengths[order], how)
        back = network.device.index(np.argsort(order, kind="stable"))
        memory, final = self._ordered(encoded.memory, encoded.final, back, how)
        words = self._ordered(x, [], back, how)[0] if network.config.decoder.lexical else None
        return EncodedRows(memory, final, order, src, encoded, words)

    def backward(
        self,
        rows: EncodedRows,
        d_memory: np.ndarray,
        d_final: list[States],
        gradients: Group,
        how: BatchPass,
        d_words: np.ndarray | None = None,
    ) -> None:
        """Add the gradients of the parameters of the encoder and of the embeddings to `gradients`; those of the results
        are in the row order of `rows`."""
        order = self._network.device.index(rows.order)
        ordered = self._ordered(d_memory, d_final, order, how)
        d_x = self._encoder.backward(rows.sorted, *ordered, gradients.view("encoder"), how)
        if d_words is not None:
            self._network.device.add(d_x, self._ordered(d_words, [], order, how)[0], how.threads)
        self._network.embedding_gradient("src", rows.sorted_src, d_x, how.threads, gradients)

    def _ordered(
        self, memory: np.ndarray, states: list[States], order: Any, how: BatchPass
    ) -> tuple[np.ndarray, list[States]]:
        """Return the rows of a memory [S, B, M] and of states [B, n], or of their gradients, in another order."""
        device = self._network.device
        out = how.lasting(device, memory.shape, memory.dtype)
        final = [
            {name: device.take_rows(state, order, threads=how.threads) for name, state in layer.items()}
            for layer in states
        ]
        return device.take_rows(memory, order, out, how.threads), final
