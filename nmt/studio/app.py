"""The routes of the studio: JSON for its page, files to give away, and under /try the server's own application."""

from __future__ import annotations

import asyncio
import errno
import inspect
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

import nmt
from nmt.rnn.cores import default_threads
from nmt.serve.limits import attachment
from nmt.serve.settings import RequestError
from nmt.serve.web import parse_json
from nmt.studio.errors import Refused, checked, number, one_of, text
from nmt.studio.projects import PURPOSES, SHARED, TEXTS, Project, safe_name
from nmt.studio.quality import judged
from nmt.studio.rounds import Round
from nmt.studio.sharing import KINDS, OF_MODELS, share
from nmt.studio.state import PAGE, STOPS, UPLOAD, State
from nmt.studio.texts import KEEP, LEAVE_OUT, MEND, Rows, facts_of, join, remove
from nmt.system.files import explain

_EXAMPLE = Path(__file__).parent / "example.tsv"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json"}
MOST_UPLOAD, _MOST_BODY, _ROOM = 500 * 2**20, 2**20, 64 * 2**20
_LONGEST = 7 * 24 * 60
"""Minutes of a training at most."""


_COUNT = lambda value: value.isascii() and value.isdecimal() and len(value) <= 18, "a whole number"


class StudioRequest:
    """A request: the `project`, `text` and `round` of its address, and its JSON, `given`. Raises Refused."""

    project: Project
    text: int
    round: Round

    def __init__(self, state: State, request: Request, given: dict[str, Any]) -> None:
        self.request, self.given, names = request, given, request.path_params
        if "project" in names:
            self.project = state.projects.get(names["project"])
        if "text" in names:
            self.text = self.project.text(names["text"])["id"]
        if "round" in names:
            self.round = Round(self.project, next((n for n in self.project.rounds() if str(n) == names["round"]), 0))

    def value(self, name: str, *check: Any) -> Any:
        """Return a value that was sent, checked as by `checked`. Raises Refused."""
        return checked(self.given, name, *check)

    def count(self, name: str, default: int, most: int) -> int:
        """Return a number of the query. Raises Refused."""
        return min(int(checked({name: self.request.query_params.get(name, str(default))}, name, _COUNT)), most)


Handler = Callable[[State, StudioRequest], Any]
ROUTES: list[tuple[str, str, Handler]] = []
"""Method, path and handler of each route. What is no coroutine runs in a thread."""
P = "/studio/projects/{project}"
T, R = P + "/texts/{text}", P + "/rounds/{round}"


def _route(method: str, path: str) -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        ROUTES.append((method, path, handler))
        return handler

    return add


_route("GET", P)(lambda state, asked: state.whole(asked.project))
_route("GET", T)(lambda state, asked: Rows.of(asked.project, asked.text).view())
_route("GET", f"{P}/forecast")(lambda state, asked: state.forecast(asked.project))
_route("GET", f"{R}/report")(lambda state, asked: state.report(asked.project, asked.round))


@_route("GET", "/studio/state")
def _state(state: State, asked: StudioRequest) -> Any:
    now = state.children.training
    return {
        "version": nmt.__version__,
        "folder": str(state.projects.folder),
        "cloud": state.projects.cloud,
        "languages": sorted(state.strings()),
        "running": None if now is None else {"project": now.project.id, "round": now.round.number},
        "use": state.trying.about(),
        "purposes": PURPOSES,
        "projects": [state.brief(one) for one in state.projects.all()],
    }


@_route("POST", "/studio/projects")
async def _make(state: State, asked: StudioRequest) -> Any:
    project = state.projects.make(asked.given.get("name"))
    if asked.given.get("example") is True:
        with TemporaryDirectory() as aside:
            entry = project.add("example.tsv", Path(shutil.copy(_EXAMPLE, aside)))
        project.change({"purpose": "lesson", "permission": "public", "origin": "nmt"})
        state.read(project, entry["id"])
    return state.whole(project)


@_route("POST", P)
def _change(state: State, asked: StudioRequest) -> Any:
    asked.project.change(asked.given)
    return state.whole(asked.project)


# ------------------------------------------------------------ texts


@_route("POST", f"{P}/texts")
async def _add_text(state: State, asked: StudioRequest) -> Any:
    project, request = asked.project, asked.request
    size = _announced(request, MOST_UPLOAD)
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


_COLUMNS = (
    lambda value: (
        value is None
        or (isinstance(value, list) and len(value) == 2 and all(type(one) in (int, str) and one for one in value))
    ),
    "two columns, or null",
)
_SETTINGS = {"columns": _COLUMNS, "sheet": text(0, 200), "header": one_of((True, False, None))}
"""The settings of how a text is read, and their checks."""


@_route("POST", T)
async def _read_again(state: State, asked: StudioRequest) -> Any:
    project, number, given = asked.project, asked.text, asked.given
    if "kind" in given:
        kinds = facts_of(project, number).get("kinds", [])
        given["columns"] = kinds[int(asked.value("kind", one_of(map(str, range(len(kinds))))))][:2]
    with project.changing_text(number) as entry:
        entry |= {name: asked.value(name, check) for name, check in _SETTINGS.items() if name in given}
        entry["swap"] ^= given.get("swap") is True
        entry |= {"rows_out": {}, "mended": {}}
    if given.get("with") is not None:
        number = join(project, number, asked.value("with", one_of(one["id"] for one in project.values["texts"])))
    state.read(project, number)
    return Rows.of(project, number).view()


@_route("DELETE", T)
def _remove_text(state: State, asked: StudioRequest) -> Any:
    remove(asked.project, asked.text)
    return state.whole(asked.project)


@_route("POST", f"{T}/decide")
def _decide(state: State, asked: StudioRequest) -> Any:
    project, number = asked.project, asked.text
    name = asked.value("finding", one_of(Rows.of(project, number).decided))
    with project.changing_text(number) as entry:
        entry["decided"][name] = asked.value("do", one_of((LEAVE_OUT, KEEP, MEND)))
    return Rows.of(project, number).view()


@_route("GET", f"{T}/rows")
def _rows(state: State, asked: StudioRequest) -> Any:
    start, count = asked.count("from", 0, 10**9), asked.count("count", 50, 1000)
    total, found = Rows.of(asked.project, asked.text).page(start, count, asked.request.query_params.get("finding"))
    return {"total": total, "rows": [vars(row) for row in found]}


@_route("POST", f"{T}/rows")
def _mend_row(state: State, asked: StudioRequest) -> Any:
    project, row, given = asked.project, asked.value("row", (lambda value: type(value) is int, "a number")), asked.given

    def there() -> dict[str, Any]:
        for one in Rows.of(project, asked.text).each():
            if one.row == row:
                return vars(one)
        raise Refused("bad-request", what="row", wanted="one of the text")

    there()
    with project.changing_text(asked.text) as entry:
        if "source" in given or "target" in given:
            sides = [asked.value(name, text(0, 5000)) for name in ("source", "target")]
            entry["mended"][str(row)] = [" ".join(side.split()) for side in sides]
        if "out" in given:
            entry["rows_out"][str(row)] = asked.value("out", one_of((True, False)))
    return there()


# ------------------------------------------------------------ rounds


@_route("POST", f"{P}/rounds")
async def _train(state: State, asked: StudioRequest) -> Any:
    project, minutes = asked.project, asked.value("minutes", number(0.5, _LONGEST))
    on = asked.value("on", one_of((None, *project.rounds())))
    for code, words in await asyncio.to_thread(lambda: list(state.warnings(project))):
        if code in STOPS:
            raise Refused(code, **words)
    preset = "tiny" if project.values["purpose"] == "lesson" and on is None else None
    state.children.be_free()  # another browser may have begun one meanwhile
    made = Round.make(project, minutes=minutes, direction=project.values["direction"], on=on, preset=preset)
    state.children.train(project, made)
    return made.view("train")


@_route("GET", f"{R}/progress")
def _progress(state: State, asked: StudioRequest) -> Any:
    return asked.round.progress(asked.count("from", 0, 10**15), state.doing(asked.project, asked.round.number))


@_route("GET", f"{R}/report.html")
def _report_file(state: State, asked: StudioRequest) -> Any:
    project, one = asked.project, asked.round
    if one.report is None:
        raise Refused("busy", state=one.view(state.doing(project, one.number))["state"])
    page = state.page(project, one, asked.request.query_params.get("language", "en"))
    name = f"{safe_name(project.values['name'])}-{one.number}-report.html"
    return Response(page, headers=attachment(name), media_type="text/html")


@_route("POST", f"{R}/judge")
async def _judge(state: State, asked: StudioRequest) -> Any:
    one = asked.round
    line = asked.value("line", one_of(row["line"] for row in (one.report or {}).get("lines", ())))
    verdict = asked.value("verdict", one_of(("right", "usable", "wrong", None)))
    with asked.project.changing() as values:
        own = values["judgements"].setdefault(str(one.number), {})
        own[str(line)] = verdict
        if verdict is None:
            del own[str(line)]
    return {"judged": judged(list(own.values()))}


@_route("POST", f"{R}/share")
async def _share(state: State, asked: StudioRequest) -> Any:
    project, one, kind = asked.project, asked.round, asked.value("kind", one_of(KINDS))
    if kind in OF_MODELS and not project.values["permission"]:
        raise Refused("ask-first")
    if kind in OF_MODELS and not one.has_model or kind == "card" and one.report is None:
        raise Refused("busy", state="without a model that was tested")
    language = asked.value("language", text(2, 40), "en")

    async def work() -> None:
        await asyncio.to_thread(state.save_corrections, project)
        await share(state.children, project, one, kind, lambda: state.page(project, one, language))

    return state.children.run(project, kind, work, round=one.number)


@_route("POST", f"{R}/room")
async def _room(state: State, asked: StudioRequest) -> Any:
    return await state.trying.room(asked.project, asked.round, open=asked.value("open", one_of((True, False))))


@_route("POST", R + "/{act}")
async def _act(state: State, asked: StudioRequest) -> Any:
    """Pause, go on with, stop or prolong a round."""
    project, one, act = asked.project, asked.round, asked.request.path_params["act"]
    doing, minutes = state.doing(project, one.number), asked.value("minutes", number(1, _LONGEST), 10)
    if act in ("pause", "stop", "longer") and doing not in ("", "test"):
        state.children.wish(act, minutes)
    elif act in ("resume", "longer") and not doing and not one.has_ended:
        state.children.be_free()
        one.note(error=None, minutes=one.record["minutes"] + (minutes if act == "longer" else 0))
        state.children.train(project, one)
    elif act == "stop" and not doing and one.has_model:
        one.note(ended=True, error=None)
        state.children.test(project, one)
    elif act in ("pause", "resume", "stop", "longer"):
        raise Refused("busy", state=one.view(doing)["state"])
    else:
        raise Refused("no-such-address")
    return one.view(state.doing(project, one.number))


@_route("GET", f"{P}/shared/{{name}}")
def _shared(state: State, asked: StudioRequest) -> Any:
    name = asked.request.path_params["name"]
    if name not in {one["name"] for one in asked.project.shared()}:
        raise Refused("no-such-file")
    path = asked.project.folder / SHARED / name
    return FileResponse(path, headers=attachment(name), media_type="application/octet-stream")


@_route("POST", "/studio/use")
async def _use(state: State, asked: StudioRequest) -> Any:
    project = state.projects.get(str(asked.given.get("project")))
    one = Round(project, asked.value("round", one_of(project.rounds())))
    if not one.has_model:
        raise Refused("busy", state="without a model")
    await state.trying.load(project, one, 1 if state.children.training else default_threads())
    return {"at": "/try/"}


@_route("POST", "/studio/quit")
async def _quit(state: State, asked: StudioRequest) -> Any:
    asyncio.get_running_loop().call_later(0.2, state.quit)
    return {"ends": True}


# ------------------------------------------------------------ the page, and the application


@_route("GET", "/")
@_route("GET", "/page/{name:path}")
def _page(state: State, asked: StudioRequest) -> Any:
    """Return a file of the page, which is one of those that are there: no path is made of what a request says."""
    files = {one.relative_to(PAGE).as_posix(): one for one in PAGE.rglob("*") if one.is_file()}
    files |= {f"strings/{one.name}": one for one in state.strings().values()}
    path = files.get(asked.request.path_params.get("name", "index.html"))
    if path is None:
        raise Refused("no-such-file")
    return FileResponse(path, media_type=_TYPES.get(path.suffix), headers={"cache-control": "no-cache"})


def _announced(request: Request, most: int) -> int:
    """Return the announced length of a body. Raises Refused."""
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or int(length[:18]) > most:
        raise Refused("too-large", most=most)
    return int(length)


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON of a request. Raises Refused."""
    _announced(request, _MOST_BODY)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        found = parse_json(await request.body() or b"{}") if kind == "application/json" else None
    except RequestError:
        found = None
    if not isinstance(found, dict):
        raise Refused("not-json")
    return found


def _json(found: Any, status: int = 200) -> Response:
    return JSONResponse(found, status, headers={"cache-control": "no-store"})


def make_app(folder: Path, quit: Callable[[], None]) -> Starlette:
    """Return the application; the guard goes around it."""
    state = State(folder, quit)

    def endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            takes_json = request.method == "POST" and handler is not _add_text
            asked = StudioRequest(state, request, await _body(request) if takes_json else {})
            try:
                if inspect.iscoroutinefunction(handler):
                    found = await handler(state, asked)
                else:
                    found = await asyncio.to_thread(handler, state, asked)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                    raise
                raise Refused("not-written", why=explain(error)) from None
            return found if isinstance(found, Response) else _json(found)

        return answer

    async def refused(request: Request, error: Exception) -> Response:
        found = error if isinstance(error, Refused) else Refused("no-such-address")
        return _json({"error": found.to_dict()}, getattr(error, "status_code", found.status))

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
    return Starlette(routes=[*routes, Mount("/try", state.trying)], lifespan=lifespan, exception_handlers=handlers)
