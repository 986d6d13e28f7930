"""mLSTM: a matrix memory with exponential gates, kept in range by a stabiliser (Beck et al. 2024, xLSTM, section
2.3)."""

from nmt.rnn.cell import Axes, Cell, Param, Scope, State
from nmt.rnn.cells.parts import head_norm, heads_of
from nmt.rnn.functions import axes, exp, flat, maximum, sigmoid, softplus, split, total
from nmt.rnn.graph import Value


class MLSTMCell(Cell):
    """Equations 19 to 27 by heads, with k divided by sqrt(key_size):

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

    def starts(self) -> tuple[str, ...]:
        return ()

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
