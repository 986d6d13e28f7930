"""Commands with the fake model in processes of their own that import nothing: forked from one that has it all.

A start of Python with our imports takes half a second of a core, hundreds of times in these tests.
"""

import atexit
import io
import multiprocessing
import os
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from tests.train import fake_model

# pytest says here which test is running.
_OURS = "PYTEST_CURRENT_TEST"
if hasattr(os, "fork"):
    _context = multiprocessing.get_context("forkserver")
    _context.set_forkserver_preload(["tests.cli.warm"])


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != _OURS}


_AT_START = _environment()


def is_usual() -> bool:
    """Whether the environment is the one that forked processes have; a test may have changed it."""
    return hasattr(os, "fork") and _environment() == _AT_START


def run(arguments: list[str], stdin: bytes, timeout: float) -> tuple[int, bytes, bytes]:
    """The exit code of a command and what it wrote. Raises TimeoutExpired, and ends the command."""
    (its_in, our_in), (our_out, its_out), (our_err, its_err) = os.pipe(), os.pipe(), os.pipe()
    its = [Connection(its_in, writable=False), *(Connection(fd, readable=False) for fd in (its_out, its_err))]
    process = _context.Process(target=_child, args=(arguments, its, os.getcwd()))
    process.start()
    for end in its:
        end.close()
    found = {our_out: b"", our_err: b""}
    readers = [threading.Thread(target=_read, args=(fd, found)) for fd in found]
    readers.append(threading.Thread(target=_write, args=(our_in, stdin)))
    for reader in readers:
        reader.start()
    process.join(timeout)
    late = process.is_alive()
    process.kill()
    process.join()
    for reader in readers:
        reader.join()
    code = process.exitcode
    process.close()
    if late or code is None:
        raise subprocess.TimeoutExpired(arguments, timeout, found[our_out], found[our_err])
    return code, found[our_out], found[our_err]


def _read(fd: int, found: dict[int, bytes]) -> None:
    with open(fd, "rb") as file:
        found[fd] = file.read()


def _write(fd: int, data: bytes) -> None:
    try:
        with open(fd, "wb") as file:
            file.write(data)
    except BrokenPipeError:
        pass  # it ended before it had read all, as commands may


def _child(arguments: list[str], streams: list[Connection], folder: str) -> None:
    """The command, in the process that was forked."""
    for number, end in enumerate(streams):
        os.dup2(end.fileno(), number)
        end.close()
    os.chdir(folder)
    sys.stdin, sys.stdout, sys.stderr = _text(0, "r"), _text(1, "w"), _text(2, "w", errors="backslashreplace")
    try:
        fake_model.main(arguments)
    finally:  # multiprocessing ends a process without these
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()


def _text(fd: int, mode: str, **how: Any) -> Any:
    """A standard stream, as Python has it."""
    return io.TextIOWrapper(open(fd, f"{mode}b", closefd=False), line_buffering=fd == 2, **how)
