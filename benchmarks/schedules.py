"""Does the planner pick the faster schedule?

First part: threads that divide the rows of a batch against threads that divide the hidden units, for
one layer at many sizes, and which of them `choose_division` picks. Second part: a stack of layers run
layer by layer, where each layer's input products are one large product, against all layers in one
time loop, in step or as a wavefront, in which a layer reads what the layer below wrote a step earlier, so
that threads that divide units meet twice a step whatever the number of layers. Both check that all
schedules give the same numbers first. Run: python benchmarks/schedules.py
"""

import argparse
from collections.abc import Callable

import numpy as np
from _timing import Arrays, Bench, Turns, check_close, check_same, note, options, print_machine

from nmt.rnn.cell import Cell, Scope, State, under
from nmt.rnn.cells import GRUCell, LSTMCell, StackCell
from nmt.rnn.division import Division, choose_division
from nmt.rnn.graph import Value
from nmt.rnn.kernels.products.packed_weights import packed_weight

_CELLS = {"lstm": LSTMCell, "gru": GRUCell}
_DIVISIONS: tuple[Division, ...] = ("rows", "units")
_SIZES, _ROWS, _STEPS = (256, 512, 1024), (1, 4, 8, 16, 20, 32, 64, 128), 30
# A pick that looks this much slower than the best gets more turns before it is believed.
_DOUBT = 0.02


def division_row(cell: str, H: int, N: int, args: argparse.Namespace) -> list[float]:
    """Check, time and print one size; how far the pick is from the best, in each mode."""
    layer: Cell = _CELLS[cell](H, H)
    benches = {d: Bench(layer, _STEPS, N, threads=args.threads, division=d) for d in _DIVISIONS}
    found = {d: bench.results() for d, bench in benches.items()}
    check_same(f"{cell} {H} {N}", found["units"], found["rows"])
    weights = packed_weight(benches["rows"].weights, "W_h", 0, H, False)
    pick, shares = choose_division(N, args.threads, weights.nbytes), []
    for mode in ("inference", "training"):
        calls: dict[str, Callable[[], object]]
        calls = {d: bench.infer if mode == "inference" else bench.train for d, bench in benches.items()}
        turns = Turns(calls)
        seconds = turns.take(args.turns)
        for _ in range(3):
            if seconds[pick] / min(seconds.values()) - 1 > _DOUBT:
                seconds = turns.take(args.turns)
        best = min(seconds, key=lambda d: seconds[d])
        shares.append(seconds[pick] / seconds[best] - 1)
        times = " ".join(f"{1000 * seconds[d]:9.3f}" for d in _DIVISIONS)
        print(f"{cell:5s} {H:5d} {N:5d} {mode:9s} {times}  {best:5s} {pick:5s} {100 * shares[-1]:6.1f} %", flush=True)
    return shares


def divisions(args: argparse.Namespace) -> None:
    """The first part."""
    print(f"\nT {_STEPS}, milliseconds, best of at least {args.turns} turns in turn")
    print(f"{'cell':5s} {'H':>5s} {'N':>5s} {'mode':9s} {'rows':>9s} {'units':>9s}  best  pick  slower by")
    shares = []
    for cell in args.cells:
        for H in args.sizes:
            note(f"{cell} {H}")
            for N in args.rows:
                shares += division_row(cell, H, N, args)
    print(f"the pick is within {100 * max(shares):.1f} % of the best in every row")


# ------------------------------------------------------------ a stack of layers


class WavefrontCell(StackCell):
    """Layer l at step s does what it would do at step s - l of a stack: it reads the state h of the layer below.

    For layers that stay at zero while their input is zero (zero initial states, no bias): with x followed by
    L - 1 steps of zeros, the outputs from step L - 1 on are those of the stack.
    """

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        """One step of every layer."""
        new, y = State(), x
        for n, cell in enumerate(self.cells):
            y, inner = cell.step(p.sub(str(n)), s[f"{n - 1}.h"] if n else x, s.sub(str(n)))
            new.update(under(str(n), inner))
        return y, new


class Stack:
    """Layers of equal width in one time loop; as a wavefront, with the steps it needs more."""

    def __init__(self, layers: int, H: int, N: int, threads: int, division: Division, *, wavefront: bool) -> None:
        kind = WavefrontCell if wavefront else StackCell
        self.late = layers - 1 if wavefront else 0
        cell = kind([LSTMCell(H, H, bias=False) for _ in range(layers)])
        self.bench = Bench(cell, _STEPS + self.late, N, threads=threads, division=division)
        plain = Bench(StackCell(cell.cells), _STEPS, N, threads=threads)
        self.bench.x[:_STEPS], self.bench.x[_STEPS:] = plain.x, 0
        self.bench.d_y[: self.late], self.bench.d_y[self.late :] = 0, plain.d_y
        self.infer, self.train = self.bench.infer, self.bench.train

    def results(self) -> Arrays:
        """Outputs, gradients of inputs and parameters."""
        found = self.bench.results()
        gradients = {name: found[f"d_{name}"] for name in self.bench.gradients}
        return {"y": found["y"][self.late :], "d_x": found["d_x"][:_STEPS]} | gradients


class LayerByLayer:
    """The same layers, each over all steps before the next."""

    def __init__(self, layers: int, H: int, N: int, threads: int, division: Division) -> None:
        kind = {"threads": threads, "division": division}
        self.benches = [Bench(LSTMCell(H, H, bias=False), _STEPS, N, **kind) for _ in range(layers)]
        whole = Bench(StackCell([LSTMCell(H, H, bias=False)] * layers), _STEPS, N, threads=threads)
        for n, bench in enumerate(self.benches):
            for name in bench.weights:
                bench.weights[name] = whole.weights[f"{n}.{name}"]
        self.benches[0].x, self.benches[-1].d_y = whole.x, whole.d_y

    def infer(self) -> np.ndarray:
        """The outputs [T, N, H]."""
        for bench, above in zip(self.benches, self.benches[1:], strict=False):
            above.x = bench.infer()
        return self.benches[-1].infer()

    def train(self) -> Arrays:
        """Forward and all gradients."""
        tapes, x = [], self.benches[0].x
        for bench in self.benches:
            bench.memory.reset()
            result = bench.scan.forward(bench.weights, x, training=True, allocate=bench.memory)
            x = result.y
            if result.tape is not None:
                tapes.append(result.tape)
        y, d = x, self.benches[-1].d_y
        for bench, tape in zip(self.benches[::-1], tapes[::-1], strict=True):
            found = bench.scan.backward(tape, d, None, bench.gradients).x
            if found is None:
                raise RuntimeError("a scan gave no gradient of its input")
            d = found
        return {"y": y, "d_x": d}

    def results(self) -> Arrays:
        """Outputs, gradients of inputs and parameters."""
        for bench in self.benches:
            for g in bench.gradients.values():
                g[...] = 0
        found = {name: array.copy() for name, array in self.train().items()}
        layers = enumerate(self.benches)
        return found | {f"{n}.{name}": g.copy() for n, bench in layers for name, g in bench.gradients.items()}


def stack_rows(N: int, args: argparse.Namespace) -> None:
    """Check, time and print one batch size."""
    L, H, threads = 4, 512, args.threads
    runs: dict[str, Stack | LayerByLayer] = {}
    for division in _DIVISIONS:
        runs[f"layer by layer, {division}"] = LayerByLayer(L, H, N, threads, division)
    for division in _DIVISIONS:
        runs[f"one loop, {division}"] = Stack(L, H, N, threads, division, wavefront=False)
        runs[f"wavefront, {division}"] = Stack(L, H, N, threads, division, wavefront=True)
    expected = runs["layer by layer, rows"].results()
    for name, run in runs.items():
        for key, array in run.results().items():
            check_close(f"{name}, N {N}: {key}", array, expected[key], 1e-4)
    for mode in ("inference", "training"):
        calls: dict[str, Callable[[], object]]
        calls = {name: run.infer if mode == "inference" else run.train for name, run in runs.items()}
        seconds = Turns(calls).take(args.turns)
        base = min(seconds[f"layer by layer, {division}"] for division in _DIVISIONS)
        for name, needed in seconds.items():
            print(f"{N:5d} {mode:9s} {name:21s} {1000 * needed:9.2f} {needed / base:6.2f}x", flush=True)


def stacks(args: argparse.Namespace) -> None:
    """The second part."""
    print(f"\n4 LSTM layers of 512 units, T {_STEPS}, milliseconds, best of {args.turns} turns in turn, and how many")
    print("times as long as the faster layer by layer")
    for N in (16,) if args.quick else (16, 64):
        note(f"stack {N}")
        stack_rows(N, args)


def main() -> None:
    """Print both parts."""
    parser = options(__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--cells", nargs="+", choices=_CELLS, default=list(_CELLS))
    parser.add_argument("--sizes", nargs="+", type=int, help="hidden units; 256 512 1024, with --quick the first two")
    parser.add_argument("--parts", nargs="+", choices=("divisions", "stacks"), default=("divisions", "stacks"))
    args = parser.parse_args()
    args.sizes = args.sizes or (_SIZES[:2] if args.quick else _SIZES)
    args.rows = (1, 16, 64) if args.quick else _ROWS
    print_machine(args.threads)
    if "divisions" in args.parts:
        divisions(args)
    if "stacks" in args.parts:
        stacks(args)


if __name__ == "__main__":
    main()
