"""Cells over time: one direction, both, stacks, residual stacks, rows of different lengths.

The conventions: y of a row beyond its length is 0, if `padding` says nothing else; the final state is that of the row's
last valid step; the reversed direction reads the valid prefix backwards, so its final state belongs to time 0.

Each cell is one step for ONE row, written from the papers. Every such function takes vectors, `x` [D] and `h` [H], and
one dict of parameters in this project's layout: `W_x` [D, G*H], `W_h` [H, G*H] and optionally `b_x`, `b_h` [G*H].
Everything also works on complex numbers, so that a derivative can be taken by a step along the imaginary axis (see
gradients.py).
"""

import numpy as np


def exact(array):
    """`array` in float64 (or complex128): float32 in must not mean float32 arithmetic."""
    return np.asarray(array, np.result_type(array, np.float64))


def layer_params(params, layer, suffix=""):
    """The parameters of one layer and direction by short names: W_x_l1_reverse -> W_x."""
    short = {}
    for name in ("W_x", "W_h", "b_x", "b_h"):
        key = f"{name}_l{layer}{suffix}"
        if key in params:
            short[name] = exact(params[key])
    return short


def random_params(rng, kind, input_size, hidden_size, *, num_layers=1, bidirectional=False, bias=True, scale=0.4):
    """Parameters of every layer and direction, drawn so that float32 holds them exactly."""
    wide = GATES[kind] * hidden_size
    params = {}
    for layer in range(num_layers):
        below = input_size if layer == 0 else hidden_size * (2 if bidirectional else 1)
        for suffix in ("", "_reverse") if bidirectional else ("",):
            shapes = {"W_x": (below, wide), "W_h": (hidden_size, wide)}
            if bias:
                shapes.update(b_x=(wide,), b_h=(wide,))
            for name, shape in shapes.items():
                drawn = rng.normal(0.0, scale, shape).astype(np.float32)
                params[f"{name}_l{layer}{suffix}"] = drawn.astype(np.float64)
    return params


def run_direction(kind, p, x, h, c, lengths, *, reverse=False, padding="zero", empty="initial"):
    """One layer in one direction: x [T, B, D], h and c [B, H] -> y [T, B, H], h, c [B, H]. padding: "repeat" is written
    as Keras runs masked rows, "carry" as Caffe2 reverses and runs them; empty: "zero" is ONNX Runtime's final state of
    a row without steps."""
    T, B, _ = x.shape
    H = p["W_h"].shape[0]
    dtype = np.result_type(x, h, c, *p.values(), np.float64)
    y = np.zeros((T, B, H), dtype)
    h_last, c_last = np.zeros((B, H), dtype), np.zeros((B, H), dtype)
    for row in range(B):
        h_t, c_t = h[row], c[row]
        times = range(lengths[row])
        for t in reversed(times) if reverse else times:
            h_t, c_t = step(kind, p, x[t, row], h_t, c_t)
            y[t, row] = h_t
        if empty == "zero" and not lengths[row]:
            h_t, c_t = np.zeros_like(h_t), np.zeros_like(c_t)
        h_last[row], c_last[row] = h_t, c_t
        previous = np.zeros_like(h_t)
        for t in reversed(range(T)) if reverse else range(T):
            if t >= lengths[row] and padding != "zero":
                y[t, row] = previous if padding == "repeat" else h_t
            previous = y[t, row]
    return y, h_last, c_last


def run(
    kind,
    params,
    x,
    hx=None,
    cx=None,
    lengths=None,
    *,
    num_layers=1,
    bidirectional=False,
    reverse=False,
    residual=False,
    padding="zero",
    empty="initial",
):
    """A stack: x [T, B, D], states [L*dirs, B, H] -> y [T, B, H*dirs], h and c [L*dirs, B, H]. Residual: from the
    second layer on, a layer's input is added to its output (Wu et al., 2016, section 3.1)."""
    T, B, _ = x.shape
    H = next(p.shape[0] for name, p in params.items() if name.startswith("W_h"))
    suffixes = ("", "_reverse") if bidirectional else ("_reverse",) if reverse else ("",)
    none = np.zeros((num_layers * len(suffixes), B, H))
    x, hx, cx = exact(x), exact(none if hx is None else hx), exact(none if cx is None else cx)
    lengths = [T] * B if lengths is None else [int(n) for n in lengths]
    below, h_all, c_all = x, [], []
    for layer in range(num_layers):
        sides = []
        for suffix in suffixes:
            state = len(h_all)
            y, h_last, c_last = run_direction(
                kind, layer_params(params, layer, suffix), below, hx[state], cx[state], lengths,
                reverse=suffix == "_reverse", padding=padding, empty=empty,
            )  # fmt: skip
            sides.append(y)
            h_all.append(h_last)
            c_all.append(c_last)
        y = np.concatenate(sides, axis=-1)
        below = below + y if residual and layer > 0 else y
    return below, np.stack(h_all), np.stack(c_all)


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
