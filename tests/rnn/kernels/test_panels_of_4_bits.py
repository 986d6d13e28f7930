"""Panels in 4 bits: products of few rows read them, and have the bits of products in int8."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nmt.rnn.arrays.weights import QUADS, Quantised, Weights, quantise
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.products import four_bits, packing
from nmt.rnn.kernels.products import product as products
from nmt.rnn.kernels.products.four_bits import quantise_to_4_bits
from nmt.rnn.kernels.products.packing import PACKING, packed_size, packed_weight
from nmt.rnn.kernels.threads.pool import run_parallel

ROOT = Path(__file__).resolve().parents[3]
FORCED = [
    pytest.param("avx512_vnni", marks=pytest.mark.skipif(not TARGET.name.startswith("avx512"), reason="other machine")),
    pytest.param("avx2_vnni", marks=pytest.mark.skipif(TARGET.byte_sums != "vnni", reason="other machine")),
    "generic",
]
reads_4_bits = pytest.mark.skipif(not four_bits.MOST_ROWS, reason="without instructions for sums of bytes")


def matrix(K: int, N: int, transposed: bool) -> Quantised:
    numbers = np.random.default_rng(K + N).standard_t(3, (N, K) if transposed else (K, N)).astype("f4")
    return quantise_to_4_bits(numbers, by_rows=transposed)


def packed(found: Quantised, start: int, rows: int, threads: int = 1) -> np.ndarray:
    weights = Weights()
    weights.hold_quantised("W", found)
    return packed_weight(weights, "W", start, rows, found.by_rows, threads=threads, dtype=QUADS)


def product(A: np.ndarray, weights: np.ndarray, N: int) -> np.ndarray:
    C = np.zeros((len(A), N), "f4")
    run_parallel(products.product, 1, A, 0, weights, C, 0, A.shape[1], N, np.array([[0, len(A)]]), 0)
    return C


def check(K: int, N: int, transposed: bool) -> bool:
    """Compare products; return whether there were panels in 4 bits."""
    found, start = matrix(K, N, transposed), 0 if transposed else 32 * (K > 32)
    rows = found.shape[0] - start
    inputs = K - start
    numbers = found.numbers[start:].T if transposed else found.numbers[start:]
    out = packed(found, start, rows)
    plain = np.zeros(packed_size(inputs, N, "i4"), "i4")
    run_parallel(PACKING[QUADS, transposed], 1, found.numbers, found.scales, start, start + rows, plain)
    has_room = out.size > plain.size
    if has_room:  # a product of a few rows must read the panels in 4 bits alone
        width = TARGET.panel_width("f4")
        panels = out[: plain.size].reshape(-1, plain.size // (-(-N // width)))
        panels[:, : inputs // 4 * width] = 0x55555555
    for M in range(1, four_bits.MOST_ROWS + 1):
        A = np.random.default_rng(M).standard_normal((M, inputs)).astype("f4")
        expected = product(A, plain, N)
        np.testing.assert_array_equal(product(A, out, N), expected)
        exact = A.astype("f8") @ (numbers * found.scales.astype("f8"))
        assert np.abs(expected - exact).max() < 0.05 * np.abs(exact).max()
    return has_room


SIZES = [(32, 1, False), (64, 70, False), (256, 65, True), (96, 513, False), (544, 33, True)]


@reads_4_bits
@pytest.mark.parametrize(("K", "N", "transposed"), SIZES)
def test_products_of_few_rows_have_the_bits_of_int8(K: int, N: int, transposed: bool) -> None:
    assert check(K, N, transposed)


@reads_4_bits
def test_any_number_of_threads_packs_the_same() -> None:
    found = matrix(128, 300, False)
    for threads in (2, 3):
        np.testing.assert_array_equal(packed(found, 0, 128, threads), packed(found, 0, 128))


@reads_4_bits
def test_a_panel_that_does_not_fit_is_read_in_int8() -> None:
    """The first block of each channel fits, the second one of one channel does not."""
    found = matrix(64, 300, False)
    found.numbers[40:42, 100] = 127, 126
    A = np.random.default_rng(1).standard_normal((2, 64)).astype("f4")
    plain = np.zeros(packed_size(64, 300, "i4"), "i4")
    run_parallel(packing.pack_int8, 1, found.numbers, found.scales, 0, 64, plain)
    np.testing.assert_array_equal(product(A, packed(found, 0, 64), 300), product(A, plain, 300))


@pytest.mark.parametrize(("K", "is_rounded"), [(64, False), (33, True)])
def test_other_matrices_have_no_room_for_it(K: int, is_rounded: bool) -> None:
    found = matrix(K, 40, False)
    if not is_rounded:
        found = quantise(found.restored() + np.random.default_rng(0).random((K, 40), "f4"), by_rows=False)
    assert packed(found, 0, K).size == packed_size(K, 40, "i4")


@pytest.mark.parametrize("forced", FORCED)
def test_every_level_has_the_bits_of_int8(forced: str) -> None:
    code = "from tests.rnn.kernels.test_panels_of_4_bits import *; print([check(*size) for size in SIZES])"
    environment = {**os.environ, "NMT_CPU": forced, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == str([forced != "generic"] * len(SIZES)).split()
