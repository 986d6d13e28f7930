"""The API description in OpenAPI 3.1; the routes are listed in routes.txt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_TEXT = {"type": "string"}
_TEXTS = {"oneOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_COUNT = {"type": "integer", "minimum": 0}
# Types of fields by name, the same in all routes; any other field is a text.
_KINDS: dict[str, dict[str, Any]] = {
    "q": _TEXTS,
    "text": _TEXTS,
    "ignore_tags": _TEXTS,
    "alternatives": _COUNT,
    "count": _COUNT,
    "number": _COUNT,
    "confidence": {"type": "boolean", "default": False},
    "file": {"type": "string", "format": "binary"},
    "glossary": {"oneOf": [_TEXT, {"type": "array", "items": {"type": "array", "items": _TEXT}}]},
    "format": {"enum": ["text", "html"]},
    "tag_handling": {"enum": ["html", "xml"]},
}
# Content type and example of bodies that are not fields.
_BODIES = {
    "/RPC2": (
        "text/xml",
        '<?xml version="1.0"?><methodCall><methodName>translate</methodName><params><param><value><struct><member>'
        "<name>text</name><value>Good morning.</value></member></struct></value></param></params></methodCall>",
    ),
}
_ERRORS = {
    "400": "A mistake in the request",
    "403": "No key of this server",
    "404": "No such thing, or no longer",
    "408": "The body came too slowly",
    "413": "The body is too long",
    "429": "Too many requests; see Retry-After",
    "503": "Too much waits, or the server is ending; see Retry-After",
    "504": "It took too long",
}
_OPEN = frozenset(
    "/ /page.css /page.js /learn.js /api/models /api/progress /languages /download_file/{name} "
    "/frontend/settings /MTRestService/Login".split()
)
"""Paths that need no key, besides the group Operation."""
_TRANSLATES = frozenset(
    "/translate /translate_file /v2/translate /MTRestService/TranslateJson /RPC2 /api/sentences "
    "/api/complete /api/file".split()
)
_KEYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "deepl": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "The word DeepL-Auth-Key, a space, and the key",
    },
}
"""Headers for a key; most routes take it as a field as well."""


@dataclass(frozen=True)
class _Route:
    """A path with its methods, and its required (`needed`) and optional (`more`) fields."""

    methods: tuple[str, ...]
    path: str
    needed: tuple[str, ...]
    more: tuple[str, ...]
    does: str
    answer: str
    group: str

    @property
    def kind(self) -> str:
        """Return the media type of the request body."""
        return "multipart/form-data" if "file" in self.needed else _BODIES.get(self.path, ("application/json", ""))[0]

    @property
    def wants_key(self) -> bool:
        """Return whether it answers 403 without a key, on a server with keys."""
        return self.group != "Operation" and self.path not in _OPEN

    def errors(self, method: str, with_keys: bool) -> list[str]:
        """Return the statuses of errors that a method of it may answer."""
        may = {
            "400": True,
            "403": (self.wants_key and with_keys) or self.path == "/suggest",
            "404": "{" in self.path and not self.does.startswith("Refused") or "glossary_id" in self.more,
            "408": method in ("post", "put", "patch"),
            "413": method in ("post", "put", "patch"),
            "429": self.wants_key,
            "503": self.path not in ("/health", "/metrics"),
            "504": self.path in _TRANSLATES,
        }
        return [status for status, holds in may.items() if holds]


@cache
def _routes() -> tuple[_Route, ...]:
    """Return all routes."""
    return tuple(_read(Path(__file__).with_name("routes.txt").read_text("utf-8")))


def _read(text: str) -> Iterator[_Route]:
    group = ""
    for line in text.splitlines():
        if line.startswith("# "):
            group = line[2:]
        elif line:
            where, needed, more, does, answer = line.split(" | ")
            methods, path = where.split()
            given, other = (() if names == "-" else tuple(names.split()) for names in (needed, more))
            yield _Route(tuple(methods.split(",")), re.sub(r":\w+}", "}", path), given, other, does, answer, group)


def openapi(address: str, with_keys: bool) -> dict[str, Any]:
    """Return the OpenAPI description of the server at an address, with or without keys."""
    from nmt import __version__

    paths: dict[str, Any] = {}
    for one in _routes():
        paths.setdefault(one.path, {}).update({method: _described(one, method, with_keys) for method in one.methods})
    about = {"title": "nmt-serve", "version": __version__}
    keys = {"components": {"securitySchemes": _KEYS}} if with_keys else {}
    return {"openapi": "3.1.0", "info": about, "servers": [{"url": address}], "paths": paths, **keys}


def _described(one: _Route, method: str, with_keys: bool) -> dict[str, Any]:
    """Return the description of one method of a path."""
    in_path = re.findall(r"{(\w+)}", one.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in in_path]
    fields = {name: _KINDS.get(name, _TEXT) for name in (*one.needed, *one.more)}
    operation: dict[str, Any] = {"summary": one.does, "tags": [one.group]}
    if method in ("get", "delete"):
        parameters += [
            {"name": name, "in": "query", "required": name in one.needed, "schema": schema}
            for name, schema in fields.items()
        ]
    elif fields:
        schema = {"type": "object", "properties": fields, "required": list(one.needed)}
        kinds = [one.kind, *(["application/x-www-form-urlencoded"] if one.kind == "application/json" else [])]
        operation["requestBody"] = {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}
    elif one.path in _BODIES:
        operation["requestBody"] = {"required": True, "content": {one.kind: {"example": _BODIES[one.path][1]}}}
    if parameters:
        operation["parameters"] = parameters
    if with_keys and one.wants_key:
        operation["security"] = [{name: []} for name in _KEYS]
    answers = {"200": one.answer} | {status: _ERRORS[status] for status in one.errors(method, with_keys)}
    return operation | {"responses": {status: {"description": meaning} for status, meaning in answers.items()}}
