"""Records of lexicons and memories: SFM and USFM by their markers, LIFT, FLExText and TMX by XML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from nmt.errors import DataError
from nmt.system.lines import open_binary, read_lines, text_file

Fields = list[tuple[str, str]]
_CHUNK = 2**16
_MOST_BYTES = 8 * 2**20
"""Bytes of one record, or of one tag."""
_MOST_DEPTH = 100
_CODES = ("bpt", "ept", "it", "ph", "ut")
"""Inline elements whose content is markup of the original document, not text (TMX 1.4b, section 4.2)."""


def tmx_records(path: str) -> Iterator[tuple[int, Fields]]:
    """Yield the units of a TMX file: the text of each variant, named by its language, without inline markup."""
    for number, unit in elements(path, "tmx", "tu"):
        yield number, [(one.get("lang", ""), _text(seg, _CODES)) for one in unit.iter("tuv") for seg in one.iter("seg")]


def lift_records(path: str) -> Iterator[tuple[int, Fields]]:
    """Yield the entries of a LIFT file: lexeme, gloss or definition, example, translation, with languages: gloss:en."""
    for number, entry in elements(path, "lift", "entry"):
        fields = _forms(entry.find("lexical-unit"), "lexeme")
        for sense in entry.iter():
            if sense.tag in ("sense", "subsense"):
                glosses = [(f"gloss:{one.get('lang', '')}", _text(one)) for one in sense.findall("gloss")]
                fields += glosses or _forms(sense.find("definition"), "definition")
                for example in sense.findall("example"):
                    fields += _forms(example, "example")
                    fields += [field for one in example.findall("translation") for field in _forms(one, "translation")]
        yield number, fields


def flextext_records(path: str) -> Iterator[tuple[int, Fields]]:
    """Yield the phrases of interlinear texts: text, translation (free:en, or literal), then each word and its gloss."""
    for number, phrase in elements(path, "document", "phrase"):
        words, own = list(phrase.iter("word")), _items(phrase)
        if not (texts := [("text", lang, text) for kind, lang, text in own if kind == "txt"]):
            items = [item for word in words for item in _items(word)[:1]]
            lang = next((lang for kind, lang, _ in items if kind == "txt"), "")
            texts = [("text", lang, _joined([(kind, text) for kind, _, text in items]))]
        kinds = {"gls": "free", "lit": "literal"}
        found = texts + [(kinds[kind], lang, text) for kind, lang, text in own if kind in kinds]
        kinds = {"txt": "word", "gls": "gloss"}
        found += [(kinds[kind], lang, text) for word in words for kind, lang, text in _items(word) if kind in kinds]
        yield number, [(f"{kind}:{lang}", text) for kind, lang, text in found]


def elements(path: str, root: str, record: str) -> Iterator[tuple[int, Element]]:
    """Yield each element of the name `record` with the number of its first line, when it has ended; names have no
    prefixes. Raises DataError if the file is no XML with that root, declares entities, or has a record too large."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    done: list[tuple[int, Element]] = []
    builder: TreeBuilder | None = None
    depth = began = line = begun_at = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth, builder, began, line, begun_at
        name = tag.rpartition(":")[2]
        if not depth and name != root:
            raise DataError(f"{path}: must be XML whose first element is {root}, got {tag[:40]}; name another file")
        depth += 1
        if depth > _MOST_DEPTH:
            raise DataError(f"{path}: elements must be at most {_MOST_DEPTH} deep, got deeper ones; simplify it")
        if builder is None and name == record:
            builder, began, line, begun_at = TreeBuilder(), depth, parser.CurrentLineNumber, parser.CurrentByteIndex
        if builder is not None:
            builder.start(name, {key.rpartition(":")[2]: value for key, value in attributes.items()})

    def end(tag: str) -> None:
        nonlocal depth, builder
        if builder is not None:
            builder.end(tag.rpartition(":")[2])
            if depth == began:
                done.append((line, builder.close()))
                builder = None
        depth -= 1

    def text(data: str) -> None:
        if builder is not None:
            builder.data(data)

    def entity(*declared: object) -> None:
        raise DataError(f"{path}: must declare no entities, got one; leave its document type out")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.EntityDeclHandler = text, entity
    read = 0
    try:
        with open_binary(text_file(path)) as stream:
            while chunk := stream.read(_CHUNK):
                read += len(chunk)
                parser.Parse(chunk, False)
                yield from done
                done.clear()
                if read - (begun_at if builder is not None else parser.CurrentByteIndex) > _MOST_BYTES + _CHUNK:
                    raise DataError(f"{path}: line {line}: {record} must have at most {_MOST_BYTES:,} bytes, got more")
            parser.Parse(b"", True)
            yield from done
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise DataError(f"{path}: must be XML, got something else ({error}); correct it") from None
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: must be readable, got {error}; give a file that is whole") from None


def _text(element: Element, left_out: tuple[str, ...] = ()) -> str:
    """Return the text of an element without line breaks, and without the content of elements named in `left_out`."""
    return " ".join(_pieces(element, left_out).split())


def _pieces(element: Element, left_out: tuple[str, ...]) -> str:
    parts = [element.text or ""]
    for child in element:
        parts += ["" if child.tag in left_out else _pieces(child, left_out), child.tail or ""]
    return "".join(parts)


def _forms(element: Element | None, kind: str) -> Fields:
    """Return the forms of a text of LIFT, by language."""
    return [] if element is None else [(f"{kind}:{one.get('lang', '')}", _text(one)) for one in element.findall("form")]


def _items(element: Element) -> list[tuple[str, str, str]]:
    """Return the items of a phrase or word of FLExText: kind, language and text."""
    return [(one.get("type", ""), one.get("lang", ""), _text(one)) for one in element.findall("item")]


def _joined(items: list[tuple[str, str]]) -> str:
    """Return words and marks of punctuation as a line; most marks stand at the end of a word."""
    line = ""
    for kind, text in items:
        follows = kind == "punct" and text[:1] not in "([{«“‘¿¡"
        line += text if follows or line[-1:] in ("", *"([{«“‘¿¡") else f" {text}"
    return line


XML_RECORDS: dict[str, Callable[[str], Iterator[tuple[int, Fields]]]] = {
    "tmx": tmx_records,
    "lift": lift_records,
    "flextext": flextext_records,
}


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
    if not (known := [one for one in heads if not one.startswith("_")]):
        raise DataError(
            f"{path}: must have lines that begin with markers, as \\lx and \\ge, got none; name another file"
        )
    head = _BY_REFERENCE if _BY_REFERENCE in known else known[0]
    fields: Fields = []
    began = 1
    for number, line in enumerate(read_lines(path), start=1):
        if (found := _MARKED.match(line)) is None:
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
