"""Edits that turn source sequences into target sequences: which symbols belong together, learned from the pairs.

The model is the memoryless transducer of Ristad and Yianilos (1998, "Learning String-Edit Distance", section 2): one
distribution over replacements (source symbol, target symbol), deletions and insertions, learned by expectation
maximisation. Its most probable edits are the oracle of a neural transducer (Makarov and Clematide 2020, "CLUZH at
SIGMORPHON 2020 Shared Task on Multilingual Grapheme-to-Phoneme Conversion", section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nmt.data.corpora.readers import TokenRows
from nmt.errors import DataError
from nmt.special_tokens import PAD_ID

_ROUNDS = 10
"""Rounds of expectation maximisation."""
_KEPT, _OTHER = 1.0, 0.05
"""Weights of the first round: of a symbol that is kept, and of every other edit."""
_LEAST = 1e-3
"""The count that every edit has in addition to what was seen."""
_EQUAL = 1e-9
"""Edits whose logarithms differ by less are equally probable, so that rounding does not decide."""
_PAIRS, _PLACES = 1024, 2_000_000
"""Pairs that are aligned at a time, and pairs of their positions: fewer of long pairs, so that memory is bounded."""
_MOST_LEARNED = 10_000
"""Pairs from which edits are learned, evenly over the corpus: 12 s for 121,000 words in place of two minutes. Of 2,000
words of CMUdict 4 % are edited otherwise after 2,500 pairs than after 10,000."""
MOST_SYMBOLS = 4096
_ROUNDS_OF_GAIN = 4
_DELETE, _INSERT = 1, 2
"""Places in `Edits._ways`; replacements are 0."""


class Edits:
    """Probabilities of edits. Source and target share the ids of their symbols, which are below `vocab_size`. Raises
    DataError for more symbols than a table of all pairs can have."""

    def __init__(self, vocab_size: int) -> None:
        if vocab_size > MOST_SYMBOLS:
            raise DataError(
                f"model.decoder.edit_actions: must have at most {MOST_SYMBOLS:,} symbols, got {vocab_size:,} "
                "subwords; it is for letters and sounds, with data.subwords.type: char or word"
            )
        self._replace = np.full((vocab_size, vocab_size), np.log(_OTHER))
        np.fill_diagonal(self._replace, np.log(_KEPT))
        self._delete, self._insert = (np.full(vocab_size, np.log(_OTHER)) for _ in range(2))

    @classmethod
    def learn(cls, src: TokenRows, tgt: TokenRows, vocab_size: int, rounds: int = _ROUNDS) -> Edits:
        """Return the edits that some rounds of expectation maximisation learn, of many pairs from _MOST_LEARNED."""
        found = cls(vocab_size)
        src, tgt = src.evenly(_MOST_LEARNED), tgt.evenly(_MOST_LEARNED)
        by_length = np.lexsort((tgt.lengths, src.lengths))  # little is padded
        src, tgt = src.taken(by_length), tgt.taken(by_length)
        for _ in range(rounds):
            found._learn_once(src, tgt)
        return found

    def log_prob(self, source: int, target: int) -> float:
        """Return the weight of an edit: source and target symbol, one of them PAD for an insertion or a deletion."""
        if PAD_ID not in (source, target):
            return float(self._replace[source, target])
        return float(self._delete[source] if target == PAD_ID else self._insert[target])

    def best(self, src: TokenRows, tgt: TokenRows) -> tuple[TokenRows, np.ndarray]:
        """Return the most probable edits of each pair, left to right.

        An edit writes a target symbol, or PAD for none, and moves to the next source symbol or does not: a deletion
        writes none and moves, an insertion writes and does not move, a replacement does both. Of equally probable ones
        replacements come before deletions and these before insertions. Returns what the edits of each pair write, and
        whether they move, bool [total].
        """
        written, moves = [], []
        for pairs in _chunks(src, tgt):
            after = self._weights_after(pairs, np.maximum)
            i, j, b = *(np.zeros(pairs.count, np.int64) for _ in range(2)), np.arange(pairs.count)
            steps: list[np.ndarray] = []
            while (goes := (i < pairs.n) | (j < pairs.m)).any():
                ways = np.stack(self._ways(pairs, after, i, j))
                way = (ways >= ways.max(axis=0) - _EQUAL).argmax(axis=0)
                writes, moved = goes & (way != _DELETE), goes & (way != _INSERT)
                symbols = np.where(writes, pairs.tgt[np.minimum(j, len(pairs.tgt) - 1), b], PAD_ID)
                steps.append(np.stack([symbols, moved, goes]))
                i, j = i + moved, j + writes
            rows = np.stack(steps, axis=2) if steps else np.zeros((3, pairs.count, 0), np.int64)
            there = rows[2] > 0
            written += [row[real] for row, real in zip(rows[0], there, strict=True)]
            moves.append(rows[1][there] > 0)
        return TokenRows.from_lists(written), np.concatenate(moves) if moves else np.zeros(0, bool)

    def _learn_once(self, src: TokenRows, tgt: TokenRows) -> None:
        """Set the probabilities to the expected counts under the present ones."""
        replaced, deleted, inserted = (np.full_like(a, _LEAST) for a in (self._replace, self._delete, self._insert))
        for pairs in _chunks(src, tgt):
            after = self._weights_after(pairs, np.logaddexp)
            came = self._weights_after(pairs.reversed(), np.logaddexp)[pairs.turned_places()] - after[0, 0]
            a, c = pairs.src[:, None], pairs.tgt[None]
            for counts, symbols, weights in (
                (replaced, a * len(self._insert) + c, came[:-1, :-1] + self._replace[a, c] + after[1:, 1:]),
                (deleted, a, came[:-1] + self._delete[a] + after[1:]),
                (inserted, c, came[:, :-1] + self._insert[c] + after[:, 1:]),
            ):
                np.add.at(counts.reshape(-1), np.broadcast_to(symbols, weights.shape).ravel(), np.exp(weights).ravel())
        whole = np.log(replaced.sum() + deleted.sum() + inserted.sum())
        self._replace, self._delete, self._insert = (np.log(a) - whole for a in (replaced, deleted, inserted))

    def _ways(self, pairs: _Pairs, after: np.ndarray, i: np.ndarray, j: np.ndarray) -> list[np.ndarray]:
        """Return the weights [B] of going on from source position i [B] and target position j [B] to the end by a
        replacement, a deletion and an insertion; -inf where that is impossible."""
        b = np.arange(pairs.count)
        a = pairs.src[np.minimum(i, len(pairs.src) - 1), b]
        c = pairs.tgt[np.minimum(j, len(pairs.tgt) - 1), b]
        next_i, next_j = np.minimum(i + 1, len(pairs.src)), np.minimum(j + 1, len(pairs.tgt))
        moves, writes = i < pairs.n, j < pairs.m
        return [
            np.where(moves & writes, self._replace[a, c] + after[next_i, next_j, b], -np.inf),
            np.where(moves, self._delete[a] + after[next_i, j, b], -np.inf),
            np.where(writes, self._insert[c] + after[i, next_j, b], -np.inf),
        ]

    def _weights_after(self, pairs: _Pairs, add: Callable[..., np.ndarray]) -> np.ndarray:
        """Return the weight of all edits from each position to the end, [S + 1, T + 1, B], as logarithms: their sum
        with np.logaddexp, the largest with np.maximum."""
        S, T = len(pairs.src), len(pairs.tgt)
        after = np.full((S + 1, T + 1, pairs.count), -np.inf)
        after[pairs.n, pairs.m, np.arange(pairs.count)] = 0.0
        with np.errstate(invalid="ignore"):
            for i in range(S, -1, -1):
                for j in range(T, -1, -1):
                    found = after[i, j]
                    if i < S and j < T:
                        found = add(found, self._replace[pairs.src[i], pairs.tgt[j]] + after[i + 1, j + 1])
                    if i < S:
                        found = add(found, self._delete[pairs.src[i]] + after[i + 1, j])
                    if j < T:
                        found = add(found, self._insert[pairs.tgt[j]] + after[i, j + 1])
                    after[i, j] = found
        return after


def gain_of_edits(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> float:
    """Return how much better edits explain these pairs of symbols than strangers: the mean, in bits for each target
    symbol, of the logarithm of the probability of the edits of a pair over that of the edits from the source to the
    next pair's target. It is large where the target follows from the source from left to right, symbol by symbol, and
    small in a dictionary. Returns 0 for more symbols than Edits takes, and without targets."""
    if not any(target for _, target in pairs):
        return 0.0
    numbers: dict[str, int] = {}
    src, tgt = (
        TokenRows.from_lists([[numbers.setdefault(one, len(numbers) + PAD_ID + 1) for one in side] for side in sides])
        for sides in zip(*pairs, strict=True)
    )
    symbols = len(numbers) + PAD_ID + 1
    if symbols > MOST_SYMBOLS:
        return 0.0
    edits, others = Edits.learn(src, tgt, symbols, _ROUNDS_OF_GAIN), tgt.taken(np.roll(np.arange(len(tgt)), -1))
    own, strange = (
        sum(edits._weights_after(some, np.logaddexp)[0, 0].sum() for some in _chunks(src, side))
        for side in (tgt, others)
    )
    return float((own - strange) / len(tgt.tokens) / np.log(2))


class _Pairs:
    """Some pairs, padded: src [S, B] with lengths n [B], and tgt [T, B] with lengths m [B]; S and T are at least 1."""

    def __init__(self, src: np.ndarray, n: np.ndarray, tgt: np.ndarray, m: np.ndarray) -> None:
        self.src, self.n, self.tgt, self.m, self.count = src, n, tgt, m, len(n)

    def reversed(self) -> _Pairs:
        """Return the pairs with both sides read from their ends."""
        return _Pairs(_turned(self.src, self.n), self.n, _turned(self.tgt, self.m), self.m)

    def turned_places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return where each position, [S + 1, T + 1, B], is in an array of the reversed pairs. A position after the end
        of a pair is at another one after its end."""
        i, j = np.arange(len(self.src) + 1)[:, None, None], np.arange(len(self.tgt) + 1)[None, :, None]
        return (self.n - i) % (len(self.src) + 1), (self.m - j) % (len(self.tgt) + 1), np.arange(self.count)


def _turned(ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return padded columns [T, B] whose first lengths[b] symbols are in the opposite order."""
    place = np.arange(len(ids))[:, None]
    return np.take_along_axis(ids, np.where(place < lengths, lengths - 1 - place, place), axis=0)


def _chunks(src: TokenRows, tgt: TokenRows) -> Iterator[_Pairs]:
    """Yield all pairs, some at a time, in their order."""
    start = 0
    while start < len(src):
        rows = np.arange(start, min(start + _PAIRS, len(src)))
        places = np.maximum.accumulate(src.lengths_of(rows)) * np.maximum.accumulate(tgt.lengths_of(rows))
        rows = rows[: max(1, np.searchsorted(places * np.arange(1, len(rows) + 1), _PLACES))]
        yield _Pairs(*_padded(src, rows), *_padded(tgt, rows))
        start += len(rows)


def _padded(side: TokenRows, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return some sequences as columns [T, B], padded, and their lengths [B]."""
    lengths = side.lengths_of(rows)
    found = np.full((max(1, int(lengths.max(initial=0))), len(rows)), PAD_ID, np.int32)
    for b, row in enumerate(rows.tolist()):
        found[: lengths[b], b] = side[row]
    return found, lengths
