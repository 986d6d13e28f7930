"""Passages: text whose sentences are translated, and everything around them, which is kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

from nmt.data.tokens.characters import capitals_of, is_in_capitals, lowered, titled
from nmt.documents.marks import Mark, with_marks
from nmt.documents.placeholders import WIDE, Placeholder, has_words, scanned
from nmt.documents.tokens import Accelerator, Syntax, UnreadMessage, behind_words
from nmt.documents.words import keep_placeholders, target_words, word_at
from nmt.errors import NMTError, how_to_install
from nmt.inference.translation import Translation

Splitter = Callable[[str], list[str]]
"""Splits a text into sentences, including white space: together they are the text."""

LONGEST = 100_000
"""The maximum size of a window in characters, so that memory and time stay bounded."""

_SIGNS = re.compile("[«»‹›“”„‘’\"'.!?…]")
_SHORT = 4000

LONGEST_SENTENCE = 1000
"""The maximum length of a sentence in characters, as a model would read only the beginning of longer ones."""


def pieces(text: str, splitter: Splitter | None) -> list[str]:
    """Return the sentences of a text, or the text without a splitter, none longer than LONGEST_SENTENCE."""
    found: list[str] = []
    for one in splitter(text) if splitter is not None else [text]:
        at = 0
        while len(one) - at > LONGEST_SENTENCE:
            end = one.rfind(" ", at + LONGEST_SENTENCE // 2, at + LONGEST_SENTENCE) + 1 or at + LONGEST_SENTENCE
            found.append(one[at:end])
            at = end
        if at < len(one):
            found.append(one[at:] if at else one)
    return found


def windows(text: str) -> list[str]:
    """Split a text into windows for the sentence splitter. At each quotation mark and full stop the library scans the
    rest of its input: if a text has more of them than people write, windows are short."""
    found: list[str] = []
    for start in range(0, len(text), LONGEST):
        block = text[start : start + LONGEST]
        size = LONGEST if len(_SIGNS.findall(block)) * 10 <= len(block) else _SHORT
        found += [block[at : at + size] for at in range(0, len(block), size)]
    return found


def sentence_splitter(language: str) -> Splitter:
    """Return a splitter with the rules of a language, or of English if there are none for it, by sentencex of
    Wikimedia. Raises NMTError without the library."""
    try:
        from sentencex import segment
    except ImportError:
        raise NMTError(
            f"sentences: must be found by the library sentencex, got none; {how_to_install('documents')}, or take "
            "each line as a sentence"
        ) from None
    code = language.replace("_", "-").split("-")[0].lower()

    def split(text: str) -> list[str]:
        parts = [part for window in windows(text) for part in segment(code, window)]
        # Callers rely on the parts being the text: if they are not, the text is not split.
        return parts if "".join(parts) == text else [text]

    return split


Markup = Literal["text", "html", "xml"]

HTML_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

MENDED = "a number that was provably wrong is the source's now"
"""The warning about a sentence with changes."""
NO_BREAK = "\u00a0\u2007\u202f"
"""Spaces that do not break a line: the model reads plain ones, and they stay between words that stay neighbours."""
SOFT_HYPHEN = "\u00ad"
_WIDE = re.compile(f"[{WIDE}]")
_TAG = re.compile("<[^<>]*>")
ITEM = re.compile(
    r"(?<!\s)\s*+(?:(?:[-*+\u2022\u2023\u2043\u25aa\u25cf\u25e6\u30fb]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})\))\s+"
    r"|\uff08(?:\d{1,3}|[\u4e00-\u9fff]{1,2})\uff09\s*|[\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341]{1,3}\u3001"
    r"|[\u2460-\u2473]\s*)(?=\S|$)"
)
"""The mark at the beginning of an item of a list."""
LINES = re.compile(r"(\r\n|[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029])")
"""Line breaks of plain text, and tabs."""
_QUOTING = re.compile(r"'(?!\w)")
"""An apostrophe that may quote the sign behind it in an ICU message; within a word it never does."""
_PLAIN_SPACES = str.maketrans(dict.fromkeys(NO_BREAK, " "))


@dataclass(frozen=True)
class Rules:
    """The rules of a text. source, target: languages' codes; numbers: whether provably wrong numbers are corrected."""

    source: str = ""
    target: str = ""
    numbers: bool = True


RULES = Rules()


@dataclass
class Sentence:
    """One sentence of a passage. text: what the model reads; before, after: white space and marks that stay where they
    are; raw: text and marks as written; marks: those within the text; escape: how characters of the translation are
    written; head, tail: white space of raw before and after all words; glued: positions of no-break spaces in the
    text, and the spaces; syntax: that of the text around it."""

    text: str
    before: str = ""
    after: str = ""
    raw: str = ""
    marks: tuple[Mark, ...] = ()
    escape: dict[int, str] = field(default_factory=dict)
    head: str = ""
    tail: str = ""
    glued: tuple[tuple[int, str], ...] = ()
    rules: Rules = RULES
    syntax: Syntax = ""
    read: list[Placeholder] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def written(self) -> str:
        """Return the text with its no-break spaces."""
        signs = list(self.text)
        for at, space in self.glued:
            signs[at] = space
        return "".join(signs)

    @cached_property
    def scanned(self) -> list[Placeholder]:
        """Return the placeholders of the text, in order, numbers within words included."""
        found = scanned(self.written) if self.read is None else self.read
        return found if self.rules.numbers else [one for one in found if not one.is_number]

    @property
    def placeholders(self) -> list[Placeholder]:
        """Return the placeholders of the text, in order."""
        return [one for one in self.scanned if not one.is_inside]

    @cached_property
    def is_capitals(self) -> bool:
        """Return whether it is written in capitals, ignoring placeholders."""
        return is_in_capitals("".join(part for part, is_kept in _divided(self.text, self.placeholders) if not is_kept))

    @property
    def asked(self) -> str:
        """Return the text to translate: in lower case except for the first letter if the sentence is all capitals."""
        if not self.is_capitals:
            return self.text
        found = []
        has_begun = False
        for part, is_kept in _divided(self.text, self.placeholders):
            text = part if is_kept else lowered(part, self.rules.source)
            if not has_begun and any(map(str.isalpha, text)):
                has_begun = True
                if not is_kept:
                    first = next(n for n, c in enumerate(text) if c.isalpha())
                    text = text[:first] + titled(text[first], self.rules.source) + text[first + 1 :]
            found.append(text)
        return "".join(found)

    @property
    def needs_detail(self) -> bool:
        """Return whether the translation needs a word alignment."""
        return bool(self.marks or self.glued or self.placeholders)

    def translated(self, translation: Translation) -> str:
        """Return the translated sentence with its marks and white space, as its syntax demands it: in a message, an
        apostrophe that would quote becomes a typographic one; for Android, what looks like a reference is escaped; a
        CDATA section does not end. As written if nothing has changed."""
        if self.syntax == "message" and translation.text != self.asked:
            translation = replace(translation, text=_QUOTING.sub("\u2019", translation.text))
        if translation.text == self.asked:
            return self.before + self.raw + self.after
        if not self.needs_detail:
            body = self._in_case(translation.text).translate(self.escape)
        else:
            body = self._with_details(translation)[0]
        start, found = self.before + self.head, self.before + self.head + body + self.tail + self.after
        if self.syntax == "android" and found[len(start) : len(start) + 1] in ("@", "?"):
            return f"{start}\\{found[len(start) :]}"
        return found.replace("]]>", "]]]]><![CDATA[>") if self.syntax == "cdata" else found

    def changes(self, translation: Translation) -> list[tuple[str, str]]:
        """Return the numbers that `translated` corrects: as the model wrote them, and as they are now."""
        has_numbers = any(one.is_number for one in self.placeholders)
        return self._with_details(translation)[1] if has_numbers and translation.text != self.asked else []

    def _with_details(self, translation: Translation) -> tuple[str, list[tuple[str, str]]]:
        """Return the translation with marks, placeholders and no-break spaces, and the changes of numbers."""
        text = self.written
        words = target_words(text, self.scanned, translation)
        keep_placeholders(words, text, translation.text, self.scanned, numbers=self.rules.numbers)
        for word in words.words:
            word.text = self._in_case(word.text, is_kept=word.kept)
        after = {word_at(words.spans, at): (at, space) for at, space in self.glued}
        glued = {n: space for n, (at, space) in after.items() if n < len(words.spans) and at < words.spans[n][0]}
        new = with_marks(text, self.marks, words, self.escape, glued)
        for sign in (mark.raw for mark in self.marks if isinstance(mark.raw, Accelerator)):
            new = behind_words(new, sign, self.raw.partition(sign)[2][:1])
        return new, words.changes

    def _in_case(self, text: str, *, is_kept: bool = False) -> str:
        """Return a translation, or words of it, in capitals if the sentence is; is_kept: but for placeholders."""
        if not self.is_capitals:
            return text
        parts = _divided(text, scanned(text)) if is_kept else [(text, False)]
        return "".join(part if kept else capitals_of(part, self.rules.target) for part, kept in parts)


def _divided(text: str, placeholders: Sequence[Placeholder]) -> list[tuple[str, bool]]:
    """Return the parts of a text, and whether each is a placeholder."""
    found, at = [], 0
    for one in placeholders:
        found += [(text[at : one.start], False), (one.text, True)]
        at = one.end
    return [*found, (text[at:], False)]


@dataclass(frozen=True)
class Passage:
    """Sentences, and the white space and marks between them, which are kept."""

    parts: tuple[str | Sentence, ...]

    @property
    def sentences(self) -> list[Sentence]:
        """Return the sentences to translate, in order."""
        return [part for part in self.parts if isinstance(part, Sentence)]

    @property
    def unread(self) -> int:
        """Return how many messages of it cannot be read and stay as they are."""
        return sum(isinstance(part, UnreadMessage) for part in self.parts)

    @property
    def source(self) -> str:
        """Return the passage as written."""
        return "".join(p if isinstance(p, str) else p.before + p.raw + p.after for p in self.parts)

    def ruled(self, rules: Rules) -> Passage:
        """Set the rules of all sentences before they are used, and return the passage."""
        for one in self.sentences:
            one.rules = rules
        return self

    def joined(self, translations: Sequence[Translation]) -> str:
        """Return the translated passage, given a translation of each of its `sentences`."""
        rest = iter(translations)
        texts = [part if isinstance(part, str) else part.translated(next(rest)) for part in self.parts]
        for n, (one, other) in enumerate(pairwise(self.parts)):
            if isinstance(one, Sentence) and isinstance(other, Sentence):
                texts[n], texts[n + 1] = _spaced(one, other, texts[n], texts[n + 1])
        return "".join(texts)


def _spaced(one: Sentence, other: Sentence, first: str, second: str) -> tuple[str, str]:
    """Return two neighbouring sentences, with or without a space between them, as the translation's script has it."""
    cores = _TAG.sub("", first[: len(first) - len(one.after)]), _TAG.sub("", second[len(other.before) :])
    source, end, start = (bool(_WIDE.match(sign)) for sign in (one.text[-1], cores[0][-1:], cores[1][:1]))
    gap = _TAG.sub("", one.after + other.before)
    if not gap and source and cores[0] and cores[1] and not end and not start:
        return f"{first} ", second
    if gap == " " and not source and end and start:
        return first.removesuffix(" "), second.removeprefix(" ") if one.after[-1:] != " " else second
    return first, second


def text_passage(text: str, splitter: Splitter | None = None) -> Passage:
    """Return the passage of a plain text; each line, and each part of it between tabs, is a paragraph."""
    parts: list[str | Sentence] = []
    for line in (text,) if text.isprintable() else LINES.split(text):
        if not line.strip():
            parts += [line] if line else []
            continue
        if item := ITEM.match(line):
            parts.append(item[0])
        for piece in pieces(line[item.end() :] if item else line, splitter):
            bare = piece.strip()
            read = bare.replace(SOFT_HYPHEN, "")
            found = scanned(read)
            if not has_words(read, found):
                parts.append(piece)
                continue
            start = len(piece) - len(piece.lstrip())
            glued = tuple((at, c) for at, c in enumerate(read) if c in NO_BREAK) if not read.isascii() else ()
            read = read.translate(_PLAIN_SPACES) if glued else read
            parts.append(Sentence(read, piece[:start], piece[start + len(bare) :], bare, glued=glued, read=found))
    return Passage(tuple(parts))
