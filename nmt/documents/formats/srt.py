"""SubRip and WebVTT subtitles: the text between a line of times and a blank line is translated, in as many lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from nmt.documents.document import Document, File
from nmt.documents.encodings import utf8_text
from nmt.documents.formats.loose_tags import as_loose, loose_passage
from nmt.errors import DataError

_TIMES = re.compile(r"\s*(?:\d+:)?\d\d:\d\d[,.]\d{1,3}\s*-->\s*(?:\d+:)?\d\d:\d\d[,.]\d{1,3}")
_SPEAKER = re.compile(r"((?:<[^<>]*>|\{[^{}]*\}|\s)*[-\u2010-\u2015]+[ \t]*)(?=[^\s\d-])")
"""The dash at the beginning of a speaker's line, after tags if there are any."""
_MARKS = r"\{\\[^{}]*\}|<[\d:.]+>|[\u2669-\u266f]+"
"""Codes of Advanced SubStation such as {\\an8}, times of words in WebVTT, and music signs."""
_WORD = re.compile(r"(?:<[^<>]*>|\{\\[^{}]*\}|[^\s<{]|<|\{)+")


@dataclass(frozen=True)
class _Part:
    """The text of a speaker, lines [first, last) of the file; dash: the part before it, which is kept."""

    first: int
    last: int
    dash: str


def read(file: File) -> Document:
    """Read SubRip or WebVTT. Tags, codes and music signs stay next to their words; a line with a dash begins the text
    of a speaker, which is translated separately. Notes, styles and regions of WebVTT are no cues. Raises DataError."""
    name, splitter = file.name, file.splitter
    text, encoding = utf8_text(file.content, name)
    lines = text.splitlines(keepends=True)
    parts: list[_Part] = []
    cues = n = 0
    while n < len(lines):
        n += 1
        if not _TIMES.match(lines[n - 1]):
            continue
        cues += 1
        file.limits.check_elements(cues, name)
        first = n
        while n < len(lines) and lines[n].strip():
            n += 1
        parts += _speakers(lines, first, n)
    is_vtt = file.form == "vtt"
    if is_vtt and not re.match(r"WEBVTT(?!\S)", text):
        raise DataError(f"{name}: must begin with WEBVTT, got {text[:20]!r}; correct the first line")
    if not cues and text.strip() and not is_vtt:
        raise DataError(f"{name}: must be SubRip with lines of times such as 00:00:01,000 --> 00:00:02,000, got none")
    passages = [
        loose_passage("".join(lines[one.first : one.last])[len(one.dash) :], splitter, is_lines=False, marks=_MARKS)
        for one in parts
    ]

    def write(found: Sequence[str]) -> bytes:
        out = list(lines)
        for part, passage, new in zip(parts, passages, found, strict=True):
            if new != passage.source:
                former = lines[part.first : part.last]
                plain = new if is_vtt else as_loose(passage.source, new)  # WebVTT has character references
                written = part.dash + _in_lines(plain, former)
                # A blank line would end the subtitle.
                out[part.first : part.last] = [written if written.strip() else ""] + [""] * (len(former) - 1)
        return encoding.encoded("".join(out))

    return Document(passages, write)


def _speakers(lines: Sequence[str], first: int, last: int) -> list[_Part]:
    """Return the parts of a subtitle; each line with a dash begins one."""
    dashes = {n: found[1] for n in range(first, last) if (found := _SPEAKER.match(lines[n]))}
    starts = sorted({first, *dashes} - {last}) if first < last else []
    return [_Part(a, b, dashes.get(a, "")) for a, b in pairwise([*starts, last])]


def _in_lines(text: str, former: Sequence[str]) -> str:
    """Return a text in as many lines as before, of similar lengths, not split within a tag."""
    end = former[0][len(former[0].rstrip("\r\n")) :] or "\n"
    last = former[-1][len(former[-1].rstrip("\r\n")) :]
    words = _WORD.findall(text)
    lines: list[str] = []
    width = sum(map(len, words)) / max(1, len(former))
    line = ""
    for word in words:
        if line and len(line) + len(word) / 2 > width and len(lines) < len(former) - 1:
            lines.append(line)
            line = ""
        line += " " * bool(line) + word
    return end.join([*lines, line]) + last
