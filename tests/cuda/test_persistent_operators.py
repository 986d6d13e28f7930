"""Persistent kernels with the products around them give what the operators give on the processor."""

import numpy as np
import pytest

from nmt.rnn import GRU, LSTM
from nmt.rnn.kernels.cuda.persistent.layer import PersistentLayer
from tests.cuda.test_persistent import tiny
from tests.devices import runtime_with

T, B, D, H = 3, 4, 5, 32


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_layer_and_its_gradients(cell):
    rng = np.random.default_rng(4)
    layer = {"lstm": LSTM, "gru": GRU}[cell](D, H)
    p = layer.params
    for array in p.values():
        array[...] = 0.3 * rng.standard_normal(array.shape)
    lengths = np.array([3, 1, 2, 3])
    dead = (np.arange(T)[:, None] >= lengths)[:, :, None]
    x, d_y = (np.where(dead, 0, rng.standard_normal((T, B, n))).astype("f4") for n in (D, H))
    states = tuple(rng.standard_normal((1, B, H)).astype("f4") for _ in layer.states)
    y, *last = layer.forward(x, *states, lengths=lengths)
    d_last = tuple(rng.standard_normal((1, B, H)).astype("f4") for _ in layer.states)
    expected = layer.backward(d_y, *d_last)

    runtime = runtime_with(multiprocessors=132, seed=1)
    bias = p["b_x_l0"] + (p["b_h_l0"] if cell == "lstm" else 0)
    W_h, b_h, a, d_y_, n = map(runtime.upload, (p["W_h_l0"], p["b_h_l0"], x @ p["W_x_l0"] + bias, d_y, lengths))
    first, d_end = (runtime.upload(np.concatenate(given)) for given in (states, d_last))
    made = PersistentLayer(runtime, cell, *tiny(cell, True))
    forward = made.forward(W_h, a, n, first, b_h=b_h)
    np.testing.assert_allclose(runtime.download(forward.y), y, atol=1e-5)
    for found, wanted in zip(forward.last, last, strict=True):
        np.testing.assert_allclose(runtime.download(found), wanted[0], atol=1e-5)
    back = made.backward(W_h, forward, n, first, d_y_, d_end)
    d_a, d_product, before = map(runtime.download, (back.d_a, back.d_product, forward.before))
    gradients = {
        "W_x_l0": np.einsum("tbd,tbg->dg", x, d_a),
        "W_h_l0": np.einsum("tbh,tbg->hg", before, d_product),
        "b_x_l0": d_a.sum((0, 1)),
        "b_h_l0": d_product.sum((0, 1)),
    }
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, expected.params[name], atol=2e-4, err_msg=name)
    np.testing.assert_allclose(d_a @ p["W_x_l0"].T, expected.d_x, atol=5e-5)
    for found, wanted in zip(back.first, (expected.d_hx, expected.d_cx), strict=False):
        np.testing.assert_allclose(runtime.download(found), wanted[0], atol=5e-5)
