"""Paths that a user names, looked at in one place: whatever is wrong with one is a PathError of one line.

`named` is the door: every path of a command line or of the Python interface comes through it. Behind it `look`,
`is_file`, `is_folder` and `exists` stand for the methods of `Path`, which raise where a folder may not be searched.
"""

from __future__ import annotations

import errno
import os
import stat
from os import PathLike
from pathlib import Path

from nmt.errors import PathError
from nmt.system.files import TEMPORARY_SUFFIX, explain, remedy

_MOST_SHOWN = 120
"""Characters of a path in an error."""
_TEXT_HINT = "if it is a text and not the name of a file, give it to standard input: echo 'TEXT' | nmt-..."
_MODEL_NAMES = ("config.yaml", "lengths.json", "metrics.jsonl", "train.log", "data_check.json", "imported.txt")
_MODEL_SUFFIXES = (".safetensors", ".spm")


def shown(path: str | PathLike[str]) -> str:
    """Return a path as text that any file and terminal can take: bytes that are not UTF-8 become U+FFFD, line ends are
    escaped, and the middle of a very long one is left out."""
    text = os.fspath(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    half = _MOST_SHOWN // 2
    return text if len(text) <= _MOST_SHOWN else f"{text[:half]}...{text[-half:]}"


def named(path: str | PathLike[str], what: str = "path") -> Path:
    """Return a path that a user has named.

    Args:
        path: As it was given.
        what: What an error calls it if it is empty: the option.

    Raises:
        PathError: It is empty, can name nothing, lies where nobody may look, or ends in a slash and is a file.
    """
    text = os.fspath(path)
    if not text:
        raise PathError(f"{what}: must be the name of a file or folder, got an empty one; is a variable unset?")
    place = Path(text)
    found = look(place)
    if ends_in_slash(text) and found is not None and not stat.S_ISDIR(found.st_mode):
        raise PathError(f"{shown(text)}: must be a folder, since its name ends in a slash, got a file; leave it out")
    return place


def ends_in_slash(path: str | PathLike[str]) -> bool:
    """Return whether a name says that it is a folder's, as `new/` does."""
    return os.fspath(path).endswith(("/", os.sep))


def look(path: Path) -> os.stat_result | None:
    """Return what the system says of a path, or None where nothing is there.

    Raises:
        PathError: The path can name nothing, or a folder above it may not be searched.
    """
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise PathError(f"{shown(path)}: must be a path, got one with a NUL character; leave it out") from None
    except OSError as error:
        raise PathError(f"{shown(path)}: must be a path, got {explain(error)}; {_advice(path, error)}") from None


def exists(path: Path) -> bool:
    """Return whether anything is there. Raises PathError as `look` does."""
    return look(path) is not None


def is_file(path: Path) -> bool:
    """Return whether a plain file is there. Raises PathError as `look` does."""
    found = look(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def is_folder(path: Path) -> bool:
    """Return whether a folder is there. Raises PathError as `look` does."""
    found = look(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def kind(path: Path) -> str:
    """Return in words what is there: `a folder`, `nothing there`. Raises PathError as `look` does."""
    found = look(path)
    if found is None:
        return "nothing there"
    kinds = {
        "a file": stat.S_ISREG,
        "a folder": stat.S_ISDIR,
        "a socket": stat.S_ISSOCK,
        "a pipe": stat.S_ISFIFO,
    }
    return next((name for name, holds in kinds.items() if holds(found.st_mode)), "a device")


def text_hint(path: str | PathLike[str]) -> str:
    """Return a hint for an error about a path that looks like a text, with a semicolon before it; or nothing."""
    return f"; {_TEXT_HINT}" if " " in os.fspath(path) else ""


def listed(folder: Path) -> list[Path]:
    """Return all files below a folder, in order. Raises PathError where a folder may not be read."""
    found: list[Path] = []

    def refuse(error: OSError) -> None:
        place = shown(error.filename or folder)
        raise PathError(f"{place}: must be a folder that can be read, got {explain(error)}; get leave to read it")

    for place, folders, names in os.walk(folder, onerror=refuse, followlinks=False):
        folders.sort()
        found += [Path(place, name) for name in names]
    return sorted(found)


def check_output(path: str | PathLike[str], what: str = "output") -> Path:
    """Return a path to write a file to, which may be there already.

    Raises:
        PathError: It cannot be written: a folder, write-protected, in no folder that is there; or it is a file of a
            model, which is not written over.
    """
    place = named(path, what)
    if ends_in_slash(path):
        fact = "a folder" if is_folder(place) else "a name that ends in a slash"
        raise PathError(f"{shown(path)}: must be a file to write to, got {fact}; name a file in it")
    if is_folder(place):
        raise _unwritable(place, errno.EISDIR)
    if is_model_file(place):
        raise PathError(f"{shown(path)}: must be a file of its own, got a file of a model; write elsewhere")
    if exists(place):
        if not os.access(place, os.W_OK):
            raise _unwritable(place, errno.EACCES)
        if not is_file(place):
            return place
    _check_above(place)
    return place


def check_prefix(path: str | PathLike[str], what: str = "output") -> Path:
    """Return the beginning of the names of files to write. Raises PathError: It names a folder, or lies in none that is
    there and writable."""
    place = named(path, what)
    if ends_in_slash(path):
        raise PathError(f"{shown(path)}: must be the beginning of a file's name, got a folder's; add a name to it")
    _check_above(place)
    return place


def check_folder(path: str | PathLike[str], what: str = "output") -> Path:
    """Return a folder to write into, which is made if it is not there. Raises PathError: It is a file, or cannot be
    made or written."""
    place = named(path, what)
    if exists(place) and not is_folder(place):
        raise PathError(f"{shown(path)}: must be a folder, got {kind(place)}; name another place")
    _check_writable(_nearest(place), place)
    return place


def check_new_folder(path: str | PathLike[str], what: str = "output") -> Path:
    """Return a folder to make, which may be there if it is empty. Raises PathError: It holds something, is a file, or
    cannot be made."""
    place = named(path, what)
    if exists(place):
        if exists(place / _MODEL_NAMES[0]):
            raise PathError(f"{shown(path)}: must be a new folder, got one that holds a model; choose another one")
        fact = "a folder that holds something" if is_folder(place) else kind(place)
        if not is_folder(place) or _holds_something(place):
            raise PathError(f"{shown(path)}: must be a new folder, got {fact}; choose another one")
    _check_writable(_nearest(place), place)
    return place


def is_model_file(path: Path) -> bool:
    """Return whether a path is a file that belongs to a model: a bundle, or one with such a name in a model folder."""
    if not is_file(path):
        return False
    real = Path(os.path.realpath(path))
    ours = real.name in _MODEL_NAMES or real.suffix in _MODEL_SUFFIXES
    return real.suffix == ".nmt" or (ours and exists(real.parent / _MODEL_NAMES[0]))


def _holds_something(folder: Path) -> bool:
    """Return whether anything is in a folder but what killed runs were writing."""
    try:
        return any(not name.endswith(TEMPORARY_SUFFIX) for name in os.listdir(folder))
    except OSError as error:
        raise PathError(f"{shown(folder)}: must be a folder that can be read, got {explain(error)}") from None


def _check_above(place: Path) -> None:
    """Raise PathError where the folder that a file is to lie in is missing or may not be written."""
    above = Path(os.path.realpath(place)).parent
    if not is_folder(above):
        raise _unwritable(place, errno.ENOTDIR if exists(above) else errno.ENOENT)
    _check_writable(above, place)


def _check_writable(folder: Path, place: Path) -> None:
    if not is_folder(folder):
        raise _unwritable(place, errno.ENOTDIR)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unwritable(place, errno.EACCES)


def _nearest(place: Path) -> Path:
    """Return the path itself, or what is there above it."""
    real = Path(os.path.realpath(place))
    return next((one for one in (real, *real.parents) if exists(one)), real)


def _unwritable(place: Path, number: int) -> PathError:
    error = OSError(number, os.strerror(number))
    return PathError(f"{shown(place)}: must be writable, got {explain(error)}; {remedy(error)}")


def _advice(path: Path, error: OSError) -> str:
    if error.errno == errno.ENAMETOOLONG:
        return _TEXT_HINT if " " in str(path) else "check the path"
    return "get leave to look there" if error.errno in (errno.EACCES, errno.EPERM) else "check the path"
