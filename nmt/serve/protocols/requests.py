"""Read the parts of a request that all protocols share: its service, client, fields and model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from nmt.serve.errors import RequestError
from nmt.serve.file_translation import FileWish, translate_file
from nmt.serve.learning import Learning, check_room
from nmt.serve.models import ServedModel
from nmt.serve.service import Service
from nmt.serve.web import arrive, file_field, glossary_field, name_field, read_fields, text_field, while_connected

if TYPE_CHECKING:
    from nmt.learning.learning_translator import Learnt

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]{1,80}){1,8}")


def service_of(request: Request) -> Service:
    """Return the service of the server."""
    found: Service = request.app.state.service
    return found


async def read_request(request: Request, key: str = "api_key") -> tuple[Service, dict[str, Any], str]:
    """Return the service, the fields of a request, and its client; `key` is the field for the key of this protocol.
    Raises RequestError."""
    service = service_of(request)
    fields = await read_fields(request, service)
    return service, fields, admit_client(request, fields.get(key))


def admit_client(request: Request, key: object) -> str:
    """Return the client of a request, by the key in its headers or this one. Raises RequestError if it has no
    access."""
    service = service_of(request)
    arrive(request, service)
    if "nmt.client" not in request.scope:  # no key in the headers
        address = request.client.host if request.client is not None else ""
        request.scope["nmt.client"] = service.gate.enter(key if isinstance(key, str) else None, address)
    client: str = request.scope["nmt.client"]
    return client


async def requested_model(
    service: Service, fields: Mapping[str, Any], texts: Sequence[str], source: str | None = None
) -> ServedModel:
    """Return the model that a request names by its languages, and by its name if it gives one. `source`: the language
    of the texts if none is given; None requires one. Raises RequestError."""
    languages = text_field(fields, "source", source), text_field(fields, "target")
    return (await service.pair(*languages, texts, name_field(fields, "model")))[0]


def public_address(request: Request) -> str:
    """Return the address of this server as the client sees it, without a trailing slash: with the path prefix that a
    proxy sends (X-Forwarded-Prefix)."""
    prefix = request.headers.get("x-forwarded-prefix", "").rstrip("/")
    return str(request.base_url).rstrip("/") + (prefix if _PREFIX.fullmatch(prefix) else "")


def learning_of(service: Service) -> Learning:
    """Return what learns. Raises RequestError (403) if the server does not."""
    if service.learning is None:
        raise RequestError(403, "learning: is not offered by this server; its operator starts it with --learn")
    return service.learning


async def learn_pair(service: Service, fields: Mapping[str, Any], pair: tuple[str, str]) -> tuple[ServedModel, Learnt]:
    """Let the model of a request's languages learn a pair; return it and what became of the pair. `project` names a
    project, `who` the person. Raises RequestError."""
    learning = learning_of(service)
    model = await requested_model(service, fields, [pair[0]], "auto")
    who = text_field(fields, "who", "")
    translator, project = learning.place(model, text_field(fields, "project", ""))

    def work() -> Learnt:
        check_room(translator, project)
        return translator.learn(*pair, project=project, who=who)

    return model, await learning.run(work)


def left_of(request: Request, name: str) -> dict[str, str]:
    """Return the field that says what of a translated file is left untranslated; none if nothing is."""
    left = service_of(request).files.get(name).left
    return {"untranslated": left} if left else {}


async def translated_file(
    request: Request, fields: Mapping[str, Any], source: str | None = None, ticket: str = ""
) -> str:
    """Translate the file of a request; return the key by which it is fetched. `source`: as for `requested_model`;
    `ticket`: as in `FileWish`. Raises RequestError."""
    client = admit_client(request, fields.get("api_key"))
    languages = text_field(fields, "source", source), text_field(fields, "target")
    model = text_field(fields, "model", "") or None
    wish = FileWish(*file_field(fields), *languages, model, glossary_field(fields), ticket)
    return await while_connected(request, translate_file(service_of(request), wish, client))
