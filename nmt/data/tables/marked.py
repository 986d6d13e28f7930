r"""Read files of lines with backslash markers: records of Toolbox and Shoebox (SFM), and verses of USFM 3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from nmt.data.tables.xml_records import Fields
from nmt.errors import DataError
from nmt.system.lines import read_lines

_MARKED = re.compile(r"\\(\S+)[ \t]*(.*)")
_BY_REFERENCE = "ref"
"""The marker of a line of an interlinear text, whose lines are cut to the width of a screen."""
_NOTES = re.compile(r"\\(f|fe|ef|x|ex|fig|rq|va|vp|ca)\s.*?\\\1\*", re.DOTALL)
_WORD = re.compile(r"\\\+?(?:w|rb|jmp)\s([^|\\]*)(?:\|[^\\]*)?\\\+?(?:w|rb|jmp)\*")
_SIGN = re.compile(r"\\\+?[a-z]+\d*(?:\*|\s|$)|\\(?:z\S+|\*)|~|//")
_HEADS = re.compile(r"(?:mt|ms|s|sd|r|mr|sr|h|toc|toca|ide|rem|sts|usfm|cl|cp|cd|d|sp|i[a-z]+|qa|lit|restore)(?:e?\d*)")
_VERSE = re.compile(r"(\d+)[a-z]?(?:\s*[-–]\s*(\d+)[a-z]?)?")
_SAMPLE = 50

Verses = dict[tuple[str, int], tuple[int, str]]
"""By chapter, such as `GEN 1`, and verse: the last verse of the text, and the text."""


def is_usfm(path: str) -> bool:
    r"""Return whether a file is a book of the Bible: \id with a book's code, and \c or \h, near the beginning."""
    marks = [found for line in islice(read_lines(path, lenient=True), _SAMPLE) if (found := _MARKED.match(line))]
    return any(re.match(r"[A-Z1-6]{3}\b", one[2]) for one in marks if one[1] == "id") and not any(
        one[1] in ("_sh", "ref", "tx", "lx") for one in marks
    )


def sfm_records(path: str) -> Iterator[tuple[int, Fields]]:
    """Yield the records of a lexicon or an interlinear text, each with its markers in order. The first marker begins a
    record; in a text that has it, ref does so, and repeated lines of a record are one."""
    if is_usfm(path):
        raise DataError(f"{path}: must be a lexicon, got a book in USFM, of one language; give two, source and target")
    heads = [found[1] for line in islice(read_lines(path, lenient=True), _SAMPLE) if (found := _MARKED.match(line))]
    known = [one for one in heads if not one.startswith("_")]
    if not known:
        raise DataError(
            f"{path}: must have lines that begin with markers, as \\lx and \\ge, got none; name another file"
        )
    head = _BY_REFERENCE if _BY_REFERENCE in known else known[0]
    fields: Fields = []
    began = 1
    for number, line in enumerate(read_lines(path), start=1):
        found = _MARKED.match(line)
        if found is None:
            if fields and line.strip():
                fields[-1] = fields[-1][0], f"{fields[-1][1]} {line.strip()}"
        elif not found[1].startswith("_"):
            if found[1] == head and fields:
                yield began, _in_one(fields) if head == _BY_REFERENCE else fields
                fields, began = [], number
            fields.append((found[1], found[2].strip()))
    if fields:
        yield began, _in_one(fields) if head == _BY_REFERENCE else fields


def _in_one(fields: Fields) -> Fields:
    """Return fields of which those of one marker are joined."""
    found: dict[str, list[str]] = {}
    for name, text in fields:
        found.setdefault(name, []).append(text)
    return [(name, " ".join(" ".join(texts).split())) for name, texts in found.items()]


def usfm_rows(files: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the verses that all books have, without notes, headings and markers. Where one of them has several verses
    in one, as in 3-4, those of the others are joined."""
    sides = [_verses(file) for file in files]
    todo = [key for key in sides[0] if all(key in one for one in sides)]
    done: set[tuple[str, int]] = set()
    for chapter, first in todo:
        if (chapter, first) in done:
            continue
        last, covered = first, [[(chapter, first)] for _ in sides]
        while True:
            reached = max(side[key][0] for side, keys in zip(sides, covered, strict=True) for key in keys)
            covered = [
                [key for number in range(first, reached + 1) if (key := (chapter, number)) in one] for one in sides
            ]
            if reached == last:
                break
            last = reached
        done.update(key for keys in covered for key in keys)
        yield tuple(" ".join(side[key][1] for key in keys) for side, keys in zip(sides, covered, strict=True))


def usfm_doubts(files: tuple[str, ...]) -> list[str]:
    """Return a line about the verses of which one book has none."""
    sides = [_verses(file) for file in files]
    both = sum(all(key in one for one in sides) for key in sides[0])
    counts = [(file, len(side) - both) for file, side in zip(files, sides, strict=True) if len(side) > both]
    if not counts:
        return []
    more = " and ".join(f"{count:,} of {file} alone" for file, count in counts)
    return [f"{', '.join(files)}: {both:,} verses begin in both; skipped or joined to others: {more}"]


def _verses(path: str) -> Verses:
    """Return the verses of a file with one or several books. Raises DataError if it has none."""
    found: Verses = {}
    book, chapter, number, last, is_text = "", "", 0, 0, False
    texts: list[str] = []

    def keep() -> None:
        text = _WORD.sub(r"\1", _NOTES.sub("", "\n".join(texts)))
        if number and (text := " ".join(_SIGN.sub(" ", text).split())):
            before = found.get((chapter, number), (last, ""))[1]
            found[chapter, number] = max(last, found.get((chapter, number), (0, ""))[0]), f"{before} {text}".strip()
        texts.clear()

    for line in read_lines(path):
        for part in re.split(r"(?=\\v\s)", line.strip()):
            mark = _MARKED.match(part)
            if mark is None or mark[1].endswith("*"):
                texts += [part] if is_text else []
            elif mark[1] in ("id", "c"):
                keep()
                words = mark[2].split() or [""]
                book = words[0][:3].upper() if mark[1] == "id" else book
                chapter, number, is_text = f"{book} {words[0]}", 0, False
            elif mark[1] == "v" and (verse := _VERSE.match(mark[2])):
                keep()
                number, is_text = int(verse[1]), True
                last = min(int(verse[2] or number), number + 200)
                texts.append(mark[2][verse.end() :])
            else:
                is_text = bool(number) and _HEADS.fullmatch(mark[1]) is None
                texts += [part] if is_text else []
    keep()
    if not found:
        raise DataError(f"{path}: must be USFM with verses, \\id, \\c and \\v, got none; name another file")
    return found
