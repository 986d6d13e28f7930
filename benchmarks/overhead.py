"""What does generality cost? The engine compared with an LSTM written by hand for Numba.

The loops below are one cell in one direction, without lengths, dropout, checks or a second kind of
cell: only what the arithmetic needs, with the same products, activations, alias scopes and fusion.
As a hand-written loop may do this, the hand-written one runs with the input's products of all steps at
once and with those of about 2,000 rows at a time; the faster counts. Run: python benchmarks/overhead.py
"""

import argparse
from typing import Any

import numpy as np
from _timing import Arrays, Bench, Turns, check_close, note, options, print_machine
from llvmlite import ir

from nmt.rnn.cells import LSTMCell
from nmt.rnn.kernels.loops.activation_code import sigmoid, tanh
from nmt.rnn.kernels.machine_code.jit import intrinsic, kernel, numba_types
from nmt.rnn.kernels.memory.moves import address
from nmt.rnn.kernels.products.gradients import weight_gradient
from nmt.rnn.kernels.products.packed_weights import packed_weight
from nmt.rnn.kernels.products.product import product, sum_rows
from nmt.rnn.kernels.products.row_products import product_rows_f4 as product_rows
from nmt.rnn.kernels.threads.pool import run_parallel

_SHAPES = ((300, 20, 800), (30, 64, 512), (200, 1, 128))
_BLOCK = 2048
_SCOPES = 10


def _element(context: Any, builder: ir.IRBuilder, kind: Any, array: Any, offset: ir.Value) -> ir.Value:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [offset], inbounds=True)


def _mark(builder: ir.IRBuilder, instruction: ir.Instruction, scope: int) -> None:
    """Tell LLVM that accesses of different scopes never overlap ("alias.scope" and "noalias" in its manual)."""
    module = builder.module
    domain = module.add_metadata(["nmt rows"])
    scopes = [module.add_metadata([f"nmt place {n}", domain]) for n in range(_SCOPES)]
    instruction.set_metadata("alias.scope", module.add_metadata([scopes[scope]]))
    instruction.set_metadata("noalias", module.add_metadata([s for n, s in enumerate(scopes) if n != scope]))


def reader(scope: int) -> Any:
    """Return `get(array, offset)`, which loads an element by its offset in C order, without a check of the index."""

    def get(typing_context: Any, array: Any, offset: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            load = builder.load(_element(context, builder, signature.args[0], *args))
            _mark(builder, load, scope)
            return load

        return array.dtype(array, numba_types.int64), codegen

    return intrinsic(get)


def writer(scope: int) -> Any:
    """Return `put(array, offset, value)`, which stores an element."""

    def put(typing_context: Any, array: Any, offset: Any, value: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            store = builder.store(args[2], _element(context, builder, signature.args[0], *args[:2]))
            _mark(builder, store, scope)
            return context.get_dummy_value()

        return numba_types.void(array, numba_types.int64, array.dtype), codegen

    return intrinsic(put)


(get0, get1, get2, get3, get4, get5, get6, get7, get8, get9) = (reader(n) for n in range(_SCOPES))
(put0, put1, put2, put3, put4, put5, put6, put7, put8, put9) = (writer(n) for n in range(_SCOPES))
_ONE = np.float32(1)


@kernel
def _infer(part, parts, start, stop, N, H, a, u, bias, w, h, c):  # type: ignore[no-untyped-def]
    """Steps [start, stop) of this thread's rows; `a` holds the input's products of these steps."""
    low, high, G = N * part // parts, N * (part + 1) // parts, 4 * H
    for t in range(start, stop):
        before = address(h, (t * N + low) * H)
        product_rows(before, H, address(w, 0), address(u, low * G), G, high - low, G, H, 0)
        for n in range(low, high):
            x, y, old, new = ((t - start) * N + n) * G, n * G, (t * N + n) * H, ((t + 1) * N + n) * H
            for j in range(H):
                i = sigmoid(get0(a, x + j) + get1(u, y + j) + get2(bias, j))
                f = sigmoid(get0(a, x + H + j) + get1(u, y + H + j) + get2(bias, H + j))
                g = tanh(get0(a, x + 2 * H + j) + get1(u, y + 2 * H + j) + get2(bias, 2 * H + j))
                o = sigmoid(get0(a, x + 3 * H + j) + get1(u, y + 3 * H + j) + get2(bias, 3 * H + j))
                cell = f * get3(c, old + j) + i * g
                put3(c, new + j, cell)
                put4(h, new + j, o * tanh(cell))


@kernel
def _forward(part, parts, start, stop, N, H, a, u, bias, w, h, c, ki, kf, kg, ko, kt):  # type: ignore[no-untyped-def]
    """The same, keeping gates and tanh(c)."""
    low, high, G = N * part // parts, N * (part + 1) // parts, 4 * H
    for t in range(start, stop):
        before = address(h, (t * N + low) * H)
        product_rows(before, H, address(w, 0), address(u, low * G), G, high - low, G, H, 0)
        for n in range(low, high):
            x, y, old, new = ((t - start) * N + n) * G, n * G, (t * N + n) * H, ((t + 1) * N + n) * H
            for j in range(H):
                i = sigmoid(get0(a, x + j) + get1(u, y + j) + get2(bias, j))
                f = sigmoid(get0(a, x + H + j) + get1(u, y + H + j) + get2(bias, H + j))
                g = tanh(get0(a, x + 2 * H + j) + get1(u, y + 2 * H + j) + get2(bias, 2 * H + j))
                o = sigmoid(get0(a, x + 3 * H + j) + get1(u, y + 3 * H + j) + get2(bias, 3 * H + j))
                cell = f * get3(c, old + j) + i * g
                put3(c, new + j, cell)
                squashed = tanh(cell)
                put4(h, new + j, o * squashed)
                put5(ki, old + j, i)
                put6(kf, old + j, f)
                put7(kg, old + j, g)
                put8(ko, old + j, o)
                put9(kt, old + j, squashed)


@kernel
def _backward(part, parts, start, stop, N, H, d_a, d_h, d_c, w, d_y, c, ki, kf, kg, ko, kt):  # type: ignore[no-untyped-def]
    """Steps from stop - 1 down to start: d_a of these steps; d_h and d_c are what reaches the states."""
    low, high, G = N * part // parts, N * (part + 1) // parts, 4 * H
    for t in range(stop - 1, start - 1, -1):
        for n in range(low, high):
            x, old, row = ((t - start) * N + n) * G, (t * N + n) * H, n * H
            for j in range(H):
                i, f, g = get1(ki, old + j), get2(kf, old + j), get3(kg, old + j)
                o, squashed = get4(ko, old + j), get5(kt, old + j)
                d = get6(d_y, old + j) + get7(d_h, row + j)
                d_cell = get8(d_c, row + j) + d * o * (_ONE - squashed * squashed)
                put0(d_a, x + j, d_cell * g * i * (_ONE - i))
                put0(d_a, x + H + j, d_cell * get9(c, old + j) * f * (_ONE - f))
                put0(d_a, x + 2 * H + j, d_cell * i * (_ONE - g * g))
                put0(d_a, x + 3 * H + j, d * squashed * o * (_ONE - o))
                put8(d_c, row + j, d_cell * f)
        gates = address(d_a, ((t - start) * N + low) * G)
        product_rows(gates, G, address(w, 0), address(d_h, low * H), H, high - low, H, G, 0)


class ByHand:
    """An LSTM layer over [T, N, H], `steps` at a time, on the engine's weights and inputs."""

    def __init__(self, bench: Bench, threads: int, steps: int) -> None:
        self.x, self.d_y, self.threads = bench.x, bench.d_y, threads
        self.T, self.N, self.H = bench.x.shape
        self.steps = steps
        T, N, H = self.T, self.N, self.H
        self.blocks = [(start, min(T, start + steps)) for start in range(0, T, steps)]
        weights = bench.weights
        self.bias = weights["b"]
        self.forth = [packed_weight(weights, name, 0, H, False) for name in ("W_x", "W_h")]
        self.back = [packed_weight(weights, name, 0, H, True) for name in ("W_x", "W_h")]
        self.h, self.c = (np.zeros((T + 1, N, H), "f4") for _ in range(2))
        self.kept = [np.zeros((T, N, H), "f4") for _ in range(5)]
        self.a, self.u = np.zeros((steps * N, 4 * H), "f4"), np.zeros((N, 4 * H), "f4")
        self.d_x, self.d_h, self.d_c = np.zeros((T, N, H), "f4"), np.zeros((N, H), "f4"), np.zeros((N, H), "f4")
        self.gradients = {name: np.zeros_like(array) for name, array in weights.items()}

    def _each(self, function: Any, start: int, stop: int, *arrays: np.ndarray) -> None:
        run_parallel(function, self.threads, start, stop, self.N, self.H, *arrays)

    def _product(self, left: np.ndarray, packed: np.ndarray, out: np.ndarray) -> None:
        segments = np.array([[0, len(left)]])
        sizes = left.shape[1], out.shape[1]
        run_parallel(product, self.threads, left, 0, packed, out, 0, *sizes, segments, 0)

    def _rows(self, array: np.ndarray, start: int, stop: int) -> np.ndarray:
        return array[start:stop].reshape(-1, self.H)

    def infer(self) -> np.ndarray:
        """The outputs [T, N, H]."""
        self._run(_infer)
        return self.h[1:]

    def _run(self, loop: Any, *kept: np.ndarray) -> None:
        for start, stop in self.blocks:
            self._product(self._rows(self.x, start, stop), self.forth[0], self.a[: (stop - start) * self.N])
            self._each(loop, start, stop, self.a, self.u, self.bias, self.forth[1], self.h, self.c, *kept)

    def train(self) -> Arrays:
        """Forward and all gradients, those of parameters added up."""
        self._run(_forward, *self.kept)
        self.d_h[...] = self.d_c[...] = 0
        G = 4 * self.H
        for start, stop in reversed(self.blocks):
            d_a = self.a[: (stop - start) * self.N]
            self._each(_backward, start, stop, d_a, self.d_h, self.d_c, self.back[1], self.d_y, self.c, *self.kept)
            self._product(d_a, self.back[0], self._rows(self.d_x, start, stop))
            segments = np.array([[0, len(d_a)]])
            for name, left in (("W_x", self.x), ("W_h", self.h)):
                sizes = (self._rows(left, start, stop), 0, self.H, d_a, 0, G)
                run_parallel(weight_gradient, self.threads, *sizes, segments, self.gradients[name], 1)
            run_parallel(sum_rows, self.threads, d_a, 0, G, segments, self.gradients["b"], 1)
        return {"y": self.h[1:], "d_x": self.d_x, "h": self.d_h, "c": self.d_c}

    def results(self) -> Arrays:
        """What `Bench.results` gives."""
        for g in self.gradients.values():
            g[...] = 0
        return self.train() | {f"d_{name}": g for name, g in self.gradients.items()}


def faster_by_hand(engine: Bench, threads: int, mode: str) -> ByHand:
    """The loop by hand with all steps' input products at once, or with about 2,000 rows' at a time."""
    T, N, _ = engine.x.shape
    steps = sorted({T, -(-T // max(1, -(-T * N // _BLOCK)))})
    runs = {str(count): ByHand(engine, threads, count) for count in steps}
    if len(runs) == 1:
        return runs[str(T)]
    seconds = Turns({name: getattr(run, mode) for name, run in runs.items()}).take(2)
    return runs[min(seconds, key=lambda name: seconds[name])]


def run_shape(shape: tuple[int, int, int], threads: int, args: argparse.Namespace) -> list[float]:
    """Check, time and print one shape; the engine's overhead a step in each mode."""
    T, N, H = shape
    where = f"{T},{N},{H} on {threads}"
    cell = LSTMCell(H, H)
    more = 1 if T * N > _BLOCK else 15
    engine, longer = (Bench(cell, steps, N, threads=threads, division="rows") for steps in (T, T + more * T))
    expected = engine.results()
    overheads = []
    for mode in ("infer", "train"):
        hand = faster_by_hand(engine, threads, mode)
        check_close(f"{where}: y by hand", hand.infer(), expected["y"], 1e-6)
        for key, array in hand.results().items():
            check_close(f"{where}: {key} by hand", array, expected[key], 1e-5)
        runs: dict[str, Bench | ByHand]
        runs = {"engine": engine, "hand": hand, "long": longer, "hand long": ByHand(longer, threads, hand.steps)}
        seconds = Turns({name: getattr(run, mode) for name, run in runs.items()}).take(args.turns)
        ours, best = seconds["engine"], seconds["hand"]
        a_step, a_step_by_hand = (seconds["long"] - ours) / more, (seconds["hand long"] - best) / more
        a_call = ours - a_step - (best - a_step_by_hand)
        overheads.append(a_step / a_step_by_hand - 1)
        figures = f"{1e6 * ours / T:10.2f} {1e6 * best / T:10.2f} {100 * (ours / best - 1):8.1f} % {1e6 * a_call:8.0f}"
        print(f"{f'{T},{N},{H}':>12s} {threads:7d} {mode:6s} {figures} {100 * overheads[-1]:9.1f} %", flush=True)
    return overheads


def _shape(text: str) -> tuple[int, int, int]:
    T, N, H = map(int, text.split(","))
    return T, N, H


def main() -> None:
    """Print the table."""
    parser = options(__doc__)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--shapes", nargs="+", type=_shape, metavar="T,N,H")
    args = parser.parse_args()
    print_machine(args.threads)
    print(f"microseconds a step of whole calls, best of {args.turns} turns in turn; a step: what more steps cost, over")
    print("those by hand; a call: how much more a call costs besides, microseconds: checks, memory, arguments")
    columns = f"{'engine':>10s} {'by hand':>10s} {'overhead':>10s} {'a call':>8s} {'a step':>11s}"
    print(f"{'T,N,H':>12s} {'threads':>7s} {'mode':6s} {columns}")
    overheads = []
    for shape in args.shapes or (_SHAPES[1:] if args.quick else _SHAPES):
        for threads in sorted({1, args.threads}):
            note(f"{shape} on {threads}")
            overheads += run_shape(shape, threads, args)
    print(f"a step of the engine costs at most {100 * max(overheads):.1f} % more than one of the loops by hand")


if __name__ == "__main__":
    main()
