"""Detect the language of a text with py3langid, a classifier of 97 languages; name languages in English, by Unicode's
locale data (CLDR)."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import Any

from nmt.config.data_section import UNNAMED
from nmt.inference.pivot import base
from nmt.serve.errors import RequestError


class Detector:
    """A language detector, loaded on first use; one thread at a time runs it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._identifier: Any = None

    @property
    def is_there(self) -> bool:
        """Return whether the library is installed."""
        return find_spec("py3langid") is not None

    def ranked(self, text: str, among: Sequence[str]) -> list[tuple[str, float]]:
        """Return the languages `among` with their probabilities, most probable first. The probabilities are over all
        languages, so a text in another language gets low ones. A language that the detector does not know has 0: it
        comes first if its script is the text's, and no language of that script and of `among` is the most probable of
        all. Raises RequestError: 501 without the library.
        """
        if not self.is_there:
            raise RequestError(501, "source: must be a language, got auto and no py3langid to detect it; name one")
        with self._lock:
            if self._identifier is None:
                from py3langid.langid import MODEL_FILE, LanguageIdentifier

                self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
            scores = {code: float(score) for code, score in self._identifier.rank(text)}
        codes = {base(one): one for one in among}
        known = [(codes[code], score) for code, score in scores.items() if code in codes]
        unknown = [(one, 0.0) for code, one in codes.items() if code not in scores]
        script = _script_of(text) if unknown else ""
        first = [one for one in unknown if _is_written_in(one[0], script)]
        if known and next(iter(scores)) == base(known[0][0]) and _is_written_in(known[0][0], script):
            first = []
        return [*first, *known, *(one for one in unknown if one not in first)]

    def best(self, text: str, among: Sequence[str]) -> tuple[str, float]:
        """Return the most probable of the languages `among`, and its probability."""
        if len(among) == 1 and not self.is_there:
            return among[0], 0.0
        return self.ranked(text, among)[0]


def _script_of(text: str) -> str:
    """Return the script of most letters of a text: the first word of their Unicode names, in lower case."""
    names = Counter(unicodedata.name(one, "").split(" ", 1)[0].lower() for one in text if one.isalpha())
    return max(names, key=names.__getitem__, default="")


def _is_written_in(code: str, script: str) -> bool:
    """Return whether a language is mostly written in a script, as Unicode's locale data (CLDR) has it."""
    language = _language(code)
    name = "" if language is None else language.maximize().script_name()
    return bool(script) and script in re.findall(r"\w+", name.replace("’", "").lower())


@lru_cache(maxsize=512)
def language_name(code: str) -> str:
    """Return the name of a language; the code itself if it has no name, or the library is missing."""
    if code in UNNAMED:
        return UNNAMED[code]
    language = _language(code)
    found = "Unknown language" if language is None else str(language.display_name())
    return code if found.startswith("Unknown language") else found


def _language(code: str) -> Any:
    """Return what langcodes knows of a language; None if the code is none, or the library is missing."""
    try:
        from langcodes import Language
        from langcodes.tag_parser import LanguageTagError
    except ImportError:
        return None
    try:
        return Language.get(code)
    except LanguageTagError:
        return None
