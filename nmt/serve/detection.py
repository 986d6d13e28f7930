"""Detect the language of a text with py3langid, a classifier of 97 languages."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from nmt.serve.errors import RequestError


class Detector:
    """A language detector, loaded on first use; one thread at a time runs it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._identifier: Any = None

    @property
    def is_there(self) -> bool:
        """Return whether the library is installed."""
        from importlib.util import find_spec

        return find_spec("py3langid") is not None

    def ranked(self, text: str, among: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """Return languages with their probabilities, most probable first; with `among`, only those languages. The
        probabilities are over all languages, so a text in another language gets low ones. Raises RequestError: 501
        without the library.
        """
        if not self.is_there:
            raise RequestError(501, "source: must be a language, got auto and no py3langid to detect it; name one")
        with self._lock:
            if self._identifier is None:
                from py3langid.langid import MODEL_FILE, LanguageIdentifier

                self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
            found = [(code, float(score)) for code, score in self._identifier.rank(text)]
        if among:
            codes = {one.split("-")[0].lower(): one for one in among}
            found = [(codes[code], score) for code, score in found if code in codes] or [(among[0], 0.0)]
        return found

    def best(self, text: str, among: Sequence[str]) -> tuple[str, float]:
        """Return the most probable of the languages `among`, and its probability."""
        if len(among) == 1 and not self.is_there:
            return among[0], 0.0
        return self.ranked(text, among)[0]
