"""Files that are whole or not there: written beside their place, then renamed onto it.

A reader, or the next run after a `kill -9`, sees the former file or the new one, never a part of
one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

TEMPORARY_SUFFIX = ".nmt-tmp"

_unfinished: set[Path] = set()
"""Files and folders that this process is writing aside."""


@contextlib.contextmanager
def replacing(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """Yield a path to write to; when the block ends well, rename that file onto `path`.

    The temporary file lies in the same folder, so that the rename is one atomic step, and is
    removed if the block raises. A symbolic link keeps pointing where it did: its target is
    replaced. What is not a plain file (a pipe, /dev/null) is written to directly, since a rename
    would destroy it.

    Args:
        path: The file to create or replace.
        sync: Wait until the bytes are on the disk, so that a power cut cannot undo the rename.

    Raises:
        OSError: The disk is full, the folder is missing or not writable.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        yield path
        return
    target = Path(os.path.realpath(path))
    with _aside(target) as temporary:
        yield temporary
        if sync:
            _sync(temporary)
        os.replace(temporary, target)
        if sync:
            _sync(target.parent)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder to fill; when the block ends well, rename it to `path`.

    What the folder is to hold appears all at once, or not at all. Folders above it are made if need be.

    Raises:
        OSError: `path` is there and not an empty folder, the disk is full, or the folder above is not writable.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        fact = "a folder that holds something" if target.is_dir() else "a file"
        raise FileExistsError(errno.EEXIST, fact, str(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    with _aside(target) as temporary:
        temporary.mkdir()
        yield temporary
        os.rename(temporary, target)
        _sync(target.parent)


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
    with path.open("rb") as file:
        content = file.read(most + 1)
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
    return "choose another place"


@contextlib.contextmanager
def _aside(target: Path) -> Iterator[Path]:
    """Yield a name beside `target`; what has it when the block fails is removed."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    _unfinished.add(temporary)
    try:
        yield temporary
    except BaseException:
        _remove(temporary)
        raise
    finally:
        _unfinished.discard(temporary)


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
