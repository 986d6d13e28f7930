"""Attention around any decoder cell.

The encoder's outputs come in as the captured array `memory` [S, B, M]. Values that depend only on them (the keys) are
written inside the step like everything else; the compiler moves them out of the time loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nmt.errors import ShapeError
from nmt.overriding import override
from nmt.rnn.arguments import flags
from nmt.rnn.cell import Captured, Cell, Param, Scope, State, check_is_cell, under
from nmt.rnn.cells.parts import features
from nmt.rnn.cells.wrapping import StackCell
from nmt.rnn.functions import concat, dot, sigmoid, softmax, split, tanh, weighted_sum
from nmt.rnn.graph import Value


@dataclass(frozen=True)
class Attention:
    """Weights over the source positions, and the context: the sum of weights * values.

    weights = softmax(scores(query, keys)); `kind` is the score:

    - `bahdanau`: v . tanh(keys W_k + query W_q) (Bahdanau et al. 2015, appendix A.1.2)
    - `general`: query . (keys W_k) (Luong et al. 2015, equation 8)
    - `dot`: query . keys
    - `scaled_dot`: query . keys / sqrt(query_size) (Vaswani et al. 2017, section 3.2.1)
    - `multi_head`: scaled_dot in each of `heads`, over queries, keys and values that are projected to attention_size
      numbers and split; the concatenated contexts are projected, too (Vaswani et al. 2017, section 3.2.2)

    The memory serves as both keys and values, or, with a `key_size`, its first `key_size` features are the key and the
    rest the value. With a `projection` both are tanh(memory W_m + b_m) of that size. `bias`: bahdanau adds b_q to query
    W_q. `words`: the width of the embeddings of the source words, which follow these `memory_size` features in the
    memory and are neither keys nor values.
    """

    kind: str
    memory_size: int
    query_size: int
    attention_size: int
    key_size: int | None = None
    heads: int = 1
    bias: bool = False
    projection: int | None = None
    words: int = 0

    def __post_init__(self) -> None:
        """Raise ShapeError: unequal factors of a product, keys without values, or heads that do not divide."""
        flags("Attention", bias=self.bias)
        kinds = "bahdanau", "general", "dot", "scaled_dot", "multi_head"
        if self.kind not in kinds:
            raise ShapeError(f"Attention: attention must be one of {', '.join(kinds)}, got {self.kind!r}")
        if self.projection is not None and self.key_size is not None:
            raise ShapeError("Attention: key_size must be None with a projection, which makes keys and values in one")
        if self.attention_size % self.heads:
            raise ShapeError(f"Attention: attention_size must be a multiple of {self.heads}, got {self.attention_size}")
        if self.key_size is not None and not 0 < self.key_size < self.memory_size:
            raise ShapeError(f"Attention: key_size must be below memory_size, {self.memory_size}, got {self.key_size}")
        if self.words and self.kind == "multi_head":
            raise ShapeError(f"Attention: words must be 0 with multi_head attention, got {self.words}")
        if self.kind in ("dot", "scaled_dot") and self.keys != self.query_size:
            name = "key_size" if self.key_size is not None else "projection" if self.projection else "memory_size"
            raise ShapeError(f"Attention: {name} must be {self.query_size} for {self.kind} attention, got {self.keys}")

    @property
    def keys(self) -> int:
        """Return the width of a key before the score's own product."""
        return (self.projection or self.memory_size) if self.key_size is None else self.key_size

    @property
    def context_size(self) -> int:
        """Return the width of the context."""
        return self.attention_size if self.kind == "multi_head" else self.values

    @property
    def values(self) -> int:
        """Return the width of a value before the heads' product."""
        return self.projection or self.memory_size - (self.key_size or 0)

    def params(self) -> dict[str, Param]:
        Q, M, A = self.query_size, self.keys, self.attention_size
        shapes: dict[str, Param] = {}
        if self.projection is not None:
            shapes = {"W_m": Param((self.memory_size, self.projection)), "b_m": Param((self.projection,))}
        if self.kind == "bahdanau":
            shapes |= {"W_k": Param((M, A)), "W_q": Param((Q, A)), "v": Param((A,), weight=True)}
            return shapes | ({"b_q": Param((A,))} if self.bias else {})
        if self.kind == "multi_head":
            sizes = {"q": Q, "k": M, "v": self.values, "o": A}
            shapes |= {f"W_{name}": Param((size, A)) for name, size in sizes.items()}
            return shapes | {f"b_{name}": Param((A,)) for name in sizes}
        return shapes | ({"W_k": Param((M, Q))} if self.kind == "general" else {})

    def read(self, p: Scope, query: Value) -> tuple[Value, Value | None]:
        """Return the context [B, context_size] of a query [B, query_size], and the sum of weights * embeddings of the
        source words [B, words], None if the memory has no words; notes `weights` and `context`."""
        memory = features(p.memory, 0, self.memory_size) if self.words else p.memory
        keys, values = memory, memory
        if self.projection is not None:
            keys = values = tanh(memory @ p.W_m + p.b_m)
        if self.key_size is not None:
            keys = features(p.memory, 0, self.key_size)
            values = features(p.memory, self.key_size, self.values)
        if self.kind == "multi_head":
            return self._of_heads(p, query, keys, values), None
        weights = softmax(self._scores(p, query, keys))
        context = weighted_sum(weights, values)
        p.note(weights=weights, context=context)
        if not self.words:
            return context, None
        return context, weighted_sum(weights, features(p.memory, self.memory_size, self.words))

    def _of_heads(self, p: Scope, query: Value, keys: Value, values: Value) -> Value:
        """Return all heads' projected contexts [B, attention_size]; notes the heads' weights and the context."""
        queries = split(query @ p.W_q + p.b_q, self.heads)
        of_keys = split(keys @ p.W_k + p.b_k, self.heads)
        of_values = split(values @ p.W_v + p.b_v, self.heads)
        scale = (self.attention_size // self.heads) ** -0.5
        contexts = []
        for n, (q, k, v) in enumerate(zip(queries, of_keys, of_values, strict=True)):
            weights = softmax(dot(k, q) * scale)
            contexts.append(weighted_sum(weights, v))
            p.note(**{f"weights{n}": weights})
        context = concat(*contexts) @ p.W_o + p.b_o
        p.note(context=context)
        return context

    def _scores(self, p: Scope, query: Value, keys: Value) -> Value:
        """Return the score of each source position for the query: one number per position and row."""
        if self.kind == "bahdanau":
            asked = query @ p.W_q
            return dot(tanh(keys @ p.W_k + (asked + p.b_q if self.bias else asked)), p.v)
        if self.kind == "general":
            return dot(keys @ p.W_k, query)
        scores = dot(keys, query)
        return scores * self.query_size**-0.5 if self.kind == "scaled_dot" else scores


class AttentionCell(Cell):
    """A decoder cell, attention over the source, and a readout of both for the output layer (Luong et al. 2015,
    sections 3.1 and 3.3).

    query = output of the inner cell; context: see `Attention`. The output y depends on `readout`:

    - `tanh`: tanh([context; query] W_c + b_c), the attentional vector
    - `linear`: the same without tanh
    - `deep`: tanh([context; query; x] W_c + b_c), with the step's own input (Pascanu et al. 2014)
    - a cell: its output for the input [query; context]; its states are `readout.*`

    Without attention (`none`) y is the query, and the memory is not read. With input feeding y is concatenated to the
    next step's input.

    With `words`, the width of the embeddings f_s of the source words, which follow the outputs of the encoder in the
    memory, the lexical output model (Nguyen and Chiang 2018, section 4) is added to y after input feeding:
    f = tanh(sum of weights_s f_s), l = tanh(f W_l) + f, y + l W_o. The paper multiplies l with an output matrix of its
    own; here y and l W_o share one, so that it may be tied to the embeddings.

    With `generates`, the probability of generating a token instead of copying one is appended to the output:
    sigmoid([context; query; x] W_g + b_g) (See et al. 2017, equation 8).
    """

    def __init__(
        self,
        cell: Cell,
        memory_size: int,
        output_size: int,
        *,
        attention: str = "bahdanau",
        attention_size: int | None = None,
        heads: int = 1,
        bias: bool = False,
        projection: int | None = None,
        readout: str | Callable[[int, int], Cell] = "tanh",
        input_feeding: bool = True,
        dropout: float = 0.0,
        key_size: int | None = None,
        words: int = 0,
        generates: bool = False,
    ) -> None:
        """Make an attention cell around a decoder cell. output_size: of y. attention: `none`, or a kind of `Attention`,
        which has heads, bias, projection and key_size. readout: a cell is given as a function of its input and output
        size that makes it. Raises ShapeError."""
        check_is_cell(type(self).__name__, cell)
        flags("AttentionCell", input_feeding=input_feeding, generates=generates)
        if readout not in ("tanh", "linear", "deep") and (isinstance(readout, Cell) or not callable(readout)):
            raise ShapeError(f"AttentionCell: readout must be tanh, linear, deep or a maker of cells, got {readout!r}")
        self.cell, self.memory_size, self.readout_size, self.generates = cell, memory_size, output_size, generates
        self.output_size = output_size + generates
        self.input_feeding, self.dropout = input_feeding, dropout
        self.input_size = cell.input_size - (output_size if input_feeding else 0)
        self.attention: Attention | None = None
        self.readout: str | Cell = "tanh"
        if words and attention == "none":
            raise ShapeError(f"AttentionCell: words must be 0 without attention, got {words}")
        if attention == "none":
            if generates:
                raise ShapeError("AttentionCell: generates must be False without attention, which copies, got True")
            if cell.output_size != output_size:
                promise = f"output_size must be {cell.output_size}, the inner cell's, without attention"
                raise ShapeError(f"AttentionCell: {promise}, got {output_size}")
            return
        sizes = memory_size, cell.output_size, attention_size or cell.output_size, key_size
        self.attention = Attention(attention, *sizes, heads=heads, bias=bias, projection=projection, words=words)
        if isinstance(readout, str):
            self.readout = readout
        else:
            self.readout = readout(self.cell.output_size + self.attention.context_size, output_size)

    def params(self) -> dict[str, Param]:
        shapes = under("cell", self.cell.params())
        if self.attention is None:
            return shapes
        shapes |= self.attention.params()
        if words := self.attention.words:
            shapes |= {"W_l": Param((words, words)), "W_o": Param((words, self.readout_size))}
        width = self.attention.context_size + self.cell.output_size
        if self.generates:
            shapes |= {"W_g": Param((width + self.input_size, 1)), "b_g": Param((1,))}
        if isinstance(self.readout, Cell):
            return shapes | under("readout", self.readout.params())
        width += self.input_size if self.readout == "deep" else 0
        return shapes | {"W_c": Param((width, self.readout_size)), "b_c": Param((self.readout_size,))}

    def states(self) -> dict[str, int]:
        states = under("cell", self.cell.states())
        if isinstance(self.readout, Cell):
            states |= under("readout", self.readout.states())
        return states | ({"feed": self.readout_size} if self.input_feeding else {})

    def learned(self) -> dict[str, str]:
        return {f"cell.{k}": f"cell.{v}" for k, v in self.cell.learned().items()}

    def sequences(self) -> dict[str, int]:
        return self.cell.sequences()

    def captured(self) -> dict[str, Captured]:
        words = 0 if self.attention is None else self.attention.words
        return self.cell.captured() | {"memory": Captured(self.memory_size + words)}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        query, context, words, new = self._attend(p, concat(x, s.feed) if self.input_feeding else x, s)
        y = query
        if context is not None:
            if isinstance(self.readout, Cell):
                y, of_readout = self.readout.step(p.sub("readout"), concat(query, context), s.sub("readout"))
                new |= under("readout", of_readout)
            else:
                read = (context, query, x) if self.readout == "deep" else (context, query)
                y = concat(*read) @ p.W_c + p.b_c
                y = y if self.readout == "linear" else tanh(y)
        y = p.dropout(y, self.dropout)
        if self.input_feeding:
            new["feed"] = y
        if words is not None:
            f = tanh(words)
            y = y + p.dropout(tanh(f @ p.W_l) + f, self.dropout) @ p.W_o
        if context is not None and self.generates:
            y = concat(y, sigmoid(concat(context, query, x) @ p.W_g + p.b_g))
        return y, State(new)

    def _attend(self, p: Scope, x: Value, s: State) -> tuple[Value, Value | None, Value | None, dict[str, Value]]:
        """Run the inner cell; return the query, its context, the sum of source words, and the cell's new states."""
        query, inner = self.cell.step(p.sub("cell"), x, s.sub("cell"))
        context, words = (None, None) if self.attention is None else self.attention.read(p, query)
        return query, context, words, under("cell", inner)


class ConditionalAttentionCell(AttentionCell):
    """Attention inside the first layer's step (Sennrich et al. 2017, Nematus: a toolkit for neural machine translation,
    section on the conditional GRU).

    The first of `cells` reads the input, and its state is the query of the attention. `second(context_size,
    hidden_size)` makes a cell with the same states, which continues from that state and reads the context. The other
    cells are stacked on top as in a `StackCell`. Parameters are those of `AttentionCell` and `second.*`; the states are
    those of the first cell and of the cells above. The last cell's output is the query of the readout.
    """

    def __init__(
        self, cells: list[Cell], second: Callable[[int, int], Cell], memory_size: int, output_size: int, **options: Any
    ) -> None:
        """Make the cell; `options` are those of `AttentionCell`. Raises ShapeError."""
        super().__init__(StackCell(cells), memory_size, output_size, **options)
        if self.attention is None:
            raise ShapeError("ConditionalAttentionCell: attention must be a kind of Attention, got none")
        self.cells = cells
        self.second = second(self.attention.context_size, cells[0].output_size)
        if self.second.states() != cells[0].states():
            have, promise = self.second.states(), f"the first cell's states, {cells[0].states()}"
            raise ShapeError(f"ConditionalAttentionCell: second must have {promise}, got {have}")

    def params(self) -> dict[str, Param]:
        return super().params() | under("second", self.second.params())

    @override
    def _attend(self, p: Scope, x: Value, s: State) -> tuple[Value, Value | None, Value | None, dict[str, Value]]:
        if self.attention is None:
            raise RuntimeError("a conditional cell without attention was made")
        of_cells, states = p.sub("cell"), s.sub("cell")
        query, inner = self.cells[0].step(of_cells.sub("0"), x, states.sub("0"))
        context, words = self.attention.read(p, query)
        y, inner = self.second.step(p.sub("second"), context, inner)
        new = under("cell.0", inner)
        for n, cell in enumerate(self.cells[1:], start=1):
            y, inner = cell.step(of_cells.sub(str(n)), y, states.sub(str(n)))
            new |= under(f"cell.{n}", inner)
        return y, context, words, new
