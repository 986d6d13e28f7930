"""The routes of the server, as routes.txt lists them, and their description in OpenAPI 3.1."""

from __future__ import annotations

import re
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
    )
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
class Row:
    """A row of the table: a path with its methods, and its required (`needed`) and optional (`more`) fields."""

    methods: tuple[str, ...]
    path: str
    handler: str
    flags: frozenset[str]
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
        return self.group != "Operation" and "open" not in self.flags

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
            "504": "timed" in self.flags,
        }
        return [status for status, holds in may.items() if holds]


@cache
def by_path() -> dict[str, list[Row]]:
    """Return all routes by their paths, which have a row for each of some methods."""
    found: dict[str, list[Row]] = {}
    group = ""
    for line in Path(__file__).with_name("routes.txt").read_text("utf-8").splitlines():
        if line.startswith("# "):
            group = line[2:]
        elif line:
            where, handler, *lists, does, answer = line.split(" | ")
            methods, path = where.split()
            flags, needed, more = (() if names == "-" else tuple(names.split()) for names in lists)
            row = Row(tuple(methods.split(",")), path, handler, frozenset(flags), needed, more, does, answer, group)
            found.setdefault(path, []).append(row)
    return found


@cache
def paths_with(flag: str) -> frozenset[str]:
    """Return the paths that have a flag."""
    return frozenset(path for path, rows in by_path().items() if flag in rows[0].flags)


def openapi(address: str, with_keys: bool) -> dict[str, Any]:
    """Return the OpenAPI description of the server at an address, with or without keys."""
    from nmt import __version__

    paths = {
        path: {method: _described(row, method, with_keys) for row in rows for method in row.methods}
        for path, rows in by_path().items()
    }
    about = {"title": "nmt-serve", "version": __version__}
    keys = {"components": {"securitySchemes": _KEYS}} if with_keys else {}
    return {"openapi": "3.1.0", "info": about, "servers": [{"url": address}], "paths": paths, **keys}


def _described(one: Row, method: str, with_keys: bool) -> dict[str, Any]:
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
