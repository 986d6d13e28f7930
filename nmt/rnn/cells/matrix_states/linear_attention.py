"""Linear attention as a recurrence: a matrix for each head to which every step adds an outer product of key and value.

One cell for a family that differs in what the matrix forgets: nothing (Katharopoulos et al. 2020), a constant share for
each head (RetNet, Sun et al. 2023), a share for each head (Mamba-2, Dao and Gu 2024) or for each key (GLA, Yang et al.
2024; HGRN2, Qin et al. 2024), which the input decides; and in whether a value replaces what its key held (gated
DeltaNet, Yang et al. 2025; with a share for each key KDA, Kimi Linear 2025).
"""

import math
from typing import Literal, get_args

from nmt.errors import ShapeError
from nmt.rnn.cell import Axes, Cell, Param, Scope, State
from nmt.rnn.cells.parts import (
    constants,
    head_norm,
    heads_of,
    short_convolution,
    short_convolution_params,
    short_convolution_states,
    silu,
    unit,
)
from nmt.rnn.functions import axes, exp, flat, relu, sigmoid, softplus, total
from nmt.rnn.graph import Value

Decay = Literal["none", "constant", "head", "key", "tied"]


class LinearAttentionCell(Cell):
    """q, k, v = x W_qkv by heads,  S_t = a * S_prev + k v^T,  y = norm(q^T S_t) * silu(x W_g),  output y W_o.

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
            shapes |= short_convolution_params(self.window, width)
        return shapes | {"gain": Param((self.value_size,), start=1.0), "W_o": Param((H, H))}

    def states(self) -> dict[str, int]:
        matrix = Axes(h=self.heads, k=self.key_size, v=self.value_size)
        return {"S": matrix} | short_convolution_states(self.window, 2 * self._keys + self.hidden_size)

    def starts(self) -> tuple[str, ...]:
        return ()

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        h, K, V, past = self.heads, self.key_size, self.value_size, State()
        u = x @ p.W_qkv
        if self.window:
            u, past = short_convolution(p, u, s, self.window)
            u = silu(u)
        cut = u.graph.apply
        q, k = (axes(cut("slice", u, start=n * h * K, size=h * K), h=h, k=K) for n in (0, 1))
        v = axes(cut("slice", u, start=2 * h * K, size=h * V), h=h, v=V)
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
