"""The settings of a server."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from pathlib import Path

from nmt.errors import DataError
from nmt.serve.origins import Origins
from nmt.system.lines import read_text
from nmt.system.paths import absent, exists

_logger = logging.getLogger("nmt.serve")


@dataclass(frozen=True)
class Limits:
    """Limits of a request; 0 is no limit. `characters` counts all its texts together. `all_bytes` limits the bodies of
    all concurrent requests, of which one client may have a quarter, or one file."""

    characters: int = 50_000
    texts: int = 1_000
    alternatives: int = 4
    requests_per_minute: int = 0
    body_bytes: int = 2 * 2**20
    file_bytes: int = 20 * 2**20
    body_seconds: float = 30.0
    seconds: float = 300.0
    file_seconds: float = 3600.0
    waiting: int = 20_000
    all_bytes: int = 128 * 2**20


@dataclass(frozen=True)
class ServerSettings:
    """`models`: folders or bundles; `pivot`: whether two models in a row may translate; `cache`: bytes for translations
    of former sentences; `keys`: a file of keys, None for a server without keys; `learn`: whether models learn from
    confirmed pairs; `allow_origin`, `allow_host`: as in `Origins`. Raises ConfigError."""

    models: tuple[Path, ...]
    host: str = "127.0.0.1"
    port: int = 5000
    threads: int = 1
    checkpoint: str | None = None
    compute_dtype: str | None = None
    shortlist: bool = False
    cells: tuple[str, ...] = ()
    split: bool = True
    log_texts: bool = False
    pivot: bool = True
    cache: int = 64 * 2**20
    limits: Limits = field(default_factory=Limits)
    keys: str | None = None
    learn: bool = False
    allow_origin: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    origins: Origins = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:  # an origin that is none is refused before models are loaded
        object.__setattr__(self, "origins", Origins(self.host, self.allow_origin, self.allow_host))

    def read_keys(self) -> dict[str, int]:
        """Return the requests per minute by the hash of each key, from the file's current contents. Raises
        DataError."""
        return {} if self.keys is None else read_keys(self.keys, self.limits.requests_per_minute)


def hash_of(key: str) -> str:
    """Return the SHA-256 of a key, which is kept in its place."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def read_keys(path: str, default: int) -> dict[str, int]:
    """Return the requests per minute by the hash of each key in a file: one key per line, with a tab and its limit if
    that differs from `default`. Raises DataError."""
    if not exists(Path(path)):
        raise DataError(absent(path, advice="make it, with one key per line, or omit --keys"))
    if Path(path).stat().st_mode & 0o077:
        _logger.warning("%s: must be readable by its user alone, got a file that others can read; chmod 600 it", path)
    found: dict[str, int] = {}
    for number, line in enumerate(read_text(path), start=1):
        key, _, limit = line.strip().partition("\t")
        if not key or key.startswith("#"):
            continue
        if any(c.isspace() or not c.isprintable() for c in key):
            raise DataError(
                f"{path}: line {number} must be a key without spaces, which no header could carry, got one with; "
                "choose another key, and put a tab before requests a minute"
            )
        if limit and not limit.strip().isdecimal():
            raise DataError(
                f"{path}: line {number} must be a key, a tab and requests a minute, got {limit!r}; correct the line"
            )
        found[hash_of(key)] = int(limit) if limit else default
    if not found:
        raise DataError(f"{path}: must contain one key per line, got none; add keys, or omit the option")
    return found
