"""RWKV-7 (Peng et al. 2025, RWKV-7 "Goose" with Expressive Dynamic State Evolution, section 4): its time mixing."""

import math

from nmt.rnn.cell import Axes, Cell, Param, Scope, State
from nmt.rnn.cells.parts import heads_of, unit
from nmt.rnn.functions import axes, exp, flat, sigmoid, sqrt, tanh, total
from nmt.rnn.graph import Value

_MIXED = ("r", "w", "k", "v", "a", "g")


class RWKV7Cell(Cell):
    """Each of r, w, k, v, a, g reads x + mu * (x_prev - x) with a mu of its own (equation 3), then by heads

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

    def starts(self) -> tuple[str, ...]:
        return ()

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
