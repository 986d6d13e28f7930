"""Add tokens to trained subwords, for text that they split into too many pieces or do not know."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from nmt.data.tokens.subwords import Subwords, VocabularyError, train_subwords
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import ConfigError
from nmt.special_tokens import EOS_ID, SPACE, UNK_ID

_FIXED = {1: 8, 5: 4}
"""The size of a field in bytes, by its wire type."""
_DELIMITED = 2


class WireError(Exception):
    """A damaged message; the text completes an error's `got`."""


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a number and the position after it. Raises WireError."""
    found = 0
    for n in range(10):
        if at + n >= len(content):
            raise WireError("a part of one")
        byte = content[at + n]
        found |= (byte & 0x7F) << (7 * n)
        if byte < 0x80:
            return found, at + n + 1
    raise WireError("a number without an end")


def varint(number: int) -> bytes:
    """Return a number encoded in groups of seven bits, the lowest first."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value (an integer or bytes) of each field of a message. Raises WireError."""
    at = 0
    while at < len(message):
        key, at = read_varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = read_varint(message, at)
            yield number, value
            continue
        size = _FIXED.get(wire)
        if wire == _DELIMITED:
            size, at = read_varint(message, at)
        if size is None:
            raise WireError("something else")
        if at + size > len(message):
            raise WireError("a part of one")
        yield number, message[at : at + size]
        at += size


_LINES = 200_000
"""The largest number of lines of the new text that are counted."""


def extended(subwords: Subwords, text: Callable[[], Iterable[str]], most: int, kind: str) -> Subwords:
    """Return the subwords with at most `most` new tokens; old ids do not change.

    Candidates are the unknown characters, and the tokens of subwords of the same type trained on the text alone.
    Characters come first, by frequency; then pieces by the number of tokens that they save in the text: occurrences
    times one less than the number of old tokens they are split into. Raises ConfigError if the subwords are a plain
    vocabulary. `text`: returns cleaned sentences, from the beginning each time it is called; `kind`: unigram or bpe, as
    in `train_subwords`; auto means unigram.
    """
    if isinstance(subwords, Vocabulary):
        raise ConfigError(
            "training.extend_vocabulary: must be 0 for a model whose vocabulary is a list of words or characters, got "
            f"{most}; only sentencepiece models can be extended"
        )
    lines = list(islice(text(), _LINES))
    counts: Counter[int] = Counter()
    scores: dict[str, float] = {}
    new = _trained(text, "unigram" if kind == "auto" else kind, subwords.vocab_size)
    for row in new.encode(lines):
        counts.update(row)
    known = set(subwords.pieces(range(subwords.vocab_size)))
    gains: dict[str, tuple[bool, int]] = {}
    letters = Counter(letter for line in lines for letter in line if letter != " ")
    for letter in letters:
        if UNK_ID in subwords.encode([letter])[0] and letter not in known:
            gains[letter], scores[letter] = (True, letters[letter]), float(np.log(letters[letter] / letters.total()))
    for unit, count in counts.items():
        (piece,) = new.pieces([unit])
        cut = _parts(subwords, piece)
        if unit > EOS_ID and piece not in known and piece not in gains and len(cut) > 1:
            gains[piece], scores[piece] = (False, count * (len(cut) - 1)), new.score(unit)
    chosen = sorted(gains, key=lambda piece: (gains[piece], piece), reverse=True)[:most]
    return Subwords(subwords.model_bytes + b"".join(_piece_field(piece, scores[piece]) for piece in chosen))


def parts_of_new(old: Subwords, new: Subwords) -> list[list[int]]:
    """Return, for each token that `extended` added, the old tokens that its text is split into, as written or in lower
    case, whichever has fewer unknown ones; without these."""
    pieces = new.pieces(range(old.vocab_size, new.vocab_size))
    cuts = ([_parts(old, text) for text in (piece, piece.lower())] for piece in pieces)
    return [[unit for unit in min(both, key=lambda cut: cut.count(UNK_ID)) if unit != UNK_ID] for both in cuts]


def with_means(table: np.ndarray, parts: Sequence[Sequence[int]]) -> np.ndarray:
    """Return a table with a row more for each new token: the mean of its parts' rows, or of all ordinary rows."""
    whole = table[EOS_ID + 1 :].mean(axis=0)
    rows = [table[list(units)].mean(axis=0) if units else whole for units in parts]
    return np.concatenate([table, np.array(rows, table.dtype).reshape(-1, *table.shape[1:])])


def _trained(text: Callable[[], Iterable[str]], kind: str, size: int) -> Subwords:
    """Return subwords trained on this text alone, of the given size or the largest possible one."""
    try:
        return train_subwords(text(), type=kind, vocab_size=size)
    except VocabularyError as error:
        return train_subwords(text(), type=kind, vocab_size=error.most or (error.least or size))


def _parts(subwords: Subwords, piece: str) -> list[int]:
    """Return the tokens that the text of a piece is split into. A piece that does not begin a word is tokenized after
    the beginning of a word, which is then removed."""
    if piece.startswith(SPACE):
        return subwords.encode([piece.replace(SPACE, " ").strip()])[0]
    marked = subwords.encode([piece])[0]
    return marked[1:] if subwords.pieces(marked[:1]) == [SPACE] else marked


def _piece_field(piece: str, score: float) -> bytes:
    """Return a piece as a field of sentencepiece's ModelProto (sentencepiece_model.proto: `repeated SentencePiece
    pieces = 1`, with `piece = 1` and `score = 2`). The fields of a message may be given in any number of parts, so
    bytes appended to a model append pieces to it (Protocol Buffers, encoding: "Last One Wins" and repeated fields).
    """
    text = piece.encode()
    content = b"\x0a" + varint(len(text)) + text + b"\x15" + struct.pack("<f", score)
    return b"\x0a" + varint(len(content)) + content
