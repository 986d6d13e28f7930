"""Work on untrusted texts in a worker process (see `box`): split, join, read and write files. Each function yields
plain values, one frame each. This module imports no compiled code and no model: its process starts small."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from nmt.data.alignment.word_alignment import soft_alignment, words_of
from nmt.documents.document import left_text, read_document
from nmt.documents.forms import Limits
from nmt.documents.passage import MENDED, RULES, Markup, Passage, Rules, Sentence, Splitter, sentence_splitter
from nmt.documents.tagged_text import read_passage
from nmt.errors import DataError
from nmt.inference.translation import Detail, Translation, confidence_in

MOST_SENTENCES = 250_000
"""Maximum sentences of a file, each of which costs the server memory."""
_LIMITS = Limits(elements=200_000)
"""Limits of a file, which must fit in a process of half a gigabyte."""
_ROWS = 256
_CHUNK = 2**18
_MOST_WORDS = 60
"""Maximum words of a sentence whose attention is sent, which grows with their square."""

Found = Sequence[Sequence[Translation]]
"""The translations of each sentence, the best first."""
Answer = tuple[str, float]
"""A translated text and its confidence."""


@cache
def splitter_of(language: str | None) -> Splitter | None:
    """Return the sentence splitter of a language; None for None, which keeps paragraphs whole."""
    return None if language is None else sentence_splitter(language)


def cut(
    texts: Sequence[str], markup: Markup, language: str | None, ignored: frozenset[str], rules: Rules = RULES
) -> Iterator[Any]:
    """Yield rows (needs details, text to translate) of sentences, then the passages as bytes for `join`."""
    splitter = splitter_of(language)
    passages = [read_passage(text, markup, splitter, ignored, rules) for text in texts]
    yield from _parts([[one.needs_detail, one.asked] for passage in passages for one in passage.sentences], _ROWS)
    yield from _parts(pickle.dumps(passages, pickle.HIGHEST_PROTOCOL), _CHUNK)


def join(passages: bytes, found: Found, count: int) -> Iterator[Any]:
    """Yield for each text its translations of ranks 0 to `count` with their confidence, without duplicates."""
    yield from joined(pickle.loads(passages), found, count)


def joined(passages: Sequence[Passage], found: Found, count: int) -> list[list[Answer]]:
    """Return each text's different translations by rank, with confidence; a sentence of fewer repeats its best."""
    results, at = [], 0
    for passage in passages:
        own = found[at : at + len(passage.sentences)]
        at += len(own)
        most = min(count, max(map(len, own), default=1))
        ranks: list[Answer] = []
        for rank in range(most):
            chosen = [ts[rank] if rank < len(ts) else ts[0] for ts in own]
            text = passage.joined(chosen)
            if all(text != other for other, _ in ranks):
                ranks.append((text, round(confidence_in(chosen), 4)))
        results.append(ranks)
    return results


def shown(passages: bytes, found: Found) -> Iterator[Any]:
    """Yield the parts of a text for the web page: sentences with words, probabilities and attention."""
    rest = iter(found)
    for passage in pickle.loads(passages):
        for part in passage.parts:
            yield {"text": part} if isinstance(part, str) else _shown(part, next(rest))


def sample(content: bytes, form: str, name: str) -> Iterator[Any]:
    """Yield the beginning of a file's text, from which its language is detected."""
    document = read_document(content, form, name, limits=_LIMITS)
    texts = [one.text for passage in document.passages[:50] for one in passage.sentences[:20]]
    yield " ".join(texts)[:5000]


def read_file(content: bytes, form: str, name: str, language: str | None, pair: tuple[str, str]) -> Iterator[Any]:
    """Yield rows (text to translate, the sentence as bytes for `finish` if it needs details, else empty). `language`
    selects the sentence splitter; `pair` is the model's languages."""
    document = read_document(content, form, name, splitter_of(language), pair, _LIMITS)
    found = [one for passage in document.passages for one in passage.sentences]
    if len(found) > MOST_SENTENCES:
        raise DataError(f"{name}: must have at most {MOST_SENTENCES:,} sentences, got {len(found):,}; split it")
    yield from _parts([[one.asked, pickle.dumps(one) if one.needs_detail else b""] for one in found], _ROWS)


def finish(sentences: Sequence[bytes], translations: Sequence[Translation]) -> Iterator[Any]:
    """Yield the translated sentences with their markup."""
    yield [pickle.loads(one).translated(t) for one, t in zip(sentences, translations, strict=True)]


def write_file(
    content: bytes,
    form: str,
    name: str,
    language: str | None,
    pair: tuple[str, str],
    answers: Sequence[tuple[bool, str]],
) -> Iterator[Any]:
    """Yield what of a file is left untranslated, and the translated file in pieces. `answers`: for each sentence
    whether its text is final, and the text. The file is parsed again, as nothing of it is kept meanwhile."""
    document = read_document(content, form, name, splitter_of(language), pair, _LIMITS)
    rest = iter(answers)

    def finished(part: str | Sentence) -> str:
        if isinstance(part, str):
            return part
        is_done, text = next(rest)
        return text if is_done else part.translated(Translation(text, 0.0, 0.0))

    texts = ["".join(map(finished, passage.parts)) for passage in document.passages]
    yield left_text(document.left)
    yield from _parts(document.write(texts), _CHUNK)


def _parts(whole: Any, size: int) -> Iterator[Any]:
    """Yield parts of a list, or of bytes."""
    for at in range(0, len(whole), size):
        yield whole[at : at + size]


def _shown(part: Sentence, translations: Sequence[Translation]) -> dict[str, Any]:
    """Return a sentence for the web page: its translation and alternatives, each with its words."""
    whole = [part.translated(one) for one in translations]
    bare = [one[len(part.before) : len(one) - len(part.after)] for one in whole]
    sure = [round(one.confidence, 4) for one in translations]
    alternatives = [
        {"translation": text, "confidence": sure[n]} | _words(part.text, text, one.detail)
        for n, (text, one) in enumerate(zip(bare, translations, strict=True))
        if n and text.strip() and text not in bare[:n]
    ]
    mended = [MENDED] if part.changes(translations[0]) else []
    return {
        "source": part.text,
        "before": part.before,
        "after": part.after,
        "translation": bare[0],
        "confidence": sure[0],
        "alternatives": alternatives,
        "warnings": [*translations[0].warnings, *mended],
        "unseen": [*translations[0].unseen],
        **_words(part.text, bare[0], translations[0].detail),
    }


def _words(source: str, translation: str, detail: Detail | None) -> dict[str, Any]:
    """Return the words of both sides, the probability of each target word, and its attention; nothing if the displayed
    words are not the ones that the model produced."""
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
