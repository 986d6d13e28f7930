"""Where each command begins: what signals mean, from the first moment to the last, and streams that are closed.

Nothing heavy is imported before that. A signal ends the process at once, by its exit code and not by an exception: one
could come up anywhere, within an import or compiled code, and be lost or tell of nothing but itself. What was being
written aside is removed first.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

TYPE_CHECKING = False  # as in typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def end_by_signals() -> dict[int, Any]:
    """Let each of SIGNALS end the process with exit code 128 + its number, SIGINT with a word; but for those that are
    ignored, as `nohup` wants it. Handlers belong to the main thread: in any other one this does nothing.

    Returns:
        The handlers there were, for `signal.signal`.
    """
    former: dict[int, Any] = {}
    for number in SIGNALS:
        handler = signal.getsignal(number)
        if handler is not signal.SIG_IGN and handler is not None:
            try:
                former[number] = signal.signal(number, _end)
            except ValueError:
                break  # another thread
    return former


def ignore_signals() -> None:
    """Let nothing end a process that has done its work: the interpreter would die of the signal while it ends."""
    for number in SIGNALS:
        try:
            signal.signal(number, signal.SIG_IGN)
        except ValueError:
            break


def hold_standard_streams() -> None:
    """Put /dev/null where a standard stream is closed, lest the next file opened take its number and be written to by
    whoever writes to the stream. `sys.stdin` and `sys.stdout` stay None, which tells that they were closed."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process


def _end(number: int, frame: FrameType | None) -> None:
    """Handle a signal: remove half-written files, say so and leave at once with the signal's exit status."""
    if (files := sys.modules.get("nmt.system.files")) is not None and (
        remove := getattr(files, "remove_unfinished", None)
    ):
        remove()
    if number == signal.SIGINT:
        try:
            os.write(2, b"\ninterrupted\n" if os.isatty(2) else b"interrupted\n")
        except OSError:
            pass  # nobody listens
    os._exit(128 + number)


_end.never_raises = True  # type: ignore[attr-defined]  # see nmt.system.interruption.uninterrupted


COMMANDS: dict[str, str] = {}
"""Where each command is defined: the module of `nmt.cli.commands` that has the click command under its own name."""


def _run(module: str, program: str) -> Any:
    """Run a command of nmt.cli so that signals end it properly from its first import to its last line.

    Args:
        module: Of nmt.cli; the command in it has the same name.
        program: What the command is called in its messages.
    """
    hold_standard_streams()
    end_by_signals()
    command = getattr(import_module(f"nmt.cli.{module}"), module.rpartition(".")[2])
    try:
        return command(prog_name=program)
    finally:
        ignore_signals()


def _command(name: str, module: str | None = None) -> Any:
    """Put a command into COMMANDS, and return what runs it as `nmt-NAME`.

    Args:
        name: As typed.
        module: Where the command is defined, where its name cannot be a module's.
    """
    COMMANDS[name] = module or name

    def run() -> Any:
        return _run(f"commands.{COMMANDS[name]}", f"nmt-{name}")

    run.__name__ = name
    return run


def front(program: str = "nmt") -> Any:
    """Run `nmt COMMAND ...`."""
    return _run("front", program)


train = _command("train")
translate = _command("translate")
evaluate = _command("evaluate")
score = _command("score")
quantize = _command("quantize")
average = _command("average")
shortlist = _command("shortlist")
bundle = _command("bundle")
generate = _command("generate")
cache = _command("cache")
serve = _command("serve")
import_ = _command("import", "import_model")
export = _command("export")
report = _command("report")
sweep = _command("sweep")
backtranslate = _command("backtranslate")
