"""What do the recurrences of this decade cost, and what do they remember?

`layers`: a whole layer of each cell, inference and training; where torch is installed in this Python, its forms there
as well, with the same weights: outputs and gradients of x are compared first. All are timed in turn, in CPU seconds of
one thread, and the fastest turn counts. `recall`: pairs of key and value, then the keys in another order (Arora et
al. 2023, Zoology): accuracy after some seconds of training.

Run: python benchmarks/recurrences.py layers [--steps 30,512] [--dtypes float32,bfloat16] [--cells A,B] [--turns 5]
     python benchmarks/recurrences.py recall [--pairs 16] [--seconds 15] [--cells A,B]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
from _timing import check_close, normal

from nmt.rnn import LinearAttentionCell, MLSTMCell, Scan, Weights, initial_params
from nmt.rnn.arrays.workspace import Workspace
from nmt.rnn.cell import Cell
from nmt.rnn.cells.by_name import CELLS_BY_NAME

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
    print("| steps x rows, type | cell | form | inference, ms | training, ms |\n|---|---|---|---|---|")
    for T in map(int, args.steps.split(",")):
        for dtype in args.dtypes.split(","):
            B = ROWS.get(T, max(1, 2048 // T))
            x, dy = normal(T, B, H) * 0.5, normal(T, B, H, seed=1) * 0.1
            calls: dict[tuple[str, str, str], Callable] = {}
            for name in args.cells.split(","):
                params, mine = ours(CELLS_BY_NAME[name](H, H), dtype, x, dy)
                calls |= {(name, "nmt", mode): call for mode, call in mine.items()}
                for form in PEERS[name][1] if name in PEERS else ():
                    other = theirs(name, form, dtype, params, x, dy)
                    for mode, call in other.items():
                        tolerance = 1e-3 if dtype == "float32" else 0.1
                        check_close(f"{name} {form} {mode}", call(), mine[mode](), tolerance)
                        calls[name, f"torch {form}", mode] = call
            best = dict.fromkeys(calls, float("inf"))
            for _ in range(args.turns):
                for key, call in calls.items():
                    start = time.process_time()
                    call()
                    best[key] = min(best[key], time.process_time() - start)
            for name, form in dict.fromkeys((name, form) for name, form, _ in calls):
                row = " | ".join(f"{best[name, form, mode] * 1e3:.1f}" for mode in ("inference", "training"))
                print(f"| {T} x {B}, {dtype} | {name} | {form} | {row} |", flush=True)


# ------------------------------------------------------------ recall

SYMBOLS, UNITS, BATCH = 32, 64, 64


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


def questions(rng: np.random.Generator, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Symbols [T, B], and the answers [pairs, B] to the last `pairs` of them."""
    keys = rng.permuted(np.tile(np.arange(SYMBOLS), (BATCH, 1)), axis=1)[:, :pairs]
    values = rng.integers(0, SYMBOLS, (BATCH, pairs))
    order = rng.permuted(np.tile(np.arange(pairs), (BATCH, 1)), axis=1)
    shown = np.stack([keys, SYMBOLS + values], -1).reshape(BATCH, -1)
    asked, answers = (np.take_along_axis(a, order, 1) for a in (keys, values))
    return np.concatenate([shown, asked], 1).T, answers.T


def recall(args: argparse.Namespace) -> None:
    """Print accuracies. Every cell sees each symbol with the one before it, as a short convolution would show it."""
    print("| cell | numbers of its state | updates | accuracy |\n|---|---|---|---|")
    for name in args.cells.split(","):
        rng = np.random.default_rng(0)
        cell = REMEMBER[name](2 * UNITS)
        scan = Scan(cell, threads=1)
        p = initial_params(cell, seed=1)
        own = list(p)
        p["symbols"] = rng.normal(0, 0.5, (2 * SYMBOLS, UNITS)).astype(np.float32)
        p["out"] = rng.normal(0, 0.1, (UNITS, SYMBOLS)).astype(np.float32)
        mean, square = ({k: np.zeros_like(v) for k, v in p.items()} for _ in range(2))
        found, start, step = [], time.process_time(), 0
        while time.process_time() - start < args.seconds:
            symbols, answers = questions(rng, args.pairs)
            before = np.vstack([np.zeros((1, BATCH), int), symbols[:-1]])
            x = np.concatenate([p["symbols"][symbols], p["symbols"][before]], -1)
            result = scan.forward(Weights({k: p[k] for k in own}), x, training=True)
            y = result.y[2 * args.pairs :]
            logits = y @ p["out"]
            found.append(float((logits.argmax(-1) == answers).mean()))
            d = np.exp(logits - logits.max(-1, keepdims=True))
            d /= d.sum(-1, keepdims=True)
            np.put_along_axis(d, answers[..., None], np.take_along_axis(d, answers[..., None], -1) - 1, -1)
            d /= answers.size
            g = {k: np.zeros_like(v) for k, v in p.items()}
            g["out"] = np.einsum("tbh,tbv->hv", y, d)
            d_y = np.zeros_like(result.y)
            d_y[2 * args.pairs :] = d @ p["out"].T
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
        print(f"| {name} | {numbers:,} | {step} | {np.mean(found[-20:]):.3f} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["layers", "recall"])
    parser.add_argument("--cells", default="")
    parser.add_argument("--steps", default="30,512")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=16, help=f"of key and value, at most {SYMBOLS}")
    parser.add_argument("--seconds", type=float, default=15.0)
    args = parser.parse_args()
    args.cells = args.cells or ",".join(CELLS if args.what == "layers" else REMEMBER)
    (layers if args.what == "layers" else recall)(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
