"""Run a command to its end or to a deadline, and find out how much memory it took."""

import contextlib
import io
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True)
class Watched:
    """How a command ended: exit status (None: stopped at the deadline), seconds, peak memory in MB."""

    status: int | None
    seconds: float
    peak_mb: float


def watch(
    command: list[str],
    *,
    log: IO[str] | None = None,
    stdin: IO[str] | None = None,
    env: dict[str, str] | None = None,
    deadline: float | None = None,
) -> Watched:
    """Run the command in a process group of its own; after `deadline` seconds end the group.

    Peak memory is the sum of its processes' own peaks of resident memory, read while they run.
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdin=stdin or subprocess.DEVNULL,
        stdout=log or subprocess.DEVNULL,
        stderr=subprocess.STDOUT if log else subprocess.DEVNULL,
        env=os.environ | (env or {}),
        process_group=0,  # the same session: it is scheduled like the processes that run at the same time
    )
    peaks: dict[int, float] = {}
    stopped = False
    try:
        while process.poll() is None:
            peaks |= _peaks(process.pid)
            if deadline is not None and time.perf_counter() - start > deadline and not stopped:
                stopped = True
                os.killpg(process.pid, signal.SIGTERM)
            if stopped and time.perf_counter() - start > (deadline or 0) + 30:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.02)
    finally:
        if process.poll() is None:  # this script is being interrupted
            os.killpg(process.pid, signal.SIGKILL)
    seconds = time.perf_counter() - start
    return Watched(None if stopped else process.returncode, seconds, sum(peaks.values()))


def converse(
    command: list[str], lines: list[str], env: dict[str, str] | None = None
) -> tuple[Watched, list[str], list[float]]:
    """Give a command one line after another, each when the one before is answered: how it ended (seconds without its
    start), its answers, and the seconds that each took. Fewer answers than lines: it ended early."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, bufsize=0, env=os.environ | (env or {}), process_group=0, **pipes)  # type: ignore[call-overload]
    answers, seconds = [], []
    peaks: dict[int, float] = {}
    try:
        replies = io.BufferedReader(process.stdout)
        for line in lines:
            start = time.perf_counter()
            with contextlib.suppress(BrokenPipeError):  # it has ended: there is no answer
                process.stdin.write(line.encode() + b"\n")
            answer = replies.readline()
            if not answer.endswith(b"\n"):
                break
            seconds.append(time.perf_counter() - start)
            answers.append(answer.decode("utf-8").rstrip("\n"))
        peaks = _peaks(process.pid)
        process.stdin.close()
        status = process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return Watched(status, sum(seconds), sum(peaks.values())), answers, seconds


def _peaks(group: int) -> dict[int, float]:
    """Peak resident MB of each process of the group, by its number."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) != group:
                continue
            for line in (folder / "status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    found[int(folder.name)] = int(line.split()[1]) / 1024
        except (OSError, ValueError):
            continue  # it has just ended
    return found
