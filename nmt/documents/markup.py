"""A scanner that finds tags, comments and text in HTML and XML in one pass, however malformed the text is; which
elements are inline or not translated, and where they end without an end tag. It takes linear time: it never searches a
range twice for the same string. The pieces together are the text, byte for byte."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

PieceKind = Literal["text", "start", "end", "single", "comment", "declaration"]

_SPACE = "\t\n\f\r "
_TAG = re.compile(r"</?+([A-Za-z_:\u0080-\U0010ffff][^\t\n\f\r />]*+)")
_PLAIN_END = re.compile(r"[\t\n\f\r ]*+>")
_ATTRIBUTE = re.compile(
    rf"[{_SPACE}/]*+([^{_SPACE}/>][^{_SPACE}/>=]*+)"
    rf"(?:[{_SPACE}]*+=[{_SPACE}]*+(?:\"([^\"]*+)(?:\"|\Z)|'([^']*+)(?:'|\Z)|(?![\"'])([^{_SPACE}>]*+)))?+"
)
_END = re.compile(rf"[{_SPACE}/]*+>")
_SUBSET = re.compile(r"<!--|<\?|\"|'|\[|\]|>")
_RAW_TEXT = frozenset("script style xmp iframe noembed noframes textarea title plaintext".split())
"""Elements in whose content no tag begins (HTML Living Standard, 13.2.5: RCDATA, RAWTEXT, script data)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece [start, end) of the text; its name in lower case; ranges of attributes' values, empty if none."""

    kind: PieceKind
    start: int
    end: int
    name: str = ""
    attributes: dict[str, tuple[int, int]] = field(default_factory=dict)


class _Scanner:
    def __init__(self, text: str, is_xml: bool) -> None:
        self._text, self._is_xml = text, is_xml
        self._next: dict[str, int] = {}  # the last result for each string
        self._had_type = False
        self._raw: str | None = None  # the element whose content is raw text at the current position

    def pieces(self) -> Iterator[Piece]:
        """Yield all pieces in order."""
        text = self._text
        done = at = 0
        while (at := text.find("<", at)) >= 0:
            if (piece := self._markup(at)) is None:
                at += 1
                continue
            if done < at:
                yield Piece("text", done, at)
            yield piece
            done = at = piece.end
            if self._raw is not None:
                end = re.compile(rf"</{self._raw}(?=[{_SPACE}/>])", re.IGNORECASE).search(text, at)
                at, self._raw = end.start() if end else len(text), None
        if done < len(text):
            yield Piece("text", done, len(text))

    def _find(self, what: str, at: int) -> int:
        """Return the position of the next occurrence of a string, -1 if there is none. Results are cached."""
        found = self._next.get(what, 0)
        if 0 <= found < at or what not in self._next:
            found = self._next[what] = self._text.find(what, at)
        return found

    def _upto(self, what: str, at: int) -> int:
        """Return the position after the next occurrence of a string, or the end of the text."""
        found = self._find(what, at)
        return len(self._text) if found < 0 else found + len(what)

    def _markup(self, at: int) -> Piece | None:
        """Return the tag, comment or declaration that begins here; None if the character is plain text."""
        text = self._text
        sign = text[at + 1 : at + 2]
        if sign == "!":
            return self._declared(at)
        if sign == "?":
            closed = self._find("?>", at + 2) if self._is_xml else -1
            return Piece("declaration", at, closed + 2 if closed >= 0 else self._upto(">", at))
        if (found := _TAG.match(text, at)) is None:
            # In HTML, "</" before any other character begins a comment; "</>" is ignored.
            return Piece("comment", at, self._upto(">", at)) if sign == "/" else None
        if not self._is_xml and not found[1][0].isascii():
            return None
        return self._tag(at, found[1].lower(), found.end())

    def _declared(self, at: int) -> Piece:
        """Return a comment, a CDATA section, a document type with its internal subset, or a browser's bogus comment."""
        text = self._text
        if text.startswith("<!--", at):
            if not self._is_xml and (short := re.compile("-?>").match(text, at + 4)):
                return Piece("comment", at, short.end())
            ends = [self._upto("-->", at + 4)] + [self._upto("--!>", at + 4)] * (not self._is_xml)
            return Piece("comment", at, min(ends))
        if text.startswith("<![CDATA[", at) and self._find("]]>", at) >= 0:
            return Piece("comment", at, self._upto("]]>", at))
        if text[at + 2 : at + 9].lower() != "doctype":
            return Piece("comment", at, self._upto(">", at))
        end = self._upto(">", at)
        bracket = self._find("[", at)
        if (0 <= bracket < end or self._is_xml) and not self._had_type:
            # Only the first counts: searching the ends of many unterminated ones takes quadratic time.
            self._had_type = True
            end = self._end_of_type(at + 9) or end
        return Piece("declaration", at, end)

    def _end_of_type(self, at: int) -> int:
        """Return the position after a document type with its internal subset; 0 if it does not end."""
        depth = 0
        while found := _SUBSET.search(self._text, at):
            sign = found[0]
            at = found.end()
            if sign == ">" and depth == 0:
                return at
            if sign in ("<!--", "<?", '"', "'"):
                close = self._find({"<!--": "-->", "<?": "?>"}.get(sign, sign), at)
                if close < 0:
                    return 0
                at = close + 1
            else:
                depth += (sign == "[") - (sign == "]")
        return 0

    def _tag(self, at: int, name: str, after: int) -> Piece:
        """Return the tag that begins here. A tag without an end extends to the end of the text, as in browsers."""
        text = self._text
        is_end = text.startswith("</", at)
        values: dict[str, tuple[int, int]] = {}
        plain = _PLAIN_END.match(text, after)
        end = plain.end() if plain else 0
        while not end:
            if closed := _END.match(text, after):
                end = closed.end()
            elif one := _ATTRIBUTE.match(text, after):
                after = one.end()
                last = one.lastindex or 1
                values.setdefault(one[1].lower(), one.span(last) if last > 1 else (one.end(1), one.end(1)))
            else:
                return Piece("comment", at, len(text))
        if is_end:
            return Piece("end", at, end, name)
        if text[end - 2] == "/" and end - 2 >= after:
            return Piece("single", at, end, name, values)
        if not self._is_xml and name in _RAW_TEXT:
            self._raw = name
        return Piece("start", at, end, name, values)


def scan(text: str, *, is_xml: bool = False) -> list[Piece]:
    """Return the pieces of a text, by the rules of XML or by those of browsers for HTML."""
    return list(_Scanner(text, is_xml).pieces())


INLINE = frozenset(
    "a abbr acronym b bdi bdo big button cite data del dfn em font i img ins label mark q rb ruby s small span "
    "strike strong sub sup time tt u wbr g x bx ex ph bpt ept it mrk".split()
)
"""Inline elements (HTML Living Standard, 3.2.5.2.5; XLIFF 1.2, 2.3). All others are walls, which end sentences."""
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
RUBY = frozenset("rt rp rtc".split())
"""Elements of readings of a text, which are not among its words."""
OPAQUE_INLINE = RUBY | frozenset("code kbd samp var svg math".split())
OPAQUE = OPAQUE_INLINE | frozenset("script style textarea template noscript object iframe pre".split())
"""Elements whose content is not translated."""

BLOCKS = frozenset(
    "address article blockquote br caption dd details div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6 header "
    "hr li main nav ol p pre script section style summary table tbody td tfoot th thead tr ul".split()
)
"""Elements that end sentences in text that is not HTML. Others may be placeholders such as <name>."""

_CLOSE_P = (
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hgroup hr main menu nav ol p pre search section summary table ul"
).split()
_CLOSES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_CLOSE_P, ("p",)),
    "li": ("li", "p"),
    **dict.fromkeys(("dt", "dd"), ("dt", "dd", "p")),
    **dict.fromkeys(("rb", "rt", "rp"), ("rb", "rt", "rp")),
    "rtc": ("rb", "rt", "rp", "rtc"),
    "option": ("option",),
    "optgroup": ("option", "optgroup"),
    **dict.fromkeys(("td", "th"), ("td", "th")),
    "tr": ("td", "th", "tr", "caption", "colgroup"),
    **dict.fromkeys(("tbody", "thead", "tfoot"), ("td", "th", "tr", "tbody", "thead", "tfoot", "caption", "colgroup")),
    "body": ("head",),
}
"""Elements that a start tag closes implicitly, in the order of the search (HTML Living Standard, 13.1.2.4)."""
_OPTIONAL = frozenset(name for names in _CLOSES.values() for name in names)
_SCOPES = frozenset("table td th caption ul ol dl menu select ruby button object template html".split())
"""Elements that limit the scope in which a start tag closes others."""


def whole_elements(pieces: list[Piece], kept: set[int], *, is_xml: bool) -> list[tuple[int, int]]:
    """Return the outermost elements that begin at `kept`, as [first piece, piece after the last)."""
    if not kept:
        return []
    names: list[str] = []  # the open elements
    places: dict[str, list[int]] = defaultdict(lambda: [-1])  # where they stand there, the innermost last; "": scopes
    found: list[tuple[int, int]] = []
    first, depth = -1, 0  # the first piece of the current kept element, and its position

    def close(name: str, upto: int, *, in_scope: bool) -> None:
        """Close the innermost element of this name, if there is one, and all that it contains."""
        nonlocal first
        place = places[name][-1]
        if place < (max(0, places[""][-1]) if in_scope else 0):
            return
        while len(names) > place:
            closed = names.pop()
            places[closed].pop()
            if closed in _SCOPES:
                places[""].pop()
        if first >= 0 and place <= depth:
            found.append((first, upto))
            first = -1

    for n, piece in enumerate(pieces):
        name = piece.name
        if piece.kind == "start":
            for other in () if is_xml else _CLOSES.get(name, ()):
                close(other, n, in_scope=True)
            if is_xml or name not in VOID:
                if first < 0 and n in kept:
                    first, depth = n, len(names)
                for key in (name, "") if name in _SCOPES else (name,):
                    places[key].append(len(names))
                names.append(name)
        elif piece.kind == "end":
            own = first >= 0 and places[name][-1] == depth
            close(name, n + own, in_scope=not is_xml and name in _OPTIONAL and name not in _SCOPES)
    if first >= 0:
        found.append((first, len(pieces)))
    return found
