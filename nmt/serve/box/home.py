"""The process from which workers are forked, and the life of a worker: one job after another, each within limits that
the kernel enforces.

The server talks to it over a socket: `fork N` with the socket of a new worker, `kill N`. It imports what workers need
once; forking then takes milliseconds, and the pages are shared. It ends, with all workers, when the server does.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import resource
import select
import signal
import socket
import struct
import traceback
from pathlib import Path
from typing import Any

LENGTH = struct.Struct("<Q")
_MOST_GROWN = 64 * 2**10
"""KiB by which a worker may have grown; one that has grown more ends, and gives its memory back."""
_NICENESS = 15
"""Added to the niceness of workers: searches come first. Cutting a text costs milliseconds, unless it is an attack."""


def frame(value: Any) -> bytes:
    """Return a value as it goes over a socket."""
    body = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


def main(number: int) -> None:
    """Fork workers until the server ends. number: of the file descriptor of the socket."""
    # The server alone decides when its workers end, also where a terminal or systemd signals the whole group.
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    from nmt.serve.box import text_work  # noqa: F401 - what all workers share

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
        _reap(children)
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


def _reap(children: dict[int, int]) -> None:
    """Forget workers that have ended. Only here a number of a process becomes free for others."""
    for name, process in list(children.items()):
        if os.waitpid(process, os.WNOHANG)[0]:
            del children[name]


def _forked(handle: int, others: tuple[socket.socket, int, int]) -> int:
    """Fork a worker that speaks over a socket; return its process."""
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
        with socket.socket(fileno=handle) as plug:
            _live(plug)
        code = 0
    finally:
        os._exit(code)


def _live(plug: socket.socket) -> None:
    from nmt.serve.box import text_work

    began = _largest()
    stream = plug.makefile("rb")
    while len(head := stream.read(LENGTH.size)) == LENGTH.size:
        name, args, seconds, memory = pickle.loads(stream.read(LENGTH.unpack(head)[0]))
        _limit(seconds, memory)
        try:
            for piece in getattr(text_work, name)(*args):
                plug.sendall(frame(("piece", piece)))
            answer, is_well = ("end", None), True
        except Exception as error:  # noqa: BLE001 - it is told to the server, which raises or logs it
            answer, is_well = _told(error), False
        del args
        with contextlib.suppress(OSError):  # the server has stopped listening
            plug.sendall(frame(answer))
        if not is_well or _largest() - began > _MOST_GROWN:
            return


def _told(error: Exception) -> tuple[str, Any]:
    """Return what the server is told of an error: of a mistake in the text its line, of one of ours its traceback."""
    from nmt.errors import NMTError

    if isinstance(error, NMTError):
        return "refused", str(error)
    if isinstance(error, RecursionError):
        return "too deep", None
    if isinstance(error, MemoryError):
        return "too much", None
    return "failed", (f"{type(error).__name__}: {str(error)[:200]}", traceback.format_exc()[-8000:])


def _limit(seconds: float, memory: int) -> None:
    """Let the process compute so many seconds more, and take so many bytes more; the kernel ends it beyond."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory, resource.RLIM_INFINITY))


def _largest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
