"""sLSTM: exponential gates, kept in range by a stabiliser (Beck et al. 2024, xLSTM, section 2.2)."""

from nmt.errors import ShapeError
from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.functions import concat, exp, maximum, positive, relu, sigmoid, softplus, split, tanh
from nmt.rnn.graph import Value


class SLSTMCell(Cell):
    """Gates i, f, z, o. Equations 8-17 of the paper, the forget gate a sigmoid:

    m_t = max(log f + m_prev, i),  i' = exp(i - m_t),  f' = exp(log f + m_prev - m_t), c_t = f' * c_prev + i' * tanh(z),
    n_t = f' * n_prev + i',  h_t = sigmoid(o) * c_t / n_t.

    m only scales c and n, whose quotient h uses, so h is that of equations 8-14, which have no m. Where n_prev is zero
    nothing has been stored yet, and the paper's equations leave m_prev open: it counts as minus infinity there, m_t = i
    and i' = 1. So n_t is never zero, a first step gives h = sigmoid(o) * tanh(z) also where exp(i) overflows the type,
    and all gradients are finite (f' is limited to 1, since m_prev is no bound then). `heads`: h is split into this many
    parts, and each part of the gates reads its own (the paper's memory mixing); `R_0`, ... are their matrices.
    """

    def __init__(self, input_size: int, hidden_size: int, heads: int = 1) -> None:
        if heads < 1 or hidden_size % heads:
            raise ShapeError(f"SLSTMCell: heads must divide hidden_size {hidden_size}, got {heads}")
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.heads = heads

    def params(self) -> dict[str, Param]:
        D, H, part = self.input_size, self.hidden_size, self.hidden_size // self.heads
        shapes = {"W_x": Param((D, 4 * H), gates=4), "b": Param((4 * H,), gates=4, ones=1)}
        return shapes | {f"R_{k}": Param((part, 4 * part), gates=4) for k in range(self.heads)}

    def states(self) -> dict[str, int]:
        return {name: self.hidden_size for name in ("h", "c", "n", "m")}

    def starts(self) -> tuple[str, ...]:
        return ("h",)

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        i, f, z, o = (a + u for a, u in zip(split(x @ p.W_x + p.b, 4), self._mixed(p, s.h), strict=True))
        log_f = -softplus(-f)
        started = positive(s.n)
        m = started * maximum(log_f + s.m, i) + (1 - started) * i
        write, keep = exp(i - m), exp(-relu(m - s.m - log_f))
        c = keep * s.c + write * tanh(z)
        n = keep * s.n + write
        h = sigmoid(o) * c / n
        return h, State(h=h, c=c, n=n, m=m)

    def _mixed(self, p: Scope, h: Value) -> list[Value]:
        """Return the recurrent contribution to each gate."""
        parts = [split(part @ p[f"R_{k}"], 4) for k, part in enumerate(split(h, self.heads))]
        return [concat(*gate) for gate in zip(*parts, strict=True)]
