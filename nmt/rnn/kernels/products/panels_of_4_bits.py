"""Panels in 4 bits, next to those in int8, for products of few rows, which take the time of reading the weights.

A matrix fits if each block of BLOCK inputs of each column is a factor times integers from -7 to 7, as
`quantise_to_4_bits` makes them. Its panels in 4 bits follow those in int8, whose tails contain the distance (see
int8.py). They contain for each block four rows of words, each with two quads: the integers of the first one in the
lower halves of its bytes, those of the second in the upper ones; then for each block a row of bytes, the factors of its
columns. Both halves are multiplied as the upper halves of bytes, which is 16 times the integer; the sum of a block is
shifted back and multiplied by the factor. All of that is exact: results have the same bits as in int8.
"""

import numpy as np

from nmt.rnn.arrays.quantised import BLOCK, LARGEST_OF_4_BITS
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import inner_kernel, kernel
from nmt.rnn.kernels.memory.arrays import array_at
from nmt.rnn.kernels.memory.moves import address
from nmt.rnn.kernels.products.int8 import TAIL

BLOCK_QUADS, BLOCK_ROWS = BLOCK // 4, BLOCK // 8
MOST_ROWS = 6 if TARGET.byte_sums == "vnni" else 0
"""The most rows of a product that reads panels in 4 bits: with more, or without instructions for sums of bytes,
the multiplications take longer than reading."""
_MOST, _PANEL = LARGEST_OF_4_BITS, TARGET.panel_width(np.float32)


def fits(numbers: np.ndarray, row0: int, row1: int, transposed: bool) -> bool:
    """Return whether rows [row0, row1) of an int8 matrix, or their transpose, are likely to fit into 4 bits: their
    inputs are whole blocks, and the first block of each channel fits."""
    rows = numbers[row0:row1]
    inputs = rows.shape[1] if transposed else rows.shape[0]
    if not MOST_ROWS or inputs % BLOCK or not rows.size:
        return False
    first = np.abs(rows[:, :BLOCK] if transposed else rows[:BLOCK].T).astype(np.int16)
    return bool((first.max(1) <= _MOST * np.maximum(np.gcd.reduce(first, 1), 1)).all())


def size_of_4_bits(K: int, N: int) -> int:
    """Return the number of words of the panels in 4 bits of a K x N matrix."""
    blocks = K // BLOCK
    return -(-N // _PANEL) * _PANEL * (BLOCK_ROWS * blocks + (blocks + 3) // 4)


@inner_kernel
def _factor(numbers, k, channel, transposed):  # type: ignore[no-untyped-def]
    """Return the factor of the block at input k of a channel; 0 if it does not fit."""
    found, largest = 0, 0
    for i in range(k, k + BLOCK):
        one = abs(int(numbers[channel, i] if transposed else numbers[i, channel]))
        largest = max(largest, one)
        while one:
            found, one = one, found % one
        if found == 1 and largest > _MOST:
            return 0
    return max(found, 1) if largest <= _MOST * found else 0


@kernel
def pack_4_bits(part, parts, numbers, row0, row1, transposed, out):  # type: ignore[no-untyped-def]
    """Write the panels in 4 bits of rows [row0, row1) of a matrix int8, or of their transpose, after those in int8 in
    `out`, and their distances."""
    K, N = (numbers.shape[1], row1 - row0) if transposed else (row1 - row0, numbers.shape[1])
    first_input, first_channel = (0, row0) if transposed else (row0, 0)
    quads, blocks, width = K // 4, K // BLOCK, _PANEL
    panels = (N + width - 1) // width
    words = BLOCK_ROWS * blocks + (blocks + 3) // 4
    for p in range(panels * part // parts, panels * (part + 1) // parts):
        start, at = p * (quads + TAIL) * width, (panels * (quads + TAIL) + p * words) * width
        panel = array_at(address(out, at), (BLOCK_ROWS * blocks, 4 * width), np.uint8)
        factors = array_at(address(out, at + BLOCK_ROWS * blocks * width), (blocks, width), np.uint8)
        panel[:] = 0
        factors[:] = 1
        fitting = True
        for j in range(min(width, N - p * width)):
            channel = first_channel + p * width + j
            for block in range(blocks):
                k = first_input + block * BLOCK
                factor = _factor(numbers, k, channel, transposed)
                fitting = fitting and factor > 0
                factors[block, j] = factor
                for i in range(BLOCK if factor else 0):
                    number = np.int64(numbers[channel, k + i] if transposed else numbers[k + i, channel])
                    integer = (number // factor) & 15
                    panel[block * BLOCK_ROWS + i // 8, 4 * j + i % 4] |= integer << (i // 4 % 2 * 4)
        distance = array_at(address(out, start + (quads + 2) * width), 1, np.int64)
        distance[0] = (at - start) * 4 if fitting else 0
