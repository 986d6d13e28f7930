"""Make the files that a project gives away, in `shared/`, by commands or here."""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.learning.memory import Pair, State, write_tmx
from nmt.studio.preparing import CORRECTIONS, read_pairs
from nmt.studio.projects import SHARED, TEXTS, Project, safe_name
from nmt.studio.rounds import Round
from nmt.studio.texts import Rows
from nmt.system.files import replacing, write_bytes

if TYPE_CHECKING:
    from nmt.studio.children import Children

KINDS = {"page": ".html", "model": ".nmt", "card": "-card.html", "tmx": ".tmx", "table": ".tsv", "folder": ".zip"}
"""The kinds of files to give away, and the ends of their names."""
OF_MODELS = ("page", "model", "card")
"""Those that take the permission of the people who wrote the texts."""


async def share(children: Children, project: Project, one: Round, kind: str, card: Callable[[], str]) -> None:
    """Write a file to give away, which takes the place of one of its name. `card`: returns the card. Raises Refused."""
    folder = project.folder / SHARED
    folder.mkdir(exist_ok=True)
    stem = f"{safe_name(project.values['name'], 'translator')}-{one.number}"
    path = folder / f"{stem}{KINDS[kind]}"
    if kind in ("page", "model"):
        with replacing(path) as aside:
            made = aside.with_name(f".{stem}-new{KINDS[kind]}")
            made.unlink(missing_ok=True)
            command = ["export", str(one.folder), "--to", "web"] if kind == "page" else ["bundle", str(one.folder)]
            try:
                await children.call(["-m", "nmt", *command, "-o", str(made)], project.folder)
                made.replace(aside)
            finally:
                made.unlink(missing_ok=True)
    elif kind == "card":
        write_bytes(path, (await asyncio.to_thread(card)).encode())
    elif kind == "tmx":
        now = datetime.now(UTC).isoformat()
        pairs = read_pairs(project.folder / TEXTS / CORRECTIONS)
        rows = [Pair(n, "", *pair, "", now, State.STORED, 0.0) for n, pair in enumerate(pairs, 1)]
        write_tmx(path, rows, *project.codes)
    elif kind == "table":
        with replacing(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
            file.write("text\trow\tsource\ttarget\tskipped\n")
            for entry in project.values["texts"]:
                for row in Rows(project, entry).each():
                    file.write(f"{entry['name']}\t{row.row}\t{row.source}\t{row.target}\t{'yes' if row.out else ''}\n")
    else:
        _pack(path, project.folder)


def _pack(path: Path, folder: Path) -> None:
    """Write the project as a zip archive, without what is shared already."""
    with replacing(path) as aside, zipfile.ZipFile(aside, "w", zipfile.ZIP_STORED) as archive:
        for one in sorted(folder.rglob("*")):
            name = one.relative_to(folder)
            if one.is_file() and name.parts[0] != SHARED and not one.name.startswith("."):
                archive.write(one, f"{folder.name}/{name.as_posix()}")
