"""One step of the cells beyond LSTM, GRU and Elman's for ONE row, written from the papers by loops over gates.

`step(p, x, s)` takes one dict of parameters under the cell's own names, x [D], and a dict of states, and returns the
output and the states after. Everything also works on complex numbers (see gradients.py): comparisons look at real
parts.

The layers of Gehring et al. (2017), Convolutional Sequence to Sequence Learning, are written for ONE sentence over
finished sequences, as the paper has it: no states, no delays.
`p` holds one layer's parameters by the cells' names; `W_0` belongs to the newest position of a window.
"""

import numpy as np

from tests.oracle import attention, interface
from tests.oracle.layers import relu, sigmoid


def larger(a, b):
    """max(a, b), decided by the real part."""
    return np.where(np.real(a) > np.real(b), a, b)


def held(a, limit):
    """a within -limit and limit; None leaves it."""
    if limit is None:
        return a
    return np.where(np.real(a) > limit, limit, np.where(np.real(a) < -limit, -limit, a))


def magnitude(a):
    """|a|, continued analytically."""
    return np.where(np.real(a) < 0, -a, a)


def softplus(a):
    return np.log(1 + np.exp(a))


ACTIVATIONS = {
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "relu": relu,
    "hard_sigmoid": lambda a: np.where(np.real(a) < -2.5, 0.0, np.where(np.real(a) > 2.5, 1.0, 0.2 * a + 0.5)),
    "softsign": lambda a: a / (1 + magnitude(a)),
    "softplus": softplus,
    "leaky_relu": lambda a: np.where(np.real(a) < 0, 0.01 * a, a),
    "elu": lambda a: np.where(np.real(a) < 0, np.exp(a) - 1, a),
    "scaled_tanh": lambda a: 1.7159 * np.tanh(2 * a / 3),
    "thresholded_relu": lambda a: np.where(np.real(a) > 1, a, 0.0),
}


def columns(matrix, index, count):
    """Part `index` of `count` equal ones of the last axis."""
    width = matrix.shape[-1] // count
    return matrix[..., index * width : (index + 1) * width]


def layer_norm(a, gain, bias):
    """Ba et al. (2016), equation 3, with 1e-5 beside the variance."""
    mean = sum(a) / len(a)
    variance = sum((v - mean) ** 2 for v in a) / len(a)
    return (a - mean) / np.sqrt(variance + 1e-5) * gain + bias


def named_norm(p, name, a):
    """The normalisation with the gain and bias of this name."""
    return layer_norm(a, p[f"gain_{name}"], p[f"bias_{name}"])


def layer_norm_lstm(p, x, s):
    """Ba et al. (2016), supplementary material."""
    a = named_norm(p, "x", x @ p["W_x"]) + named_norm(p, "h", s["h"] @ p["W_h"]) + p["b"]
    i, f, g, o = (columns(a, k, 4) for k in range(4))
    c = sigmoid(f) * s["c"] + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(named_norm(p, "c", c))
    return h, {"h": h, "c": c}


def layer_norm_gru(p, x, s):
    """Ba et al. (2016), supplementary material; z keeps the old state."""
    H = len(s["h"])
    a, u = x @ p["W_x"], s["h"] @ p["W_h"]
    gates = sigmoid(named_norm(p, "x_rz", a[: 2 * H]) + named_norm(p, "h_rz", u[: 2 * H]))
    r, z = gates[:H], gates[H:]
    n = np.tanh(named_norm(p, "x_n", a[2 * H :]) + r * named_norm(p, "h_n", u[2 * H :]))
    h = (1 - z) * n + z * s["h"]
    return h, {"h": h}


def mi_lstm(norm):
    """Wu et al. (2016), equation 4."""

    def step(p, x, s):
        u, v = x @ p["W_x"], s["h"] @ p["W_h"]
        if norm:
            u, v = named_norm(p, "x", u), named_norm(p, "h", v)
        a = p["alpha"] * u * v + p["beta_x"] * u + p["beta_h"] * v + p["b"]
        i, f, g, o = (columns(a, k, 4) for k in range(4))
        c = sigmoid(f) * s["c"] + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(named_norm(p, "c", c) if norm else c)
        return h, {"h": h, "c": c}

    return step


def lstm_variant(*, clip=None, cell_clip=None, coupled=False, activations=("sigmoid", "tanh", "tanh")):
    """Graves (2013), equations 7-11; Sak et al. (2014), section 2; ONNX's LSTM. Peepholes and projection where `p` has
    them."""
    gate, candidate, out = (ACTIVATIONS[name] for name in activations)
    order = "igo" if coupled else "ifgo"

    def step(p, x, s):
        def pre(which, c):
            at = order.index(which)
            a = x @ columns(p["W_x"], at, len(order)) + s["h"] @ columns(p["W_h"], at, len(order))
            if "b" in p:
                a = a + columns(p["b"], at, len(order))
            if c is not None and f"w_{which}" in p:
                a = a + p[f"w_{which}"] * c
            return held(a, clip)

        i = gate(pre("i", s["c"]))
        f = 1 - i if coupled else gate(pre("f", s["c"]))
        c = held(f * s["c"] + i * candidate(pre("g", None)), cell_clip)
        h = gate(pre("o", c)) * out(c)
        if "W_p" in p:
            h = h @ p["W_p"]
        return h, {"h": h, "c": c}

    return step


def gru_variant(*, clip, activations, reset_after):
    """ONNX's GRU, gates r, z, n; `linear_before_reset` is reset_after."""
    gate, candidate = (ACTIVATIONS[name] for name in activations)

    def step(p, x, s):
        h = s["h"]
        W_h = p["W_h"] if reset_after else np.concatenate([p["W_rz"], p["W_n"]], axis=1)
        part = [lambda v, w=w, k=k: v @ columns(w, k, 3) for w in (p["W_x"], W_h) for k in range(3)]
        b, b_h = ([columns(p[name], k, 3) for k in range(3)] for name in ("b", "b_h"))
        r, z = (gate(held(part[k](x) + b[k] + part[3 + k](h) + b_h[k], clip)) for k in range(2))
        recurrent = r * (part[5](h) + b_h[2]) if reset_after else part[5](r * h) + b_h[2]
        n = candidate(held(part[2](x) + b[2] + recurrent, clip))
        h = (1 - z) * n + z * h
        return h, {"h": h}

    return step


def elman_variant(*, clip, nonlinearity):
    """ONNX's RNN."""

    def step(p, x, s):
        h = ACTIVATIONS[nonlinearity](held(x @ p["W_x"] + s["h"] @ p["W_h"] + p["b"], clip))
        return h, {"h": h}

    return step


def sru(p, x, s):
    """Lei et al. (2018), equations 1-4."""
    count = p["W_x"].shape[1] // len(s["c"])
    parts = [x @ columns(p["W_x"], k, count) for k in range(count)]
    f = sigmoid(parts[1] + p["v_f"] * s["c"] + p["b_f"])
    r = sigmoid(parts[2] + p["v_r"] * s["c"] + p["b_r"])
    c = f * s["c"] + (1 - f) * parts[0]
    return r * c + (1 - r) * (parts[3] if count == 4 else x), {"c": c}


def ssru(p, x, s):
    """Kim et al. (2019)."""
    f = sigmoid(x @ columns(p["W_x"], 1, 2) + p["b_f"])
    c = f * s["c"] + (1 - f) * (x @ columns(p["W_x"], 0, 2))
    return relu(c), {"c": c}


def min_gru(p, x, s):
    """Feng et al. (2024), section 3.1."""
    z, n = (x @ columns(p["W_x"], k, 2) + columns(p["b"], k, 2) for k in range(2))
    h = (1 - sigmoid(z)) * s["h"] + sigmoid(z) * n
    return h, {"h": h}


def min_lstm(p, x, s):
    """Feng et al. (2024), section 3.2."""
    f, i, n = (x @ columns(p["W_x"], k, 3) + columns(p["b"], k, 3) for k in range(3))
    f, i = sigmoid(f), sigmoid(i)
    h = f / (f + i) * s["h"] + i / (f + i) * n
    return h, {"h": h}


def window(p, x, s):
    """A convolution's sum at this step from what was prepared before, and what is prepared for later steps."""
    size = sum(name.startswith("W_") for name in p)
    sums = [x @ p[f"W_{k}"] for k in range(size)]
    for k in range(size - 1):
        sums[k] = sums[k] + s[f"past{k + 1}"]
    return sums[0] + p["b"], {f"past{k}": sums[k] for k in range(1, size)}


def qrnn(p, x, s):
    """Bradbury et al. (2017), equations 1, 2 and 4."""
    a, past = window(p, x, s)
    z, f, o = (columns(a, k, 3) for k in range(3))
    c = sigmoid(f) * s["c"] + (1 - sigmoid(f)) * np.tanh(z)
    return sigmoid(o) * c, {"c": c, **past}


def convolution(p, x, s):
    """Gehring et al. (2017), section 3.2."""
    a, past = window(p, x, s)
    return columns(a, 0, 2) * sigmoid(columns(a, 1, 2)), past


def whole_convolution(p, x):
    """The same over a finished sequence x [T, D], from zeros: y_t reads x_t, x_{t-1}, ... directly."""
    size = sum(name.startswith("W_") for name in p)
    y = []
    for t in range(len(x)):
        a = p["b"] + sum(x[t - k] @ p[f"W_{k}"] for k in range(size) if t >= k)
        y.append(columns(a, 0, 2) * sigmoid(columns(a, 1, 2)))
    return np.stack(y)


def ind_rnn(p, x, s):
    """Li et al. (2018), section 3."""
    h = relu(x @ p["W_x"] + p["u"] * s["h"] + p["b"])
    return h, {"h": h}


def slstm(heads):
    """Beck et al. (2024), equations 8-17, a head at a time; where nothing is stored (n is zero) m starts at i and f'
    at 1 or below."""

    def step(p, x, s):
        H = len(s["h"])
        new = {name: [] for name in "hcnm"}
        for k in range(heads):
            units = slice(k * H // heads, (k + 1) * H // heads)
            old = {name: v[units] for name, v in s.items()}
            a = [
                (x @ columns(p["W_x"], g, 4) + columns(p["b"], g, 4))[units] + old["h"] @ columns(p[f"R_{k}"], g, 4)
                for g in range(4)
            ]
            i, f, z, o = a
            log_f = np.log(sigmoid(f))
            m = np.where(np.real(old["n"]) > 0, larger(log_f + old["m"], i), i)
            rest = log_f + old["m"] - m
            keep = np.exp(np.where(np.real(rest) > 0, 0, rest))
            c = keep * old["c"] + np.exp(i - m) * np.tanh(z)
            n = keep * old["n"] + np.exp(i - m)
            for name, value in zip("hcnm", (sigmoid(o) * c / n, c, n, m), strict=True):
                new[name].append(value)
        new = {name: np.concatenate(parts) for name, parts in new.items()}
        return new["h"], new

    return step


def unscaled_slstm(heads):
    """Beck et al. (2024), equations 8-14: c and n grow as exp(i) says, and nothing holds them in range."""

    def step(p, x, s):
        H = len(s["h"])
        new = {name: [] for name in "hcn"}
        for k in range(heads):
            units = slice(k * H // heads, (k + 1) * H // heads)
            a = [(x @ columns(p["W_x"], g, 4) + columns(p["b"], g, 4))[units] for g in range(4)]
            i, f, z, o = (a[g] + s["h"][units] @ columns(p[f"R_{k}"], g, 4) for g in range(4))
            c = sigmoid(f) * s["c"][units] + np.exp(i) * np.tanh(z)
            n = sigmoid(f) * s["n"][units] + np.exp(i)
            for name, value in zip("hcn", (sigmoid(o) * c / n, c, n), strict=True):
                new[name].append(value)
        new = {name: np.concatenate(parts) for name, parts in new.items()}
        return new["h"], new

    return step


def deep_transition(p, x, s):
    """Pascanu et al. (2014): one GRU step with the input, the others without."""
    h = s["h"]
    for k in range(sum(name.endswith("W_h") for name in p)):
        u = [h @ columns(p[f"{k}.W_h"], g, 3) + columns(p[f"{k}.b_h"], g, 3) for g in range(3)]
        a = [x @ columns(p["0.W_x"], g, 3) + columns(p["0.b"], g, 3) for g in range(3)] if k == 0 else [0, 0, 0]
        r, z = sigmoid(a[0] + u[0]), sigmoid(a[1] + u[1])
        h = (1 - z) * np.tanh(a[2] + r * u[2]) + z * h
    return h, {"h": h}


def zoneout(step, rates):
    """Krueger et al. (2017): the expectation, as at test time."""

    def expected(p, x, s):
        _, new = step(p, x, s)
        new = {name: rates[name] * s[name] + (1 - rates[name]) * v if name in rates else v for name, v in new.items()}
        return new["h"], new

    return expected


def run(step, p, x, initial, lengths, *, reverse=False):
    """x [T, B, D], states [B, n] by name -> y [T, B, n], final states; y is zero beyond each row's length."""
    there = np.arange(len(x))[:, None] < (np.full(x.shape[1], len(x)) if lengths is None else np.asarray(lengths))

    def whole(p, now, s):
        return *step(p, now["x"], s), {}

    found = interface.run(whole, p, {"x": x}, initial, there, captured={}, reverse=reverse)
    return found.get("y"), {name: found[f"final {name}"] for name in initial}


def silu(a):
    return a * sigmoid(a)


def gelu(a):
    return a / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)))


def rms(a, epsilon=1e-5):
    """a divided by the root of its mean square."""
    return a / np.sqrt(sum(v * v for v in a) / len(a) + epsilon)


def unit(a):
    """a with length one."""
    return a / np.sqrt(sum(v * v for v in a) + 1e-6)


def below(p, prefix):
    """The parameters or states of an inner cell."""
    return {name.removeprefix(prefix): v for name, v in p.items() if name.startswith(prefix)}


def short_convolution(p, z, s, window):
    """The sum of the last inputs times weights, from what earlier inputs have left, and what it leaves."""
    new = {}
    for k in range(1, window):
        later = s[f"past{k + 1}"] if k + 1 < window else 0
        new[f"past{k}"] = p[f"c_{k}"] * z + later
    return p["c_0"] * z + (s["past1"] if window > 1 else 0), new


def lrn(p, x, s):
    """Zhang and Sennrich (2019), section 3."""
    q, k, v = (x @ columns(p["W_x"], g, 3) + columns(p["b"], g, 3) for g in range(3))
    h = np.tanh(sigmoid(k + s["h"]) * v + sigmoid(q - s["h"]) * s["h"])
    return h, {"h": h}


def rg_lru(p, x, s):
    """De et al. (2024), equations 1 to 4, c = 8."""
    r, i = (sigmoid(x @ columns(p["W_ri"], g, 2) + columns(p["b_ri"], g, 2)) for g in range(2))
    a = sigmoid(p["decay"]) ** (8 * r)
    h = a * s["h"] + np.sqrt(larger(1 - a * a, 1e-6)) * (i * x)
    return h, {"h": h}


def normed(step):
    """A step of x divided by the root of its mean square, times a gain."""
    return lambda p, x, s: step(p, rms(x) * p["norm_gain"], s)


def block(step, window, *, activation, gate):
    """Gu and Dao (2023), figure 3; De et al. (2024), figure 2."""

    def whole(p, x, s):
        u, new = short_convolution(p, x @ p["W_in"], s, window)
        y, inner = step(below(p, "cell."), activation(u + p["b"]), below(s, "cell."))
        return (y * gate(x @ p["W_gate"])) @ p["W_out"], new | {f"cell.{k}": v for k, v in inner.items()}

    return whole


def linear_attention(heads, K, *, decay, delta=False, window=0):
    """A head at a time: what the matrix keeps of each key's row, what a key writes, what a query reads."""

    def step(p, x, s):
        V = len(p["W_o"]) // heads
        u, new = x @ p["W_qkv"], {}
        if window:
            u, new = short_convolution(p, u, s, window)
            u = silu(u)
        S = np.zeros(s["S"].shape, np.result_type(u, s["S"], *p.values()))
        read = []
        for h in range(heads):
            q, k = u[h * K : (h + 1) * K], u[(heads + h) * K : (heads + h + 1) * K]
            v = u[2 * heads * K + h * V : 2 * heads * K + (h + 1) * V]
            if delta:
                q, k = unit(q), unit(k)
            if decay == "none":
                a = 1
                q, k = (np.where(np.real(one) > 0, one + 1, np.exp(one)) for one in (q, k))
            elif decay == "constant":
                a = 1 - 2.0 ** (-5 - h)
            elif decay == "head":
                a = np.exp(-np.exp(p["A"][h]) * softplus((x @ p["W_a"] + p["b_a"])[h]))
            elif decay == "key":
                a = sigmoid(((x @ p["W_a"]) @ p["U_a"] + p["b_a"])[h * K : (h + 1) * K]) ** (1 / 16)
            elif decay == "tied":
                q, a = silu(q), sigmoid(k)
                k = 1 - a
            old = (a * np.ones(K))[:, None] * s["S"][h]
            if delta:
                v = sigmoid((x @ p["W_b"])[h]) * (v - sum(k[n] * old[n] for n in range(K)))
            for n in range(K):
                S[h, n] = old[n] + k[n] * v
            read.append(rms(sum(q[n] * S[h, n] for n in range(K)) / np.sqrt(K)) * p["gain"])
        return (np.concatenate(read) * silu(x @ p["W_g"])) @ p["W_o"], new | {"S": S}

    return step


def mlstm(heads, K):
    """Beck et al. (2024), equations 19 to 27, a head at a time."""

    def step(p, x, s):
        V = len(p["W_o"]) // heads
        (q, k), (v, o) = ([x @ columns(p[name], g, 2) for g in range(2)] for name in ("W_qk", "W_vo"))
        i, f = (x @ columns(p["W_if"], g, 2) + p[b] for g, b in enumerate(("b_i", "b_f")))
        kind = np.result_type(x, *p.values(), *s.values())
        new = {name: np.zeros(array.shape, kind) for name, array in s.items()}
        read = []
        for h in range(heads):
            keys, log_f = slice(h * K, (h + 1) * K), np.log(sigmoid(f[h]))
            m = larger(log_f + s["m"][h], i[h])
            keep, write = np.exp(log_f + s["m"][h] - m), np.exp(i[h] - m)
            C, n, y, reach = np.zeros((K, V), kind), np.zeros(K, kind), np.zeros(V, kind), 0
            for j, (key, query) in enumerate(zip(k[keys] / np.sqrt(K), q[keys], strict=True)):
                C[j] = keep * s["C"][h, j] + write * key * v[h * V : (h + 1) * V]
                n[j] = keep * s["n"][h, j] + write * key
                y, reach = y + query * C[j], reach + query * n[j]
            new["C"][h], new["n"][h], new["m"][h] = C, n, m
            read.append(rms(y / larger(magnitude(reach), np.exp(-m))) * p["gain"])
        return (np.concatenate(read) * sigmoid(o)) @ p["W_o"], new

    return step


def s6(N):
    """Gu and Dao (2023), algorithm 2, a unit at a time."""

    def step(p, x, s):
        bcr = x @ p["W_bcr"]
        B, C, D = bcr[:N], bcr[N : 2 * N], softplus(bcr[2 * N :] @ p["W_dt"] + p["b_dt"])
        A = -np.exp(p["A"]).reshape(N, len(x))
        h = np.stack([np.exp(D * A[n]) * s["h"][n] + D * x * B[n] for n in range(N)])
        return sum(C[n] * h[n] for n in range(N)) + p["skip"] * x, {"h": h}

    return step


def rwkv7(heads):
    """Peng et al. (2025), equations 3 to 21, a head at a time; the state as rows of keys."""

    def step(p, x, s):
        one = {name: x + p[f"mu_{name}"] * (s["x"] - x) for name in "rwkvag"}
        r, k, v = (one[name] @ p[f"W_{name}"] for name in "rkv")
        w = np.exp(-np.exp(-0.5) * sigmoid(p["w_0"] + np.tanh(one["w"] @ p["W_w"]) @ p["U_w"]))
        a = sigmoid(p["a_0"] + one["a"] @ p["W_a"] @ p["U_a"])
        g = sigmoid(one["g"] @ p["W_g"]) @ p["U_g"]
        n, S, read = len(r) // heads, [], []
        for h in range(heads):
            of = slice(h * n, (h + 1) * n)
            kappa = unit(k[of] * p["k_k"][of])
            key = k[of] * (1 + (a[of] - 1) * p["k_a"][of])
            held = sum(kappa[j] * s["S"][h, j] for j in range(n))
            S.append(
                np.stack([w[of][j] * s["S"][h, j] - a[of][j] * kappa[j] * held + key[j] * v[of] for j in range(n)])
            )
            y = sum(r[of][j] * S[h][j] for j in range(n))
            y = y - sum(y) / n
            y = y / np.sqrt(sum(y * y) / n + n * 1e-5) * p["gain"][of] + p["bias"][of]
            read.append(y + sum(r[of] * key * p["r_k"][of]) * v[of])
        return (np.concatenate(read) * g) @ p["W_o"], {"S": np.stack(S), "x": x}

    return step


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
    h = gated(below(p, "cell."), x, 0)
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
