"""What the page asks beyond the protocols of others: sentences with their words, and completions while one types."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt.data.alignment import soft_alignment, words_of
from nmt.documents import read_passage
from nmt.documents.passage import Sentence
from nmt.inference.translation import Detail, Translation
from nmt.serve.engine import Ask
from nmt.serve.file_translation import FileWish
from nmt.serve.file_translation import translate_file as translate_file_of
from nmt.serve.files import SECONDS_KEPT
from nmt.serve.libretranslate import enter, service_of
from nmt.serve.models import bleu_signature
from nmt.serve.names import language_name
from nmt.serve.terms import note_terms
from nmt.serve.web import (
    CompactJSON,
    count_field,
    file_field,
    glossary_field,
    read_body,
    read_fields,
    read_multipart,
    text_field,
    while_connected,
)

if TYPE_CHECKING:
    from nmt.inference.typing_session import TypingSession
    from nmt.serve.models import ServedModel

_MOST_SESSIONS = 64
_MOST_WORDS = 60
"""Words of a sentence beyond which its attention is not sent: it grows with their square."""


class Sessions:
    """Sentences that are being translated with a person: those asked for last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str], tuple[TypingSession, Lock]] = OrderedDict()
        self._lock = Lock()
        self.turn = asyncio.Semaphore(2)  # completions at a time: others wait, and the search has the rest

    def complete(self, model: ServedModel, sentence: str, typed: str, count: int) -> list[Translation]:
        """Translations that begin with what was typed. Blocks."""
        key = id(model.engine), sentence
        with self._lock:
            kept = self._kept.pop(key, None)
        if kept is None:
            kept = model.engine.translator.session(sentence), Lock()
        with self._lock:
            self._kept[key] = kept
            while len(self._kept) > _MOST_SESSIONS:
                self._kept.popitem(last=False)
        with kept[1]:
            return kept[0].complete(typed, n_best=count, beam_size=max(5, count))


async def models(request: Request) -> Response:
    """GET /api/models."""
    found = []
    await asyncio.to_thread(bleu_signature)  # loads a library, once
    for one in service_of(request).models.all:
        names = {"source_name": language_name(one.source), "target_name": language_name(one.target)}
        found.append(one.about | names)
    limits = service_of(request).settings.limits
    return CompactJSON(
        {
            "models": found,
            "key_required": service_of(request).gate.wants_keys,
            "limits": {"characters": limits.characters, "alternatives": limits.alternatives},
            "formats": service_of(request).files.formats,
        }
    )


async def sentences(request: Request) -> Response:
    """POST /api/sentences: a text's translation, sentence by sentence, with words, probabilities and attention, and
    with the terms of the glossary that the model has not followed."""
    service = service_of(request)
    fields = await read_fields(request, service)
    client = enter(request, fields)
    text = text_field(fields, "q")
    count = count_field(fields, "alternatives")
    service.check([text], count)
    glossary = glossary_field(fields)
    model, _ = await service.pair(
        text_field(fields, "source"), text_field(fields, "target"), [text], fields.get("model")
    )
    passage = read_passage(text, "text", model.splitter)
    asked = [one.asked for one in passage.sentences]
    found = await while_connected(request, service.ask(model, asked, Ask(count + 1, True, glossary), client))
    service.count(model, asked, client, len(text))
    rest = iter(found)
    parts = [{"text": part} if isinstance(part, str) else _shown(part, next(rest)) for part in passage.parts]
    if glossary:
        await asyncio.to_thread(note_terms, parts, glossary)
    return CompactJSON({"parts": parts, "model": model.name})


def _shown(part: Sentence, translations: Sequence[Translation]) -> dict[str, Any]:
    """A sentence as the page shows it: its translation and others, each with its words."""
    whole = [part.translated(one) for one in translations]
    bare = [one[len(part.before) : len(one) - len(part.after)] for one in whole]
    told: dict[str, Any] = {"source": part.text, "before": part.before, "after": part.after, "translation": bare[0]}
    told["alternatives"] = [
        {"translation": text} | _words(part.text, text, one.detail)
        for n, (text, one) in enumerate(zip(bare, translations, strict=True))
        if n and text.strip() and text not in bare[:n]
    ]
    told["warnings"] = list(translations[0].warnings)
    return told | _words(part.text, bare[0], translations[0].detail)


def _words(source: str, translation: str, detail: Detail | None) -> dict[str, Any]:
    """Words of both sides, how probable each of the translation is, and how it attends; nothing where the words shown
    are not those that the model wrote."""
    words, from_words = translation.split(), source.split()
    if detail is None or not words or len(words) > _MOST_WORDS or len(from_words) > _MOST_WORDS:
        return {}
    tokens = detail.tokens[:-1] if detail.tokens[-1:] == ["</s>"] else detail.tokens
    of_words, of_source = words_of(tokens), words_of(detail.src_tokens)
    if max(of_words, default=-1) + 1 != len(words) or max(of_source, default=-1) + 1 != len(from_words):
        return {}
    weights = soft_alignment(detail.attention, of_source, of_words)
    totals = np.bincount(of_words, detail.log_probs[: len(of_words)], minlength=len(words))
    return {
        "words": words,
        "source_words": from_words,
        "probabilities": [round(float(p), 3) for p in np.exp(totals)],
        "attention": [[round(float(w), 2) for w in row] for row in weights],
    }


async def complete(request: Request) -> Response:
    """POST /api/complete: translations of a sentence that begin with what was typed."""
    service = service_of(request)
    fields = await read_fields(request, service)
    enter(request, fields)
    text, typed = text_field(fields, "q"), text_field(fields, "typed", "")
    count = max(1, count_field(fields, "count", 3))
    service.check([text, typed], min(count, 10) - 1)
    model, _ = await service.pair(
        text_field(fields, "source"), text_field(fields, "target"), [text], fields.get("model")
    )
    kept: Sessions = request.app.state.sessions

    async def work() -> list[Translation]:
        async with kept.turn:
            return await asyncio.to_thread(kept.complete, model, text, typed, count)

    found = await while_connected(request, work())
    return CompactJSON({"completions": [one.text for one in found]})


async def file(request: Request) -> Response:
    """POST /api/file: as /translate_file; `ticket` is a word under which /api/progress tells how far it is."""
    service = service_of(request)
    body = await read_body(request, service, service.settings.limits.file_bytes)
    fields = await read_multipart(request, body)
    client = enter(request, fields)
    wish = FileWish(
        *file_field(fields),
        text_field(fields, "source"),
        text_field(fields, "target"),
        text_field(fields, "model", "") or None,
        glossary_field(fields),
        text_field(fields, "ticket", ""),
    )
    name = await while_connected(request, translate_file_of(service, wish, client))
    told = {"url": f"download_file/{name}", "name": service.files.get(name)[0], "seconds": SECONDS_KEPT}
    return CompactJSON(told)


async def progress(request: Request) -> Response:
    """GET /api/progress?ticket=...: sentences of a file that are done, and all of them."""
    done, count = service_of(request).files.progress.get(request.query_params.get("ticket", ""), (0, 0))
    return CompactJSON({"done": done, "count": count})


ROUTES = [
    Route("/api/models", models, methods=["GET"]),
    Route("/api/sentences", sentences, methods=["POST"]),
    Route("/api/complete", complete, methods=["POST"]),
    Route("/api/file", file, methods=["POST"]),
    Route("/api/progress", progress, methods=["GET"]),
]
