"""A process for each rank that outlives it: it reports a rank that died and ends the ranks that would wait for it.

A rank that is killed reports nothing, and its launcher may or may not end the others. The system closes the pipe
between a rank and its guard when the rank dies, whatever the cause. The guard that notices the first death of a job
writes one line to standard error and into train.log, and leaves a mark in the model folder; every other guard sees the
mark, writes nothing, and ends its rank unless the launcher does so first. This file is run as a script and imports
nothing of the project.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = ".rank-died"
"""Beginning of the mark's file name in the model folder; the identifier of the job follows."""
_POLL_SECONDS = 0.5
_GRACE_SECONDS = 3.0
"""Time for the launcher to end the other ranks before their guards do."""


class Guard:
    """Starts the guard process of a rank and talks to it. `job`: identifier shared by all ranks of this run and by no
    other run."""

    def __init__(self, folder: Path, job: str, *, rank: int, size: int, host: str) -> None:
        read, self._pipe = os.pipe()
        name = f"rank {rank} of {size} (process {os.getpid()} on {host})"
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                __file__,
                str(read),
                str(os.getpid()),
                str(os.getppid()),
                job,
                name,
                str(folder),
            ],
            pass_fds=[read],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # signals to the rank's process group must not reach it
        )
        os.close(read)

    def note(self, text: str) -> None:
        """Tell the guard what the rank is about to do."""
        self._send(text)

    def release(self) -> None:
        """End the guard: the rank is about to exit normally."""
        self._send("over")
        os.close(self._pipe)
        self._process.wait()

    def _send(self, text: str) -> None:
        try:
            os.write(self._pipe, f"{text}\n".encode())
        except OSError:
            pass  # the guard was killed: the rank continues without it


def main(pipe: int, rank: int, parent: int, job: str, name: str, folder: Path) -> None:
    """Wait for the death of this guard's rank, of the rank's launcher, or of another rank."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    doing, rest = "before the first update", ""
    while True:
        readable, _, _ = select.select([pipe], [], [], _POLL_SECONDS)
        if readable:
            content = os.read(pipe, 1 << 16).decode()
            lines = (rest + content).split("\n")
            rest = lines.pop()
            if "over" in lines:
                return
            doing = lines[-1] if lines else doing
            if not content:
                _report(f"{name} died {doing}", job, folder)
                return
        elif _is_marked(folder, job):
            time.sleep(_GRACE_SECONDS)
            _end(rank)
            return
        elif parent > 1 and _parent_of(rank) not in (None, parent):
            _report(f"{name} lost the process that started it {doing}", job, folder)
            _end(rank)
            return


def _report(fact: str, job: str, folder: Path) -> None:
    """Report a death in a line on standard error and in train.log, unless another guard has already done so."""
    mark = folder / f"{MARK}-{job}"
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return
    except OSError:
        pass  # a duplicate line is better than none
    text = f"Error: {fact}; all ranks end. Run the same command again to resume from the last checkpoint"
    try:
        with (folder / "train.log").open("a", encoding="utf-8") as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {text}\n")
    except OSError:
        pass
    try:
        os.write(2, f"{text}\n".encode())
    except OSError:
        pass


def _is_marked(folder: Path, job: str) -> bool:
    return (folder / f"{MARK}-{job}").exists()


def _parent_of(process: int) -> int | None:
    """Return the parent of a process; None if the system does not report it."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _end(rank: int) -> None:
    try:
        os.kill(rank, signal.SIGKILL)
    except OSError:
        pass


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(*map(int, arguments[:3]), *arguments[3:5], Path(arguments[5]))  # type: ignore[call-arg,arg-type]
