"""English names of languages, from the Unicode Common Locale Data Repository."""

from __future__ import annotations

from functools import lru_cache

from nmt.config.corpora import UNNAMED


@lru_cache(maxsize=512)
def language_name(code: str) -> str:
    """Return the name of a language; the code itself if it has no name, or the library is missing."""
    if code in UNNAMED:
        return UNNAMED[code]
    try:
        from langcodes import Language
        from langcodes.tag_parser import LanguageTagError
    except ImportError:
        return code
    try:
        found = str(Language.get(code).display_name())
    except LanguageTagError:
        return code
    return code if found.startswith("Unknown language") else found
