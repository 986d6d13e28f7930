"""Convolutions over time as cells: the state is the contribution of past inputs to later outputs.

y_t = x_t W_0 + x_{t-1} W_1 + ... is computed as y_t = x_t W_0 + s_1 with s_1' = x_t W_1 + s_2, s_2' = x_t W_2 + ...
(the transposed form of a filter). So every product reads the input only: over a finished sequence all products are
computed at once, before the loop; step by step, each input is multiplied once. It is the same convolution.

And the layers of a convolutional translator (Gehring et al. 2017, Convolutional Sequence to Sequence Learning;
ConvS2S). Every layer passes the embeddings on next to its own output, [B, H + E], since keys, values and queries all
read them. No layer feeds a lower one, so over a finished sequence the layers run one after another
(`nmt.rnn.scan.layered`), all products at once; in search they are one step whose state is each layer's window. Sums of
two terms are scaled by sqrt(0.5), which preserves their variance (section 3.5).
"""

from nmt.errors import ShapeError
from nmt.rnn.arguments import whole_number
from nmt.rnn.cell import Captured, Cell, Param, Scope, State, under
from nmt.rnn.cells.attention import Attention
from nmt.rnn.cells.parts import ShortConvolution, ZeroStartCell, features, over_window
from nmt.rnn.functions import concat, sigmoid, source_count, split, sqrt, tanh
from nmt.rnn.graph import Value


def window_params(
    window: int, input_size: int, width: int, gates: int, deviation: float | None = None
) -> dict[str, Param]:
    """Return `W_0` for the newest input to `W_{window - 1}` for the oldest, and a bias. deviation: see `Param`."""
    whole_number("convolution", "window", window)
    shapes = {f"W_{k}": Param((input_size, width), gates=gates, deviation=deviation) for k in range(window)}
    return shapes | {"b": Param((width,), gates=gates)}


class ConvolutionCell(ZeroStartCell):
    """Gated linear units over the last `window` inputs: y = a * sigmoid(b), [a, b] the convolution (Gehring et al.
    2017, Convolutional Sequence to Sequence Learning, section 3.2; Dauphin et al. 2017, equation 1).

    Weights are initialised with the variance 4 p / (window * input_size), where p is the share of the input `retained`
    by dropout, so that the output's variance equals the input's: the gate removes three quarters of it (Gehring et al.
    2017, section 3.5).
    """

    def __init__(self, input_size: int, hidden_size: int, window: int = 3, retained: float = 1.0) -> None:
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.window, self.retained = window, retained

    def params(self) -> dict[str, Param]:
        deviation = (4 * self.retained / (max(1, self.window) * self.input_size)) ** 0.5
        return window_params(self.window, self.input_size, 2 * self.hidden_size, 2, deviation)

    def states(self) -> dict[str, int]:
        return ShortConvolution(self.window, 2 * self.hidden_size).states()

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        total, past = over_window([x @ p[f"W_{k}"] for k in range(self.window)], s)
        a, b = split(total + p.b, 2)
        return a * sigmoid(b), past


class QRNNCell(Cell):
    """Quasi-recurrent network with fo-pooling (Bradbury et al. 2017, equations 1, 2 and 4): convolutions give

    z = tanh(...), f = sigmoid(...), o = sigmoid(...);  c_t = f * c_prev + (1 - f) * z,  h_t = o * c_t.
    """

    def __init__(self, input_size: int, hidden_size: int, window: int = 2) -> None:
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.window = window

    def params(self) -> dict[str, Param]:
        return window_params(self.window, self.input_size, 3 * self.hidden_size, 3)

    def states(self) -> dict[str, int]:
        return {"c": self.hidden_size} | ShortConvolution(self.window, 3 * self.hidden_size).states()

    def starts(self) -> tuple[str, ...]:
        return ("c",)

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        total, past = over_window([x @ p[f"W_{k}"] for k in range(self.window)], s)
        z, f, o = split(total + p.b, 3)
        f = sigmoid(f)
        c = f * s.c + (1 - f) * tanh(z)
        return sigmoid(o) * c, State(past, c=c)


HALF = 0.5**0.5


class ConvEntryCell(Cell):
    """[x W + b; x] for embeddings x [B, E] with dropout: a map from their size to that of the layers (section 3.2)."""

    def __init__(self, embedding_size: int, hidden_size: int, dropout: float = 0.0) -> None:
        self.input_size, self.hidden_size, self.dropout = embedding_size, hidden_size, dropout
        self.output_size = hidden_size + embedding_size

    def params(self) -> dict[str, Param]:
        return _linear("in", self.input_size, self.hidden_size)

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        x = p.dropout(x, self.dropout)
        return concat(x @ p.W_in + p.b_in, x), State()


class ConvEncoderLayer(ZeroStartCell):
    """(conv(x) + x) sqrt(0.5), the window centred on x: gated linear units and a residual (section 3.2). The output is
    delayed by (window - 1) / 2 steps, when the inputs on the right are known. Before the sequence there are zeros, and
    the caller must append as many zeros after it."""

    def __init__(self, hidden_size: int, embedding_size: int, window: int = 3, dropout: float = 0.0) -> None:
        if window % 2 == 0:
            raise ShapeError(f"ConvEncoderLayer: window must be odd, to have a centre, got {window}")
        self.hidden_size, self.dropout, self.delay = hidden_size, dropout, window // 2
        self.input_size = self.output_size = hidden_size + embedding_size
        self.cell = ConvolutionCell(hidden_size, hidden_size, window, retained=1 - dropout)

    def params(self) -> dict[str, Param]:
        return self.cell.params()

    def states(self) -> dict[str, int]:
        return self.cell.states() | {f"late{k}": self.input_size for k in range(1, self.delay + 1)}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        h, _ = _parts(x, self.hidden_size)
        y, new = self.cell.step(p, p.dropout(h, self.dropout), s)
        queue = [x, *(s[f"late{k}"] for k in range(1, self.delay + 1))]
        new |= {f"late{k}": queue[k - 1] for k in range(1, self.delay + 1)}
        h, e = _parts(queue[-1], self.hidden_size)
        return concat((y + h) * HALF, e), State(new)


class ConvMemoryCell(Cell):
    """The decoder's memory: keys z = h W + b of the embeddings' size, and values (z + e) sqrt(0.5) (section 3.3)."""

    def __init__(self, hidden_size: int, embedding_size: int) -> None:
        self.hidden_size, self.embedding_size = hidden_size, embedding_size
        self.input_size, self.output_size = hidden_size + embedding_size, 2 * embedding_size

    def params(self) -> dict[str, Param]:
        return _linear("out", self.hidden_size, self.embedding_size)

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        h, e = _parts(x, self.hidden_size)
        z = h @ p.W_out + p.b_out
        return concat(z, (z + e) * HALF), State()


class ConvDecoderLayer(ZeroStartCell):
    """A convolution over the last `window` inputs, attention with its output, and residuals around each (section 3.3).

    h = conv(x);  d = (h W_d + b_d + g) sqrt(0.5), g the last token's embedding;  c = sqrt(m) * context(d), m the number
    of source positions;  y = ((h + c W_c + b_c) sqrt(0.5) + x) sqrt(0.5).
    """

    def __init__(self, hidden_size: int, attention: Attention, window: int = 3, dropout: float = 0.0) -> None:
        self.hidden_size, self.attention, self.dropout = hidden_size, attention, dropout
        self.input_size = self.output_size = hidden_size + attention.query_size
        self.cell = ConvolutionCell(hidden_size, hidden_size, window, retained=1 - dropout)

    def params(self) -> dict[str, Param]:
        shapes = under("cell", self.cell.params()) | self.attention.params()
        shapes |= _linear("d", self.hidden_size, self.attention.query_size)
        return shapes | _linear("c", self.attention.context_size, self.hidden_size)

    def states(self) -> dict[str, int]:
        return under("cell", self.cell.states())

    def captured(self) -> dict[str, Captured]:
        return {"memory": Captured(self.attention.memory_size)}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        below, g = _parts(x, self.hidden_size)
        h, new = self.cell.step(p.sub("cell"), p.dropout(below, self.dropout), s.sub("cell"))
        query = (h @ p.W_d + p.b_d + g) * HALF
        context = self.attention.read(p, query)[0] * sqrt(source_count(p.memory))
        y = ((h + context @ p.W_c + p.b_c) * HALF + below) * HALF
        return concat(y, g), State(under("cell", new))


class ConvOutputCell(Cell):
    """h W + b, with dropout: the input of the output layer."""

    def __init__(self, hidden_size: int, embedding_size: int, dropout: float = 0.0) -> None:
        self.hidden_size, self.dropout = hidden_size, dropout
        self.input_size, self.output_size = hidden_size + embedding_size, hidden_size

    def params(self) -> dict[str, Param]:
        return _linear("out", self.hidden_size, self.hidden_size)

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        h, _ = _parts(x, self.hidden_size)
        return p.dropout(h @ p.W_out + p.b_out, self.dropout), State()


def _linear(name: str, input_size: int, output_size: int) -> dict[str, Param]:
    return {f"W_{name}": Param((input_size, output_size)), f"b_{name}": Param((output_size,))}


def _parts(x: Value, hidden_size: int) -> tuple[Value, Value]:
    """Return a layer's own features and the embeddings next to them."""
    return features(x, 0, hidden_size), features(x, hidden_size, (x.width or 0) - hidden_size)
