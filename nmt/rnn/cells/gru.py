"""Gated recurrent unit, both forms (Cho et al. 2014, section 2.3; the arXiv versions v1 and v3 differ in the reset),
and several of its transitions in one time step."""

from nmt.rnn.arguments import flags, limit, whole_number
from nmt.rnn.cell import Param, Scope, State, under
from nmt.rnn.cells.parts import ActivationSpec, EqualCell, activation, checked_activations, clip
from nmt.rnn.functions import sigmoid, split, tanh
from nmt.rnn.graph import Value


class GRUCell(EqualCell):
    """Gates in the order r, z, n. z is the weight of the old state: h_t = (1 - z) * n + z * h_prev. reset_after=True:
    the reset acts after the product, n = tanh(x W_n + r * (h W_hn + b_hn)), as in cuDNN and PyTorch. reset_after=False:
    before it, n = tanh(x W_n + (r * h) W_hn + b_n + b_hn), as in the first paper and ONNX's default. `clip` limits the
    activations' arguments to [-clip, clip]; `activations` names those of the gates and of n."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        reset_after: bool = True,
        *,
        clip: float | None = None,
        activations: tuple[ActivationSpec, ActivationSpec] = ("sigmoid", "tanh"),
    ) -> None:
        flags("GRUCell", bias=bias, reset_after=reset_after)
        super().__init__(input_size, hidden_size)
        self.bias, self.reset_after, self.clip = bias, reset_after, limit("GRUCell", "clip", clip)
        self.activations = checked_activations("GRUCell", activations, 2)

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, self.hidden_size
        shapes = {"W_x": Param((D, 3 * H), gates=3)}
        if self.reset_after:
            shapes["W_h"] = Param((H, 3 * H), gates=3)
        else:
            shapes |= {"W_rz": Param((H, 2 * H), gates=2), "W_n": Param((H, H))}
        if self.bias:
            shapes |= {"b": Param((3 * H,), gates=3), "b_h": Param((3 * H,), gates=3)}
        return shapes

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        gate, candidate = (activation(name) for name in self.activations)
        a = x @ p.W_x
        if self.bias:
            a = a + p.b
        a_r, a_z, a_n = split(a, 3)
        if self.reset_after:
            u = s.h @ p.W_h
            u_r, u_z, u_n = split(u + p.b_h if self.bias else u, 3)
        else:
            u_r, u_z = split(s.h @ p.W_rz, 2)
            if self.bias:
                b_r, b_z, b_n = split(p.b_h, 3)
                u_r, u_z, a_n = u_r + b_r, u_z + b_z, a_n + b_n
        r, z = gate(clip(a_r + u_r, self.clip)), gate(clip(a_z + u_z, self.clip))
        n = candidate(clip(a_n + (r * u_n if self.reset_after else (r * s.h) @ p.W_n), self.clip))
        h = (1 - z) * n + z * s.h
        p.note(r=r, z=z, n=n)
        return h, State(h=h)


class DeepTransitionGRUCell(EqualCell):
    """A GRU step that reads the input, then `transitions - 1` GRU steps that read only the state (Pascanu et al. 2014;
    Miceli Barone et al. 2017, Deep Architectures for Neural Machine Translation, section on deep transition; as in
    Nematus: Sennrich et al. 2017). The reset acts after the product; z is the weight of the old state. `0.*` are the
    parameters of the first, a `GRUCell`."""

    def __init__(self, input_size: int, hidden_size: int, transitions: int = 2) -> None:
        whole_number("DeepTransitionGRUCell", "transitions", transitions)
        super().__init__(input_size, hidden_size)
        self.first, self.transitions = GRUCell(input_size, hidden_size), transitions

    def params(self) -> dict[str, Param]:
        H, shapes = self.hidden_size, under("0", self.first.params())
        for k in range(1, self.transitions):
            shapes |= {f"{k}.W_h": Param((H, 3 * H), gates=3), f"{k}.b_h": Param((3 * H,), gates=3)}
        return shapes

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        h, _ = self.first.step(p.sub("0"), x, s)
        for k in range(1, self.transitions):
            r, z, n = split(h @ p[f"{k}.W_h"] + p[f"{k}.b_h"], 3)
            z = sigmoid(z)
            h = (1 - z) * tanh(sigmoid(r) * n) + z * h
        return h, State(h=h)
