"""Android's string resources: escapes, quotes and references in their texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from nmt.documents.tokens.token import Syntax, Token

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
