"""Attention around any decoder cell.

The encoder's outputs come in as the captured array `memory` [S, B, M]. What depends on them alone (the keys) is
written inside the step like everything else; the compiler takes it out of the time loop.
"""

from nmt.errors import ShapeError
from nmt.rnn.cell import Captured, Cell, Param, Scope, State, under
from nmt.rnn.graph import Value, concat, dot, softmax, tanh, weighted_sum


class AttentionCell(Cell):
    """A decoder cell, attention over the source, and the attentional vector (Luong et al. 2015, sections 3.1 and 3.3).

    query = output of the inner cell; weights = softmax(scores(query, keys)); context = sum of weights * memory;
    y = tanh([context; query] W_c + b_c). With input feeding y joins the next step's input.

    attention: `bahdanau`  v . tanh(memory W_k + query W_q)   (Bahdanau et al. 2015, appendix A.1.2)
               `general`   query . (memory W_k)               (Luong et al. 2015, equation 8)
               `dot`       query . memory
               `scaled_dot` the same over sqrt(H)             (Vaswani et al. 2017, section 3.2.1)
    """

    def __init__(
        self,
        cell: Cell,
        memory_size: int,
        output_size: int,
        *,
        attention: str = "bahdanau",
        attention_size: int | None = None,
        input_feeding: bool = True,
        dropout: float = 0.0,
    ) -> None:
        if attention in ("dot", "scaled_dot") and memory_size != cell.output_size:
            raise ShapeError(
                f"AttentionCell: memory_size must be {cell.output_size} for {attention} attention, got {memory_size}"
            )
        self.cell, self.memory_size, self.output_size = cell, memory_size, output_size
        self.attention, self.attention_size = attention, attention_size or cell.output_size
        self.input_feeding, self.dropout = input_feeding, dropout
        self.input_size = cell.input_size - (output_size if input_feeding else 0)

    def params(self) -> dict[str, Param]:
        H, M, A = self.cell.output_size, self.memory_size, self.attention_size
        shapes = under("cell", self.cell.params())
        if self.attention == "bahdanau":
            shapes |= {"W_k": Param((M, A)), "W_q": Param((H, A)), "v": Param((A,), weight=True)}
        elif self.attention == "general":
            shapes["W_k"] = Param((M, H))
        return shapes | {"W_c": Param((M + H, self.output_size)), "b_c": Param((self.output_size,))}

    def states(self) -> dict[str, int]:
        feed = {"feed": self.output_size} if self.input_feeding else {}
        return under("cell", self.cell.states()) | feed

    def learned(self) -> dict[str, str]:
        return {f"cell.{k}": f"cell.{v}" for k, v in self.cell.learned().items()}

    def sequences(self) -> dict[str, int]:
        return self.cell.sequences()

    def captured(self) -> dict[str, Captured]:
        return self.cell.captured() | {"memory": Captured(self.memory_size)}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        if self.input_feeding:
            x = concat(x, s.feed)
        query, inner = self.cell.step(p.sub("cell"), x, s.sub("cell"))
        weights = softmax(self._scores(p, query))
        context = weighted_sum(weights, p.memory)
        p.note(weights=weights, context=context)
        y = tanh(concat(context, query) @ p.W_c + p.b_c)
        y = p.dropout(y, self.dropout)
        new = State(under("cell", inner))
        if self.input_feeding:
            new["feed"] = y
        return y, new

    def _scores(self, p: Scope, query: Value) -> Value:
        if self.attention == "bahdanau":
            return dot(tanh(p.memory @ p.W_k + query @ p.W_q), p.v)
        if self.attention == "general":
            return dot(p.memory @ p.W_k, query)
        scores = dot(p.memory, query)
        return scores * self.cell.output_size**-0.5 if self.attention == "scaled_dot" else scores
