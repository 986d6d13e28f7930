"""Vocabularies over bytes, as published language models have them: byte-level BPE (Radford et al. 2019, Language Models
are Unsupervised Multitask Learners, section 2.2), or the longest token that the text begins with. Every text has its
tokens.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from nmt.data.tokens.vocabulary import Vocabulary, list_problem, merged
from nmt.errors import DataError
from nmt.overriding import override
from nmt.special_tokens import SPACE

_KEY = "nmt_byte_tokens"
_VERSION = 1
START = b'{"' + _KEY.encode()
"""The first bytes of every such file."""
_SHOWN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_LETTERS = {byte: chr(byte) for byte in _SHOWN}
_LETTERS |= {byte: chr(256 + n) for n, byte in enumerate(b for b in range(256) if b not in _LETTERS)}
LETTER_OF = [_LETTERS[byte] for byte in range(256)]
"""The character by which byte-level BPE writes each byte: itself if it can be seen, else one from U+0100 on."""
_BYTE_OF = {letter: byte for byte, letter in _LETTERS.items()}
# The pieces of GPT-2, over kinds of characters: s, d, m, t, l, v, r, e are themselves, L other letters, N numbers, S
# spaces but the usual one, O all others.
_PIECES = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[Lsdmtlvre]+| ?N+| ?[O']+|[ S]+(?![^ S])|[ S]+")


class _Kinds(dict[int, str]):
    """The kind of each character by its code, looked up once."""

    def __missing__(self, code: int) -> str:
        """Return the kind of a character that comes for the first time."""
        letter = chr(code)
        category = unicodedata.category(letter)
        if letter in " 'sdmtlvre":
            kind = letter
        elif category[0] in "LN":
            kind = category[0]
        else:
            kind = "S" if category[0] == "Z" or letter in "\t\n\v\f\r\x85" else "O"
        self[code] = kind
        return kind


_KINDS = _Kinds()


class ByteTokens(Vocabulary):
    """A list of tokens of bytes; `units` follow from id 4 on, and have a character of `LETTER_OF` for each byte.

    merges: Pairs of tokens in the order in which they are joined, inside the pieces of text of GPT-2; None for the
    longest token at every place. whole: Texts that are tokens wherever they occur. prefixed: Whether a space is put
    before a text without one. normal: Whether text is normalised to NFC first.
    """

    _most_words = 100_000

    def __init__(
        self,
        units: Sequence[str],
        merges: Sequence[tuple[str, str]] | None,
        *,
        whole: Sequence[str] = (),
        prefixed: bool = False,
        normal: bool = False,
    ) -> None:
        super().__init__(units, merges=merges or ())
        self.split = "bytes"
        self._greedy, self._prefixed, self._normal = merges is None, prefixed, normal
        found = sorted(whole, key=len, reverse=True)
        self._whole = re.compile("|".join(map(re.escape, found))) if found else None
        # What a longer token begins with.
        self._begins = {unit[:n] for unit in self.units for n in range(1, len(unit))} if self._greedy else set()
        values = {"units": self.units, "merges": None if merges is None else [list(pair) for pair in merges]}
        content = {_KEY: _VERSION, **values, "whole": list(whole), "prefixed": prefixed, "normal": normal}
        self.model_bytes = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()

    @override
    def join(self, pieces: Sequence[str]) -> str:
        return "".join(pieces).replace(SPACE, " ").removeprefix(" " if self._prefixed else "")

    @override
    def _units(self, sentence: str) -> list[str]:
        text = unicodedata.normalize("NFC", sentence) if self._normal else sentence
        if self._prefixed and not text.startswith(" "):
            text = " " + text
        found, start = [], 0
        for match in self._whole.finditer(text) if self._whole else ():
            found += [*self._between(text[start : match.start()]), as_letters(match[0].encode())]
            start = match.end()
        return found + self._between(text[start:])

    def _between(self, text: str) -> list[str]:
        """Return the tokens of a part of a text."""
        if self._greedy:
            return self._longest(as_letters(text.encode("utf-8", "replace")))
        cuts = [match.span() for match in _PIECES.finditer(text.translate(_KINDS))]
        return [token for a, b in cuts for token in self._pieces(as_letters(text[a:b].encode("utf-8", "replace")))]

    @override
    def _cut(self, word: str) -> list[str]:
        return merged(list(word), self._ranks)

    def _longest(self, letters: str) -> list[str]:
        """Return the longest token that the text begins with, the longest one after it, and so on."""
        found, at = [], 0
        while at < len(letters):
            longest = end = at + 1
            while letters[at:end] in self._begins and end < len(letters):
                end += 1
                longest = end if letters[at:end] in self._ids else longest
            found.append(letters[at:longest])
            at = longest
        return found

    @override
    def _text(self, units: Sequence[str]) -> str:
        text = b"".join(as_bytes(unit) for unit in units).decode("utf-8", "replace")
        return super()._text([text.removeprefix(" ") if self._prefixed else text])

    @override
    def _marked(self, units: Sequence[str]) -> list[str]:
        return [as_bytes(unit).decode("utf-8", "replace").replace(" ", SPACE) for unit in units]


def as_letters(content: bytes) -> str:
    """Return bytes with one character for each."""
    return "".join(LETTER_OF[byte] for byte in content)


def as_bytes(unit: str) -> bytes:
    """Return the bytes that a token writes; a character that stands for no byte writes itself."""
    return b"".join(bytes([_BYTE_OF[c]]) if c in _BYTE_OF else c.encode() for c in unit)


def read_byte_tokens(content: bytes, where: str) -> ByteTokens:
    """Return a vocabulary from its bytes. Raises DataError, beginning with `where`, if they are damaged."""
    try:
        values: dict[str, Any] = json.loads(content)
        version, merges, whole = values.pop(_KEY), values["merges"], values["whole"]
        problem = "" if version == _VERSION else f"another version than {_VERSION}"
        problem = problem or list_problem(values["units"], [] if merges is None else merges) or list_problem(whole, [])
    except (ValueError, RecursionError, KeyError):
        raise DataError(f"{where}: must be a vocabulary of bytes, got a part of one; restore a copy") from None
    if problem:
        raise DataError(f"{where}: must be a vocabulary of bytes, got {problem}; restore a copy")
    pairs = None if merges is None else [(a, b) for a, b in merges]
    options = {name: values.get(name) is True for name in ("prefixed", "normal")}
    return ByteTokens(values["units"], pairs, whole=whole, **options)
