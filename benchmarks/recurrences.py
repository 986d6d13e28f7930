"""What do the recurrences of this decade cost, and what do they remember?

`layers`: a whole layer of each cell, inference and training; where torch is installed in this Python, its forms there
as well, with the same weights: outputs and gradients of x are compared first. All are timed in turn, in CPU seconds of
one thread, and the fastest turn counts; "of peak" counts the products with matrices alone. `memory`: of one training
step of each, in a process of its own: how far its resident memory grows. `step`: one step of the gated delta rule with
16 heads of 128 x 128 for one row, the recurrence alone, next to transformers' function. `recall`: pairs of key and
value, then the keys in another order (Arora et al. 2023, Zoology), or with a gap symbols to be copied after it
(Hochreiter and Schmidhuber 1997; Arjovsky et al. 2016): accuracy after some seconds of training.

Run: python benchmarks/recurrences.py layers [--steps 30,512] [--dtypes float32,bfloat16] [--cells A,B] [--turns 5]
     python benchmarks/recurrences.py memory [--steps 4096] [--dtypes float32] [--cells A,B]
     python benchmarks/recurrences.py step
     python benchmarks/recurrences.py recall [--pairs 16] [--gap 1980] [--seconds 15] [--cells A,B]
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _timing import check_close, normal
from peak import measure_pair_peak, measure_peak

from nmt.rnn import Axes, LinearAttentionCell, MLSTMCell, Scan, State, Weights, axes, exp, flat, initial_params, total
from nmt.rnn.arrays.array_names import ArrayKind
from nmt.rnn.arrays.workspace import Workspace
from nmt.rnn.cell import Cell, Scope
from nmt.rnn.cells.by_name import CELLS_BY_NAME
from nmt.rnn.graph import Value
from nmt.rnn.stepping.prepared_step import StepInputs
from nmt.rnn.stepping.stepper import Stepper

H = 512
CELLS = "lstm gru slstm lrn hawk mamba linear_attention retnet gla hgrn2 gated_delta_net kda mlstm rwkv7".split()
ROWS = {30: 64, 512: 8, 4096: 1}
"""Rows by steps: about 2,000 of both together, for T 4,096 twice as many."""


def ours(cell: Cell, dtype: str, x: np.ndarray, dy: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, Callable]]:
    """Parameters and calls of our layer."""
    scan = Scan(cell, threads=1, compute_dtype=None if dtype == "float32" else dtype)
    params, memory = initial_params(cell, seed=1), Workspace()
    weights, shares = Weights(params), {k: np.zeros_like(v) for k, v in params.items()}

    def infer() -> np.ndarray:
        memory.reset()
        return scan.forward(weights, x, allocate=memory).y

    def train() -> np.ndarray:
        memory.reset()
        tape = scan.forward(weights, x, training=True, allocate=memory).tape
        return scan.backward(tape, dy, gradients=shares).x

    return params, {"inference": infer, "training": train}


def theirs(name: str, form: str, dtype: str, params: dict, x: np.ndarray, dy: np.ndarray) -> dict[str, Callable]:
    """The same calls of PyTorch's layer."""
    import torch
    from _torch_recurrences import LAYERS

    torch.set_num_threads(1)
    kind, layer = getattr(torch, dtype), LAYERS[name][0]
    p = {k: torch.tensor(v).to(kind).requires_grad_(True) for k, v in params.items()}
    given, d_y = torch.tensor(x).to(kind), torch.tensor(dy).to(kind)

    def infer() -> np.ndarray:
        with torch.inference_mode():
            return layer(p, given, form).float().numpy()

    def train() -> np.ndarray:
        for one in p.values():
            one.grad = None
        read = given.clone().requires_grad_(True)
        layer(p, read, form).backward(d_y)
        return read.grad.float().numpy()

    return {"inference": infer, "training": train}


def layers(args: argparse.Namespace) -> None:
    """Print the table of layers, milliseconds."""
    try:
        from _torch_recurrences import LAYERS as PEERS
    except ImportError:
        PEERS = {}
    peaks = {"float32": measure_peak(1), "bfloat16": measure_pair_peak(1)}
    print(", ".join(f"peak {peak:.0f} GFLOP/s in {dtype}" for dtype, peak in peaks.items()))
    print("| steps x rows, type | cell | form | inference, ms | training, ms | of peak |\n|---|---|---|---|---|---|")
    for T in map(int, args.steps.split(",")):
        for dtype in args.dtypes.split(","):
            B = ROWS.get(T, max(1, 2048 // T))
            x, dy = normal(T, B, H) * 0.5, normal(T, B, H, seed=1) * 0.1
            calls: dict[tuple[str, str, str], Callable] = {}
            products: dict[str, int] = {}
            for name in args.cells.split(","):
                params, mine = ours(CELLS_BY_NAME[name](H, H), dtype, x, dy)
                calls |= {(name, "nmt", mode): call for mode, call in mine.items()}
                products[name] = 2 * T * B * sum(p.size for p in params.values() if p.ndim == 2)
                for form in PEERS[name][1] if name in PEERS else ():
                    other = theirs(name, form, dtype, params, x, dy)
                    for mode, call in other.items():
                        check_alike(f"{name} {form} {mode}", call(), mine[mode](), dtype)
                        calls[name, f"torch {form}", mode] = call
            best = dict.fromkeys(calls, float("inf"))
            for _ in range(args.turns):
                for key, call in calls.items():
                    start = time.process_time()
                    call()
                    best[key] = min(best[key], time.process_time() - start)
            for name, form in dict.fromkeys((name, form) for name, form, _ in calls):
                times = [best[name, form, mode] for mode in ("inference", "training")]
                row = " | ".join(f"{seconds * 1e3:.1f}" for seconds in times)
                shares = [f * products[name] / t / 1e9 / peaks[dtype] for f, t in zip((1, 3), times, strict=True)]
                of_peak = " / ".join(f"{share:.0%}" for share in shares)
                print(f"| {T} x {B}, {dtype} | {name} | {form} | {row} | {of_peak} |", flush=True)


def check_alike(where: str, found: np.ndarray, expected: np.ndarray, dtype: str) -> None:
    """End the script where results [T, B, n] differ. In bfloat16 the median of all positions counts: a head whose
    output is nearly zero has a large gradient, in which rounding is large too."""
    if dtype == "float32":
        check_close(where, found, expected, 1e-3)
        return
    errors = np.linalg.norm(found - expected, axis=-1) / np.linalg.norm(expected, axis=-1)
    if not np.median(errors) <= 0.05:
        raise SystemExit(f"{where}: must agree within 0.05, got a median error of {np.median(errors):.1e}")


# ------------------------------------------------------------ memory


def memory(args: argparse.Namespace) -> None:
    """Print the table of memory, MB; of one cell and form in this process if they are named by `--form`."""
    T, dtype = int(args.steps.split(",")[0]), args.dtypes.split(",")[0]
    if args.form:
        grown = growth(args.cells, args.form, T, dtype)
        print(f"| {T} x {ROWS[T]}, {dtype} | {args.cells} | {args.form} | {grown:.0f} |", flush=True)
        return
    print("| steps x rows, type | cell | form | MB |\n|---|---|---|---|", flush=True)
    try:
        from _torch_recurrences import LAYERS as PEERS
    except ImportError:
        PEERS = {}
    for name in args.cells.split(","):
        for form in ("nmt", *(PEERS[name][1] if name in PEERS else ())):
            options = ["--steps", str(T), "--dtypes", dtype, "--cells", name, "--form", form]
            subprocess.run([sys.executable, __file__, "memory", *options], check=True)


def growth(name: str, form: str, T: int, dtype: str) -> float:
    """MB by which the resident memory of this process grows in one training step, after one of a few steps."""
    cell, B = CELLS_BY_NAME[name](H, H), ROWS[T]

    def step(steps: int) -> Callable[[], np.ndarray]:
        x, dy = normal(steps, B, H) * 0.5, normal(steps, B, H, seed=1) * 0.1
        params, mine = ours(cell, dtype, x, dy)
        return mine["training"] if form == "nmt" else theirs(name, form, dtype, params, x, dy)["training"]

    step(32)()
    call = step(T)
    Path("/proc/self/clear_refs").write_text("5")  # the highest resident memory starts again from here
    before = resident("VmRSS")
    call()
    return resident("VmHWM") - before


def resident(what: str) -> float:
    """A field of this process's memory, MB."""
    return int(re.search(rf"{what}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


# ------------------------------------------------------------ one step


class DeltaRule(Cell):
    """S~ = exp(g) S, S' = S~ + k (b (v - S~^T k))^T, y = S'^T q / sqrt(n), for each head; x is [q, k, v, g, b]."""

    def __init__(self, heads: int, size: int) -> None:
        self.heads, self.size = heads, size
        self.input_size, self.output_size = heads * (3 * size + 2), heads * size

    def states(self) -> dict[str, int]:
        """The matrix of each head."""
        return {"S": Axes(h=self.heads, k=self.size, v=self.size)}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        """One step."""
        h, n, cut = self.heads, self.size, x.graph.apply
        q, k, v = (cut("slice", x, start=i * h * n, size=h * n) for i in range(3))
        g, b = (axes(cut("slice", x, start=3 * h * n + i * h, size=h), h=h) for i in range(2))
        q, k, v = axes(q, h=h, k=n) * n**-0.5, axes(k, h=h, k=n), axes(v, h=h, v=n)
        S = exp(g) * s.S
        S = S + k * (b * (v - total(S * k, "k")))
        return flat(total(q * S, "k")), State(S=S)


def prepared_call(stepper: Stepper, x: np.ndarray, S: np.ndarray) -> Callable[[], object]:
    """The compiled code of a step that the stepper has just run, again: as a compiled search calls it."""
    one = np.zeros(1, np.int64)
    parts = stepper.prepared.join(StepInputs({"x": x}, {ArrayKind.STATE.of("S"): S[None]}, one, one), 1, 1, 1)
    calls = [call for call in parts if call is not None]
    tasks = [call.task for call in calls]
    return lambda: stepper.prepared._sequence.run(tasks, calls)


def step(args: argparse.Namespace) -> None:
    """Print microseconds of a step: the fastest of many, of the same numbers, which are compared first."""
    heads, n = 16, 128
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((heads, n), "f4") for _ in range(3))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    g, b = -rng.random(heads, "f4"), rng.random(heads, "f4")
    S = rng.standard_normal((heads, n, n), "f4")
    x = np.concatenate([a.reshape(-1) for a in (q, k, v, g, b)])[None]
    stepper = Stepper(Scan(DeltaRule(heads, n), threads=1), Weights({}), 1)
    y = stepper.step(x, {"S": S[None]})[0].copy()
    calls: dict[str, Callable] = {"nmt, with the call from Python": lambda: stepper.step(x, {"S": S[None]})}
    calls["nmt, compiled code alone"] = prepared_call(stepper, x, S)
    try:
        import torch
        from transformers.models.qwen3_next import modeling_qwen3_next as peer
    except ImportError:
        pass
    else:
        torch.set_num_threads(1)
        row = [torch.tensor(a)[None, None] for a in (q, k, v)]
        rates = {"g": torch.tensor(g)[None, None], "beta": torch.tensor(b)[None, None]}
        options = {"initial_state": torch.tensor(S)[None], "output_final_state": True}

        def theirs() -> np.ndarray:
            with torch.inference_mode():
                return peer.torch_recurrent_gated_delta_rule(*row, **rates, **options)[0].numpy()

        check_close("transformers", theirs().reshape(1, -1), y, 1e-5)
        calls["transformers, torch_recurrent_gated_delta_rule"] = theirs
    best = dict.fromkeys(calls, math.inf)
    for _ in range(args.turns):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(200):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / 200)
    print("| one step of 16 heads of 128 x 128 | microseconds |\n|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {seconds * 1e6:.1f} |", flush=True)


# ------------------------------------------------------------ recall

UNITS, TOKENS = 64, 32_768
"""Units of a layer, and the largest number of symbols in an update."""


def _small(D: int, **options: object) -> Cell:
    return LinearAttentionCell(D, UNITS, heads=2, key_size=32, **options)


REMEMBER: dict[str, Callable[[int], Cell]] = {
    **{
        name: (lambda D, name=name: CELLS_BY_NAME[name](D, UNITS)) for name in ("lstm", "gru", "hawk", "mamba", "slstm")
    },
    "retnet": lambda D: _small(D, decay="constant"),
    "gla": lambda D: _small(D, decay="key"),
    "gated_delta_net": lambda D: _small(D, decay="head", delta=True),
    "mlstm": lambda D: MLSTMCell(D, UNITS, heads=2, key_size=32),
    "rwkv7": lambda D: CELLS_BY_NAME["rwkv7"](D, UNITS),
}


def questions(rng: np.random.Generator, pairs: int, symbols: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Symbols [T, B], and the answers [pairs, B] to the last `pairs` of them."""
    keys = rng.permuted(np.tile(np.arange(symbols), (rows, 1)), axis=1)[:, :pairs]
    values = rng.integers(0, symbols, (rows, pairs))
    order = rng.permuted(np.tile(np.arange(pairs), (rows, 1)), axis=1)
    shown = np.stack([keys, symbols + values], -1).reshape(rows, -1)
    asked, answers = (np.take_along_axis(a, order, 1) for a in (keys, values))
    return np.concatenate([shown, asked], 1).T, answers.T


def copies(rng: np.random.Generator, shown: int, symbols: int, rows: int, gap: int) -> tuple[np.ndarray, np.ndarray]:
    """Symbols to copy in their order, a gap of one other symbol, and one that asks for each: [T, B], [shown, B]."""
    answers = rng.integers(0, symbols, (shown, rows))
    wait, ask = (np.full((n, rows), symbols + kind) for kind, n in enumerate((gap, shown)))
    return np.concatenate([answers, wait, ask]), answers


def recall(args: argparse.Namespace) -> None:
    """Print accuracies. Every cell sees each symbol with the one before it, as a short convolution would show it."""
    count = max(32, args.pairs)
    rows = min(64, TOKENS // (args.gap + 3 * args.pairs))
    print("| cell | numbers of its state | updates | accuracy after a quarter, a half, three quarters, all |")
    print("|---|---|---|---|")
    for name in args.cells.split(","):
        rng = np.random.default_rng(0)
        cell = REMEMBER[name](2 * UNITS)
        scan = Scan(cell, threads=1)
        p = initial_params(cell, seed=1)
        own = list(p)
        p["symbols"] = rng.normal(0, 0.5, (2 * count, UNITS)).astype(np.float32)
        p["out"] = rng.normal(0, 0.1, (UNITS, count)).astype(np.float32)
        mean, square = ({k: np.zeros_like(v) for k, v in p.items()} for _ in range(2))
        found, start, step = [], time.process_time(), 0
        while time.process_time() - start < args.seconds:
            if args.gap:
                symbols, answers = copies(rng, args.pairs, count, rows, args.gap)
            else:
                symbols, answers = questions(rng, args.pairs, count, rows)
            before = np.vstack([np.zeros((1, rows), int), symbols[:-1]])
            x = np.concatenate([p["symbols"][symbols], p["symbols"][before]], -1)
            result = scan.forward(Weights({k: p[k] for k in own}), x, training=True)
            y = result.y[-args.pairs :]
            logits = y @ p["out"]
            found.append(float((logits.argmax(-1) == answers).mean()))
            d = np.exp(logits - logits.max(-1, keepdims=True))
            d /= d.sum(-1, keepdims=True)
            np.put_along_axis(d, answers[..., None], np.take_along_axis(d, answers[..., None], -1) - 1, -1)
            d /= answers.size
            g = {k: np.zeros_like(v) for k, v in p.items()}
            g["out"] = np.einsum("tbh,tbv->hv", y, d)
            d_y = np.zeros_like(result.y)
            d_y[-args.pairs :] = d @ p["out"].T
            d_x = scan.backward(result.tape, d_y, gradients={k: g[k] for k in own}).x
            np.add.at(g["symbols"], symbols, d_x[..., :UNITS])
            np.add.at(g["symbols"], before, d_x[..., UNITS:])
            step += 1
            scale = min(1.0, 1 / (sum(float((a * a).sum()) for a in g.values()) ** 0.5 + 1e-9))
            for k, gradient in g.items():  # Adam with a warm-up of 50 updates and a gradient norm of at most 1
                mean[k] += 0.1 * (gradient * scale - mean[k])
                square[k] += 0.02 * ((gradient * scale) ** 2 - square[k])
                change = (mean[k] / (1 - 0.9**step)) / (np.sqrt(square[k] / (1 - 0.98**step)) + 1e-8)
                p[k] -= (3e-3 * min(1, step / 50) * change).astype(np.float32)
        numbers = sum(map(int, cell.states().values()))
        ends = [max(1, len(found) * quarter // 4) for quarter in (1, 2, 3, 4)]
        reached = ", ".join(f"{np.mean(found[max(0, end - 20) : end]):.3f}" for end in ends)
        print(f"| {name} | {numbers:,} | {step} | {reached} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["layers", "memory", "step", "recall"])
    parser.add_argument("--cells", default="")
    parser.add_argument("--steps", default="30,512")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--form", default="", help="of memory: this one alone")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=16, help="of key and value, or symbols to copy")
    parser.add_argument("--gap", type=int, default=0, help="of recall: copy symbols over so many steps instead")
    parser.add_argument("--seconds", type=float, default=15.0)
    args = parser.parse_args()
    args.cells = args.cells or ",".join(REMEMBER if args.what == "recall" else CELLS)
    {"layers": layers, "memory": memory, "step": step, "recall": recall}[args.what](args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
