"""Gettext PO files: untranslated texts get a translation and are marked fuzzy; all other bytes are kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from gettext import c2py

from nmt.documents.document import Document, File
from nmt.documents.encodings import MARK, decoded, is_utf8
from nmt.documents.forms import Limits
from nmt.documents.placeholders import placeholders_of
from nmt.documents.tagged_text import as_loose, loose_passage
from nmt.errors import DataError

_LINE = re.compile(
    r'\s*(msgctxt|msgid_plural|msgid|msgstr\s*\[\s*\d{1,3}\s*\]|msgstr|domain)?\s*((?:"(?:[^"\\]|\\.)*+"\s*)*+)'
)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"')
_NUMBERED = re.compile(r"%\d+\$")
_CHARSET = re.compile(
    rb'^[ \t]*(?:msgstr[ \t]*)?"(?:[^"\n]*\\n)?Content-Type:[^"\n]*?charset=([^\s"\\;]+)', re.M | re.I
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WRITTEN = {ord(c): f"\\{k}" for k, c in _ESCAPES.items()} | {ord('"'): '\\"', ord("\\"): "\\\\"}
_HEADER = "MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n"


@dataclass
class _Entry:
    """An entry. flags, first: indices of the line with its flags and of the first after its comments."""

    flags: int | None = None
    is_fuzzy: bool = False
    first: int | None = None
    texts: dict[str, list[str]] = field(default_factory=dict)
    strings: tuple[int, int] = (0, 0)  # [first, last) of all msgstr lines

    def text(self, keyword: str) -> str:
        """Return the text of a keyword."""
        raw = "".join(self.texts.get(keyword, []))
        return re.sub(r"\\([0-7]{1,3}|x[\da-fA-F]{1,2}|.)", _unescaped, raw) if "\\" in raw else raw

    @property
    def is_header(self) -> bool:
        """Return whether it is the file's header."""
        return "msgctxt" not in self.texts and "msgid" in self.texts and not self.text("msgid")

    @property
    def is_open(self) -> bool:
        """Return whether it is to be translated: it has a text, and no valid translation."""
        strings = [self.text(keyword) for keyword in self.texts if keyword.startswith("msgstr")]
        return bool(strings and self.text("msgid").strip()) and (self.is_fuzzy or not all(strings))


def read(file: File) -> Document:
    """Read a PO file. Existing translations are kept. The number of plural forms is that of the header or of the target
    language: a form for the number one only gets the singular's translation, all others the plural's. Raises DataError
    if it is no PO file, or exceeds the limits."""
    content, name, splitter, languages = file.content, file.name, file.splitter, file.languages
    marked = content.startswith(MARK)
    found = _CHARSET.search(content, 0, 2**16)
    charset = found[1].decode("ascii", "replace") if found and found[1] != b"CHARSET" else "UTF-8"
    try:
        text = content[3 * marked :].decode()  # valid UTF-8 is hardly ever another encoding, whatever the header says
    except UnicodeDecodeError:
        text = decoded(content, charset, name)
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    entries = list(_entries(lines, name, file.limits))
    if not entries and "".join(lines).strip() and not all(line.lstrip()[:1] in ("", "#") for line in lines):
        raise DataError(f"{name}: must be a PO file with entries, got none; name the right format")
    header = next((one for one in entries if one.is_header), None)
    units = [one for one in entries if not one.is_header and one.is_open]
    sources = [[one.text(keyword) for keyword in ("msgid", "msgid_plural") if keyword in one.texts] for one in units]
    passages = [loose_passage(one, splitter, is_lines=True) for forms in sources for one in forms]
    fields, forms = _header(header, languages)

    def write(answers: Sequence[str]) -> bytes:
        if not units:
            return content
        rest, read = iter(answers), iter(passages)
        out: list[str] = list(lines)
        end = "\r\n" if lines[0].endswith("\r\n") else "\n"
        if header is not None and fields != header.text("msgstr"):
            _put(out, header, [("msgstr", fields)], end)
        for unit, source in zip(units, sources, strict=True):
            new = [as_loose(one, next(rest)) for one in source]
            if unit.flags is not None and "python-format" in lines[unit.flags] and not _NUMBERED.search(source[0]):
                new = [_NUMBERED.sub("%", one) for one in new]  # Python has no such numbers: msgfmt tells
            if any([next(read).unread for _ in source]):  # something of it is left untranslated
                continue
            _put(out, unit, _strings(unit, source, new, forms), end)
            if unit.flags is None:  # a person is to check it
                out[unit.first or 0] = f"#, fuzzy{end}" + out[unit.first or 0]
            elif not unit.is_fuzzy:
                out[unit.flags] = out[unit.flags].rstrip() + f", fuzzy{end}"
        written = "".join(out)
        if header is None:
            written = _block([("msgid", ""), ("msgstr", fields)], end) + end + written
        return MARK * marked + written.encode()

    return Document(passages, write)


def _entries(lines: Sequence[str], name: str, limits: Limits) -> Iterator[_Entry]:
    """Yield the entries of a file except obsolete ones."""
    entry = _Entry()
    keyword = ""
    count = 0
    for n, line in enumerate(lines):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            if keyword.startswith("msgstr"):
                yield entry
                entry, keyword = _Entry(), ""
            if bare.startswith("#,"):
                entry.flags = n
                entry.is_fuzzy |= re.search(r"\bfuzzy\b", bare) is not None
            if bare.startswith("#|") and entry.first is None:
                entry.first = n
            if bare.startswith("#~"):
                entry, keyword = _Entry(), ""
            continue
        found = _LINE.fullmatch(line)
        if found is None or not (found[1] or (keyword and found[2])):
            raise DataError(
                f'{name}: line {n + 1} must be a comment, msgid, msgstr or "text", got {bare[:40]!r}; correct it'
            )
        if found[1]:
            former, keyword = keyword, re.sub(r"\s", "", found[1])
            if former.startswith("msgstr") and not keyword.startswith("msgstr"):
                yield entry
                entry = _Entry()
            if keyword in entry.texts:
                raise DataError(f"{name}: line {n + 1} must be in an entry without {keyword}, got a second; correct it")
            count += 1
            limits.check_elements(count, name)
            entry.first = n if entry.first is None else entry.first
            entry.texts[keyword] = []
        entry.texts[keyword] += _STRING.findall(found[2])
        if keyword.startswith("msgstr"):
            entry.strings = (entry.strings[0] or n, n + 1)
    if keyword.startswith("msgstr"):
        yield entry


def _unescaped(found: re.Match[str]) -> str:
    """Return the character of a C escape sequence."""
    code = found[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPES.get(code, code)


def _header(header: _Entry | None, languages: tuple[str, str] | None) -> tuple[str, tuple[int, int | None]]:
    """Return the new text of a header, in UTF-8 and with valid plural forms; and those forms."""
    text = header.text("msgstr") if header is not None else _HEADER
    target = languages[1] if languages is not None else None
    found = re.search(r"charset=([^\s;]*)", text)
    if found and not is_utf8(found[1]):
        text = text[: found.start(1)] + "UTF-8" + text[found.end(1) :]
    elif found is None:
        text += "Content-Type: text/plain; charset=UTF-8\n"
    if target is not None:
        text = re.sub(r"^Language:[ \t]*$", f"Language: {target.replace('-', '_')}", text, flags=re.MULTILINE)
    plural = re.search(r"^Plural-Forms:(.*)$", text, re.MULTILINE)
    forms = plural_forms(plural[1]) if plural else None
    if forms is None:
        rule = plural_rule(target)
        forms = plural_forms(rule) or (2, 1)
        line = f"Plural-Forms: {rule}"
        text = text[: plural.start()] + line + text[plural.end() :] if plural else text.rstrip("\n") + f"\n{line}\n"
    return text, forms


def _strings(
    unit: _Entry, source: Sequence[str], new: Sequence[str], forms: tuple[int, int | None]
) -> list[tuple[str, str]]:
    """Return the msgstr texts of an entry, one per plural form if it has a plural."""
    if len(source) == 1:
        return [("msgstr", new[0])]
    count, one = forms
    same = sorted(p.text for p in placeholders_of(source[0])) == sorted(p.text for p in placeholders_of(source[1]))
    if one is None and same and count > 1:
        one = 0  # a form of 1, 21, 31 or of 0 and 1: the singular that contains the number
    kept = {} if unit.is_fuzzy else {n: unit.text(f"msgstr[{n}]") for n in range(count)}
    return [(f"msgstr[{n}]", kept.get(n) or new[0 if n == one else 1]) for n in range(count)]


def _block(texts: Sequence[tuple[str, str]], end: str) -> str:
    """Return keywords and their texts as written in a file, each line of text in a separate string."""
    out = ""
    for keyword, text in texts:
        quoted = [f'"{part.translate(_WRITTEN)}"{end}' for part in re.findall(r"[^\n]*\n|[^\n]+", text) or [""]]
        out += f"{keyword} " + (f'""{end}' if len(quoted) > 1 else "") + "".join(quoted)
    return out


def _put(out: list[str], entry: _Entry, texts: Sequence[tuple[str, str]], end: str) -> None:
    """Replace the msgstr lines of an entry."""
    first, last = entry.strings
    out[first:last] = [_block(texts, end)] + [""] * (last - first - 1)


_SLAVIC = "(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2)"
_RULES = {
    "nplurals=1; plural=0;": "id ja jv km ko lo ms my su th ug vi wo yue zh",
    "nplurals=2; plural=(n > 1);": "ach ak am br fa fil fr hi hy ln mg mi oc pt ti tg tl tr uz wa",
    f"nplurals=3; plural={_SLAVIC};": "be bs hr ru sr uk",
    "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);": "cs sk",
    "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);": "csb pl",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);": "lt",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n!=0 ? 1 : 2);": "lv",
    "nplurals=3; plural=(n==1 ? 0 : n==0 || (n%100>0 && n%100<20) ? 1 : 2);": "mo ro",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);": "sl dsb hsb",
    "nplurals=4; plural=(n==1 || n==11 ? 0 : n==2 || n==12 ? 1 : n>2 && n<20 ? 2 : 3);": "gd",
    "nplurals=5; plural=(n==1 ? 0 : n==2 ? 1 : n<7 ? 2 : n<11 ? 3 : 4);": "ga",
    "nplurals=4; plural=(n==1 ? 0 : n==0 || (n%100>1 && n%100<11) ? 1 : n%100>10 && n%100<20 ? 2 : 3);": "mt",
    "nplurals=4; plural=(n==1 ? 0 : n==2 ? 1 : n!=8 && n!=11 ? 2 : 3);": "cy",
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);": "ar",
    "nplurals=2; plural=(n%10!=1 || n%100==11);": "is mk",
}
"""The number of plural forms of languages in gettext, and which numbers take which form."""
_BY_LANGUAGE = {language: rule for rule, languages in _RULES.items() for language in languages.split()}
_MOST_FORMS = 10
_PLURALS = re.compile(r"nplurals\s*+=\s*+(\d{1,3})\s*+;\s*+plural\s*+=\s*+([^;]{1,1000}+);?+")


def plural_rule(language: str | None) -> str:
    """Return the Plural-Forms of a language; for unknown ones those of English, which are the most common."""
    code = re.split("[-_]", language or "")[0].lower()

    return _BY_LANGUAGE.get(code, "nplurals=2; plural=(n != 1);")


def plural_forms(header: str) -> tuple[int, int | None] | None:
    """Return the number of plural forms, and the form of the number 1 alone or None; None for an invalid header."""
    found = _PLURALS.fullmatch(header.strip())
    if found is None or not 1 <= int(found[1]) <= _MOST_FORMS:
        return None
    try:
        choose: Callable[[int], int] = c2py(found[2])
        forms = [choose(n) for n in range(200)]
    except (ValueError, ZeroDivisionError):
        return None
    if not 0 <= min(forms) <= max(forms) < int(found[1]):
        return None
    return int(found[1]), forms[1] if forms.count(forms[1]) == 1 else None
