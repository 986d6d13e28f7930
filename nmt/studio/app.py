"""The routes of the studio: JSON for its page, files to give away, and under /try the server's own application."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

import nmt
from nmt.report import read_run, report_page
from nmt.rnn.cores import default_threads
from nmt.serve.files import attachment
from nmt.studio.errors import Refused, checked, number, one_of, text
from nmt.studio.held import KINDS as HELD_KINDS
from nmt.studio.held import read_pairs
from nmt.studio.projects import HELD, PURPOSES, SHARED, TEXTS, Project, safe_name
from nmt.studio.quality import judged
from nmt.studio.rounds import Round
from nmt.studio.sharing import KINDS, OF_MODELS, share
from nmt.studio.state import PAGE, STOPS, UPLOAD, State
from nmt.studio.texts import (
    KEEP,
    LEAVE_OUT,
    MEND,
    Rows,
    facts_of,
    join,
    remove,
)
from nmt.system.files import explain, read_json

_EXAMPLE = Path(__file__).parent / "example.tsv"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json"}
MOST_UPLOAD, _MOST_BODY, _ROOM = 500 * 2**20, 2**20, 64 * 2**20


# ------------------------------------------------------------ routes

Handler = Callable[[State, Request], Awaitable[Any]]
ROUTES: list[tuple[str, str, Handler]] = []
"""Method, path and handler of each route."""
P = "/studio/projects/{project}"
T, R = P + "/texts/{text}", P + "/rounds/{round}"


def _route(method: str, path: str) -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        ROUTES.append((method, path, handler))
        return handler

    return add


def _project(state: State, request: Request) -> Project:
    return state.projects.get(request.path_params["project"])


def _numbered(state: State, request: Request, name: str) -> tuple[Project, int]:
    given = request.path_params[name]
    if not given.isascii() or not given.isdecimal() or len(given) > 9:
        raise Refused(f"no-such-{name}")
    return _project(state, request), int(given)


def _text(state: State, request: Request) -> tuple[Project, int]:
    project, number = _numbered(state, request, "text")
    project.text(number)
    return project, number


def _round(state: State, request: Request) -> tuple[Project, Round]:
    project, number = _numbered(state, request, "round")
    return project, Round(project, number)


def _view(path: str, view: Callable[[State, Request], Any]) -> None:
    """Add a route that answers with a view, which is made in a thread."""

    async def show(state: State, request: Request) -> Any:
        return await asyncio.to_thread(view, state, request)

    ROUTES.append(("GET", path, show))


_view(P, lambda state, request: state.whole(_project(state, request)))
_view(T, lambda state, request: _text_view(*_text(state, request)))
_view(f"{P}/forecast", lambda state, request: state.forecast(_project(state, request)))
_view(f"{R}/report", lambda state, request: state.report(*_round(state, request)))


def _count(request: Request, name: str, default: int, most: int) -> int:
    given = request.query_params.get(name, str(default))
    if not given.isascii() or not given.isdecimal() or len(given) > 18:
        raise Refused("bad-request", what=name, wanted="a whole number")
    return min(int(given), most)


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON of a request. Raises Refused."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused("not-json")
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > _MOST_BODY:
            raise Refused("too-large", most=_MOST_BODY)
    try:
        found = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refused("not-json")
    return found


@_route("GET", "/studio/state")
async def _state(state: State, request: Request) -> Any:
    now, folder = state.children.training, state.projects.folder
    return {
        "version": nmt.__version__,
        "folder": str(folder),
        "cloud": state.projects.cloud,
        "languages": sorted(state.strings()),
        "running": None if now is None else {"project": now.project.id, "round": now.round.number},
        "use": state.trying.about(),
        "purposes": PURPOSES,
        "projects": await asyncio.to_thread(lambda: [state.brief(one) for one in state.projects.all()]),
    }


@_route("POST", "/studio/projects")
async def _make(state: State, request: Request) -> Any:
    given = await _body(request)
    project = state.projects.make(given.get("name"))
    if given.get("example") is True:
        with TemporaryDirectory() as aside:
            copy = shutil.copy(_EXAMPLE, aside)
            entry = project.add("example.tsv", Path(copy))
        project.change({"purpose": "lesson", "permission": "public", "origin": "nmt"})
        state.read(project, entry["id"])
    return state.whole(project)


@_route("POST", P)
async def _change(state: State, request: Request) -> Any:
    project = _project(state, request)
    project.change(await _body(request))
    return await asyncio.to_thread(state.whole, project)


@_route("POST", f"{P}/texts")
async def _add_text(state: State, request: Request) -> Any:
    project, announced = _project(state, request), request.headers.get("content-length", "")
    size = int(announced[:18]) if announced.isascii() and announced.isdecimal() else 0
    if size > MOST_UPLOAD:
        raise Refused("too-large", most=MOST_UPLOAD)
    if (free := state.projects.free()) < 3 * size + _ROOM:
        raise Refused("disk-full", need=3 * size + _ROOM, free=free)
    aside, taken = project.folder / TEXTS / f"{UPLOAD}{secrets.token_hex(8)}", 0
    try:
        aside.parent.mkdir(exist_ok=True)
        with aside.open("xb") as file:
            async for part in request.stream():
                taken += len(part)
                if taken > MOST_UPLOAD:
                    raise Refused("too-large", most=MOST_UPLOAD)
                await asyncio.to_thread(file.write, part)
        entry = project.add(request.query_params.get("name", "")[:200] or "text.txt", aside)
    except OSError as error:
        raise Refused("not-written", why=explain(error)) from None
    finally:
        aside.unlink(missing_ok=True)
    state.read(project, entry["id"])
    return Rows(project, entry).view()


def _text_view(project: Project, number: int) -> dict[str, Any]:
    return Rows(project, project.text(number)).view()


@_route("POST", T)
async def _read_again(state: State, request: Request) -> Any:
    (project, number), given = _text(state, request), await _body(request)
    if "kind" in given:
        kinds = facts_of(project, number).get("kinds", [])
        given["columns"] = kinds[int(checked(given, "kind", one_of(map(str, range(len(kinds))))))][:2]
    columns = (
        (lambda value: value is None or len(value) == 2 and all(type(one) in (int, str) and one for one in value)),
        "",
    )
    with project.changing_text(number) as entry:
        if "columns" in given:
            entry["columns"] = checked(given, "columns", columns) if isinstance(given["columns"], list) else None
        if "sheet" in given:
            entry["sheet"] = checked(given, "sheet", text(0, 200), "")
        if "header" in given:
            entry["header"] = checked(given, "header", one_of((True, False, None)))
        entry["swap"] ^= given.get("swap") is True
        entry |= {"rows_out": {}, "mended": {}}
    if given.get("with") is not None:
        number = join(project, number, checked(given, "with", one_of(one["id"] for one in project.values["texts"])))
    state.read(project, number)
    return _text_view(project, number)


@_route("DELETE", T)
async def _remove_text(state: State, request: Request) -> Any:
    project, number = _text(state, request)
    remove(project, number)
    return await asyncio.to_thread(state.whole, project)


@_route("POST", f"{T}/decide")
async def _decide(state: State, request: Request) -> Any:
    (project, number), given = _text(state, request), await _body(request)
    name = checked(given, "finding", one_of(Rows(project, project.text(number)).decided))
    with project.changing_text(number) as entry:
        entry["decided"][name] = checked(given, "do", one_of((LEAVE_OUT, KEEP, MEND)))
    return await asyncio.to_thread(_text_view, project, number)


def _held(project: Project) -> dict[str, str]:
    return {pair[0]: kind for kind in HELD_KINDS for pair in read_pairs(project.folder / HELD / f"{kind}.tsv")}


@_route("GET", f"{T}/rows")
async def _rows(state: State, request: Request) -> Any:
    project, number = _text(state, request)
    rows, held = Rows(project, project.text(number)), _held(project)
    start, count = _count(request, "from", 0, 10**9), _count(request, "count", 50, 1000)
    total, found = await asyncio.to_thread(rows.page, start, count, request.query_params.get("finding"))
    return {"total": total, "rows": [vars(row) | {"held": held.get(row.source)} for row in found]}


@_route("POST", f"{T}/rows")
async def _mend_row(state: State, request: Request) -> Any:
    (project, number), given = _text(state, request), await _body(request)
    row = checked(given, "row", (lambda value: type(value) is int, "a number"))

    def there() -> dict[str, Any]:
        found = next((one for one in Rows(project, project.text(number)).each() if one.row == row), None)
        if found is None:
            raise Refused("bad-request", what="row", wanted="one of the text")
        return vars(found) | {"held": _held(project).get(found.source)}

    await asyncio.to_thread(there)
    with project.changing_text(number) as entry:
        if "source" in given or "target" in given:
            sides = [checked(given, name, text(0, 5000)) for name in ("source", "target")]
            entry["mended"][str(row)] = [" ".join(side.split()) for side in sides]
        if "out" in given:
            entry["rows_out"][str(row)] = checked(given, "out", one_of((True, False)))
    return await asyncio.to_thread(there)


@_route("POST", f"{P}/rounds")
async def _train(state: State, request: Request) -> Any:
    project, given = _project(state, request), await _body(request)
    minutes = checked(given, "minutes", number(0.5, 7 * 24 * 60))
    on = checked(given, "on", one_of((None, *project.rounds())))
    for code, words in state.warnings(project):
        if code in STOPS:
            raise Refused(code, **words)
    preset = "tiny" if project.values["purpose"] == "lesson" and on is None else None
    made = Round.make(project, minutes=minutes, direction=project.values["direction"], on=on, preset=preset)
    state.children.train(project, made)
    return made.view("train")


@_route("GET", f"{R}/progress")
async def _progress(state: State, request: Request) -> Any:
    project, one = _round(state, request)
    return await asyncio.to_thread(one.progress, _count(request, "from", 0, 10**15), state.doing(project, one.number))


@_route("GET", f"{R}/report.html")
async def _report_file(state: State, request: Request) -> Any:
    project, one = _round(state, request)
    language = request.query_params.get("language", "en")

    def page() -> str:
        words = read_json(state.strings().get(language, Path()))
        given = {"project": state.whole(project), "round": one.view(), "report": state.report(project, one)}
        return report_page([read_run(one.folder)], None, project.values["name"], given, words, language)

    if one.report is None:
        raise Refused("busy", state=one.view(state.doing(project, one.number))["state"])
    name = f"{safe_name(project.values['name'])}-{one.number}-report.html"
    return Response(await asyncio.to_thread(page), media_type="text/html", headers=attachment(name))


@_route("POST", R + "/{act}")
async def _act(state: State, request: Request) -> Any:
    """Pause, go on with, stop or prolong a round; judge a sentence; share it; open it to the room."""
    (project, one), given, act = _round(state, request), await _body(request), request.path_params["act"]
    doing = state.doing(project, one.number)
    if act in _ACTS:
        return await _ACTS[act](state, project, one, given)
    minutes = checked(given, "minutes", number(1, 7 * 24 * 60), 10)
    if act in ("pause", "stop", "longer") and doing not in ("", "test"):
        state.children.wish(act, minutes)
    elif act in ("resume", "longer") and not doing and not one.has_ended:
        more = minutes if act == "longer" else 0
        one.note(error=None, minutes=one.record["minutes"] + more)
        state.children.train(project, one)
    elif act == "stop" and not doing and one.has_model:
        one.note(ended=True, error=None)
        state.children.test(project, one)
    elif act in ("pause", "resume", "stop", "longer"):
        raise Refused("busy", state=one.view(doing)["state"])
    else:
        raise Refused("no-such-address")
    return one.view(state.doing(project, one.number))


async def _judge(state: State, project: Project, one: Round, given: dict[str, Any]) -> Any:
    line = checked(given, "line", one_of(row["line"] for row in (one.report or {}).get("lines", ())))
    verdict = checked(given, "verdict", one_of(("right", "usable", "wrong", None)))
    with project.changing() as values:
        own = values["judgements"].setdefault(str(one.number), {})
        own[str(line)] = verdict
        if verdict is None:
            del own[str(line)]
    return {"judged": judged(list(own.values()))}


async def _share(state: State, project: Project, one: Round, given: dict[str, Any]) -> Any:
    kind = checked(given, "kind", one_of(KINDS))
    if kind in OF_MODELS and not project.values["permission"]:
        raise Refused("ask-first")
    if kind in OF_MODELS and not one.has_model:
        raise Refused("busy", state="without a model")

    async def work() -> None:
        await asyncio.to_thread(state.save_corrections, project)
        await share(state.children, project, one, kind, state.report(project, one))

    return state.children.run(project, kind, work, round=one.number)


async def _room(state: State, project: Project, one: Round, given: dict[str, Any]) -> Any:
    return await state.trying.room(project, one, open=checked(given, "open", one_of((True, False))))


_ACTS = {"judge": _judge, "share": _share, "room": _room}


@_route("GET", f"{P}/shared/{{name}}")
async def _shared(state: State, request: Request) -> Any:
    project, name = _project(state, request), request.path_params["name"]
    if name not in {one["name"] for one in project.shared()}:
        raise Refused("no-such-file")
    return FileResponse(project.folder / SHARED / name, headers=attachment(name), media_type="application/octet-stream")


@_route("POST", "/studio/use")
async def _use(state: State, request: Request) -> Any:
    given = await _body(request)
    project = state.projects.get(str(given.get("project")))
    one = Round(project, checked(given, "round", one_of(project.rounds())))
    if not one.has_model:
        raise Refused("busy", state="without a model")
    await state.trying.load(project, one, 1 if state.children.training else default_threads())
    return {"at": "/try/"}


@_route("POST", "/studio/quit")
async def _quit(state: State, request: Request) -> Any:
    await _body(request)
    asyncio.get_running_loop().call_later(0.2, state.quit)
    return {"ends": True}


@_route("GET", "/")
async def _index(state: State, request: Request) -> Any:
    return _page("index.html")


@_route("GET", "/page/{name:path}")
async def _page_file(state: State, request: Request) -> Any:
    name = request.path_params["name"]
    if (words := {f"strings/{one.name}": one for one in state.strings().values()}.get(name)) is not None:
        return FileResponse(words, media_type=_TYPES[".json"], headers={"cache-control": "no-store"})
    return _page(name)


def _page(name: str) -> Response:
    """Return a file of the page, which is one of those that are there: no path is made of what a request says."""
    path = {one.relative_to(PAGE).as_posix(): one for one in PAGE.rglob("*") if one.is_file()}.get(name)
    if path is None:
        raise Refused("no-such-file")
    return FileResponse(path, media_type=_TYPES.get(path.suffix), headers={"cache-control": "no-cache"})


def _json(found: Any, status: int = 200) -> Response:
    return JSONResponse(found, status, headers={"cache-control": "no-store"})


def make_app(folder: Path, quit: Callable[[], None]) -> Starlette:
    """Return the application; the guard goes around it."""
    state = State(folder, quit)

    def endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            found = await handler(state, request)
            return found if isinstance(found, Response) else _json(found)

        return answer

    async def refused(request: Request, error: Exception) -> Response:
        found = error if isinstance(error, Refused) else Refused("no-such-address")
        return _json({"error": found.to_dict()}, getattr(error, "status_code", found.status))

    async def trying(scope: Scope, receive: Receive, send: Send) -> None:
        await state.trying(scope, receive, send)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        state.recover()
        try:
            yield
        finally:
            await state.children.close()
            await state.trying.close()

    routes = [Route(path, endpoint(handler), methods=[method]) for method, path, handler in ROUTES]
    handlers: Any = {404: refused, 405: refused, Refused: refused}
    return Starlette(routes=[*routes, Mount("/try", trying)], lifespan=lifespan, exception_handlers=handlers)
