"""Tags of templates within a text: no words, but elements around words, or what divides them.

Known are Django, Jinja, Liquid and Twig (`{% if x %}`), ERB (`<% if x %>`), Handlebars (`{{#if x}}`) and Go
(`{{ if x }}`). Tags that write a value, `{{ x }}` and `<%= x %>`, are placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from nmt.documents.tokens.token import Kind, Token

_TAG = (
    r"\{%(?:[^%{]|%(?!\})|\{(?!%)){0,2000}+%\}|\{#(?:[^#{}]|#(?!\})){1,2000}+#\}"
    r"|<%(?![=%])(?:[^%<]|%(?!>)|<(?!%)){0,2000}+%>"
    r"|\{\{[-~]?\s*+(?:[#/^!>]|(?:else|end|if|range|with|block|define|template)\b)[^{}]{0,1000}+\}\}"
)
_TAGS = re.compile(_TAG)
_LINES = re.compile(rf"^[ \t]*+(?:(?:{_TAG})[ \t]*+)++\r?$", re.MULTILINE)
"""Lines of nothing but tags."""
_NAME = re.compile(r"\W*(\w*)")
_WALLS = frozenset(
    "block endblock extends load import from macro endmacro layout for endfor else elif elsif elseif plural empty when "
    "case endcase blocktrans endblocktrans blocktranslate endblocktranslate".split()
)
"""Tags that no sentence crosses: they begin or end a part of the page, what is repeated, or another choice."""
_OPENS = frozenset("if unless range with block define for while case begin".split())
"""Tags of ERB and Go that `end` closes."""


def has_templates(text: str) -> bool:
    """Return whether a text has tags of templates."""
    return ("{%" in text or "{{" in text or "{#" in text or "<%" in text) and _TAGS.search(text) is not None


def with_templates(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens with tags of templates divided: those around words are elements, those alone on their lines,
    and those that choose between texts, are walls."""
    if not any(token.kind == "text" and has_templates(token.raw) for token in tokens):
        return tokens
    found = [piece for n, token in enumerate(tokens) for piece in _pieces(tokens, n, token)]
    opened: dict[str, list[int]] = {}
    walls = [*accumulate(token.kind == "wall" for token in found)]
    for n, token in enumerate(found):
        if token.name[:1] == "%" and token.kind == "open":
            opened.setdefault(token.name, []).append(n)
        elif token.name[:1] == "%" and token.kind == "close":
            first = opened[token.name].pop() if opened.get(token.name) else n
            if first == n or walls[first] < walls[n]:  # it contains parts of the page, or other choices
                found[first], found[n] = replace(found[first], kind="wall"), replace(token, kind="wall")
    for n in (n for numbers in opened.values() for n in numbers):
        found[n] = replace(found[n], kind="alone")
    return found


def _pieces(tokens: Sequence[Token], n: int, token: Token) -> Iterator[Token]:
    """Yield the pieces of a token."""
    if token.kind != "text" or token.name not in ("", token.raw) or not has_templates(token.raw):
        yield token
        return
    raw, at = token.raw, 0
    begins = n == 0 or tokens[n - 1].kind == "wall"
    ends = n + 1 == len(tokens) or tokens[n + 1].kind == "wall"
    lines = (one.span() for one in _LINES.finditer(raw) if (begins or one.start()) and (ends or one.end() < len(raw)))
    alone = {one.start() for line in lines for one in _TAGS.finditer(raw, *line)}
    for one in _TAGS.finditer(raw):
        if at < one.start():
            yield replace(token, raw=raw[at : one.start()], name=token.name and raw[at : one.start()])
        kind, name = _kind(one[0])
        yield Token("wall" if one.start() in alone else kind, one[0], f"%{name}", token.syntax)
        at = one.end()
    if at < len(raw):
        yield replace(token, raw=raw[at:], name=token.name and raw[at:])


def _kind(raw: str) -> tuple[Kind, str]:
    """Return the kind of a tag, and the name of its element."""
    name = _NAME.match(raw)[1]  # type: ignore[index]
    if name in _WALLS:
        return "wall", ""
    if raw.startswith("{%"):
        return ("close", name[3:]) if name.startswith("end") else ("open", name)
    if raw[:2] == "{{" and (sign := raw[2:].lstrip("-~ ")[:1]) in "#^/":
        return "close" if sign == "/" else "open", name
    if name == "end":
        return "close", "end"
    return ("open", "end") if name in _OPENS or re.search(r"\bdo\b[^%]*%>$", raw) else ("alone", "")
