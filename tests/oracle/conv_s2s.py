"""The layers of Gehring et al. (2017), Convolutional Sequence to Sequence Learning, for ONE sentence, by loops.

Everything is written over finished sequences, as the paper has it: no states, no delays. Works on complex numbers too.
`p` holds one layer's parameters by the cells' names; `W_0` belongs to the newest position of a window.
"""

import numpy as np

from tests.oracle import attention
from tests.oracle.cells import sigmoid

HALF = np.sqrt(0.5)


def entry(p, e):
    """Section 3.2: embeddings [T, E] at the size of the layers, [T, H]."""
    return np.stack([row @ p["W_in"] + p["b_in"] for row in e])


def gated(p, h, newest):
    """Gated linear units over windows whose newest position at t is t + `newest`; zeros outside the sentence."""
    y = []
    for t in range(len(h)):
        a = p["b"]
        for k in range(sum(name.startswith("W_") for name in p)):
            if 0 <= t + newest - k < len(h):
                a = a + h[t + newest - k] @ p[f"W_{k}"]
        half = len(a) // 2
        y.append(a[:half] * sigmoid(a[half:]))
    return np.stack(y)


def encoder_layer(p, h, window):
    """Section 3.2: the window's centre is the position itself, and a residual."""
    return (gated(p, h, window // 2) + h) * HALF


def memory(p, h, e):
    """Section 3.3: keys z, and values z + e, side by side."""
    z = np.stack([row @ p["W_out"] + p["b_out"] for row in h])
    return np.concatenate([z, (z + e) * HALF], axis=1)


def decoder_layer(p, x, g, source, kind):
    """Section 3.3: a window of past positions, attention (keys and values are halves of `source` [S, 2 E]), residuals
    around both; the context is scaled by the root of the number of positions (section 3.5)."""
    inner = {name.removeprefix("cell."): v for name, v in p.items() if name.startswith("cell.")}
    h = gated(inner, x, 0)
    half = source.shape[1] // 2
    scores = {"W_query": p["W_q"], "W_key": p["W_k"], "v": p["v"]} if kind == "bahdanau" else {}
    y = []
    for t in range(len(x)):
        query = (h[t] @ p["W_d"] + p["b_d"] + g[t]) * HALF
        answers = [attention.score(kind, query, key[:half], scores) for key in source]
        weights = attention.softmax(np.array(answers))
        context = sum(w * place[half:] for w, place in zip(weights, source, strict=True)) * np.sqrt(len(source))
        y.append(((h[t] + context @ p["W_c"] + p["b_c"]) * HALF + x[t]) * HALF)
    return np.stack(y)


def output(p, h):
    """What the output layer reads."""
    return np.stack([row @ p["W_out"] + p["b_out"] for row in h])
