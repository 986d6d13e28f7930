"""Cells around cells: stacks, residual connections, dropout, zoneout, learned and earlier states, blocks, heads,
several steps in one, hard monotonic attention, and attention weights as an output; and the linear layer, a cell without
a state."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nmt.errors import ShapeError
from nmt.overriding import override
from nmt.rnn.arguments import flags, is_number, share, whole_number
from nmt.rnn.cell import Captured, Cell, Param, Scope, Shape, State, axes_of, check_is_cell, under
from nmt.rnn.cells.parts import ShortConvolution, features, gelu, heads_of, rms_norm, silu
from nmt.rnn.functions import concat, maximum, positive, split, tanh, weighted_sum
from nmt.rnn.graph import Value, topological


class SeveralCells(Cell):
    """A cell that is made of others. Parameters and states are named `0.W_x`, `1.h`."""

    cells: list[Cell]

    def params(self) -> dict[str, Param]:
        return {k: v for n, cell in enumerate(self.cells) for k, v in under(str(n), cell.params()).items()}

    def states(self) -> dict[str, int]:
        return {k: v for n, cell in enumerate(self.cells) for k, v in under(str(n), cell.states()).items()}

    def starts(self) -> tuple[str, ...]:
        return tuple(f"{n}.{name}" for n, cell in enumerate(self.cells) for name in cell.starts())

    def learned(self) -> dict[str, str]:
        return {f"{n}.{k}": f"{n}.{v}" for n, cell in enumerate(self.cells) for k, v in cell.learned().items()}

    def captured(self) -> dict[str, Captured]:
        return {k: v for cell in self.cells for k, v in cell.captured().items()}

    def sequences(self) -> dict[str, int]:
        return {k: v for cell in self.cells for k, v in cell.sequences().items()}


class StackCell(SeveralCells):
    """Cells one above the other; each reads the output of the one below."""

    def __init__(self, cells: list[Cell]) -> None:
        if not isinstance(cells, list | tuple) or not cells:
            raise ShapeError(f"StackCell: cells must be a list of one or more, got {cells!r}")
        for cell in cells:
            check_is_cell("StackCell", cell)
        for below, above in zip(cells, cells[1:], strict=False):
            if above.input_size != below.output_size:
                promise = f"input_size must be {below.output_size}, the output below"
                raise ShapeError(f"StackCell: {promise}, got {above.input_size}")
        self.cells = cells
        self.input_size, self.output_size = cells[0].input_size, cells[-1].output_size

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        new = State()
        for n, cell in enumerate(self.cells):
            x, inner = cell.step(p.sub(str(n)), x, s.sub(str(n)))
            new.update(under(str(n), inner))
        return x, new


class WrappedCell(Cell):
    """A wrapper with the same parameters, states and other arrays as its inner cell, under the same names."""

    def __init__(self, cell: Cell) -> None:
        check_is_cell(type(self).__name__, cell)
        self.cell = cell
        self.input_size, self.output_size = cell.input_size, cell.output_size

    def params(self) -> dict[str, Param]:
        return self.cell.params()

    def states(self) -> dict[str, int]:
        return self.cell.states()

    def starts(self) -> tuple[str, ...]:
        return self.cell.starts()

    def learned(self) -> dict[str, str]:
        return self.cell.learned()

    def captured(self) -> dict[str, Captured]:
        return self.cell.captured()

    def sequences(self) -> dict[str, int]:
        return self.cell.sequences()


class ResidualCell(WrappedCell):
    """Output plus input, where the sizes agree (He et al. 2016; in recurrent stacks Wu et al. 2016, section 3.1)."""

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        y, new = self.cell.step(p, x, s)
        return (y + x if self.input_size == self.output_size else y), new


class DropoutCell(WrappedCell):
    """Dropout on a cell's input (Srivastava et al. 2014), per step or one mask for all (Gal and Ghahramani 2016)."""

    def __init__(self, cell: Cell, rate: float, variational: bool = False) -> None:
        super().__init__(cell)
        flags(type(self).__name__, variational=variational)
        self.rate, self.variational = share(type(self).__name__, "rate", rate), variational

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        return self.cell.step(p, p.dropout(x, self.rate, variational=self.variational), s)


class LinearCell(Cell):
    """y = f(x W + b), f identity or tanh: a cell without a state, so all steps are one product."""

    def __init__(self, input_size: int, output_size: int, nonlinearity: str = "none", bias: bool = True) -> None:
        flags("LinearCell", bias=bias)
        if nonlinearity not in ("none", "tanh"):
            raise ShapeError(f"LinearCell: nonlinearity must be none or tanh, got {nonlinearity!r}")
        self.input_size, self.output_size = input_size, output_size
        self.nonlinearity, self.bias = nonlinearity, bias

    def params(self) -> dict[str, Param]:
        shapes = {"W": Param((self.input_size, self.output_size))}
        return shapes | ({"b": Param((self.output_size,))} if self.bias else {})

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        y = x @ p.W
        if self.bias:
            y = y + p.b
        return (tanh(y) if self.nonlinearity == "tanh" else y), State()


class ZoneoutCell(WrappedCell):
    """A cell whose state units keep their old value at random: in training each with probability `rates[state]`, drawn
    at every step; else the expectation, rate * old + (1 - rate) * new (Krueger et al. 2017, Zoneout, section 3).
    `rates`: a number for all states, or numbers by the states' names. An output that is a state is zoned out with
    it."""

    def __init__(self, cell: Cell, rates: float | dict[str, float]) -> None:
        super().__init__(cell)
        given = rates if isinstance(rates, dict) else dict.fromkeys(cell.states(), rates)
        for name, rate in given.items():
            if name not in cell.states() or not is_number(rate) or not 0 <= rate < 1:
                promise = f"rates must be numbers from 0 to less than 1 for {', '.join(cell.states())}"
                raise ShapeError(f"ZoneoutCell: {promise}, got {rate} for {name}")
        self.rates = tuple(given.items())

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        y, new = self.cell.step(p, x, s)
        for name, rate in self.rates:
            computed = new[name]
            # Dropout zeroes with probability `rate` and scales the rest by 1 / (1 - rate); without it: the expectation.
            new[name] = s[name] + (1 - rate) * p.dropout(computed - s[name], rate) if rate else computed
            y = new[name] if y is computed else y
        return y, new


class OutputDropoutCell(DropoutCell):
    """Dropout on the output of a cell, not on its states; per step, or one mask for all steps, as in `DropoutCell` for
    the input (Merity et al. 2018, section 4.2)."""

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        y, new = self.cell.step(p, x, s)
        return p.dropout(y, self.rate, variational=self.variational), new


class _Weight:
    """A substitute for a matrix in a step that applies dropout to the other factor of its products."""

    def __init__(self, weight: Value, p: Scope, rate: float, variational: bool) -> None:
        self.weight, self.p, self.rate, self.variational = weight, p, rate, variational

    def __rmatmul__(self, x: Value) -> Value:
        return self.p.dropout(x, self.rate, variational=self.variational) @ self.weight


class RecurrentDropoutCell(DropoutCell):
    """Dropout on the state where the matrices `weights` read it, not elsewhere, as in a GRU's z * h: one mask for all
    steps (Gal and Ghahramani 2016, section 4), or with `variational` False one per step."""

    def __init__(self, cell: Cell, rate: float, variational: bool = True, weights: tuple[str, ...] = ("W_h",)) -> None:
        super().__init__(cell, rate, variational)
        matrices = [name for name, param in cell.params().items() if len(param.shape) == 2]
        if unknown := [name for name in weights if name not in matrices]:
            raise ShapeError(f"RecurrentDropoutCell: weights must be among {', '.join(matrices)}, got {unknown[0]}")
        self.weights = weights

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        if not self.rate:
            return self.cell.step(p, x, s)
        weights = {name: _Weight(p[name], p, self.rate, self.variational) for name in self.weights}
        return self.cell.step(p.replaced(weights), x, s)


class LearnedStartCell(WrappedCell):
    """A cell whose states start at parameter vectors, `start_NAME`, unless initial states are given. The vectors are
    the same for all rows, and their gradients are sums over the rows. The step itself is the inner cell's and costs the
    same. `states`: names of these states, None for all that may be initialised."""

    def __init__(self, cell: Cell, states: tuple[str, ...] | None = None) -> None:
        super().__init__(cell)
        self.names = cell.starts() if states is None else states
        for name in self.names:
            if name not in cell.starts():
                known = ", ".join(cell.starts()) or "none"
                raise ShapeError(f"LearnedStartCell: states must be among {known}, got {name}")

    def params(self) -> dict[str, Param]:
        return self.cell.params() | {f"start_{k}": Param((int(self.cell.states()[k]),)) for k in self.names}

    @override
    def learned(self) -> dict[str, str]:
        return self.cell.learned() | {k: f"start_{k}" for k in self.names}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        return self.cell.step(p, x, s)


@dataclass(frozen=True)
class Past:
    """The last `lag` values of a signal of this width, for a cell that has its `states` among its own; `read` returns
    what was `push`ed k steps ago, 1 <= k <= lag. State `name` is the newest, `name.2` the one before, and so on."""

    name: str
    width: int
    lag: int

    def __post_init__(self) -> None:
        whole_number("Past", f"lag of {self.name}", self.lag)

    def states(self) -> dict[str, int]:
        """Return the states' widths by name."""
        return {self._at(k): self.width for k in range(1, self.lag + 1)}

    def read(self, s: State, k: int = 1) -> Value:
        """Return the value of k steps ago. Raises ShapeError."""
        if not 1 <= k <= self.lag:
            raise ShapeError(f"Past: {self.name} must be read from 1 to {self.lag} steps back, got {k}")
        return s[self._at(k)]

    def push(self, s: State, new: Value) -> State:
        """Return the states after a step whose value is `new`."""
        older = {self._at(k + 1): s[self._at(k)] for k in range(1, self.lag)}
        return State({self.name: new, **older})

    def _at(self, k: int) -> str:
        return self.name if k == 1 else f"{self.name}.{k}"


class SkipCell(WrappedCell):
    """A cell whose states come from `lag` steps ago instead of the previous step, so that `lag` recurrences alternate
    (Chang et al. 2017, Dilated Recurrent Neural Networks, section 2.1). Each of its states is a `Past`."""

    def __init__(self, cell: Cell, lag: int) -> None:
        super().__init__(cell)
        if cell.learned():
            raise ShapeError(f"SkipCell: states must start as given or at zero, got learned ones in {cell.learned()}")
        self.lag = lag
        self.past = [Past(name, width, lag) for name, width in cell.states().items()]

    def states(self) -> dict[str, int]:
        return {name: width for past in self.past for name, width in past.states().items()}

    def starts(self) -> tuple[str, ...]:
        """Return all states that belong to one the cell allows to be initialised."""
        return tuple(name for past in self.past if past.name in self.cell.starts() for name in past.states())

    @override
    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        y, new = self.cell.step(p, x, State({past.name: past.read(s, self.lag) for past in self.past}))
        return y, State({name: v for past in self.past for name, v in past.push(s, new[past.name]).items()})


_ACTIVATIONS: dict[str, Callable[[Value], Value]] = {"silu": silu, "gelu": gelu}


class NormedCell(WrappedCell):
    """A cell that reads x / sqrt(mean(x^2)) * norm_gain: the first part of a block with a residual connection."""

    def params(self) -> dict[str, Param]:
        return {"norm_gain": Param((int(self.input_size),), start=1.0)} | self.cell.params()

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        return self.cell.step(p, rms_norm(x, p.norm_gain), s)


class BlockCell(Cell):
    """x W_in, a short convolution, the cell, times an activation of x W_gate, times W_out: the block of Mamba (Gu and
    Dao 2023, figure 3) and of Griffin's recurrence (De et al. 2024, section 2.3). The cell has as many inputs as
    outputs; its parameters and states are named `cell.*`. window: of the convolution, with a bias; 0 is none.
    convolved: whether silu follows the convolution, as in Mamba. gate: `silu` or `gelu`."""

    def __init__(
        self,
        input_size: int,
        cell: Cell,
        *,
        window: int = 4,
        convolved: bool = True,
        gate: Literal["silu", "gelu"] = "silu",
    ) -> None:
        check_is_cell("BlockCell", cell)
        flags("BlockCell", convolved=convolved)
        if window:
            whole_number("BlockCell", "window", window)
        if cell.input_size != cell.output_size or gate not in _ACTIVATIONS:
            got = f"{cell.input_size} -> {cell.output_size}, {gate}"
            raise ShapeError(f"BlockCell: the cell must have as many inputs as outputs, gate silu or gelu, got {got}")
        self.input_size, self.output_size, self.cell = input_size, cell.output_size, cell
        self.window, self.convolved, self.gate = window, convolved, gate

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, int(self.cell.output_size)
        shapes = {"W_in": Param((D, H)), "W_gate": Param((D, H)), "W_out": Param((H, H))}
        if self.window:
            shapes |= {"b": Param((H,))} | ShortConvolution(self.window, H).params()
        return shapes | under("cell", self.cell.params())

    def states(self) -> dict[str, int]:
        return under("cell", self.cell.states()) | ShortConvolution(self.window, self.cell.output_size).states()

    def starts(self) -> tuple[str, ...]:
        return tuple(f"cell.{name}" for name in self.cell.starts())

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        u, past = x @ p.W_in, State()
        if self.window:
            u, past = ShortConvolution(self.window, self.cell.output_size).step(p, u, s)
            u = u + p.b
            u = silu(u) if self.convolved else u
        y, inner = self.cell.step(p.sub("cell"), u, s.sub("cell"))
        return (y * _ACTIVATIONS[self.gate](x @ p.W_gate)) @ p.W_out, State(under("cell", inner), **past)


class HeadsCell(SeveralCells):
    """`heads` cells that read the same input, each with its share of the hidden units: `HeadsCell(LSTMCell, D, H, 4)`.
    No head reads another's state: its product costs a quarter (Beck et al. 2024, section 2.2, for the sLSTM)."""

    def __init__(self, make: Callable[[int, int], Cell], input_size: int, hidden_size: int, heads: int) -> None:
        if isinstance(make, Cell) or not callable(make):
            raise ShapeError(f"HeadsCell: make must be a class of cells or a function, got a {type(make).__name__}")
        part = hidden_size // heads_of("HeadsCell", hidden_size, heads)
        self.cells = [make(input_size, part) for _ in range(heads)]
        self.input_size, self.hidden_size = input_size, hidden_size
        self.output_size = sum(int(cell.output_size) for cell in self.cells)

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        found = [cell.step(p.sub(str(n)), x, s.sub(str(n))) for n, cell in enumerate(self.cells)]
        return concat(*(y for y, _ in found)), State.nest(**{str(n): inner for n, (_, inner) in enumerate(found)})


class UnrolledCell(WrappedCell):
    """`steps` steps of a cell as one step: x [B, steps, ...] -> y [B, steps, ...], states after the last of them. The
    results are those of the cell itself; the cost depends on the compiler, which sees all steps in one graph. With one
    outer step for the whole sequence there is more to compile and no loop; each step's products stay separate. Rows end
    only at multiples of `steps`. Values that step k has noted are named `stepk.name`."""

    def __init__(self, cell: Cell, steps: int) -> None:
        super().__init__(cell)
        self.steps = whole_number("UnrolledCell", "steps", steps)
        self.input_size = Shape(steps, *axes_of(cell.input_size))
        self.output_size = Shape(steps, *axes_of(cell.output_size))

    def sequences(self) -> dict[str, int]:
        """Return the further sequences of the cell, with `steps` entries of each per step."""
        return {name: Shape(self.steps, *axes_of(n)) for name, n in self.cell.sequences().items()}

    @override
    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        others = {name: split(p[name], self.steps) for name in self.cell.sequences()}
        outputs = []
        for k, part in enumerate(split(x, self.steps)):
            own = p.replaced({name: values[k] for name, values in others.items()})
            y, s = self.cell.step(own.noting(f"step{k}"), part, s)
            outputs.append(y)
        return concat(*outputs), s


class PointerCell(WrappedCell):
    """The inner cell, which also reads the encoder's output at a pointer (Aharoni and Goldberg 2017, "Morphological
    Inflection Generation with Hard Monotonic Attention", section 2.2).

    The pointer is a state, `place` [B, 1], and starts at the first position. Where the last feature of the input is
    positive, it moves on by one position before the step reads. The memory [S, B, memory_size + 2] has the position,
    from 0, and the source token behind the encoder's outputs; the token at the pointer is appended to the output.
    Neither the pointer nor the token passes a gradient on. `dropout` is that of the input.
    """

    def __init__(self, cell: Cell, memory_size: int, dropout: float = 0.0, *, variational: bool = False) -> None:
        """Make the cell. The input size of the inner cell is that of this one plus `memory_size`. Raises ShapeError."""
        super().__init__(cell)
        self.memory_size, self.dropout, self.variational = memory_size, dropout, variational
        self.input_size, self.output_size = cell.input_size - memory_size, cell.output_size + 1
        read = cell.captured().get("memory")
        self._width = memory_size if read is None else read.width
        if self.input_size < 1:
            promise = f"memory_size must be less than {cell.input_size}, the inner cell's input size"
            raise ShapeError(f"PointerCell: {promise}, got {memory_size}")

    @override
    def states(self) -> dict[str, int]:
        return self.cell.states() | {"place": 1}

    @override
    def captured(self) -> dict[str, Captured]:
        return self.cell.captured() | {"memory": Captured(self._width + 2)}

    @override
    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        place = s.place + positive(features(x, self.input_size - 1, 1))
        ahead = features(p.memory, self._width, 1) - place
        here = ahead.graph.apply("sum_last", positive(1.0 - maximum(ahead, -ahead)))
        read = weighted_sum(here, features(p.memory, 0, self.memory_size))
        token = weighted_sum(here, features(p.memory, self._width + 1, 1))
        inner = State({name: value for name, value in s.items() if name != "place"})
        scope = p.replaced({"memory": features(p.memory, 0, self._width)})
        y, new = self.cell.step(scope, concat(p.dropout(x, self.dropout, variational=self.variational), read), inner)
        new["place"] = place
        return concat(y, token), new


class AttentionProbe(WrappedCell):
    """Any attention cell with the weights of the step appended to its output: y = [inner y; weights]. The weights are
    read by an attention-like sum: `positions` [S, B, n] holds row s of the n x n unit matrix at source position s, so
    that its weighted sum is the weights, zero beyond the source. The weights are found in the traced step itself, so
    this works for every cell that normalises scores over S; of several weights the mean is returned."""

    def __init__(self, cell: Cell, positions: int) -> None:
        super().__init__(cell)
        self.positions, self.output_size = positions, cell.output_size + positions

    def captured(self) -> dict[str, Captured]:
        return self.cell.captured() | {"positions": Captured(self.positions)}

    @override
    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        y, new = self.cell.step(p, x, s)
        return concat(y, _shown(y, new, p)), new


def _shown(y: Value, new: State, p: Scope) -> Value:
    """Return the mean over heads and layers of all attention weights in a step, spread over the source positions.
    Raises ShapeError: there is none."""
    found = [v for v in topological([y, *new.values()]) if v.op == "softmax" and "S" in v.axes]
    if not found:
        raise ShapeError("AttentionProbe: the cell must attend to its source, got one without attention")
    ones = [v if v.width is None else v.graph.apply("sum_last", v) * (1.0 / v.width) for v in found]
    total = ones[0]
    for one in ones[1:]:
        total = total + one
    return weighted_sum(total * (1.0 / len(ones)), p.positions)
