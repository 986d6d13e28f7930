"""The output layer and its loss on a GPU, beside the processor's."""

import numpy as np
import pytest

from nmt.rnn.arrays.device_operations import OutputGradients, OutputLayer
from nmt.rnn.arrays.weights import PAIRS, Weights
from nmt.rnn.devices import cpu
from nmt.rnn.kernels.cuda import output_loss

R, H = 5, 6


def run(device, dtype, *, tied, V=70, packed=None, smoothing=0.1, gradients=True, targets=None):
    rng = np.random.default_rng(V)
    matrix = rng.standard_normal((V, H) if tied else (H, V)).astype(dtype)
    h, bias = rng.standard_normal((R, H)).astype(dtype), rng.standard_normal(V).astype(dtype)
    targets = rng.integers(0, V, R).astype(np.int32) if targets is None else targets
    weights = Weights({"W": device.upload(matrix), "b": device.upload(bias)})
    layer = OutputLayer(weights, "W", "b", tied, np.dtype(packed or dtype))
    ones = [np.ones_like(a) for a in (h, matrix, bias)]
    into = OutputGradients(*map(device.upload, ones)) if gradients else None
    sums = device.output_loss(device.upload(h), layer, targets, smoothing, into, 0.3, 1)
    return [device.download(a) for a in (sums, *(vars(into).values() if into else ()))]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("V", [3, 70, 1100])
def test_losses_and_gradients_are_those_of_the_processor(device, tied, V):
    """Rows shorter than a warp, longer than one, and for a whole block of threads."""
    for ours, theirs in zip(
        run(cpu(), np.float64, tied=tied, V=V), run(device, np.float64, tied=tied, V=V), strict=True
    ):
        np.testing.assert_allclose(theirs, ours, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("tied", [False, True])
def test_bfloat16_rounds_what_the_processor_rounds(device, tied):
    """Sums have another order: float32's rounding, and now and then the next bfloat16 of a gradient."""
    ours, theirs = (run(place, np.float32, tied=tied, packed=PAIRS) for place in (cpu(), device))
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(other, mine, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(theirs[0], ours[0], rtol=1e-5)
    exact = run(cpu(), np.float32, tied=tied)
    assert abs(theirs[0][0] - exact[0][0]) > 1e-4


def test_chunks_of_rows_add_up(device, monkeypatch):
    whole = run(device, np.float64, tied=False)
    monkeypatch.setattr(output_loss, "chunk_rows", lambda *sizes: 2)
    for one, other in zip(whole, run(device, np.float64, tied=False), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_a_target_counts_where_it_is_the_first_of_equal_logits(device):
    weights = Weights({"W": device.upload(np.zeros((H, 40))), "b": device.upload(np.zeros(40))})
    layer = OutputLayer(weights, "W", "b", False, np.dtype(np.float64))
    h = device.upload(np.ones((3, H)))
    sums = device.output_loss(h, layer, np.array([0, 1, 39], np.int32), 0.0, None, 1.0, 1)
    np.testing.assert_allclose(device.download(sums), [3 * np.log(40), 3 * np.log(40), 1])


def test_no_rows(device):
    weights = Weights({"W": device.upload(np.ones((H, 4))), "b": device.upload(np.ones(4))})
    layer = OutputLayer(weights, "W", "b", False, np.dtype(np.float64))
    sums = device.output_loss(device.xp.zeros((0, H)), layer, np.zeros(0, np.int32), 0.0, None, 1.0, 1)
    assert device.download(sums).tolist() == [0, 0, 0]
