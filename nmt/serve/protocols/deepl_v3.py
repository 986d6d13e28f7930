"""Glossaries of DeepL's API, version 3, each with several language pairs (developers.deepl.com/docs)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt.inference.pivot import base
from nmt.serve.errors import RequestError
from nmt.serve.protocols.deepl import KEY, Entries, Glossaries, Glossary, dictionary_of, new_glossary, tsv_of
from nmt.serve.protocols.libretranslate import asked
from nmt.serve.web import CompactJSON, text_field

Pair = tuple[str, str]

_MOST_DICTIONARIES = 100
_FORM_FIELD = re.compile(r"dictionaries\[(\d{1,3})\]\.(\w+)")


def _about(one: Glossary) -> dict[str, Any]:
    content = [_about_dictionary(pair, entries) for pair, entries in one.dictionaries.items()]
    return {"glossary_id": one.id, "name": one.name, "creation_time": one.created, "dictionaries": content}


def _about_dictionary(pair: Pair, entries: Entries) -> dict[str, Any]:
    return {"source_lang": pair[0], "target_lang": pair[1], "entry_count": len(entries)}


def _dictionaries(request: Request, fields: dict[str, Any]) -> dict[Pair, Entries]:
    """Return the dictionaries of a request: a JSON list, or form fields such as `dictionaries[0].source_lang`. Raises
    RequestError."""
    given = fields.get("dictionaries")
    if given is None:
        rows: dict[int, dict[str, Any]] = {}
        for name, value in fields.items():
            if found := _FORM_FIELD.fullmatch(name):
                rows.setdefault(int(found[1]), {})[found[2]] = value
        given = [rows[number] for number in sorted(rows)]
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise RequestError(400, "dictionaries: must be a list of source_lang, target_lang and entries, got another")
    if len(given) > _MOST_DICTIONARIES:
        raise RequestError(400, f"dictionaries: must be at most {_MOST_DICTIONARIES}, got {len(given):,}; send fewer")
    return dict(dictionary_of(request, one) for one in given)


def _store(request: Request) -> Glossaries:
    found: Glossaries = request.app.state.glossaries
    return found


async def glossaries(request: Request) -> Response:
    """Answer GET and POST /v3/glossaries."""
    _, fields, client = await asked(request, KEY)
    if request.method == "GET":
        return CompactJSON({"glossaries": [_about(one) for one in _store(request).of(client)]})
    found = _dictionaries(request, fields)
    if not found:
        raise RequestError(400, "dictionaries: must be given, got none")
    one = new_glossary(client, text_field(fields, "name"), found)
    _store(request).add(one)
    return CompactJSON(_about(one), status_code=201)


async def glossary(request: Request) -> Response:
    """Answer GET, PATCH and DELETE /v3/glossaries/ID. PATCH renames the glossary and adds entries to its language
    pairs; an existing phrase gets the new translation."""
    _, fields, client = await asked(request, KEY)
    one = _store(request).get(client, request.path_params["name"])
    if request.method == "DELETE":
        _store(request).remove(client, one.id)
        return Response(status_code=204)
    if request.method == "PATCH":
        merged = dict(one.dictionaries)
        for pair, entries in _dictionaries(request, fields).items():
            merged[pair] = tuple((dict(merged.get(pair, ())) | dict(entries)).items())
        one = replace(one, name=text_field(fields, "name", one.name), dictionaries=merged)
        _store(request).add(one)
    return CompactJSON(_about(one))


def _pair(one: Glossary, fields: dict[str, Any]) -> Pair:
    pair = base(text_field(fields, "source_lang")), base(text_field(fields, "target_lang"))
    if pair not in one.dictionaries:
        raise RequestError(404, "dictionary: must be one of the glossary, got another pair of languages; make it first")
    return pair


async def entries(request: Request) -> Response:
    """Answer GET /v3/glossaries/ID/entries."""
    _, fields, client = await asked(request, KEY)
    one = _store(request).get(client, request.path_params["name"])
    pair = _pair(one, fields)
    content = {"source_lang": pair[0], "target_lang": pair[1], "entries": tsv_of(one.dictionaries[pair])}
    return CompactJSON({"dictionaries": [content | {"entries_format": "tsv"}]})


async def dictionaries(request: Request) -> Response:
    """Answer PUT and DELETE /v3/glossaries/ID/dictionaries, which replace or delete all entries of a language pair. A
    glossary without entries is deleted."""
    _, fields, client = await asked(request, KEY)
    one = _store(request).get(client, request.path_params["name"])
    if request.method == "PUT":
        pair, given = dictionary_of(request, fields)
        _store(request).add(replace(one, dictionaries=one.dictionaries | {pair: given}))
        return CompactJSON(_about_dictionary(pair, given))
    pair = _pair(one, fields)
    rest = {other: entries for other, entries in one.dictionaries.items() if other != pair}
    if rest:
        _store(request).add(replace(one, dictionaries=rest))
    else:
        _store(request).remove(client, one.id)
    return Response(status_code=204)


async def not_offered(request: Request) -> Response:
    """Raise RequestError for DeepL features that this server lacks."""
    await asked(request, KEY)
    raise RequestError(400, "rephrasing, style rules and translation memories are not offered by this server")


_ALL = ["GET", "POST", "PUT", "PATCH", "DELETE"]

ROUTES = [
    Route("/v3/glossaries", glossaries, methods=["GET", "POST"]),
    Route("/v3/glossaries/{name}", glossary, methods=["GET", "PATCH", "DELETE"]),
    Route("/v3/glossaries/{name}/entries", entries, methods=["GET"]),
    Route("/v3/glossaries/{name}/dictionaries", dictionaries, methods=["PUT", "DELETE"]),
    Route("/v2/write/{what}", not_offered, methods=_ALL),
    Route("/v3/style_rules", not_offered, methods=_ALL),
    Route("/v3/style_rules/{what:path}", not_offered, methods=_ALL),
    Route("/v3/translation_memories", not_offered, methods=_ALL),
    Route("/v3/translation_memories/{what:path}", not_offered, methods=_ALL),
]
