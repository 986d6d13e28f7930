"""Files that are translated, and kept for a while until somebody fetches them."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from pathlib import PurePath

from nmt.documents.document import SUFFIXES
from nmt.serve.errors import RequestError

_SECONDS = 600.0
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
        old = time.monotonic() - _SECONDS
        while self._kept and next(iter(self._kept.values()))[0] < old:
            self._kept.popitem(last=False)
