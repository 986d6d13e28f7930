"""HTML elements: which are inline, which are not translated, and where they end if the end tag is omitted."""

from __future__ import annotations

from nmt.documents.markup import Piece

INLINE = frozenset(
    "a abbr acronym b bdi bdo big button cite data del dfn em font i img ins label mark q rb ruby s small span "
    "strike strong sub sup time tt u wbr g x bx ex ph bpt ept it mrk".split()
)
"""Inline elements (HTML Living Standard, 3.2.5.2.5 Phrasing content, of form controls only button; XLIFF 1.2, 2.3). All
others are walls, which end sentences."""
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
"""Elements that end sentences in text that may contain tags although it is not HTML. Others may be placeholders such as
<name>, which are inline."""

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


class _Stack:
    """A stack of open elements. Every query takes constant time."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._places: dict[str, list[int]] = {}
        self._scopes: list[int] = []

    def push(self, name: str) -> None:
        """Open an element."""
        self._places.setdefault(name, []).append(len(self.names))
        if name in _SCOPES:
            self._scopes.append(len(self.names))
        self.names.append(name)

    def cut(self, place: int) -> None:
        """Close all elements from a position of the stack on."""
        while len(self.names) > place:
            name = self.names.pop()
            self._places[name].pop()
            if name in _SCOPES:
                self._scopes.pop()

    def place(self, name: str, *, in_scope: bool) -> int | None:
        """Return the position of the innermost element of this name, or None if there is none."""
        found = self._places.get(name)
        if not found or (in_scope and self._scopes and found[-1] < self._scopes[-1]):
            return None
        return found[-1]


def whole_elements(pieces: list[Piece], kept: set[int], *, is_xml: bool) -> list[tuple[int, int]]:
    """Return the outermost elements that begin at `kept`, as [first piece, piece after the last)."""
    if not kept:
        return []
    stack = _Stack()
    found: list[tuple[int, int]] = []
    first, depth = -1, 0  # the first piece of the current kept element, and its stack position

    def close(place: int, upto: int) -> None:
        nonlocal first
        stack.cut(place)
        if first >= 0 and place <= depth:
            found.append((first, upto))
            first = -1

    for n, piece in enumerate(pieces):
        name = piece.name
        if piece.kind == "start":
            for other in () if is_xml else _CLOSES.get(name, ()):
                place = stack.place(other, in_scope=True)
                if place is not None:
                    close(place, n)
            if is_xml or name not in VOID:
                if first < 0 and n in kept:
                    first, depth = n, len(stack.names)
                stack.push(name)
        elif piece.kind == "end":
            place = stack.place(name, in_scope=not is_xml and name in _OPTIONAL and name not in _SCOPES)
            if place is not None:
                own = first >= 0 and place == depth
                close(place, n + 1 if own else n)
    if first >= 0:
        found.append((first, len(pieces)))
    return found
