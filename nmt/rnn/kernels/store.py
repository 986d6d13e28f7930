"""Machine code on disk: one folder of files, each under the name of all that its code is made of. Imports no Numba.

A file is written aside and renamed, so that two processes which compile the same at once both leave it whole. It is
read only from a folder and a file that nobody else may write to, and only while its bytes are those that were written:
a file that is damaged counts as missing. What nobody has read for a month is removed: code of sources that have changed
since. Where nothing can be read or written all works as well, compiled anew in every process.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import time
from typing import Any, NamedTuple

from nmt.files import TEMPORARY_SUFFIX, replacing

_logger = logging.getLogger("nmt")
_MAGIC = b"nmt code 1\n"
_DIGEST = 32
_SUFFIX = ".code"
_FOLDER = "nmt-code"
_DAY = 24 * 3600
_KEPT = 30 * _DAY
"""Seconds for which a file is kept that nobody reads."""


class Record(NamedTuple):
    """Code, and facts about it that JSON can hold."""

    facts: dict[str, Any]
    code: bytes


class Store:
    """The files in a folder; in none where it is None."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._said = self._swept = False

    def has(self, name: str) -> bool:
        """Whether there is a file of that name, whatever is in it."""
        return self.folder is not None and self._path(name).exists()

    def read(self, name: str) -> Record | None:
        """What was written under a name; None where it is not there as it was written."""
        if self.folder is None:
            return None
        path = self._path(name)
        try:
            content = _read_own(path)
        except OSError:
            return None
        found = None if content is None else _unpacked(content)
        if found is not None and _age(path) > _DAY:
            with suppress(OSError):
                os.utime(path)
        if found is None and not self._said:
            self._said = True
            fact = "a file of somebody else" if content is None else "other bytes"
            _logger.warning("machine code: %s must be as it was written, got %s; it is compiled anew", path, fact)
        return found

    def write(self, name: str, record: Record) -> None:
        """Keep it for later processes, where that can be done."""
        if self.folder is None:
            return
        with suppress(OSError), replacing(self._path(name)) as aside:
            # Whatever the umask is: others may not write to it.
            handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(_packed(record))
        if not self._swept:
            self._swept = True
            self._sweep(self.folder)

    def _sweep(self, folder: Path) -> None:
        """Remove what has not been read for long, and what processes that were killed have left."""
        with suppress(OSError):
            for path in [*folder.glob(f"*{_SUFFIX}"), *folder.glob(f".*{_SUFFIX}.*{TEMPORARY_SUFFIX}")]:
                if _age(path) > _KEPT:
                    with suppress(OSError):
                        path.unlink()

    def _path(self, name: str) -> Path:
        return Path(self.folder or "", f"{name}{_SUFFIX}")


def _age(path: Path) -> float:
    """Seconds since a file was written, or read as the last one; 0 where it is gone."""
    try:
        return time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _packed(record: Record) -> bytes:
    facts = json.dumps(record.facts, sort_keys=True).encode()
    content = len(facts).to_bytes(8, "little") + facts + record.code
    return _MAGIC + hashlib.sha256(content).digest() + content


def _unpacked(content: bytes) -> Record | None:
    digest, body = content[len(_MAGIC) :][:_DIGEST], content[len(_MAGIC) + _DIGEST :]
    if not content.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
        return None
    end = 8 + int.from_bytes(body[:8], "little")
    return Record(json.loads(body[8:end]), body[end:])


def _read_own(path: Path) -> bytes | None:
    """All bytes of a file; None where it is not ours alone."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, "rb") as file:
        return file.read() if _is_own(os.fstat(handle)) else None


def _is_own(found: os.stat_result) -> bool:
    """Whether nobody else, but for the system's owner, may change it."""
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def cache_folders() -> list[Path]:
    """Where generated things may be kept, best first: `NMT_CACHE_DIR`, else `nmt` in the user's cache folder; a folder
    for temporary files."""
    named = os.environ.get("NMT_CACHE_DIR")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    return [Path(named) if named else home / "nmt", Path(tempfile.gettempdir()) / f"nmt-{owner}"]


@lru_cache(maxsize=1)
def store() -> Store:
    """The store of this process: in the first folder that is ours, or can be made."""
    for folder in cache_folders():
        path = folder / _FOLDER
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            pass  # it may be there all the same, on a disk that nobody can write to
        with suppress(OSError):
            if _is_own(path.stat()):
                return Store(path)
            _logger.warning(
                "machine code: %s must belong to you and be writable for nobody else, got a folder of user %d with mode"
                " %o; it is not read: remove it, or set NMT_CACHE_DIR",
                path,
                path.stat().st_uid,
                stat.S_IMODE(path.stat().st_mode),
            )
    return Store(None)


class _Nothing:
    def read(self, name):
        return None


def shipped():
    return _Nothing()
