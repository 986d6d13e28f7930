"""Routes of models that learn: confirm a pair, take one back, look at what was learnt (docs/learning.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from nmt.learning.learning_translator import LearningTranslator
from nmt.learning.memory import Pair
from nmt.serve.errors import RequestError
from nmt.serve.learning import MARK, check_room
from nmt.serve.service import Service
from nmt.serve.web import CompactJSON, count_field, learn_pair, learning_of, read_request, requested_model, text_field

_MOST_MATCHES, _LEAST = 5, 0.7
_RECENT, _CHECKS = 20, 5


async def learn(request: Request) -> Response:
    """Answer POST /api/learn: learn that `translation` is a good one of `q`."""
    service, fields, _ = await read_request(request)
    pair = text_field(fields, "q"), text_field(fields, "translation")
    model, found = await learn_pair(service, fields, pair)
    name = model.name.partition(MARK)[0]
    return CompactJSON(
        _shown(found.pair)
        | {
            "model": f"{name}{MARK}{found.pair.project}" if found.pair.project else name,
            "note": found.note,
            "seconds": round(found.seconds, 4),
        }
    )


async def undo(request: Request) -> Response:
    """Answer POST /api/undo: the model forgets the pair of this number."""
    service, fields, _ = await read_request(request)
    learning, number = learning_of(service), count_field(fields, "number")
    translator, project = await _place(service, fields)

    def work() -> Pair:
        if translator.memory.pair(number).project != project:
            raise RequestError(400, f"number: must be that of a pair of this project, got {number}; see /api/learning")
        return translator.undo(number)

    return CompactJSON(_shown(await learning.run(work)))


async def resume(request: Request) -> Response:
    """Answer POST /api/resume: learn again at the full rate."""
    service, fields, _ = await read_request(request)
    learning = learning_of(service)
    translator, project = await _place(service, fields)

    def work() -> dict[str, Any]:
        check_room(translator, project)
        translator.resume(project)
        return _state(translator, project)

    return CompactJSON(await learning.run(work))


async def state(request: Request) -> Response:
    """Answer GET /api/learning: what a project has learnt, and whether it still does."""
    service, fields, _ = await read_request(request)
    learning = learning_of(service)
    translator, project = await _place(service, fields)
    return CompactJSON(await learning.run(lambda: _state(translator, project)))


async def matches(request: Request) -> Response:
    """Answer POST /api/matches: pairs of the memory whose sources are like `q`."""
    service, fields, _ = await read_request(request)
    text, learning = text_field(fields, "q"), learning_of(service)
    service.check([text])
    translator, project = await _place(service, fields)
    found = await learning.run(lambda: translator.matches(text, project=project, least=_LEAST, most=_MOST_MATCHES))
    return CompactJSON({"matches": [_shown(one.pair) | {"similarity": one.similarity} for one in found]})


async def _place(service: Service, fields: Mapping[str, Any]) -> tuple[LearningTranslator, str]:
    """Return the learning translator of a request's languages, and its project. Raises RequestError."""
    return learning_of(service).place(await requested_model(service, fields, []), text_field(fields, "project", ""))


def _state(translator: LearningTranslator, project: str) -> dict[str, Any]:
    """Return the state of a project for programs and for the page."""
    found = translator.progress(project)
    word = "stopped" if not found.rate else "slowed" if found.rate < 1 else "learning"
    recent = translator.memory.pairs(project, newest=_RECENT)[::-1]
    checks = [
        {"number": one.number, "at": one.at, "rise": round(one.rise, 4), "rate": one.rate, "action": one.action}
        for one in found.checks[:_CHECKS]
    ]
    return {
        "project": project,
        "projects": translator.projects,
        "state": word,
        "rate": found.rate,
        "pairs": found.pairs,
        "learnt": found.learnt,
        "checks": checks,
        "recent": [_shown(one) for one in recent],
    }


def _shown(pair: Pair) -> dict[str, Any]:
    return {
        "number": pair.number,
        "project": pair.project,
        "source": pair.source,
        "target": pair.target,
        "who": pair.who,
        "at": pair.at,
        "state": pair.state.value,
    }
