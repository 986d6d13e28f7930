"""The LSTM with everything that ONNX, cuDNN and the speech toolkits add to it: peepholes, projection, clipping, coupled
gates, other activations; and the named members of the family."""

from nmt.rnn.arguments import flags, limit, whole_number
from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.cells.parts import ActivationSpec, EqualCell, activation, checked_activations, clip, heads_of
from nmt.rnn.functions import concat, exp, maximum, positive, relu, sigmoid, softplus, split, tanh
from nmt.rnn.graph import Value


class LSTMVariantCell(Cell):
    """Gates i, f, g, o side by side, with

    peepholes   i and f also see c_prev, o sees c_t, each through one weight per unit, `w_i`, `w_f`, `w_o` (Gers and
                Schmidhuber 2000; Graves 2013, equations 7-11)
    projection  h_t = (sigmoid(o) * tanh(c_t)) W_p of this width (Sak, Senior and Beaufays 2014, section 2)
    clip        the arguments of the gates' activations are limited to [-clip, clip] (ONNX: `clip`)
    cell_clip   c_t is limited to [-cell_clip, cell_clip] (cuDNN: cudnnRNNSetClip)
    coupled     f = 1 - i; gates are i, g, o (Greff et al. 2017, section 3, CIFG; ONNX: `input_forget`)
    activations of the gates, of the candidate g, and of c_t in the output, by name
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        peepholes: bool = False,
        projection: int | None = None,
        clip: float | None = None,
        cell_clip: float | None = None,
        coupled: bool = False,
        activations: tuple[ActivationSpec, ActivationSpec, ActivationSpec] = ("sigmoid", "tanh", "tanh"),
    ) -> None:
        name = type(self).__name__
        flags(name, bias=bias, peepholes=peepholes, coupled=coupled)
        clip, cell_clip = limit(name, "clip", clip), limit(name, "cell_clip", cell_clip)
        projection = None if projection is None else whole_number(name, "projection", projection)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.output_size = hidden_size if projection is None else projection
        self.bias, self.peepholes, self.projection = bias, peepholes, projection
        self.clip, self.cell_clip, self.coupled = clip, cell_clip, coupled
        self.activations = checked_activations(name, activations, 3)

    def params(self) -> dict[str, Param]:
        D, H, P, G = self.input_size, self.hidden_size, self.output_size, 3 if self.coupled else 4
        shapes = {"W_x": Param((D, G * H), gates=G), "W_h": Param((P, G * H), gates=G)}
        if self.bias:
            shapes["b"] = Param((G * H,), gates=G, ones=None if self.coupled else 1)
        if self.peepholes:
            shapes |= {name: Param((H,)) for name in (("w_i", "w_o") if self.coupled else ("w_i", "w_f", "w_o"))}
        return shapes | ({} if self.projection is None else {"W_p": Param((H, P))})

    def states(self) -> dict[str, int]:
        return {"h": self.output_size, "c": self.hidden_size}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        gate, candidate, out = (activation(name) for name in self.activations)
        a = x @ p.W_x + s.h @ p.W_h
        if self.bias:
            a = a + p.b
        a_i, *a_f, a_g, a_o = split(a, 3 if self.coupled else 4)
        i = gate(self._clipped(p, "w_i", a_i, s.c))
        f = 1 - i if self.coupled else gate(self._clipped(p, "w_f", a_f[0], s.c))
        c = clip(f * s.c + i * candidate(clip(a_g, self.clip)), self.cell_clip)
        o = gate(self._clipped(p, "w_o", a_o, c))
        h = o * out(c)
        p.note(i=i, f=f, o=o)
        if self.projection is not None:
            h = h @ p.W_p
        return h, State(h=h, c=c)

    def _clipped(self, p: Scope, name: str, a: Value, c: Value) -> Value:
        return clip(a + p[name] * c if self.peepholes else a, self.clip)


class PeepholeLSTMCell(LSTMVariantCell):
    """The LSTM whose gates read the memory: i and f that of the previous step, o the new one (Gers and Schmidhuber
    2000; Graves 2013, equations 7-11)."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size, bias, peepholes=True)


class ProjectedLSTMCell(LSTMVariantCell):
    """LSTMP: a memory of `hidden_size` numbers, an output and state h of `projection` (Sak, Senior and Beaufays 2014,
    section 2); None is half of hidden_size, rounded up."""

    def __init__(self, input_size: int, hidden_size: int, projection: int | None = None, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size, bias, projection=projection or (hidden_size + 1) // 2)


class CoupledLSTMCell(LSTMVariantCell):
    """The LSTM with the forget gate f = 1 - i: three gates (Greff et al. 2017, section 3, CIFG)."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size, bias, coupled=True)


class SLSTMCell(EqualCell):
    """Exponential gates i, f, z, o, kept in range by a stabiliser (Beck et al. 2024, xLSTM, section 2.2), equations
    8-17, the forget gate a sigmoid:

    m_t = max(log f + m_prev, i),  i' = exp(i - m_t),  f' = exp(log f + m_prev - m_t), c_t = f' * c_prev + i' * tanh(z),
    n_t = f' * n_prev + i',  h_t = sigmoid(o) * c_t / n_t.

    m only scales c and n, whose quotient h uses, so h is that of equations 8-14, which have no m. Where n_prev is zero
    nothing has been stored yet, and the paper's equations leave m_prev open: it counts as minus infinity there, m_t = i
    and i' = 1. So n_t is never zero, a first step gives h = sigmoid(o) * tanh(z) also where exp(i) overflows the type,
    and all gradients are finite (f' is limited to 1, since m_prev is no bound then). `heads`: h is split into this many
    parts, and each part of the gates reads its own (the paper's memory mixing); `R_0`, ... are their matrices.
    """

    _memory = ("h", "c", "n", "m")

    def __init__(self, input_size: int, hidden_size: int, heads: int = 1) -> None:
        self.heads = heads_of("SLSTMCell", hidden_size, heads)
        super().__init__(input_size, hidden_size)

    def params(self) -> dict[str, Param]:
        D, H, part = self.input_size, self.hidden_size, self.hidden_size // self.heads
        shapes = {"W_x": Param((D, 4 * H), gates=4), "b": Param((4 * H,), gates=4, ones=1)}
        return shapes | {f"R_{k}": Param((part, 4 * part), gates=4) for k in range(self.heads)}

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
