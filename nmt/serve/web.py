"""Requests as bytes come: read within limits, whatever a client sends; answered as soon as it stops waiting."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from nmt.serve.errors import RequestError
from nmt.serve.http_protocol import Departures
from nmt.serve.service import Service

T = TypeVar("T")

_MOST_FIELDS = 10_000


class CompactJSON(Response):
    """JSON as small as it goes."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """As bytes."""
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


async def read_body(request: Request, service: Service, most: int | None = None) -> bytes:
    """The body. Raises RequestError: 413 beyond `most` bytes, 408 where it comes too slowly."""
    limits = service.settings.limits
    most = limits.body_bytes if most is None else most
    too_much = RequestError(413, f"body: must have at most {most:,} bytes, got more; send less at a time")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise too_much
    parts: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(limits.body_seconds):
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise RequestError(499, "client: has gone before its request was whole")
                parts.append(message.get("body", b""))
                more = message.get("more_body", False)
                size += len(parts[-1])
                if size > most:
                    raise too_much
    except TimeoutError:
        raise RequestError(
            408, f"body: must come within {limits.body_seconds:g} s, got a part; send it whole"
        ) from None
    return b"".join(parts)


async def read_fields(request: Request, service: Service) -> dict[str, Any]:
    """What a client gives, as JSON, form or query string, later ones of these first; a field that comes more than
    once is a list. Raises RequestError."""
    query = request.scope.get("query_string", b"")
    fields = _gathered(parse_pairs(decoded(query, "query string"), "query string")) if query else {}
    body = await read_body(request, service)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        fields |= await read_multipart(request, body)
    elif body.strip():
        # Some clients send JSON and call it a form, or say nothing.
        if kind.endswith("json") or body.lstrip()[:1] in (b"{", b"["):
            given = parse_json(body)
            if not isinstance(given, dict):
                raise RequestError(400, f"body: must be a JSON object, got {type(given).__name__}; send one")
            fields |= given
        else:
            fields |= _gathered(parse_pairs(decoded(body), "body"))
    return fields


async def read_multipart(request: Request, body: bytes) -> dict[str, Any]:
    """Fields of a form with files, which are (name, bytes). Raises RequestError."""
    from starlette.formparsers import MultiPartException, MultiPartParser

    async def whole() -> Any:
        yield body

    try:
        form = await MultiPartParser(request.headers, whole(), max_files=10, max_fields=1000).parse()
    except (MultiPartException, KeyError, ValueError) as error:
        raise RequestError(
            400, f"body: must be multipart/form-data, got a broken one ({error}); send it whole"
        ) from None
    found: dict[str, Any] = {}
    for name, value in form.multi_items():
        found[name] = value if isinstance(value, str) else (value.filename or "file", await value.read())
    await form.close()
    return found


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
        return json.loads(text)
    except RecursionError:
        raise RequestError(400, "body: must be JSON, got one that nests too deep; send plain texts") from None
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
    """A field that is one text. Raises RequestError: It is missing without a default, or no text."""
    value = fields.get(name, default)
    if value is None:
        raise RequestError(400, f"{name}: must be given, got none")
    if not isinstance(value, str):
        raise RequestError(400, f"{name}: must be a text, got {_kind(value)}")
    return value


def texts_field(fields: Mapping[str, Any], name: str) -> list[str]:
    """A field that is a text or a list of texts, as a list. Raises RequestError."""
    value = fields.get(name)
    if value is None:
        raise RequestError(400, f"{name}: must be given, got none")
    found = value if isinstance(value, list) else [value]
    for one in found:
        if not isinstance(one, str):
            raise RequestError(400, f"{name}: must be a text or a list of texts, got {_kind(one)}")
    return found


def count_field(fields: Mapping[str, Any], name: str, default: int = 0) -> int:
    """A field that is a whole number of at least 0. Raises RequestError."""
    value = fields.get(name, default)
    if value is None or value == "":
        return default
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise RequestError(400, f"{name}: must be a whole number of at least 0, got {str(value)[:40]!r}")


def glossary_field(fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The pairs of phrases of `glossary`: a list of pairs, or lines of `phrase = translation`; none where it is not
    given. Raises RequestError."""
    given = fields.get("glossary")
    if not given:
        return ()
    pairs = given
    if isinstance(given, str):
        pairs = [re.split(r"\t|\s*=\s*", line, maxsplit=1) for line in given.splitlines() if line.strip()]
    found = []
    for pair in pairs if isinstance(pairs, list) else [None]:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(t, str) and t.strip() for t in pair):
            raise RequestError(400, "glossary: must be pairs of a phrase and its translation, got another")
        found.append((pair[0].strip(), pair[1].strip()))
    if len(found) > 1000:
        raise RequestError(400, f"glossary: must have at most 1,000 pairs, got {len(found):,}")
    return tuple(found)


def file_field(fields: Mapping[str, Any]) -> tuple[str, bytes]:
    """Name and content of `file`. Raises RequestError."""
    given = fields.get("file")
    if not isinstance(given, tuple):
        raise RequestError(400, "file: must be a file, got none")
    return given


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a file" if isinstance(value, tuple) else "a number")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client goes. The body must have been read. Raises
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
