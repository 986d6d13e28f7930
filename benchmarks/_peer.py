"""A peer in a process of its own: another Python, asked over a pipe, quiet while others are timed."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

_HERE = Path(__file__).parent


class PeerError(Exception):
    """The peer cannot do what was asked, or has ended."""


class Peer:
    """`worker` run by `python`, on `threads` threads, with `environment` added to this process's own."""

    def __init__(self, python: str, worker: str, threads: int, environment: dict[str, str] | None = None) -> None:
        count = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "MKL", "OPENBLAS")}
        env = os.environ | count | {"PYTHONPATH": "", "CUDA_VISIBLE_DEVICES": ""} | (environment or {})
        command = [python, str(_HERE / worker)]
        self.folder = tempfile.TemporaryDirectory(prefix="rnn_ops")
        self.threads = threads
        complaints = Path(self.folder.name) / "stderr"
        with complaints.open("w") as file:
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True, env=env
                )
            except OSError as e:
                raise PeerError(f"{python}: {e.strerror}") from None
        try:
            self.version: str = self._answer()["version"]
        except PeerError:
            lines = complaints.read_text(errors="replace").strip().splitlines()
            raise PeerError(f"{python}: {lines[-1] if lines else 'ended at once'}") from None

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise PeerError("the process has ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send one request, wait for its answer. Raises PeerError."""
        if self._process.stdin is None:
            raise PeerError("the process has no input")
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerError("the process has ended") from None
        return self._answer()

    def load(self, name: str, request: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Give the peer a network, known by `name` from here on."""
        path = Path(self.folder.name) / "arrays.npz"
        np.savez(path, **arrays)  # type: ignore[arg-type]
        self.ask(op="load", name=name, file=str(path), threads=self.threads, **request)

    def results(self, name: str) -> dict[str, np.ndarray]:
        """Outputs and gradients of the network."""
        path = Path(self.folder.name) / "results.npz"
        self.ask(op="results", name=name, file=str(path))
        with np.load(path) as file:
            return {key: file[key] for key in file.files}

    def time(self, name: str, mode: str, count: int) -> float:
        """Seconds of one pass, the mean of `count`; returns when the peer's threads have stopped spinning."""
        seconds: float = self.ask(op="time", name=name, mode=mode, count=count)["seconds"]
        self._wait_until_quiet()
        return seconds

    def _wait_until_quiet(self, limit: float = 2.0) -> None:
        """OpenMP threads go on spinning for a while; they must not take time from the next in turn."""
        end = time.perf_counter() + limit
        before = self._cpu_ticks()
        while time.perf_counter() < end:
            time.sleep(0.03)
            now = self._cpu_ticks()
            if now == before:
                return
            before = now
        print(f"{self.version}: its threads still spin after {limit} s", file=sys.stderr)

    def _cpu_ticks(self) -> int:
        stat = Path(f"/proc/{self._process.pid}/stat")
        if not stat.exists():
            return 0
        fields = stat.read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(30)
        self.folder.cleanup()
