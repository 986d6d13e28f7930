"""What the imported models compute, in plain NumPy as their own code has it, float64, one sentence at a time."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(w, prefix, x, h, end=""):
    """PyTorch's GRU cell: gates r, z, n."""
    a = x @ w[f"{prefix}weight_ih{end}"].T + w[f"{prefix}bias_ih{end}"]
    b = h @ w[f"{prefix}weight_hh{end}"].T + w[f"{prefix}bias_hh{end}"]
    (a_r, a_z, a_n), (b_r, b_z, b_n) = np.split(a, 3), np.split(b, 3)
    z = sigmoid(a_z + b_z)
    return ((1 - z) * np.tanh(a_n + sigmoid(a_r + b_r) * b_n) + z * h,)


def lstm(w, prefix, x, h, c, end=""):
    """PyTorch's LSTM cell: gates i, f, g, o."""
    a = x @ w[f"{prefix}weight_ih{end}"].T + w[f"{prefix}bias_ih{end}"]
    a = a + h @ w[f"{prefix}weight_hh{end}"].T + w[f"{prefix}bias_hh{end}"]
    i, f, g, o = np.split(a, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def cell(kind):
    return {"gru": gru, "lstm": lstm}[kind]


def layers(w, prefix, kind, xs, num_layers=1, directions=2):
    """PyTorch's layers over a sequence: the outputs, and by layer the final states, both directions side by side."""
    finals = []
    for layer in range(num_layers):
        outs, last = [], []
        for end in ("", "_reverse")[:directions]:
            H = w[f"{prefix}weight_hh_l{layer}{end}"].shape[1]
            state, ys = tuple(np.zeros(H) for _ in range(1 + (kind == "lstm"))), []
            for x in xs[::-1] if end else xs:
                state = cell(kind)(w, prefix, x, *state, end=f"_l{layer}{end}")
                ys.append(state[0])
            outs.append(np.stack(ys[::-1] if end else ys))
            last.append(state)
        xs = np.concatenate(outs, axis=1)
        finals.append(tuple(np.concatenate(one) for one in zip(*last, strict=True)))
    return xs, finals


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def log_prob(logits, token):
    return logits[token] - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def doubles(w):
    return {k: np.asarray(v, np.float64) for k, v in w.items()}


def drawn(rng, shapes, scale=0.6):
    """Normal float32 arrays of these shapes by name."""
    return {name: rng.normal(0, scale, shape).astype(np.float32) for name, shape in shapes.items()}


def cell_shapes(prefix, kind, input_size, hidden, end=""):
    """The shapes of a PyTorch cell's parameters by name."""
    G = {"gru": 3, "lstm": 4}[kind] * hidden
    sizes = {"weight_ih": (G, input_size), "weight_hh": (G, hidden), "bias_ih": (G,), "bias_hh": (G,)}
    return {f"{prefix}{name}{end}": shape for name, shape in sizes.items()}
