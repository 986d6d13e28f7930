"""Encodings of documents: what a file declares, and conversion of its text to characters and back."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from operator import methodcaller

from nmt.errors import DataError
from nmt.system.file_kinds import HEAD_BYTES, kind_of_bytes

MARK = b"\xef\xbb\xbf"
"""The byte-order mark of UTF-8."""
_HEAD = 1024
"""The number of bytes that may contain the declaration of HTML (HTML Living Standard, 4.2.5.4)."""
_DECLARED = re.compile(
    rb"""<\?xml[^>]{0,200}?\bencoding\s{0,9}=\s{0,9}["']([A-Za-z0-9._:-]{1,40})"""
    rb"""|<meta\b[^>]{0,400}?\bcharset\s{0,9}=\s{0,9}["']?\s{0,9}([A-Za-z0-9._:-]{1,40})""",
    re.IGNORECASE,
)
_DECLARED_BY_XML = re.compile(rb"""\s*<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([\w.-]+)["']""")
_AS_BROWSERS = {"iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "gb2312": "gb18030", "gbk": "gb18030"}
"""The encodings that HTML labels stand for (Encoding Standard, 4.2)."""
_KNOWN = re.compile(
    r"utf-(8|8-sig|16|16-le|16-be)|ascii|iso8859-\d+|cp\d+|koi8-[rtu]|gb\w+|euc_\w+|big5\w*|shift_jis\w*|johab|tis-620"
)
"""Names of text encodings in Python, without codecs that are no encodings or take more than linear time."""


def is_utf8(encoding: str) -> bool:
    """Return whether text in this encoding is UTF-8."""
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8")


def decoded(content: bytes, encoding: str, name: str) -> str:
    """Return the text of bytes. Raises DataError if the encoding is unknown or does not fit."""
    try:
        known = _KNOWN.fullmatch(codecs.lookup(encoding).name) is not None
    except (LookupError, ValueError):
        known = False
    if not known:
        raise DataError(f"{name}: encoding must be a known one, got {encoding[:40]!r}; convert the file to UTF-8")
    return _decoded(content, encoding, name, encoding, "file")


def _decoded(content: bytes, encoding: str, name: str, shown: str, what: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name}: line {line} must be {shown}, got byte {content[error.start]:#04x}; convert the {what} to UTF-8"
        ) from None


Encode = Callable[[str], bytes]
"""Returns the bytes of a text in the encoding of its file, with references for characters that the encoding lacks."""


def utf8_text(content: bytes, name: str) -> tuple[str, Encode]:
    """Return the text of a file in UTF-8, and `Encode`. Raises DataError, beginning with `name`, for something else."""
    if (kind := kind_of_bytes(content[:HEAD_BYTES], name)) is not None:
        raise DataError(f"{name}: must be UTF-8, got {kind.what}; {kind.advice or 'name it by its format'}")
    mark = MARK * content.startswith(MARK)
    text = _decoded(content[len(mark) :], "utf-8", name, "UTF-8", "text")
    return text, lambda new: mark + new.encode("utf-8", "xmlcharrefreplace")


def declared_text(content: bytes, name: str) -> tuple[str, Encode]:
    """Return the text of an HTML or XML file in the encoding that it declares; in UTF-8 (see `utf8_text`) without one,
    if it is UTF-8 with other characters than ASCII's, or if it cannot be decoded as declared."""
    found = None if content.startswith(MARK) else _DECLARED.search(content[:_HEAD])
    try:
        if found is not None:
            declared = codecs.lookup((found[1] or found[2]).decode()).name
            encoding = _AS_BROWSERS.get(declared, declared) if found[2] else declared
            if encoding != "utf-8" and (content.isascii() or content.decode(errors="ignore").encode() != content):
                encode: Encode = methodcaller("encode", encoding, "xmlcharrefreplace")
                text = content.decode(encoding)
                if encode(text) == content:
                    return text, encode
    except (LookupError, UnicodeError):
        pass
    return utf8_text(content, name)


def xml_as_utf8(content: bytes, name: str) -> tuple[bytes, Callable[[bytes], bytes]]:
    """Return an XML file in UTF-8, and a function that converts it back, with references. Raises DataError."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        mark, encoding = content[:2], "utf-16-le" if content[:1] == b"\xff" else "utf-16-be"
    else:
        found = _DECLARED_BY_XML.match(content)
        mark, encoding = b"", found[1].decode() if found else "utf-8"
    if is_utf8(encoding):
        decoded(content, "utf-8", name)
        return content, bytes
    text = decoded(content[len(mark) :], encoding, name)
    return text.encode(), lambda new: mark + new.decode().encode(encoding, "xmlcharrefreplace")
