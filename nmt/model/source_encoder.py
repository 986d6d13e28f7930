"""Encoding of source sentences in any order: their embeddings, the encoder, and the row order that it needs."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt.model.batch_pass import BatchPass, SortedSource
from nmt.model.network import Network
from nmt.model.parts.encoder import Encoded, Encoder, NormalParam, States
from nmt.rnn.arrays.workspace import Allocate, Group


class SourceFactors:
    """Split ids with factors into subwords and factors (see `FactoredSubwords`), and concatenate the embeddings of all:
    of so many subwords, and of factors with so many values (`sizes`) and embeddings of so many numbers (`widths`)."""

    def __init__(self, vocab_size: int, sizes: Sequence[int], widths: Sequence[int]) -> None:
        self._vocab_size, self._sizes, self._widths = vocab_size, tuple(sizes), tuple(widths)
        self.names = [f"src_factors.{n}.embeddings" for n in range(len(self._sizes))]
        self.tables = list(zip(self.names, self._sizes, self._widths, strict=True))

    def params(self) -> dict[str, NormalParam]:
        """Return an embedding table [values, width] for each factor."""
        return {name: NormalParam((size, width), deviation=1.0) for name, size, width in self.tables}

    def units(self, ids: np.ndarray) -> np.ndarray:
        """Return the ids without factors, in the same shape."""
        return ids % self._vocab_size

    def beside(self, network: Network, ids: np.ndarray, x: np.ndarray, threads: int, allocate: Allocate) -> np.ndarray:
        """Return x [S, B, E], the embeddings of ids [S, B], followed by those of the factors: [S, B, E + widths]."""
        device, parts = network.device, [x]
        for name, width, numbers in zip(self.names, self._widths, self._numbers(ids), strict=True):
            table = network.weights.quantised(name) or network.weights[name]
            rows = device.xp.empty((*x.shape[:-1], width), x.dtype)
            device.embedding_rows(device.upload(numbers), table, rows.reshape(-1, width), 1.0, threads)
            parts.append(rows)
        joined = allocate((*x.shape[:-1], x.shape[-1] + sum(self._widths)), x.dtype)
        device.join_columns(parts, joined, threads)
        return joined

    def gradient(self, network: Network, ids: np.ndarray, d: np.ndarray, gradients: Group, threads: int) -> np.ndarray:
        """Add to the gradients of the tables; d [S, B, E + widths] is the gradient of the result of `beside`. Returns
        the gradient of x."""
        device = network.device
        first = width_of_units = d.shape[-1] - sum(self._widths)
        for name, width, numbers in zip(self.names, self._widths, self._numbers(ids), strict=True):
            part = device.xp.empty((*d.shape[:-1], width), d.dtype)
            device.take_columns(d, first, part, threads)
            device.embedding_gradient(numbers, part.reshape(-1, width), gradients[name], 1.0, threads)
            first += width
        of_units = device.xp.empty((*d.shape[:-1], width_of_units), d.dtype)
        device.take_columns(d, 0, of_units, threads)
        return of_units

    def _numbers(self, ids: np.ndarray) -> list[np.ndarray]:
        """Return the values of each factor, int32 [S * B]."""
        rest, found = ids.reshape(-1) // self._vocab_size, []
        for size in self._sizes:
            found.append(np.ascontiguousarray(rest % size, np.int32))
            rest = rest // size
        return found


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
    rows: SortedSource
    sorted: Encoded
    words: np.ndarray | None = None


class SourceEncoder:
    """A network's encoder with the embeddings below it, including those of factors if there are any. Scans take rows in
    any order, but a step costs less if the rows that have ended are the last ones. So this class sorts the rows by
    length, longest first, and restores the order, in the forward and the backward pass."""

    def __init__(self, network: Network, encoder: Encoder, factors: SourceFactors | None = None) -> None:
        self._network: Network = weakref.proxy(network)  # which has this object, and is freed when it is replaced
        self._encoder, self._factors = encoder, factors

    def forward(self, src: np.ndarray, lengths: np.ndarray, how: BatchPass) -> EncodedRows:
        """Encode src [S, B], which is on the host, with the length of each row [B]."""
        network, factors, rows = self._network, self._factors, how.source or SortedSource.of(src, lengths)
        units = rows.src if factors is None else factors.units(rows.src)
        x = network.embed_sequence("src", units, how.threads, how.allocate)
        if factors is not None:
            x = factors.beside(network, rows.src, x, how.threads, how.allocate)
        encoded = self._encoder.forward(network.weights.view("encoder"), x, rows.lengths, how)
        back = network.device.index(rows.back)
        memory, final = self._ordered(encoded.memory, encoded.final, back, how)
        words = self._ordered(x, [], back, how)[0] if network.config.decoder.lexical else None
        return EncodedRows(memory, final, rows, encoded, words)

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
        order = self._network.device.index(rows.rows.order)
        ordered = self._ordered(d_memory, d_final, order, how)
        d_x = self._encoder.backward(rows.sorted, *ordered, gradients.view("encoder"))
        if d_words is not None:
            self._network.device.add(d_x, self._ordered(d_words, [], order, how)[0], how.threads)
        src = rows.rows.src
        if self._factors is not None:
            d_x = self._factors.gradient(self._network, src, d_x, gradients, how.threads)
            src = self._factors.units(src)
        self._network.embedding_gradient("src", src, d_x, how.threads, gradients)

    def _ordered(
        self, memory: np.ndarray, states: list[States], order: Any, how: BatchPass
    ) -> tuple[np.ndarray, list[States]]:
        """Return the rows of a memory [S, B, M] and of states [B, n], or of their gradients, in another order."""
        device = self._network.device
        out = how.lasting(device, memory.shape, memory.dtype)
        final = [
            {
                name: device.take_rows(state, order, how.lasting(device, state.shape, state.dtype), how.threads)
                for name, state in layer.items()
            }
            for layer in states
        ]
        return device.take_rows(memory, order, out, how.threads), final
