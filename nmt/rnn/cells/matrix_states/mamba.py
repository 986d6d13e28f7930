"""Mamba's selective state space, S6 (Gu and Dao 2023, Mamba, section 3)."""

import math

from nmt.errors import ShapeError
from nmt.rnn.cell import Axes, Cell, Param, Scope, State
from nmt.rnn.functions import axes, exp, flat, softplus, total
from nmt.rnn.graph import Value


class S6Cell(Cell):
    """Algorithm 2, with `size` numbers n for each unit d:

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

    def starts(self) -> tuple[str, ...]:
        return ()

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        N, H = self.size, self.hidden_size
        cut = (bcr := x @ p.W_bcr).graph.apply
        B, C = (axes(cut("slice", bcr, start=k * N, size=N), n=N) for k in (0, 1))
        delta = softplus(cut("slice", bcr, start=2 * N, size=self.rank) @ p.W_dt + p.b_dt)
        h = exp(-exp(axes(p.A, n=N, d=H)) * axes(delta, d=H)) * s.h + axes(delta * x, d=H) * B
        return flat(total(h * C, "n")) + p.skip * x, State(h=h)
