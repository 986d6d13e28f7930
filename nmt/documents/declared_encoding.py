"""The encoding that an HTML or XML file declares for itself."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

_HEAD = 1024
"""The number of bytes that may contain the declaration of HTML (HTML Living Standard, 4.2.5.4)."""
_DECLARED = re.compile(
    rb"""<\?xml[^>]{0,200}?\bencoding\s{0,9}=\s{0,9}["']([A-Za-z0-9._:-]{1,40})"""
    rb"""|<meta\b[^>]{0,400}?\bcharset\s{0,9}=\s{0,9}["']?\s{0,9}([A-Za-z0-9._:-]{1,40})""",
    re.IGNORECASE,
)
_MARK = b"\xef\xbb\xbf"
_AS_BROWSERS = {"iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "gb2312": "gb18030", "gbk": "gb18030"}
"""The encodings that HTML labels stand for (Encoding Standard, 4.2)."""


@dataclass(frozen=True)
class Encoding:
    """The encoding of a file; marked: whether it begins with a byte-order mark."""

    name: str = "utf-8"
    marked: bool = False

    def encoded(self, text: str) -> bytes:
        """Return the bytes of a text; characters that the encoding lacks become character references."""
        return _MARK * self.marked + text.encode(self.name, "xmlcharrefreplace")


def declared_text(content: bytes) -> tuple[str, Encoding] | None:
    """Return the text of a file and its encoding, if it declares one. Return None if it declares none or UTF-8, if it
    is UTF-8 with non-ASCII characters whatever it declares, or if it cannot be decoded as declared."""
    found = None if content.startswith(_MARK) else _DECLARED.search(content[:_HEAD])
    if found is None:
        return None
    try:
        name = codecs.lookup((found[1] or found[2]).decode()).name
        if found[2]:
            name = _AS_BROWSERS.get(name, name)
        if name == "utf-8" or (not content.isascii() and _is_utf8(content)):
            return None
        text = content.decode(name)
        return (text, Encoding(name)) if Encoding(name).encoded(text) == content else None
    except (LookupError, UnicodeError):
        return None


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
