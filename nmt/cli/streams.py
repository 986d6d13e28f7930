"""Lines in and lines out: standard streams, files and pipes, a piece at a time."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar

from nmt.errors import DataError
from nmt.files import explain, replacing

T = TypeVar("T")

_BOM = b"\xef\xbb\xbf"


def input_lines(source: str) -> Iterator[str]:
    r"""Yield the lines of a file, plain or gzip, or with `-` of standard input, without their ends.

    Only `\n` and `\r\n` end a line. Nothing is read ahead, so that a person or a program that
    writes one line and waits for its answer gets it.

    Raises:
        DataError: No such file, or a line that is not UTF-8, with its number.
    """
    if source == "-":
        return _decode(iter(sys.stdin.buffer.readline, b""), "standard input")
    path = Path(source)
    if path.exists() and not path.is_file() and not path.is_dir():
        return _read_pipe(path)
    from nmt.data.corpus import read_lines

    return read_lines(path)


class LineWriter:
    """Writes lines in UTF-8 to a stream; what goes wrong names the target.

    Args:
        stream: Where bytes go.
        name: What the user calls it.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name

    def write(self, text: str) -> None:
        """Write one line. Raises DataError if there is no room."""
        with _write_errors(self._name):
            self._stream.write(text.encode() + b"\n")

    def flush(self) -> None:
        """Let the reader see what was written. Raises DataError if there is no room."""
        with _write_errors(self._name):
            self._stream.flush()


@contextlib.contextmanager
def output_lines(target: str) -> Iterator[LineWriter]:
    """Give a writer to standard output (`-`), or to a file that appears when all of it is written.

    Raises:
        DataError: It cannot be written. A former file of that name is untouched.
    """
    if target == "-":
        writer = LineWriter(sys.stdout.buffer, "standard output")
        yield writer
        writer.flush()
        return
    with contextlib.ExitStack() as stack:
        with _write_errors(target):
            temporary = stack.enter_context(replacing(Path(target)))
            stream = stack.enter_context(temporary.open("wb"))
        yield LineWriter(stream, target)
        with _write_errors(target):
            stack.close()


@contextlib.contextmanager
def continued_lines(target: str, numbered: bool) -> Iterator[tuple[LineWriter, int]]:
    """Give a writer to the end of a file that an earlier run may have begun, and how many input lines it answers.

    A line without its end is cut off. `numbered`: several lines may answer one input line, whose number is their first
    column; the last of these answers may be half there, so it is cut off as well.

    Raises:
        DataError: It cannot be written.
    """
    with _write_errors(target):
        path = Path(target)
        answered, end = _answered(path, numbered) if path.exists() else (0, 0)
        stream = path.open("r+b" if path.exists() else "wb")
    with stream:
        with _write_errors(target):
            stream.truncate(end)
            stream.seek(end)
        writer = LineWriter(stream, target)
        yield writer, answered
        writer.flush()


def _answered(path: Path, numbered: bool) -> tuple[int, int]:
    """How many input lines a file answers for certain, and the bytes that do it."""
    answered = end = position = 0
    last = b""
    with path.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            number = line.split(b"\t", 1)[0]
            if numbered and number != last:
                last, end = number, position
                answered = int(number) if number.isdigit() else answered
            position += len(line)
            if not numbered:
                answered, end = answered + 1, position
    return answered, end


def in_step(lines: Iterable[str], others: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each line with the lines of other files that stand at its place; `others` by the files' names.

    Raises:
        DataError: A file has more or fewer lines.
    """
    rest = {name: iter(other) for name, other in others.items()}
    count = 0
    for count, line in enumerate(lines, start=1):
        beside = {name: next(other, None) for name, other in rest.items()}
        for name, other in beside.items():
            if other is None:
                raise DataError(f"{name}: must have a line for each of the input, got {count - 1}; add what is missing")
        yield line, {name: other for name, other in beside.items() if other is not None}
    for name, lines_left in rest.items():
        if next(lines_left, None) is not None:
            raise DataError(f"{name}: must have as many lines as the input, {count}, got more; cut it to them")


def chunks(lines: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the lines in lists of at most `size`."""
    rest = iter(lines)
    while chunk := list(islice(rest, size)):
        yield chunk


def _read_pipe(path: Path) -> Iterator[str]:
    with path.open("rb") as stream:
        yield from _decode(iter(stream.readline, b""), str(path))


def _decode(lines: Iterator[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        raw = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield (raw.removeprefix(_BOM) if number == 1 else raw).decode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}: line {number} must be UTF-8, got byte {raw[error.start]:#04x} at "
                f"position {error.start + 1}; convert the text to UTF-8"
            ) from None


@contextlib.contextmanager
def _write_errors(name: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read has had enough: click ends the command without a word
    except OSError as error:
        raise DataError(f"{name}: must be writable, got {explain(error)}; make room or write elsewhere") from error
