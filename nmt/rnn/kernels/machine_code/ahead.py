"""Compile the functions that will soon be needed on another core, in a separate process that writes them to the store.

Compiling holds the interpreter lock, so threads would only take turns. Code that knows what it will need offers it with
`offer`; nothing happens until this process has to compile something. Then it starts one helper process, which compiles
what was offered. The last offers are compiled first: this process needs them last, so it rarely has to wait for them.
Meanwhile this process compiles the functions that it reaches, and takes back requests that the helper has not started.
The helper ends when it has had nothing to do for some seconds, and another one starts when it is needed.
Without a store to exchange code, without a second core, or without a helper process, every function is compiled by the
process that needs it. NMT_COMPILE_AHEAD=0 turns the helper off.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep
from typing import IO, Any

import nmt
from nmt.rnn.cores import default_threads
from nmt.rnn.kernels.machine_code import native as natives
from nmt.rnn.kernels.machine_code.native import Native
from nmt.rnn.kernels.machine_code.recipes import native_of, recipe_of
from nmt.rnn.kernels.machine_code.store import shipped, store
from nmt.system.compile_notice import making_code
from nmt.system.interruption import forkable

_FIRST = (
    "import json, sys; sys.path[:] = json.loads(sys.stdin.readline()); "
    "from nmt.rnn.kernels.machine_code.ahead import serve; serve({})"
)
_POLL_SECONDS = 0.01
_IDLE_SECONDS = 10.0
"""Seconds without work after which a helper ends: it takes 180 MB."""
MOST_SECONDS = 60.0
"""The longest wait for a function that the helper has started; the slowest take some seconds on a busy machine."""

_offers: deque[Callable[[], Iterable[Native]]] = deque(maxlen=64)
_others: list[_Helper] = []  # empty, or one helper
_starting = forkable(Lock())


def offer(wanted: Callable[[], Iterable[Native]]) -> None:
    """Register functions that will soon be needed; `wanted` is called only when something has to be compiled."""
    _offers.append(wanted)


class _Helper:
    """The helper process, as seen from this process."""

    def __init__(self, path: list[str]) -> None:
        nowhere = subprocess.DEVNULL
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _FIRST.format(_IDLE_SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=nowhere,
        )
        self.asked: dict[str, Native] = {}
        self.begun: set[str] = set()
        self._send(path)
        Thread(target=self._listen, name="nmt-compiling", daemon=True).start()

    def _send(self, what: Any) -> None:
        stream: IO[bytes] = self.process.stdin  # type: ignore[assignment]
        try:
            stream.write(json.dumps(what).encode() + b"\n")
            stream.flush()
        except (OSError, ValueError):
            pass  # the helper has ended

    def _listen(self) -> None:
        stream: IO[bytes] = self.process.stdout  # type: ignore[assignment]
        for line in stream:
            self.begun.add(line.decode().strip())
        self.process.wait()  # it has ended

    def ask(self, native: Native) -> None:
        """Request that the helper compile a function."""
        name, recipe = str(native.code_name), recipe_of(native)
        if recipe is not None and name not in self.asked and self.process.poll() is None:
            self.asked[name] = native
            self._send([name, recipe])

    def take_back(self, name: str) -> bool:
        """Withdraw a request; return True if the helper has not started on it, so that this process should compile
        it."""
        if name in self.begun:
            return False
        self.asked.pop(name, None)
        self._send([name, None])
        return True

    def take_any(self) -> Native | None:
        """Take back any request that the helper has not started, for this process to compile; None if there is none."""
        for name, native in list(self.asked.items()):
            if name not in self.begun and not store().has(name) and self.take_back(name):
                return native
        return None


def _compile_ahead(native: Native) -> None:
    """Send the offered functions to the helper; called when this process has to compile something."""
    if not _offers:
        return
    with _starting:
        if _others and _others[0].process.poll() == 0:  # it had nothing to do
            _others.clear()
        if not _others and not _start_helper():
            _offers.clear()
        while _offers:
            for wanted in reversed(list(_offers.pop()())):
                if wanted is not native and not _is_available(wanted):
                    _others[0].ask(wanted)


def _start_helper() -> bool:
    """Start the helper process; return whether that succeeded."""
    if not _can_begin():
        return False
    # Without the working folder: starting a command there is no request to run the files in it.
    path = [str(Path(nmt.__file__).parents[1]), *(entry for entry in sys.path if entry)]
    try:
        _others.append(_Helper(path))
    except OSError:
        return False
    return True


def _can_begin() -> bool:
    if os.environ.get("NMT_COMPILE_AHEAD") == "0" or default_threads() < 2:
        return False
    if not store().keeps:
        return False
    # Otherwise sys.executable is not an interpreter but a frozen application.
    return not getattr(sys, "frozen", False) and Path(sys.executable or "").name.startswith(("python", "pypy"))


def _is_available(native: Native) -> bool:
    name = native.code_name
    return native.is_loaded or name is None or shipped().has(str(native.source_name)) or store().has(name)


def _wait_for_helper(native: Native) -> None:
    """Wait while the helper compiles this function."""
    other, name = next(iter(_others), None), str(native.code_name)
    if other is None or name not in other.asked or store().has(name) or other.take_back(name):
        return
    until = monotonic() + MOST_SECONDS
    with making_code():
        while other.process.poll() is None and not store().has(name):
            if (one := other.take_any()) is not None:
                _ = one.address  # this process will need it as well
            elif monotonic() < until:
                sleep(_POLL_SECONDS)
            else:  # the helper hangs: from now on this process compiles everything
                other.process.kill()
                other.process.wait()
                other.asked.clear()
                return


def serve(idle_seconds: float) -> None:
    """Run the helper process: compile the functions named on standard input, and print the name of each when it
    starts. It ends after `idle_seconds` without work."""
    waiting: dict[str, Any] = {}
    ended: list[bool] = []

    def listen() -> None:
        for line in sys.stdin:
            name, recipe = json.loads(line)
            if recipe is None:
                waiting.pop(name, None)
            else:
                waiting[name] = recipe
        ended.append(True)

    Thread(target=listen, daemon=True).start()
    at_work = monotonic()
    while not ended and monotonic() - at_work < idle_seconds:  # at the end of the input the parent no longer waits
        try:
            name = next(iter(waiting))
            recipe = waiting.pop(name)
        except (StopIteration, KeyError, RuntimeError):  # empty, or changed by the other thread
            sleep(_POLL_SECONDS)
            continue
        if not store().has(name):
            print(name, flush=True)
            _ = native_of(recipe).address
        at_work = monotonic()


def _reset() -> None:
    _others.clear()
    _offers.clear()


natives.before_compiling.append(_wait_for_helper)
natives.when_compiling.append(_compile_ahead)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
