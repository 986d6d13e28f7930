"""Compile on another core what will be needed soon: a process of its own puts it into the store.

Compiling holds the interpreter, so threads would only take turns. Whoever knows what it will need offers it; nothing
happens until something has to be compiled at all. Then one other process is begun, which compiles what was offered,
the last first, for that is needed last of all but by whoever waits for everything; this one compiles what it meets, and
takes back what the other has not begun with. Where there is no store to hand things over in, no second core, or no such
process, whoever needs a function compiles it as always. NMT_COMPILE_AHEAD=0 asks for that.
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
    "from nmt.rnn.kernels.machine_code.ahead import serve; serve()"
)
_LOOK_SECONDS = 0.01
MOST_SECONDS = 60.0
"""Waited for a function that the other process has begun with; the slowest take some seconds on a busy machine."""

_offers: deque[Callable[[], Iterable[Native]]] = deque(maxlen=64)
_others: list[_Other] = []  # none or one
_beginning = forkable(Lock())


def offer(wanted: Callable[[], Iterable[Native]]) -> None:
    """Say what will be needed soon; it is asked for when something has to be compiled, and not before."""
    _offers.append(wanted)


class _Other:
    """The other process, as this one sees it."""

    def __init__(self, path: list[str]) -> None:
        nowhere = subprocess.DEVNULL
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _FIRST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=nowhere
        )
        self.asked: dict[str, Native] = {}
        self.begun: set[str] = set()
        self._tell(path)
        Thread(target=self._listen, name="nmt-compiling", daemon=True).start()

    def _tell(self, what: Any) -> None:
        stream: IO[bytes] = self.process.stdin  # type: ignore[assignment]
        try:
            stream.write(json.dumps(what).encode() + b"\n")
            stream.flush()
        except (OSError, ValueError):
            pass  # it is gone

    def _listen(self) -> None:
        stream: IO[bytes] = self.process.stdout  # type: ignore[assignment]
        for line in stream:
            self.begun.add(line.decode().strip())

    def ask(self, native: Native) -> None:
        """Have it compiled."""
        name, recipe = str(native.code_name), recipe_of(native)
        if recipe is not None and name not in self.asked and self.process.poll() is None:
            self.asked[name] = native
            self._tell([name, recipe])

    def take_back(self, name: str) -> bool:
        """Return whether this process should compile it after all: it has not been begun with there."""
        if name in self.begun:
            return False
        self.asked.pop(name, None)
        self._tell([name, None])
        return True

    def take_any(self) -> Native | None:
        """Something that it has not begun with, for this process; None where there is nothing."""
        for name, native in list(self.asked.items()):
            if name not in self.begun and not store().has(name) and self.take_back(name):
                return native
        return None


def _compile_ahead(native: Native) -> None:
    """Called when something has to be compiled: from now on the other process helps."""
    if not _offers:
        return
    with _beginning:
        if not _others and not _begin():
            _offers.clear()
        while _offers:
            for wanted in reversed(list(_offers.pop()())):
                if wanted is not native and not _is_there(wanted):
                    _others[0].ask(wanted)


def _begin() -> bool:
    """Begin the other process; whether it could be."""
    if not _can_begin():
        return False
    # Not the working folder: whoever starts a command there does not ask to run what lies in it.
    path = [str(Path(nmt.__file__).parents[1]), *(entry for entry in sys.path if entry)]
    try:
        _others.append(_Other(path))
    except OSError:
        return False
    return True


def _can_begin() -> bool:
    if os.environ.get("NMT_COMPILE_AHEAD") == "0" or default_threads() < 2:
        return False
    if not store().keeps:
        return False
    # Else that would not be an interpreter, but somebody's program.
    return not getattr(sys, "frozen", False) and Path(sys.executable or "").name.startswith(("python", "pypy"))


def _is_there(native: Native) -> bool:
    name = native.code_name
    return native.is_loaded or name is None or shipped().has(str(native.source_name)) or store().has(name)


def _await_other(native: Native) -> None:
    """Wait while the other process compiles this."""
    if not _others:
        return
    other, name = _others[0], str(native.code_name)
    if name not in other.asked or store().has(name) or other.take_back(name):
        return
    until = monotonic() + MOST_SECONDS
    with making_code():
        while other.process.poll() is None and not store().has(name):
            if (one := other.take_any()) is not None:
                _ = one.address  # it will be needed as well
            elif monotonic() < until:
                sleep(_LOOK_SECONDS)
            else:  # it hangs: from now on this process compiles all itself
                other.process.kill()
                other.process.wait()
                other.asked.clear()
                return


def serve() -> None:
    """What the other process does: compile what standard input names, and say of each when it begins."""
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
    while not ended:  # then nobody waits for it any more
        try:
            name = next(iter(waiting))
            recipe = waiting.pop(name)
        except (StopIteration, KeyError, RuntimeError):  # nothing there, or changed meanwhile
            sleep(_LOOK_SECONDS)
            continue
        if not store().has(name):
            print(name, flush=True)
            _ = native_of(recipe).address


def _forget() -> None:
    _others.clear()
    _offers.clear()


natives.before_compiling.append(_await_other)
natives.when_compiling.append(_compile_ahead)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
