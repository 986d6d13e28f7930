"""The API as OpenAPI 3.1 tells it, and a page of it for people."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import urlencode

from nmt.serve.names import language_name

_TEXT = {"type": "string"}
_TEXTS = {"oneOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_COUNT = {"type": "integer", "minimum": 0}
_FILE = {"type": "string", "format": "binary"}
_GLOSSARY = {"oneOf": [_TEXT, {"type": "array", "items": {"type": "array", "items": _TEXT}}]}
_DICTIONARIES = {"type": "array", "items": {"type": "object"}}
# Fields by their names, wherever they stand; any other is a text.
_KINDS = {
    "q": _TEXTS,
    "text": _TEXTS,
    "ignore_tags": _TEXTS,
    "alternatives": _COUNT,
    "count": _COUNT,
    "file": _FILE,
    "glossary": _GLOSSARY,
    "dictionaries": _DICTIONARIES,
    "format": {"enum": ["text", "html"]},
    "tag_handling": {"enum": ["html", "xml"]},
}
_EXAMPLES: dict[str, Any] = {
    "q": "Good morning.",
    "text": ["Good morning."],
    "input": "Good morning.",
    "source": "en",
    "target": "de",
    "source_lang": "EN",
    "target_lang": "DE",
    "srcLangCode": "en",
    "trgLangCode": "de",
    "file": "@letter.docx",
    "name": "mine",
    "entries": "train\tZug",
    "entries_format": "tsv",
    "dictionaries": [{"source_lang": "en", "target_lang": "de", "entries": "train\tZug", "entries_format": "tsv"}],
    "document_key": "KEY",
    "ticket": "WORD",
}


@dataclass(frozen=True)
class _Operation:
    """What a method of a path does; needed, more: its fields; body: an example of one that has no fields."""

    method: str
    path: str
    does: str
    answer: str
    needed: Sequence[str] = ()
    more: Sequence[str] = ()
    body: str = ""
    kind: str = "application/json"

    @property
    def in_path(self) -> list[str]:
        """Names of the parts of the path that vary."""
        return re.findall(r"{(\w+)", self.path)

    @property
    def plain_path(self) -> str:
        """Without how much of a path each part takes."""
        return re.sub(r"{(\w+):\w+}", r"{\1}", self.path)

    @property
    def in_query(self) -> bool:
        """Whether the fields stand in the address."""
        return self.method in ("get", "delete")


def _op(method: str, path: str, does: str, answer: str, needed: str = "", more: str = "", **kind: str) -> _Operation:
    return _Operation(method, path, does, answer, needed.split(), more.split(), **kind)


_GLOSSARY_3 = '{"glossary_id": "...", "name": "...", "creation_time": "...", "dictionaries": [...]}'
_REFUSED = "400: this server only translates"
_CALL = (
    "<?xml version='1.0'?><methodCall><methodName>translate</methodName><params><param><value><struct><member>"
    "<name>text</name><value><string>Good morning.</string></value></member></struct></value></param></params></methodCall>"
)

_GROUPS: dict[str, list[_Operation]] = {
    "LibreTranslate": [
        _op(
            *("post", "/translate", "Translate texts. source may be auto; from a language into itself a text stays."),
            '{"translatedText": "...", "alternatives": ["..."], "detectedLanguage": {"confidence": 99.1, "language": "en"}}',
            *("q target", "source format alternatives glossary model api_key"),
        ),
        _op(
            *("post", "/detect", "Say how probable each language of this server is for a text"),
            *('[{"confidence": 90.0, "language": "de"}]', "q", "api_key"),
        ),
        _op(
            "get", "/languages", "Languages and their targets", '[{"code": "de", "name": "German", "targets": ["en"]}]'
        ),
        _op(
            *("post", "/translate_file", "Translate a file", '{"translatedFileUrl": "..."}'),
            *("file target", "source glossary model api_key"),
            kind="multipart/form-data",
        ),
        _op("get", "/download_file/{name}", "A translated file, for ten minutes", "the file"),
        _op("get", "/frontend/settings", "What pages of other servers ask", '{"charLimit": 50000, ...}'),
        _op("post", "/suggest", "Refused: this server learns nothing from its users", "403"),
    ],
    "DeepL": [
        _op(
            *("post", "/v2/translate", "Translate texts"),
            '{"translations": [{"detected_source_language": "DE", "text": "..."}]}',
            *("text target_lang", "source_lang tag_handling ignore_tags split_sentences glossary_id"),
        ),
        _op(
            *("get", "/v2/translate", "The same"),
            *('{"translations": [...]}', "text target_lang", "source_lang tag_handling split_sentences glossary_id"),
        ),
        _op(
            *("post", "/v2/document", "Translate a file", '{"document_id": "...", "document_key": "..."}'),
            *("file target_lang", "source_lang filename glossary_id"),
            kind="multipart/form-data",
        ),
        *(
            operation
            for method in ("post", "get")
            for operation in (
                _op(
                    *(method, "/v2/document/{name}", "How far a file is"),
                    *('{"document_id": "...", "status": "translating", "seconds_remaining": 3}', "document_key"),
                ),
                _op(method, "/v2/document/{name}/result", "A file's translation", "the file", "document_key"),
            )
        ),
        *(
            operation
            for method in ("get", "post")
            for operation in (
                _op(method, "/v2/languages", "Languages", '[{"language": "DE", "name": "German"}]', "", "type"),
                _op(method, "/v2/usage", "Usage since the start", '{"character_count": 100, "character_limit": ...}'),
            )
        ),
        _op("get", "/v2/glossary-language-pairs", "Languages of glossaries", '{"supported_languages": [...]}'),
        _op("get", "/v2/glossaries", "Your glossaries", '{"glossaries": [...]}'),
        _op(
            *("post", "/v2/glossaries", "Keep a glossary of one pair of languages", '{"glossary_id": "...", ...}'),
            *("name source_lang target_lang entries", "entries_format"),
        ),
        _op("get", "/v2/glossaries/{name}", "One of them", '{"glossary_id": "...", ...}'),
        _op("delete", "/v2/glossaries/{name}", "Forget one", "204"),
        _op("get", "/v2/glossaries/{name}/entries", "Its entries", "lines of a phrase, a tab and its translation"),
        _op("get", "/v3/glossaries", "Your glossaries, of any number of languages", '{"glossaries": [...]}'),
        _op("post", "/v3/glossaries", "Keep a glossary", _GLOSSARY_3, "name dictionaries"),
        _op("get", "/v3/glossaries/{name}", "One of them", _GLOSSARY_3),
        _op("patch", "/v3/glossaries/{name}", "Rename it, or add entries", _GLOSSARY_3, "", "name dictionaries"),
        _op("delete", "/v3/glossaries/{name}", "Forget one", "204"),
        _op(
            *("get", "/v3/glossaries/{name}/entries", "Entries of a pair of languages", '{"dictionaries": [...]}'),
            "source_lang target_lang",
        ),
        _op(
            *("put", "/v3/glossaries/{name}/dictionaries", "Replace all entries of a pair of languages"),
            *('{"source_lang": "en", "target_lang": "de", "entry_count": 1}', "source_lang target_lang entries"),
            "entries_format",
        ),
        _op(
            *("delete", "/v3/glossaries/{name}/dictionaries", "Forget a pair of languages", "204"),
            "source_lang target_lang",
        ),
        *(
            _op(method, path, "Refused: rephrasing, style rules and translation memories", _REFUSED)
            for path in (
                "/v2/write/{what}",
                *("/v3/style_rules", "/v3/style_rules/{what:path}"),
                *("/v3/translation_memories", "/v3/translation_memories/{what:path}"),
            )
            for method in ("get", "post", "put", "patch", "delete")
        ),
    ],
    "CAT tools": [
        *(
            _op(
                *(method, "/MTRestService/TranslateJson", "Translate a segment (OPUS-CAT)", '{"translation": "..."}'),
                *("input srcLangCode trgLangCode", "modelTag tokenCode"),
            )
            for method in ("get", "post")
        ),
        _op("get", "/MTRestService/ListSupportedLanguagePairs", "Pairs of languages", '["en-de"]', "", "tokenCode"),
        _op(
            *("get", "/MTRestService/GetLanguagePairModelTags", "Models of a pair of languages", '["small"]'),
            *("srcLangCode trgLangCode", "tokenCode"),
        ),
        _op("get", "/MTRestService/Login", "The token, which is the key", '"..."', "", "tokenCode"),
        _op(
            *("post", "/RPC2", "XML-RPC of Moses, as OmegaT speaks it: translate, system.listMethods"),
            "<methodResponse>...</methodResponse>",
            **{"body": _CALL, "kind": "text/xml"},
        ),
        _op(
            *("post", "/translator/translate", "Translate segments (OpenNMT-py)"),
            '[[{"src": "...", "tgt": "...", "n_best": 1, "pred_score": -0.5}]]',
            body='[{"id": 0, "src": "Good morning."}]',
        ),
        _op(
            "get",
            "/translator/models",
            "Models by their numbers",
            '[{"model_id": 0, "status": "loaded", "name": "..."}]',
        ),
    ],
    "The page": [
        _op(
            *("post", "/api/sentences", "Translate with words, probabilities, attention and terms not followed"),
            *('{"parts": [...], "model": "..."}', "q source target", "alternatives glossary model api_key"),
        ),
        _op(
            *("post", "/api/complete", "Go on with a translation that somebody types"),
            *('{"completions": ["..."]}', "q source target", "typed count model api_key"),
        ),
        _op(
            *("post", "/api/file", "Translate a file, of which /api/progress tells how far it is"),
            *('{"url": "...", "name": "...", "seconds": 600}', "file source target", "ticket glossary model api_key"),
            kind="multipart/form-data",
        ),
        _op("get", "/api/progress", "Sentences of a file that are done", '{"done": 3, "count": 20}', "ticket"),
        _op("get", "/api/models", "Models of this server", '{"models": [...], "limits": {...}}'),
        *(
            _op("get", path, what, answer)
            for path, what, answer in (
                *(("/", "The page", "HTML"), ("/docs", "This page", "HTML")),
                *(("/page.css", "Their looks", "CSS"), ("/page.js", "The page's program", "JavaScript")),
                ("/docs.js", "This page's program", "JavaScript"),
            )
        ),
    ],
    "Operation": [
        _op("get", "/health", "Whether the process answers", '{"status": "ok"}'),
        _op("get", "/ready", "Whether requests are welcome", '{"status": "ready"}'),
        _op("get", "/metrics", "Measures for Prometheus", "text"),
        _op("get", "/spec", "This API as OpenAPI", '{"openapi": "3.1.0", ...}'),
        _op("get", "/openapi.json", "The same", '{"openapi": "3.1.0", ...}'),
    ],
}
_ERRORS = {"400": "A mistake", "403": "No key", "429": "Too often", "503": "Too much waits"}


def openapi() -> dict[str, Any]:
    """The description."""
    from nmt import __version__

    paths: dict[str, Any] = {}
    for group, operations in _GROUPS.items():
        for one in operations:
            paths.setdefault(one.plain_path, {})[one.method] = _described(one) | {"tags": [group]}
    return {"openapi": "3.1.0", "info": {"title": "nmt-serve", "version": __version__}, "paths": paths}


def _described(one: _Operation) -> dict[str, Any]:
    """As OpenAPI has it."""
    parameters = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in one.in_path]
    fields = {name: _KINDS.get(name, _TEXT) for name in (*one.needed, *one.more)}
    told: dict[str, Any] = {"summary": one.does}
    if one.in_query:
        parameters += [
            {"name": name, "in": "query", "required": name in one.needed, "schema": schema}
            for name, schema in fields.items()
        ]
    elif fields:
        schema = {"type": "object", "properties": fields, "required": list(one.needed)}
        kinds = [one.kind, "application/x-www-form-urlencoded"] if one.kind == "application/json" else [one.kind]
        told["requestBody"] = {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}
    elif one.body:
        told["requestBody"] = {"required": True, "content": {one.kind: {"example": one.body}}}
    if parameters:
        told["parameters"] = parameters
    return told | {
        "responses": {"200": {"description": one.answer}} | {n: {"description": d} for n, d in _ERRORS.items()}
    }


# ---------------------------------------------------------------- for people


def _example(one: _Operation, address: str) -> str:
    """A command of curl."""
    command = ["curl"]
    path = re.sub(r"{\w+}", "NAME", one.plain_path)
    given = {name: _EXAMPLES.get(name, "...") for name in one.needed}
    if one.method not in ("get", "post"):
        command.append(f"-X {one.method.upper()}")
    if one.in_query:
        path += "?" + urlencode(given) if given else ""
    elif one.kind == "multipart/form-data":
        command += [f"-F {name}={value}" for name, value in given.items()]
    elif given or one.body:
        told = one.body or json.dumps(given)
        quoted = told.replace("'", '"') if one.kind == "text/xml" else told
        command += [f"-H 'Content-Type: {one.kind}'", f"-d '{quoted}'"]
    elif one.method == "post":
        command.append("-X POST")
    return " ".join([*command, f"'{address}{path}'"])


def _article(one: _Operation, address: str) -> str:
    """An operation as HTML."""
    rows = [
        f'<tr><th scope="row"><code>{name}</code></th><td>'
        + ('<span class="needed">required</span>' if name in one.needed else "optional")
        + "</td></tr>"
        for name in (*one.needed, *one.more)
    ]
    table = f"<table>{''.join(rows)}</table>" if rows else ""
    example = ""
    if not one.answer.startswith(("400", "403")):
        example = (
            f'<div class="example"><pre>{escape(_example(one, address))}</pre><button type="button" hidden>Copy</button>'
            f"</div><p>Answer: <code>{escape(one.answer)}</code></p>"
        )
    return (
        f'<article class="card"><h3><span class="verb">{one.method.upper()}</span> <code>{escape(one.plain_path)}</code>'
        f"</h3><p>{escape(one.does)}</p>{table}{example}</article>"
    )


def _model_row(about: dict[str, Any]) -> str:
    scores = ", ".join(f"{name.upper()} {value:.1f}" for name, value in about["validation"].items() if name == "bleu")
    cells = [
        str(about["name"]),
        f"{language_name(about['source'])} to {language_name(about['target'])}",
        f"{about['parameters'] / 1e6:.1f} million, {about['compute_dtype']}",
        f"{scores} on its validation text after {about['updates']:,} updates" if scores else "",
        str(about["signature"] or ""),
    ]
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def spec_page(address: str, models: Sequence[dict[str, Any]]) -> str:
    """The same as HTML, and what is known of the models. address: that of the server, for the examples."""
    sections = []
    for group, operations in _GROUPS.items():
        shown = {(one.path if one.answer == _REFUSED else (one.method, one.path)): one for one in operations}
        articles = "".join(_article(one, address) for one in shown.values())
        sections.append(f"<section><h2>{escape(group)}</h2>{articles}</section>")
    heads = "".join(
        f'<th scope="col">{one}</th>' for one in ("Model", "Languages", "Parameters", "Quality", "Signature")
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Translate: API</title>'
        '<link rel="icon" href="data:,"><link rel="stylesheet" href="page.css"><script src="docs.js" defer></script></head>'
        '<body><header class="top"><h1>API</h1><nav aria-label="More"><a class="quiet" href="spec">OpenAPI</a>'
        '<a class="quiet" href="./">Translate</a></nav></header><main class="api">'
        f'<section><h2>Models of this server</h2><div class="card scroll" tabindex="0" role="region" aria-label="Models">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(map(_model_row, models))}</tbody></table></div></section>"
        f"{''.join(sections)}</main></body></html>"
    )
