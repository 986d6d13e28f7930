"""RWKV-7 (Peng et al. 2025, RWKV-7 "Goose" with Expressive Dynamic State Evolution, section 4): its time mixing, and
the layers of its stack."""

import math
from collections.abc import Mapping

from nmt.rnn.cell import Axes, Cell, Param, Scope, State
from nmt.rnn.cells.layer_norm import norm_params, normalised
from nmt.rnn.cells.parts import heads_of, unit
from nmt.rnn.cells.wrapping.wrappers import WrappedCell
from nmt.rnn.functions import axes, concat, exp, flat, relu, sigmoid, split, sqrt, tanh, total
from nmt.rnn.graph import Value

_MIXED = ("r", "w", "k", "v", "a", "g")


class RWKV7Cell(Cell):
    """Each of r, w, k, v, a, g reads x + mu * (x_prev - x) with a mu of its own (equation 3), then by heads

    w = exp(-e^(-1/2) sigmoid(w_0 + tanh(x W_w) U_w)),  a = sigmoid(a_0 + x W_a U_a),  g = sigmoid(x W_g) U_g,
    kappa = k * k_k of length one,  k~ = k * (1 + (a - 1) * k_a),
    S_t = w * S_prev - (a * kappa) (S_prev^T kappa)^T + k~ v^T,
    y = (norm(S_t^T r) + (sum over keys of r * k~ * r_k) v) * g,  output y W_o

    (equations 4 to 21; the norm is that of each head, with gain and bias). v is that of a first layer: see
    `RWKV7TimeCell`. S has heads x 64 x 64 numbers and starts at zero. rank: of all products W U, or by their names.
    """

    _epsilon = 1e-6
    """A number added to the square of the length of k * k_k."""

    def __init__(
        self, input_size: int, hidden_size: int, *, heads: int | None = None, rank: int | Mapping[str, int] = 32
    ) -> None:
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.heads = heads_of("RWKV7Cell", hidden_size, heads)
        self.ranks = dict.fromkeys("wagn", rank) if isinstance(rank, int) else dict(rank)

    def params(self) -> dict[str, Param]:
        return self._shapes(self.input_size)

    def _shapes(self, D: int) -> dict[str, Param]:
        H, R = self.hidden_size, self.ranks
        shapes = {f"mu_{name}": Param((D,), start=0.5) for name in _MIXED}
        shapes |= {f"W_{name}": Param((D, H)) for name in ("r", "k", "v")}
        shapes |= {f"W_{name}": Param((D, R[name])) for name in ("w", "a", "g")}
        shapes |= {f"U_{name}": Param((R[name], H)) for name in ("w", "a", "g")}
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
        y, _, new = self._mixed(p, x, s)
        return y, new

    def _mixed(self, p: Scope, x: Value, s: State, first: Value | None = None) -> tuple[Value, Value, State]:
        """Return output, v [B, H] and new states; `first` is v of the first layer, where this is a later one."""
        h, n = self.heads, self.hidden_size // self.heads
        mixed = {name: x + p[f"mu_{name}"] * (s.x - x) for name in _MIXED}
        r, k, v = (mixed[name] @ p[f"W_{name}"] for name in ("r", "k", "v"))
        if first is not None:
            v = v + (first - v) * sigmoid(p.v_0 + (mixed["v"] @ p.W_n) @ p.U_n)
        values = v
        w = exp(-math.exp(-0.5) * sigmoid(p.w_0 + tanh(mixed["w"] @ p.W_w) @ p.U_w))
        a = sigmoid(p.a_0 + (mixed["a"] @ p.W_a) @ p.U_a)
        g = sigmoid(mixed["g"] @ p.W_g) @ p.U_g
        kappa = unit(axes(k * p.k_k, h=h, k=n), "k", self._epsilon)
        k = k * (1 + (a - 1) * p.k_a)
        r_k = axes(r * k * p.r_k, h=h, k=n)
        r, w, k, a = (axes(one, h=h, k=n) for one in (r, w, k, a))
        v = axes(v, h=h, v=n)
        S = w * s.S - (a * kappa) * total(s.S * kappa, "k") + k * v
        y = total(r * S, "k")
        centred = y - total(y, "v") * (1 / n)
        y = centred * (1 / sqrt(total(centred * centred, "v") * (1 / n) + n * 1e-5))
        y = y * axes(p.gain, h=h, v=n) + axes(p.bias, h=h, v=n) + total(r_k, "k") * v
        return flat(y * axes(g, h=h, v=n)) @ p.W_o, values, State(S=S, x=x)


class RWKV7TimeCell(RWKV7Cell):
    """[x, v_1] -> [x + time mixing of the norm of x, v_1], the first half of a layer, where v_1 are the values of the
    first layer: it reads x alone, and the others take v + (v_1 - v) sigmoid(v_0 + x W_n U_n) as theirs (equation 9).

    x has as many numbers as v. The channel mixing that follows is `RWKV7ChannelCell` in a `PassingCell`.
    """

    _epsilon = 1e-12

    def __init__(
        self, hidden_size: int, *, first: bool, heads: int | None = None, rank: int | Mapping[str, int] = 32
    ) -> None:
        super().__init__(hidden_size, hidden_size, heads=heads, rank=rank)
        self.first, self.input_size, self.output_size = first, hidden_size * (1 if first else 2), 2 * hidden_size

    def params(self) -> dict[str, Param]:
        H, R = self.hidden_size, self.ranks["n"]
        later = {"W_n": Param((H, R)), "U_n": Param((R, H)), "v_0": Param((H,), start=0.5)}
        return norm_params("norm", H) | ({} if self.first else later) | self._shapes(H)

    def states(self) -> dict[str, int]:
        return super().states() | {"x": self.hidden_size}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        x, first = (x, None) if self.first else split(x, 2)
        y, values, new = self._mixed(p, normalised(p, "norm", x), s, first)
        return concat(x + y, values if first is None else first), new


class RWKV7ChannelCell(Cell):
    """relu((x + mu * (x_prev - x)) W_k)^2 W_v: the channel mixing (section 4.2), with `inner` units."""

    def __init__(self, hidden_size: int, inner: int) -> None:
        self.input_size, self.output_size, self.inner = hidden_size, hidden_size, inner

    def params(self) -> dict[str, Param]:
        H = self.input_size
        return {"mu": Param((H,), start=0.5), "W_k": Param((H, self.inner)), "W_v": Param((self.inner, H))}

    def states(self) -> dict[str, int]:
        return {"x": self.input_size}

    def starts(self) -> tuple[str, ...]:
        return ()

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        k = relu((x + p.mu * (s.x - x)) @ p.W_k)
        return (k * k) @ p.W_v, State(x=x)


class PassingCell(WrappedCell):
    """[x, v] -> [cell(x), v], or cell(x) alone where it is the `last`."""

    def __init__(self, cell: Cell, *, last: bool) -> None:
        super().__init__(cell)
        self.last, self.input_size = last, 2 * cell.input_size
        self.output_size = cell.output_size if last else 2 * cell.output_size

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        x, passed = split(x, 2)
        y, new = self.cell.step(p, x, s)
        return (y if self.last else concat(y, passed)), new
