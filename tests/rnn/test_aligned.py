"""Where arrays begin in memory."""

import numpy as np
import pytest

from nmt.rnn.arrays.weights import PAIRS, Weights
from nmt.rnn.arrays.workspace import LINE_BYTES, Workspace, aligned
from nmt.rnn.kernels.products.packing import packed_weight


def starts_line(array: np.ndarray) -> bool:
    return array.ctypes.data % LINE_BYTES == 0


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (1_200_001,)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
def test_an_aligned_array_begins_on_a_line(shape: tuple[int, ...], dtype: str) -> None:
    array = aligned(shape, dtype)
    assert starts_line(array)
    assert array.shape == shape and array.dtype == dtype and array.flags.c_contiguous and array.flags.writeable


def test_aligned_zeros_are_zero() -> None:
    assert not aligned((100_003,), "f4", zeros=True).any()


def test_pieces_of_a_workspace_begin_on_lines_before_and_after_it_has_grown() -> None:
    memory = Workspace()
    for _ in range(3):
        for size in (1, 700_001, 7, 2_000_003):
            assert starts_line(memory((size,), np.float32))
        memory.reset()


@pytest.mark.parametrize("packed", [np.dtype("f4"), PAIRS], ids=str)
def test_packed_weights_begin_on_a_line(packed: np.dtype) -> None:
    weights = Weights({"W": np.ones((513, 1100), "f4")})
    assert starts_line(packed_weight(weights, "W", 0, 513, False, dtype=packed))
    assert starts_line(packed_weight(weights, "W", 1, 512, True, dtype=packed))
