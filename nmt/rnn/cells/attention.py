"""Attention around any decoder cell.

The encoder's outputs come in as the captured array `memory` [S, B, M]. What depends on them alone (the keys) is
written inside the step like everything else; the compiler takes it out of the time loop.
"""

from dataclasses import dataclass

from nmt.errors import ShapeError
from nmt.rnn.cell import Captured, Cell, Param, Scope, State, under
from nmt.rnn.functions import concat, dot, softmax, tanh, weighted_sum
from nmt.rnn.graph import Value


@dataclass(frozen=True)
class Attention:
    """Weights over the source positions, and the context: the sum of weights * values.

    weights = softmax(scores(query, keys)); `kind` is the score:
               `bahdanau`  v . tanh(keys W_k + query W_q)     (Bahdanau et al. 2015, appendix A.1.2)
               `general`   query . (keys W_k)                 (Luong et al. 2015, equation 8)
               `dot`       query . keys
               `scaled_dot` the same over sqrt(query_size)    (Vaswani et al. 2017, section 3.2.1)

    The memory is keys and values in one, or, with a `key_size`, so many numbers of the key and then the value's.
    """

    kind: str
    memory_size: int
    query_size: int
    attention_size: int
    key_size: int | None = None

    def __post_init__(self) -> None:
        """Raises ShapeError: a product of numbers of different sizes, or keys without values."""
        if not 0 < self.keys <= self.memory_size or self.context_size < 1:
            raise ShapeError(
                f"Attention: key_size must be less than memory_size ({self.memory_size}), got {self.key_size}"
            )
        if self.kind in ("dot", "scaled_dot") and self.keys != self.query_size:
            name = "memory_size" if self.key_size is None else "key_size"
            raise ShapeError(f"Attention: {name} must be {self.query_size} for {self.kind} attention, got {self.keys}")

    @property
    def keys(self) -> int:
        """Width of a key."""
        return self.memory_size if self.key_size is None else self.key_size

    @property
    def context_size(self) -> int:
        """Width of a value, and of the context."""
        return self.memory_size - (self.key_size or 0)

    def params(self) -> dict[str, Param]:
        """Those of the score."""
        Q, M, A = self.query_size, self.keys, self.attention_size
        if self.kind == "bahdanau":
            return {"W_k": Param((M, A)), "W_q": Param((Q, A)), "v": Param((A,), weight=True)}
        return {"W_k": Param((M, Q))} if self.kind == "general" else {}

    def context(self, p: Scope, query: Value) -> Value:
        """The context [B, context_size] of a query [B, query_size]; notes `weights` and `context`."""
        keys, values = p.memory, p.memory
        if self.key_size is not None:
            keys = keys.graph.apply("slice", p.memory, start=0, size=self.key_size)
            values = keys.graph.apply("slice", p.memory, start=self.key_size, size=self.context_size)
        weights = softmax(self._scores(p, query, keys))
        context = weighted_sum(weights, values)
        p.note(weights=weights, context=context)
        return context

    def _scores(self, p: Scope, query: Value, keys: Value) -> Value:
        """How well each source position fits the query: one number a position and row."""
        if self.kind == "bahdanau":
            return dot(tanh(keys @ p.W_k + query @ p.W_q), p.v)
        if self.kind == "general":
            return dot(keys @ p.W_k, query)
        scores = dot(keys, query)
        return scores * self.query_size**-0.5 if self.kind == "scaled_dot" else scores


class AttentionCell(Cell):
    """A decoder cell, attention over the source, and the attentional vector (Luong et al. 2015, sections 3.1 and 3.3).

    query = output of the inner cell; context and `attention`, `key_size`: see `Attention`;
    y = tanh([context; query] W_c + b_c). With input feeding y joins the next step's input.
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
        key_size: int | None = None,
    ) -> None:
        size = attention_size or cell.output_size
        self.attention = Attention(attention, memory_size, cell.output_size, size, key_size)
        self.cell, self.output_size = cell, output_size
        self.input_feeding, self.dropout = input_feeding, dropout
        self.input_size = cell.input_size - (output_size if input_feeding else 0)

    def params(self) -> dict[str, Param]:
        width = self.attention.context_size + self.cell.output_size
        shapes = under("cell", self.cell.params()) | self.attention.params()
        return shapes | {"W_c": Param((width, self.output_size)), "b_c": Param((self.output_size,))}

    def states(self) -> dict[str, int]:
        feed = {"feed": self.output_size} if self.input_feeding else {}
        return under("cell", self.cell.states()) | feed

    def learned(self) -> dict[str, str]:
        return {f"cell.{k}": f"cell.{v}" for k, v in self.cell.learned().items()}

    def sequences(self) -> dict[str, int]:
        return self.cell.sequences()

    def captured(self) -> dict[str, Captured]:
        return self.cell.captured() | {"memory": Captured(self.attention.memory_size)}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        if self.input_feeding:
            x = concat(x, s.feed)
        query, inner = self.cell.step(p.sub("cell"), x, s.sub("cell"))
        context = self.attention.context(p, query)
        y = tanh(concat(context, query) @ p.W_c + p.b_c)
        y = p.dropout(y, self.dropout)
        new = State(under("cell", inner))
        if self.input_feeding:
            new["feed"] = y
        return y, new
