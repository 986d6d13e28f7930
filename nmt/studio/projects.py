"""Projects: ordinary folders with a file project.json, the texts, the rounds, and what is shared. Each file is written
aside, then renamed; a project that is killed at any moment is the one before or after."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from nmt.studio.errors import Check, Refused, checked, one_of, text
from nmt.system.files import explain, read_json, replacing, write_bytes

NAME = "project.json"
VERSION = 1
_MOST_NAME = 60
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)
"""Names that Windows gives to devices, whatever their ending."""
PURPOSES = ("suggestions", "gist", "words", "lesson")
PERMISSIONS = ("", "mine", "agreed", "public", "unsure")
_CODE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
_CLOUDS = ("OneDrive", "Dropbox", "iCloud", "Google Drive", "Nextcloud")
TEXTS, HELD, ROUNDS, SHARED = "texts", "held", "rounds", "shared"


def safe_name(given: str, otherwise: str = "file") -> str:
    """Return a name for a file that any system takes, made of the letters, digits and marks of a given one."""
    last = unicodedata.normalize("NFC", re.split(r"[/\\]", given)[-1])
    kept = "".join(
        one if one.isalnum() or unicodedata.category(one)[0] == "M" or one in "-_. ()" else "_" for one in last
    )
    kept = re.sub(r"\.{2,}", ".", kept).strip(" .")
    stem, dot, ending = kept.rpartition(".")
    ending = ending if dot and re.fullmatch("[A-Za-z0-9]{1,10}", ending) else ""
    stem = (stem if ending else kept)[:_MOST_NAME].strip(" .") or otherwise
    while len(stem.encode()) > 2 * _MOST_NAME:
        stem = stem[:-1]
    stem = f"_{stem}" if _RESERVED.match(stem) else stem
    return f"{stem}.{ending}" if ending else stem


def write_json(path: Path, values: Any) -> None:
    """Write values as JSON. Raises Refused if the disk does not take them."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, json.dumps(values, ensure_ascii=False, indent=1).encode("utf-8", "replace"), sync=True)
    except OSError as error:
        raise Refused("not-written", why=explain(error)) from None


def kept_json(path: Path, *names: str) -> dict[str, Any] | None:
    """Return what a file of JSON says, or only these values of it, or None without a file; read again where it has
    changed. Do not change it."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return _kept_json(path, (facts.st_mtime_ns, facts.st_size), names)


@lru_cache(maxsize=512)
def _kept_json(path: Path, stamp: tuple[int, int], names: tuple[str, ...]) -> dict[str, Any] | None:
    found = read_json(path)
    return {name: found.get(name) for name in names} if found and names else found


class Project:
    """A project by its folder; `values` is what project.json says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = blake2b(folder.name.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
        self.lock = threading.RLock()

    @property
    def values(self) -> dict[str, Any]:
        """Return the values, read again where the file has changed. Raises Refused for a file that is no project's."""
        found = kept_json(self.folder / NAME)
        if found is None or not isinstance(found.get("texts"), list) or len(found.get("sides", ())) != 2:
            raise Refused("broken", why="another file, or none")
        if found.get("version", VERSION) > VERSION:
            raise Refused("newer")
        return found

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """Yield the values to change; they are on the disk when the block has ended."""
        with self.lock:
            values: dict[str, Any] = json.loads(json.dumps(self.values))
            yield values
            values["changed"] = time.time()
            write_json(self.folder / NAME, values)

    def text(self, number: int | str) -> dict[str, Any]:
        """Return the entry of a text. Raises Refused."""
        found = next((one for one in self.values["texts"] if str(one["id"]) == str(number)), None)
        if found is None:
            raise Refused("no-such-text")
        return dict(found)

    @contextmanager
    def changing_text(self, number: int) -> Iterator[dict[str, Any]]:
        """Yield the entry of a text to change. Raises Refused."""
        self.text(number)
        with self.changing() as values:
            yield next(one for one in values["texts"] if one["id"] == number)

    def original(self, entry: dict[str, Any]) -> Path:
        """Return the file of a text as it came, which is in the project whatever project.json says."""
        return self.folder / TEXTS / Path(entry["file"]).name

    def text_file(self, number: int, ending: str) -> Path:
        """Return the file of a text: .tsv, what was read; .json, the facts of reading."""
        return self.folder / TEXTS / f"{number:03d}{ending}"

    def round_file(self, number: int, ending: str = "") -> Path:
        """Return the model folder of a round, or a file next to it."""
        return self.folder / ROUNDS / f"{number}{ending}"

    @property
    def codes(self) -> tuple[str, str]:
        """Return codes of both sides that differ and can end the name of a file."""
        one, other = (
            side["lang"] or default for side, default in zip(self.values["sides"], ("src", "tgt"), strict=True)
        )
        return (one, other) if one != other else (one, f"{other}-x-b")

    def record(self, number: int) -> dict[str, Any]:
        """Return what is known of a round."""
        return read_json(self.round_file(number, ".json")) or {}

    def rounds(self) -> list[int]:
        """Return the numbers of the rounds."""
        found = (path.stem for path in (self.folder / ROUNDS).glob("*.json"))
        return sorted(int(name) for name in found if name.isdecimal())

    def shared(self) -> list[dict[str, Any]]:
        """Return the files to give away, the newest first."""
        files = [path for path in (self.folder / SHARED).glob("[!.]*") if path.is_file()]
        found = [{"name": path.name, "bytes": path.stat().st_size, "made": path.stat().st_mtime} for path in files]
        return sorted(found, key=lambda one: -float(one["made"]))

    def change(self, given: dict[str, Any]) -> None:
        """Change fields by what the page sends. Raises Refused."""
        with self.changing() as values:
            for name in given:
                values[name] = checked(given, name, _FIELDS.get(name, (lambda value: False, "one of a project")))

    def add(self, name: str, given: Path) -> dict[str, Any]:
        """Add a file, which is moved here, as a text to be read; return its entry. Raises OSError."""
        place = self.folder / TEXTS
        number = max((int(path.name[:3]) for path in place.rglob("[0-9][0-9][0-9]*")), default=0) + 1
        file = place / f"{number:03d}-{safe_name(name)}"
        place.mkdir(exist_ok=True)
        size = given.stat().st_size
        with replacing(file, sync=True) as aside:
            shutil.move(given, aside)
        entry = {"id": number, "name": safe_name(name), "file": file.name, "bytes": size, "swap": False}
        entry |= dict.fromkeys(("columns", "header", "sheet", "with", "part_of"))
        entry |= {"decided": {}, "rows_out": {}, "mended": {}}
        with self.changing() as values:
            values["texts"].append(entry)
        return entry


def _is_side(side: Any) -> bool:
    if not isinstance(side, dict) or not side.keys() <= {"lang", "name"}:
        return False
    lang, name = side.get("lang"), side.setdefault("name", "")
    side.setdefault("lang", None)
    return (
        isinstance(name, str)
        and len(name) <= 120
        and (lang is None or isinstance(lang, str) and len(lang) < 40 and _CODE.fullmatch(lang) is not None)
    )


_FIELDS: dict[str, Check] = {
    "name": text(1, 120),
    "origin": text(0, 2000),
    "contact": text(0, 500),
    "purpose": one_of(PURPOSES),
    "permission": one_of(PERMISSIONS),
    "direction": (lambda value: value in ([0, 1], [1, 0]), "[0, 1] or [1, 0]"),
    "sides": (
        lambda value: isinstance(value, list) and len(value) == 2 and all(map(_is_side, value)),
        "two, each with a name and a code of a language, or null",
    ),
}
"""The fields that a page may change, and their checks."""


class Projects:
    """The projects in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, Project] = {}

    def all(self) -> list[Project]:
        """Return them, those that changed last first."""
        found: list[tuple[float, Project]] = []
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            try:
                changed = (path / NAME).stat().st_mtime
            except OSError:
                continue
            one = self._known.setdefault(path.name, Project(path))
            found.append((changed, one))
        return [one for _, one in sorted(found, key=lambda pair: -pair[0])]

    def get(self, name: str) -> Project:
        """Return a project by its id. Raises Refused."""
        for one in self.all():
            if one.id == name:
                return one
        raise Refused("no-such-project")

    def make(self, name: Any) -> Project:
        """Make a project. Raises Refused."""
        name = checked({"name": name}, "name", _FIELDS["name"])
        stem = safe_name(name.strip().replace("/", "-").replace("\\", "-"), "translator")
        names = [stem, *(f"{stem} {number}" for number in range(2, 1000))]
        folder = next(self.folder / one for one in names if not (self.folder / one).exists())
        values = {"version": VERSION, "name": name.strip(), "purpose": PURPOSES[0], "direction": [0, 1]}
        values |= {"sides": [{"lang": None, "name": ""}, {"lang": None, "name": ""}], "texts": [], "judgements": {}}
        values |= {"origin": "", "permission": "", "contact": "", "made": time.time(), "changed": time.time()}
        try:
            write_json(folder / NAME, values)
        except Refused:
            with suppress(OSError):  # none was made, or it cannot be removed
                folder.rmdir()
            raise
        return self.get(Project(folder).id)

    @property
    def cloud(self) -> str | None:
        """Return the name of the service that copies the folder to other machines, if one does."""
        return next((one for one in _CLOUDS if one.casefold() in str(self.folder).casefold()), None)

    def free(self) -> int:
        """Return the free bytes of the disk."""
        return shutil.disk_usage(self.folder).free
