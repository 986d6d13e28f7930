"""One step of each recurrent cell for ONE row, written from the papers.

Every function takes vectors, `x` [D] and `h` [H], and one dict of parameters in this project's
layout: `W_x` [D, G*H], `W_h` [H, G*H] and optionally `b_x`, `b_h` [G*H]. Everything also works on
complex numbers, so that a derivative can be taken by a step along the imaginary axis (see
gradients.py).
"""

import numpy as np

GATES = {"lstm": 4, "gru": 3, "gru_reset_before": 3, "rnn_tanh": 1, "rnn_relu": 1}


def sigmoid(a):
    """The logistic function."""
    return 1.0 / (1.0 + np.exp(-a))


def relu(a):
    """max(a, 0), decided by the real part."""
    return np.where(np.real(a) > 0.0, a, 0.0)


def gate(p, which, index, vector):
    """Gate number `index` of `vector @ W_which + b_which`, [H]."""
    width = p["W_h"].shape[0]
    columns = slice(index * width, (index + 1) * width)
    a = vector @ p[f"W_{which}"][:, columns]
    if f"b_{which}" in p:
        a = a + p[f"b_{which}"][columns]
    return a


def lstm_step(p, x, h, c):
    """Hochreiter & Schmidhuber (1997) with the forget gate of Gers et al. (2000); gates i f g o."""
    i = sigmoid(gate(p, "x", 0, x) + gate(p, "h", 0, h))
    f = sigmoid(gate(p, "x", 1, x) + gate(p, "h", 1, h))
    g = np.tanh(gate(p, "x", 2, x) + gate(p, "h", 2, h))
    o = sigmoid(gate(p, "x", 3, x) + gate(p, "h", 3, h))
    c_new = f * c + i * g
    return o * np.tanh(c_new), c_new


def gru_step(p, x, h):
    """Gates r z n; the reset acts AFTER the product (cuDNN's form); z = 1 keeps the old state."""
    r = sigmoid(gate(p, "x", 0, x) + gate(p, "h", 0, h))
    z = sigmoid(gate(p, "x", 1, x) + gate(p, "h", 1, h))
    n = np.tanh(gate(p, "x", 2, x) + r * gate(p, "h", 2, h))
    return (1.0 - z) * n + z * h


def gru_reset_before_step(p, x, h):
    """Cho et al. (2014): gates r z n; the reset acts BEFORE the product; z = 1 keeps the state."""
    r = sigmoid(gate(p, "x", 0, x) + gate(p, "h", 0, h))
    z = sigmoid(gate(p, "x", 1, x) + gate(p, "h", 1, h))
    n = np.tanh(gate(p, "x", 2, x) + gate(p, "h", 2, r * h))
    return (1.0 - z) * n + z * h


def elman_step(p, x, h, nonlinearity):
    """Elman (1990): one tanh (or relu) of the input and the old state."""
    return nonlinearity(gate(p, "x", 0, x) + gate(p, "h", 0, h))


def step(kind, p, x, h, c):
    """One step of the cell called `kind`: (h, c) -> (h, c); cells without a c hand it on."""
    if kind == "lstm":
        return lstm_step(p, x, h, c)
    if kind == "gru":
        return gru_step(p, x, h), c
    if kind == "gru_reset_before":
        return gru_reset_before_step(p, x, h), c
    if kind == "rnn_tanh":
        return elman_step(p, x, h, np.tanh), c
    if kind == "rnn_relu":
        return elman_step(p, x, h, relu), c
    raise ValueError(f"no such cell: {kind}")
