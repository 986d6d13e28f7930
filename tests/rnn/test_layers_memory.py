"""Layers keep memory between passes; what they have handed out stays as it was."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nmt.rnn


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, "f4")


def make(**options: object) -> nmt.rnn.LSTM:
    return nmt.rnn.LSTM(5, 7, 2, threads=2, **options)


LENGTHS = [6, 6, 4, 1]


@pytest.mark.parametrize("bidirectional", [False, True])
def test_results_outlive_the_next_passes(bidirectional: bool) -> None:
    layer = make(bidirectional=bidirectional)
    results = []
    for seed in range(3):
        x = normal(seed, 6, 4, 5)
        inferred = layer(x, lengths=LENGTHS)
        y, hy, cy = layer.forward(x, lengths=LENGTHS)
        found = layer.backward(normal(seed + 10, *y.shape))
        arrays = [*inferred, y, hy, cy, found.d_x, found.d_hx, found.d_cx, *found.params.values()]
        results.append((arrays, [array.copy() for array in arrays]))
    for arrays, copies in results:
        for array, copy in zip(arrays, copies, strict=True):
            np.testing.assert_array_equal(array, copy)


def test_used_memory_changes_no_bit() -> None:
    used, new = make(), make()
    used(normal(8, 9, 6, 5) * 1e3)
    used.backward(used.forward(normal(9, 11, 5, 5) * 1e3)[0])
    x, d_y = normal(0, 6, 4, 5), normal(1, 6, 4, 7)
    for one in (used, new):
        one.results = [*one.forward(x, lengths=LENGTHS), one.backward(d_y).d_x, *one(x, lengths=LENGTHS)]
    for found, expected in zip(used.results, new.results, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_inference_between_forward_and_backward_disturbs_nothing() -> None:
    layer = make()
    x, d_y = normal(0, 6, 4, 5), normal(1, 6, 4, 7)
    layer.forward(x)
    expected = layer.backward(d_y)
    layer.forward(x)
    layer(normal(2, 30, 4, 5))
    found = layer.backward(d_y)
    np.testing.assert_array_equal(found.d_x, expected.d_x)
    for name, gradient in expected.params.items():
        np.testing.assert_array_equal(found.params[name], gradient)


def test_threads_share_a_frozen_layer() -> None:
    layer = make()
    layer.freeze()
    inputs = [normal(seed, 5 + seed % 3, 3, 5) for seed in range(24)]
    expected = [layer(x)[0] for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: layer(x)[0], inputs))
    for y, known in zip(found, expected, strict=True):
        np.testing.assert_array_equal(y, known)
