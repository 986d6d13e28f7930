"""Embeddings of source factors, concatenated to those of subwords (Sennrich & Haddow 2016, section 2.1, equation 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nmt.model.parts.positions import NormalParam
from nmt.rnn.arrays.flat_arrays import Group
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.profile import operation

if TYPE_CHECKING:
    from nmt.model.network import Network


class SourceFactors:
    """Split ids with factors into subwords and factors (see `FactoredSubwords`), and concatenate the embeddings of all.

    Args:
        vocab_size: The number of subwords.
        sizes: The number of values of each factor.
        widths: The embedding size of each factor.
    """

    def __init__(self, vocab_size: int, sizes: Sequence[int], widths: Sequence[int]) -> None:
        self._vocab_size, self._sizes, self._widths = vocab_size, tuple(sizes), tuple(widths)
        self.names = [f"src_factors.{n}.embeddings" for n in range(len(self._sizes))]

    def params(self) -> dict[str, NormalParam]:
        """Return an embedding table [values, width] for each factor."""
        sizes = zip(self.names, self._sizes, self._widths, strict=True)
        return {name: NormalParam((size, width), deviation=1.0) for name, size, width in sizes}

    def units(self, ids: np.ndarray) -> np.ndarray:
        """Return the ids without factors, in the same shape."""
        return ids % self._vocab_size

    def beside(self, network: Network, ids: np.ndarray, x: np.ndarray, threads: int, allocate: Allocate) -> np.ndarray:
        """Return x [S, B, E], the embeddings of the subwords of ids [S, B], followed by those of the factors: [S, B, E
        + widths]."""
        device, parts = network.device, [x]
        with operation("src factors: lookup"):
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
        with operation("src factors: gradient"):
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
