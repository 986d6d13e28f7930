"""LSTM and GRU layers step by step in NumPy, with what the persistent kernels promise about rounding and padding."""

from types import SimpleNamespace

import numpy as np

from nmt.rnn.kernels.cuda.persistent.cell_steps import CELLS
from tests.oracle.layers import sigmoid


def bfloat16(x):
    """The nearest bfloat16, as float32."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def case(cell, T, B, H, lengths=None, seed=0):
    """Arrays of a layer; lengths random unless given."""
    rng, G = np.random.default_rng(seed), CELLS[cell]

    def draw(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    lengths = rng.integers(0, T + 1, B) if lengths is None else np.asarray(lengths)
    states = 2 if cell == "lstm" else 1
    return SimpleNamespace(
        cell=cell,
        sizes=(T, B, H),
        lengths=lengths.astype(np.int64),
        W_h=draw(H, G * H) / np.float32(H**0.5),
        b_h=draw(3 * H) if cell == "gru" else None,
        a=draw(T, B, G * H),
        states=tuple(draw(B, H) for _ in range(states)),
        d_y=draw(T, B, H),
        d_last=tuple(draw(B, H) for _ in range(states)),
    )


def times(c, reverse):
    T, B, _ = c.sizes
    for t in range(T - 1, -1, -1) if reverse else range(T):
        yield t, (t < c.lengths)[:, None]


def forward(c, rounded, reverse=False):
    """y, what is kept a step, and last states; `rounded` is applied to both sides of each product."""
    T, B, H = c.sizes
    W, states, y, kept = rounded(c.W_h), [s.copy() for s in c.states], np.zeros((T, B, H), np.float32), {}
    for t, live in times(c, reverse):
        h, u = states[0], rounded(states[0]) @ W
        if c.cell == "lstm":
            i, f, g, o = np.split(c.a[t] + u, 4, axis=1)
            i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
            inner = f * states[1] + i * g
            new = [o * np.tanh(inner), inner]
            kept[t] = (i, f, g, o, states[1], inner)
        else:
            a_r, a_z, a_n = np.split(c.a[t], 3, axis=1)
            u_r, u_z, inner = np.split(u + c.b_h, 3, axis=1)
            r, z = sigmoid(a_r + u_r), sigmoid(a_z + u_z)
            n = np.tanh(a_n + r * inner)
            new = [(1 - z) * n + z * h]
            kept[t] = (r, z, n, h, inner)
        states = [np.where(live, a, b) for a, b in zip(new, states, strict=True)]
        y[t] = np.where(live, states[0], 0)
    return y, kept, states


def backward(c, kept, rounded, reverse=False):
    """d_a, d_product, and the gradients of the first states."""
    T, B, H = c.sizes
    W, d = rounded(c.W_h).T, [s.copy() for s in c.d_last]
    d_a, d_product = np.zeros_like(c.a), np.zeros_like(c.a)
    for t, live in reversed(list(times(c, reverse))):
        d_h = d[0] + c.d_y[t]
        if c.cell == "lstm":
            i, f, g, o, before, cell_t = kept[t]
            tanh_c = np.tanh(cell_t)
            d_c = d[1] + d_h * o * (1 - tanh_c**2)
            parts = d_c * g * i * (1 - i), d_c * before * f * (1 - f), d_c * i * (1 - g * g), d_h * tanh_c * o * (1 - o)
            made_a = made = np.concatenate(parts, axis=1)
            new = [0, d_c * f]
        else:
            r, z, n, before, inner = kept[t]
            d_n, d_z = d_h * (1 - z) * (1 - n * n), d_h * (before - n) * z * (1 - z)
            d_r = d_n * inner * r * (1 - r)
            made_a, made = (np.concatenate((d_r, d_z, last), axis=1) for last in (d_n, d_n * r))
            new = [d_h * z]
        new[0] = new[0] + rounded(made) @ W
        d_a[t], d_product[t] = np.where(live, made_a, 0), np.where(live, made, 0)
        d = [np.where(live, a, b) for a, b in zip(new, d, strict=True)]
    return d_a, d_product, d
