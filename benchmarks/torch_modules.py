"""How fast are nmt.torch's modules, compared with those of torch.nn in the same program?

Both modules have the same parameters and inputs; outputs and gradients are compared first, then both are timed in
turn. A ratio above 1 says that ours takes less time. Then two programs are trained with either, by one changed line:
a character model in the manner of char-rnn and a tagger of packed sentences. Their losses must agree.

Run: python benchmarks/torch_modules.py [--quick] [--threads N] [--turns N]   (needs the extra [torch])
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from _machine import describe
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import nmt.torch

KINDS = ("LSTM", "GRU", "RNN")
# Steps, rows, units, layers, both directions, packed, and whether gradients are wanted.
CASES = (
    (32, 64, 256, 1, False, False, True), (32, 64, 512, 1, False, False, True), (50, 32, 128, 2, True, False, True),
    (50, 32, 256, 1, True, True, True), (4, 16, 256, 1, False, False, True), (1, 16, 256, 1, False, False, True),
    (32, 64, 256, 1, False, False, False), (50, 32, 256, 1, True, True, False), (1, 1, 128, 1, False, False, False),
    (1, 1, 256, 2, False, False, False), (1, 1, 512, 1, False, False, False), (1, 16, 256, 1, False, False, False),
)  # fmt: skip
QUICK = (CASES[0], CASES[3], CASES[8])
_SECONDS = 0.05  # of a turn


def program(module: nn.RNNBase, case: tuple[Any, ...]) -> Callable[[], list[torch.Tensor]]:
    """One call, as a training or a generation makes it; returns what is to be compared."""
    T, B, H, _, _, packed, gradients = case
    torch.manual_seed(1)
    x: Any = torch.randn(T, B, H)
    if packed:
        x = pack_padded_sequence(x, torch.randint(T // 5, T + 1, (B,)), enforce_sorted=False)
    with torch.no_grad():
        y, states = module(x)
    d_y = torch.randn_like(y.data)

    def learn() -> list[torch.Tensor]:
        module.zero_grad()
        output = module(x)[0]
        output = output[0] if packed else output  # a PackedSequence is a tuple, its data first
        output.backward(d_y)
        return [output.detach(), *(one.grad for one in module.parameters() if one.grad is not None)]

    def infer() -> list[torch.Tensor]:
        with torch.no_grad():
            return [module(x, states)[0].data]

    return learn if gradients else infer


def take_turns(calls: list[Callable[[], Any]], turns: int) -> list[list[float]]:
    """Seconds of a call, of each in each turn."""
    counts, times = [], [[] for _ in calls]
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        counts.append(max(1, round(_SECONDS / (time.perf_counter() - start))))
    for _ in range(turns):
        for call, count, found in zip(calls, counts, times, strict=True):
            start = time.perf_counter()
            for _ in range(count):
                call()
            found.append((time.perf_counter() - start) / count)
    return times


def compare(kind: str, case: tuple[Any, ...], turns: int) -> None:
    """Check and time one case."""
    T, B, H, layers, both, packed, gradients = case
    modules = [getattr(home, kind)(H, H, layers, bidirectional=both) for home in (nn, nmt.torch)]
    modules[1].load_state_dict(modules[0].state_dict())
    calls = [program(module, case) for module in modules]
    for expected, got in zip(*(call() for call in calls), strict=True):
        error = float((got - expected).norm() / expected.norm().clamp(min=1e-9))  # some gradients are zero
        assert error < 1e-4, f"{kind} {case}: must agree with torch within 1e-4, got {error:.1e}"
    theirs, ours = take_turns(calls, turns)
    shape = f"{T} x {B} x {H}, {layers} layer{'s' * (layers > 1)}{', both' * both}{', packed' * packed}"
    ratio = statistics.median(a / b for a, b in zip(theirs, ours, strict=True))
    times = f"{1000 * min(theirs):9.3f} {1000 * min(ours):9.3f} {min(theirs) / min(ours):6.2f} {ratio:6.2f}"
    print(f"{kind:5s} {shape:36s} {'training' if gradients else 'inference':9s} {times}", flush=True)


class Characters(nn.Module):
    """A character model."""

    def __init__(self, home: Any, symbols: int, units: int = 128) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(symbols, units), nn.Linear(units, symbols)
        self.rnn = home.LSTM(units, units, num_layers=2, dropout=0.2, batch_first=True)  # the changed line

    def loss(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The mean loss of the next character."""
        y, _ = self.rnn(self.embedding(ids[:, :-1]))
        return cross_entropy(self.output(y).flatten(0, 1), ids[:, 1:].flatten())


class Tagger(nn.Module):
    """A tagger of sentences of different lengths: whether a symbol has been seen before."""

    def __init__(self, home: Any, symbols: int, units: int = 64) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(symbols, units), nn.Linear(2 * units, 2)
        self.rnn = home.GRU(units, units, bidirectional=True, batch_first=True)  # the changed line

    def loss(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The mean loss of the tags."""
        given = pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.rnn(given)[0], batch_first=True)
        ids = ids[:, : y.shape[1]]
        tags = (ids[:, :, None] == ids[:, None, :]).tril(-1).any(-1).long()
        there = torch.arange(y.shape[1]) < lengths[:, None]
        return cross_entropy(self.output(y)[there], tags[there])


def train(model: type, home: Any, updates: int) -> tuple[list[float], float]:
    """Train a program; return its losses and seconds."""
    text = torch.tensor(list(open(__file__, "rb").read())).clamp(max=127)
    torch.manual_seed(5)
    network = model(home, 128)
    optimizer, losses = torch.optim.Adam(network.parameters(), 2e-3), []
    start = time.perf_counter()
    for _ in range(updates):
        places = torch.randint(len(text) - 51, (32, 1))
        loss = network.loss(text[places + torch.arange(51)], torch.randint(5, 52, (32,)))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, time.perf_counter() - start


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a minute: fewer cases and turns")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, help="timed turns (15; 5 with --quick)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    args = parser.parse_args()
    turns = args.turns or (5 if args.quick else 15)
    torch.set_num_threads(args.threads)
    print(
        ", ".join(f"{name} {value}" for name, value in {**describe(args.threads), "torch": torch.__version__}.items())
    )
    print(f"{'':5s} {'':36s} {'':9s} {'torch ms':>9s} {'ours ms':>9s} {'ratio':>6s} {'median':>6s}")
    for case in QUICK if args.quick else CASES:
        for kind in args.kinds:
            compare(kind, case, turns)
    for model in (Characters, Tagger):
        train(model, nmt.torch, 2)  # compiles
        (theirs, seconds), (ours, own) = (train(model, home, 20 if args.quick else 100) for home in (nn, nmt.torch))
        worst = max(abs(a - b) / a for a, b in zip(theirs, ours, strict=True))
        print(f"{model.__name__}: losses {theirs[0]:.4f} to {theirs[-1]:.4f}, ours differ by {worst:.0e}", end="")
        print(f", {seconds / own:.2f} times as fast")
        assert worst < 1e-3, "losses must agree to rounding"


if __name__ == "__main__":
    main()
