"""The memory of confirmed pairs: one SQLite file, from which everything that was learnt can be computed again; and
translation memories in TMX 1.4b.

A model is a function of the base model, of the pairs of its project that are `learnt`, in their order, and of the
places in that order at which it was consolidated. A pair is written here, durably, before it is learnt, and a
consolidation before it is used. Snapshots only save time.
"""

from __future__ import annotations

import json
import re
import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from html import escape
from pathlib import Path
from typing import Any

from nmt.data.tables.readers import RECORDS
from nmt.errors import DataError
from nmt.inference.nearest import finder
from nmt.inference.pivot import base
from nmt.system.files import explain, remedy, write_bytes
from nmt.system.paths import is_file

VERSION = 2
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE general (number INTEGER PRIMARY KEY, use TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL);
CREATE TABLE pairs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL,
    who TEXT NOT NULL, at TEXT NOT NULL, state TEXT NOT NULL, rate REAL NOT NULL
);
CREATE INDEX pairs_of ON pairs (project, number);
CREATE TABLE snapshots (project TEXT, number INTEGER, parameters BLOB NOT NULL, PRIMARY KEY (project, number));
CREATE TABLE consolidations (project TEXT, number INTEGER, PRIMARY KEY (project, number));
CREATE TABLE checks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL, number INTEGER NOT NULL, at TEXT NOT NULL,
    rise REAL NOT NULL, rate REAL NOT NULL, action TEXT NOT NULL
);
"""

_FIELDS = "number, project, source, target, who, at, state, rate"
_ADVICE = "move it away to begin a new one, or put a good copy in its place"
_DAMAGE = re.compile("decode|no such|malformed")
"""Operational errors of SQLite that the content causes, not the disk or another process."""


class State(StrEnum):
    """The state of a pair: part of the model, only in the memory, or taken back."""

    LEARNT = "learnt"
    STORED = "stored"
    UNDONE = "undone"


class Use(StrEnum):
    """The purpose of a pair of the general text: to be learnt again with new pairs, or to be scored."""

    REPLAYED = "replayed"
    HELD_OUT = "held out"


@dataclass(frozen=True)
class Pair:
    """A confirmed pair. `rate`: the factor of the learning rate with which it was learnt; `at`: UTC, ISO 8601."""

    number: int
    project: str
    source: str
    target: str
    who: str
    at: str
    state: State
    rate: float


@dataclass(frozen=True)
class Match:
    """A pair of the memory and how similar its source is, 0 to 1."""

    pair: Pair
    similarity: float


@dataclass(frozen=True)
class Check:
    """A score of the held-out text after a pair: `rise` is that of the loss above the base model's, in nats a token;
    `rate` holds from then on; `action` says what was done, in words."""

    number: int
    at: str
    rise: float
    rate: float
    action: str


class Memory:
    """The pairs of all projects of one model, by whose digest it is known, in a file that is created if it is missing.
    Calls of several threads must not overlap. `begin`: returns facts and pairs of the general text of a new memory.
    Raises DataError for a file of something else or of another process, and NMTError without rapidfuzz."""

    def __init__(
        self, path: Path, digest: str, begin: Callable[[], tuple[dict[str, Any], Iterable[tuple[Use, str, str]]]]
    ) -> None:
        finder("learning", least=0, most=0)
        self.path = path
        self._sources: dict[str, tuple[list[int], list[str]]] = {}  # numbers and sources by project, in order
        with self._explained():
            self._open(path, digest, begin)

    def _open(self, path: Path, digest: str, begin: Callable[[], Any]) -> None:
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=2.0)
        try:
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._file.execute("PRAGMA synchronous = FULL")  # an answer is given when the pair is on the disk
            self._file.execute("BEGIN EXCLUSIVE")
            if not self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                if path.stat().st_size:
                    raise DataError(
                        f"{path}: must be a memory, got a file without pairs, as a copy without its {path.name}-wal "
                        f"is; copy both, or {_ADVICE}"
                    )
                facts, general = begin()
                self._file.execute(f"PRAGMA user_version = {VERSION}")
                for statement in _TABLES.split(";"):
                    self._file.execute(statement)
                facts = facts | {"digest": digest}
                self._file.executemany(
                    "INSERT INTO facts VALUES (?, ?)", [(key, json.dumps(value)) for key, value in facts.items()]
                )
                self._file.executemany("INSERT INTO general (use, source, target) VALUES (?, ?, ?)", general)
            version = self._file.execute("PRAGMA user_version").fetchone()[0]
            if version != VERSION:
                raise DataError(
                    f"{path}: must be a memory of version {VERSION}, got {version or 'another file'}; {_ADVICE}"
                )
            if path.stat().st_size % self._file.execute("PRAGMA page_size").fetchone()[0]:
                raise sqlite3.DatabaseError("a cut file")
            if (found := self._file.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
                raise sqlite3.DatabaseError(" ".join(found.split()))
            rows = self._file.execute("SELECT name, value FROM facts").fetchall()
            self.facts = {key: json.loads(value) for key, value in rows}
            if self.facts["digest"] != digest:
                raise DataError(
                    f"{path}: must be the memory of this model, got that of another one; move it away to begin a new "
                    "one, or put the former model back (export_tmx there and import_tmx here take its pairs along)"
                )
            self._file.execute("COMMIT")
            # All that is committed is in the file itself, so that a copy of it has every pair; a log next to it (WAL),
            # as former versions had, is taken in here.
            self._file.execute("PRAGMA journal_mode = DELETE")
        except BaseException:
            self._file.close()
            raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of SQLite that the user can fix into a DataError."""
        try:
            yield
        except (sqlite3.DatabaseError, json.JSONDecodeError) as error:
            is_of_disk = isinstance(error, sqlite3.OperationalError) and not _DAMAGE.search(str(error))
            if not is_of_disk:
                raise DataError(f"{self.path}: must be a memory, got: {error}; {_ADVICE}") from error
            advice = "end the other process" if "locked" in str(error) else "check the path and the disk"
            raise DataError(f"{self.path}: must be a memory that can be written, got: {error}; {advice}") from error

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """Do several changes as one; they are on the disk at the end of the block, or none of them is."""
        with self._explained():
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield self._file
                self._file.execute("COMMIT")
            except BaseException:
                if self._file.in_transaction:
                    self._file.execute("ROLLBACK")
                raise

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._explained():
            return self._file.execute(query, values).fetchall()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # ------------------------------------------------------------ pairs

    def add(
        self,
        project: str,
        pairs: Sequence[tuple[str, str]],
        *,
        who: str = "",
        state: State = State.STORED,
        rate: float = 1.0,
    ) -> list[Pair]:
        """Write pairs; return them when they are on the disk."""
        at, found = datetime.now(UTC).isoformat(timespec="seconds"), []
        query = f"INSERT INTO pairs ({_FIELDS}) VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)"
        with self._change() as file:
            for source, target in pairs:
                row = project, source, target, who, at, state, rate
                found.append(Pair(int(file.execute(query, row).lastrowid or 0), *row))
        if project in self._sources:
            for one in found:
                self._sources[project][0].append(one.number)
                self._sources[project][1].append(one.source)
        return found

    def pair(self, number: int) -> Pair:
        """Return a pair by its number. Raises DataError if there is none."""
        found = self._pairs("number = ?", number)
        if not found:
            raise DataError(f"pair: must be the number of a pair of the memory, got {number}; see its list")
        return found[0]

    def pairs(self, project: str, *, newest: int | None = None) -> list[Pair]:
        """Return the pairs of a project that were not undone, in order: all, or the newest ones."""
        if newest is not None:
            return self._pairs("project = ? AND state != 'undone' ORDER BY number DESC LIMIT ?", project, newest)[::-1]
        return self._pairs("project = ? AND state != 'undone' ORDER BY number", project)

    def learnt(self, project: str) -> list[Pair]:
        """Return the learnt pairs of a project, in order."""
        return self._pairs("project = ? AND state = 'learnt' ORDER BY number", project)

    def counts(self, project: str) -> tuple[int, int]:
        """Return the numbers of pairs in the memory of a project, and of those that were learnt."""
        by_state = dict(self._rows("SELECT state, count(*) FROM pairs WHERE project = ? GROUP BY state", project))
        learnt = by_state.get(State.LEARNT, 0)
        return learnt + by_state.get(State.STORED, 0), learnt

    def projects(self) -> list[str]:
        """Return the names of all projects that have had pairs, in the order of their first pairs."""
        return [name for (name,) in self._rows("SELECT project FROM pairs GROUP BY project ORDER BY min(number)")]

    def _pairs(self, where: str, *values: Any) -> list[Pair]:
        rows = self._rows(f"SELECT {_FIELDS} FROM pairs WHERE {where}", *values)
        return [Pair(n, p, src, tgt, who, at, State(state), rate) for n, p, src, tgt, who, at, state, rate in rows]

    def undo(self, pair: Pair) -> None:
        """Mark a pair as undone, and drop the snapshots that know it."""
        with self._change() as file:
            file.execute("UPDATE pairs SET state = 'undone' WHERE number = ?", (pair.number,))
            file.execute("DELETE FROM snapshots WHERE project = ? AND number >= ?", (pair.project, pair.number))
        self._sources.pop(pair.project, None)

    # ------------------------------------------------------------ matches

    def matches(self, project: str, source: str, *, least: float, most: int, before: int | None = None) -> list[Match]:
        """Return the pairs of a project whose sources are most similar, the most similar first, newer ones before older
        ones; `before`: only those with smaller numbers. Similarity is 1 for equal sources, and otherwise the share of
        characters that are kept (Indel similarity)."""
        if project not in self._sources:
            rows = self._rows(
                "SELECT number, source FROM pairs WHERE project = ? AND state != 'undone' ORDER BY number", project
            )
            if not rows:
                return []
            self._sources[project] = [row[0] for row in rows], [row[1] for row in rows]
        numbers, sources = self._sources[project]
        end = len(numbers) if before is None else bisect_left(numbers, before)
        choices = sources if end == len(sources) else sources[:end]
        found = finder("learning", least=least, most=4 * most)(source, choices)
        ranked = sorted(((-score, -numbers[place]) for _, score, place in found))[:most]
        return [Match(self.pair(-number), round(-score / 100, 4)) for score, number in ranked]

    # ------------------------------------------------------------ general text, snapshots, checks

    def general(self, use: Use) -> list[tuple[str, str]]:
        """Return the pairs of the general text for one use, in their fixed order."""
        return self._rows("SELECT source, target FROM general WHERE use = ? ORDER BY number", use)

    def save_snapshot(self, project: str, number: int, parameters: bytes) -> None:
        """Keep the parameters that a project has after a pair. Of older ones fewer stay: distances from the newest at
        least double, so that an undo replays at most about as many pairs again as lie behind it."""
        with self._change() as file:
            file.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", (project, number, parameters))
            kept: list[int] = []
            for (one,) in file.execute(
                "SELECT number FROM snapshots WHERE project = ? ORDER BY number DESC", (project,)
            ).fetchall():
                if len(kept) < 2 or number - one >= 2 * (number - kept[-1]):
                    kept.append(one)
                else:
                    file.execute("DELETE FROM snapshots WHERE project = ? AND number = ?", (project, one))

    def snapshot(self, project: str) -> tuple[int, bytes | None]:
        """Return the newest snapshot of a project: its last pair and parameters; 0 and None if there is none."""
        query = "SELECT number, parameters FROM snapshots WHERE project = ? ORDER BY number DESC LIMIT 1"
        rows = self._rows(query, project)
        return rows[0] if rows else (0, None)

    def add_consolidation(self, project: str, number: int, parameters: bytes) -> None:
        """Note that the pairs of a project up to one were consolidated, and keep the parameters alone: what was learnt
        pair by pair before is needed no more, and snapshots after it are of another model."""
        with self._change() as file:
            file.execute("INSERT OR IGNORE INTO consolidations VALUES (?, ?)", (project, number))
            file.execute("DELETE FROM snapshots WHERE project = ?", (project,))
            file.execute("INSERT INTO snapshots VALUES (?, ?, ?)", (project, number, parameters))

    def consolidated(self, project: str) -> int:
        """Return the last pair up to which a project was consolidated, 0 if it never was."""
        return self._rows("SELECT ifnull(max(number), 0) FROM consolidations WHERE project = ?", project)[0][0]

    def add_check(self, project: str, number: int, rise: float, rate: float, action: str, back_to: int | None) -> None:
        """Write a check; `back_to`: the last pair that stays learnt, if later ones no longer are."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        with self._change() as file:
            file.execute(
                "INSERT INTO checks (project, number, at, rise, rate, action) VALUES (?, ?, ?, ?, ?, ?)",
                (project, number, at, rise, rate, action),
            )
            if back_to is not None:
                where = "WHERE project = ? AND number > ?"
                file.execute(f"UPDATE pairs SET state = 'stored' {where} AND state = 'learnt'", (project, back_to))
                for table in ("snapshots", "consolidations"):
                    file.execute(f"DELETE FROM {table} {where}", (project, back_to))

    def checks(self, project: str, most: int = 20) -> list[Check]:
        """Return the last checks of a project, the newest first."""
        query = "SELECT number, at, rise, rate, action FROM checks WHERE project = ? ORDER BY id DESC LIMIT ?"
        return [Check(*row) for row in self._rows(query, project, most)]


def read_tmx(path: Path, source: str, target: str) -> list[tuple[str, str]]:
    """Return the pairs of a TMX file in these languages, whatever their regions, without markup. Raises DataError."""
    found, languages = [], dict[str, None]()
    for _, fields in RECORDS["tmx"](str(path)):
        texts: dict[str, str] = {}
        for code, text in fields:
            languages[code] = None
            texts.setdefault(base(code), text)
        pair = texts.get(base(source), ""), texts.get(base(target), "")
        if all(pair):
            found.append(pair)
    if not found:
        got = ", ".join(list(languages)[:8]) or "no translation unit"
        raise DataError(f"{path}: must have pairs of {source} and {target}, got {got}; check the languages")
    return found


def write_tmx(path: Path, pairs: Iterable[Pair], source: str, target: str) -> None:
    """Write pairs as a TMX file, which may exist. Raises DataError if it cannot be written, or is another file."""
    from nmt import __version__

    if is_file(path) and b"<tmx" not in path.read_bytes():
        raise DataError(f"{path}: must be a new file or a TMX file, got another file; name another")
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<tmx version="1.4">',
        f'<header creationtool="nmt" creationtoolversion="{__version__}" segtype="sentence" o-tmf="nmt" '
        f'adminlang="en" srclang="{escape(source)}" datatype="plaintext"/>',
        "<body>",
    ]
    for pair in pairs:
        when = datetime.fromisoformat(pair.at).strftime("%Y%m%dT%H%M%SZ")
        who = f' creationid="{escape(_allowed(pair.who))}"' if pair.who else ""
        lines.append(f'<tu tuid="{pair.number}" creationdate="{when}"{who}>')
        for language, text in ((source, pair.source), (target, pair.target)):
            shown = escape(_allowed(text), quote=False)
            lines.append(f'<tuv xml:lang="{escape(language)}"><seg>{shown}</seg></tuv>')
        lines.append("</tu>")
    content = "\n".join([*lines, "</body>", "</tmx>", ""])
    try:
        write_bytes(path, content.encode())
    except OSError as error:
        raise DataError(f"{path}: must be written, got {explain(error)}; {remedy(error)}") from error


def _allowed(text: str) -> str:
    """Return text without the characters that XML cannot contain."""
    return "".join(c for c in text if c >= " " and c not in "\ufffe\uffff")
