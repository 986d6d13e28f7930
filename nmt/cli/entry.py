"""Entry points of all commands: signal handling from start to exit, and closed standard streams.

Nothing heavy is imported before that. A signal ends the process at once with its exit code, not with an exception,
which could be raised anywhere, such as in an import or compiled code, and be lost or hide its cause. Unfinished output
files are removed first.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from importlib import import_module

TYPE_CHECKING = False  # as in typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))


def end_by_signals() -> dict[int, Any]:
    """Make each of SIGNALS end the process with exit code 128 + its number, SIGINT with a message, but those that are
    ignored (`nohup`). Only the main thread can set handlers: another does nothing. Returns the previous handlers."""
    former: dict[int, Any] = {}
    for number in SIGNALS:
        handler = signal.getsignal(number)
        if handler is not signal.SIG_IGN and handler is not None:
            try:
                former[number] = signal.signal(number, _end)
            except ValueError:
                break  # not the main thread
    return former


def hold_standard_streams() -> None:
    """Open /dev/null in place of closed standard streams, so that the next opened file does not get their number and
    the output meant for them. `sys.stdin` and `sys.stdout` stay None, which shows that they were closed."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - open until the process exits


def _end(number: int, frame: FrameType | None) -> None:
    """Handle a signal: remove unfinished files, print a message for SIGINT, exit at once with the signal's status."""
    if (files := sys.modules.get("nmt.system.files")) is not None and (
        remove := getattr(files, "remove_unfinished", None)
    ):
        remove()
    if number == signal.SIGINT:
        try:
            os.write(2, b"\ninterrupted\n" if os.isatty(2) else b"interrupted\n")
        except OSError:
            pass  # standard error is closed
    os._exit(128 + number)


_end.never_raises = True  # type: ignore[attr-defined]  # see nmt.system.interruption.uninterrupted


GROUPS = {
    "Train and translate": ("train", "translate", "serve", "studio"),
    "Measure and compare": ("evaluate", "report", "score", "sweep"),
    "Shrink and pack": ("quantize", "bundle", "export", "average", "shortlist"),
    "More": ("backtranslate", "import", "cache"),
}
"""The commands, by the heading of their list in `nmt --help`."""
_ELSEWHERE = {"import": "import_model", "report": "pages.report", "studio": "pages.studio"}
COMMANDS = {name: _ELSEWHERE.get(name, name) for names in GROUPS.values() for name in names}
"""The module of `nmt.cli.commands` for each command; it defines a click command of the module's last name."""


def _run(module: str, program: str) -> Any:
    """Run a command of nmt.cli, with signals handled from its first import to its last line. `module`: a module of
    nmt.cli that defines a command of the same name; `program`: the name of the command in its messages."""
    hold_standard_streams()
    end_by_signals()
    command = getattr(import_module(f"nmt.cli.{module}"), module.rpartition(".")[2])
    try:
        return command(prog_name=program)
    finally:
        for number in SIGNALS:  # which would otherwise kill the interpreter while it exits
            try:
                signal.signal(number, signal.SIG_IGN)
            except ValueError:
                break


def front(program: str = "nmt") -> Any:
    """Run `nmt COMMAND ...`."""
    return _run("front", program)


def __getattr__(name: str) -> Any:
    """Return the function that runs a command of COMMANDS as `nmt-NAME`: `train`, `import_`."""
    command = name.removesuffix("_")
    if command not in COMMANDS:
        raise AttributeError(name)
    return partial(_run, f"commands.{COMMANDS[command]}", f"nmt-{command}")
