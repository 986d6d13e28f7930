"""Round matrices to 4 bits: the search for the factor of each block, in compiled code (see arrays/quantised.py)."""

import numpy as np

from nmt.rnn.arrays.quantised import BLOCK, LARGEST_OF_4_BITS, MOST_FACTOR, Quantised, scales_of_4_bits
from nmt.rnn.kernels.machine_code.jit import exact_kernel, kernel
from nmt.rnn.kernels.memory.arrays import release, scratch
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
