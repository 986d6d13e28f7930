"""The routes of the studio: JSON for its page, files to give away, and under /try the server's own application."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

import nmt
from nmt.data.corpora.language_names import language_of
from nmt.report import read_run, report_page
from nmt.rnn.cores import default_threads
from nmt.serve.detection import language_name
from nmt.serve.files import attachment
from nmt.studio.children import Children
from nmt.studio.errors import Refused
from nmt.studio.held import read_pairs, write_pairs
from nmt.studio.preparing import CORRECTIONS, LEAST_PAIRS, corrections
from nmt.studio.projects import PURPOSES, SHARED, TEXTS, Project, Projects, read_json, safe_name, write_json
from nmt.studio.quality import LEAST_JUDGED, judged
from nmt.studio.rounds import Round, best_round
from nmt.studio.sharing import KINDS, share
from nmt.studio.texts import KEEP, LEAVE_OUT, MEND, Rows
from nmt.studio.trying import Trying
from nmt.system.files import explain, replacing

PAGE = Path(__file__).parent / "page"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json"}
MOST_UPLOAD, _MOST_BODY, _ROOM = 500 * 2**20, 2**20, 64 * 2**20
_FREE, _MEMORY = 700 * 2**20, 1500 * 2**20
"""Bytes that a training needs on the disk, and in memory."""
_MINUTES = (5, 30, 480)
_NEIGHBOUR = 1.5
"""The factor of pairs within which a measured point is a neighbour."""


class State:
    """What the routes share."""

    def __init__(self, folder: Path, quit: Callable[[], None]) -> None:
        self.projects, self.quit = Projects(folder), quit
        self.trying = Trying()
        self.children = Children(self.save_corrections)
        self.measured = json.loads((Path(__file__).parent / "measured.json").read_text("utf-8"))

    def save_corrections(self, project: Project) -> None:
        """Write what was confirmed in all rounds to the texts."""
        found = corrections(project, self.trying.memories())
        if found or (project.folder / TEXTS / CORRECTIONS).is_file():
            write_pairs(project.folder / TEXTS / CORRECTIONS, found)

    def doing(self, project: Project, number: int) -> str:
        """Return what is done with a round now; see `Round.view`."""
        now = self.children.training
        if now is not None and (now.project.id, now.round.number) == (project.id, number):
            return now.wish or "train"
        return "test" if self.children.has(project, kind="test", round=number) else ""

    def recover(self) -> None:
        """Go on with what an earlier studio has left: texts that were not read, rounds that were not tested."""
        for project in self.projects.all():
            try:
                for entry in project.values["texts"]:
                    if not project.text_file(entry["id"], ".json").is_file():
                        self.read(project, entry["id"])
                for number in project.rounds():
                    one = Round(project, number)
                    if one.has_ended and one.report is None and one.error is None:
                        self.children.test(project, one)
            except Refused:
                continue  # the list shows it as broken

    def read(self, project: Project, number: int) -> None:
        """Begin to read a text, or the text of which it is a half."""
        entry = project.text(number)
        sides = project.values["sides"]
        other = project.text(entry["with"]) if entry["with"] else None
        given = {
            "file": str(project.folder / TEXTS / entry["file"]),
            "name": entry["name"],
            "other": other and str(project.folder / TEXTS / other["file"]),
            "other_name": other and other["name"],
            "table": str(project.text_file(number, ".tsv")),
            "langs": [side["lang"] for side in sides],
            **{name: entry[name] for name in ("columns", "header", "sheet", "swap")},
        }

        async def work() -> None:
            facts = project.text_file(number, ".json")
            facts.unlink(missing_ok=True)
            try:
                await self.children.read(project, given)
            except Refused as error:
                write_json(facts, {"state": "failed", "error": error.to_dict()})
            self._name_sides(project, number)
            self._pair(project, number)

        self.children.run(project, "read", work, text=number)

    def _name_sides(self, project: Project, number: int) -> None:
        """Name the project's sides by the first text."""
        facts = read_json(project.text_file(number, ".json")) or {}
        if facts.get("state") != "ready":
            return
        with project.changing() as values:
            headings = {one["column"]: one["heading"] for one in facts.get("columns", ())}
            for place, side in enumerate(values["sides"]):
                column = (facts.get("chosen") or [None, None])[place]
                side["lang"] = side["lang"] or facts["langs"][place]
                name = language_name(side["lang"]) if side["lang"] else ""
                side["name"] = side["name"] or (name if name != side["lang"] else "") or headings.get(column) or ""

    def _pair(self, project: Project, number: int) -> None:
        """Join two texts of one language each that came without a question left: the only two, of as many lines."""
        alone = []
        for entry in project.values["texts"]:
            facts = read_json(project.text_file(entry["id"], ".json")) or {}
            if facts.get("asks") == "other" and not entry["with"] and not entry["part_of"]:
                alone.append((entry["id"], facts))
        if len(alone) == 2 and number in (alone[0][0], alone[1][0]) and alone[0][1]["rows"] == alone[1][1]["rows"]:
            self.join(project, alone[0][0], alone[1][0])

    def join(self, project: Project, number: int, other: int) -> None:
        """Make a text the other half of one."""
        sides = [side["lang"] and language_of(side["lang"]) for side in project.values["sides"]]
        langs = [(read_json(project.text_file(n, ".json")) or {}).get("langs", [None])[0] for n in (number, other)]
        with project.changing() as values:
            entries = {one["id"]: one for one in values["texts"]}
            if number == other or number not in entries or other not in entries:
                raise Refused("no-such-text")
            turned = langs[0] is not None and langs[0] == sides[1] or langs[1] is not None and langs[1] == sides[0]
            first, last = (other, number) if turned else (number, other)
            entries[first]["with"], entries[last]["part_of"] = last, first
            entries[first]["part_of"] = entries[last]["with"] = None
        self.read(project, first)


# ------------------------------------------------------------ what a project looks like


def brief(state: State, project: Project) -> dict[str, Any]:
    """Return the line of a project in the list."""
    try:
        values = project.values
        rounds = project.rounds()
        reported = any(Round(project, number).report is not None for number in rounds)
        now = state.children.training
        is_trained = now is not None and now.project.id == project.id
        stage = "training" if is_trained else "trained" if reported else "paused" if rounds else ""
        stage = stage or ("text" if values["texts"] else "empty")
        pairs = sum(Rows(project, entry).usable for entry in values["texts"])
        known = {name: values[name] for name in ("name", "sides", "changed", "purpose")}
        return {"id": project.id, **known, "pairs": pairs, "rounds": len(rounds), "state": stage, "broken": None}
    except Refused as error:
        return {"id": project.id, "name": project.folder.name, "state": "broken", "broken": error.to_dict()}


def whole(state: State, project: Project) -> dict[str, Any]:
    """Return all of a project."""
    values = project.values
    names = ("name", "purpose", "sides", "direction", "origin", "permission", "contact")
    found = brief(state, project)
    memory = project.folder / TEXTS / CORRECTIONS
    in_use = state.trying.count(project)
    return {
        **found,
        **{name: values[name] for name in names},
        "folder": str(project.folder),
        "texts": [Rows(project, entry).view(entry) for entry in values["texts"]],
        "held": {kind: len(read_pairs(project.folder / "held" / f"{kind}.tsv")) for kind in ("dev", "test")},
        "rounds": [Round(project, number).view(state.doing(project, number)) for number in project.rounds()],
        "best": best_round(project),
        "corrections": max(in_use, len(read_pairs(memory))),
        "jobs": state.children.of(project),
        "shared": project.shared(),
        "room": state.trying.room_of(project),
    }


# ------------------------------------------------------------ routes

Answer = dict[str, Any] | list[Any] | Response
Handler = Callable[[State, Request], Awaitable[Answer]]
_ROUTES: list[tuple[str, str, Handler]] = []
P, T, R = (
    "/studio/projects/{project}",
    "/studio/projects/{project}/texts/{text}",
    "/studio/projects/{project}/rounds/{round}",
)


def route(method: str, path: str) -> Callable[[Handler], Handler]:
    """Add a handler to the table of routes."""

    def add(handler: Handler) -> Handler:
        _ROUTES.append((method, path, handler))
        return handler

    return add


def _project(state: State, request: Request) -> Project:
    return state.projects.get(request.path_params["project"])


def _number(request: Request, name: str) -> int:
    given = request.path_params[name]
    if not given.isascii() or not given.isdecimal() or len(given) > 9:
        raise Refused(f"no-such-{name}")
    return int(given)


def _round(state: State, request: Request) -> tuple[Project, Round]:
    project = _project(state, request)
    return project, Round(project, _number(request, "round"))


def _count(request: Request, name: str, default: int, most: int) -> int:
    given = request.query_params.get(name, str(default))
    if not given.isascii() or not given.isdecimal() or len(given) > 18:
        raise Refused("bad-request", what=name, wanted="a whole number")
    return min(int(given), most)


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON of a request. Raises Refused."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused("not-json")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _MOST_BODY:
            raise Refused("too-large", most=_MOST_BODY)
        parts.append(part)
    try:
        found = json.loads(b"".join(parts) or b"{}")
    except (ValueError, RecursionError):
        raise Refused("not-json") from None
    if not isinstance(found, dict):
        raise Refused("not-json")
    return found


def _chosen(given: dict[str, Any], name: str, choices: tuple[Any, ...], default: Any = None) -> Any:
    value = given.get(name, default)
    if value not in choices or isinstance(value, bool) != any(isinstance(one, bool) for one in choices if one == value):
        raise Refused("bad-request", what=name, wanted=f"one of {', '.join(map(str, choices))}")
    return value


@route("GET", "/studio/state")
async def studio_state(state: State, request: Request) -> Answer:
    """Answer what the first screen shows."""
    now, folder = state.children.training, state.projects.folder
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    return {
        "version": nmt.__version__,
        "folder": str(folder),
        "cloud": state.projects.cloud,
        "languages": sorted(_strings(state)),
        "cores": default_threads(),
        "memory": psutil.virtual_memory().total,
        "free": state.projects.free(),
        "battery": None if battery is None else {"percent": round(battery.percent), "plugged": battery.power_plugged},
        "running": None if now is None else {"project": now.project.id, "round": now.round.number},
        "use": state.trying.about(),
        "purposes": list(PURPOSES),
        "projects": await asyncio.to_thread(lambda: [brief(state, one) for one in state.projects.all()]),
    }


@route("POST", "/studio/projects")
async def make(state: State, request: Request) -> Answer:
    """Make a project, empty or with the example's texts."""
    given = await _body(request)
    project = state.projects.make(given.get("name", ""))
    return whole(state, project)


@route("GET", P)
async def project_of(state: State, request: Request) -> Answer:
    """Answer all of a project."""
    project = _project(state, request)
    return await asyncio.to_thread(whole, state, project)


@route("POST", P)
async def change(state: State, request: Request) -> Answer:
    """Change a project."""
    project = _project(state, request)
    project.change(await _body(request))
    return await asyncio.to_thread(whole, state, project)


@route("POST", f"{P}/texts")
async def add_text(state: State, request: Request) -> Answer:
    """Take a file as it comes, and read it."""
    project = _project(state, request)
    name = request.query_params.get("name", "")[:200] or "text.txt"
    announced = request.headers.get("content-length", "")
    size = int(announced[:18]) if announced.isascii() and announced.isdecimal() else 0
    if size > MOST_UPLOAD:
        raise Refused("too-large", most=MOST_UPLOAD)
    if (free := state.projects.free()) < 3 * size + _ROOM:
        raise Refused("disk-full", need=3 * size + _ROOM, free=free)
    number = max([0, *(one["id"] for one in project.values["texts"])], default=0) + 1
    file = project.folder / TEXTS / f"{number:03d}-{safe_name(name)}"
    try:
        file.parent.mkdir(exist_ok=True)
        with replacing(file, sync=True) as aside, aside.open("wb") as stream:
            taken = 0
            async for part in request.stream():
                taken += len(part)
                if taken > MOST_UPLOAD:
                    raise Refused("too-large", most=MOST_UPLOAD)
                await asyncio.to_thread(stream.write, part)
    except OSError as error:
        raise Refused("not-written", why=explain(error)) from None
    entry = {
        "id": number,
        "name": safe_name(name),
        "file": file.name,
        "bytes": taken,
        "added": time.time(),
        "weight": 1,
    }
    entry |= dict.fromkeys(("columns", "header", "sheet", "with", "part_of"), None)
    entry |= {"swap": False, "decided": {}, "rows_out": {}, "mended": {}}
    with project.changing() as values:
        values["texts"].append(entry)
    state.read(project, number)
    return Rows(project, entry).view(entry)


@route("GET", T)
async def text_of(state: State, request: Request) -> Answer:
    """Answer a text."""
    project = _project(state, request)
    return await asyncio.to_thread(_text_view, project, _number(request, "text"))


def _text_view(project: Project, number: int) -> dict[str, Any]:
    entry = project.text(number)
    return Rows(project, entry).view(entry)


@route("POST", T)
async def read_again(state: State, request: Request) -> Answer:
    """Read a text again, with what the user says of it."""
    project, number, given = _project(state, request), _number(request, "text"), await _body(request)
    if "kind" in given:
        kinds = (read_json(project.text_file(number, ".json")) or {}).get("kinds", [])
        chosen = _chosen({"kind": str(given["kind"])}, "kind", tuple(map(str, range(len(kinds)))))
        given["columns"] = kinds[int(chosen)][:2]
    columns = given.get("columns")
    if columns is not None and not (
        isinstance(columns, list)
        and len(columns) == 2
        and all(isinstance(one, str | int) and not isinstance(one, bool) and one for one in columns)
    ):
        raise Refused("bad-request", what="columns", wanted="two numbers or names")
    if not isinstance(given.get("sheet"), str | None):
        raise Refused("bad-request", what="sheet", wanted="a name")
    with project.changing_text(number) as entry:
        for name in ("columns", "sheet"):
            if name in given:
                entry[name] = given[name]
        if "header" in given:
            entry["header"] = _chosen(given, "header", (True, False, None))
        if given.get("swap") is True:
            entry["swap"] = not entry["swap"]
        entry["rows_out"], entry["mended"] = {}, {}
    if given.get("with") is not None:
        state.join(project, number, _chosen(given, "with", tuple(one["id"] for one in project.values["texts"])))
    else:
        state.read(project, number)
    return _text_view(project, number)


@route("DELETE", T)
async def remove_text(state: State, request: Request) -> Answer:
    """Take a text out; its files go to texts/removed."""
    project, number = _project(state, request), _number(request, "text")
    entry = project.text(number)
    with project.changing() as values:
        values["texts"] = [one for one in values["texts"] if one["id"] != number]
        for one in values["texts"]:
            for name in ("with", "part_of"):
                one[name] = None if one[name] == number else one[name]
    removed = project.folder / TEXTS / "removed"
    removed.mkdir(exist_ok=True)
    for path in (
        project.folder / TEXTS / entry["file"],
        *(project.text_file(number, end) for end in (".tsv", ".json")),
    ):
        if path.is_file():
            os.replace(path, removed / path.name)
    return await asyncio.to_thread(whole, state, project)


@route("POST", f"{T}/decide")
async def decide(state: State, request: Request) -> Answer:
    """Keep what the user decides about the rows of a finding."""
    project, number, given = _project(state, request), _number(request, "text"), await _body(request)
    known = Rows(project, project.text(number)).decided
    name, action = _chosen(given, "finding", tuple(known)), _chosen(given, "do", (LEAVE_OUT, KEEP, MEND))
    with project.changing_text(number) as entry:
        entry["decided"][name] = action
    return await asyncio.to_thread(_text_view, project, number)


@route("GET", f"{T}/rows")
async def rows_of(state: State, request: Request) -> Answer:
    """Answer some rows of a text."""
    project, number = _project(state, request), _number(request, "text")
    rows, held = Rows(project, project.text(number)), _held(project)
    start, count = _count(request, "from", 0, 10**9), _count(request, "count", 50, 1000)
    total, found = await asyncio.to_thread(rows.page, start, count, request.query_params.get("finding"))
    return {"total": total, "rows": [vars(row) | {"held": held.get(row.source)} for row in found]}


def _held(project: Project) -> dict[str, str]:
    kinds = ("dev", "test")
    return {pair[0]: kind for kind in kinds for pair in read_pairs(project.folder / "held" / f"{kind}.tsv")}


@route("POST", f"{T}/rows")
async def mend_row(state: State, request: Request) -> Answer:
    """Mend one row, or leave it out."""
    project, number, given = _project(state, request), _number(request, "text"), await _body(request)
    row = given.get("row")
    if not isinstance(row, int) or isinstance(row, bool):
        raise Refused("bad-request", what="row", wanted="a number")
    sides = [given.get(name) for name in ("source", "target")]
    with project.changing_text(number) as entry:
        if isinstance(sides[0], str) and isinstance(sides[1], str):
            entry["mended"][str(row)] = [" ".join(side.split())[:5000] for side in sides if isinstance(side, str)]
        if "out" in given:
            entry["rows_out"][str(row)] = _chosen(given, "out", (True, False))
    rows = Rows(project, project.text(number))
    found = await asyncio.to_thread(lambda: next((one for one in rows.each() if one.row == row), None))
    if found is None:
        raise Refused("bad-request", what="row", wanted="one of the text")
    return vars(found) | {"held": _held(project).get(found.source)}


@route("GET", f"{P}/forecast")
async def forecast(state: State, request: Request) -> Answer:
    """Answer what to expect, and what stands against a training."""
    project = _project(state, request)
    pairs = await asyncio.to_thread(lambda: brief(state, project)["pairs"])
    near = [one for one in state.measured if pairs and 1 / _NEIGHBOUR <= pairs / one["pairs"] <= _NEIGHBOUR]
    warnings = list(_warnings(state, project, pairs))
    stops = {"disk-full", "too-few", "undecided", "running"} & {one["code"] for one in warnings}
    bands = (("lesson", 500), ("few", 2_000), ("some", 10_000))
    lesson = project.values["purpose"] == "lesson"
    return {
        "pairs": pairs,
        "enough": next((name for name, most in bands if pairs < most), "good"),
        "expect": min(near, key=lambda one: abs(one["pairs"] - pairs)) if near else None,
        "choices": [{"minutes": one, "recommended": one == (5 if lesson else 30)} for one in _MINUTES],
        "warnings": warnings,
        "stops": bool(stops),
    }


def _warnings(state: State, project: Project, pairs: int) -> list[dict[str, Any]]:
    """Return what a user should know before a training."""
    found: list[tuple[str, dict[str, Any]]] = []
    sides = [side["lang"] for side in project.values["sides"]]
    views = [Rows(project, entry) for entry in project.values["texts"]]
    if (free := state.projects.free()) < _FREE:
        found.append(("disk-full", {"need": _FREE, "free": free}))
    if (free := psutil.virtual_memory().available) < _MEMORY:
        found.append(("memory", {"need": _MEMORY, "free": free}))
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    if battery is not None and battery.power_plugged is False:
        found.append(("battery", {"percent": round(battery.percent)}))
    if (cloud := state.projects.cloud) is not None:
        found.append(("cloud", {"name": cloud}))
    if (now := state.children.training) is not None:
        found.append(("running", {"project": now.project.values["name"]}))
    if pairs < LEAST_PAIRS:
        found.append(("too-few", {"least": LEAST_PAIRS, "pairs": pairs}))
    if any(
        one.facts.get("state") == "asks" and not entry["part_of"]
        for one, entry in zip(views, project.values["texts"], strict=True)
    ):
        found.append(("undecided", {}))
    if sides[0] is not None and sides[0] == sides[1]:
        found.append(("same-language", {}))
    return [{"code": code, "words": words} for code, words in found]


@route("POST", f"{P}/rounds")
async def train(state: State, request: Request) -> Answer:
    """Begin a round."""
    project, given = _project(state, request), await _body(request)
    minutes = given.get("minutes")
    if not isinstance(minutes, int | float) or isinstance(minutes, bool) or not 0.5 <= minutes <= 7 * 24 * 60:
        raise Refused("bad-request", what="minutes", wanted="0.5 to 10,080")
    for one in _warnings(state, project, brief(state, project)["pairs"]):
        if one["code"] in ("disk-full", "too-few", "undecided", "running"):
            raise Refused(one["code"], **one["words"])
    on = None if given.get("on") is None else _chosen(given, "on", tuple(project.rounds()))
    preset = "tiny" if project.values["purpose"] == "lesson" else None
    facts = {"minutes": minutes, "direction": project.values["direction"], "on": on, "preset": None if on else preset}
    made = Round.make(project, facts)
    state.children.train(project, made)
    return made.view("train")


@route("GET", f"{R}/progress")
async def progress(state: State, request: Request) -> Answer:
    """Answer what has happened in a round since the last look."""
    project, one = _round(state, request)
    start = _count(request, "from", 0, 10**15)
    return await asyncio.to_thread(one.progress, start, state.doing(project, one.number))


@route("POST", R + "/{act:str}")
async def act(state: State, request: Request) -> Answer:
    """Pause, go on with, stop or prolong a round; judge a sentence; share it; open it to the room."""
    project, one = _round(state, request)
    given, what = await _body(request), request.path_params["act"]
    doing = state.doing(project, one.number)
    if what in ("pause", "stop", "longer") and doing not in ("", "test"):
        minutes = given.get("minutes", 10)
        if not isinstance(minutes, int | float) or isinstance(minutes, bool) or not 1 <= minutes <= 7 * 24 * 60:
            raise Refused("bad-request", what="minutes", wanted="1 to 10,080")
        state.children.wish(project, one.number, what, 60.0 * minutes)
    elif what in ("resume", "longer") and not doing and not one.has_ended:
        if what == "longer":
            one.note(minutes=one.record["minutes"] + float(given.get("minutes", 10)))
        one.note(error=None)
        state.children.train(project, one)
    elif what == "stop" and not doing and one.has_model:
        one.note(ended=True, error=None)
        state.children.test(project, one)
    elif what == "judge":
        return _judge(project, one, given)
    elif what == "share":
        return _share(state, project, one, given)
    elif what == "room":
        return await state.trying.room(project, one, open=_chosen(given, "open", (True, False)))
    elif what in ("pause", "resume", "stop", "longer"):
        raise Refused("busy", state=one.view(doing)["state"])
    else:
        raise Refused("no-such-address")
    return one.view(state.doing(project, one.number))


def _judge(project: Project, one: Round, given: dict[str, Any]) -> dict[str, Any]:
    """Keep the verdict of a person on a sentence of the test."""
    report = one.report
    line = _chosen(given, "line", tuple(row["line"] for row in (report or {}).get("lines", ())))
    verdict = _chosen(given, "verdict", ("right", "usable", "wrong", None))
    with project.changing() as values:
        own = values["judgements"].setdefault(str(one.number), {})
        own[str(line)] = verdict
        if verdict is None:
            del own[str(line)]
    return {"judged": judged(list(own.values()))}


def report_of(project: Project, one: Round) -> dict[str, Any]:
    """Return the report of a round with the judgements of people."""
    report = one.report
    if report is None:
        return {"state": "waiting"}
    verdicts = project.values["judgements"].get(str(one.number), {})
    found = judged(list(verdicts.values()))
    for line in report["lines"]:
        line["verdict"] = verdicts.get(str(line["line"]))
    is_persons = found is not None and found["count"] >= LEAST_JUDGED
    unsure = report["quality"]["count"] < LEAST_JUDGED
    useful = (
        [project.values["purpose"]] if project.values["purpose"] in ("suggestions", "words", "lesson") else ["gist"]
    )
    return {
        **report,
        "state": "ready",
        "round": one.view(),
        "judged": found,
        "headline": "person" if is_persons else "letters",
        "few": unsure,
        "useful": useful,
        "not_for": ["unchecked", "health", "unlike"],
    }


@route("GET", f"{R}/report")
async def report(state: State, request: Request) -> Answer:
    """Answer the report of a round."""
    project, one = _round(state, request)
    return await asyncio.to_thread(report_of, project, one)


@route("GET", f"{R}/report.html")
async def report_file(state: State, request: Request) -> Answer:
    """Answer the report of a round as a page of one file, in the language of the page."""
    project, one = _round(state, request)
    language = request.query_params.get("language", "en")

    def page() -> str:
        words = read_json(_strings(state).get(language, Path()))
        given = {"project": whole(state, project), "round": one.view(), "report": report_of(project, one)}
        return report_page([read_run(one.folder)], None, project.values["name"], given, words, language)

    name = f"{safe_name(project.values['name'])}-{one.number}-report.html"
    return Response(await asyncio.to_thread(page), media_type="text/html", headers=attachment(name))


def _strings(state: State) -> dict[str, Path]:
    """Return the files of words, by language: those of the page, and those of the user's folder."""
    places = (PAGE / "strings", state.projects.folder / "languages")
    return {path.stem: path for place in places for path in sorted(place.glob("*.json"))}


def _share(state: State, project: Project, one: Round, given: dict[str, Any]) -> dict[str, Any]:
    """Begin to make a file to give away."""
    kind = _chosen(given, "kind", tuple(KINDS))
    if KINDS[kind] and not project.values["permission"]:
        raise Refused("ask-first")
    if KINDS[kind] and not one.has_model:
        raise Refused("busy", state=one.view(state.doing(project, one.number))["state"])

    async def work() -> None:
        await asyncio.to_thread(state.save_corrections, project)
        await share(state.children, project, one, kind, report_of(project, one))

    return state.children.run(project, kind, work, round=one.number).view()


@route("GET", f"{P}/shared/{{name}}")
async def shared(state: State, request: Request) -> Answer:
    """Answer a file to give away."""
    project, name = _project(state, request), request.path_params["name"]
    if name not in {one["name"] for one in project.shared()}:
        raise Refused("no-such-file")
    return FileResponse(project.folder / SHARED / name, headers=attachment(name), media_type="application/octet-stream")


@route("POST", "/studio/use")
async def use(state: State, request: Request) -> Answer:
    """Load a round into the translation page."""
    given = await _body(request)
    project = state.projects.get(str(given.get("project")))
    one = Round(project, _chosen(given, "round", tuple(project.rounds())))
    if not one.has_model:
        raise Refused("busy", state=one.view(state.doing(project, one.number))["state"])
    await state.trying.load(project, one, 1 if state.children.training else default_threads())
    return {"at": "/try/"}


@route("POST", "/studio/quit")
async def quit_studio(state: State, request: Request) -> Answer:
    """End the studio; a training saves and ends first."""
    await _body(request)
    asyncio.get_running_loop().call_later(0.2, state.quit)
    return {"ends": True}


@route("GET", "/")
async def index(state: State, request: Request) -> Answer:
    """Answer the page."""
    return _page("index.html")


@route("GET", "/page/{name:path}")
async def page(state: State, request: Request) -> Answer:
    """Answer a file of the page; texts of a language may be those of the folder."""
    name = request.path_params["name"]
    if (words := {f"strings/{one.name}": one for one in _strings(state).values()}.get(name)) is not None:
        return FileResponse(words, media_type=_TYPES[".json"], headers={"cache-control": "no-store"})
    return _page(name)


def _page(name: str) -> Response:
    """Return a file of the page, which is one of those that are there: no path is made of what a request says."""
    files = {path.relative_to(PAGE).as_posix(): path for path in PAGE.rglob("*") if path.is_file()}
    if name not in files:
        raise Refused("no-such-file")
    path = files[name]
    return FileResponse(path, media_type=_TYPES.get(path.suffix), headers={"cache-control": "no-cache"})


def make_app(folder: Path, quit: Callable[[], None]) -> Starlette:
    """Return the application; the guard goes around it."""
    state = State(folder, quit)

    def endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                found = await handler(state, request)
            except Refused as error:
                return _json({"error": error.to_dict()}, error.status)
            return found if isinstance(found, Response) else _json(found)

        return answer

    async def unknown(request: Request, error: Exception) -> Response:
        refused = Refused("no-such-address")
        return _json({"error": refused.to_dict()}, getattr(error, "status_code", 404))

    async def trying(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await state.trying(scope, receive, send)
        except Refused as error:
            await _json({"error": error.to_dict()}, error.status)(scope, receive, send)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        state.recover()
        try:
            yield
        finally:
            await state.children.close()
            await state.trying.close()

    routes = [Route(path, endpoint(handler), methods=[method]) for method, path, handler in _ROUTES]
    app = Starlette(
        routes=[*routes, Mount("/try", trying)], lifespan=lifespan, exception_handlers={404: unknown, 405: unknown}
    )
    app.state.studio = state
    return app


def _json(found: Any, status: int = 200) -> Response:
    return JSONResponse(found, status, headers={"cache-control": "no-store"})
