"""Cells whose state is a matrix for each head: memories that are read and written by keys."""

import math
from typing import Literal, get_args

from nmt.errors import ShapeError
from nmt.rnn.arguments import flags
from nmt.rnn.cell import Axes, Param, Scope, State
from nmt.rnn.cells.parts import ShortConvolution, ZeroStartCell, constants, features, head_norm, heads_of, silu, unit
from nmt.rnn.functions import axes, exp, flat, maximum, relu, sigmoid, softplus, split, sqrt, tanh, total
from nmt.rnn.graph import Value

Decay = Literal["none", "constant", "head", "key", "tied"]


class LinearAttentionCell(ZeroStartCell):
    """q, k, v = x W_qkv by heads,  S_t = a * S_prev + k v^T,  y = norm(q^T S_t) * silu(x W_g),  output y W_o.

    One cell for a family that differs in what the matrix forgets: nothing (Katharopoulos et al. 2020), a constant share
    for each head (RetNet, Sun et al. 2023), a share for each head (Mamba-2, Dao and Gu 2024) or for each key (GLA, Yang
    et al. 2024; HGRN2, Qin et al. 2024), which the input decides; and in whether a value replaces what its key held
    (gated DeltaNet, Yang et al. 2025; with a share for each key KDA, Kimi Linear 2025).

    decay: `none`, a = 1 and q, k > 0 (Katharopoulos et al. 2020, equations 7 and 18; the norm of each head stands for
    the division by q^T sum of k, which it cancels); `constant`, a = 1 - 2^(-5 - head) (Sun et al. 2023, section 2.2,
    without the rotation of positions); `head`, a = exp(-exp(A) softplus(x W_a + b_a)), one number a head (Dao and Gu
    2024, section 7); `key`, a = sigmoid(x W_a U_a + b_a)^(1/16), one number for each key (Yang et al. 2024, section
    4.4); `tied`, a = sigmoid(k) and 1 - a in place of the key (Qin et al. 2024, section 3.2).

    delta: S~ = a * S_prev,  S_t = S~ + k (b (v - S~^T k))^T with b = sigmoid(x W_b) and q, k of length one: the delta
    rule (Yang et al. 2025, section 3.1). window: a short convolution and silu of q, k and v before all of this (section
    3.4 there); 0 is none. heads: as many as have 64 units each, where None. key_size: half of a head's units
    where None, as in RetNet and GLA. The state, heads x key_size x units of a head, starts at zero.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        heads: int | None = None,
        key_size: int | None = None,
        decay: Decay = "key",
        delta: bool = False,
        window: int = 0,
        rank: int = 16,
    ) -> None:
        flags("LinearAttentionCell", delta=delta)
        if decay not in get_args(Decay):
            raise ShapeError(f"LinearAttentionCell: decay must be one of {', '.join(get_args(Decay))}, got {decay}")
        if delta and decay in ("none", "tied"):
            raise ShapeError(f"LinearAttentionCell: delta must be with decay constant, head or key, got {decay}")
        if window < 0 or (key_size is not None and key_size < 1):
            raise ShapeError(f"LinearAttentionCell: sizes must not be negative, got {window=}, {key_size=}")
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.heads = heads_of("LinearAttentionCell", hidden_size, heads)
        self.value_size = hidden_size // self.heads
        self.key_size = key_size or max(1, self.value_size // 2)
        self.decay, self.delta, self.window, self.rank = decay, delta, window, rank

    @property
    def _keys(self) -> int:
        return self.heads * self.key_size

    def params(self) -> dict[str, Param]:
        D, H, h = self.input_size, self.hidden_size, self.heads
        width = 2 * self._keys + H
        shapes = {"W_qkv": Param((D, width), gates=width // H), "W_g": Param((D, H))}
        if self.decay == "key":
            shapes |= {"W_a": Param((D, self.rank)), "U_a": Param((self.rank, self._keys)), "b_a": Param((self._keys,))}
        elif self.decay == "head":
            rates = (0.001 * 100 ** (n / max(1, h - 1)) for n in range(h))  # at first the decay is 0.999 to 0.9
            start = tuple(math.log(math.expm1(rate)) for rate in rates)
            shapes |= {"W_a": Param((D, h)), "A": Param((h,)), "b_a": Param((h,), start=start)}
        if self.delta:
            shapes["W_b"] = Param((D, h))
        if self.window:
            shapes |= ShortConvolution(self.window, width).params()
        return shapes | {"gain": Param((self.value_size,), start=1.0), "W_o": Param((H, H))}

    def states(self) -> dict[str, int]:
        matrix = Axes(h=self.heads, k=self.key_size, v=self.value_size)
        return {"S": matrix} | ShortConvolution(self.window, 2 * self._keys + self.hidden_size).states()

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        h, K, V, past = self.heads, self.key_size, self.value_size, State()
        u = x @ p.W_qkv
        if self.window:
            u, past = ShortConvolution(self.window, 2 * self._keys + self.hidden_size).step(p, u, s)
            u = silu(u)
        q, k = (axes(features(u, n * h * K, h * K), h=h, k=K) for n in (0, 1))
        v = axes(features(u, 2 * h * K, h * V), h=h, v=V)
        q, k, S = self._decayed(p, x, q, k, s.S)
        q = q * K**-0.5
        if self.delta:
            v = axes(sigmoid(x @ p.W_b), h=h) * (v - total(S * k, "k"))
        S = S + k * v
        y = head_norm(total(q * S, "k"), p.gain, V)
        return flat(y * axes(silu(x @ p.W_g), h=h, v=V)) @ p.W_o, State(past, S=S)

    def _decayed(self, p: Scope, x: Value, q: Value, k: Value, S: Value) -> tuple[Value, Value, Value]:
        """Return queries and keys as the family uses them, and the decayed state."""
        h, K = self.heads, self.key_size
        if self.delta:
            q, k = unit(q, "k"), unit(k, "k")
        match self.decay:
            case "none":
                return _positive(q), _positive(k), S
            case "constant":
                return q, k, axes(constants(x, [1 - 2.0 ** (-5 - n) for n in range(h)]), h=h) * S
            case "head":
                return q, k, axes(exp(-exp(p.A) * softplus(x @ p.W_a + p.b_a)), h=h) * S
            case "key":
                return q, k, axes(exp(softplus(-((x @ p.W_a) @ p.U_a + p.b_a)) * (-1 / 16)), h=h, k=K) * S
        a = sigmoid(k)
        return silu(q), 1 - a, a * S


def _positive(x: Value) -> Value:
    """Return elu(x) + 1."""
    return exp(-relu(-x)) + relu(x)


class S6Cell(ZeroStartCell):
    """S6 (Gu and Dao 2023, Mamba, algorithm 2), with `size` numbers n for each unit d:

    [B, C, r] = x W_bcr,  D = softplus(r W_dt + b_dt),
    h_t[n, d] = exp(-exp(A)[n, d] D[d]) h_prev[n, d] + D[d] x[d] B[n],
    y[d] = sum over n of h_t[n, d] C[n] + skip[d] x[d].

    exp(A) begins as 1, 2, ..., size and D between 0.001 and 0.1 (section 3.6). The input has as many units as the
    output; its block (`BlockCell`) projects, convolves and gates it. rank: of D, hidden_size / 16 where None.
    """

    def __init__(self, input_size: int, hidden_size: int, *, size: int = 16, rank: int | None = None) -> None:
        if input_size != hidden_size:
            raise ShapeError(f"S6Cell: input_size must be hidden_size {hidden_size}, got {input_size}; use BlockCell")
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.size, self.rank = size, rank or max(1, hidden_size // 16)

    def params(self) -> dict[str, Param]:
        H, N = self.hidden_size, self.size
        rates = (0.001 * 100 ** (n / max(1, H - 1)) for n in range(H))
        return {
            "W_bcr": Param((H, 2 * N + self.rank)),
            "W_dt": Param((self.rank, H)),
            "b_dt": Param((H,), start=tuple(math.log(math.expm1(rate)) for rate in rates)),
            "A": Param((N * H,), start=tuple(math.log(n + 1) for n in range(N) for _ in range(H))),
            "skip": Param((H,), start=1.0),
        }

    def states(self) -> dict[str, int]:
        return {"h": Axes(n=self.size, d=self.hidden_size)}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        N, H = self.size, self.hidden_size
        bcr = x @ p.W_bcr
        B, C = (axes(features(bcr, k * N, N), n=N) for k in (0, 1))
        delta = softplus(features(bcr, 2 * N, self.rank) @ p.W_dt + p.b_dt)
        h = exp(-exp(axes(p.A, n=N, d=H)) * axes(delta, d=H)) * s.h + axes(delta * x, d=H) * B
        return flat(total(h * C, "n")) + p.skip * x, State(h=h)


class MLSTMCell(ZeroStartCell):
    """A matrix memory with exponential gates (Beck et al. 2024, xLSTM, section 2.3), equations 19 to 27 by heads, with
    k divided by sqrt(key_size):

    m_t = max(log f + m_prev, i),  i' = exp(i - m_t),  f' = exp(log f + m_prev - m_t),
    C_t = f' C_prev + i' k v^T,  n_t = f' n_prev + i' k,  y = C_t^T q / max(|n_t^T q|, exp(-m_t)),

    log f = log sigmoid of the forget gate; then as in xLSTM 7B (Beck et al. 2025, section 3) the norm of each head, the
    output gate sigmoid(o), and the output product. heads, key_size: as for `LinearAttentionCell`.
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, heads: int | None = None, key_size: int | None = None
    ) -> None:
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.heads = heads_of("MLSTMCell", hidden_size, heads)
        self.value_size = hidden_size // self.heads
        self.key_size = key_size or max(1, self.value_size // 2)

    def params(self) -> dict[str, Param]:
        D, H, h = self.input_size, self.hidden_size, self.heads
        forget = tuple(3.0 + 3.0 * n / max(1, h - 1) for n in range(h))
        return {
            "W_qk": Param((D, 2 * h * self.key_size), gates=2),
            "W_vo": Param((D, 2 * H), gates=2),
            "W_if": Param((D, 2 * h), gates=2),
            "b_i": Param((h,)),
            "b_f": Param((h,), start=forget),
            "gain": Param((self.value_size,), start=1.0),
            "W_o": Param((H, H)),
        }

    def states(self) -> dict[str, int]:
        h, K, V = self.heads, self.key_size, self.value_size
        return {"C": Axes(h=h, k=K, v=V), "n": Axes(h=h, k=K), "m": Axes(h=h)}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        h, K, V = self.heads, self.key_size, self.value_size
        q, k = (axes(one, h=h, k=K) for one in split(x @ p.W_qk, 2))
        v, o = split(x @ p.W_vo, 2)
        i, f = split(x @ p.W_if, 2)
        i, log_f = axes(i + p.b_i, h=h), axes(-softplus(-(f + p.b_f)), h=h)
        m = maximum(log_f + s.m, i)
        keep, key = exp(log_f + s.m - m), exp(i - m) * (K**-0.5 * k)
        C = keep * s.C + key * axes(v, h=h, v=V)
        n = keep * s.n + key
        reach = total(q * n, "k")
        y = total(q * C, "k") / maximum(maximum(reach, -reach), exp(-m))
        return flat(head_norm(y, p.gain, V) * axes(sigmoid(o), h=h, v=V)) @ p.W_o, State(C=C, n=n, m=m)


_MIXED = ("r", "w", "k", "v", "a", "g")


class RWKV7Cell(ZeroStartCell):
    """The time mixing of RWKV-7 (Peng et al. 2025, RWKV-7 "Goose" with Expressive Dynamic State Evolution, section 4):

    each of r, w, k, v, a, g reads x + mu * (x_prev - x) with a mu of its own (equation 3), then by heads

    w = exp(-e^(-1/2) sigmoid(w_0 + tanh(x W_w) U_w)),  a = sigmoid(a_0 + x W_a U_a),  g = sigmoid(x W_g) U_g,
    kappa = k * k_k of length one,  k~ = k * (1 + (a - 1) * k_a),
    S_t = w * S_prev - (a * kappa) (S_prev^T kappa)^T + k~ v^T,
    y = (norm(S_t^T r) + (sum over keys of r * k~ * r_k) v) * g,  output y W_o

    (equations 4 to 21; the norm is that of each head, with gain and bias). v is that of a first layer. S has heads x 64
    x 64 numbers and starts at zero. rank: of all products W U.
    """

    def __init__(self, input_size: int, hidden_size: int, *, heads: int | None = None, rank: int = 32) -> None:
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.heads = heads_of("RWKV7Cell", hidden_size, heads)
        self.rank = rank

    def params(self) -> dict[str, Param]:
        D, H, R = self.input_size, self.hidden_size, self.rank
        shapes = {f"mu_{name}": Param((D,), start=0.5) for name in _MIXED}
        shapes |= {f"W_{name}": Param((D, H)) for name in ("r", "k", "v")}
        shapes |= {f"W_{name}": Param((D, R)) for name in ("w", "a", "g")}
        shapes |= {f"U_{name}": Param((R, H)) for name in ("w", "a", "g")}
        speeds = tuple(-6.0 + 5.0 * n / max(1, H - 1) for n in range(H))
        shapes |= {"w_0": Param((H,), start=speeds), "a_0": Param((H,))}
        shapes |= {"k_k": Param((H,), start=0.85), "k_a": Param((H,), start=1.0), "r_k": Param((H,))}
        return shapes | {"gain": Param((H,), start=1.0), "bias": Param((H,)), "W_o": Param((H, H))}

    def states(self) -> dict[str, int]:
        size = self.hidden_size // self.heads
        return {"S": Axes(h=self.heads, k=size, v=size), "x": self.input_size}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        h, n = self.heads, self.hidden_size // self.heads
        mixed = {name: x + p[f"mu_{name}"] * (s.x - x) for name in _MIXED}
        r, k, v = (mixed[name] @ p[f"W_{name}"] for name in ("r", "k", "v"))
        w = exp(-math.exp(-0.5) * sigmoid(p.w_0 + tanh(mixed["w"] @ p.W_w) @ p.U_w))
        a = sigmoid(p.a_0 + (mixed["a"] @ p.W_a) @ p.U_a)
        g = sigmoid(mixed["g"] @ p.W_g) @ p.U_g
        kappa = unit(axes(k * p.k_k, h=h, k=n), "k")
        k = k * (1 + (a - 1) * p.k_a)
        r_k = axes(r * k * p.r_k, h=h, k=n)
        r, w, k, a = (axes(one, h=h, k=n) for one in (r, w, k, a))
        v = axes(v, h=h, v=n)
        S = w * s.S - (a * kappa) * total(s.S * kappa, "k") + k * v
        y = total(r * S, "k")
        centred = y - total(y, "v") * (1 / n)
        y = centred * (1 / sqrt(total(centred * centred, "v") * (1 / n) + n * 1e-5))
        y = y * axes(p.gain, h=h, v=n) + axes(p.bias, h=h, v=n) + total(r_k, "k") * v
        return flat(y * axes(g, h=h, v=n)) @ p.W_o, State(S=S, x=x)
