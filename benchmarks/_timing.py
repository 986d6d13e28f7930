"""What the studies of the engine share: options, turns, checks, the head of a table."""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from _machine import describe
from peak import measure_peak

from nmt.rnn.arrays.weights import Weights, initial_params
from nmt.rnn.arrays.workspace import Workspace
from nmt.rnn.cell import Cell
from nmt.rnn.cores import default_threads
from nmt.rnn.scan.scan import Scan

Arrays = dict[str, np.ndarray]

# A turn repeats short calls for this long: the clock and the scheduler are not finer than this.
_TURN_SECONDS = 0.02


def note(text: str) -> None:
    """A line about progress, outside the table."""
    print(text, file=sys.stderr, flush=True)


def options(description: str | None) -> argparse.ArgumentParser:
    """The options that every study has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--quick", action="store_true", help="fewer sizes and turns")
    return parser


def print_machine(threads: int) -> float:
    """Head of the tables: CPU, threads, date, versions and the peak, GFLOP/s."""
    speed = measure_peak(threads)
    print(", ".join(f"{name} {value}" for name, value in describe(threads).items()))
    print(f"peak {speed:.0f} GFLOP/s in float32 on {threads} threads", flush=True)
    return speed


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal float32 numbers, the same for the same shape and seed."""
    return np.random.default_rng(seed).standard_normal(shape, "f4")


def check_close(where: str, found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Compare by ||found - expected|| / ||expected||; ends the script where they disagree."""
    error = float(np.linalg.norm(found - expected) / max(float(np.linalg.norm(expected)), 1e-30))
    if found.shape != expected.shape or not error <= tolerance:
        raise SystemExit(f"{where}: must agree within {tolerance}, got {found.shape} and an error of {error:.1e}")


def check_same(where: str, found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    """Compare bit for bit; ends the script where a bit differs."""
    for name, array in expected.items():
        if not np.array_equal(found[name], array):
            raise SystemExit(f"{where}: {name} must be the same bits, got others")


class Turns:
    """Calls timed in turn in one process: what slows one down for a while slows all of them down."""

    def __init__(self, calls: Mapping[str, Callable[[], Any]]) -> None:
        self.calls = calls
        self.seconds: dict[str, list[float]] = {name: [] for name in calls}
        self._counts: dict[str, int] = {}
        for name, call in calls.items():
            call()
            self._counts[name] = max(1, round(_TURN_SECONDS / max(self._time(call, 1), 1e-7)))

    def _time(self, call: Callable[[], Any], count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - start) / count

    def take(self, turns: int) -> dict[str, float]:
        """Time so many more turns of each; the minimum of all turns so far, seconds a call."""
        for _ in range(turns):
            for name, call in self.calls.items():
                self.seconds[name].append(self._time(call, self._counts[name]))
        return {name: min(taken) for name, taken in self.seconds.items()}


class Bench:
    """One cell over T steps of N rows, with numbers of its own and memory that is used again."""

    def __init__(self, cell: Cell, T: int, N: int, **scan: Any) -> None:
        self.scan = Scan(cell, **scan)
        self.weights = Weights(initial_params(cell, 0))
        self.gradients = {name: np.zeros_like(p) for name, p in self.weights.items()}
        self.x, self.d_y = normal(T, N, cell.input_size), normal(T, N, cell.output_size, seed=1)
        self.memory = Workspace()

    def infer(self) -> np.ndarray:
        """The outputs [T, N, n], valid until the next call."""
        self.memory.reset()
        return self.scan.forward(self.weights, self.x, allocate=self.memory).y

    def train(self) -> Arrays:
        """Forward and all gradients, those of parameters added up; valid until the next call."""
        self.memory.reset()
        result = self.scan.forward(self.weights, self.x, training=True, allocate=self.memory)
        if result.tape is None:
            raise RuntimeError("a training run has a tape")
        found = self.scan.backward(result.tape, self.d_y, None, self.gradients)
        return {"y": result.y} | ({} if found.x is None else {"d_x": found.x}) | found.initial

    def results(self) -> Arrays:
        """Copies of everything a training step gives, with the parameters' gradients of one step."""
        for g in self.gradients.values():
            g[...] = 0
        found = {name: array.copy() for name, array in self.train().items()}
        return found | {f"d_{name}": g.copy() for name, g in self.gradients.items()}
