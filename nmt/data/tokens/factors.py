"""Source factors: features attached to each source word, such as its part of speech (Sennrich & Haddow 2016,
"Linguistic Input Features Improve Neural Machine Translation", section 2).
"""

from __future__ import annotations

import base64
import binascii
import json
import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from os import PathLike
from typing import Any

from nmt.data.tokens import vocabulary
from nmt.data.tokens.subwords import Subwords, read_model
from nmt.errors import DataError
from nmt.overriding import override
from nmt.special_tokens import SPACE, UNK_ID, UNKNOWN_FEATURE_ID

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

    `words`: the subwords for words without factors; `values`: the known values of each factor, the most frequent first.
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
        return f"FactoredSubwords({self.vocab_size:,} units, values {', '.join(map(str, self.factor_sizes))})"

    @property
    def vocab_size(self) -> int:
        """Return the number of tokens, factors not counted."""
        return self.words.vocab_size

    @property
    @override
    def factor_sizes(self) -> tuple[int, ...]:
        return tuple(_FIRST + len(one) for one in self.values)

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the ids of each sentence. Raises FactorError for a word with another number of factors."""
        rows = [self._parsed(sentence, n) for n, sentence in enumerate(sentences)]
        if len(self._known) > _MOST_REMEMBERED:
            self._known = {}  # other callers continue with the old dictionary
        known = self._known
        new = [word for word in {word for row in rows for word, _ in row} if word not in known]
        known.update(zip(new, self.words.encode(new), strict=True))
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


_BETWEEN = re.compile(r"[;,()+\s]+")
"""Separators of features: `V;PST` as in 2022, and nested ones as in 2023, `N;ABL(PL;PSS(2,PL))`."""
_UNIMORPH = re.compile(r"[A-Z][A-Z0-9.+/_{}-]*[;(][A-Z0-9.+/_{};,()-]+")
_ALONE = re.compile(r"[A-Z][A-Z0-9.+/_{}-]*")
_SURE, _BUNDLES = 0.9, 0.5
"""Share of rows whose cell looks like features from which a column has them, and of those with several."""


def with_features(word: str, features: str) -> str:
    """Return a word with its features, as a source line."""
    return " ".join([word.strip(), *(f"+{one}" for one in _BETWEEN.split(features) if one)])


def is_word(line: str) -> bool:
    """Return whether a line is a single word, alone or with its features."""
    words = line.split()
    return bool(words) and all(word.startswith("+") for word in words[1:])


def is_featured(line: str) -> bool:
    """Return whether a line is a single word with features."""
    return " +" in line and is_word(line)


def featured_lines(lines: Sequence[str], columns: tuple[int, int]) -> list[str]:
    """Return lines to translate as the model reads them. A line is a word, a tab and its features, or a row of a table
    like that of training, whose `columns` have words and features; without a tab it stays as it is."""
    found = []
    for line in lines:
        cells = line.split("\t")
        places = (1, 2) if len(cells) < max(*columns, 3) else columns
        found.append(line if len(cells) < 2 else with_features(*(cells[place - 1] for place in places)))
    return found


def has_features(line: str) -> bool:
    """Return whether a line to translate has features, after a tab or as the model reads them."""
    return "\t" in line or " +" in line


def symbols_in(line: str) -> list[str]:
    """Return the features of a cleaned source line, each with the space before it, as subwords must keep them."""
    return [SPACE + word for word in line.split(" ")[1:] if word.startswith("+") and len(word) > 1]


def feature_ids(subwords: Subwords) -> tuple[int, ...]:
    """Return the ids of the features that subwords keep whole."""
    pieces = subwords.pieces(range(subwords.vocab_size))
    return tuple(n for n, piece in enumerate(pieces) if piece.startswith(f"{SPACE}+") and len(piece) > 2)


def featured_ids(subwords: Subwords, lines: Sequence[str]) -> list[list[int]]:
    """Return the ids of cleaned source lines; a feature that the subwords lack is UNKNOWN_FEATURE_ID."""
    rows, features = subwords.encode(lines), [symbols_in(line) for line in lines]
    every = list({one for row in features for one in row})
    ids = [row[0] if len(row) == 1 else UNK_ID for row in subwords.encode([one[1:] for one in every])]
    known = {one: UNKNOWN_FEATURE_ID if found == UNK_ID else found for one, found in zip(every, ids, strict=True)}
    for n, own in enumerate(features):
        if UNKNOWN_FEATURE_ID in (tail := [known[one] for one in own]):
            word = " ".join(one for one in lines[n].split(" ") if SPACE + one not in own)
            rows[n] = [*subwords.encode([word])[0], *tail]
    return rows


def features_column(rows: Sequence[Sequence[str]]) -> int | None:
    """Return the number, from 1, of the column of a table that has features in the notation of UniMorph, which must be
    the second or third of three; None if there is none. Blank rows, which divide paradigms, do not count."""
    rows = [cells for cells in rows if any(cell.strip() for cell in cells)]
    for place in (2, 1):
        cells = [row[place].strip() if len(row) == 3 else "" for row in rows]
        bundles, alone = (sum(pattern.fullmatch(cell) is not None for cell in cells) for pattern in (_UNIMORPH, _ALONE))
        if cells and bundles + alone >= _SURE * len(cells) and bundles >= _BUNDLES * len(cells):
            return place + 1
    return None


def subwords_from_file(path: str | PathLike[str]) -> Subwords:
    """Return subwords from a file. Raises DataError if it is missing or damaged."""
    return read_subwords(read_model(path), str(path))


def read_subwords(content: bytes, where: str = "subword model") -> Subwords:
    """Return subwords from what `model_bytes` returned. Raises DataError, beginning with `where`, for other bytes."""
    if content.startswith(vocabulary.START):
        return vocabulary.read_vocabulary(content, where)
    if content.startswith(START):
        words, values, separator = read_factored(content, where)
        return FactoredSubwords(read_subwords(words, where), values, separator)
    return Subwords(content, where)
