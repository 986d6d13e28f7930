r"""Lines of text as bytes come: files, archives, pipes, devices; bounded whatever they are.

Only `\n` and `\r\n` end a line. A byte-order mark at the start is dropped. What follows the last `\n` is a line too. A
line has at most MAX_LINE_BYTES bytes, so that a device or an archive without line ends is an error and not the end of
all memory. Whatever cannot be read as lines is a DataError that names the file and the line.
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
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from threading import Condition, Thread
from typing import Any, BinaryIO, Generic, TypeVar, cast

from nmt.errors import DataError, PathError
from nmt.system.files import explain
from nmt.system.paths import exists, is_file, is_folder, kind, named, shown, text_hint

T = TypeVar("T")

MAX_LINE_BYTES = 8 * 2**20
"""No sentence: what is longer is not text in lines."""
MAX_TEXT_BYTES = 2**30
"""The most of a text whose lines are all kept in memory, with what a line costs besides its characters."""
_LINE_COST = 64

PACKED = (".gz", ".zst")
"""What the names of packed texts end in."""
STDIN = "-"
_STDIN_NAME = "standard input"
_MARKS = (b"\xff\xfe", b"\xfe\xff")
_OTHERS = (
    (b"PK\x03\x04", "a zip archive, as .docx is one; for a document give its --format, else unpack it"),
    (b"\x1f\x8b", "a gzip archive without .gz at the end of its name; rename it"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive without .zst at the end of its name; rename it"),
    (b"BZh", "a bzip2 archive; unpack it: bunzip2 FILE"),
    (b"\xfd7zXZ\x00", "an xz archive; unpack it: unxz FILE"),
    (b"%PDF-", "a PDF document; convert it to text"),
    (b"\xff\xfe\x00\x00", "UTF-32; convert it: iconv -f UTF-32 -t UTF-8 OLD > NEW"),
    (b"\x00\x00\xfe\xff", "UTF-32; convert it: iconv -f UTF-32 -t UTF-8 OLD > NEW"),
)
"""How files begin that are no lines of text, and what they are."""
_BLOCK_BYTES = 2**16


class Lines(Iterator[T], Generic[T]):
    """Items in order, of which one can ask whether the next one is there already.

    Args:
        items: One after another; getting the next may have to wait.
        ready: Whether it will not; None where it never has to.
    """

    def __init__(self, items: Iterator[T], ready: Callable[[], bool] | None = None) -> None:
        self._items, self._ready = items, ready

    def __iter__(self) -> Iterator[T]:
        return self._items

    def __next__(self) -> T:
        return next(self._items)

    def ready(self) -> bool:
        """Return whether the next item is there, or it is known that none will come."""
        return self._ready is None or self._ready()

    def take(self, most: int) -> list[T]:
        """Return the next items, at most so many: those that are there, but at least one unless none is left."""
        if self._ready is None:
            return list(islice(self._items, most))
        found = list(islice(self._items, 1))
        while found and len(found) < most and self._ready() and (more := list(islice(self._items, 1))):
            found += more
        return found


def chunks(lines: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the lines in lists of at most `size`: of `Lines` those that are there, at least one, without waiting for
    more, so that whoever writes a line and waits for its answer gets it."""
    rest = lines if isinstance(lines, Lines) else Lines(iter(lines))
    while chunk := rest.take(size):
        yield chunk


def text_file(path: str | PathLike[str]) -> Path:
    """Return the path itself, or with `.gz` or `.zst` when only that file is there. Raises DataError where there is
    none."""
    plain = named(path, "a text file")
    if is_file(plain):
        return plain
    packed = [Path(f"{path}{end}") for end in PACKED]
    for one in packed:
        with contextlib.suppress(PathError):  # a name that is too long with its ending
            if is_file(one):
                return one
    if exists(plain):
        raise DataError(f"{shown(path)}: must be a text file, got {kind(plain)}; give the path of a file")
    beside = " or ".join(shown(one.name) for one in packed)
    raise DataError(f"{shown(path)}: must be a text file, got nothing there, nor {beside} beside it{text_hint(path)}")


def read_lines(path: str | PathLike[str], *, lenient: bool = False) -> Lines[str]:
    """Return the lines of a UTF-8 file, one by one; plain, gzip or zstd (by `.gz` or `.zst`, which may be left out).

    Where `lenient`, a byte that is no UTF-8 comes as a lone surrogate (PEP 383) and raises nothing.

    Raises DataError naming file and line: at once if the file cannot be opened, while reading if it is not UTF-8, has a
    line without end, or the archive is damaged.
    """
    found = text_file(path)
    try:
        opened = _opened(found)
    except OSError as error:
        raise _unreadable(str(found), error) from None
    return Lines(_of_stream(opened, str(found), "surrogateescape" if lenient else "strict"))


def _opened(path: Path) -> BinaryIO:
    """Return the bytes of a text, unpacked where its name says that it is packed."""
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
        raise DataError(f"{path}: needs the extra [zstd] to be read; pip install 'recurrent-nmt[zstd]'") from None
    unpacking = _Unpacked(cast(BinaryIO, zstd.open(path)), zstd.ZstdError)
    return cast(BinaryIO, io.BufferedReader(unpacking, _BLOCK_BYTES))


class _Unpacked(io.RawIOBase):
    """An archive, of which a damaged place is an EOFError, as its end is."""

    def __init__(self, stream: BinaryIO, error: type[Exception]) -> None:
        self._stream, self._error = stream, error

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; how many bytes there were."""
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
    """Return what messages call a source of lines."""
    return _STDIN_NAME if source == STDIN else source


def open_lines(source: str) -> Lines[str]:
    """Return the lines of a file, as `read_lines` reads it, of standard input (`-`), or of a pipe or device by its
    path.

    Lines of a pipe are read by a thread as they come, at most MAX_LINE_BYTES ahead.

    Raises DataError as `read_lines` does.
    """
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
    return _arriving(handle, source, owned=True)


def read_text(source: str) -> list[str]:
    """Return all lines of what `open_lines` opens. Raises DataError as it does, and beyond MAX_TEXT_BYTES of memory."""
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
    """Return the lines of standard input, whatever it is: a file, a pipe, a terminal, a stand-in. Raises DataError."""
    if sys.stdin is None:
        raise DataError(f"{_STDIN_NAME}: must be open, got a closed one; give the path of a file")
    try:
        handle = sys.stdin.fileno()
    except OSError:  # a stand-in without a file: what it holds is there
        return Lines(_decoded(_pieces(sys.stdin.buffer), _STDIN_NAME))
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return Lines(_decoded(_pieces(sys.stdin.buffer), _STDIN_NAME))
    return _arriving(handle, _STDIN_NAME)


def _arriving(handle: int, name: str, *, owned: bool = False) -> Lines[str]:
    lines = _Arriving(handle, owned)
    return Lines(_decoded(lines, name), lines.ready)


class _Arriving(Iterator[bytes]):
    """Lines with their ends, read from a handle by a thread of their own, so that those that come while others are
    worked on are there for the next batch. An `owned` handle is closed at the end."""

    def __init__(self, handle: int, owned: bool) -> None:
        self._handle, self._owned = handle, owned
        self._lines: deque[bytes] = deque()
        self._size = 0  # bytes of them
        self._ended = False
        self._error: OSError | None = None
        self._changed = Condition()
        # A daemon: it may wait for a line that never comes when all else is done.
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
        """Return whether a line is there, or it is known that none will come."""
        return bool(self._lines) or self._ended

    def _fetch(self) -> None:
        """The thread that reads: fetch all lines, then say that it is over and with which error."""
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
        """Read blocks to the end and put whole lines; a line that is too long is the last one."""
        begun: list[bytes] = []  # of a line without its end yet
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
        """Return the next bytes, waited for; none at the end."""
        while True:
            try:
                return os.read(self._handle, _BLOCK_BYTES)
            except BlockingIOError:  # whoever opened the pipe did not want to wait; we do
                select.select([self._handle], [], [])

    def _put(self, lines: list[bytes]) -> None:
        """Hand lines over, as soon as the reader has taken enough of the former ones."""
        with self._changed:
            while self._size > MAX_LINE_BYTES:
                self._changed.wait()
            self._lines.extend(lines)
            self._size += sum(map(len, lines))
            self._changed.notify()


def _of_stream(stream: BinaryIO, name: str, errors: str) -> Iterator[str]:
    with stream:
        yield from _decoded(_pieces(stream), name, errors)


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    """Return lines with their ends; of one that is too long so much that it shows."""
    return iter(partial(stream.readline, MAX_LINE_BYTES + len(b"\r\n") + 1), b"")


def _decoded(lines: Iterator[bytes], name: str, errors: str = "strict") -> Iterator[str]:
    """Yield text of lines of bytes, without line ends; `errors` as of `bytes.decode`. Raises DataError, which names the
    file and the line."""
    number = 0
    try:
        for number, raw in enumerate(lines, start=1):
            if number == 1:
                raw = _checked_start(raw, name)
                if not raw:  # a byte-order mark alone: a file without lines, as an empty one
                    continue
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            if len(line) > MAX_LINE_BYTES:
                raise DataError(
                    f"{name}: line {number} must have at most {MAX_LINE_BYTES:,} bytes, got more without a line end; "
                    "give a text with a sentence a line"
                )
            yield line.decode(errors=errors)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: line {number} must be UTF-8, got byte {error.object[error.start]:#04x} at position "
            f"{error.start + 1}; convert the text to UTF-8"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        kind = "zstd" if name.endswith(".zst") else "gzip"
        raise DataError(
            f"{name}: must be a whole {kind} file, got one that is damaged or cut off after line {number} ({error}); "
            "copy it again"
        ) from None
    except OSError as error:
        raise _unreadable(name, error, number) from None


def _checked_start(raw: bytes, name: str) -> bytes:
    """Return the first line without a byte-order mark. Raises DataError where it shows that the text is in no lines of
    UTF-8 at all, which would be answered as one line of nonsense."""
    if (what := next((name for start, name in _OTHERS if raw.startswith(start)), None)) is not None:
        raise DataError(f"{name}: must be lines of UTF-8, got {what}")
    if raw.startswith(_MARKS) or _has_wide_characters(raw):
        raise DataError(
            f"{name}: must be UTF-8, got what looks like UTF-16; convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW"
        )
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if not raw.endswith(b"\n") and b"\r" in raw.removesuffix(b"\r"):
        raise DataError(
            f"{name}: must have lines that end in a line feed, got carriage returns alone; convert it: "
            r"tr '\r' '\n' < OLD > NEW"
        )
    return raw


def _has_wide_characters(raw: bytes) -> bool:
    """Return whether every second byte of a line, and no other, is NUL: so UTF-16 writes what ASCII can."""
    line = raw.removesuffix(b"\n").removesuffix(b"\r")
    for zeros, others in ((line[1::2], line[::2]), (line[::2], line[1::2])):
        if len(zeros) > 1 and not any(zeros) and 0 not in others:
            return True
    return False


def _unreadable(name: str, error: OSError, number: int = 0) -> DataError:
    where = f" at line {number + 1}" if number else ""
    advice = "give a file that is open for reading" if error.errno == errno.EBADF else "give a file that can be read"
    return DataError(f"{name}: must be readable, got {explain(error)}{where}; {advice}")
