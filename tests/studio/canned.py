"""Answers of the studio for states that take long or luck to reach, and a page in a browser that gets them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import nmt

PAGE = Path(nmt.__file__).parent / "studio" / "page"
ADDRESS = "http://127.0.0.1:9123"
EVIL = "<img src=x onerror=alert(1)>"
SIDES = [{"lang": "chr", "name": "Cherokee"}, {"lang": "en", "name": "English"}]
QUALITY = {"near": 31, "partly": 38, "different": 31, "count": 120, "low": 23, "high": 40, "words": False}
ERROR = {"code": "unknown-code", "words": {}, "message": f"photo.jpg: must be a table, got a picture {EVIL}"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def _finding(name: str, level: str, count: int, *actions: str) -> dict[str, Any]:
    found = {"name": name, "level": level, "count": count, "total": 2418, "rows": [12, 80] if actions else []}
    return found | {"actions": actions, "message": "x"}


def _text(number: int, **given: Any) -> dict[str, Any]:
    columns = [{"column": n, "heading": name} for n, name in enumerate(("Cherokee", "English", "Who"), start=1)]
    cells = ("ᎠᎹ ᎠᏆᏚᎵ.", f"I want {EVIL}.", "JS")
    findings = [
        _finding("empty", "error", 9, "leave_out"),
        _finding("encoding", "warning", 1, "leave_out", "keep", "mend"),
        _finding("duplicates", "done", 7),
        _finding("unheard-of", "warning", 2),
    ]
    common = {"id": number, "name": f"stories-{EVIL}.xlsx", "state": "ready", "form": "xlsx"}
    common |= {"rows": 2418, "read": 2402}
    common |= {"heading": 1, "columns": columns, "chosen": [1, 2], "asks": None, "error": None, "decided": {}}
    return common | {"preview": [{"row": n, "cells": cells} for n in (2, 3)], "findings": findings} | given


def _round(number: int, state: str, **given: Any) -> dict[str, Any]:
    common = {"n": number, "state": state, "phase": "training", "minutes": 20, "elapsed": 720}
    common |= {"left": 480, "pairs": 2162}
    return common | {"began": time.time() - 720, "error": None} | given


_BARE = {"columns": [], "preview": [], "findings": []}
_ASKS = [
    _text(2, state="failed", error=ERROR, **_BARE),
    _text(3, state="reading", **_BARE),
    _text(4, state="asks", asks="other", name="a.txt", **_BARE),
    _text(5, state="asks", asks="other", name="b.txt", **_BARE),
    _text(6, state="asks", asks="sheet", sheets=["A", "B"], **_BARE),
    _text(7, state="asks", asks="columns", chosen=None, findings=[]),
]
_NOTHING = [{"lang": None, "name": ""}, {"lang": None, "name": ""}]
_JOBS = [{"id": 1, "kind": "model", "state": "running"}, {"id": 2, "kind": "page", "state": "failed", "error": ERROR}]
_DONE = {"rounds": [_round(1, "done"), _round(2, "done")], "best": 2, "state": "trained", "corrections": 18}
STATES: dict[str, dict[str, Any]] = {
    "empty": {"texts": [], "pairs": 0, "state": "empty", "sides": _NOTHING},
    "text": {},
    "asks": {"texts": _ASKS},
    "starting": {"rounds": [_round(1, "starting", phase="pieces", left=None)], "state": "training"},
    "training": {"rounds": [_round(1, "training", phase="validating")], "state": "training"},
    "paused": {"rounds": [_round(1, "paused")], "state": "paused"},
    "failed": {"rounds": [_round(1, "failed", error=ERROR)], "state": "paused"},
    "done": _DONE | {"permission": "agreed", "shared": [{"name": "translator.html", "bytes": 7123456}]},
    "busy": _DONE | {"jobs": _JOBS},
}
"""What differs in projects of these names."""
SCREENS = [
    tuple(one.split("/"))
    for one in (
        "/ new/ empty/text text/text asks/text text/train starting/train training/train paused/train failed/train "
        "done/train done/look text/look done/use done/share busy/share gone/text"
    ).split()
]
"""Every screen in its states: project and step."""


def project(name: str) -> dict[str, Any]:
    """Return a project."""
    common: dict[str, Any] = {"id": name, "name": f"Cherokee {EVIL}", "purpose": "suggestions", "sides": SIDES}
    common |= {"direction": [0, 1], "origin": EVIL, "permission": "", "contact": "", "texts": [_text(1)], "pairs": 2162}
    common |= {"held": {"dev": 120, "test": 120}, "rounds": [], "best": None, "corrections": 0}
    common |= {"state": "text", "enough": "few"}
    return common | {"jobs": [], "shared": [], "room": None} | STATES[name]


_SAMPLES = [
    {"seconds": at, "lines": [{"source": f"ᎠᎹ {EVIL}", "reference": "I want water.", "translation": text}] * 3}
    for at, text in ((60, "I am the."), (240, "I want to go."), (700, f"I want {EVIL}"))
]
_LINES = [
    {"line": n, "source": f"ᎠᎹ ᎠᏆᏚᎵ {n}. " * 15, "reference": "I want water. " * 15}
    | {"translation": f"I {n} {EVIL}", "chrf": 3 * n, "confidence": 0.6, "unseen": ["ᎠᎹ"], "verdict": None}
    for n in range(30)
]
_CURVES = [[[100 * n, n, 30 * n / (n + 1)] for n in range(20)]]
REPORT: dict[str, Any] = {
    "state": "ready",
    "quality": QUALITY,
    "judged": None,
    "headline": "letters",
    "lines": _LINES,
    "sentences": [
        {"code": "few-passes", "words": {"n": 4, "usual": 40, "minutes": 18}, "do": "train"},
        {"code": "unseen", "words": {"n": 62, "count": 120}, "do": "add"},
    ],
    "useful": ["suggestions"],
    "before": {"n": 1, "quality": QUALITY, "better": "perhaps", "low": -2, "high": 9},
    "groups": [{"code": code, "near": 30, "count": 30} for code in ("short", "middle", "long", "unseen")],
    "unseen": [{"word": "ᎠᎹ", "count": 3, "examples": [EVIL]}],
    "help": [{"code": "more", "words": {}}, {"code": "correct", "words": {}}],
    "calibration": [{"confidence": 0.1 * n, "kept": 0.09 * n, "lines": 14} for n in range(10)],
    "experts": {
        "runs": ["rounds/2"],
        "warnings": ["careful"],
        "pictures": {},
        "charts": [{"title": "chrF", "curves": _CURVES, "bands": [[[100 * n, 1.5] for n in range(20)]]}],
        "tables": [{"title": "Runs", "heads": ["run", "BLEU"], "rows": [["rounds/2", "16.4"]]}],
    },
}
FORECAST = {
    "pairs": 2162,
    "enough": "few",
    "expect": {"pairs": 4000, "minutes": 15, "chrf": 30.9, "chrf_elsewhere": 19.8},
    "choices": [{"minutes": minutes, "recommended": minutes == 30} for minutes in (5, 30, 480)],
    "warnings": [{"code": "battery", "words": {"percent": 55}}],
    "stops": False,
}
NO_SUCH = {"error": {"code": "no-such-project", "words": {}, "message": "none"}}


def answer(method: str, url: str) -> tuple[int, Any]:
    """Return status and JSON of a request to the studio."""
    parts, query = urlparse(url).path.strip("/").split("/")[1:], parse_qs(urlparse(url).query)
    if parts == ["state"]:
        briefs = [project(name) | {"rounds": 1, "changed": time.time(), "broken": None} for name in STATES]
        facts = {"folder": "Translators", "cloud": None, "running": None, "languages": ["en", "es", "ar"]}
        return 200, facts | {"purposes": ["suggestions", "gist", "words", "lesson"], "projects": briefs}
    if parts == ["projects"]:
        return 200, project("text")
    if parts == ["use"]:
        return 200, {"at": "/try/"}
    if parts[0] != "projects" or parts[1] not in STATES:
        return 404, NO_SUCH
    found = project(parts[1])
    match parts[2:]:
        case ["forecast"]:
            return 200, FORECAST
        case ["texts", _, "rows"]:
            row = {"row": 12, "source": EVIL, "target": "", "out": False}
            return 200, {"total": 40, "rows": [row | {"row": 12 + n} for n in range(20)]}
        case ["rounds", number, "progress"]:
            told = query["from"] == ["0"] and parts[1] != "starting"
            points = [{"seconds": 60 * n, "chrf": 3 * n} for n in range(1, 12)] if told else []
            common = {"round": found["rounds"][int(number) - 1], "next": 9, "alive": time.time() - 1, "passes": 12.3}
            return 200, common | {"points": points, "samples": _SAMPLES if told else []}
        case ["rounds", _, "report"]:
            return 200, REPORT
    return 200, found


def serve(context: Any, words: dict[str, str] | None = None, sent: list[str] | None = None) -> None:
    """Answer all requests of a browser's context: files of the page, and canned states. `words` are those of the
    language `ar`; `sent` gets what is asked by methods other than GET."""

    def handle(route: Any) -> None:
        path, kind = urlparse(route.request.url).path, "application/json"
        if route.request.method != "GET" and sent is not None:
            sent.append(f"{route.request.method} {path} {route.request.post_data or ''}")
        if path.startswith("/studio/"):
            status, body = answer(route.request.method, route.request.url)
            route.fulfill(status=status, body=json.dumps(body), content_type=kind)
        elif path.startswith("/try/"):
            page = "<!doctype html><html lang=en><title>Translate</title><h1>Translate</h1>"
            route.fulfill(body=page, content_type="text/html")
        elif path.endswith("/ar.json") and words:
            route.fulfill(body=json.dumps(words), content_type=kind)
        else:
            file = PAGE / (path.removeprefix("/page/") if path != "/" else "index.html")
            kinds = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}
            headers = {"Content-Type": kinds.get(file.suffix, kind) + "; charset=utf-8"}
            status, body = (200, file.read_bytes()) if file.is_file() else (404, "{}")
            route.fulfill(status=status, body=body, headers=headers | {"Content-Security-Policy": POLICY})

    context.route("**/*", handle)
