"""A process beside each rank that outlives it: it tells who died, and ends the ranks that would wait for the dead.

A rank that is killed says nothing, and its launcher ends the others, or does not. The pipe between a rank and its guard
is closed by the system when the rank dies, whatever of. The guard that learns of the first death of a job writes one
line, to standard error and into train.log, and leaves a mark in the model folder; every other guard sees the mark, says
nothing, and ends its rank if nobody else does. This file is run by itself and imports nothing of the project.
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
"""Name of the mark in the model folder; what it holds is the job that it is of."""
_POLL_SECONDS = 0.5
_GRACE_SECONDS = 3.0
"""For the launcher to end the other ranks, before their guards do."""


class Guard:
    """The rank's end of it.

    Args:
        folder: The model folder.
        job: Of all ranks, and of no other run.
        rank, size, host: What to call this process.
    """

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
            start_new_session=True,  # a signal to the group of the rank is not for it
        )
        os.close(read)

    def note(self, text: str) -> None:
        """Say what the rank is about to do."""
        self._send(text)

    def release(self) -> None:
        """Send the guard away: the rank ends by itself."""
        self._send("over")
        os.close(self._pipe)
        self._process.wait()

    def _send(self, text: str) -> None:
        try:
            os.write(self._pipe, f"{text}\n".encode())
        except OSError:
            pass  # somebody killed the guard: the rank goes on without


def main(pipe: int, rank: int, parent: int, job: str, name: str, folder: Path) -> None:
    """Wait for the death of a rank, of its launcher, or of another rank."""
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
                _tell(f"{name} died {doing}", job, folder)
                return
        elif _is_marked(folder, job):
            time.sleep(_GRACE_SECONDS)
            _end(rank)
            return
        elif parent > 1 and _parent_of(rank) not in (None, parent):
            _tell(f"{name} lost the process that started it {doing}", job, folder)
            _end(rank)
            return


def _tell(fact: str, job: str, folder: Path) -> None:
    """Write the line, unless another guard did."""
    mark = folder / f"{MARK}-{job}"
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return
    except OSError:
        pass  # a line too many is better than none
    text = f"Error: {fact}; all ranks end. The same command goes on from the last checkpoint"
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
    """Return the parent of a process, None where the system does not tell."""
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
