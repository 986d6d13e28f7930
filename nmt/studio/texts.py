"""The texts of a project: their rows with what the user has decided about them."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from nmt.serve.models import language_name
from nmt.studio.errors import Refused
from nmt.studio.projects import TEXTS, Project, kept_json

_SPACES = re.compile(r"\s+")
LEAVE_OUT, KEEP, MEND = "leave_out", "keep", "mend"
DEFAULTS = {
    **dict.fromkeys(("empty", "utf-8", "duplicates"), LEAVE_OUT),
    **dict.fromkeys(("control", "bpe", "pieces", "joiners"), MEND),
}
"""The treatment of the rows of a finding unless the user decides; others are kept."""
DONE = ("empty", "duplicates", "control")
"""Findings that need no look: what is done with them is always right."""
MENDS: dict[str, Callable[[str], str]] = {
    "control": lambda text: _SPACES.sub(" ", re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text)).strip(),
    "markup": lambda text: _SPACES.sub(" ", html.unescape(re.sub(r"<[^<>]*>", " ", text))).strip(),
    "bpe": lambda text: re.sub(r"@@ ?", "", text),
    "pieces": lambda text: text.replace(" ", "").replace("▁", " ").strip(),
    "joiners": lambda text: re.sub(r" ?￭ ?", "", text),
    "encoding": lambda text: _unbroken(text),
}
"""Corrections of a text with a fault, for faults that have one."""


def _unbroken(text: str) -> str:
    from ftfy import fix_text

    return fix_text(text).replace("\ufffd", "")


_SHOWN_ROWS = 20


@dataclass(frozen=True)
class Row:
    """A row: its number in the user's file, both sides as they are learnt, whether it is skipped, its findings."""

    row: int
    source: str
    target: str
    out: bool
    findings: list[str]


class Rows:
    """The rows of a text as decided."""

    def __init__(self, project: Project, entry: dict[str, Any]) -> None:
        self.path = project.text_file(entry["id"], ".tsv")
        self.facts = facts_of(project, entry["id"])
        self._entry = entry
        self._other_name = project.text(entry["with"])["name"] if entry["with"] else ""
        self._found = {one["name"]: frozenset(one["rows"]) for one in self.facts.get("findings", ())}
        self.decided = {name: entry["decided"].get(name, DEFAULTS.get(name, KEEP)) for name in self._found}
        own = {int(row): out for row, out in entry["rows_out"].items()}
        left = (rows for name, rows in self._found.items() if self.decided[name] == LEAVE_OUT)
        self.out = {row for row in {*own}.union(*left) if own.get(row, True)}

    @classmethod
    def of(cls, project: Project, number: int) -> Rows:
        """Return those of a text of a project. Raises Refused."""
        return cls(project, project.text(number))

    @property
    def is_ready(self) -> bool:
        """Return whether the text was read."""
        return self.facts.get("state") == "ready" and not self._entry.get("part_of")

    @property
    def usable(self) -> int:
        """Return the number of rows that are not skipped."""
        return max(0, self.facts["rows"] - len(self.out)) if self.is_ready else 0

    def each(self) -> Iterator[Row]:
        """Yield all rows."""
        return map(self._row, self._lines())

    def _lines(self) -> Iterator[str]:
        if self.is_ready and self.path.is_file():
            with self.path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
                yield from file

    def page(self, start: int, count: int, finding: str | None = None) -> tuple[int, list[Row]]:
        """Return the number of the rows, all or those of a finding, and some of them."""
        if finding is None:
            return self.facts.get("rows", 0), [*map(self._row, islice(self._lines(), start, start + count))]
        rows = self._found.get(finding, frozenset())
        lines = (line for line in self._lines() if int(line[line.rindex("\t") :]) in rows) if rows else iter(())
        return len(rows), [*map(self._row, islice(lines, start, start + count))]

    def _row(self, line: str) -> Row:
        one, other, number = line.rstrip("\n").split("\t")
        row, sides = int(number), [one, other]
        findings = [name for name, rows in self._found.items() if row in rows]
        if (own := self._entry["mended"].get(number)) is not None:
            sides = own
        else:
            for name in findings:
                if self.decided[name] == MEND and name in MENDS:
                    sides = [MENDS[name](text) for text in sides]
        plain = [text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for text in sides]
        return Row(row, plain[0], plain[1], row in self.out, findings)

    def view(self) -> dict[str, Any]:
        """Return the text as the page takes it."""
        found = self.facts.get("findings", ())
        nothing: dict[str, Any] = {"state": "reading", "rows": 0, "heading": 0, "langs": [None, None]}
        nothing |= dict.fromkeys(("columns", "kinds", "sheets", "preview"), [])
        nothing |= dict.fromkeys(("error", "form", "chosen", "sheet", "asks", "features"))
        return {
            **nothing,
            **self.facts,
            **{name: self._entry[name] for name in ("id", "name", "bytes", "part_of", "with")},
            **({"state": "ready", "asks": None, "rows": 0} if self._entry["part_of"] else {}),
            "other_name": self._other_name,
            "read": self.usable,
            "findings": [{**one, "rows": one["rows"][:_SHOWN_ROWS]} for one in found],
            "decided": {
                name: how for name, how in self.decided.items() if name in DEFAULTS or name in self._entry["decided"]
            },
            "out": len(self.out),
        }


def texts_of(project: Project) -> list[Rows]:
    """Return the texts of a project that were read."""
    return [rows for entry in project.values["texts"] if (rows := Rows(project, entry)).is_ready]


def pairs_of(project: Project) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a project that can be learnt, in order; one that is in two texts comes twice."""
    rows = (row for text in texts_of(project) for row in text.each() if not row.out)
    return ((row.source, row.target) for row in rows if row.source.strip() and row.target.strip())


def counts(project: Project) -> tuple[int, int]:
    """Return the number of different pairs that can be learnt, and of those that come again in another text."""
    texts = texts_of(project)
    total = sum(one.usable for one in texts)
    if len(texts) < 2:
        return total, 0
    stamps = [one.path.stat().st_mtime_ns for one in texts]
    with project.lock:
        different = _different(project, json.dumps([project.values["texts"], stamps]))
    return different, total - different


@lru_cache(maxsize=64)
def _different(project: Project, stamp: str) -> int:
    return len({hash(pair) for pair in pairs_of(project)})


def reading(project: Project, number: int) -> dict[str, Any]:
    """Return what `nmt.studio.reading` takes to read a text."""
    entry = project.text(number)
    other = project.text(entry["with"]) if entry["with"] else {"file": "", "name": ""}
    return {
        "file": str(project.original(entry)),
        "other": other["file"] and str(project.original(other)),
        "other_name": other["name"],
        "table": str(project.text_file(number, ".tsv")),
        "langs": [side["lang"] for side in project.values["sides"]],
        **{name: entry[name] for name in ("name", "columns", "header", "sheet", "swap")},
    }


def facts_of(project: Project, number: int) -> dict[str, Any]:
    """Return what was read of a text, which must not be changed."""
    return kept_json(project.text_file(number, ".json")) or {}


def name_sides(project: Project, number: int) -> None:
    """Name the sides that have no name yet by a text that was read."""
    facts = facts_of(project, number)
    if facts.get("state") == "ready":
        headings = {one["column"]: one["heading"] for one in facts.get("columns", ())}
        with project.changing() as values:
            for side, lang, column in zip(values["sides"], facts["langs"], facts.get("chosen") or (0, 0), strict=True):
                side["lang"] = side["lang"] or lang
                known = language_name(side["lang"]) if side["lang"] and len({*facts["langs"]}) > 1 else side["lang"]
                side["name"] = side["name"] or (known if known != side["lang"] else "") or headings.get(column, "")


def alone(project: Project) -> list[int]:
    """Return the texts of one language whose other half is to be named."""
    entries = [one for one in project.values["texts"] if not one["with"] and not one["part_of"]]
    return [one["id"] for one in entries if facts_of(project, one["id"]).get("asks") == "other"]


def join(project: Project, number: int, other: int) -> int:
    """Make one of two texts the other half of the other; return which has both, in the order of the project."""
    sides = [side["lang"] for side in project.values["sides"]]
    langs = [facts_of(project, one).get("langs", [None])[0] for one in (number, other)]
    if number == other:
        raise Refused("no-such-text")
    if any(lang is not None and lang == side for lang, side in zip(langs, sides[::-1], strict=True)):
        number, other = other, number
    with project.changing_text(number) as entry:
        entry["with"], entry["part_of"] = other, None
    with project.changing_text(other) as entry:
        entry["with"], entry["part_of"] = None, number
    return number


def remove(project: Project, number: int) -> None:
    """Take a text out; its files go to texts/removed."""
    entry, removed = project.text(number), project.folder / TEXTS / "removed"
    with project.changing() as values:
        values["texts"] = [one for one in values["texts"] if one["id"] != number]
        for one in values["texts"]:
            one |= {name: None for name in ("with", "part_of") if one[name] == number}
    removed.mkdir(exist_ok=True)
    for path in (project.original(entry), *(project.text_file(number, end) for end in (".tsv", ".json"))):
        if path.is_file():
            os.replace(path, removed / path.name)
