"""Read requests: bodies within the limits, fields, client, model and files; stop work when a client disconnects."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response

from nmt.documents.forms import MEDIA_TYPES, format_of
from nmt.errors import NMTError
from nmt.inference.translation import Translation
from nmt.learning.learning_translator import Learnt
from nmt.serve.box.box import BoxJob
from nmt.serve.engine import Admission, Ask
from nmt.serve.limits import Room, TranslatedFile, translated_name
from nmt.serve.models import Learning, ServedModel, check_room
from nmt.serve.service import Service
from nmt.serve.settings import RequestError

T = TypeVar("T")

_MOST_FIELDS = 10_000
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MOST_LINE = 1_000
"""Maximum characters of a glossary phrase or its translation."""
_PARSED = 2**16
"""Bytes of a form to parse before the event loop runs other requests."""
_MOST_VALUES = 100_000
"""Strings, and separators outside them, in a JSON body. They are counted before it is parsed: 2 MiB of empty lists or
names take the parser, and so the event loop, a third of a second, and a text of that length a hundredth."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_CHARSET = re.compile(r"charset\s{0,9}=\s{0,9}\"?([^\s\";]{1,80})", re.IGNORECASE)


class CompactJSON(Response):
    """A response of compact JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the content as bytes."""
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


async def body_parts(request: Request, service: Service, most: int) -> AsyncIterator[bytes]:
    """Yield the body as it arrives, and count its bytes. Raises RequestError: 413, 408 if too slow, 429, 503, 499."""
    limits = service.settings.limits
    check_length(request, most)
    room: Room | None = request.scope.get("nmt.room")
    size, more = 0, True
    end = asyncio.get_running_loop().time() + limits.body_seconds
    while more:
        try:
            async with asyncio.timeout_at(end):
                message = await request.receive()
        except TimeoutError:
            raise RequestError(
                408, f"body: must come within {limits.body_seconds:g} s, got a part; send it whole"
            ) from None
        if message["type"] == "http.disconnect":
            raise RequestError(499, "client: has gone before its request was whole")
        part = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(part)
        if size > most:
            raise _too_much(most)
        if room is not None:
            room.add(len(part))
        yield part
    request.scope["nmt.whole"] = True


def check_length(request: Request, most: int) -> None:
    """Raise RequestError (413) if the Content-Length header announces a body that is too long."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > most:
        raise _too_much(most)


def _too_much(most: int) -> RequestError:
    return RequestError(413, f"body: must have at most {most:,} bytes, got more; send less at a time")


async def read_body(request: Request, service: Service) -> bytes:
    """Return the body. Raises RequestError, as `body_parts`."""
    return b"".join([part async for part in body_parts(request, service, service.settings.limits.body_bytes)])


async def read_fields(request: Request, service: Service) -> dict[str, Any]:
    """Return the fields of a request, from the query and from a JSON or form body, which takes precedence; a repeated
    one becomes a list. A client without access is rejected before the body if possible. Raises RequestError."""
    arrive(request, service)
    query = request.scope.get("query_string", b"")
    fields = _gathered(parse_pairs(decoded(query, "query string"), "query string")) if query else {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return fields | await read_multipart(request, service, service.settings.limits.body_bytes)
    body = await read_body(request, service)
    if body.strip():
        # Some clients label JSON as a form, or send no content type.
        if kind.endswith("json") or body.lstrip()[:1] in (b"{", b"["):
            given = parse_json(body)
            if not isinstance(given, dict):
                raise RequestError(400, f"body: must be a JSON object, got {type(given).__name__}; send one")
            fields |= given
        else:
            fields |= _gathered(parse_pairs(decoded(body), "body"))
    return fields


async def read_multipart(request: Request, service: Service, most: int | None = None) -> dict[str, Any]:
    """Return the fields of a form, files as (name, bytes), of at most `most` bytes or the limit of files."""
    arrive(request, service)
    most = service.settings.limits.file_bytes if most is None else most
    check_length(request, most)
    kind = request.headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        raise RequestError(400, "body: must be multipart/form-data with a file, got another kind")
    if (charset := _CHARSET.search(kind)) and charset[1].lower() not in ("utf-8", "utf8"):
        raise RequestError(400, f"body: must be UTF-8, got {charset[1]:.40}; send UTF-8")

    async def pieces() -> AsyncGenerator[bytes, None]:
        async for part in body_parts(request, service, most):
            for at in range(0, len(part), _PARSED):
                yield part[at : at + _PARSED]
                await asyncio.sleep(0)  # the parser is slow Python: let other requests run between pieces

    try:
        form = await MultiPartParser(request.headers, pieces(), max_files=10, max_fields=1000).parse()
    except (MultiPartException, KeyError, ValueError) as error:
        raise RequestError(
            400, f"body: must be multipart/form-data, got a broken one ({error}); send it whole"
        ) from None
    found: dict[str, Any] = {}
    for name, value in form.multi_items():
        found[name] = value if isinstance(value, str) else (value.filename or "file", await value.read())
    await form.close()
    return found


def arrive(request: Request, service: Service) -> None:
    """Identify the client before the body is read: by the key in a header, or by the address if the server has no keys.
    A key in the body is known only later; until then the body counts for its address. Raises RequestError."""
    scope = request.scope
    if "nmt.room" in scope:
        return
    address = request.client.host if request.client is not None else ""
    kind, _, key = request.headers.get("authorization", "").strip().rpartition(" ")
    if kind.strip().lower() not in ("", "bearer", "deepl-auth-key"):  # Basic or Digest, for a proxy
        key = ""
    client = service.gate.enter(key, address) if key or not service.gate.wants_keys else None
    if client is not None:
        scope["nmt.client"] = client
    scope["nmt.room"] = Room(service.bodies, client or address)


def decoded(body: bytes, where: str = "body") -> str:
    """Return bytes as UTF-8 text. Raises RequestError."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(
            400, f"{where}: must be UTF-8, got byte {body[error.start]:#04x} at position {error.start + 1}; send UTF-8"
        ) from None


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON body. Raises RequestError: no JSON, nested too deeply, too many values."""
    if _separators(body) > _MOST_VALUES:  # most are in texts
        outside, strings = _STRING.subn(b"", body, _MOST_VALUES + 1)
        if max(strings, _separators(outside)) > _MOST_VALUES:
            raise RequestError(400, f"body: must have at most {_MOST_VALUES:,} values, got more; send less at a time")
    text = decoded(body)
    try:
        found = json.loads(text)
        if _SURROGATE.search(text):  # most are pairs, by which many clients encode characters beyond 16 bits
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except RecursionError:
        raise RequestError(400, "body: must be JSON, got one that nests too deep; send plain texts") from None
    except UnicodeEncodeError:
        raise RequestError(400, "body: must be Unicode text, got half a surrogate pair; send UTF-8") from None
    except ValueError as error:
        raise RequestError(400, f"body: must be JSON, got something else ({error}); correct it") from None


def _separators(body: bytes) -> int:
    return sum(map(body.count, (b",", b"[", b"{")))


def parse_pairs(text: str, where: str) -> list[tuple[str, str]]:
    """Return the fields of a form or query string. Raises RequestError."""
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except UnicodeDecodeError:
        raise RequestError(400, f"{where}: must be UTF-8, got other bytes; send UTF-8") from None
    except ValueError:
        raise RequestError(400, f"{where}: must have at most {_MOST_FIELDS} fields, got more; send fewer") from None


def _gathered(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def text_field(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a field that is a single text. Raises RequestError if it is missing without a default, or not a text."""
    if (value := fields.get(name, default)) is None:
        raise RequestError(400, f"{name}: must be given, got none")
    if not isinstance(value, str):
        raise RequestError(400, f"{name}: must be a text, got {_kind(value)}")
    return value


def texts_field(fields: Mapping[str, Any], name: str) -> list[str]:
    """Return a field that is a text or a list of texts, as a list. Raises RequestError."""
    if (value := fields.get(name)) is None:
        raise RequestError(400, f"{name}: must be given, got none")
    found = value if isinstance(value, list) else [value]
    for one in found:
        if not isinstance(one, str):
            raise RequestError(400, f"{name}: must be a text or a list of texts, got {_kind(one)}")
    return found


def count_field(fields: Mapping[str, Any], name: str, default: int = 0) -> int:
    """Return a field that is a whole number of at least 0. Raises RequestError."""
    value = fields.get(name, default)
    if value is None or value == "":
        return default
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise RequestError(400, f"{name}: must be a whole number of at least 0, got {str(value)[:40]!r}")


def flag_field(fields: Mapping[str, Any], name: str) -> bool:
    """Return a field that is true or false, also as text, 1 or 0; false by default. Raises RequestError."""
    value = fields.get(name)
    if value is None or str(value).lower() in ("false", "0", ""):
        return False
    if str(value).lower() in ("true", "1"):
        return True
    raise RequestError(400, f"{name}: must be true or false, got {str(value)[:40]!r}")


def glossary_field(fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the field `glossary`: a list of pairs, lines `phrase = translation`, or none. Raises RequestError."""
    given = fields.get("glossary")
    if not given:
        return ()
    pairs = given
    if isinstance(given, str):
        lines = [line for line in given.splitlines() if line.strip()]
        pairs = [list(line.partition("\t" if "\t" in line else "=")[::2]) for line in lines]
    found = []
    for pair in pairs if isinstance(pairs, list) else [None]:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(t, str) and t.strip() for t in pair):
            raise RequestError(400, "glossary: must be pairs of a phrase and its translation, got another")
        if max(map(len, pair)) > _MOST_LINE:
            raise RequestError(
                400, f"glossary: must have phrases of at most {_MOST_LINE:,} characters, got a longer one"
            )
        found.append((pair[0].strip(), pair[1].strip()))
    if len(found) > 1000:
        raise RequestError(400, f"glossary: must have at most 1,000 pairs, got {len(found):,}")
    return tuple(found)


def name_field(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a field that is a name, or None if it is missing or empty. Raises RequestError."""
    return None if fields.get(name) is None else text_field(fields, name) or None


def file_field(fields: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return name and content of the field `file`. Raises RequestError."""
    given = fields.get("file")
    if not isinstance(given, tuple):
        raise RequestError(400, "file: must be a file, got none")
    return given


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a file" if isinstance(value, tuple) else "a number")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, cancelled if the client goes; the body must be read. Raises RequestError: 499."""
    departed: asyncio.Future[None] = request.scope["nmt.departed"]
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("while_connected must be awaited by a task")
    is_over = has_gone = False

    def leave(_: object) -> None:
        nonlocal has_gone
        if not is_over:
            has_gone = True
            task.cancel()

    departed.add_done_callback(leave)
    try:
        return await work
    except asyncio.CancelledError:
        if not has_gone:
            raise
        raise RequestError(499, "client: has gone before its answer") from None
    finally:
        is_over = True
        departed.remove_done_callback(leave)
        if has_gone:
            task.uncancel()


_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]{1,80}){1,8}")


def service_of(request: Request) -> Service:
    """Return the service of the server."""
    found: Service = request.app.state.service
    return found


async def read_request(request: Request, key: str = "api_key") -> tuple[Service, dict[str, Any], str]:
    """Return the service, a request's fields, and its client; `key`: the field of keys. Raises RequestError."""
    service = service_of(request)
    fields = await read_fields(request, service)
    return service, fields, admit_client(request, fields.get(key))


def admit_client(request: Request, key: object) -> str:
    """Return the client of a request, by a key in its headers or this one. Raises RequestError."""
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
    """Return this server's address as the client sees it: behind the prefix of a proxy (X-Forwarded-Prefix)."""
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
    """Translate a request's file; return its key. `source`: see `requested_model`; `ticket`: see `FileWish`."""
    client = admit_client(request, fields.get("api_key"))
    languages = text_field(fields, "source", source), text_field(fields, "target")
    model = text_field(fields, "model", "") or None
    wish = FileWish(*file_field(fields), *languages, model, glossary_field(fields), ticket)
    return await while_connected(request, translate_file(service_of(request), wish, client))


_SECONDS, _BYTES_A_SECOND = 15.0, 2**18
"""CPU time for any file in seconds, and the bytes that allow one second more."""
_MEMORY = 512 * 2**20


@dataclass(frozen=True)
class FileWish:
    """A request to translate a file. `source` may be auto; `model` is a model's name, None for the first model of the
    pair; `ticket` is the key under which progress is reported."""

    name: str
    content: bytes
    source: str
    target: str
    model: str | None = None
    glossary: tuple[tuple[str, str], ...] = ()
    ticket: str = ""


async def translate_file(service: Service, wish: FileWish, client: str) -> str:
    """Translate a file; return the key by which it is fetched. Raises RequestError."""
    try:
        form = format_of(wish.name)
    except NMTError as error:
        raise RequestError(400, str(error)) from None
    async with service.in_time(service.settings.limits.file_seconds):
        sample = ""
        if wish.source.lower() == "auto":
            (sample,) = await service.box.run(_job("sample", wish, (wish.content, form, wish.name)), client)
        model, _ = await service.pair(wish.source, wish.target, [sample], wish.model)
        language, pair = None if model.splitter is None else model.source, (model.source, model.target)
        read = _job("read_file", wish, (wish.content, form, wish.name, language, pair))
        rows = [(asked, packed) for piece in await service.box.run(read, client) for asked, packed in piece]
        answers = await _answers(service, model, wish, rows, client)
        write = _job("write_file", wish, (wish.content, form, wish.name, language, pair, answers))
        left, *pieces = await service.box.run(write, client)
    name = translated_name(wish.name, model.target)
    return service.files.keep(client, TranslatedFile(name, b"".join(pieces), MEDIA_TYPES[form], left))


def _job(name: str, wish: FileWish, args: tuple[Any, ...]) -> BoxJob:
    """Return a job on a file for the box, with limits that grow with the file's size."""
    size = len(wish.content)
    seconds = _SECONDS + size / _BYTES_A_SECOND
    return BoxJob(name, args, wish.name[:80], seconds, _MEMORY, _MEMORY + 4 * size, is_long=True)


async def _answers(
    service: Service, model: ServedModel, wish: FileWish, rows: list[tuple[str, bytes]], client: str
) -> list[tuple[bool, str]]:
    """Return for each row whether its text is final, and its text; details are freed piece by piece."""
    answers: list[tuple[bool, str]] = [(False, "")] * len(rows)
    done = 0

    def note(more: int) -> None:
        nonlocal done
        done += more
        service.files.note(client, wish.ticket, done, len(rows))

    note(0)
    admission = Admission(waits=True)
    for details in (False, True):
        chosen = [n for n, (_, packed) in enumerate(rows) if bool(packed) == details]

        async def take(at: int, found: list[list[Translation]], own: list[int] = chosen, full: bool = details) -> None:
            texts = [translations[0].text for translations in found]
            if full:
                packed = [rows[n][1] for n in own[at : at + len(found)]]
                job = _job("finish", wish, (packed, [translations[0] for translations in found]))
                (texts,) = await service.box.run(job, client)
            for n, text in zip(own[at : at + len(found)], texts, strict=True):
                answers[n] = full, text
            note(len(found))

        if chosen:
            ask = Ask(details=details, glossary=wish.glossary)
            await service.in_pieces(model, [rows[n][0] for n in chosen], ask, client, admission, take)
    service.count(model, rows, client, sum(len(asked) for asked, _ in rows))
    return answers
