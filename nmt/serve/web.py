"""Requests as bytes come: read within limits, whatever a client sends; answered as soon as it stops waiting."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from nmt.serve.errors import RequestError
from nmt.serve.limits.bodies import Room
from nmt.serve.limits.http_protocol import Departures
from nmt.serve.service import Service

T = TypeVar("T")

_MOST_FIELDS = 10_000
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MOST_LINE = 1_000
"""Characters of a phrase of a glossary and its translation."""
_PARSED = 2**16
"""Bytes of a form that are parsed before others have their turn."""
_CHARSET = re.compile(r"charset\s{0,9}=\s{0,9}\"?([^\s\";]{1,80})", re.IGNORECASE)


class CompactJSON(Response):
    """JSON as small as it goes."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """As bytes."""
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


async def body_parts(request: Request, service: Service, most: int | None = None) -> AsyncIterator[bytes]:
    """Yield the body as it comes; what has come counts among the bodies of all requests. Raises RequestError: 413
    beyond `most` bytes, 408 where it comes too slowly, 429 and 503 where too much is in memory."""
    limits = service.settings.limits
    most = limits.body_bytes if most is None else most
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
    """Refuse a body of which the head says that it is too long. Raises RequestError: 413."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > most:
        raise _too_much(most)


def _too_much(most: int) -> RequestError:
    return RequestError(413, f"body: must have at most {most:,} bytes, got more; send less at a time")


async def read_body(request: Request, service: Service, most: int | None = None) -> bytes:
    """Return the body. Raises RequestError, as `body_parts`."""
    return b"".join([part async for part in body_parts(request, service, most)])


async def read_fields(request: Request, service: Service) -> dict[str, Any]:
    """Return what a client gives, as JSON, form or query string, later ones of these first; a field that comes more
    than once is a list. Who may not ask is told so before the body is read, where that can be known. Raises
    RequestError."""
    arrive(request, service)
    query = request.scope.get("query_string", b"")
    fields = _gathered(parse_pairs(decoded(query, "query string"), "query string")) if query else {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return fields | await read_multipart(request, service, service.settings.limits.body_bytes)
    body = await read_body(request, service)
    if body.strip():
        # Some clients send JSON and call it a form, or say nothing.
        if kind.endswith("json") or body.lstrip()[:1] in (b"{", b"["):
            given = parse_json(body)
            if not isinstance(given, dict):
                raise RequestError(400, f"body: must be a JSON object, got {type(given).__name__}; send one")
            fields |= given
        else:
            fields |= _gathered(parse_pairs(decoded(body), "body"))
    return fields


async def read_multipart(request: Request, service: Service, most: int | None = None) -> dict[str, Any]:
    """Fields of a form with files, which are (name, bytes), read as it comes: at most `most` bytes, or those of a file.
    Raises RequestError."""
    from starlette.formparsers import MultiPartException, MultiPartParser

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
                await asyncio.sleep(0)  # the parser is Python: others go on between pieces

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
    """See who asks before the body is read: by the key in a header, or without keys by the address. Who has a key in
    the body is known only then; until then its bytes are those of its address. Raises RequestError."""
    scope = request.scope
    if "nmt.room" in scope:
        return
    address = request.client.host if request.client is not None else ""
    key = header_key(request)
    client = service.gate.enter(key, address) if key or not service.gate.wants_keys else None
    if client is not None:
        scope["nmt.client"] = client
    scope["nmt.room"] = service.bodies.room(client or address)


def header_key(request: Request) -> str | None:
    """Return the key in the header of a request; what a proxy asks for (Basic, Digest) is none."""
    kind, _, key = request.headers.get("authorization", "").strip().rpartition(" ")
    return key if key and kind.strip().lower() in ("", "bearer", "deepl-auth-key") else None


def decoded(body: bytes, where: str = "body") -> str:
    """As text. Raises RequestError."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(
            400, f"{where}: must be UTF-8, got byte {body[error.start]:#04x} at position {error.start + 1}; send UTF-8"
        ) from None


def parse_json(body: bytes) -> Any:
    """Raises RequestError for what is no JSON, or nests too deep."""
    text = decoded(body)
    try:
        found = json.loads(text)
        if _SURROGATE.search(text):  # most are pairs, which is how many clients write what is beyond 16 bits
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except RecursionError:
        raise RequestError(400, "body: must be JSON, got one that nests too deep; send plain texts") from None
    except UnicodeEncodeError:
        raise RequestError(400, "body: must be Unicode text, got half a surrogate pair; send UTF-8") from None
    except ValueError as error:
        raise RequestError(400, f"body: must be JSON, got something else ({error}); mend it") from None


def parse_pairs(text: str, where: str) -> list[tuple[str, str]]:
    """Fields of a form or query string. Raises RequestError."""
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except UnicodeDecodeError:
        raise RequestError(400, f"{where}: must be UTF-8, got other bytes; send UTF-8") from None
    except ValueError:
        raise RequestError(400, f"{where}: must have at most {_MOST_FIELDS} fields, got more; send fewer") from None


def _gathered(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    return found


def text_field(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a field that is one text. Raises RequestError: It is missing without a default, or no text."""
    value = fields.get(name, default)
    if value is None:
        raise RequestError(400, f"{name}: must be given, got none")
    if not isinstance(value, str):
        raise RequestError(400, f"{name}: must be a text, got {_kind(value)}")
    return value


def texts_field(fields: Mapping[str, Any], name: str) -> list[str]:
    """Return a field that is a text or a list of texts, as a list. Raises RequestError."""
    value = fields.get(name)
    if value is None:
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


def glossary_field(fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of phrases of `glossary`: a list of pairs, or lines of `phrase = translation`; none where it is
    not given. Raises RequestError."""
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
    """Return a field that is a name, None where it is not given or empty. Raises RequestError."""
    return None if fields.get(name) is None else text_field(fields, name) or None


def file_field(fields: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return name and content of `file`. Raises RequestError."""
    given = fields.get("file")
    if not isinstance(given, tuple):
        raise RequestError(400, "file: must be a file, got none")
    return given


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a file" if isinstance(value, tuple) else "a number")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, which is cancelled when the client goes. The body must have been read. Raises
    RequestError: 499 where it has gone."""
    departures: Departures = request.scope["nmt.departures"]
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("while_connected must be awaited by a task")
    has_gone = False

    def leave() -> None:
        nonlocal has_gone
        has_gone = True
        task.cancel()

    departures.add(leave)
    try:
        return await work
    except asyncio.CancelledError:
        if not has_gone:
            raise
        raise RequestError(499, "client: has gone before its answer") from None
    finally:
        departures.remove(leave)
        if has_gone:
            task.uncancel()
