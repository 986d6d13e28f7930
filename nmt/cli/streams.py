"""Lines in and lines out: standard streams, files and pipes, a piece at a time."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from nmt.errors import DataError
from nmt.files import explain, replacing

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


def chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
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
