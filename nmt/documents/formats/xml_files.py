"""XML files: which elements are inline, and which are not translated; escapes of Android's string resources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nmt.documents import tagged_text
from nmt.documents.document import Document, File
from nmt.documents.encodings import declared_text
from nmt.documents.markup import RUBY, Piece, scan
from nmt.documents.passage import HTML_ESCAPES, Passage, Sentence, Splitter
from nmt.documents.tokens import Kind, Syntax, Token, notes_whole, with_accelerators, with_messages

_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite del dfn em font i img ins mark q rb rp rt rtc ruby s small span strike strong "
    "sub sup tt u wbr g x bx ex ph bpt ept it mrk emphasis link ulink xref".split()
)
"""Elements that are inline unless their parent has others, too. `data`, `time` and `label` are fields elsewhere."""
_OPAQUE = RUBY | frozenset("script style code kbd samp var svg math pre".split())
_DOCBOOK = frozenset(
    "code command computeroutput cmdsynopsis envar filename funcsynopsis function literal literallayout option "
    "parameter programlisting screen synopsis userinput varname".split()
)
_ROOTS: dict[str, frozenset[str]] = {
    # Android's resources: all but string, string-array and plurals; also the content of xliff:g.
    "resources": frozenset(
        "array attr bool color declare-styleable dimen drawable eat-comment fraction g id integer integer-array public "
        "style".split()
    ),
    "root": frozenset("assembly comment metadata resheader schema".split()),  # .resx files
    "plist": frozenset("data date integer key real".split()),
    **dict.fromkeys(
        "article appendix book chapter glossary part preface refentry reference section sect1 set".split(), _DOCBOOK
    ),
}
"""Names of elements that are not translated, by the file's root element."""

_CDATA = "<![CDATA["


@dataclass(slots=True)
class _Element:
    """The direct content of an element."""

    name: str
    parent: int
    has_text: bool = False
    has_elements: bool = False
    has_others: bool = False  # whether it contains elements that are not inline by name
    is_preserved: bool = False  # whether its line breaks count


def read(file: File) -> Document:
    """Read an XML file."""
    text, encode = declared_text(file.content, file.name)
    return Document([_passage(text, file.splitter)], lambda found: encode(found[0]))


def _passage(text: str, splitter: Splitter | None) -> Passage:
    """Return the passage of an XML file, divided by elements that are neither next to text nor inline by name."""
    pieces = scan(text, is_xml=True)
    elements, owners = _elements(pieces, text)
    root = _local(elements[1].name) if len(elements) > 1 else ""
    if root == "root" and all(one.name != "resheader" for one in elements):
        root = ""
    opaque = _OPAQUE | _ROOTS.get(root, frozenset())
    kept = {n for n, one in enumerate(pieces) if one.kind == "start" and _is_kept(one, text, root, opaque)}
    kinds = [_kind(one, elements, owner) for one, owner in zip(pieces, owners, strict=True)]
    lines = {n for n, owner in enumerate(owners) if kinds[n] == "text" and elements[owner].is_preserved}
    tokens = tagged_text.tokens_of(text, pieces, kept, kinds, is_xml=True, lines=lines)
    tokens = notes_whole(tokens, lambda token: _local(token.name) in ("sup", "superscript"))
    tokens = with_accelerators(tagged_text.with_escaped_tags(tokens))
    return Passage(tuple(_parts(with_messages(tokens), splitter, is_android=root == "resources")))


def _parts(tokens: Iterable[Token], splitter: Splitter | None, *, is_android: bool) -> Iterator[str | Sentence]:
    """Yield the parts of the passage; a CDATA section with words is text, which may have HTML tags."""
    escape = {**HTML_ESCAPES, **ESCAPES} if is_android else HTML_ESCAPES
    syntax: Syntax = "android" if is_android else ""
    rest: list[Token] = []
    for token in [*tokens, Token("wall", "")]:
        inner = token.raw[len(_CDATA) : -3] if token.raw.startswith(_CDATA) and token.raw.endswith("]]>") else ""
        is_text = token.kind in ("alone", "wall") and any(map(str.isalpha, inner))
        rest += [] if is_text else [token]
        if is_text or token.kind == "wall" and not token.raw:
            own = android_tokens(rest) if is_android else rest
            yield from tagged_text.tagged_passage([*own], splitter, "xml", escape, syntax).parts
            rest = []
        if is_text:
            yield _CDATA
            yield from _cdata_passage(inner, splitter, is_android=is_android).parts
            yield "]]>"


def _cdata_passage(text: str, splitter: Splitter | None, *, is_android: bool) -> Passage:
    """Return the passage of a CDATA section."""
    escape = (HTML_ESCAPES if tagged_text.has_references(text) else {}) | (ESCAPES if is_android else {})
    tokens = [
        replace(one, is_lines=not tagged_text.has_markup(text) and not is_android)
        for one in tagged_text.inline_tokens(text)
    ]
    own = android_tokens(with_messages(tokens)) if is_android else tokens
    return tagged_text.tagged_passage([*own], splitter, "html", escape, "cdata")


def _is_kept(piece: Piece, text: str, root: str, opaque: frozenset[str]) -> bool:
    """Return whether an element's content is copied untranslated."""
    if _local(piece.name) in opaque:
        return True
    if not piece.attributes:
        return False
    if root == "root" and ("type" in piece.attributes or "mimetype" in piece.attributes):
        return True
    return (
        tagged_text.value(piece, text, "translate") == "no" or tagged_text.value(piece, text, "translatable") == "false"
    )


def _elements(pieces: list[Piece], text: str) -> tuple[list[_Element], list[int]]:
    """Return the elements, the first being the file, and the index of each piece's element."""
    elements = [_Element("", -1)]
    owners: list[int] = []
    opened = [0]
    for piece in pieces:
        above = elements[opened[-1]]
        own = opened[-1]
        if piece.kind in ("start", "single"):
            own = len(elements)
            space = tagged_text.value(piece, text, "xml:space")
            elements.append(
                _Element(piece.name, opened[-1], is_preserved=space == "preserve" if space else above.is_preserved)
            )
            above.has_elements = True
            above.has_others = above.has_others or _local(piece.name) not in _INLINE
            if piece.kind == "start":
                opened.append(own)
        elif piece.kind == "end" and len(opened) > 1 and elements[own].name == piece.name:
            opened.pop()
        elif piece.kind == "text" and not above.has_text:
            above.has_text = not text[piece.start : piece.end].isspace()
        elif piece.kind == "comment" and text.startswith(_CDATA, piece.start):
            above.has_text = True
        owners.append(own)
    return elements, owners


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _kind(piece: Piece, elements: list[_Element], owner: int) -> Kind:
    """Return the token kind of a piece."""
    if piece.kind == "text":
        return "text"
    if piece.kind == "comment":
        return "alone" if elements[owner].has_text else "wall"
    own = elements[owner]
    above = elements[max(0, own.parent)]
    has_paragraphs = own.has_elements and not own.has_text and own.has_others
    is_inline = above.has_text or (_local(own.name) in _INLINE and not above.has_others)
    if piece.kind == "declaration" or own.parent <= 0 or has_paragraphs or not is_inline or piece.name != own.name:
        return "wall"
    kinds: dict[str, Kind] = {"start": "open", "end": "close", "single": "alone"}
    return kinds[piece.kind]


_PIECE = re.compile(
    r"(\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\u[\da-fA-F]{4}|\\&(?:quot|apos|#3[49]);|\\.|\"|&quot;|&#34;|&#10;)",
    re.DOTALL,
)
_BREAKS = ("\\n", "\\t", "\\r", "&#10;", "\\u000a", "\\u000d", "\\u0009")
_REFERENCE = re.compile(r"@(?:[+*]?(?:[\w.]++:)?\w++/[\w.]++|null|empty)|\?(?:[\w.]++:)?(?:\w++/)?[\w.]++")
_QUOTES = ('"', "&quot;", "&#34;")
_ENTITIES = {"\\&quot;": '"', "\\&#34;": '"', "\\&apos;": "'", "\\&#39;": "'"}
ESCAPES = str.maketrans({"'": "\\'", '"': '\\"', "\\": "\\\\"})
"""The escapes of characters in a translation."""


def android_tokens(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens of resources with their texts as Android reads them: `\\'` is an apostrophe, `\\n` divides,
    quotes around a text are marks, and texts that are references such as `@string/ok` are kept."""
    syntax: Syntax = ""
    is_quoted = False
    former = "wall"
    rest = [*tokens]
    for n, token in enumerate(rest):
        is_alone = former == "wall" and (n + 1 == len(rest) or rest[n + 1].kind == "wall")
        former = token.kind
        if token.kind == "wall":
            syntax, is_quoted = token.syntax, False
        if token.kind != "text" or token.name:
            yield token
            continue
        if is_alone and _REFERENCE.fullmatch(token.raw.strip()):
            yield Token("wall", token.raw, syntax=syntax)
            continue
        for k, raw in enumerate(_PIECE.split(token.raw)):
            if k % 2 == 0:
                yield Token("text", raw, is_lines=token.is_lines)
            elif raw.lower() in _BREAKS:
                yield Token("wall", raw, syntax=syntax)
            elif raw in _QUOTES:
                yield Token("close" if is_quoted else "open", raw, '"')
                is_quoted = not is_quoted
            else:
                shown = _shown(raw)
                yield Token("text", raw, shown) if shown else Token("alone", raw)


def _shown(raw: str) -> str:
    """Return the character of an escape sequence, empty if it is none."""
    if not raw.startswith("\\u") or len(raw) < 6:
        return _ENTITIES.get(raw, raw[1:])
    codes = [int(code, 16) for code in raw.split("\\u")[1:]]
    return b"".join(code.to_bytes(2, "big") for code in codes).decode("utf-16-be", "ignore").replace("\0", "")
