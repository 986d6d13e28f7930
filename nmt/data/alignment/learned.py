"""Learn which subwords of source and target belong together, from the pairs of a text themselves.

Each direction is IBM model 2 with a prior for the diagonal and an empty word (Dyer, Chahuneau and Smith 2013, "A
Simple, Fast, and Effective Reparameterization of IBM Model 2", section 2), learned by expectation maximisation with
variational Bayes (Riley and Gildea 2012). Both directions are learned together: what is counted is the product of their
posterior probabilities, and links are those where this is large (Liang, Taskar and Klein 2006, "Alignment by
Agreement", sections 3 and 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nmt.data.corpora.readers import TokenRows

_ROUNDS = 6
"""Rounds of expectation maximisation."""
_ROUNDS_OF_ROOTS = 3
"""Rounds that count the square root of the product, since at first the directions know too little to agree."""
_DIAGONAL, _MOST_DIAGONAL = 4.0, 14.0
"""Rate at which the prior falls with the distance from the diagonal (1 from the first word to the last one): at first,
and at most."""
_STEP = 20.0
"""Step size of the gradient by which this rate is learned, once a round."""
_EMPTY = 0.08
"""Prior probability of the empty word."""
_CONCENTRATION = 0.01
"""Concentration of the Dirichlet prior over translations of a subword: below 1, so that each has few."""
_LEAST = 1e-9
"""The least probability."""
_LINKED = 0.1
"""Product of posterior probabilities from which two subwords are linked."""
_MOST_LEARNED = 50_000
"""Pairs from which probabilities are learned, evenly over the corpus."""
_MOST_SUBWORDS = 4096
"""Rows and columns of a table of all pairs of subwords; three tables of float64 are in memory, 400 MB."""
_PLACES = 1_000_000
"""Pairs of positions that are computed at a time."""


class LearnedAlignment:
    """Probabilities of subwords given those of the other language. `columns` has the row or column of each source and
    each target subword in the tables, int64 [V]."""

    def __init__(self, columns: tuple[np.ndarray, np.ndarray]) -> None:
        self._columns = columns
        src, tgt = self._sizes = int(columns[0].max()) + 1, int(columns[1].max()) + 1
        self._tgt_given_src, self._empty_tgt = np.full(self._sizes, 1.0 / tgt), np.full(tgt, 1.0 / tgt)
        self._src_given_tgt, self._empty_src = np.full(self._sizes, 1.0 / src), np.full(src, 1.0 / src)
        self._diagonal = _DIAGONAL

    @classmethod
    def learn(cls, src: TokenRows, tgt: TokenRows, vocab_sizes: tuple[int, int]) -> LearnedAlignment:
        """Return the probabilities learned from these pairs; of many pairs from _MOST_LEARNED of them."""
        found = cls((_columns(src, vocab_sizes[0]), _columns(tgt, vocab_sizes[1])))
        src, tgt = src.evenly(_MOST_LEARNED), tgt.evenly(_MOST_LEARNED)
        for number in range(_ROUNDS):
            found._learn_once(src, tgt, power=0.5 if number < _ROUNDS_OF_ROOTS else 1.0)
        return found

    def links(self, src: TokenRows, tgt: TokenRows) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield the links of some pairs after another: pair, source position and target position, int64 [links]."""
        for rows, places in self._blocks(src, tgt):
            linked = np.flatnonzero(self._agreement(places) >= _LINKED)
            yield rows[places.row[linked]], places.i[linked], places.j[linked]

    def _agreement(self, places: _Places) -> np.ndarray:
        """Return the product of both posterior probabilities that two positions belong together, [places]."""
        cells = places.source, places.target
        to_tgt = _posterior(self._tgt_given_src[cells], places.prior_of_tgt, self._empty_tgt[places.tgt], places.at_tgt)
        to_src = _posterior(self._src_given_tgt[cells], places.prior_of_src, self._empty_src[places.src], places.at_src)
        product: np.ndarray = to_tgt * to_src
        return product

    def _learn_once(self, src: TokenRows, tgt: TokenRows, power: float) -> None:
        """Set the probabilities by the expected counts under the present ones; `power` is that of the agreement."""
        of_src, of_tgt = self._sizes
        counts = np.zeros(of_src * of_tgt)
        empty_src, empty_tgt = np.full(of_src, _LEAST), np.full(of_tgt, _LEAST)
        distances = np.zeros(4)  # by the counts and by the prior, and how many
        for _, places in self._blocks(src, tgt):
            agreed = self._agreement(places) ** power
            prior = places.prior_of_tgt
            distances += [(agreed * places.far).sum(), (prior * places.far).sum(), agreed.sum(), prior.sum()]
            counts += np.bincount(places.source * of_tgt + places.target, agreed, len(counts))
            for empty, tokens, at in ((empty_src, places.src, places.at_src), (empty_tgt, places.tgt, places.at_tgt)):
                rest = np.maximum(0.0, 1.0 - np.bincount(at, agreed, len(tokens)))
                empty += np.bincount(tokens, rest, len(empty))
        seen = np.flatnonzero(counts)
        self._tgt_given_src = self._table(seen, counts[seen], seen // of_tgt)
        self._src_given_tgt = self._table(seen, counts[seen], seen % of_tgt)
        self._empty_src, self._empty_tgt = empty_src / empty_src.sum(), empty_tgt / empty_tgt.sum()
        counted, expected = distances[:2] / distances[2:]
        self._diagonal = min(max(0.0, self._diagonal + _STEP * (expected - counted)), _MOST_DIAGONAL)

    def _table(self, cells: np.ndarray, counts: np.ndarray, given: np.ndarray) -> np.ndarray:
        """Return the probabilities of all pairs by the counts of some cells; `given`: each cell's known subword."""
        counts = counts + _CONCENTRATION
        totals = np.bincount(given, counts)[given]
        table = np.full(self._sizes, _LEAST)
        table.reshape(-1)[cells] = np.maximum(_LEAST, np.exp(_digamma(counts) - _digamma(totals)))
        return table

    def _blocks(self, src: TokenRows, tgt: TokenRows) -> Iterator[tuple[np.ndarray, _Places]]:
        """Yield pairs, none of which may be empty, in blocks of about _PLACES places: their numbers, and the places."""
        ends = np.cumsum(src.lengths * tgt.lengths)
        starts = np.searchsorted(ends, np.arange(0, ends[-1] if len(ends) else 0, _PLACES), side="right")
        sides = [
            TokenRows(columns[rows.tokens], rows.starts)
            for columns, rows in zip(self._columns, (src, tgt), strict=True)
        ]
        for start, end in zip(starts, [*starts[1:], len(src)], strict=True):
            if start < end:
                rows = np.arange(start, end)
                yield rows, _places(sides[0].taken(rows), sides[1].taken(rows), self._diagonal)


@dataclass(frozen=True)
class _Places:
    """All pairs of a source and a target position of some pairs of sentences.

    src, tgt: All tokens of the sentences. row, i, j: The sentence of each place, and its positions there. at_src,
    at_tgt: Its positions in `src` and `tgt`. source, target: Its tokens. far: Its distance from the diagonal, from 0 to
    1. prior_of_src, prior_of_tgt: Its prior probability among those of its source token, and of its target token.
    """

    src: np.ndarray
    tgt: np.ndarray
    row: np.ndarray
    i: np.ndarray
    j: np.ndarray
    at_src: np.ndarray
    at_tgt: np.ndarray
    source: np.ndarray
    target: np.ndarray
    far: np.ndarray
    prior_of_src: np.ndarray
    prior_of_tgt: np.ndarray


def _posterior(table: np.ndarray, prior: np.ndarray, empty: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the posterior probability of each place among those that share a token, and the empty word. `table`: the
    probability of the token given the other one, and `prior`: of each place, [places]; `empty`: of each token given the
    empty word, [tokens]; `at`: the token of each place."""
    weights = (1.0 - _EMPTY) * table * prior
    found: np.ndarray = weights / (np.bincount(at, weights) + _EMPTY * empty)[at]
    return found


def _columns(rows: TokenRows, vocab_size: int) -> np.ndarray:
    """Return the row or column of each subword in the tables, int64 [vocab_size]. If there are more subwords than
    _MOST_SUBWORDS, the more frequent ones have half of them for themselves, and the others share the rest."""
    if vocab_size <= _MOST_SUBWORDS:
        return np.arange(vocab_size)
    order = np.argsort(-np.bincount(rows.tokens, minlength=vocab_size), kind="stable")
    half = _MOST_SUBWORDS // 2
    ranks, columns = np.arange(vocab_size), np.empty(vocab_size, np.int64)
    columns[order] = np.where(ranks < half, ranks, half + (ranks - half) % half)
    return columns


def _places(src: TokenRows, tgt: TokenRows, diagonal: float) -> _Places:
    """Return all pairs of positions of these pairs of sentences, with a prior that falls so fast."""
    n, m = src.lengths, tgt.lengths
    row = np.repeat(np.arange(len(src)), n * m)
    number = np.arange(len(row)) - np.repeat(np.cumsum(n * m) - n * m, n * m)
    i, j = number % n[row], number // n[row]
    far = np.abs((i + 0.5) / n[row] - (j + 0.5) / m[row])
    near = np.exp(-diagonal * far)
    ats = src.starts[row] + i, tgt.starts[row] + j
    priors = (near / np.bincount(at, near)[at] for at in ats)
    tokens = src.tokens[ats[0]], tgt.tokens[ats[1]]
    return _Places(src.tokens, tgt.tokens, row, i, j, *ats, *tokens, far, *priors)


def _digamma(x: np.ndarray) -> np.ndarray:
    """Return the derivative of the log of the gamma function, x > 0 (Abramowitz and Stegun 1964, 6.3.5, 6.3.18)."""
    shift = sum(1.0 / (x + k) for k in range(6))
    x = x + 6.0
    series: np.ndarray = np.log(x) - 0.5 / x - 1 / (12.0 * x**2) + 1 / (120.0 * x**4) - 1 / (252.0 * x**6) - shift
    return series
