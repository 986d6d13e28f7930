"""Translations of sentences that were translated before. The same sentence, model and options have the same
translations, so kept ones are the answer."""

from __future__ import annotations

import pickle
import sys
from collections import OrderedDict
from collections.abc import Hashable

from nmt.inference.translation import Translation

_ENTRY = 320
"""Bytes that an entry takes in addition to its sentence and its translations."""


class SentenceCache:
    """Keeps the translations that were used last, in at most `most` bytes; 0 keeps none. Only the thread of the event
    loop may use it. Entries are pickled: their size is known, and no caller can change them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[Hashable, str], bytes] = OrderedDict()
        self.size = 0
        """The bytes of all entries."""

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, options: Hashable, sentence: str) -> list[Translation] | None:
        """Return the translations of a sentence, None if they are not kept. `options`: all that they depend on besides
        the sentence."""
        entry = self._kept.get((options, sentence))
        if entry is None:
            return None
        self._kept.move_to_end((options, sentence))
        found: list[Translation] = pickle.loads(entry)
        return found

    def put(self, options: Hashable, sentence: str, translations: list[Translation]) -> None:
        """Keep the translations of a sentence; those that were not used for the longest time make room for them."""
        if not self._most:
            return
        key, entry = (options, sentence), pickle.dumps(translations, pickle.HIGHEST_PROTOCOL)
        if (former := self._kept.pop(key, None)) is not None:
            self.size -= _size_of(sentence, former)
        self._kept[key] = entry
        self.size += _size_of(sentence, entry)
        while self.size > self._most:
            (_, oldest), dropped = self._kept.popitem(last=False)
            self.size -= _size_of(oldest, dropped)

    def clear(self) -> None:
        """Drop all entries."""
        self._kept.clear()
        self.size = 0


def _size_of(sentence: str, entry: bytes) -> int:
    return _ENTRY + sys.getsizeof(sentence) + sys.getsizeof(entry)
