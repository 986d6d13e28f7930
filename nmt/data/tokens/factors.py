"""Source factors: features attached to each source word, such as its part of speech (Sennrich & Haddow 2016,
"Linguistic Input Features Improve Neural Machine Translation", section 2).
"""

from __future__ import annotations

import base64
import binascii
import json
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from nmt.data.tokens.subwords import Subwords
from nmt.errors import DataError
from nmt.overriding import override

_KEY, _VERSION = "nmt_factors", 1
START = f'{{"{_KEY}"'.encode()
_MOST_VALUES = 65_000
_LEAST_SEEN = 2
"""Rarer values in the training text count as unknown, so that the embedding of unknown ones is learned."""
_FIRST = 2
"""The number of the first value: 0 is for special tokens, 1 for an unknown value."""
_MOST_IDS = 2**31
_MOST_REMEMBERED = 500_000


class FactorError(DataError):
    """A word in line `index` does not have the factors that it must have; `problem` describes it."""

    def __init__(self, problem: str, index: int) -> None:
        super().__init__(f"sentence {index + 1}: {problem}")
        self.problem, self.index = problem, index

    def at(self, where: str) -> DataError:
        """Return the same error for a line of a file."""
        return DataError(f"{where}: {self.problem}")


class FactoredSubwords(Subwords):
    """Subwords for text whose words have factors attached, `word|NOUN|sg`: `words` splits a word into tokens, and each
    of these has the factors of the word.

    An id encodes a token and its factors: token + V * (f1 + F1 * (f2 + ...)), with V tokens and F1 numbers of the first
    factor. So code that passes on, sorts or hashes ids need not know of factors; the model decodes them. Raises
    DataError if there are more ids than 31 bits can represent.

    Args:
        words: The subwords for words without factors.
        values: The known values of each factor, the most frequent first.
    """

    def __init__(self, words: Subwords, values: Sequence[Sequence[str]], separator: str) -> None:
        self.words, self.values, self.separator = words, [list(one) for one in values], separator
        self._numbers = [{value: _FIRST + n for n, value in enumerate(one)} for one in values]
        steps = list(accumulate([words.vocab_size, *self.factor_sizes], operator.mul))
        self._steps = steps[:-1]
        if steps[-1] >= _MOST_IDS:
            raise DataError(
                f"data.src_factors: must have fewer than {_MOST_IDS:,} combinations of units and values, got "
                f"{steps[-1]:,}; remove a factor, or merge values"
            )
        content = {_KEY: _VERSION, "separator": separator, "values": self.values}
        whole = content | {"words": base64.b64encode(words.model_bytes).decode()}
        self.model_bytes = json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()
        self._known: dict[str, list[int]] = {}

    def __repr__(self) -> str:
        """Return a text with the numbers of tokens and values."""
        return f"FactoredSubwords({self.vocab_size:,} units, values {', '.join(map(str, self.factor_sizes))})"

    @property
    def vocab_size(self) -> int:
        """Return the number of tokens, factors not counted."""
        return self.words.vocab_size

    @property
    @override
    def factor_sizes(self) -> tuple[int, ...]:
        return tuple(_FIRST + len(one) for one in self.values)

    @property
    @override
    def own_ids(self) -> list[int]:
        return self.words.own_ids

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the ids of each sentence. Raises FactorError for a word with another number of factors."""
        rows = [self._parsed(sentence, n) for n, sentence in enumerate(sentences)]
        self._learn({word for row in rows for word, _ in row})
        known = self._known
        return [[unit + factors for word, factors in row for unit in known[word]] for row in rows]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of ids, without factors (see `Subwords`)."""
        return self.words.decode([self.unit_ids(row) for row in rows])

    def cut(self, sentences: Sequence[str]) -> list[list[str]]:
        """Return the tokens of each sentence, without factors (see `Subwords`)."""
        rows = [self.bare(sentence).split() for sentence in sentences]
        words = sorted({word for row in rows for word in row})
        pieces = dict(zip(words, self.words.cut(words), strict=True))
        return [[piece for word in row for piece in pieces[word]] for row in rows]

    @override
    def join(self, pieces: Sequence[str]) -> str:
        return self.words.join(pieces)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the tokens of ids, without factors (see `Subwords`)."""
        return self.words.pieces(self.unit_ids(ids))

    def unit_ids(self, ids: Sequence[int]) -> list[int]:
        """Return the ids of the tokens, without factors."""
        return [number % self.vocab_size for number in ids]

    def bare(self, text: str) -> str:
        """Return the words of a text without their factors."""
        return " ".join(word.rsplit(self.separator, len(self.values))[0] for word in text.split())

    def _parsed(self, sentence: str, index: int) -> list[tuple[str, int]]:
        """Return the words of a sentence, each with the number that its factors add to the ids of its tokens."""
        found = []
        for word, *values in split_words(sentence, len(self.values), self.separator, index):
            numbers = [of.get(value, 1) for of, value in zip(self._numbers, values, strict=True)]
            found.append((word, sum(step * number for step, number in zip(self._steps, numbers, strict=True))))
        return found

    def _learn(self, words: set[str]) -> None:
        """Tokenize and store words that are not stored yet."""
        if len(self._known) > _MOST_REMEMBERED:
            self._known = {}  # other callers continue with the old dictionary
        known = self._known
        new = [word for word in words if word not in known]
        known.update(zip(new, self.words.encode(new), strict=True))


def split_words(sentence: str, count: int, separator: str, index: int) -> Iterator[list[str]]:
    """Yield each word of a sentence with its factors. Raises FactorError for line `index`."""
    for word in sentence.split():
        parts = word.rsplit(separator, count)
        if len(parts) != count + 1 or not all(parts):
            sample = separator.join(["word", *("FACTOR" for _ in range(count))])
            raise FactorError(
                f"each word must have {count} factor{'s' if count > 1 else ''} behind it, {sample}, got {word!r:.60}; "
                "write them as in the training text",
                index,
            )
        yield parts


def learn_factors(words: Subwords, text: Iterable[str], count: int, separator: str) -> FactoredSubwords:
    """Return subwords for words with `count` factors, whose values are learned from cleaned text. Raises FactorError if
    a word has another number of factors (see also `FactoredSubwords`)."""
    counts: list[Counter[str]] = [Counter() for _ in range(count)]
    for index, line in enumerate(text):
        for _, *values in split_words(line, count, separator, index):
            for counter, value in zip(counts, values, strict=True):
                counter[value] += 1
    found = []
    for counter in counts:
        often = sorted((-times, value) for value, times in counter.items() if times >= _LEAST_SEEN)
        found.append([value for _, value in often[:_MOST_VALUES]])
    return FactoredSubwords(words, found, separator)


def read_factored(content: bytes, where: str) -> tuple[bytes, list[list[str]], str]:
    """Return the parts of what `model_bytes` returned: the bytes of the words' subwords, the values, the separator.
    Raises DataError, beginning with `where`, if it is damaged."""
    try:
        found: dict[str, Any] = json.loads(content)
        words, values, separator = base64.b64decode(found["words"], validate=True), found["values"], found["separator"]
    except (ValueError, RecursionError, KeyError, TypeError, binascii.Error):
        raise DataError(f"{where}: must be subwords with factors, got a damaged file; restore a copy") from None
    lists = isinstance(values, list) and all(isinstance(one, list) for one in values)
    if found[_KEY] != _VERSION or not lists or not isinstance(separator, str) or not separator:
        raise DataError(f"{where}: must be subwords with factors, got other contents; restore a copy")
    texts = [value for one in values for value in one]
    if not all(isinstance(value, str) and value for value in texts) or any(len(set(one)) != len(one) for one in values):
        raise DataError(f"{where}: must be subwords with factors, got values that are none; restore a copy")
    return words, values, separator
