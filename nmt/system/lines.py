r"""Lines of text from files, archives, pipes and devices, as bytes arrive; bounded for any input.

Only `\n` and `\r\n` end a line. A byte-order mark at the start is dropped. Text after the last `\n` is a line too.
A line has at most MAX_LINE_BYTES bytes, so that a device or an archive without line ends causes an error instead of
exhausting memory. A source that cannot be read as lines raises DataError, which names the file and the line.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import select
import stat
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial, wraps
from itertools import islice
from os import PathLike
from pathlib import Path
from threading import Condition, Thread
from typing import Any, BinaryIO, Concatenate, Generic, ParamSpec, TypeVar, cast

from nmt.errors import DataError, PathError, how_to_install
from nmt.system.file_kinds import HEAD_BYTES, kind_of_bytes, kind_of_text
from nmt.system.files import explain
from nmt.system.paths import absent, exists, files_in, is_file, is_folder, kind, named, shown, text_hint

P = ParamSpec("P")
T = TypeVar("T")

MAX_LINE_BYTES = 8 * 2**20
"""No sentence is longer: a longer line means that the file is not text in lines."""
MAX_TEXT_BYTES = 2**30
"""Most bytes of a text that is kept in memory, including the overhead of each line."""
_LINE_COST = 64

PACKED = (".gz", ".zst")
"""Name endings of compressed texts."""
STDIN = "-"
_STDIN_NAME = "standard input"
_BLOCK_BYTES = 2**16


class Lines(Iterator[T], Generic[T]):
    """An iterator of `items` that can say whether the next one is available: `ready`, None if there is never a wait."""

    def __init__(self, items: Iterator[T], ready: Callable[[], bool] | None = None) -> None:
        self._items, self._ready = items, ready

    def __iter__(self) -> Iterator[T]:
        return self._items

    def __next__(self) -> T:
        return next(self._items)

    def ready(self) -> bool:
        """Return whether the next item is available, or the end has been reached."""
        return self._ready is None or self._ready()

    def take(self, most: int) -> list[T]:
        """Return at most `most` items: those that are available, but at least one unless the end has been reached."""
        if self._ready is None:
            return list(islice(self._items, most))
        found = list(islice(self._items, 1))
        while found and len(found) < most and self._ready() and (more := list(islice(self._items, 1))):
            found += more
        return found


def chunks(lines: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the lines in lists of at most `size`. Of `Lines`, a list has those that are available, at least one,
    without waiting for more, so that a program that writes a line and waits for its answer gets it."""
    rest = lines if isinstance(lines, Lines) else Lines(iter(lines))
    while chunk := rest.take(size):
        yield chunk


def without_packing(path: str | PathLike[str]) -> Path:
    """Return the path without the ending of a compressed file, if it has one."""
    plain = Path(path)
    return plain.with_suffix("") if plain.suffix in PACKED else plain


def text_file(path: str | PathLike[str]) -> Path:
    """Return the path itself, or with `.gz` or `.zst` if only that file exists. Raises DataError if there is none."""
    plain = named(path, "a text file")
    if is_file(plain):
        return plain
    if os.fspath(path) == STDIN and not exists(plain):
        raise DataError("-: must be a text file, got standard input, which is read once; give the path of a file")
    packed = [Path(f"{path}{end}") for end in PACKED]
    for one in packed:
        with contextlib.suppress(PathError):  # the name with its ending is too long
            if is_file(one):
                return one
    if exists(plain):
        inside = [shown(one) for one in files_in(plain)[:3]]
        advice = f"name one in it, as {' or '.join(inside)}" if inside else "give the path of a file"
        raise DataError(f"{shown(path)}: must be a text file, got {kind(plain)}; {advice}")
    others = " or ".join(shown(one.name) for one in packed)
    raise DataError(absent(path, f"file, nor {others}", text_hint(path) or "check the path"))


def while_unchanged(most: int) -> Callable[[Callable[Concatenate[str, P], T]], Callable[Concatenate[str, P], T]]:
    """Return a decorator for a function of a path and hashable arguments that keeps results until the file changes."""

    def decorate(read: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
        kept = lru_cache(most)(lambda stamp, *given, **named: read(*given, **named))

        @wraps(read)
        def found(path: str, /, *given: Any, **named: Any) -> T:
            facts = text_file(path).stat()
            return kept((facts.st_mtime_ns, facts.st_size), path, *given, **named)

        return found

    return decorate


def read_lines(path: str | PathLike[str], *, lenient: bool = False) -> Lines[str]:
    """Return the lines of a UTF-8 file: plain, gzip or zstd (by `.gz` or `.zst`, which may be omitted from the path).
    If `lenient`, another byte becomes a lone surrogate (PEP 383). Raises DataError with file and line, at once if the
    file cannot be opened, or while reading."""
    found = text_file(path)
    try:
        opened = open_binary(found)
    except OSError as error:
        raise _unreadable(str(found), error) from None
    return Lines(_of_stream(opened, str(found), "surrogateescape" if lenient else "strict"))


def check_is_lines(path: str | PathLike[str], data: bool = True) -> None:
    """Raise DataError if a text begins as markup or, with `data`, as JSON or CSV, so that its lines are no sentences.
    Pipes and files that cannot be read are not looked at."""
    if os.fspath(path) == STDIN or exists(Path(path)) and not is_file(Path(path)):
        return
    try:
        with open_binary(text_file(path)) as stream:
            start = stream.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error):  # reported by the reader
        return
    if (what := kind_of_text(start.decode(errors="replace"), data)) is not None:
        raise DataError(f"{shown(path)}: must be lines of text, one sentence per line, got {what.for_lines()}")


def count_lines(path: str | PathLike[str]) -> int:
    """Return the number of lines of a file, not decoded. Raises DataError, OSError or EOFError if it cannot be read."""
    with open_binary(text_file(path)) as stream:
        return sum(1 for _ in stream)


def open_binary(path: Path) -> BinaryIO:
    """Return a binary stream of a text, decompressed if its name says that it is compressed."""
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path))
    if path.suffix != ".zst":
        return path.open("rb")
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise DataError(f"{path}: needs the extra [zstd] to be read; {how_to_install('zstd')}") from None
    unpacking = _Unpacked(cast(BinaryIO, zstd.open(path)), zstd.ZstdError)
    return cast(BinaryIO, io.BufferedReader(unpacking, _BLOCK_BYTES))


class _Unpacked(io.RawIOBase):
    """The decompressed stream of an archive; damage raises EOFError, as a truncated archive does."""

    def __init__(self, stream: BinaryIO, error: type[Exception]) -> None:
        self._stream, self._error = stream, error

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; return the number of bytes read."""
        try:
            content = self._stream.read(len(buffer))
        except self._error as error:
            raise EOFError(str(error)) from None
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._stream.close()
        super().close()


def source_name(source: str) -> str:
    """Return the name of a source of lines for messages."""
    return _STDIN_NAME if source == STDIN else source


def open_lines(source: str) -> Lines[str]:
    """Return the lines of a file (like `read_lines`), of standard input (`-`), or of a pipe or device, which a thread
    reads as they arrive, at most MAX_LINE_BYTES ahead. Raises DataError."""
    if source == STDIN:
        return _standard_input()
    path = named(source, "a text file")
    if is_file(path) or is_folder(path) or not exists(path):
        return read_lines(source)
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError as error:
        what = f"{source}: must be a text file, got {kind(path)} that cannot be opened ({explain(error)})"
        raise DataError(f"{what}; give the path of a file") from None
    return _lines_of_handle(handle, source, owned=True)


def read_text(source: str) -> list[str]:
    """Return all lines that `open_lines` yields. Raises DataError, also for more than MAX_TEXT_BYTES of memory."""
    found: list[str] = []
    size = 0
    for line in open_lines(source):
        size += len(line) + _LINE_COST
        if size > MAX_TEXT_BYTES:
            raise DataError(
                f"{source}: must be text that takes at most {MAX_TEXT_BYTES:,} bytes of memory, got more than "
                f"{len(found):,} lines of it; give a smaller file"
            )
        found.append(line)
    return found


def _standard_input() -> Lines[str]:
    """Return the lines of standard input: a file, a pipe, a terminal or a replacement object. Raises DataError."""
    if sys.stdin is None:
        raise DataError(f"{_STDIN_NAME}: must be open, got a closed one; give the path of a file")
    try:
        handle = sys.stdin.fileno()
    except OSError:  # a replacement object without a file: its content is available
        return Lines(_decoded(_raw_lines(sys.stdin.buffer), _STDIN_NAME))
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return Lines(_decoded(_raw_lines(sys.stdin.buffer), _STDIN_NAME))
    return _lines_of_handle(handle, _STDIN_NAME)


def _lines_of_handle(handle: int, name: str, *, owned: bool = False) -> Lines[str]:
    lines = _LineReader(handle, owned)
    return Lines(_decoded(lines, name), lines.ready)


class _LineReader(Iterator[bytes]):
    """Lines with their line ends, read from a handle by a separate thread, so that lines that arrive during other work
    are available for the next batch. An `owned` handle is closed at the end."""

    def __init__(self, handle: int, owned: bool) -> None:
        self._handle, self._owned = handle, owned
        self._lines: deque[bytes] = deque()
        self._size = 0  # bytes in _lines
        self._ended = False
        self._error: OSError | None = None
        self._changed = Condition()
        # A daemon thread: at exit it may still wait for a line that never arrives.
        Thread(target=self._fetch, daemon=True).start()

    def __next__(self) -> bytes:
        with self._changed:
            while not (self._lines or self._ended):
                self._changed.wait()
            if self._lines:
                line = self._lines.popleft()
                self._size -= len(line)
                self._changed.notify()
                return line
            if self._error is not None:
                raise self._error
            raise StopIteration

    def ready(self) -> bool:
        """Return whether a line is available, or the end has been reached."""
        return bool(self._lines) or self._ended

    def _fetch(self) -> None:
        """Read all lines, in the reading thread; then record the end and any error."""
        error: OSError | None = None
        try:
            self._fetch_all()
        except OSError as cause:
            error = cause
        if self._owned:
            os.close(self._handle)
        with self._changed:
            self._error, self._ended = error, True
            self._changed.notify()

    def _fetch_all(self) -> None:
        """Read blocks until the end and queue complete lines; reading stops after a line that is too long."""
        begun: list[bytes] = []  # parts of a line whose end has not been read
        length = 0
        while block := self._block():
            *ended, rest = block.split(b"\n")
            lines = [line + b"\n" for line in ended]
            if lines:
                lines[0] = b"".join([*begun, lines[0]])
                begun, length = [], 0
            begun.append(rest)
            length += len(rest)
            if length > MAX_LINE_BYTES:
                break
            self._put(lines)
        self._put([line for line in [b"".join(begun)] if line])

    def _block(self) -> bytes:
        """Wait for the next bytes and return them; empty at the end."""
        while True:
            try:
                return os.read(self._handle, _BLOCK_BYTES)
            except BlockingIOError:  # the pipe was opened in non-blocking mode, so wait here
                select.select([self._handle], [], [])

    def _put(self, lines: list[bytes]) -> None:
        """Queue lines, once the reader has taken enough of the earlier ones."""
        with self._changed:
            while self._size > MAX_LINE_BYTES:
                self._changed.wait()
            self._lines.extend(lines)
            self._size += sum(map(len, lines))
            self._changed.notify()


def _of_stream(stream: BinaryIO, name: str, errors: str) -> Iterator[str]:
    with stream:
        yield from _decoded(_raw_lines(stream), name, errors)


def _raw_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Return an iterator over lines with their line ends; a line that is too long is truncated just above the limit."""
    return iter(partial(stream.readline, MAX_LINE_BYTES + len(b"\r\n") + 1), b"")


def _decoded(lines: Iterator[bytes], name: str, errors: str = "strict") -> Iterator[str]:
    """Yield the decoded lines without line ends; `errors` as for `bytes.decode`. Raises DataError with the line."""
    number = 0
    try:
        for number, raw in enumerate(lines, start=1):
            if number == 1:
                raw = _checked_start(raw, name)
                if not raw:  # only a byte-order mark: the file has no lines, like an empty one
                    continue
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            if len(line) > MAX_LINE_BYTES:
                raise DataError(
                    f"{name}: line {number} must have at most {MAX_LINE_BYTES:,} bytes, got more without a line end; "
                    "give a text with one sentence per line"
                )
            yield line.decode(errors=errors)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: line {number} must be UTF-8, got byte {error.object[error.start]:#04x} at position "
            f"{error.start + 1}; convert the text to UTF-8 (iconv -f CP1252 -t UTF-8 OLD > NEW, if "
            f"{error.object.decode('cp1252', 'replace').strip()[:40]!r} reads well), or save it as such"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        kind = "zstd" if name.endswith(".zst") else "gzip"
        raise DataError(
            f"{name}: must be a whole {kind} file, got one that is damaged or truncated after line {number} ({error}); "
            "copy it again"
        ) from None
    except OSError as error:
        raise _unreadable(name, error, number) from None


def _checked_start(raw: bytes, name: str) -> bytes:
    """Return the first line without a byte-order mark. Raises DataError if it shows that the text is not lines of
    UTF-8, which would otherwise be read as one line of nonsense."""
    if (what := kind_of_bytes(raw, name)) is not None:
        raise DataError(f"{name}: must be lines of UTF-8, got {what.for_lines()}")
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if not raw.endswith(b"\n") and b"\r" in raw.removesuffix(b"\r"):
        raise DataError(
            f"{name}: must have lines that end in a line feed, got carriage returns alone; convert it: "
            r"tr '\r' '\n' < OLD > NEW"
        )
    return raw


def _unreadable(name: str, error: OSError, number: int = 0) -> DataError:
    where = f" at line {number + 1}" if number else ""
    advice = "give a file that is open for reading" if error.errno == errno.EBADF else "give a file that can be read"
    return DataError(f"{name}: must be readable, got {explain(error)}{where}; {advice}")
