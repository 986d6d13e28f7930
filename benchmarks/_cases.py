"""What the operator benchmark runs: cells, shapes, numbers to compute with, and the work they ask for."""

from dataclasses import dataclass

import numpy as np

Arrays = dict[str, np.ndarray]

# Gates of each cell; the names are the command's.
CELLS = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
MODES = ("inference", "training")


@dataclass(frozen=True)
class Shape:
    """T steps of N rows of width I through `layers` layers of H units; `mean_length` makes rows end earlier."""

    name: str
    T: int
    N: int
    I: int  # noqa: E741
    H: int
    layers: int = 1
    bidirectional: bool = False
    mean_length: int | None = None

    @property
    def directions(self) -> int:
        """One or two."""
        return 2 if self.bidirectional else 1

    @property
    def label(self) -> str:
        """T,N,I,H x layers, as tables print it."""
        kind = " bi" if self.bidirectional else ""
        mixed = f" mean {self.mean_length}" if self.mean_length else ""
        return f"{self.T},{self.N},{self.I},{self.H} x{self.layers}{kind}{mixed}"

    def lengths(self) -> np.ndarray | None:
        """Steps of each row, longest first, spread like sentences; None where all rows run to the end."""
        if self.mean_length is None:
            return None
        drawn = np.random.default_rng(0).lognormal(np.log(self.mean_length), 0.45, self.N)
        lengths = np.sort(np.clip(np.rint(drawn), 2, self.T).astype(np.int64))[::-1].copy()
        lengths[0] = self.T
        inner = np.arange(1, self.N)
        excess = int(lengths.sum()) - self.mean_length * self.N
        while excess:  # the mean is kept exactly
            step = -int(np.sign(excess))
            movable = inner[(lengths[inner] > 2) if step < 0 else (lengths[inner] < self.T)]
            chosen = movable[:: max(1, len(movable) // min(abs(excess), len(movable)))][: abs(excess)]
            lengths[chosen] += step
            excess += step * len(chosen)
        return np.sort(lengths)[::-1].copy()


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("mxnet", 300, 20, 800, 800),  # MXNet's table of its fused operator, first part
        Shape("mxnet5", 300, 20, 800, 800, layers=5),  # the second part, whose title and caption differ
        Shape("mxnet5bi", 300, 20, 800, 800, layers=5, bidirectional=True),
        Shape("stack", 30, 64, 512, 512, layers=2),
        Shape("mixed", 30, 64, 512, 512, layers=2, mean_length=15),
        Shape("step1", 1, 1, 512, 512),  # one step of a search
        Shape("step5", 1, 5, 512, 512),
        Shape("caffe2", 200, 128, 40, 800),  # Caffe2's own LSTM benchmark
        Shape("cudnn", 8, 128, 1024, 1024, layers=3),  # three layers in one call, of a forum's thread on cuDNN
    )
}
# One of each kind: a long sequence, real lengths, one step; relu is as fast as tanh.
QUICK_SHAPES = ("mxnet", "mixed", "step1")
QUICK_CELLS = ("lstm", "gru", "rnn_tanh")


def operations(cell: str, shape: Shape, mode: str) -> int:
    """Floating-point operations of the matrix products alone, a multiply-add counted as two.

    Forward 2 * rows * (D + H) * G * H a layer and direction, rows being the steps of all rows
    together, D = I in the first layer and directions * H above. Training is three times that: the
    products forward, the gradients of their left sides, the gradients of the weights.
    """
    lengths = shape.lengths()
    rows = shape.T * shape.N if lengths is None else int(lengths.sum())
    total = 0
    for layer in range(shape.layers):
        D = shape.I if layer == 0 else shape.directions * shape.H
        total += 2 * rows * (D + shape.H) * CELLS[cell] * shape.H * shape.directions
    return total * (3 if mode == "training" else 1)


def make_inputs(cell: str, shape: Shape) -> tuple[Arrays, Arrays]:
    """Parameters by the operators' names, and x [T, N, I], hx (and cx) [L * directions, N, H], d_y [T, N, directions *
    H]."""
    rng = np.random.default_rng(1)
    limit = shape.H**-0.5
    params: Arrays = {}
    for layer in range(shape.layers):
        D = shape.I if layer == 0 else shape.directions * shape.H
        width = CELLS[cell] * shape.H
        sizes = {"W_x": (D, width), "W_h": (shape.H, width), "b_x": (width,), "b_h": (width,)}
        for suffix in ("", "_reverse")[: shape.directions]:
            for name, size in sizes.items():
                params[f"{name}_l{layer}{suffix}"] = rng.uniform(-limit, limit, size).astype("f4")
    states = (shape.layers * shape.directions, shape.N, shape.H)
    arrays = {
        "x": rng.standard_normal((shape.T, shape.N, shape.I), "f4"),
        "hx": 0.5 * rng.standard_normal(states, "f4"),
    }
    if cell == "lstm":
        arrays["cx"] = 0.5 * rng.standard_normal(states, "f4")
    arrays["d_y"] = rng.standard_normal((shape.T, shape.N, shape.directions * shape.H), "f4")
    lengths = shape.lengths()
    if lengths is not None:
        ended = np.arange(shape.T)[:, None] >= lengths
        arrays["x"][ended] = 0
        arrays["d_y"][ended] = 0
    return params, arrays
