"""Blocks of Markdown that CommonMark does not know, as blocks that it knows, line by line.

MkDocs and Python-Markdown have admonitions and tabs (`!!! note "Title"` around indented lines, `/// note | Title`
around others), definition lists, footnotes and `[TOC]`; Hugo, Jekyll and others have shortcodes; many have formulas
between lines of `$$`. The result is only for finding where text stands: a line of text is the end of its line in the
file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

UNSEEN = "\x02"
"""A sign in place of the title of a block, which no text contains."""
TITLE = re.compile(
    r'\A[ \t]*(?:(?:!!!|\?\?\?\+?|===[!+]?)[ \t][^"\n]*+"([^"\n]++)"'
    r"|/{3,}[ \t]*[\w-]++[ \t]*\|[ \t]*(.*\S))[ \t]*+\r?\n?$"
)
"""The line of an admonition, a tab or another block with a title."""
_ADMONITION = re.compile(
    r"\A([ \t]*)(?:(?:!!!|\?\?\?\+?)[ \t]+[A-Za-z][\w-]*+(?:[ \t]++[\w-]++)*+(?:[ \t]*+\"[^\"\n]*+\")?+"
    r"|===[!+]?[ \t]+\"[^\"\n]++\"|/{3,}[ \t]*[\w-]++[ \t]*\|[^\n]*\S)[ \t]*+\r?\n?$"
)
_DEFINITION = re.compile(r"\A([ \t]*)[:~](?=[ \t]{1,3}\S)")
_FOOTNOTE = re.compile(r"\A( {0,3})\[\^[^\s\[\]]{1,80}\]:")
_FENCE = re.compile(r"\A[ \t>]*(?:[-+*][ \t]+|\d+[.)][ \t]+)?(`{3,}(?=[^`]*$)|~{3,})")
_KEPT = re.compile(
    r"\A(?:[ \t]*(?:(?:\{\{[<%#][^{}\n]*\}\}|\{%[^{}\n]*%\}|\{\*[^{}\n]*\*\}|\{![^{}\n]*!\})[ \t]*)+\r?\n?$"
    r"|[ \t]*(?:\[\[?_?TOC_?\]\]?|\{:?toc\}|/{3,}[ \t]*[\w-]*)[ \t]*\r?\n?$)",
    re.IGNORECASE,
)
"""Lines of shortcodes, tags of templates, places of tables of contents, and blocks without a title."""
_FORMULA = re.compile(r"\A[ \t]*(\$\$|\\\[|\\begin\{\w+\*?\})")
_FORMULA_END = re.compile(r"(\$\$|\\\]|\\end\{\w+\*?\})\s*$")


def as_common_mark(lines: Sequence[str]) -> list[str]:
    """Return as many lines, in which admonitions, tabs, definitions and footnotes are items of lists, formulas are
    code, and lines that are kept are blank."""
    found = list(lines)
    closings = _closings(lines)
    fence, kept_upto, is_term = "", 0, False
    for n, line in enumerate(lines):
        own = _FENCE.match(line)
        if fence:
            if own and own[1].startswith(fence) and not line[own.end() :].strip():
                fence = ""
            continue
        if n < kept_upto or _KEPT.match(line):
            found[n] = "\n"
        elif own:
            fence = own[1]
        elif end := _end_of_formula(line, n, closings):
            found[n], kept_upto = "\n", end + 1
        elif one := _ADMONITION.match(line):
            found[n] = f"{one[1]}-   # {UNSEEN}\n"
        elif one := _FOOTNOTE.match(line) or (_DEFINITION.match(line) if is_term else None):
            found[n] = f"{one[1]}-{line[one.end() :]}"
        if line.strip():
            is_term = found[n] == line or found[n].lstrip().startswith("-")
    return found


def _closings(lines: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of the lines that may end a formula, by what they end with."""
    found: dict[str, list[int]] = {}
    for n, line in enumerate(lines):
        if one := _FORMULA_END.search(line):
            found.setdefault(one[1], []).append(n)
    return found


def _end_of_formula(line: str, n: int, closings: dict[str, list[int]]) -> int:
    """Return the last line of the formula that begins at line n; 0 if none does, or if it ends there."""
    one = _FORMULA.match(line)
    if one is None:
        return 0
    end = {"$$": "$$", "\\[": "\\]"}.get(one[1]) or one[1].replace("begin", "end", 1)
    if end in line[one.end() :] or (one[1] in ("$$", "\\[") and line[one.end() :].strip()[:1] not in ("", "\\")):
        return 0
    later = closings.get(end, [])
    k = bisect_right(later, n)
    return later[k] if k < len(later) else 0
