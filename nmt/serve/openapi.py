"""The API as OpenAPI 3.1 tells it, and a page of it for people."""

from __future__ import annotations

import html
from typing import Any

_TEXT = {"type": "string"}
_TEXTS = {"oneOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_COUNT = {"type": "integer", "minimum": 0}
_FILE = {"type": "string", "format": "binary"}

# Path: method, what it does, fields with their schema and whether they are needed, what the answer holds.
_PATHS: dict[str, tuple[str, str, dict[str, tuple[dict[str, Any], bool]], str]] = {
    "/translate": (
        "post",
        "Translate texts (LibreTranslate)",
        {
            "q": (_TEXTS, True),
            "source": (_TEXT, False),
            "target": (_TEXT, True),
            "format": ({"enum": ["text", "html"]}, False),
            "alternatives": (_COUNT, False),
            "api_key": (_TEXT, False),
            "model": (_TEXT, False),
            "glossary": (_TEXT, False),
        },
        '{"translatedText": ..., "alternatives": ..., "detectedLanguage": ...}',
    ),
    "/detect": ("post", "Detect a language", {"q": (_TEXTS, True)}, '[{"confidence": 90.0, "language": "de"}]'),
    "/languages": ("get", "Languages and their targets", {}, '[{"code": "de", "name": "German", "targets": ["en"]}]'),
    "/translate_file": (
        "post",
        "Translate a file; multipart/form-data",
        {
            "file": (_FILE, True),
            "source": (_TEXT, False),
            "target": (_TEXT, True),
            "model": (_TEXT, False),
            "glossary": (_TEXT, False),
        },
        '{"translatedFileUrl": "..."}',
    ),
    "/v2/translate": (
        "post",
        "Translate texts (DeepL)",
        {
            "text": (_TEXTS, True),
            "source_lang": (_TEXT, False),
            "target_lang": (_TEXT, True),
            "tag_handling": ({"enum": ["html", "xml"]}, False),
            "ignore_tags": (_TEXTS, False),
            "split_sentences": (_TEXT, False),
            "glossary_id": (_TEXT, False),
        },
        '{"translations": [{"detected_source_language": "DE", "text": "..."}]}',
    ),
    "/v2/document": (
        "post",
        "Translate a file (DeepL); multipart/form-data",
        {
            "file": (_FILE, True),
            "source_lang": (_TEXT, False),
            "target_lang": (_TEXT, True),
            "filename": (_TEXT, False),
            "glossary_id": (_TEXT, False),
        },
        '{"document_id": "...", "document_key": "..."}',
    ),
    "/v2/document/{name}": (
        "post",
        "How far a file is (DeepL)",
        {"document_key": (_TEXT, True)},
        '{"document_id": "...", "status": "translating", "seconds_remaining": 3}',
    ),
    "/v2/document/{name}/result": (
        "post",
        "A file's translation (DeepL)",
        {"document_key": (_TEXT, True)},
        "the file",
    ),
    "/v2/languages": ("get", "Languages (DeepL)", {"type": (_TEXT, False)}, '[{"language": "DE", "name": "German"}]'),
    "/v2/usage": ("get", "Usage (DeepL)", {}, '{"character_count": 100, "character_limit": ...}'),
    "/v2/glossaries": (
        "post",
        "Keep a glossary (DeepL)",
        {name: (_TEXT, True) for name in ("name", "source_lang", "target_lang", "entries", "entries_format")},
        '{"glossary_id": "...", ...}',
    ),
    "/MTRestService/TranslateJson": (
        "get",
        "Translate a segment (OPUS-CAT)",
        {
            "tokenCode": (_TEXT, False),
            "input": (_TEXT, True),
            "srcLangCode": (_TEXT, True),
            "trgLangCode": (_TEXT, True),
            "modelTag": (_TEXT, False),
        },
        '{"translation": "..."}',
    ),
    "/translator/translate": (
        "post",
        'Translate [{"id": 0, "src": "..."}] (OpenNMT-py)',
        {},
        '[[{"src": "...", "tgt": "...", "n_best": 1, "pred_score": -0.5}]]',
    ),
    "/api/sentences": (
        "post",
        "Translate with words, probabilities and attention",
        {"q": (_TEXT, True), "source": (_TEXT, True), "target": (_TEXT, True), "alternatives": (_COUNT, False)},
        '{"parts": [...]}',
    ),
    "/api/complete": (
        "post",
        "Go on with a translation that somebody types",
        {"q": (_TEXT, True), "source": (_TEXT, True), "target": (_TEXT, True), "typed": (_TEXT, False)},
        '{"completions": ["..."]}',
    ),
    "/api/models": ("get", "Models of this server", {}, '{"models": [...]}'),
    "/health": ("get", "Whether the process answers", {}, '{"status": "ok"}'),
    "/ready": ("get", "Whether requests are welcome", {}, '{"status": "ready"}'),
    "/metrics": ("get", "Measures for Prometheus", {}, "text"),
}


def openapi() -> dict[str, Any]:
    """The description."""
    paths: dict[str, Any] = {}
    for path, (method, summary, fields, answer) in _PATHS.items():
        operation: dict[str, Any] = {"summary": summary, "responses": {"200": {"description": answer}}}
        needed = [name for name, (_, is_needed) in fields.items() if is_needed]
        if method == "get":
            operation["parameters"] = [
                {"name": name, "in": "query", "required": is_needed, "schema": schema}
                for name, (schema, is_needed) in fields.items()
            ]
        elif fields:
            schema = {"type": "object", "properties": {n: s for n, (s, _) in fields.items()}, "required": needed}
            kinds = (
                ["multipart/form-data"]
                if "file" in fields
                else ["application/json", "application/x-www-form-urlencoded"]
            )
            operation["requestBody"] = {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}
        for status, meaning in {"400": "A mistake", "403": "No key", "429": "Too often", "503": "Too much"}.items():
            operation["responses"][status] = {"description": meaning}
        paths[path] = {method: operation}
    from nmt import __version__

    return {"openapi": "3.1.0", "info": {"title": "nmt-serve", "version": __version__}, "paths": paths}


def spec_page() -> str:
    """The same as HTML."""
    rows = []
    for path, (method, summary, fields, answer) in _PATHS.items():
        names = ", ".join(f"<code>{n}</code>" + "" * needed for n, (_, needed) in fields.items()) or "none"
        rows.append(
            f"<h2><code>{method.upper()} {html.escape(path)}</code></h2><p>{html.escape(summary)}</p>"
            f"<p>Fields: {names}</p><pre>{html.escape(answer)}</pre>"
        )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<title>nmt-serve: API</title><style>body{font:1rem/1.5 system-ui;max-width:50rem;margin:2rem auto;"
        "padding:0 1rem}pre{overflow:auto}:root{color-scheme:light dark}</style>"
        '<main><h1>API</h1><p>As OpenAPI: <a href="spec">/spec</a>. <a href="./">To the page</a></p>'
        f"{''.join(rows)}</main></html>"
    )
