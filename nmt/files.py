"""Files that are whole or not there: written beside their place, then renamed onto it.

A reader, or the next run after a `kill -9`, sees the former file or the new one, never a part of
one.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

TEMPORARY_SUFFIX = ".nmt-tmp"


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
    temporary = target.with_name(f".{target.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        yield temporary
        if sync:
            _sync(temporary)
        os.replace(temporary, target)
        if sync:
            _sync(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_bytes(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Write a small file aside, then rename it onto `path`."""
    with replacing(path, sync=sync) as temporary:
        temporary.write_bytes(content)


def remove_temporaries(folder: Path) -> int:
    """Remove what killed runs left in `folder`, which the caller owns; return how many files."""
    leftovers = list(folder.glob(f".*{TEMPORARY_SUFFIX}"))
    for leftover in leftovers:
        leftover.unlink(missing_ok=True)
    return len(leftovers)


def explain(error: BaseException) -> str:
    """Return what the system said, without number and path: `no space left on device`."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return reason.splitlines()[0][:1].lower() + reason.splitlines()[0][1:]


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
