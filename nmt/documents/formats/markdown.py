"""Markdown: paragraphs, headings and cells of tables are translated, and HTML between them; all else is kept.
markdown-it finds the blocks of text. Their inline syntax is split here: code, addresses and references are marks,
emphasis and links are elements around their words.

Blocks that CommonMark does not know become blocks that it knows, line by line: admonitions and tabs (`!!! note "Title"`
around indented lines, `/// note | Title` around others), definition lists, footnotes and `[TOC]` of MkDocs, shortcodes
of Hugo and Jekyll, formulas between lines of `$$`. The result is only for finding where text stands: a line of text is
the end of its line in the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from nmt.documents.document import Document, File
from nmt.documents.encodings import utf8_text
from nmt.documents.formats.html import html_passages
from nmt.documents.passage import Passage, Splitter
from nmt.documents.tagged_text import Token, inline_tokens, tagged_passage
from nmt.errors import DataError, NMTError, how_to_install

if TYPE_CHECKING:
    from markdown_it.token import Token as Block

_UNSEEN = "\x02"
"""A sign in place of the title of a block, which no text contains."""
_TITLE = re.compile(
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


def _as_common_mark(lines: Sequence[str]) -> list[str]:
    """Return as many lines: CommonMark's lists, code and blank lines stand for what it does not know."""
    found = list(lines)
    closings: dict[str, list[int]] = {}  # the numbers of the lines that may end a formula, by what they end with
    for n, line in enumerate(lines):
        if closing := _FORMULA_END.search(line):
            closings.setdefault(closing[1], []).append(n)
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
            found[n] = f"{one[1]}-   # {_UNSEEN}\n"
        elif one := _FOOTNOTE.match(line) or (_DEFINITION.match(line) if is_term else None):
            found[n] = f"{one[1]}-{line[one.end() :]}"
        if line.strip():
            is_term = found[n] == line or found[n].lstrip().startswith("-")
    return found


def _end_of_formula(line: str, n: int, closings: dict[str, list[int]]) -> int:
    """Return the last line of the formula that begins at line n; 0 if none does, or if it ends there."""
    if (one := _FORMULA.match(line)) is None:
        return 0
    end = {"$$": "$$", "\\[": "\\]"}.get(one[1]) or one[1].replace("begin", "end", 1)
    if end in line[one.end() :] or (one[1] in ("$$", "\\[") and line[one.end() :].strip()[:1] not in ("", "\\")):
        return 0
    later = closings.get(end, [])
    k = bisect_right(later, n)
    return later[k] if k < len(later) else 0


_ALONE, _CLOSE, _END = "\x02", "\x04", "\x03"
"""Control characters around the number of a mark: what it begins with says its kind."""
_FRONT = re.compile(r"(---|\+\+\+)[ \t]*\r?\n(?:.*\n)*?(?:\1|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_BREAK = re.compile(r"\r\n?|\n")
_TICKS = re.compile("`+")
_ATOM = re.compile(
    r"\\(?!<)[!-/:-@\[-`{-~]"  # an escaped character, which begins nothing
    r"|(?P<alone>\{\{[^{}]{1,400}+\}\}|\{%[^{}]{1,400}+%\}"  # a shortcode or a variable of a template
    r"|\\begin\{(?P<env>\w{1,30}\*?)\}[^\x02-\x04]{0,2000}?\\end\{(?P=env)\}"
    r"|\\<|<[A-Za-z][A-Za-z0-9.+-]{1,31}:[^\s<>]*>|<[^\s<>@]+@[^\s<>@]+>)"  # no tag, or an address
    r"|(?P<close>\]\[(?!\^)[^\[\]]+\]"  # the end of a link: with a label, or with an address and perhaps a title
    r"|\]\(\s*+(?:<[^<>\n]*>|(?:[^\s()<\\]|\\.|\([^\s()]*\))*+)"
    r"(?:\s++(?:\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|\([^()]*\)))?+\s*+\))"
)
_INLINE = re.compile(
    r"(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<wall>(?:(?<! ) {2,}+|\\)\n)"
    r"|(?P<alone>(?:\{[\w:.+-]{1,80}\})?\x02\d+\x03(?:\s+\x02\d+\x03)*+"
    r"|\{(?::|[ ]?(?:[#.]|[\w-]{1,40}=))[^{}\n]{1,200}\}|:{3}[^\n]*"
    r"|\[\^[^\s\[\]]{1,80}\]:?|\[[ xX]\](?=\s)|(?<!\w):(?=[+-]?\w)[\w+-]{1,50}:(?!\w)|\$\$[^$]+\$\$"
    r"|\$(?![\s$])[^$\n]*(?:[^\s$\\\d]|(?<!%)\d)\$(?![{A-Za-z0-9])"
    r"|https?://[^\s<>\"\x02\x04]*[^\s<>\".,;:!?)\]}'*_\x02\x04])"
    r"|(?P<open>!?\[)|(?P<close>\](?:\[\])?|\x04\d+\x03)|(?P<emphasis>\*+|~~|(?<!\w)_++|(?<!_)_++(?!\w))"
)
_LABEL = re.compile(r"\[([^\[\]]+)\](?:\[\]|(?!\[))")
"""A reference by its text: when the text is translated, its label must be written as well."""
_LINE_START = re.compile(r"(\[![A-Za-z-]{1,30}\][+-]?)[ \t]*|\*\[[^\[\]]{1,80}\]:[ \t]*")
"""Beginnings of an alert and of an abbreviation's meaning."""
_TARGET = r"(?:\([^()]*+\)|\[[^\[\]]*+\])"
_PICTURE = rf"(?:\[!\[[^\[\]]*+\]{_TARGET}\]{_TARGET}|!\[[^\[\]]*+\]{_TARGET})"
_LINK = rf"\[[^\[\]]*+\]{_TARGET}"
_ROW = re.compile(rf"(?:{_PICTURE}[ \t]*+)++|{_LINK}(?:[ \t]*+[|\u00b7\u2022][ \t]*+{_LINK})++")
"""A line of pictures, such as badges, or of links."""
_HEADLINE = re.compile(r"(\*\*|__)(?! )[^*_]{1,40}+\1:?")
"""The first line of a paragraph as its headline, such as `**Note**`."""
_CELLS = ("th_open", "td_open")
_EMPTY = re.compile(r"\x02(\d+)\x03\x04(\d+)\x03")
_MARK = re.compile(r"[\x02\x04](\d+)\x03")
_PART = re.compile(r"([\x02\x04]\d+\x03)")
_NEIGHBOURS = re.compile(rf"{_ALONE}(\d+){_END}(?={_ALONE}(\d+){_END})")
_ESCAPES = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]<"})
_REFERENCE = re.compile(r"&(?:#\w{1,8}|\w{1,32});")
_BLOCK_START = re.compile(
    r"^([ \t]*+(?:\d{1,9}(?=[.)](?:\s|$))|(?=[-+*](?:\s|$)|#{1,6}(?:\s|$)|>|=+[ \t]*$|-[- \t]*$)))", re.MULTILINE
)
"""Beginnings of lines that begin another block, or make a heading of the line before."""


@dataclass(frozen=True)
class _Unit:
    """Characters [start, end) of the file; write: returns them, given the new text of each passage."""

    start: int
    end: int
    passages: list[Passage]
    write: Callable[[Sequence[str]], str]


def read(file: File) -> Document:
    """Read Markdown (CommonMark with tables). Front matter, code, addresses and definitions of references are kept, and
    so are footnotes' marks, attributes in braces and formulas. Raises DataError, and NMTError without markdown-it."""
    text, encode = utf8_text(file.content, file.name)
    if any(mark in text for mark in (_ALONE, _CLOSE, _END)):
        raise DataError(f"{file.name}: must be text, got control characters from 2 to 4; remove them")
    units = list(_units(text, file))

    def write(texts: Sequence[str]) -> bytes:
        rest, parts, at = iter(texts), [], 0
        for unit in units:
            new = [next(rest) for _ in unit.passages]
            if new != [one.source for one in unit.passages]:
                parts += [text[at : unit.start], unit.write(new)]
                at = unit.end
        return encode("".join([*parts, text[at:]]))

    return Document([one for unit in units for one in unit.passages], write)


def _blocks(text: str) -> tuple[list[Block], Callable[[str], bool]]:
    """Return the blocks, and whether a reference has a definition. Raises NMTError without the library."""
    try:
        from markdown_it import MarkdownIt
        from markdown_it.common.utils import normalizeReference
    except ImportError:
        raise NMTError(
            f"Markdown: must be read by the library markdown-it-py, got none; {how_to_install('documents')}"
        ) from None
    reader = MarkdownIt("commonmark", {"maxNesting": 100}).enable("table")
    reader.core.ruler.enableOnly(["normalize", "block"])
    known: dict[str, dict[str, object]] = {}
    return reader.parse(text, known), lambda label: normalizeReference(label) in known.get("references", ())


def _units(text: str, file: File) -> Iterator[_Unit]:
    """Yield the pieces of the text to translate, in order."""
    front = _FRONT.match(text)
    at = front.end() if front else 0
    bounds = [at, *(found.end() for found in _BREAK.finditer(text, at)), len(text)]
    lines = [text[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]
    blocks, is_label = _blocks("".join(_as_common_mark(lines)))
    file.limits.check_elements(len(blocks), file.name)
    row = column = 0  # where to look for the next cell of a table
    for before, block in zip([None, *blocks], blocks, strict=False):
        if block.map is None or (block.type != "inline" and (block.type != "html_block" or block.level)):
            continue
        first, last = block.map
        if block.type == "html_block":
            start, end = bounds[first], bounds[last]
            passages, write = html_passages(text[start:end], file.splitter)
            yield _Unit(start, end, passages, write)
            continue
        pieces = block.content.split("\n")
        kind = before.type if before is not None else ""
        if block.content == _UNSEEN and (title := _TITLE.match(lines[first])):
            start, (a, b) = bounds[first], title.span(title.lastindex or 0)
            yield _paragraph(text, [start], [start + a], [start + b], kind, file.splitter, is_label)
            continue
        if kind in _CELLS:
            pieces[0] = pieces[0].replace("|", "\\|")
            row, column = first, column if row == first else 0
            places = [lines[first].find(pieces[0], column)]
            column = places[0] + len(pieces[0])
        elif kind == "heading_open" and before is not None and before.markup.startswith("#"):
            places = [lines[first].find(pieces[0], lines[first].find("#") + len(before.markup))]
        else:
            pieces = [piece.strip(" \t") for piece in pieces]
            bare = [line.rstrip() for line in lines[first : first + len(pieces)]]
            places = [len(line) - len(p) if line.endswith(p) else -1 for line, p in zip(bare, pieces, strict=True)]
        if min(places) >= 0:  # otherwise it has characters that the library replaces
            begin = bounds[first : first + len(pieces)]
            starts = [bound + place for bound, place in zip(begin, places, strict=True)]
            ends = [start + len(piece) for start, piece in zip(starts, pieces, strict=True)]
            for a, b, shift in _groups(pieces) if kind == "paragraph_open" else [(0, len(pieces), 0)]:
                own = [starts[a] + shift, *starts[a + 1 : b]]
                yield _paragraph(text, begin[a:b], own, ends[a:b], kind, file.splitter, is_label)


def _groups(pieces: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the lines [first, last) of a paragraph that are translated together, and how many characters of the first
    line are kept: an alert's `[!NOTE]` is a line by itself, an abbreviation's `*[HTML]:` begins one."""
    starts = {0: 0}
    for n, piece in enumerate(pieces):
        if found := _LINE_START.match(piece):
            starts[n] = found.end()
        if _ROW.fullmatch(piece) or (found and found[1]) or (n == 0 and _HEADLINE.fullmatch(piece)):
            starts.setdefault(n, 0)
            starts.setdefault(n + 1, 0)
    starts.pop(len(pieces), None)
    for a, b in pairwise([*sorted(starts), len(pieces)]):
        if starts[a] < len(pieces[a]) or b > a + 1:
            yield a, b, starts[a]


def _paragraph(
    text: str,
    bounds: list[int],
    starts: list[int],
    ends: list[int],
    kind: str,
    splitter: Splitter | None,
    is_label: Callable[[str], bool],
) -> _Unit:
    """Return a paragraph of a block `kind`, given where its lines, and the texts in them, begin and end."""
    between, parts = "\n", [text[starts[0] : ends[0]]]
    for n in range(1, len(starts)):
        gap = text[ends[n - 1] : bounds[n]]
        if n == 1:
            between = gap.lstrip(" \t") + text[bounds[n] : starts[n]]
        parts += [gap[: len(gap) - len(gap.lstrip(" \t"))], "\n", text[starts[n] : ends[n]]]
    atoms: list[str] = []
    bare = _without_atoms("".join(parts), atoms, is_label)
    escape = dict(_ESCAPES)
    if _REFERENCE.search(bare):
        escape[ord("&")] = "&amp;"
    if kind in _CELLS:
        escape[ord("|")] = "\\|"
    is_row = len(starts) == 1 and _ROW.fullmatch(parts[0]) is not None
    tokens = _tokens(bare, atoms)
    passage = tagged_passage([*(_divided(tokens) if is_row else tokens)], splitter, escape=escape)

    def write(texts: Sequence[str]) -> str:
        new = _BLOCK_START.sub(r"\1\\", texts[0]) if kind == "paragraph_open" else texts[0]
        return _restored(_apart(_without_empty(new, atoms), atoms), atoms).lstrip(" \t").replace("\n", between)

    return _Unit(starts[0], ends[-1], [passage], write)


def _divided(tokens: Iterator[Token]) -> Iterator[Token]:
    """Yield the tokens of a row of pictures or links, divided behind each of them."""
    depth = 0
    for token in tokens:
        yield token if depth or token.kind != "text" else replace(token, kind="wall")
        depth += (token.kind == "open") - (token.kind == "close")
        if token.kind == "close" and not depth:
            yield Token("wall", "")


def _number(raw: str, sign: str, atoms: list[str]) -> str:
    """Add to the atoms; return the number of the new one between this sign and the end of a mark."""
    atoms.append(raw)
    return f"{sign}{len(atoms) - 1}{_END}"


def _without_empty(text: str, atoms: list[str]) -> str:
    """Return a text without emphasis of nothing, which would be read as asterisks."""

    def kept(found: re.Match[str]) -> str:
        one, other = atoms[int(found[1])], atoms[int(found[2])]
        return "" if one == other and one[0] in "*_~" else found[0]

    former = ""
    while former != text:
        former, text = text, _EMPTY.sub(kept, text)
    return text


def _apart(text: str, atoms: list[str]) -> str:
    """Return a text with spaces where its emphasis would otherwise be read as asterisks, by the rules of CommonMark."""
    parts = [part for part in _PART.split(text) if part]
    shown = [atoms[int(found[1])] if (found := _MARK.fullmatch(part)) else part for part in parts]
    for n, (part, raw) in enumerate(zip(parts, shown, strict=True)):
        if raw == part or raw[0] not in "*_~" or raw.strip(raw[0]):
            continue
        step = 1 if part[0] == _ALONE else -1  # to what is inside
        inner, outer = ("".join(shown[n + side : n + side + 1]) for side in (step, -step))
        blank = inner[: len(inner) - len(inner.lstrip())] if step > 0 else inner[len(inner.rstrip()) :]
        if blank and parts[n + step] == inner:
            parts[n + step] = shown[n + step] = inner.lstrip() if step > 0 else inner.rstrip()
            inner = parts[n + step]
        one, other = (inner[:1], outer[-1:]) if step > 0 else (inner[-1:], outer[:1])
        is_word = other.isalnum() and (raw[0] == "_" or not one.isalnum())
        is_run = step > 0 and n > 0 and parts[n - 1][0] == _CLOSE and outer[-1:] == raw[0]
        space = blank or " " * (is_word or is_run)
        parts[n] = space + part if step > 0 else part + space
    return "".join(parts)


def _restored(text: str, atoms: list[str]) -> str:
    """Return a text with what `_without_atoms` has replaced, and a space between codes, or they would be one."""

    def apart(found: re.Match[str]) -> str:
        is_code = atoms[int(found[1])].endswith("`") and atoms[int(found[2])].startswith("`")
        return found[0] + " " * is_code

    text = _NEIGHBOURS.sub(apart, text)
    return _MARK.sub(lambda found: atoms[int(found[1])], text)


def _without_atoms(text: str, atoms: list[str], is_label: Callable[[str], bool]) -> str:
    """Replace code, addresses and ends of links by their numbers between control characters; fill `atoms`."""

    def number(raw: str, kind: str) -> str:
        return _number(_restored(raw, atoms), _ALONE if kind == "alone" else _CLOSE, atoms)  # a label may contain code

    runs = [found.span() for found in _TICKS.finditer(text)]
    later: dict[int, list[int]] = {}
    for n in reversed(range(len(runs))):
        later.setdefault(runs[n][1] - runs[n][0], []).append(n)
    parts, at, n = [], 0, 0
    while n < len(runs):
        start, end = runs[n]
        same = later[end - start]
        while same and same[-1] <= n:
            same.pop()
        before = text[max(0, start - 9) : start]
        if same and (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            n = same[-1]
            parts += [text[at:start], number(text[start : runs[n][1]], "alone")]
            at = runs[n][1]
        n += 1
    bare = "".join([*parts, text[at:]])
    bare = _ATOM.sub(lambda found: number(found[0], found.lastgroup) if found.lastgroup else found[0], bare)

    def labelled(found: re.Match[str]) -> str:
        label = _restored(found[1], atoms)
        return f"[{found[1]}{number(f'][{label}]', 'close')}" if is_label(label) else found[0]

    return _LABEL.sub(labelled, bare)


def _tokens(text: str, atoms: list[str]) -> Iterator[Token]:
    """Yield the tokens of a paragraph; starts and ends of emphasis become atoms, which are added."""
    opened: list[str] = []
    start = 0  # of the token, in the text
    for token in inline_tokens(text):
        at = 0
        for found in _INLINE.finditer(token.raw) if token.kind == "text" else ():
            if at < found.start():
                yield Token("text", token.raw[at : found.start()])
            at = found.end()
            raw, kind = found[0], found.lastgroup
            if kind == "escape":
                yield Token("text", raw, raw[1:])
            elif kind == "emphasis":
                yield from _emphasis(raw, text, start + found.start(), opened, atoms)
            else:
                yield Token(kind, raw, "[")  # type: ignore[arg-type]
        if token.kind != "text":
            yield token
        elif at < len(token.raw):
            yield Token("text", token.raw[at:])
        start += len(token.raw)


def _emphasis(raw: str, text: str, at: int, opened: list[str], atoms: list[str]) -> Iterator[Token]:
    """Yield the tokens of a run of delimiters at a character of the text, by the rules of CommonMark for what opens and
    what closes; delimiters without a partner are single marks. opened: the delimiters that are open."""
    before, after = text[at - 1 : at] or " ", text[at + len(raw) : at + len(raw) + 1] or " "
    is_left = not after.isspace() and (after.isalnum() or not before.isalnum())
    is_right = not before.isspace() and (before.isalnum() or not after.isalnum())
    while raw and is_right and opened and raw.startswith(opened[-1]):
        name = opened.pop()
        yield Token("close", _number(name, _CLOSE, atoms), name)
        raw = raw[len(name) :]
    if raw and is_left:
        opened.append(raw)
        yield Token("open", _number(raw, _ALONE, atoms), raw)
    elif raw:
        yield Token("alone", raw)
