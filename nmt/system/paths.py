"""Checks of paths that a user gives, in one place: any problem is a PathError of one line. Every such path passes
through `named`; then `look`, `is_file`, `is_folder` and `exists` replace the methods of `Path`, which raise OSError if
a folder may not be searched."""

from __future__ import annotations

import errno
import os
import re
import stat
from difflib import get_close_matches
from os import PathLike
from pathlib import Path

from nmt.errors import PathError
from nmt.system.files import ON_WINDOWS, TEMPORARY_SUFFIX, explain, remedy

RUNS = Path("runs")
"""The folder in which examples of commands and configs put models."""
_MOST_SHOWN = 120
"""Most characters of a path in an error message."""
_MOST_NAMES = 2000
"""Names of a folder among which the one that was meant is looked for."""
_TEXT_HINT = "if it is a text and not the name of a file, give it to standard input: echo 'TEXT' | nmt-..."
_MOST_NAME, _MOST_PATH = 255, 4096
"""Characters of a name and of a path, here also on Windows, which says of longer ones that they are not there."""
_NOT_ON_WINDOWS = re.compile(r"""[<>:"|?*\x01-\x1f]|[. ]$|^(con|prn|aux|nul(?=\.)|(com|lpt)\d)(\.|$)""", re.IGNORECASE)
"""Names that are devices there, streams of another file, or written under another name. NUL is what /dev/null is."""
_ADDRESS = re.compile(r"[a-z]{2,}:[/\\]")
_MODEL_NAMES = "config.yaml lengths.json metrics.jsonl train.log data_check.json imported.txt loggers.json".split()
_MODEL_SUFFIXES = (".safetensors", ".spm")


def shown(path: str | PathLike[str]) -> str:
    """Return a path as text for any file and terminal: escaped, and without the middle if it is very long."""
    text = os.fspath(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    half = _MOST_SHOWN // 2
    return text if len(text) <= _MOST_SHOWN else f"{text[:half]}...{text[-half:]}"


def named(path: str | PathLike[str], what: str = "path") -> Path:
    """Return a path that a user has given. `what`: the name of the option. Raises PathError: It is empty, cannot name a
    file, is in a folder that may not be searched, or is that of a file and ends in a slash."""
    text = os.fspath(path)
    if not text:
        raise PathError(f"{what}: must be the name of a file or folder, got an empty one; is a variable unset?")
    place = Path(text)
    found = look(place)
    if ends_in_slash(text) and found is not None and not stat.S_ISDIR(found.st_mode):
        raise PathError(f"{shown(text)}: must be a folder, since its name ends in a slash, got a file; leave it out")
    return place


def ends_in_slash(path: str | PathLike[str]) -> bool:
    """Return whether a path ends in a slash, as that of a folder may (`new/`)."""
    return os.fspath(path).endswith(("/", os.sep))


def look(path: Path) -> os.stat_result | None:
    """Return the result of `os.stat`, None if nothing is there. Raises PathError for what cannot be a path."""
    try:
        if ON_WINDOWS:
            _check_names(path)
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise PathError(f"{shown(path)}: must be a path, got one with a NUL character; leave it out") from None
    except OSError as error:
        raise PathError(f"{shown(path)}: must be a path, got {explain(error)}; {_advice(path, error)}") from None


def _check_names(path: Path) -> None:
    """Raise PathError or OSError if Windows cannot hold a file of that name."""
    names = [name for name in path.parts[bool(path.anchor) :] if name not in (".", "..")]
    if len(os.fspath(path)) > _MOST_PATH or any(len(name) > _MOST_NAME for name in names):
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    wrong = next(filter(_NOT_ON_WINDOWS.search, names), None)
    if wrong and not _ADDRESS.match(os.fspath(path)):
        raise PathError(f"{shown(path)}: must be a path that Windows can hold, got the name {wrong!r}; choose another")


def exists(path: Path) -> bool:
    """Return whether the path exists. Raises PathError like `look`."""
    return look(path) is not None


def is_file(path: Path) -> bool:
    """Return whether the path is a plain file. Raises PathError like `look`."""
    found = look(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def is_folder(path: Path) -> bool:
    """Return whether the path is a folder. Raises PathError like `look`."""
    found = look(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def kind(path: Path) -> str:
    """Return in words what is at the path: `a folder`, `nothing there`. Raises PathError like `look`."""
    if (found := look(path)) is None:
        return "nothing there"
    kinds = {"a file": stat.S_ISREG, "a folder": stat.S_ISDIR, "a socket": stat.S_ISSOCK, "a pipe": stat.S_ISFIFO}
    return next((name for name, holds in kinds.items() if holds(found.st_mode)), "a device")


def absent(path: str | PathLike[str], what: str = "file", advice: str = "check the path") -> str:
    """Return the error line about a path at which nothing is, with a name next to it that was probably meant, or the
    part that is missing: `runs/de-em: no such folder; did you mean runs/de-en?`."""
    place = Path(path)
    if _ADDRESS.match(os.fspath(path)):
        return f"{shown(path)}: must be on this machine, got an address; download it first"
    missing = next((one for one in reversed(place.parents) if not exists(one)), None)
    if (near := _near(place, missing or place, what)) is not None:
        advice = f"did you mean {shown(near)}?"
    elif missing is not None:
        advice = f"there is no folder {shown(missing)}"
    return f"{shown(path)}: no such {what}; {advice}"


def _near(place: Path, first: Path, what: str) -> Path | None:
    """Return the path that was probably meant: the same one in the folder of all runs or its name alone, or one with
    a similar name for `first`, the first part that is not there."""
    try:
        names = os.listdir(first.parent)[:_MOST_NAMES]
    except OSError:  # it may be searched and not be read
        names = []
    similar = [first.parent / name for name in get_close_matches(first.name, names, n=3, cutoff=0.6)]
    near = [RUNS / place, Path(place.name), *(one / place.relative_to(first) for one in similar)]
    return next((one for one in near if exists(one) and (what != "folder" or is_folder(one))), None)


def text_hint(path: str | PathLike[str]) -> str:
    """Return a hint for an error about a path that looks like a text; otherwise nothing."""
    return _TEXT_HINT if " " in os.fspath(path) and not Path(path).suffix[1:].isalnum() else ""


def files_in(folder: Path) -> list[Path]:
    """Return the files of a folder that are not hidden, in order; none if it may not be read."""
    try:
        return sorted(one for one in folder.iterdir() if not one.name.startswith(".") and is_file(one))
    except (OSError, PathError):
        return []


def listed(folder: Path) -> list[Path]:
    """Return all files below a folder, in order. Raises PathError if a folder may not be read."""
    found: list[Path] = []

    def refuse(error: OSError) -> None:
        place = shown(error.filename or folder)
        raise PathError(f"{place}: must be a folder that can be read, got {explain(error)}; get leave to read it")

    for place, folders, names in os.walk(folder, onerror=refuse, followlinks=False):
        folders.sort()
        found += [Path(place, name) for name in names]
    return sorted(found)


def check_output(path: str | PathLike[str], what: str = "output") -> Path:
    """Return a path to write a file to, which may already exist. Raises PathError: It is a folder, is write-protected,
    or its folder does not exist; or it is a file of a model, which must not be overwritten."""
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
    """Return the prefix of files to write. Raises PathError if it is a folder, or its folder is not writable."""
    place = named(path, what)
    if ends_in_slash(path):
        raise PathError(f"{shown(path)}: must be the beginning of a file's name, got a folder's; add a name to it")
    _check_above(place)
    return place


def check_folder(path: str | PathLike[str], what: str = "output") -> Path:
    """Return a folder to write into, which need not exist yet. Raises PathError if that is impossible."""
    place = named(path, what)
    if exists(place) and not is_folder(place):
        raise PathError(f"{shown(path)}: must be a folder, got {kind(place)}; name another place")
    _check_writable(_nearest(place), place)
    return place


def check_new_folder(path: str | PathLike[str], what: str = "output") -> Path:
    """Return a folder to create, which may exist if it is empty. Raises PathError if that is impossible."""
    place = named(path, what)
    if exists(place):
        if exists(place / _MODEL_NAMES[0]):
            raise PathError(f"{shown(path)}: must be a new folder, got one that contains a model; choose another one")
        fact = "a folder that is not empty" if is_folder(place) else kind(place)
        if not is_folder(place) or _holds_something(place):
            raise PathError(f"{shown(path)}: must be a new folder, got {fact}; choose another one")
    _check_writable(_nearest(place), place)
    return place


def is_model_file(path: Path) -> bool:
    """Return whether a path is a bundle, or a file with a model's name or suffix in a model folder."""
    if not is_file(path):
        return False
    real = Path(os.path.realpath(path))
    ours = real.name in _MODEL_NAMES or real.suffix in _MODEL_SUFFIXES
    return real.suffix == ".nmt" or (ours and exists(real.parent / _MODEL_NAMES[0]))


def _holds_something(folder: Path) -> bool:
    """Return whether a folder contains anything but temporary files of killed runs."""
    try:
        return any(not name.endswith(TEMPORARY_SUFFIX) for name in os.listdir(folder))
    except OSError as error:
        raise PathError(f"{shown(folder)}: must be a folder that can be read, got {explain(error)}") from None


def _check_above(place: Path) -> None:
    """Raise PathError if the folder of a file is missing or not writable."""
    above = Path(os.path.realpath(place)).parent
    if not exists(above):
        raise PathError(f"{shown(place)}: no such folder {shown(place.parent)}; make it, or choose another place")
    if not is_folder(above):
        raise _unwritable(place, errno.ENOTDIR)
    _check_writable(above, place)


def _check_writable(folder: Path, place: Path) -> None:
    if not is_folder(folder):
        raise _unwritable(place, errno.ENOTDIR)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unwritable(place, errno.EACCES)


def _nearest(place: Path) -> Path:
    """Return the path itself or its nearest parent that exists."""
    real = Path(os.path.realpath(place))
    return next((one for one in (real, *real.parents) if exists(one)), real)


def _unwritable(place: Path, number: int) -> PathError:
    error = OSError(number, os.strerror(number))
    return PathError(f"{shown(place)}: must be writable, got {explain(error)}; {remedy(error)}")


def _advice(path: Path, error: OSError) -> str:
    if error.errno == errno.ENAMETOOLONG:
        return _TEXT_HINT if " " in str(path) else "check the path"
    return "ask for permission to read it" if error.errno in (errno.EACCES, errno.EPERM) else "check the path"
