"""Read memories and lexicons in XML as records of named fields: TMX 1.4b, LIFT 0.13 and FLExText."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from nmt.errors import DataError
from nmt.system.lines import open_binary, text_file

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
        yield (
            number,
            [(one.get("lang", ""), _text(segment, _CODES)) for one in unit.iter("tuv") for segment in one.iter("seg")],
        )


def lift_records(path: str) -> Iterator[tuple[int, Fields]]:
    """Yield the entries of a LIFT file: lexeme, gloss (or definition), example and translation, each with its language,
    such as gloss:en."""
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
    """Yield the phrases of interlinear texts: text, and free or literal translation, such as free:en; then word and
    gloss of each word."""
    for number, phrase in elements(path, "document", "phrase"):
        words, own = list(phrase.iter("word")), _items(phrase)
        texts = [("text", lang, text) for kind, lang, text in own if kind == "txt"]
        if not texts:
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
