"""Calls into cells written by users: an error in their code becomes one line that names their file and line.

An error in our own code is a bug and keeps its traceback.
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
    """Run code of a cell's author in a context that turns what it raises into an error of `kind`, in one line.

    where: the call, for the error. promise: the rule for it. advice: the remedy for the author, if any. kind: the
    error's class. of: the function or class called; it gives the place if the call itself failed. An NMTError keeps its
    class and gets the place. KeyboardInterrupt and MemoryError, and what our own code raises, pass unchanged.
    """

    def __init__(self, where: str, promise: str, advice: str = "", kind: type[NMTError] = NMTError, of: Any = None):
        self.where, self.promise, self.advice, self.kind, self.of = where, promise, advice, kind, of

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None or trace is None or isinstance(error, KeyboardInterrupt | MemoryError | GeneratorExit):
            return
        frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(trace.tb_next)]
        place = _place_in_syntax(error) or _place_in(frames, on_purpose=isinstance(error, NMTError))
        if isinstance(error, NMTError):
            if place is not None and error.place is None:
                raise _placed(type(error), f"{self.where.rstrip(':')}: {error} ({place})", place) from error
            return
        if place is None and not any(_is_ours(code) for code, _ in frames):
            # It could not be called, or does not exist.
            place = place_of(self.of) or ""
        if place is not None:
            at, advice = f" ({place})" if place else "", f"; {self.advice}" if self.advice else ""
            line = f"{self.where} {self.promise}, got {one_line(error)}{at}{advice}"
            raise _placed(self.kind, line, place) from error


def make_cell(name: str, make: Callable[[int, int], Cell], input_size: int, hidden_size: int) -> Cell:
    """Make a cell of two sizes by an author's class or function. Raises NMTError: it raises, or returns no cell."""
    with own_code(name, "must make a cell of (input_size, hidden_size)", of=make):
        cell = make(input_size, hidden_size)
    if not isinstance(cell, Cell):
        raise NMTError(f"{name} must make a Cell, got {type(cell).__name__}; derive it from nmt.rnn.Cell")
    return cell


def not_a_maker(found: Any, module: str) -> str | None:
    """Return None for something that can make cells, else a description of what it is, for an error. A class of cells
    can, or a function written in that module or one below it."""
    made = found.func if isinstance(found, partial) else found
    if inspect.isclass(made):
        return None if issubclass(made, Cell) else made.__name__
    if inspect.isfunction(made) and f"{made.__module__}.".startswith(f"{module}."):
        return None
    if inspect.isroutine(made):
        return f"{made.__name__} of {getattr(made, '__module__', None)}"
    return type(made).__name__


def place_of(what: Any) -> str | None:
    """Return where a class or function is written, `my_cells.py:12`; None if it is ours or the place is unknown."""
    function = inspect.unwrap(what.__init__ if inspect.isclass(what) else what) if what is not None else None
    code = getattr(function, "__code__", None)
    return _at(code, code.co_firstlineno) if isinstance(code, CodeType) and _is_own(code.co_filename) else None


def one_line(error: BaseException) -> str:
    """Return an error as `ValueError: message` in one line, shortened if it is long."""
    return _brief(lambda: f"{type(error).__name__}: {error}", type(error).__name__).rstrip(":")


def shown(value: Any) -> str:
    """Return the repr of a value that an author's code returned, in one line."""
    return _brief(lambda: repr(value), type(value).__name__)


def _brief(text_of: Callable[[], str], fallback: str) -> str:
    """Return the result of `text_of` in one line of at most _MOST_CHARACTERS characters; `fallback` if it raises."""
    try:
        text = " ".join(text_of().split())
    except Exception:  # an author's __repr__ or __str__ may raise anything
        text = fallback
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."


def _place_in_syntax(error: BaseException) -> str | None:
    """Return the place of a syntax error in an author's file; None for other errors."""
    if isinstance(error, SyntaxError) and error.filename and _is_own(error.filename):
        return f"{_short(error.filename)}:{error.lineno}"
    return None


def _place_in(frames: list[tuple[CodeType, int]], *, on_purpose: bool) -> str | None:
    """Return where the author's code was when an error was raised; None if the error comes from our own code. `frames`
    are those of the traceback without the first, which is ours. An error that our code raises on purpose (`on_purpose`)
    counts as the author's. Installed packages count as the author's code only if no other frame does: a cell may be
    installed, and it may have called NumPy."""
    theirs = [n for n, (code, _) in enumerate(frames) if _is_own(code.co_filename)]
    ours = [n for n, (code, _) in enumerate(frames) if _is_ours(code)]
    if not theirs or (ours and ours[-1] > theirs[-1] and not on_purpose):
        return None
    written = [n for n in theirs if not frames[n][0].co_filename.startswith(_INSTALLED)] or theirs
    return _at(*frames[written[-1]])


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_OURS)


def _is_own(file: str) -> bool:
    """Return whether a file belongs neither to this package nor to Python."""
    standard = file.startswith(_STANDARD) and not file.startswith(_INSTALLED)
    return not (standard or file.startswith((*_OURS, "<frozen ")))


def _at(code: CodeType, line: int | None) -> str:
    return f"{_short(code.co_filename)}:{line}"


def _short(file: str) -> str:
    """Return a path relative to the current folder if the file is inside it."""
    try:
        inside = Path(file).resolve().relative_to(Path.cwd())
    except (OSError, ValueError):
        return file
    return str(inside)


def _placed(kind: type[NMTError], line: str, place: str) -> NMTError:
    """Return an error that records the place it is about."""
    error = kind(line)
    error.place = place
    return error
