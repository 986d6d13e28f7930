"""XLIFF 1.2 and 2: the target and state of each unit and the language of the file are written; all else is kept.
Codes become the tags that they stand for: some divide a text, some surround its words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import unescape

from nmt.documents.document import Document, File
from nmt.documents.encodings import xml_as_utf8
from nmt.documents.formats.xml_places import (
    Element,
    in_order,
    prefix_of,
    replaced,
    tag_end,
    trees,
    with_attribute,
    without_cdata,
)
from nmt.documents.markup import BLOCKS, OPAQUE, VOID
from nmt.documents.passage import Passage, Splitter
from nmt.documents.tagged_text import as_loose, html_tokens, loose_passage, tagged_passage, with_escaped_tags
from nmt.documents.tokens import Kind, Token, with_accelerators
from nmt.errors import DataError

_TAG = re.compile(r"<[^<>]*>")
_UNTRANSLATED = ("new", "needs-translation", "initial")
_LANGUAGES = {"xliff": ("srcLang", "trgLang"), "file": ("source-language", "target-language")}
"""Attributes of the languages: in XLIFF 2 of the root, in 1.2 of each file."""


@dataclass
class _Unit:
    """A trans-unit of XLIFF 1.2, one of its segments, or a segment of XLIFF 2. whole: the element with the state;
    source, target: those with the texts; behind: where a new target is; mark: the tag of an empty segment in the
    target, which gets the whole text; frame: what is around the text in a new target with segments."""

    whole: Element
    source: Element
    target: Element | None
    behind: int
    passage: Passage
    cdata: bool
    mark: Element | None = None
    frame: tuple[bytes, bytes] | None = None


def read(file: File) -> Document:
    """Read an XLIFF file. Units that have a translation or are marked translate="no" are kept; a file without a target
    language gets one. Raises DataError if it is no XLIFF, exceeds the limits, or names other languages."""
    content, name, splitter, languages = file.content, file.name, file.splitter, file.languages
    data, back = xml_as_utf8(content, name)
    heads: list[Element] = []

    def wanted(one: Element) -> bool:
        if not heads and one.name != "xliff":
            raise DataError(f"{name}: must be XLIFF, got another kind of XML; name the right format")
        if one.name in _LANGUAGES:
            heads.append(one)
        return one.name in ("trans-unit", "segment")

    units = [unit for one in trees(data, name, wanted, file.limits) for unit in _open_units(one, data, splitter)]
    if languages is not None:
        for one in heads:
            for attribute, language in zip(_LANGUAGES[one.name], languages, strict=True):
                given = one.attributes.get(attribute, "")
                theirs, ours = (re.split("[-_]", code)[0].lower() for code in (given, language))
                if theirs and theirs != ours and len(theirs) == len(ours):  # codes of other kinds are not compared
                    raise DataError(
                        f"{name}: {attribute} must be the model's, {language}, got {given}; choose another model"
                    )
    is_2 = bool(heads) and not heads[0].attributes.get("version", "1").startswith("1")

    def write(found: Sequence[str]) -> bytes:
        pairs = zip(units, found, strict=True)
        changes = [*{change: None for unit, new in pairs for change in _changes(unit, new, data, is_2)}]
        target = languages[1] if languages is not None else ""
        for one in heads if changes and target else []:
            attribute = _LANGUAGES[one.name][1]
            if (one.name == "xliff") == is_2 and not one.attributes.get(attribute):
                end = tag_end(data, one.start)
                changes.append((one.start, end, with_attribute(data[one.start : end], attribute, target)))
        return back(replaced(data, changes)) if changes else content

    return Document([unit.passage for unit in units], write)


def _nearest(one: Element, attribute: str) -> str:
    """Return the value of an attribute at an element or at the nearest one around it; empty if none has it."""
    above: Element | None = one
    while above is not None and attribute not in above.attributes:
        above = above.parent
    return "" if above is None else above.attributes[attribute]


def _open_units(whole: Element, content: bytes, splitter: Splitter | None) -> list[_Unit]:
    """Return the units of an element that are to be translated."""
    first: dict[str, Element] = {}
    for child in whole.children:
        if child.space == whole.space:
            first.setdefault(child.name, child)
    source, target = first.get("source"), first.get("target")
    if source is None or _nearest(whole, "translate") == "no":
        return []
    states = [one.attributes.get("state") for one in (target, whole) if one is not None]
    is_new = any(state in _UNTRANSLATED for state in states)
    is_copy = target is not None and is_new and _text_of(target, content) == _text_of(source, content)
    segments = _segments(target) if target is not None and not is_copy else {}
    sources = _segments(first["seg-source"]) if "seg-source" in first else {}
    pairs: list[tuple[Element, Element | None]] = []
    is_framed = target is None and bool(sources)
    if segments and sources.keys() >= segments.keys():
        pairs += [(sources[key], one) for key, one in segments.items() if not _text_of(one, content)]
    elif is_framed:
        pairs += [(one, None) for one in sources.values()]
    elif target is None or is_copy or not _text_of(target, content):
        pairs += [(source, target)]
    behind = first.get("seg-source", source).end
    units = [_unit(whole, one, other, behind, content, splitter) for one, other in pairs]
    if segments and pairs[:1] == [(source, target)]:
        units = [replace(one, mark=next(iter(segments.values()))) for one in units]
    kept = [one for one in units if one.passage.sentences or (target is None and one.passage.source.strip())]
    return _framed(kept, first["seg-source"], content) if is_framed and kept else kept


def _framed(units: list[_Unit], divided: Element, content: bytes) -> list[_Unit]:
    """Return the units of the segments of a seg-source with what is around them, from which a target follows."""
    prefix = prefix_of(content, divided)
    ends = [*(one.source.inner for one in units), divided.inner_end]
    starts = [divided.inner, *(one.source.inner_end for one in units)]
    between = [content[start:end] for start, end in zip(starts, ends, strict=True)]
    between[0] = _indent(content, divided.start) + b"<%starget>%s" % (prefix, between[0])
    after = [b""] * (len(units) - 1) + [b"%s</%starget>" % (between[-1], prefix)]
    return [replace(one, frame=(before, behind)) for one, before, behind in zip(units, between, after, strict=False)]


def _unit(
    whole: Element, source: Element, target: Element | None, behind: int, content: bytes, splitter: Splitter | None
) -> _Unit:
    """Return the unit of a text."""
    raw = content[source.inner : source.inner_end].decode()
    bare = raw.strip()
    is_cdata = bare.startswith("<![CDATA[") and bare.find("]]>") == len(bare) - 3
    if is_cdata:
        passage = loose_passage(bare[9:-3], splitter, is_lines=True)
    else:
        is_lines = _nearest(source, "space") == "preserve"
        tokens = with_accelerators(with_escaped_tags(with_codes(html_tokens(without_cdata(raw), CODES, is_xml=True))))
        passage = tagged_passage([replace(one, is_lines=is_lines) for one in tokens], splitter)
    return _Unit(whole, source, target, behind, passage, is_cdata)


def _text_of(one: Element, content: bytes) -> str:
    """Return the text of an element without tags and codes, with single spaces."""
    parts, at = [], one.inner
    for child in in_order(one.children):
        if child.name in CODES and child.start >= at:
            parts.append(content[at : child.start])
            at = child.end
    raw = without_cdata(b"".join([*parts, content[at : one.inner_end]]).decode())
    return " ".join(unescape(_TAG.sub("", raw)).split())


def _segments(one: Element) -> dict[str, Element]:
    """Return the segments within an element by their numbers (XLIFF 1.2, 2.3: mrk)."""
    marks = [child for child in in_order(one.children) if child.name == "mrk"]
    return {one.attributes.get("mid", ""): one for one in marks if one.attributes.get("mtype") == "seg"}


def _changes(unit: _Unit, new: str, content: bytes, is_2: bool) -> list[tuple[int, int, bytes]]:
    """Return the byte ranges of a unit to replace; none if something of it is left untranslated."""
    source, target, whole = unit.source, unit.target, unit.whole
    if unit.passage.unread:
        if unit.frame is None:
            return []
        text = b""
    elif new == unit.passage.source:
        text = content[source.inner : source.inner_end]
    elif unit.cdata:
        text = b"<![CDATA[%s]]>" % as_loose(unit.passage.source, new).replace("]]>", "]]]]><![CDATA[>").encode()
    else:
        text = new.encode()
    changes = []
    if is_2:
        head = content[whole.start : whole.inner]
        changes.append((whole.start, whole.inner, with_attribute(head, "state", "translated")))
    prefix = prefix_of(content, source)
    if unit.frame is not None:
        before, after = unit.frame
        return [*changes, (unit.behind, unit.behind, before + text + after)]
    if target is None:
        space = b' xml:space="%s"' % source.attributes["space"].encode() if "space" in source.attributes else b""
        whole_target = b"<%starget%s>%s</%starget>" % (prefix, space, text, prefix)
        return [*changes, (unit.behind, unit.behind, _indent(content, source.start) + whole_target)]
    if unit.mark is not None:
        head = content[unit.mark.start : unit.mark.inner]
        text = (head[:-2].rstrip() + b">" if head.endswith(b"/>") else head) + text + b"</%smrk>" % prefix
    outer = target.parent if target.name == "mrk" else None
    while outer is not None and outer.name != "target":
        outer = outer.parent
    if outer is not None and "state" in outer.attributes:
        head = content[outer.start : outer.inner]
        changes.append((outer.start, outer.inner, with_attribute(head, "state", "needs-review-translation")))
    head = content[target.start : target.inner]
    if "state" in target.attributes:
        head = with_attribute(head, "state", "needs-review-translation")
    if target.inner == target.end:  # <target/>
        head = head[:-2].rstrip() + b">"
        text += b"</%s%s>" % (prefix, target.name.encode())
    return [*changes, (target.start, target.inner_end, head + text)]


def _indent(content: bytes, start: int) -> bytes:
    """Return the line break and white space before an element, to indent the next one in the same way."""
    before = content[max(0, start - 200) : start]
    blank = before[len(before.rstrip()) :]
    line = blank.rfind(b"\n")
    return blank[line - (blank[line - 1 : line] == b"\r") :] if line >= 0 else b""


CODES = frozenset({"ph", "bpt", "ept", "it", "x", "bx", "ex", "cp", "pc-start", "sc", "ec"})
"""Inline elements whose content is code of the original format (XLIFF 1.2, 2.3; 2.0, 4.3)."""
_HEAD = re.compile(r"<[^\s/<>]++((?:\s++[\w:.-]++\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'))*+)\s*+/?>")
_ATTRIBUTE = re.compile(r"(?<![\w:.-])([\w:.-]++)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)')")
_SHOWN_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]*+)[^<]*?(/?)>", re.DOTALL)
_STARTS, _ENDS = frozenset({"bpt", "bx", "sc"}), frozenset({"ept", "ex", "ec"})


def with_codes(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens of a text, each code as what it stands for: a wall for a line break or an item of a list, the
    start or end of an element if two codes are a pair. A code says so by its kind, by the tag of HTML that it shows
    (`equiv-text`, `disp`, its content), by its `ctype`, or by names such as Angular's START_LINK."""
    opened: list[Token] = []  # elements around text
    for token in tokens:
        if token.name in CODES and token.kind == "alone":
            yield _code(token)
        elif token.name in ("pc", "g") and token.kind == "open":
            code = _code(token)
            opened.append(code if code.kind == "wall" or code.name[1:] in OPAQUE else token)
            yield opened[-1]
        elif token.name in ("pc", "g") and token.kind == "close" and opened:
            first = opened.pop()
            yield replace(token, kind="wall" if first.kind == "wall" else "close", name=first.name)
        else:
            yield token


def _code(token: Token) -> Token:
    """Return the token of a code as what it stands for."""
    if (head := _HEAD.match(token.raw)) is None:
        return token
    given = {one[1]: unescape(one[2] or one[3] or "") for one in _ATTRIBUTE.finditer(head[1])}
    content = unescape(token.raw[head.end() : token.raw.rfind("<")]) if token.kind == "alone" else ""
    shown = next((given[key] for key in ("equiv-text", "disp", "dispStart") if key in given), content)
    tag = _SHOWN_TAG.fullmatch(shown.strip())
    kind_given = given.get("ctype", "").removeprefix("x-").removeprefix("html-").lower()
    name = tag[2].lower() if tag else kind_given
    place = given.get("equiv", given.get("id", ""))
    if name in BLOCKS or kind_given in ("lb", "pb") or given.get("subType") in ("xlf:lb", "xlf:pb"):
        return replace(token, kind="wall")
    kind: Kind = "alone"
    if token.name in _ENDS or place.startswith("CLOSE_") or (tag and tag[1]):
        kind = "close"
    elif token.name in _STARTS | {"pc", "g"} or place.startswith("START_") or (tag and not tag[3] and name not in VOID):
        kind = "open"
    if token.name in _STARTS | _ENDS and name not in OPAQUE:
        name = given.get("rid", given.get("startRef", given.get("id", "")))
    return token if kind == "alone" else replace(token, kind=kind, name=f"&{name}")
