"""The sandbox for untrusted texts: a few worker processes, in which each job runs within CPU and memory limits. A job
that is cancelled or exceeds them is killed with its process, and another one is forked. On Linux the kernel enforces
the limits; elsewhere the server looks ten times a second whether a worker, a new process, has taken too much."""

from __future__ import annotations

import asyncio
import ctypes
import io
import logging
import os
import pickle
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import psutil

from nmt.serve.box.home import LENGTH, frame
from nmt.serve.limits import Turns
from nmt.serve.settings import RequestError

_logger = logging.getLogger("nmt.serve")

_MOST_FRAME = 64 * 2**20
_WRITTEN = 2**18
"""Bytes written to a socket at a time."""
_FORKS = sys.platform.startswith("linux")
_LOOK_SECONDS = 0.1
_QUIETLY = 0x0800_4000 if sys.platform == "win32" else 0
"""Without a window, and after other processes (CREATE_NO_WINDOW, BELOW_NORMAL_PRIORITY_CLASS)."""


@dataclass(frozen=True)
class BoxJob:
    """A function of `text_work` with its arguments. `what`: the field that errors name; `seconds`: CPU time; `memory`:
    extra bytes; `output`: most bytes of the answer; `is_long`: whether it takes a slot of the long jobs."""

    name: str
    args: tuple[Any, ...]
    what: str
    seconds: float = 4.0
    memory: int = 256 * 2**20
    output: int = 64 * 2**20
    is_long: bool = False


class _Plain(pickle.Unpickler):
    """Unpickles plain values only: a worker's answer may name no class."""

    def find_class(self, module: str, name: str) -> Any:
        """Raise UnpicklingError for any class."""
        raise pickle.UnpicklingError(f"a worker's answer must be plain values, got {module}.{name}")


@dataclass
class _Worker:
    name: int | asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Box:
    """The workers for all requests. `places`: how many short jobs run at a time, and as many long ones."""

    def __init__(self, places: int = 2) -> None:
        each = max(1, places - 1)  # one client never takes all slots
        self._short, self._long = Turns(places, each), Turns(places, each)
        self._names = count()
        self._home: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._idle: list[_Worker] = []

    def start(self) -> None:
        """Start the process from which workers are forked; it is ready when its imports are done."""
        if not _FORKS:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._home = subprocess.Popen(
                _command(f"main({theirs.fileno()})"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=os.environ | _SINGLE,
            )
        self._control = ours

    def close(self) -> None:
        """Stop all workers."""
        for worker in self._idle:
            with suppress(RuntimeError):  # their event loop is closed
                self._kill(worker)
        self._idle.clear()
        if self._home is not None and self._control is not None:
            self._control.close()
            self._home.wait()
            self._home = self._control = None

    async def run(self, job: BoxJob, client: str) -> list[Any]:
        """Return what the job's function yields. Cancelling it kills the process. Raises RequestError."""
        async with (self._long if job.is_long else self._short).of(client):
            worker = self._idle.pop() if self._idle else await self._fork()
            is_whole = goes_on = False
            watch = None if isinstance(worker.name, int) else asyncio.create_task(_watch(worker.name, job))
            try:
                await self._send(worker, frame((job.name, job.args, job.seconds, job.memory)))
                pieces, kind, value = await self._answer(worker, job)
                is_whole, goes_on = kind == "end", kind == "end" and bool(value)
            except (asyncio.IncompleteReadError, ConnectionError):
                pieces, kind, value = [], "ended", None
            finally:
                if watch is not None:
                    watch.cancel()
                if goes_on and not worker.reader.at_eof():
                    self._idle.append(worker)
                else:
                    self._kill(worker)
        if is_whole:
            return pieces
        raise _refusal(job, kind, value)

    @staticmethod
    async def _send(worker: _Worker, whole: bytes) -> None:
        view = memoryview(whole)
        for at in range(0, len(view), _WRITTEN):
            worker.writer.write(view[at : at + _WRITTEN])
            await worker.writer.drain()

    @staticmethod
    async def _answer(worker: _Worker, job: BoxJob) -> tuple[list[Any], str, Any]:
        pieces: list[Any] = []
        size = 0
        while True:
            length = LENGTH.unpack(await worker.reader.readexactly(LENGTH.size))[0]
            size += length
            if length > _MOST_FRAME or size > job.output:
                return [], "too much", None
            kind, value = _Plain(io.BytesIO(await worker.reader.readexactly(length))).load()
            if kind != "piece":
                return pieces, kind, value
            pieces.append(value)

    async def _fork(self) -> _Worker:
        if not _FORKS:
            pipe, env = asyncio.subprocess.PIPE, os.environ | _SINGLE
            process = await asyncio.create_subprocess_exec(
                *_command("spawned()"), stdin=pipe, stdout=pipe, env=env, creationflags=_QUIETLY
            )
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("a process without pipes")
            if sys.platform == "win32":
                # Its job objects could limit memory and time, too; `_watch` does that on all systems but Linux.
                kernel, job = _job_object()
                rights = 0x0101  # PROCESS_SET_QUOTA, PROCESS_TERMINATE
                handle = ctypes.c_void_p(kernel.OpenProcess(rights, False, process.pid))
                kernel.AssignProcessToJobObject(ctypes.c_void_p(job), handle)
                kernel.CloseHandle(handle)
            return _Worker(process, process.stdout, process.stdin)
        if self._home is None or self._home.poll() is not None:
            if self._home is not None:
                _logger.warning("the process of workers has ended with %d; another one begins", self._home.returncode)
                self.close()
            self.start()
        ours, theirs = socket.socketpair()
        name = next(self._names)
        with theirs:
            if self._control is not None:
                socket.send_fds(self._control, [f"fork {name}".encode()], [theirs.fileno()])
        reader, writer = await asyncio.open_connection(sock=ours)
        return _Worker(name, reader, writer)

    def _kill(self, worker: _Worker) -> None:
        if not worker.writer.transport.is_closing():  # a pipe that is closed cannot be closed again
            worker.writer.transport.abort()
        if not isinstance(worker.name, int):
            with suppress(ProcessLookupError):  # it has ended
                worker.name.kill()
        elif self._control is not None:
            with suppress(OSError):  # the home has ended, and its workers with it
                self._control.send(f"kill {worker.name}".encode())


_SINGLE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def _command(call: str) -> list[str]:
    """Return the command of a process that calls a function of `home`, with the packages of this process."""
    return [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; import nmt.serve.box.home as h; h.{call}"]


async def _watch(process: asyncio.subprocess.Process, job: BoxJob) -> None:
    """Kill a worker that takes more than its job may."""
    with suppress(psutil.Error, ProcessLookupError):  # it has ended
        one = psutil.Process(process.pid)
        most_seconds, most_bytes = sum(one.cpu_times()[:2]) + job.seconds, one.memory_info().rss + job.memory
        while sum(one.cpu_times()[:2]) <= most_seconds and one.memory_info().rss <= most_bytes:
            await asyncio.sleep(_LOOK_SECONDS)
        process.kill()


@cache
def _job_object() -> tuple[Any, int]:
    """Return Windows' library of the system, and a job object whose processes end when this process does, however."""
    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
    kernel.CreateJobObjectW.restype = kernel.OpenProcess.restype = ctypes.c_void_p
    limits = (ctypes.c_uint64 * 18)()  # JOBOBJECT_EXTENDED_LIMIT_INFORMATION
    limits[2] = 0x2000  # LimitFlags: JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
    job = kernel.CreateJobObjectW(None, None)
    kernel.SetInformationJobObject(ctypes.c_void_p(job), 9, limits, ctypes.sizeof(limits))
    return kernel, job


def _refusal(job: BoxJob, kind: str, value: Any) -> RequestError:
    if kind == "refused":
        return RequestError(400, str(value))
    if kind == "too deep":
        return RequestError(400, f"{job.what}: must nest less deeply, got too many levels; send simpler markup")
    if kind == "failed":
        reason, traceback = value
        _logger.error("a text could not be handled: %s", reason, extra={"fields": {"traceback": traceback}})
        return RequestError(400, f"{job.what}: must be one that can be read, got one that fails ({reason}); check it")
    return RequestError(
        400,
        f"{job.what}: must be handled in {job.seconds:g} s of the processor and {job.memory >> 20} MiB of memory, got "
        "one that needs more; send less, or simpler markup",
    )
