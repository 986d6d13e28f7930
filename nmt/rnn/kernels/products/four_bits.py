"""Matrices in 4 bits (see arrays/weights.py): the search for the factor of each block, and panels next to those in
int8, for products of few rows, which take the time of reading the weights.

A matrix fits if each block of BLOCK inputs of each column is a factor times integers from -7 to 7, as
`quantise_to_4_bits` makes them. Its panels in 4 bits follow those in int8, whose tails contain the distance (see
int8.py). They contain for each block four rows of words, each with two quads: the integers of the first one in the
lower halves of its bytes, those of the second in the upper ones; then for each block a row of bytes, the factors of its
columns. Both halves are multiplied as the upper halves of bytes, which is 16 times the integer; the sum of a block is
shifted back and multiplied by the factor. All of that is exact: results have the same bits as in int8.
"""

import numpy as np

from nmt.rnn.arrays.weights import BLOCK, LARGEST_OF_4_BITS, MOST_FACTOR, Quantised, scales_of_4_bits
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import exact_kernel, inner_kernel, kernel
from nmt.rnn.kernels.memory.arrays import array_at, release, scratch
from nmt.rnn.kernels.memory.moves import address
from nmt.rnn.kernels.products.int8 import TAIL
from nmt.rnn.kernels.threads.pool import host, run_parallel

_WIDTH = 64
"""Channels that are rounded together, one in each lane of the vectors."""
_MOST, _ROUND = np.float32(LARGEST_OF_4_BITS), np.float32(12582912.0)
"""Adding _ROUND to a float and subtracting it again rounds to the nearest integer, ties to even."""


@exact_kernel
def _rounded(number, factor, inverse):  # type: ignore[no-untyped-def]
    """Return the multiple of the factor that is nearest to a number, of those within 4 bits."""
    return min(max((number * inverse + _ROUND) - _ROUND, -_MOST), _MOST) * factor


@exact_kernel
def _round_block(block, errors, least, best):  # type: ignore[no-untyped-def]
    """Replace a block [BLOCK, _WIDTH], in units of the scale, by its rounded numbers; other arrays are temporary."""
    least[:] = np.inf
    for f in range(1, MOST_FACTOR + 1):
        factor, inverse = np.float32(f), np.float32(1) / np.float32(f)
        errors[:] = 0
        for k in range(BLOCK):
            row = block[k]
            for j in range(_WIDTH):
                error = _rounded(row[j], factor, inverse) - row[j]
                errors[j] += error * error
        for j in range(_WIDTH):
            if errors[j] < least[j]:
                least[j], best[j] = errors[j], factor
    for k in range(BLOCK):
        row = block[k]
        for j in range(_WIDTH):
            row[j] = _rounded(row[j], best[j], np.float32(1) / best[j])


@kernel
def round_to_4_bits(part, parts, matrix, scales, by_rows, numbers):  # type: ignore[no-untyped-def]
    """Write the numbers int8 of a matrix [K, N] with these scales of its channels. Parts divide the channels."""
    channels, inputs = scales.size, matrix.shape[1] if by_rows else matrix.shape[0]
    groups = (channels + _WIDTH - 1) // _WIDTH
    block = scratch((BLOCK, _WIDTH), np.float32)
    divisors, errors = scratch(_WIDTH, np.float32), scratch(_WIDTH, np.float32)
    least, best = scratch(_WIDTH, np.float32), scratch(_WIDTH, np.float32)
    for group in range(groups * part // parts, groups * (part + 1) // parts):
        c0 = group * _WIDTH
        width = min(_WIDTH, channels - c0)
        for j in range(width):
            divisors[j] = scales[c0 + j]
        for k0 in range(0, inputs, BLOCK):
            height = min(BLOCK, inputs - k0)
            block[:] = 0
            for k in range(height):
                for j in range(width):
                    number = matrix[c0 + j, k0 + k] if by_rows else matrix[k0 + k, c0 + j]
                    block[k, j] = number / divisors[j] if divisors[j] > 0 else 0
            _round_block(block, errors, least, best)
            for k in range(height):
                for j in range(width):
                    if by_rows:
                        numbers[c0 + j, k0 + k] = np.int8(block[k, j])
                    else:
                        numbers[k0 + k, c0 + j] = np.int8(block[k, j])
    release(block)
    release(divisors)
    release(errors)
    release(least)
    release(best)


def quantise_to_4_bits(matrix: np.ndarray, *, by_rows: bool, threads: int = 1) -> Quantised:
    """Quantise a float32 matrix [K, N] to integers from -7 to 7 times a factor from 1 to 18 for each block of 32 inputs
    of a channel, times the scale of the channel.

    The products of integer and factor are int8, so a matrix in 4 bits is one in int8 with fewer values. A block gets
    the factor that brings it nearest to the matrix (least squares). That scales of blocks are quantised too follows
    Dettmers et al. 2023, section 3. The result does not depend on `threads`.
    """
    scales, numbers = scales_of_4_bits(matrix, by_rows=by_rows), np.empty(matrix.shape, np.int8)
    run_parallel(round_to_4_bits, threads, np.ascontiguousarray(matrix), scales, by_rows, numbers)
    return Quantised(host(numbers), scales, by_rows)


BLOCK_QUADS, BLOCK_ROWS = BLOCK // 4, BLOCK // 8
MOST_ROWS = 6 if TARGET.byte_sums == "vnni" else 0
"""The most rows of a product that reads panels in 4 bits: with more, or without instructions for sums of bytes,
the multiplications take longer than reading."""
_LARGEST, _PANEL = LARGEST_OF_4_BITS, TARGET.panel_width(np.float32)


def fits(numbers: np.ndarray, row0: int, row1: int, transposed: bool) -> bool:
    """Return whether rows [row0, row1) of an int8 matrix, or their transpose, are likely to fit into 4 bits: their
    inputs are whole blocks, and the first block of each channel fits."""
    rows = numbers[row0:row1]
    inputs = rows.shape[1] if transposed else rows.shape[0]
    if not MOST_ROWS or inputs % BLOCK or not rows.size:
        return False
    first = np.abs(rows[:, :BLOCK] if transposed else rows[:BLOCK].T).astype(np.int16)
    return bool((first.max(1) <= _LARGEST * np.maximum(np.gcd.reduce(first, 1), 1)).all())


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
        if found == 1 and largest > _LARGEST:
            return 0
    return max(found, 1) if largest <= _LARGEST * found else 0


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
