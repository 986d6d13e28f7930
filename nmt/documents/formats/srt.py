"""SubRip and WebVTT subtitles: the text behind a line of times is translated, in as many lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from nmt.documents.document import Document, File
from nmt.documents.encodings import utf8_text
from nmt.documents.placeholders import WIDE
from nmt.documents.tagged_text import as_loose, loose_passage
from nmt.errors import DataError

_TIME = r"(?:\d{1,3}\s?:\s?)?\d{1,3}\s?:\s?\d{1,2}(?:\s?[,.:]\s?\d{1,9})?"
_TIMES = re.compile(
    r"[\s\ufeff]*(?:\d+:)?\d\d:\d\d[,.]\d{1,3}\s*-->\s*(?:\d+:)?\d\d:\d\d[,.]\d{1,3}"
    rf"|[\s\ufeff]*{_TIME}\s*-{{1,2}}\s?>\s*{_TIME}(?=\s*$|\s+[A-Za-z]\w*\s*:)"
)
"""A line of times as people's tools write it: without hours or milliseconds, with coordinates or settings behind."""
_BROKEN = re.compile(r"\A[\s\ufeff]*\d+\s*:[^\s>]{0,20}\s?-->")
"""A line that begins as one of times."""
_NUMBER = re.compile(r"\A[\s\ufeff]*\d+\s*")
_TAGS = r"(?:<[^<>]*>|\{[^{}]*\}|\s)*"
_ARROWS = r">{2,3}|(?:&gt;){2,3}"
_SPEAKER = re.compile(rf"({_TAGS}(?:[-\u2010-\u2015]+[ \t]*(?=[^\s\d-])|(?:{_ARROWS})[ \t]*))(?=\S)")
"""The dash or the arrows at the beginning of a speaker's line, after tags if there are any."""
_VOICE = re.compile(r"<v[.\s]")
_VERSE = re.compile(rf"{_TAGS}[\u2669-\u266f]")
_VERSE_END = re.compile(rf"[\u2669-\u266f]{_TAGS}\Z")
_SOUND = re.compile(rf"{_TAGS}(?:\[[^\[\]()]+\]|\([^\[\]()]+\)){_TAGS}")
_MARKS = rf"\{{\\[^{{}}]*\}}|<[\d:.]+>|[\u2669-\u266f]+|{_ARROWS}"
"""Codes of Advanced SubStation such as {\\an8}, times of words in WebVTT, music signs, and the arrows of speakers."""
_OPENING, _NO_START = "「『（〈《【", "、。，．！？：；）」』〉》】…‥ーぁぃぅぇぉっゃゅょァィゥェォッャュョ々"
_WORD = re.compile(rf"\s*(?:[{_OPENING}]*[{WIDE}][{_NO_START}]*+|(?:<[^<>]*>|\{{\\[^{{}}]*\}}|[^\s<{{{WIDE}]|<|\{{)+)")
"""A unit of a line: a word after white space, or a letter of a script without spaces with its punctuation."""


@dataclass(frozen=True)
class _Part:
    """The text of a speaker, lines [first, last) of the file; dash: the part before it, which is kept."""

    first: int
    last: int
    dash: str


def read(file: File) -> Document:
    """Read SubRip or WebVTT. Tags, codes and music signs stay next to their words; a line with a dash begins the text
    of a speaker, which is translated separately. Notes, styles and regions of WebVTT are no cues. Raises DataError."""
    name = file.name
    text, encode = utf8_text(file.content, name)
    lines = text.splitlines(keepends=True)
    parts: list[_Part] = []
    cues = 0
    left: Counter[str] = Counter()
    is_vtt = file.form == "vtt"
    if is_vtt and not re.match(r"WEBVTT(?!\S)", text):
        raise DataError(f"{name}: must begin with WEBVTT, got {text[:20]!r}; correct the first line")
    starts = [n for n, line in enumerate(lines) if _BROKEN.match(line) or _TIMES.match(line)]
    for n, after in pairwise([-1, *starts, len(lines)]):
        last = _end_of_text(lines, n + 1, after)
        if n >= 0 and _TIMES.match(lines[n]):
            cues += 1
            file.limits.check_elements(cues, name)
            for first, end in _blocks(lines, n + 1, last)[: 1 if is_vtt else None]:  # a blank line ends a cue of WebVTT
                parts += _speakers(lines, first, end)
        elif not is_vtt or n >= 0:
            left["cues without times that can be read"] += any(map(str.isalpha, "".join(lines[n + 1 : last])))
    if not cues and text.strip() and not is_vtt:
        raise DataError(f"{name}: must be SubRip with lines of times such as 00:00:01,000 --> 00:00:02,000, got none")
    passages = []
    for one in parts:
        spoken = "".join(lines[one.first : one.last])[len(one.dash) :]
        marks = rf"{_MARKS}|[\[\]()]" if _SOUND.fullmatch(spoken) else _MARKS  # the brackets around `[Music]`
        passages.append(loose_passage(spoken, file.splitter, is_lines=False, marks=marks))

    def write(found: Sequence[str]) -> bytes:
        out = list(lines)
        for part, passage, new in zip(parts, passages, found, strict=True):
            if new != passage.source:
                former = lines[part.first : part.last]
                plain = new if is_vtt else as_loose(passage.source, new)  # WebVTT has character references
                written = part.dash + _in_lines(plain, former)
                # A blank line would end the subtitle.
                out[part.first : part.last] = [written if written.strip() else ""] + [""] * (len(former) - 1)
        return encode("".join(out))

    return Document(passages, write, left)


def _end_of_text(lines: Sequence[str], first: int, after: int) -> int:
    """Return where a cue's text ends, between two lines: before the number of the next cue."""
    last = after
    if after < len(lines):
        while last > first and not lines[last - 1].strip():
            last -= 1
        last -= last > first and _NUMBER.fullmatch(lines[last - 1]) is not None
    return last


def _blocks(lines: Sequence[str], first: int, last: int) -> list[tuple[int, int]]:
    """Return the ranges of lines [first, last) without blank lines."""
    bounds = [first - 1, *(n for n in range(first, last) if not lines[n].strip("\ufeff \t\r\n")), last]
    return [(a + 1, b) for a, b in pairwise(bounds) if a + 1 < b]


def _speakers(lines: Sequence[str], first: int, last: int) -> list[_Part]:
    """Return the parts of a subtitle; each line with a dash or a voice begins one, and so does each verse of a song."""
    dashes = {n: found[1] for n in range(first, last) if (found := _SPEAKER.match(lines[n]))}
    verses = {n for n in range(first + 1, last) if _VERSE.match(lines[n]) and _VERSE_END.search(lines[n - 1])}
    voices = {n for n in range(first, last) if _VOICE.match(lines[n].lstrip())}
    starts = sorted({first, *dashes, *verses, *voices} - {last}) if first < last else []
    return [_Part(a, b, dashes.get(a, "")) for a, b in pairwise([*starts, last])]


def _in_lines(text: str, former: Sequence[str]) -> str:
    """Return a text in as many lines as before, of similar lengths, not split within a tag."""
    end = former[0][len(former[0].rstrip("\r\n")) :] or "\n"
    last = former[-1][len(former[-1].rstrip("\r\n")) :]
    words = _WORD.findall(text.rstrip())
    lines: list[str] = []
    width = sum(map(len, words)) / max(1, len(former))
    line = ""
    for word in words:
        if line and len(line) + len(word) / 2 > width and len(lines) < len(former) - 1:
            lines.append(line)
            line = ""
        line += word if line else word.lstrip()
    return end.join([*lines, line]) + last
