"""Decide which web pages may use the server: a browser sends requests of any page, and tells in headers whose it is."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING

from nmt.errors import ConfigError
from nmt.serve.errors import RequestError

if TYPE_CHECKING:
    from starlette.types import Scope

_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]{0,30})://(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(?::(\d{1,5}))?")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(?::(\d{0,5}))?")
OWN_SITES = ("same-origin", "none")
_PORTS = {"http": "80", "https": "443"}
_LINKED = frozenset("/ /page.css /page.js /learn.js /spec /openapi.json /health /ready /metrics".split())
_PLAIN = frozenset(
    "/translate /detect /languages /frontend/settings /v2/translate /v2/languages /v2/usage /RPC2 /api/models "
    "/api/sentences /api/complete /MTRestService/TranslateJson /MTRestService/ListSupportedLanguagePairs "
    "/MTRestService/GetLanguagePairModelTags /MTRestService/Login".split()
)
"""Paths of plain translation, which teach nothing, read no file and keep nothing: for pages of allowed origins."""
_CORS = [
    (b"access-control-allow-headers", b"Authorization, Content-Type, X-Request-Id"),
    (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
    (b"access-control-expose-headers", b"Retry-After, X-Request-Id"),
]

Headers = list[tuple[bytes, bytes]]


class Origins:
    """The pages that may use a server, and the names by which it is asked.

    Args:
        host: The address that the server listens on. On an address of this machine alone it answers to names of this
            machine alone: a page whose own name was made to lead here (DNS rebinding) asks by that name.
        allowed: Origins whose pages may translate, such as https://app.example; `*` is every page.
        hosts: Further names of the server, without ports. On other addresses they are all its names, if any is given.

    Raises:
        ConfigError: An origin or a name is none.
    """

    def __init__(self, host: str, allowed: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
        self._allowed = {_read_origin(one) for one in allowed}
        self._hosts = {_read_host(one) for one in hosts}
        self._checks_host = bool(self._hosts) or is_of_this_machine(host)
        self._hosts.add(f"[{host}]" if ":" in host else host.lower())

    def admit(self, scope: Scope, has_keys: bool) -> Headers:
        """Return the headers by which a browser lets the page that asks read the answer. Raises RequestError: 421 for
        another's name of the server, 403 for another's page. A server with keys leaves it to them: a page without one
        gets nothing."""
        hosts, origins, sites = sender_of(scope)
        host = hosts[-1] if hosts else ""
        self._check_host(host, scope)
        headers, is_allowed = self._headers(origins, has_keys)
        is_linked = scope["path"] in _LINKED or scope["path"].startswith("/download_file/")
        if not (
            has_keys
            or _is_own(host, origins, sites)
            or (is_allowed and scope["path"] in _PLAIN)
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
    """Return the headers that say by which name a server was asked, and by whose page: Host, Origin and
    Sec-Fetch-Site, in lower case."""
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
