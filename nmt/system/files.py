"""Files that are either complete or absent: written under a temporary name, then renamed. A reader, or the next run
after a `kill -9`, sees the old file or the new one, never a partial one."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmt.errors import CheckpointError

TEMPORARY_SUFFIX = ".nmt-tmp"
_MOST_NAME_BYTES = 255
ON_WINDOWS = os.name == "nt"
_LOCK_NAME, _LOCKED_BYTE = ".lock", 0x7FFF_0000
_LOCKED = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK, 0)  # the last by Wine
_WAITS = tuple(0.01 * 1.5**n for n in range(14))
"""Seconds between attempts to rename a file that another program has open on Windows, about nine in all."""

_unfinished: set[Path] = set()
"""Temporary files and folders that this process is writing."""


@contextlib.contextmanager
def replacing(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """Yield a path to write to, in the same folder; when the block ends without an error, rename that file to `path`.

    The target of a symbolic link is replaced. The new file gets the mode of the old one and, if the system allows it,
    its owner. Anything but a plain file (a pipe, /dev/null) is written to directly: a rename would destroy it.
    `sync`: wait for the disk, so that a power cut cannot undo the rename. Raises OSError.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        yield path
        return
    target = Path(os.path.realpath(path))
    former = target.stat() if target.exists() else None
    if former is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    with _aside(target) as temporary:
        if former is not None:
            _make_like(temporary, former)
        yield temporary
        if sync:
            _sync(temporary)
        _move(temporary, target)
        if sync:
            _sync(target.parent)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of the block, which writes a file or folder of a model, into a CheckpointError."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{path}: must be written, got {explain(error)}; {remedy(error)}") from error


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder to fill; when the block ends without an error, rename it to `path`, whose parents are made.

    An existing empty folder is kept, with its mode and owner: the content is written to a folder within it and, when
    complete, moved up in the order in which it was written. Raises OSError, also if another process fills it.
    """
    target = Path(os.path.realpath(path))
    if target.exists():
        with _filled(target, path) as inner:
            yield inner
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with _aside(target) as temporary:
        temporary.mkdir()
        yield temporary
        _move(temporary, target)
        _sync(target.parent)


@contextlib.contextmanager
def _filled(target: Path, path: Path) -> Iterator[Path]:
    """Yield a folder within an empty one; its content is moved up when the block ends without an error."""
    if not target.is_dir():
        raise FileExistsError(errno.EEXIST, "a file", str(path))
    handle = open_folder(target)
    try:
        if not lock_alone(handle):
            raise FileExistsError(errno.EEXIST, "a folder that another process fills", str(path))
        remove_temporaries(target)
        if any(one.name != _LOCK_NAME for one in target.iterdir()):
            raise FileExistsError(errno.EEXIST, "a folder that is not empty", str(path))
        with _aside(target / "new") as inner:
            inner.mkdir()
            yield inner
            for one in sorted(inner.iterdir(), key=lambda file: file.stat().st_mtime_ns):
                _move(one, target / one.name)
            inner.rmdir()
            _sync(target)
    finally:
        os.close(handle)


def remove_unfinished() -> None:
    """Remove the temporary files of this process, before an exit that runs no cleanup, such as on a signal."""
    for path in list(_unfinished):
        _remove(path)


def write_bytes(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Write a small file under a temporary name, then rename it to `path`."""
    with replacing(path, sync=sync) as temporary:
        temporary.write_bytes(content)


def write_private(path: Path, content: bytes) -> None:
    """Write a small file that its user alone can read, from its first byte on, in the place of any of its name."""
    with _aside(path) as temporary:
        _remove(temporary)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        _move(temporary, path)


def link_onto(existing: Path, path: Path) -> None:
    """Make `path` another name of the file `existing` (a hard link), or a copy where there are no hard links; a file at
    `path` is replaced atomically. Raises OSError."""
    with _aside(path) as temporary:
        _remove(temporary)
        try:
            os.link(existing, temporary)
        except FileNotFoundError:
            raise
        except OSError:
            shutil.copyfile(existing, temporary)
        _move(temporary, path)
        _remove(temporary)  # rename does nothing if both are names of one file


def read_small(path: Path, most: int) -> bytes:
    """Return the content of a file or pipe. Raises OSError if it cannot be read, or has more than `most` bytes."""
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except ValueError:  # raised by open for such a name
        raise OSError(errno.EINVAL, "a name with a NUL character", str(path)) from None
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than {most:,} bytes", str(path))
    return content


def read_json(path: Path, most: int = 1 << 26) -> dict[str, Any] | None:
    """Return the object in a file of JSON; None if it is missing, damaged, or has more than `most` bytes."""
    try:
        found = json.loads(read_small(path, most))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def remove_temporaries(folder: Path) -> int:
    """Remove temporary files that killed runs left in `folder`, which the caller has locked; return their number."""
    leftovers = list(folder.glob(f".*{TEMPORARY_SUFFIX}"))
    for leftover in leftovers:
        _remove(leftover)
    return len(leftovers)


_FOUND = {errno.EISDIR: "a folder", errno.ENOTDIR: "a file in the place of a folder", errno.EEXIST: "a file or a link"}
"""Names of what stands in the place of a file or folder, for messages `must be ..., got ...`."""


def explain(error: BaseException) -> str:
    """Return the system's message without number and path: `no space left on device`."""
    if isinstance(error, OSError) and error.errno in _FOUND:
        return _FOUND[error.errno]
    if ON_WINDOWS and isinstance(error, PermissionError) and error.filename and os.path.exists(error.filename):
        is_folder = os.path.isdir(error.filename)
        return _FOUND[errno.EISDIR] if is_folder else "permission denied, or another program has it open"
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return reason.splitlines()[0][:1].lower() + reason.splitlines()[0][1:]


def remedy(error: OSError) -> str:
    """Return advice for a user about a file that cannot be written: `free some space and run again`."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space and run again"
    if ON_WINDOWS and error.errno == errno.EACCES:
        return "close what has it open, get leave to write there, or choose another place"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "get leave to write there, or choose another place"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "allow more open files (ulimit -n)"
    return "choose another place"


@contextlib.contextmanager
def _aside(target: Path) -> Iterator[Path]:
    """Yield a temporary path next to `target`; if the block fails, what is there is removed."""
    ending, raw = f".{os.getpid()}{TEMPORARY_SUFFIX}", os.fsencode(target.name)
    is_short = len(raw) + len(ending) < _MOST_NAME_BYTES
    temporary = target.with_name(f".{target.name if is_short else f'{zlib.crc32(raw):08x}'}{ending}")
    _unfinished.add(temporary)
    try:
        yield temporary
    except BaseException:
        _remove(temporary)
        raise
    finally:
        _unfinished.discard(temporary)


def _make_like(path: Path, former: os.stat_result) -> None:
    """Create an empty file with the mode of another and, if the system allows it, its owner and group."""
    mode = stat.S_IMODE(former.st_mode) & 0o777
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for owner in ((former.st_uid, former.st_gid), (-1, former.st_gid)) if hasattr(os, "chown") else ():
            with contextlib.suppress(OSError):
                os.chown(path, *owner)
                break
        os.chmod(path, mode)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    """Remove a file, or a folder with its content, if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _move(source: Path, target: Path) -> None:
    """Rename a file or folder; a file that exists is replaced. On Windows that fails while another program has it open,
    such as a virus scanner or a program that copies it to other machines, so several attempts are made."""
    for wait in _WAITS if ON_WINDOWS else ():
        try:
            return os.replace(source, target)
        except PermissionError:
            time.sleep(wait)
    os.replace(source, target)


def _sync(path: Path) -> None:
    """Flush a file or folder to disk. Windows flushes no folders, and only files that may be written."""
    if ON_WINDOWS and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if ON_WINDOWS else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_folder(folder: Path) -> int:
    """Return a folder opened for `lock_alone`; on Windows a file .lock in it, which goes when it is closed."""
    if ON_WINDOWS:
        return os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | getattr(os, "O_TEMPORARY", 0))
    return os.open(folder, os.O_RDONLY)


def lock_alone(handle: int) -> bool:
    """Lock an open file or folder until it is closed; return False if another process has locked it. True as well where
    there are no locks. On Windows a byte that no file has is locked, since a locked byte cannot be read there."""
    try:
        if ON_WINDOWS:
            import msvcrt

            at = os.lseek(handle, 0, os.SEEK_CUR)
            os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
            try:
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            finally:
                os.lseek(handle, at, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return True
    except OSError as error:
        return error.errno not in _LOCKED
    return True
