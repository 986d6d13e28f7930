"""Files that are translated, and kept for a while until somebody fetches them."""

from __future__ import annotations

import re
import secrets
import time
from collections import OrderedDict
from pathlib import PurePath
from urllib.parse import quote

from nmt.documents.document import SUFFIXES
from nmt.serve.errors import RequestError

SECONDS_KEPT = 600
_MOST_BYTES = 256 * 2**20


class Files:
    """Translated files, in memory, for ten minutes and up to 256 MiB; their names cannot be guessed."""

    formats = [name.lstrip(".") for name in SUFFIXES]

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, str, bytes, str]] = OrderedDict()
        self.progress: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def get(self, name: str) -> tuple[str, bytes, str]:
        """Name, content and media type of a file that was translated. Raises RequestError."""
        self._forget()
        if name not in self._kept:
            raise RequestError(404, "file: must be one that was translated within ten minutes, got another")
        return self._kept[name][1:]

    def note(self, ticket: str, done: int, count: int) -> None:
        """So many of a file's sentences are done; nothing is noted without a ticket."""
        if ticket:
            self.progress[ticket] = done, count
            while len(self.progress) > 1000:
                self.progress.popitem(last=False)

    def keep(self, name: str, content: bytes, media_type: str) -> str:
        """The name by which a file is fetched from now on."""
        self._forget()
        key = f"{secrets.token_urlsafe(18)}.{PurePath(name).suffix.lstrip('.') or 'txt'}"
        self._kept[key] = time.monotonic(), name, content, media_type
        while len(self._kept) > 1 and sum(len(kept[2]) for kept in self._kept.values()) > _MOST_BYTES:
            self._kept.popitem(last=False)
        return key

    def _forget(self) -> None:
        old = time.monotonic() - SECONDS_KEPT
        while self._kept and next(iter(self._kept.values()))[0] < old:
            self._kept.popitem(last=False)


def translated_name(name: str, target: str) -> str:
    """The name of a file's translation: letters of any language stay; what a path, a header or a shell takes for
    something else, and signs that cannot be seen, become underscores."""
    path = PurePath(name)
    stem = "".join(c if c.isprintable() else "_" for c in path.stem)
    stem = re.sub(r"[/\\:*?\"<>|;%]+", "_", stem)[:80].strip(" _.") or "file"
    return f"{stem}_{target}{re.sub(r'[^A-Za-z0-9.]', '', path.suffix)}"


def attachment(name: str) -> dict[str, str]:
    """Headers of an answer that a browser saves under a name (RFC 6266): in ASCII for old clients, and as it is."""
    plain = re.sub("^_+", "file_", re.sub(r"[^A-Za-z0-9._-]+", "_", name))
    more = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return {"Content-Disposition": f'attachment; filename="{plain}"{more}', "X-Content-Type-Options": "nosniff"}
