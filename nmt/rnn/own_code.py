"""Cells that somebody else wrote: what goes wrong in their code is said in one line that names their file and line.

What goes wrong in ours is a bug and keeps its traceback.
"""

from __future__ import annotations

import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

from nmt.errors import NMTError
from nmt.rnn.cell import Cell

_OURS = tuple(f"{path.parent.parent}{os.sep}" for path in (Path(__file__).absolute(), Path(__file__).resolve()))
_PATHS = sysconfig.get_paths()
_INSTALLED = tuple(_PATHS[kind] + os.sep for kind in ("purelib", "platlib"))
_STANDARD = tuple(_PATHS[kind] + os.sep for kind in ("stdlib", "platstdlib"))
_MOST_CHARACTERS = 200


class own_code:  # noqa: N801  (read as a function: `with own_code(...)`)
    """A context in which code of a cell's author runs; what it raises becomes an error of `kind`, in one line.

    Args:
        where: What was called, for the error.
        promise: What it must do.
        advice: What to do, if there is something to say.
        kind: The error's class.
        of: What was called, to name its place where it could not even be entered.

    An NMTError keeps its class and gets the place. KeyboardInterrupt and MemoryError are nobody's mistake, and what our
    own code raises is left alone.
    """

    def __init__(self, where: str, promise: str, advice: str = "", kind: type[NMTError] = NMTError, of: Any = None):
        self.where, self.promise, self.advice, self.kind, self.of = where, promise, advice, kind, of

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or trace is None or isinstance(error, KeyboardInterrupt | MemoryError | GeneratorExit):
            return
        frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(trace.tb_next)]
        place = _place_in_syntax(error) or _place_in(frames, on_purpose=isinstance(error, NMTError))
        if isinstance(error, NMTError):
            if place is not None and error.place is None:
                raise _placed(type(error), f"{self.where.rstrip(':')}: {error} ({place})", place) from error
            return
        if place is None and not any(_is_ours(code) for code, _ in frames):
            # It could not be entered, or is not there.
            place = place_of(self.of) or ""
        if place is not None:
            at, advice = f" ({place})" if place else "", f"; {self.advice}" if self.advice else ""
            raise _placed(
                self.kind, f"{self.where} {self.promise}, got {one_line(error)}{at}{advice}", place
            ) from error


def make_cell(name: str, make: Callable[[int, int], Cell], input_size: int, hidden_size: int) -> Cell:
    """Return what an author's class or function makes of two sizes. Raises NMTError: it raises, or makes something
    else."""
    with own_code(name, "must make a cell of (input_size, hidden_size)", of=make):
        cell = make(input_size, hidden_size)
    if not isinstance(cell, Cell):
        raise NMTError(f"{name} must make a Cell, got {type(cell).__name__}; derive it from nmt.rnn.Cell")
    return cell


def not_a_maker(found: Any, module: str) -> str | None:
    """None for what may make cells: a class of them, or a function written in that module or below it. Else what it is,
    for an error."""
    made = found.func if isinstance(found, partial) else found
    if inspect.isclass(made):
        return None if issubclass(made, Cell) else made.__name__
    if inspect.isfunction(made) and f"{made.__module__}.".startswith(f"{module}."):
        return None
    if inspect.isroutine(made):
        return f"{made.__name__} of {getattr(made, '__module__', None)}"
    return type(made).__name__


def place_of(what: Any) -> str | None:
    """Return where a class or function is written, `my_cells.py:12`; None where it is ours or nobody knows."""
    function = inspect.unwrap(what.__init__ if inspect.isclass(what) else what) if what is not None else None
    code = getattr(function, "__code__", None)
    return _at(code, code.co_firstlineno) if isinstance(code, CodeType) and _is_own(code.co_filename) else None


def one_line(error: BaseException) -> str:
    """`ValueError: what it says`, however long that is."""
    return _brief(lambda: f"{type(error).__name__}: {error}", type(error).__name__).rstrip(":")


def shown(value: Any) -> str:
    """Return a value that an author's code gave, in one line."""
    return _brief(lambda: repr(value), type(value).__name__)


def _brief(say: Callable[[], str], otherwise: str) -> str:
    """Return what `say` gives in one line of at most _MOST_CHARACTERS characters; `otherwise` where it raises."""
    try:
        text = " ".join(say().split())
    except Exception:  # whatever an author's class does when it is asked for its text
        text = otherwise
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."


def _place_in_syntax(error: BaseException) -> str | None:
    """Return where an author's file cannot be read as Python; None for other errors."""
    if isinstance(error, SyntaxError) and error.filename and _is_own(error.filename):
        return f"{_short(error.filename)}:{error.lineno}"
    return None


def _place_in(frames: list[tuple[CodeType, int]], *, on_purpose: bool) -> str | None:
    """Return where an author's code was when an error was raised, from the frames behind the first, which is ours; None
    where the last of their code and ours is ours, unless ours raised on purpose.

    What is installed counts as an author's where nothing else does: a cell may be installed, and it may have called
    NumPy.
    """
    theirs = [n for n, (code, _) in enumerate(frames) if _is_own(code.co_filename)]
    ours = [n for n, (code, _) in enumerate(frames) if _is_ours(code)]
    if not theirs or (ours and ours[-1] > theirs[-1] and not on_purpose):
        return None
    written = [n for n in theirs if not frames[n][0].co_filename.startswith(_INSTALLED)] or theirs
    return _at(*frames[written[-1]])


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_OURS)


def _is_own(file: str) -> bool:
    """Return whether a file is neither ours nor Python's."""
    standard = file.startswith(_STANDARD) and not file.startswith(_INSTALLED)
    return not (standard or file.startswith((*_OURS, "<frozen ")))


def _at(code: CodeType, line: int | None) -> str:
    return f"{_short(code.co_filename)}:{line}"


def _short(file: str) -> str:
    """Return a path as somebody in the current folder would write it."""
    try:
        inside = Path(file).resolve().relative_to(Path.cwd())
    except (OSError, ValueError):
        return file
    return str(inside)


def _placed(kind: type[NMTError], line: str, place: str) -> NMTError:
    """Return an error that knows the place it is about."""
    error = kind(line)
    error.place = place
    return error
