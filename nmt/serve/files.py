"""Translated files, kept for a while until the client fetches them."""

from __future__ import annotations

import re
import secrets
import time
from collections import OrderedDict
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import quote

from nmt.documents.forms import SUFFIXES
from nmt.serve.limits import Shelf
from nmt.serve.settings import RequestError

SECONDS_KEPT = 600
_MOST = 1000
_MOST_BYTES = 256 * 2**20


class TranslatedFile(NamedTuple):
    """A translated file. left: what of it is untranslated, as words; empty if nothing is."""

    name: str
    content: bytes
    media_type: str
    left: str = ""


class Files:
    """Translated files in memory, for ten minutes and up to 256 MiB; their keys cannot be guessed."""

    formats = [name.lstrip(".") for name in SUFFIXES]

    def __init__(self) -> None:
        self._kept: Shelf[TranslatedFile] = Shelf(_MOST_BYTES, _MOST)
        self._since: OrderedDict[str, float] = OrderedDict()
        self._progress: Shelf[tuple[int, int]] = Shelf(_MOST, _MOST)

    def get(self, name: str) -> TranslatedFile:
        """Return a translated file by its key. Raises RequestError."""
        self._forget()
        found = self._kept.get(name)
        if found is None:
            raise RequestError(404, "file: must be one that was translated within ten minutes, got another")
        return found

    def progress(self, ticket: str) -> tuple[int, int]:
        """Return how many of a file's sentences are done, and how many there are in total."""
        return self._progress.get(ticket) or (0, 0)

    def note(self, client: str, ticket: str, done: int, count: int) -> None:
        """Record that `done` of `count` sentences of a file are done; does nothing without a ticket."""
        if ticket:
            self._progress.put(client, ticket, (done, count))

    def keep(self, client: str, file: TranslatedFile) -> str:
        """Store a file; return the key by which it is fetched."""
        self._forget()
        key = f"{secrets.token_urlsafe(18)}.{PurePath(file.name).suffix.lstrip('.') or 'txt'}"
        self._kept.put(client, key, file, len(file.content))
        self._since[key] = time.monotonic()
        return key

    def _forget(self) -> None:
        old = time.monotonic() - SECONDS_KEPT
        while self._since and next(iter(self._since.values())) < old:
            self._kept.pop(self._since.popitem(last=False)[0])


def translated_name(name: str, target: str) -> str:
    """Return the file name of a translation. Letters of any language are kept; characters that are special in a path, a
    header or a shell, and invisible ones, become underscores."""
    path = PurePath(name)
    stem = "".join(c if c.isprintable() else "_" for c in path.stem)
    stem = re.sub(r"[/\\:*?\"<>|;%]+", "_", stem)[:80].strip(" _.") or "file"
    return f"{stem}_{target}{re.sub(r'[^A-Za-z0-9.]', '', path.suffix)}"


def attachment(name: str) -> dict[str, str]:
    """Return the headers of a file to save as `name` (RFC 6266): an ASCII name, and the full one."""
    plain = re.sub("^_+", "file_", re.sub(r"[^A-Za-z0-9._-]+", "_", name))
    more = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return {"Content-Disposition": f'attachment; filename="{plain}"{more}', "X-Content-Type-Options": "nosniff"}
