"""The process from which workers are forked, and their loop: one job after another, within limits of the kernel.

The server sends it commands over a socket: `fork N` with the socket of a new worker, and `kill N`. It imports the
workers' modules once, so that forking takes milliseconds, and ends, with all workers, when the server does. Other
systems than Linux have no such kernel: there the server starts each worker as `spawned` and watches it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

with contextlib.suppress(ImportError):  # Windows has no limits of a process
    import resource

LENGTH = struct.Struct("<Q")
_MOST_GROWN = 64 * 2**10
"""KiB by which a worker may grow; one that has grown more exits, which frees its memory."""
_NICENESS = 15
"""Niceness of workers, so that searches come first: splitting a text takes milliseconds, unless it is an attack."""


def frame(value: Any) -> bytes:
    """Return a value pickled for a socket, with its length in front."""
    body = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


def main(number: int) -> None:
    """Fork workers until the server ends. `number` is the file descriptor of the control socket."""
    # Only the server ends its workers, even if a terminal or systemd signals the whole process group.
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    from nmt.serve.box import text_work  # noqa: F401 - imported once for all workers

    gc.freeze()
    control = socket.socket(fileno=number)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        for worker, process in list(children.items()):  # numbers of processes become free for reuse only here
            if os.waitpid(process, os.WNOHANG)[0]:
                del children[worker]
        if control.fileno() not in ready:
            continue
        message, handles, _, _ = socket.recv_fds(control, 64, 1)
        if not message:
            break
        order, name = message.decode().split()
        if order == "kill" and int(name) in children:
            os.kill(children[int(name)], signal.SIGKILL)
        elif order == "fork" and handles:
            children[int(name)] = _forked(handles[0], (control, woken, wake))
            os.close(handles[0])
    for process in children.values():
        os.kill(process, signal.SIGKILL)


def _forked(handle: int, others: tuple[socket.socket, int, int]) -> int:
    """Fork a worker that talks over the socket `handle`; return its process number."""
    if process := os.fork():
        return process
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control, *pipe = others
        control.close()
        for one in pipe:
            os.close(one)
        os.nice(_NICENESS)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with socket.socket(fileno=handle) as connection:
            began = _largest()
            _serve_jobs(connection.makefile("rb"), connection.sendall, _limit, lambda: _largest() - began > _MOST_GROWN)
        code = 0
    finally:
        os._exit(code)


def spawned() -> None:
    """Work for the server that has started this process, by standard input and output. The server ends it where a job
    takes too much; it ends by itself when the server does."""
    import psutil

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # that of a terminal is for the server
    with open(os.dup(1), "wb", buffering=0) as answers:
        os.dup2(2, 1)  # whatever else is written there
        memory = psutil.Process().memory_info
        began = memory().rss
        _serve_jobs(sys.stdin.buffer, answers.write, lambda *_: None, lambda: memory().rss - began > _MOST_GROWN * 1024)


def _serve_jobs(
    stream: IO[bytes],
    send: Callable[[bytes], object],
    limit: Callable[[float, int], None],
    has_grown: Callable[[], bool],
) -> None:
    from nmt.serve.box import text_work

    while len(head := stream.read(LENGTH.size)) == LENGTH.size:
        name, args, seconds, memory = pickle.loads(stream.read(LENGTH.unpack(head)[0]))
        limit(seconds, memory)
        try:
            for piece in getattr(text_work, name)(*args):
                send(frame(("piece", piece)))
            goes_on = not has_grown()
            answer: tuple[str, Any] = ("end", goes_on)  # said, since the server might see the end of the stream late
        except Exception as error:  # noqa: BLE001 - it is reported to the server, which raises or logs it
            answer, goes_on = _report(error), False
        del args
        with contextlib.suppress(OSError):  # the server has stopped listening
            send(frame(answer))
        limit(0, memory)
        if not goes_on:
            return


def _report(error: Exception) -> tuple[str, Any]:
    """Return the report of an error for the server: its message for a mistake in the text, its traceback for a bug."""
    from nmt.errors import NMTError

    if isinstance(error, NMTError):
        return "refused", str(error)
    if isinstance(error, RecursionError):
        return "too deep", None
    if isinstance(error, MemoryError):
        return "too much", None
    return "failed", (f"{type(error).__name__}: {str(error)[:200]}", traceback.format_exc()[-8000:])


def _limit(seconds: float, memory: int) -> None:
    """Allow the process `seconds` more of CPU time, 0 for any, and `memory` more bytes; the kernel kills it beyond."""
    # Not RLIMIT_CPU: Linux counts it in ticks of its clock, and the sum drifts from what getrusage reports, by seconds
    # in a worker that is long in use.
    signal.setitimer(signal.ITIMER_PROF, seconds)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory, resource.RLIM_INFINITY))


def _largest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
