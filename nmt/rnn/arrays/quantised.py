"""Matrices of 8-bit integers with a scale for each output channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LARGEST = 127
"""The largest integer; the range is symmetric around zero."""


@dataclass(frozen=True)
class Quantised:
    """An int8 matrix: numbers [K, N], from -127 to 127, and scales float32.

    scales is [K] where each row is an output channel (`by_rows`, an embedding table), else [N].
    """

    numbers: np.ndarray
    scales: np.ndarray
    by_rows: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the matrix."""
        return self.numbers.shape

    def restored(self) -> np.ndarray:
        """Return the dequantised matrix in float32."""
        return self.numbers * (self.scales[:, None] if self.by_rows else self.scales)


def quantise(matrix: np.ndarray, *, by_rows: bool) -> Quantised:
    """Quantise a float32 matrix [K, N] by rounding to nearest, ties to even; the largest magnitude in a channel becomes
    127.

    A channel that is all zero, or too small for float32 to divide by, becomes zero; one with an infinity or NaN gets
    the scale NaN, so that it stays visible.
    """
    largest = np.abs(matrix).max(1 if by_rows else 0, initial=0)
    finite = np.isfinite(largest)
    plain = finite & (largest >= np.float32(2.0**-119))
    scales = np.where(plain, largest / np.float32(LARGEST), np.where(finite, np.float32(0), np.float32(np.nan)))
    inverse = np.divide(np.float32(LARGEST), largest, out=np.zeros_like(largest), where=plain)
    kept = plain[:, None] if by_rows else plain
    scaled = np.where(kept, matrix, np.float32(0)) * (inverse[:, None] if by_rows else inverse)
    return Quantised(np.rint(scaled, out=scaled).astype(np.int8), scales, by_rows)


BLOCK = 32
"""The numbers along the input of a channel that share a factor in 4 bits."""
LARGEST_OF_4_BITS = 7
MOST_FACTOR = LARGEST // LARGEST_OF_4_BITS


def scales_of_4_bits(matrix: np.ndarray, *, by_rows: bool) -> np.ndarray:
    """Return the scales of a matrix in 4 bits: the largest magnitude in a channel becomes 126, the largest integer
    times the largest factor."""
    largest = np.abs(matrix).max(1 if by_rows else 0, initial=0)
    scales = quantise(largest[:, None], by_rows=True).scales
    return scales * np.float32(LARGEST / (LARGEST_OF_4_BITS * MOST_FACTOR))


def blocks_of(channels: np.ndarray) -> np.ndarray:
    """Return a matrix [channels, inputs] as [channels, blocks, 32], with zeros after the last input."""
    return np.pad(channels, ((0, 0), (0, -channels.shape[1] % BLOCK))).reshape(len(channels), -1, BLOCK)
