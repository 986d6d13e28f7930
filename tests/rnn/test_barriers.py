"""Threads that divide hidden units meet wherever one reads what another has written."""

import numpy as np
import pytest

from nmt.rnn import Scan, State, Weights, tanh
from tests.rnn.random_cells import Made

N, R, B, T = 96, 40, 3, 30


def low_rank():
    """A recurrent product in two factors: the second reads all columns of the first."""
    params = {"W": (N, N), "U": (N, R), "V": (R, N)}

    def step(p, x, s):
        h = tanh(x @ p.W + s.h @ p.U @ p.V)
        return h, State(h=h)

    return Made(step, params=params, states={"h": N}, input_size=N, output_size=N)


def products_alone():
    """A loop of products, without any work on rows; each step reads all columns of the one before."""

    def step(p, x, s):
        h = s.h @ p.U @ p.V
        return h, State(h=h)

    return Made(step, params={"U": (N, R), "V": (R, N)}, states={"h": N}, input_size=N, output_size=N)


CELLS = {"low_rank": low_rank, "products_alone": products_alone}


def run(cell, threads):
    rng = np.random.default_rng(7)
    params = {
        name: rng.normal(0, N**-0.5, param.shape).astype(np.float32) for name, param in sorted(cell.params().items())
    }
    x, h, d_y = (rng.normal(size=size).astype(np.float32) for size in ((T, B, N), (B, N), (T, B, N)))
    scan = Scan(cell, threads=threads, division="units")
    result = scan.forward(Weights(params), x, {"h": h}, training=True)
    slopes = {name: np.zeros_like(value) for name, value in params.items()}
    gradients = scan.backward(result.tape, d_y, gradients=slopes)
    found = {"y": result.y, "x": gradients.x, "h": gradients.initial["h"], **slopes}
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize("name", CELLS)
def test_products_that_read_products_have_the_bits_of_one_thread(name):
    cell = CELLS[name]()
    expected = run(cell, 1)
    for _ in range(30):
        for key, value in run(cell, 2).items():
            np.testing.assert_array_equal(value, expected[key], err_msg=key)
