"""Store int8 matrices of few values in 4 bits a number: integers from -7 to 7, and a factor for each block of 32.
Packing loses nothing: it finds the factors of `quantise_to_4_bits` again, as greatest common divisors."""

from __future__ import annotations

import numpy as np

from nmt.rnn.arrays.weights import BLOCK, LARGEST_OF_4_BITS, blocks_of

_ZERO = 8
"""The code of the number 0."""


def pack(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Return codes [channels, bytes] of an int8 matrix, two numbers a byte, the factors of its blocks [channels,
    blocks], both uint8, and the axis of its channels; None for a matrix that does not fit."""
    for axis, channels in enumerate((numbers, numbers.T)):
        blocks = blocks_of(np.abs(channels.astype(np.int16)))
        factors = np.maximum(np.gcd.reduce(blocks, 2), 1)
        if (blocks <= LARGEST_OF_4_BITS * factors[..., None]).all():
            codes = (blocks_of(channels) // factors.astype(np.int8)[..., None] + _ZERO).reshape(len(channels), -1)
            codes = codes[:, : channels.shape[1] + channels.shape[1] % 2].astype(np.uint8)
            joined = np.ascontiguousarray(codes[:, ::2] | codes[:, 1::2] << 4)
            return joined, np.ascontiguousarray(factors, np.uint8), axis
    return None


def unpack(codes: np.ndarray, factors: np.ndarray, shape: tuple[int, int], axis: int) -> np.ndarray:
    """Return the int8 matrix of `pack`. Raises ValueError: the arrays do not fit one another or the shape."""
    channels, inputs = shape if axis == 0 else shape[::-1]
    if codes.shape != (channels, -(-inputs // 2)) or factors.shape != (channels, -(-inputs // BLOCK)):
        raise ValueError("codes of another matrix")
    if codes.dtype != np.uint8 or factors.dtype != np.uint8:
        raise ValueError("codes of another kind")
    numbers = np.empty((channels, 2 * codes.shape[1]), np.int8)
    numbers[:, ::2], numbers[:, 1::2] = codes & 15, codes >> 4
    numbers = numbers[:, :inputs]
    numbers -= _ZERO
    numbers *= np.repeat(factors.view(np.int8), BLOCK, 1)[:, :inputs]
    return np.ascontiguousarray(numbers if axis == 0 else numbers.T)
