"""XLIFF 1.2 and 2: the target and state of each unit and the language of the file are written; all else is kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.documents.document import Document, File
from nmt.documents.encodings import xml_as_utf8
from nmt.documents.formats.loose_tags import as_loose, loose_passage
from nmt.documents.formats.xml_places import Element, prefix_of, replaced, tag_end, trees, with_attribute, without_cdata
from nmt.documents.passage import Passage
from nmt.documents.sentences import Splitter
from nmt.documents.tagged_text import xml_passage
from nmt.errors import DataError

_OPAQUE = frozenset({"ph", "bpt", "ept", "it", "x", "bx", "ex", "cp", "pc-start", "sc", "ec"})
"""Inline elements whose content is code of the original format (XLIFF 1.2, 2.3; 2.0, 4.3)."""
_UNTRANSLATED = ("new", "needs-translation", "initial")
_LANGUAGES = {"xliff": ("srcLang", "trgLang"), "file": ("source-language", "target-language")}
"""Attributes of the languages: in XLIFF 2 of the root, in 1.2 of each file."""


@dataclass
class _Unit:
    """A trans-unit of XLIFF 1.2 or a segment of XLIFF 2 to translate."""

    whole: Element
    source: Element
    target: Element | None
    behind: int  # the position of a new target
    passage: Passage
    cdata: bool


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

    units = [found for one in trees(data, name, wanted, file.limits) if (found := _open_unit(one, data, splitter))]
    if languages is not None:
        for one in heads:
            for attribute, language in zip(_LANGUAGES[one.name], languages, strict=True):
                _check_language(one.attributes.get(attribute, ""), language, f"{name}: {attribute}")
    is_2 = bool(heads) and not heads[0].attributes.get("version", "1").startswith("1")

    def write(found: Sequence[str]) -> bytes:
        changes = [change for unit, new in zip(units, found, strict=True) for change in _changes(unit, new, data, is_2)]
        target = languages[1] if languages is not None else ""
        for one in heads if changes and target else []:
            attribute = _LANGUAGES[one.name][1]
            if (one.name == "xliff") == is_2 and not one.attributes.get(attribute):
                end = tag_end(data, one.start)
                changes.append((one.start, end, with_attribute(data[one.start : end], attribute, target)))
        return back(replaced(data, changes)) if changes else content

    return Document([unit.passage for unit in units], write)


def _check_language(given: str, expected: str, where: str) -> None:
    """Raise DataError if a file's language differs from the model's; codes of other kinds are not compared."""
    one, other = (re.split("[-_]", code)[0].lower() for code in (given, expected))
    if one and one != other and len(one) == len(other):
        raise DataError(f"{where} must be the model's, {expected}, got {given}; choose another model")


def _open_unit(whole: Element, content: bytes, splitter: Splitter | None) -> _Unit | None:
    """Return the unit of an element, or None if it is not to be translated."""
    above: Element | None = whole
    while above is not None and "translate" not in above.attributes:
        above = above.parent
    first: dict[str, Element] = {}
    for child in whole.children:
        if child.space == whole.space:
            first.setdefault(child.name, child)
    source, target = first.get("source"), first.get("target")
    if source is None or (above is not None and above.attributes["translate"] == "no"):
        return None
    raw = content[source.inner : source.inner_end].decode()
    if target is not None and (former := content[target.inner : target.inner_end].strip()):
        states = (target.attributes.get("state"), whole.attributes.get("state"))
        if former != raw.strip().encode() or not any(state in _UNTRANSLATED for state in states):
            return None
    text = _only_cdata(raw)
    passage = (
        xml_passage(without_cdata(raw), splitter, _OPAQUE)
        if text is None
        else loose_passage(text, splitter, is_lines=True)
    )
    behind = first.get("seg-source", source).end
    return _Unit(whole, source, target, behind, passage, text is not None) if passage.source.strip() else None


def _only_cdata(raw: str) -> str | None:
    """Return the text of the CDATA section that is the whole content of an element; otherwise None."""
    bare = raw.strip()
    is_only = bare.startswith("<![CDATA[") and bare.find("]]>") == len(bare) - 3
    return bare[9:-3] if is_only else None


def _changes(unit: _Unit, new: str, content: bytes, is_2: bool) -> list[tuple[int, int, bytes]]:
    """Return the byte ranges of a unit to replace."""
    source, target, whole = unit.source, unit.target, unit.whole
    if new == unit.passage.source:
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
    if target is None:
        whole_target = b"<%starget>%s</%starget>" % (prefix, text, prefix)
        return [*changes, (unit.behind, unit.behind, _indent(content, source.start) + whole_target)]
    head = content[target.start : target.inner]
    if "state" in target.attributes:
        head = with_attribute(head, "state", "needs-review-translation")
    if target.inner == target.end:  # <target/>
        head = head[:-2].rstrip() + b">"
        text += b"</%starget>" % prefix
    return [*changes, (target.start, target.inner_end, head + text)]


def _indent(content: bytes, start: int) -> bytes:
    """Return the line break and white space before an element, to indent the next one in the same way."""
    before = content[max(0, start - 200) : start]
    blank = before[len(before.rstrip()) :]
    line = blank.rfind(b"\n")
    return blank[line - (blank[line - 1 : line] == b"\r") :] if line >= 0 else b""
