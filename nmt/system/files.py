"""Files that are whole or not there: written beside their place, then renamed onto it.

A reader, or the next run after a `kill -9`, sees the former file or the new one, never a part of
one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

TEMPORARY_SUFFIX = ".nmt-tmp"
_MOST_NAME_BYTES = 255

_unfinished: set[Path] = set()
"""Files and folders that this process is writing aside."""


@contextlib.contextmanager
def replacing(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """Yield a path to write to; when the block ends well, rename that file onto `path`.

    The temporary file lies in the same folder, so that the rename is one atomic step, and is
    removed if the block raises. A symbolic link keeps pointing where it did: its target is
    replaced. What is there keeps its mode and, where the system allows it, its owner. What is not a plain file (a pipe,
    /dev/null) is written to directly, since a rename would destroy it.

    Args:
        path: The file to create or replace.
        sync: Wait until the bytes are on the disk, so that a power cut cannot undo the rename.

    Raises:
        OSError: The disk is full, the folder is missing or not writable, or the file is write-protected.
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
        os.replace(temporary, target)
        if sync:
            _sync(target.parent)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder to fill; when the block ends well, rename it to `path`.

    What the folder is to hold appears all at once, or not at all. Folders above it are made if need be. A folder that
    is there and empty stays the same one, with its mode and owner: what it is to hold is made in a folder within it,
    and moved up when it is whole, in the order in which it was written.

    Raises:
        OSError: `path` is there and not an empty folder, another process is filling it, the disk is full, or the folder
            above is not writable.
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
        os.rename(temporary, target)
        _sync(target.parent)


@contextlib.contextmanager
def _filled(target: Path, path: Path) -> Iterator[Path]:
    """Yield a folder within an empty one; what is in it when the block ends well is moved up."""
    if not target.is_dir():
        raise FileExistsError(errno.EEXIST, "a file", str(path))
    handle = os.open(target, os.O_RDONLY)
    try:
        if not lock_alone(handle):
            raise FileExistsError(errno.EEXIST, "a folder that another process fills", str(path))
        remove_temporaries(target)
        if any(target.iterdir()):
            raise FileExistsError(errno.EEXIST, "a folder that holds something", str(path))
        with _aside(target / "new") as inner:
            inner.mkdir()
            yield inner
            for one in sorted(inner.iterdir(), key=lambda file: file.stat().st_mtime_ns):
                os.rename(one, target / one.name)
            inner.rmdir()
            os.fsync(handle)
    finally:
        os.close(handle)


def remove_unfinished() -> None:
    """Remove what this process is writing aside: for a way out that unwinds nothing, such as a signal."""
    for path in list(_unfinished):
        _remove(path)


def write_bytes(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Write a small file aside, then rename it onto `path`."""
    with replacing(path, sync=sync) as temporary:
        temporary.write_bytes(content)


def link_onto(existing: Path, path: Path) -> None:
    """Let `path` name the file that `existing` names now, whatever becomes of `existing`: a hard link, or a copy where
    the file system has none. What had the name is replaced at once.

    Raises:
        OSError: It cannot be written, or there is no `existing`.
    """
    with _aside(path) as temporary:
        _remove(temporary)
        try:
            os.link(existing, temporary)
        except FileNotFoundError:
            raise
        except OSError:
            shutil.copyfile(existing, temporary)
        os.rename(temporary, path)
        _remove(temporary)  # rename does nothing where both are names of one file


def read_small(path: Path, most: int) -> bytes:
    """Read a whole file of at most `most` bytes, a pipe too.

    Raises:
        OSError: It cannot be read, or has more bytes, as a device without end has.
    """
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except ValueError:  # what open raises for it
        raise OSError(errno.EINVAL, "a name with a NUL character", str(path)) from None
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than {most:,} bytes", str(path))
    return content


def remove_temporaries(folder: Path) -> int:
    """Remove what killed runs left in `folder`, which the caller owns; return how many files."""
    leftovers = list(folder.glob(f".*{TEMPORARY_SUFFIX}"))
    for leftover in leftovers:
        _remove(leftover)
    return len(leftovers)


def explain(error: BaseException) -> str:
    """Return what the system said, without number and path: `no space left on device`."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return reason.splitlines()[0][:1].lower() + reason.splitlines()[0][1:]


def remedy(error: OSError) -> str:
    """Return what a user can do about a file that cannot be written: `make room and run again`."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room and run again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "get leave to write there, or choose another place"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "allow more open files (ulimit -n)"
    return "choose another place"


@contextlib.contextmanager
def _aside(target: Path) -> Iterator[Path]:
    """Yield a name beside `target`; what has it when the block fails is removed."""
    temporary = target.with_name(_temporary_name(target.name))
    _unfinished.add(temporary)
    try:
        yield temporary
    except BaseException:
        _remove(temporary)
        raise
    finally:
        _unfinished.discard(temporary)


def _temporary_name(name: str) -> str:
    """Return a name for what is to become `name`: that with an ending, or its checksum where it is too long for one."""
    ending = f".{os.getpid()}{TEMPORARY_SUFFIX}"
    raw = os.fsencode(name)
    if len(raw) + len(ending) < _MOST_NAME_BYTES:
        return f".{name}{ending}"
    return f".{zlib.crc32(raw):08x}{ending}"


def _make_like(path: Path, former: os.stat_result) -> None:
    """Make an empty file with the mode of another one, and its owner and group where the system allows that."""
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
    """Remove a file, or a folder with all in it, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock_alone(handle: int) -> bool:
    """Lock an open file for this process until it is closed; False where another process has locked it. True as well
    on systems and network file systems without locks: two at once are then not noticed."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
