"""Passages: text whose sentences are translated, and everything around them, which is kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from nmt.data.tokens.letter_case import capitals_of, is_in_capitals, lowered
from nmt.documents.marks import Mark, with_marks
from nmt.documents.placeholders import Placeholder, placeholders_of
from nmt.documents.sentences import Splitter, pieces
from nmt.documents.words import TargetWord, TargetWords, keep_placeholders, target_words, word_at
from nmt.inference.translation import Translation

Markup = Literal["text", "html", "xml"]

NOTHING: dict[int, str] = {}
HTML_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True)
class Sentence:
    """One sentence of a passage. text: what the model reads; before, after: white space and marks that stay where they
    are; raw: text and marks as written; marks: those within the text; escape: how characters of the translation are
    written; head, tail: white space of raw before and after all words; glued: positions of no-break spaces in the
    text."""

    text: str
    before: str = ""
    after: str = ""
    raw: str = ""
    marks: tuple[Mark, ...] = ()
    escape: dict[int, str] = field(default_factory=dict)
    head: str = ""
    tail: str = ""
    glued: tuple[int, ...] = ()

    @cached_property
    def placeholders(self) -> list[Placeholder]:
        """Return the placeholders of the text, in order."""
        return placeholders_of(self.text)

    @cached_property
    def is_capitals(self) -> bool:
        """Return whether it is written in capitals, ignoring placeholders."""
        bounds = [0, *(at for one in self.placeholders for at in (one.start, one.end)), len(self.text)]
        return is_in_capitals("".join(self.text[a:b] for a, b in zip(bounds[::2], bounds[1::2], strict=True)))

    @property
    def asked(self) -> str:
        """Return the text to translate: in lower case except for the first letter if the sentence is all capitals."""
        if not self.is_capitals:
            return self.text
        parts, at = [], 0
        for one in self.placeholders:
            parts += [lowered(self.text[at : one.start]), one.text]
            at = one.end
        text = "".join([*parts, lowered(self.text[at:])])
        first = next((n for n, c in enumerate(text) if c.isalpha()), 0)
        inside = any(one.start <= first < one.end for one in self.placeholders)
        return text if inside else text[:first] + text[first : first + 1].title() + text[first + 1 :]

    @property
    def needs_detail(self) -> bool:
        """Return whether the translation needs a word alignment."""
        return bool(self.marks or self.placeholders or self.glued)

    def translated(self, translation: Translation) -> str:
        """Return the translated sentence with its marks and white space; as written if nothing has changed."""
        text = self.asked
        if translation.text == text:
            return self.before + self.raw + self.after
        if not self.needs_detail:
            found = translation.text
            body = (capitals_of(found) if self.is_capitals else found).translate(self.escape)
        else:
            body = self._with_details(translation)
        return self.before + self.head + body + self.tail + self.after

    def _with_details(self, translation: Translation) -> str:
        """Return the translation with marks, placeholders and no-break spaces."""
        spans = [m.span() for m in re.finditer(r"\S+", self.text)]
        words = self._words(translation, len(spans))
        keep_placeholders(words, self.text, spans, self.placeholders)
        if self.is_capitals:
            words.words = [w if w.is_kept else replace(w, text=capitals_of(w.text)) for w in words.words]
        glued = {word_at(spans, at) for at in self.glued}
        return with_marks(self.text, self.marks, words, self.escape, glued)

    def _words(self, translation: Translation, count: int) -> TargetWords:
        """Return the words of the translation; without a detail they have no alignment."""
        if translation.detail is not None:
            return target_words(translation, count)
        texts = translation.text.split()
        return TargetWords([TargetWord(text, min(n, count - 1)) for n, text in enumerate(texts)], list(range(count)))


@dataclass(frozen=True)
class Passage:
    """Sentences, and the white space and marks between them, which are kept."""

    parts: tuple[str | Sentence, ...]

    @property
    def sentences(self) -> list[Sentence]:
        """Return the sentences to translate, in order."""
        return [part for part in self.parts if isinstance(part, Sentence)]

    @property
    def source(self) -> str:
        """Return the passage as written."""
        return "".join(p if isinstance(p, str) else p.before + p.raw + p.after for p in self.parts)

    def joined(self, translations: Sequence[Translation]) -> str:
        """Return the translated passage, given a translation of each of its `sentences`."""
        rest = iter(translations)
        return "".join(part if isinstance(part, str) else part.translated(next(rest)) for part in self.parts)


def text_passage(text: str, splitter: Splitter | None = None) -> Passage:
    """Return the passage of a plain text; each line is a paragraph."""
    parts: list[str | Sentence] = []
    for line in re.split(r"(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])", text):
        if not line.strip():
            parts += [line] if line else []
            continue
        for piece in pieces(line, splitter):
            bare = piece.strip()
            if not bare:
                parts.append(piece)
                continue
            start = len(piece) - len(piece.lstrip())
            parts.append(Sentence(bare, piece[:start], piece[start + len(bare) :], bare))
    return Passage(tuple(parts))
