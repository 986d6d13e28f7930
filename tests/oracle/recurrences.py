"""One step of the linear recurrences for ONE row, written from the papers by loops over heads and keys.

As in more_cells.py: `step(p, x, s)` takes parameters under the cell's own names, x [D], and a dict of states, and
returns the output and the states after; everything also works on complex numbers.
"""

import numpy as np

from tests.oracle.cells import sigmoid
from tests.oracle.more_cells import columns, larger, magnitude


def softplus(a):
    return np.log(1 + np.exp(a))


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
        H = len(p["W_o"])
        V = H // heads
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
