"""The settings of a server: limits, keys, the pages and names that may use it; and the error that a client gets."""

from __future__ import annotations

import hashlib
import logging
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.errors import ConfigError, DataError
from nmt.serve.routes import paths_with
from nmt.system.lines import read_text
from nmt.system.paths import absent, exists

if TYPE_CHECKING:
    from starlette.types import Scope


class RequestError(Exception):
    """A client's mistake, or a temporary overload of the server. `retry_after`: seconds after which to try again."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after

    @property
    def headers(self) -> dict[str, str]:
        """Return the HTTP headers of the answer."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]{0,30})://(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(?::(\d{1,5}))?")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(?::(\d{0,5}))?")
OWN_SITES = ("same-origin", "none")
_PORTS = {"http": "80", "https": "443"}
_CORS = [
    (b"access-control-allow-headers", b"Authorization, Content-Type, X-Request-Id"),
    (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
    (b"access-control-expose-headers", b"Retry-After, X-Request-Id"),
]

Headers = list[tuple[bytes, bytes]]


class Origins:
    """The pages that may use a server, and the names by which it is asked. Raises ConfigError.

    Args:
        host: The address that the server listens on. On an address of this machine alone it answers to names of this
            machine alone: a page whose own name was made to lead here (DNS rebinding) asks by that name.
        allowed: Origins whose pages may translate, such as https://app.example; `*` is every page.
        hosts: Further names of the server, without ports. On other addresses they are all its names, if any is given.
    """

    def __init__(self, host: str, allowed: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
        self._allowed = {_read_origin(one) for one in allowed}
        self._hosts = {_read_host(one) for one in hosts}
        self._checks_host = bool(self._hosts) or is_of_this_machine(host)
        self._hosts.add(f"[{host}]" if ":" in host else host.lower())

    def admit(self, scope: Scope, has_keys: bool) -> Headers:
        """Return the headers by which a browser lets the asking page read the answer. Raises RequestError: 421 for
        another's name of the server, 403 for another's page. A server with keys leaves it to them."""
        hosts, origins, sites = sender_of(scope)
        host = hosts[-1] if hosts else ""
        self._check_host(host, scope)
        headers, is_allowed = self._headers(origins, has_keys)
        is_linked = scope["path"] in paths_with("linked") or scope["path"].startswith("/download_file/")
        if not (
            has_keys
            or _is_own(host, origins, sites)
            or (is_allowed and scope["path"] in paths_with("plain"))
            or (is_linked and scope["method"] in ("GET", "HEAD"))
        ):
            got = " ".join(origins) or f"a page of another ({' '.join(sites)})"
            way = (
                "a server with --keys lets others do it" if is_allowed else "--allow-origin allows others to translate"
            )
            raise RequestError(403, f"Origin: must be this server's for {scope['path']:.100}, got {got:.100}; {way}")
        return headers

    def _check_host(self, given: str, scope: Scope) -> None:
        """Raise RequestError (421) for a name that is not the server's. A request without any is of no browser."""
        if not self._checks_host or (not given and scope["http_version"] == "1.0"):
            return
        found = _HOST.fullmatch(given.lower())
        name = found[1].removesuffix(".") if found else ""
        if not found or not (name in self._hosts or is_of_this_machine(name.strip("[]"), resolve=False)):
            raise RequestError(
                421, f"Host: must be a name of this server, got {given:.100}; its operator adds one with --allow-host"
            )

    def _headers(self, origins: list[str], has_keys: bool) -> tuple[Headers, bool]:
        """Return the headers for pages of these origins, and whether they are allowed."""
        if "*" in self._allowed or (has_keys and not self._allowed):
            return [(b"access-control-allow-origin", b"*"), *_CORS], True
        if not self._allowed:
            return [], False
        varies = [(b"vary", b"Origin")]
        if len(origins) != 1 or origins[0] not in self._allowed:
            return varies, False
        return [(b"access-control-allow-origin", origins[0].encode("latin-1")), *_CORS, *varies], True


def sender_of(scope: Scope) -> tuple[list[str], list[str], list[str]]:
    """Return the headers Host, Origin and Sec-Fetch-Site in lower case: how a server was asked, and by whose page."""
    names = (b"host", b"origin", b"sec-fetch-site")
    host, origin, site = (
        [value.decode("latin-1").lower() for name, value in scope["headers"] if name == wanted] for wanted in names
    )
    return host, origin, site


def _is_own(host: str, origins: list[str], sites: list[str]) -> bool:
    """Return whether a request is of the server's own page, or of no page. Scripts cannot set these headers. Browsers
    tell the site to servers with TLS and on their own machine alone."""
    if sites:
        return len(sites) == 1 and sites[0] in OWN_SITES
    if not origins:
        return True
    own, there = _ORIGIN.fullmatch(origins[0]), _HOST.fullmatch(host)
    if len(origins) > 1 or own is None or there is None:
        return False
    # The scheme may differ: a proxy speaks TLS.
    default = _PORTS.get(own[1], "")
    return own[1] in _PORTS and (own[2], own[3] or default) == (there[1], there[2] or default)


def is_of_this_machine(host: str, *, resolve: bool = True) -> bool:
    """Return whether an address, or the address of a name, is one that only this machine reaches."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        if not host or not resolve:
            return False
    try:
        return ip_address(socket.gethostbyname(host)).is_loopback
    except (OSError, UnicodeError):
        return False  # listening on it fails, too


def _read_origin(text: str) -> str:
    """Return an origin as browsers write it. Raises ConfigError."""
    if text.strip() == "*":
        return "*"
    found = _ORIGIN.fullmatch(text.strip().lower().removesuffix("/"))
    if found is None or not text.isascii():
        raise ConfigError(
            f"--allow-origin: must be an origin such as https://app.example, or * for every page, got {text!r}; give "
            "scheme, name (xn--... for other letters) and port, without a path"
        )
    scheme, name, port = found.groups()
    return f"{scheme}://{name}" + (f":{int(port)}" if port and port != _PORTS.get(scheme) else "")


def _read_host(text: str) -> str:
    """Return a name of the server in lower case. Raises ConfigError."""
    found = _HOST.fullmatch(text.strip().lower().removesuffix("."))
    if found is None or found[2] is not None or not text.isascii():
        raise ConfigError(
            f"--allow-host: must be a name such as mt.example.org, got {text!r}; give it without scheme, port and path"
        )
    return found[1]


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
    """`models`: folders or bundles; `pivot`: whether two models in a row may translate; `cache`: its bytes; `keys`: a
    file of keys, if any; `allow_origin`, `allow_host`: as in `Origins`. Raises ConfigError."""

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
        """Return the requests per minute by the hash of each key, as the file has them now: one key per line, with a
        tab and its limit if that differs from the usual one. Raises DataError."""
        if self.keys is None:
            return {}
        if not exists(Path(self.keys)):
            raise DataError(absent(self.keys, advice="make it, with one key per line, or omit --keys"))
        if Path(self.keys).stat().st_mode & 0o077:
            text = "%s: must be readable by its user alone, got a file that others can read; chmod 600 it"
            _logger.warning(text, self.keys)
        found: dict[str, int] = {}
        for number, line in enumerate(read_text(self.keys), start=1):
            key, _, limit = line.strip().partition("\t")
            if not key or key.startswith("#"):
                continue
            if any(c.isspace() or not c.isprintable() for c in key):
                raise DataError(
                    f"{self.keys}: line {number} must be a key without spaces, which no header could carry, got one "
                    "with; choose another key, and put a tab before requests a minute"
                )
            if limit and not limit.strip().isdecimal():
                raise DataError(
                    f"{self.keys}: line {number} must be a key, a tab and requests a minute, got {limit!r}; correct "
                    "the line"
                )
            found[hash_of(key)] = int(limit) if limit else self.limits.requests_per_minute
        if not found:
            raise DataError(f"{self.keys}: must contain one key per line, got none; add keys, or omit the option")
        return found


def hash_of(key: str) -> str:
    """Return the SHA-256 of a key, which is kept in its place."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
