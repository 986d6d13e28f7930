"""Alignments learned from the pairs themselves: beside a plain loop, on a made language, and of many subwords."""

import math
import os
import subprocess
import sys
from random import Random

import numpy as np
import pytest

from nmt.data.alignment import learned
from nmt.data.alignment.learned import LearnedAlignment
from nmt.data.alignment.word_alignment import WordAlignments
from nmt.data.corpora.corpus import load_parallel
from nmt.data.corpora.readers import TokenRows
from tests.data.corpora import sentences, side, small_subwords, write_pair

SIZES = 40, 50


def made_pairs(count=400, seed=0):
    """Pairs of a made language: each word has its translation, neighbours change places, and some words are added that
    have no source. Returns sources, targets and the true links of each."""
    random = Random(seed)
    sources, targets, links = [], [], []
    for _ in range(count):
        source = random.sample(range(10, 40), random.randint(3, 12))
        order = list(range(len(source)))
        for i in range(0, len(order) - 1, 2):
            if random.random() < 0.3:
                order[i], order[i + 1] = order[i + 1], order[i]
        target, found = [], set()
        for i in order:
            if random.random() < 0.2:
                target.append(random.randrange(4, 6))
            found.add((i, len(target)))
            target.append(source[i] + 7)
        sources.append(source)
        targets.append(target)
        links.append(found)
    return sources, targets, links


def links_of(found, src, tgt):
    pairs = [set() for _ in range(len(src))]
    for row, i, j in found.links(src, tgt):
        for one in zip(row.tolist(), i.tolist(), j.tolist(), strict=True):
            pairs[one[0]].add(one[1:])
    return pairs


def test_links_of_a_made_language():
    sources, targets, links = made_pairs()
    src, tgt = TokenRows.from_lists(sources), TokenRows.from_lists(targets)
    found = links_of(LearnedAlignment.learn(src, tgt, SIZES), src, tgt)
    right = sum(len(one & two) for one, two in zip(found, links, strict=True))
    assert right / sum(map(len, found)) > 0.98
    assert right / sum(map(len, links)) > 0.98


def test_probabilities_do_not_depend_on_the_cores():
    code = (
        "from nmt.data.alignment.learned import LearnedAlignment; from nmt.data.corpora.readers import TokenRows;"
        "from tests.data.test_learned_alignment import SIZES, made_pairs;"
        "src, tgt, _ = made_pairs(8000);"
        "found = LearnedAlignment.learn(TokenRows.from_lists(src), TokenRows.from_lists(tgt), SIZES);"
        "print(found._diagonal.hex())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"OPENBLAS_NUM_THREADS": count},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for count in ("1", "2", "3")
    }
    assert len(found) == 1 and found != {""}


def agreement(tables, source, target):
    """The product of both posteriors, place by place."""
    n, m = len(source), len(target)
    near = [[math.exp(-tables._diagonal * abs((i + 0.5) / n - (j + 0.5) / m)) for j in range(m)] for i in range(n)]
    product = np.ones((n, m))
    for j in range(m):
        total = sum(near[i][j] for i in range(n))
        ways = [0.92 * tables._tgt_given_src[source[i], target[j]] * near[i][j] / total for i in range(n)]
        product[:, j] *= np.array(ways) / (sum(ways) + 0.08 * tables._empty_tgt[target[j]])
    for i in range(n):
        total = sum(near[i])
        ways = [0.92 * tables._src_given_tgt[source[i], target[j]] * near[i][j] / total for j in range(m)]
        product[i] *= np.array(ways) / (sum(ways) + 0.08 * tables._empty_src[source[i]])
    return product


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_a_round_is_that_of_plain_loops(monkeypatch, power):
    monkeypatch.setattr(learned, "_PLACES", 300)  # several blocks
    sources, targets, _ = made_pairs(30)
    src, tgt = TokenRows.from_lists(sources), TokenRows.from_lists(targets)
    found = LearnedAlignment((np.arange(SIZES[0]), np.arange(SIZES[1])))
    for _ in range(2):
        counts = np.zeros(SIZES)
        empty = [np.full(size, 1e-9) for size in SIZES]
        for source, target in zip(sources, targets, strict=True):
            agreed = agreement(found, source, target) ** power
            for i, a in enumerate(source):
                for j, b in enumerate(target):
                    counts[a, b] += agreed[i, j]
            for i, a in enumerate(source):
                empty[0][a] += max(0.0, 1 - agreed[i].sum())
            for j, b in enumerate(target):
                empty[1][b] += max(0.0, 1 - agreed[:, j].sum())
        found._learn_once(src, tgt, power)
        seen = counts > 0
        for table, axis in ((found._tgt_given_src, 1), (found._src_given_tgt, 0)):
            totals = ((counts + 0.01) * seen).sum(axis=axis, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                expected = np.exp(digamma(counts + 0.01) - digamma(np.maximum(totals, 0.01)))
            np.testing.assert_allclose(table, np.where(seen, np.maximum(expected, 1e-9), 1e-9), rtol=1e-6)
        np.testing.assert_allclose(found._empty_src, empty[0] / empty[0].sum(), rtol=1e-9)
        np.testing.assert_allclose(found._empty_tgt, empty[1] / empty[1].sum(), rtol=1e-9)
    places = links_of(found, src, tgt)
    for n, (source, target) in enumerate(zip(sources, targets, strict=True)):
        linked = np.argwhere(agreement(found, source, target) >= 0.1).tolist()
        assert places[n] == {tuple(one) for one in linked}


def digamma(x):
    """By differences of the logarithm of the gamma function."""
    h = 1e-5 * x
    return np.vectorize(lambda x, h: (math.lgamma(x + h) - math.lgamma(x - h)) / (2 * h))(x, h)


def test_digamma():
    x = np.array([0.01, 0.3, 1.0, 2.5, 80.0, 1e6])
    np.testing.assert_allclose(learned._digamma(x), digamma(x), rtol=1e-6)
    assert learned._digamma(np.ones(1))[0] == pytest.approx(-0.5772156649, abs=1e-8)


@pytest.mark.parametrize(("type", "vocab_size"), [("bpe", 90), ("word", 52)])
def test_words_of_a_corpus_in_reversed_order(tmp_path, type, vocab_size):
    src = sentences(300, seed=1)
    tgt = [" ".join(reversed(line.split())) for line in src]
    src[7] = ""  # a line that is skipped
    subwords = small_subwords(type, vocab_size)
    corpus = load_parallel(write_pair(tmp_path, src, tgt), side("de", subwords), side("en", subwords))
    found = WordAlignments.learn(corpus, (subwords, subwords))
    right = total = 0
    for line, (source, target) in enumerate(zip(src, tgt, strict=True)):
        pairs = found._pairs[line].reshape(-1, 2).tolist()
        assert pairs == sorted(pairs)
        total += len(pairs)
        right += sum(source.split()[i] == target.split()[j] for i, j in pairs)
    assert len(found._pairs[7]) == 0
    assert total > 300
    assert right / total > 0.85  # words that occur twice cannot be told from each other
    lines = [" ".join(f"{i}-{j}" for i, j in found._pairs[n].reshape(-1, 2)) for n in range(len(src))]
    (tmp_path / "align").write_text("".join(f"{line}\n" for line in lines))
    read = WordAlignments.read(str(tmp_path / "align"), corpus, (subwords, subwords))
    assert np.array_equal(read._pairs.tokens, found._pairs.tokens)


def test_many_pairs_are_learned_from_some(monkeypatch):
    sources, targets, links = made_pairs(600)
    src, tgt = TokenRows.from_lists(sources), TokenRows.from_lists(targets)
    monkeypatch.setattr(learned, "_MOST_LEARNED", 300)
    some = LearnedAlignment.learn(src, tgt, SIZES)
    rows = np.linspace(0, 599, 300).astype(int)
    same = LearnedAlignment.learn(src.taken(rows), tgt.taken(rows), SIZES)
    assert np.array_equal(some._tgt_given_src, same._tgt_given_src)
    found = links_of(some, src, tgt)
    assert sum(len(one & two) for one, two in zip(found, links, strict=True)) > 0.98 * sum(map(len, links))


@pytest.mark.parametrize("most", [30, 22])
def test_rare_subwords_share_probabilities(monkeypatch, most):
    monkeypatch.setattr(learned, "_MOST_SUBWORDS", most)
    sources, targets, links = made_pairs()
    src, tgt = TokenRows.from_lists(sources), TokenRows.from_lists(targets)
    model = LearnedAlignment.learn(src, tgt, SIZES)
    assert model._tgt_given_src.shape == (most, most)
    found = links_of(model, src, tgt)
    right = sum(len(one & two) for one, two in zip(found, links, strict=True))
    assert right / sum(map(len, found)) > 0.9
    assert right / sum(map(len, links)) > 0.9
