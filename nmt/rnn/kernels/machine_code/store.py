"""Store machine code on disk: a folder of files, each named by a digest of everything that its code
depends on, so that stored code is never stale. Imports no Numba.

A file is written under a temporary name and renamed, so that it is complete even if two processes compile the same
function at once. It is read only if no other user may write to the folder or the file, and only if its bytes are those
that were written: a damaged file counts as missing. Files that have not been read for a month are removed: their
sources have changed since. If nothing can be read or written, every process compiles its own code.

The following may become part of a kernel's machine code: all source files of the kernels; the file of the kernel itself
and the functions it uses, if they are in other files; the values it closes over; the types it is compiled for; the
target; and the compiler.
"""

from __future__ import annotations

import hashlib
import json
import linecache
import logging
import os
import stat
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from time import time
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from nmt.rnn.kernels.machine_code.features import FINGERPRINT, TARGET, TARGET_SETTINGS, fingerprint
from nmt.system.files import TEMPORARY_SUFFIX, replacing

_logger = logging.getLogger("nmt")
_MAGIC = b"nmt code 1\n"
_DIGEST = 32
_SUFFIX = ".code"
_FOLDER = "nmt-code"
_DAY = 24 * 3600
_KEPT = 30 * _DAY
"""Seconds for which a file is kept that is not read."""


class Record(NamedTuple):
    """Machine code, and facts about it that JSON can hold."""

    facts: dict[str, Any]
    code: bytes


class StoredFile(NamedTuple):
    """A file in a store: the name of its code, its size in bytes, and when it was last used, in seconds since 1970."""

    name: str
    size: int
    used: float


class Store:
    """The files in a folder; with None for the folder nothing is stored."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._warned = self._swept = False

    @property
    def keeps(self) -> bool:
        """Return whether the store can be written."""
        return self.folder is not None and os.access(self.folder, os.W_OK)

    def read(self, name: str) -> Record | None:
        """Return the record of a name; None if its file is missing, damaged, or may be written by other users."""
        if self.folder is None:
            return None
        path = self._path(name)
        try:
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
            with os.fdopen(handle, "rb") as file:
                content = file.read() if _is_own(os.fstat(handle)) else None
        except OSError:
            return None
        found = None if content is None else _unpacked(content)
        if found is not None and _age(path) > _DAY:
            with suppress(OSError):
                os.utime(path)
        if found is None and not self._warned:
            self._warned = True
            fact = "a file of another user" if content is None else "other bytes"
            _logger.warning("machine code: %s must be as it was written, got %s; it is compiled again", path, fact)
        return found

    def write(self, name: str, record: Record) -> None:
        """Store a record for later processes, if the folder can be written."""
        if self.folder is None:
            return
        with suppress(OSError), replacing(self._path(name)) as aside:
            # Whatever the umask and the mode of an old file are, other users may not write to the new one.
            aside.unlink(missing_ok=True)
            handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(_packed(record))
        if not self._swept:
            self._swept = True
            self._sweep(self.folder)

    def files(self) -> list[StoredFile]:
        """Return all stored files, sorted by name."""
        found = []
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")) if self.folder is not None else ():
            with suppress(OSError):
                state = path.stat()
                found.append(StoredFile(path.name.removesuffix(_SUFFIX), state.st_size, state.st_mtime))
        return found

    def clear(self) -> None:
        """Remove all files that can be removed."""
        for file in self.files():
            with suppress(OSError):
                self._path(file.name).unlink()

    def _sweep(self, folder: Path) -> None:
        """Remove files that have not been read for a month, and old temporary files of processes that were killed."""
        with suppress(OSError):
            for path in [*folder.glob(f"*{_SUFFIX}"), *folder.glob(f".*{_SUFFIX}.*{TEMPORARY_SUFFIX}")]:
                if _age(path) > _KEPT:
                    with suppress(OSError):
                        path.unlink()

    def _path(self, name: str) -> Path:
        return Path(self.folder or "", f"{name}{_SUFFIX}")


def _age(path: Path) -> float:
    """Return the seconds since a file was written or last marked as read; 0 if it does not exist."""
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


def _is_own(found: os.stat_result) -> bool:
    """Return whether only this user and the superuser may change the file."""
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def cache_folders() -> list[Path]:
    """Return the folders where generated files may be kept, best first: `NMT_CACHE_DIR`, or else `nmt` in the user's
    cache folder, unless the user has no home; then a folder for temporary files."""
    named, home = os.environ.get("NMT_CACHE_DIR"), os.path.expanduser("~")
    cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")  # the latter is of Windows
    if not cache and os.path.isdir(home):
        cache = os.path.join(home, ".cache")
    own = [Path(named)] if named else [Path(cache, "nmt")] if cache else []
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    return [*own, Path(tempfile.gettempdir()) / f"nmt-{owner}"]


@lru_cache(maxsize=1)
def store() -> Store:
    """Return the store of this process: in the first folder that is or can be this user's, or one without a folder."""
    for folder in cache_folders():
        path = folder / _FOLDER
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            pass  # it may exist all the same, on a read-only disk
        with suppress(OSError):
            if _is_own(path.stat()):
                return Store(path)
            _logger.warning(
                "machine code: %s must belong to you and be writable only by you, got a folder of user %d with mode"
                " %o; it is not read: remove it, or set NMT_CACHE_DIR",
                path,
                path.stat().st_uid,
                stat.S_IMODE(path.stat().st_mode),
            )
    return Store(None)


class Pack:
    """Machine code that was compiled in advance for one level of processors: an installed file, of which only the
    functions in use are read. It is trusted like the sources; damaged parts count as missing."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._warned = False

    def read(self, name: str) -> Record | None:
        """Return the record that was packed under a name; None if it is missing or damaged."""
        if self.path is None or name not in self.index:
            return None
        facts, start, size, digest = self.index[name]
        code = b""
        with suppress(OSError), self.path.open("rb") as file:
            file.seek(start)
            code = file.read(size)
        if hashlib.sha256(code).hexdigest() != digest:
            self._warn()
            return None
        return Record(facts, code)

    @cached_property
    def index(self) -> dict[str, tuple[dict[str, Any], int, int, str]]:
        """Return for each name the facts, the offset, size and digest of the code."""
        if self.path is None:
            return {}
        try:
            with self.path.open("rb") as file:
                head = file.read(len(_PACK_MAGIC) + _DIGEST + 8)
                digest, size = head[len(_PACK_MAGIC) : -8], int.from_bytes(head[-8:], "little")
                text = file.read(min(size, _MOST_INDEX))
        except FileNotFoundError:
            return {}
        except OSError:
            head, digest, text = b"", b"", b""
        if not head.startswith(_PACK_MAGIC) or hashlib.sha256(text).digest() != digest:
            self._warn()
            return {}
        begin = len(head) + len(text)
        return {name: (facts, begin + at, size, code) for name, (facts, at, size, code) in json.loads(text).items()}

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            _logger.warning(
                "machine code: %s must be as it was installed, got other bytes; what is missing is compiled", self.path
            )


_PACK_MAGIC = b"nmt pack 1\n"
_MOST_INDEX = 1 << 26


def write_pack(path: Path, records: dict[str, Record]) -> None:
    """Write records into a file for `Pack`; the same records give the same bytes."""
    index, codes, at = {}, [], 0
    for name, record in sorted(records.items()):
        index[name] = record.facts, at, len(record.code), hashlib.sha256(record.code).hexdigest()
        codes.append(record.code)
        at += len(record.code)
    text = json.dumps(index, sort_keys=True).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as aside:
        head = _PACK_MAGIC + hashlib.sha256(text).digest() + len(text).to_bytes(8, "little")
        aside.write_bytes(b"".join([head, text, *codes]))


PACKS = Path(__file__).parents[1] / "packs"
"""The folder of the packs in an installed package; a checkout has none."""


@lru_cache(maxsize=1)
def shipped() -> Pack:
    """Return the pack for the target of this process; an empty one if NMT_SHIPPED_CODE is 0 in the environment."""
    if os.environ.get("NMT_SHIPPED_CODE") == "0":
        return Pack(None)
    return Pack(PACKS / f"{TARGET.name}.pack")


_OWN = "nmt.rnn.kernels."
_HARMLESS = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_DEBUG_CACHE", *TARGET_SETTINGS)
"""Settings of Numba that affect machine code only through the target, which is named separately."""

_PLAIN = (bool, int, float, str, np.generic)
"""Types whose `repr` describes a value completely."""


def source_name(label: str, content: str, types: str) -> str:
    """Return a name from a function's sources and the target, the same for every compiler and version of Python."""
    return _digest(label, repr((FINGERPRINT, replace(TARGET, triple=""), *TARGET.machine)), content, types)


def code_name(label: str, source_name: str, code: str) -> str:
    """Return the name of the machine code that this process makes of a function with this `source_name`. It also
    depends on the compiler and on `code`, the bytecode that this process has imported, as a file may have changed since
    its import."""
    return _digest(label, source_name, compiler(), code)


def _digest(label: str, *parts: str) -> str:
    return f"{label}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"


def content_of(function: Any, seen: set[int] | None = None) -> str | None:
    """Return a text that describes a function and is the same in every process. Return None if there is no such text:
    the function closes over a value without one, or its source cannot be found. seen: those described already."""
    function, seen = getattr(function, "written_by", function), set() if seen is None else seen
    if id(function) in seen:
        return ""
    seen.add(id(function))
    parts = [function.__module__, function.__qualname__]
    used = [cell.cell_contents for cell in function.__closure__ or ()]
    if not function.__module__.startswith(_OWN):
        lines = linecache.getlines(function.__code__.co_filename, function.__globals__)
        if not lines:
            return None
        parts.append("".join(lines))
        used += _used_globals(function)
    for value in used:
        content = _value(value, seen)
        if content is None:
            return None
        parts.append(content)
    return "\0".join(parts)


def _names(code: CodeType) -> list[str]:
    """Return the global names used in a function and in the functions nested in it."""
    inside = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return [*code.co_names, *inside]


def _used_globals(function: Any) -> list[Any]:
    """Return the functions and plain values that a function reads from its own module, or as attributes of a user's
    module that it has imported. They are compiled in, and where they come from other files the text of the function's
    file does not describe them."""
    names = _names(function.__code__)
    found = [function.__globals__.get(name) for name in names]
    modules: list[ModuleType] = []
    for value in found:  # the list grows in the loop, by the attributes of modules
        if isinstance(value, ModuleType) and value not in modules and _is_of_user(value.__name__):
            modules.append(value)
            found += [getattr(value, name, None) for name in names]
    return [value for value in found if isinstance(value, _PLAIN) or _is_function_of_user(value)]


def _is_function_of_user(value: Any) -> bool:
    function = getattr(value, "function", value)
    function = getattr(function, "written_by", function)
    return isinstance(function, FunctionType) and _is_of_user(function.__module__)


def _is_of_user(module: str) -> bool:
    """Return whether a module belongs neither to the kernels nor to Numba or NumPy."""
    return not f"{module}.".startswith((_OWN, "numba.", "numpy."))


def _value(value: Any, seen: set[int]) -> str | None:
    """Return a text for a value that a function closes over; None if there is none."""
    if value is None or isinstance(value, (*_PLAIN, np.dtype)):
        return repr(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, (tuple, list)):
        found = [_value(part, seen) for part in value]
        return None if None in found else repr(found)
    if isinstance(value, FunctionType):
        return content_of(value, seen)
    # A compiled function has its own description.
    content: str | None = getattr(value, "content", None)
    return content


def python_code(code: CodeType) -> str:
    """Return a text for a function's bytecode, with its constants, names and nested functions."""
    nested = [python_code(part) for part in code.co_consts if isinstance(part, CodeType)]
    plain = [part for part in code.co_consts if not isinstance(part, CodeType)]
    constants = [sorted(map(repr, part)) if isinstance(part, frozenset) else repr(part) for part in plain]
    return repr((code.co_code.hex(), constants, code.co_names, code.co_varnames, nested))


@lru_cache(maxsize=1)
def compiler() -> str:
    """Return a text for the compiler: the versions of Python, Numba, llvmlite and NumPy, and Numba's settings."""
    settings = sorted((k, v) for k, v in os.environ.items() if k.startswith("NUMBA_") and k not in _HARMLESS)
    versions = [version(name) for name in ("numba", "llvmlite", "numpy")]
    return repr((sys.implementation.cache_tag, versions, settings))


def sources_are_unchanged() -> bool:
    """Return whether the kernels' sources are still those of the process; else code may not match its name."""
    return fingerprint() == FINGERPRINT
