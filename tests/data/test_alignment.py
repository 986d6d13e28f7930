"""Alignments of words made from attention between subwords."""

import math
from random import Random

import numpy as np
import pytest

from nmt.data.alignment import learned
from nmt.data.alignment.learned import LearnedAlignment
from nmt.data.alignment.word_alignment import (
    WordAlignments,
    hard_alignment,
    never_attended,
    pharaoh,
    soft_alignment,
    with_unknown_replaced,
    words_of,
)
from nmt.data.batching.batches import TrainBatches
from nmt.data.corpora.corpus import load_parallel
from nmt.data.corpora.readers import TokenRows
from tests.data.corpora import sentences, side, small_subwords, write_pair
from tests.processes import python


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["▁a", "b", "▁c"], [0, 0, 1]),
        (["a", "▁b"], [0, 1]),
        (["▁", "x", "▁", "y", "z"], [0, 0, 1, 1, 1]),
        (["▁a", "▁"], [0, 0]),
        (["▁", "▁a"], [0, 0]),
        ([], []),
    ],
)
def test_words_are_what_spaces_divide(pieces, words):
    assert words_of(pieces) == words
    assert max(words, default=-1) + 1 == len("".join(pieces).replace("▁", " ").split())


WEIGHTS = np.array([[0.6, 0.1, 0.2, 0.1], [0.1, 0.2, 0.6, 0.1], [0.0, 0.1, 0.0, 0.9], [0.2, 0.5, 0.0, 0.3]])


def test_hard_alignment_takes_the_most_attended_subword_and_leaves_eos_out():
    pairs = hard_alignment(WEIGHTS, [0, 0, 1], [0, 1, 2])
    assert pairs == [(0, 0), (1, 1)]
    assert pharaoh(pairs) == "0-0 1-1"
    assert hard_alignment(np.zeros((0, 4)), [0, 0, 1], []) == []


def test_words_that_got_hardly_any_attention():
    assert never_attended(np.array([[0.97, 0.02, 0.0, 0.01], [0.0, 0.05, 0.05, 0.9]]), [0, 1, 1]) == []
    assert never_attended(np.array([[0.97, 0.02, 0.0, 0.01], [0.0, 0.0, 0.05, 0.95]]), [0, 1, 1]) == [1]
    assert never_attended(np.zeros((0, 3)), [0, 1]) == [0, 1]


def test_unknown_subwords_become_source_words_once_each():
    weights = np.eye(4)[[1, 0, 0, 2]]
    pieces = ["▁the", "<unk>", "<unk>", "<unk>"]
    found = with_unknown_replaced(pieces, [False, True, True, True], weights, "Bob liest Joyce", [0, 1, 2])
    assert found == ["▁the", "▁Bob", "▁Joyce"]
    found = with_unknown_replaced(["▁", "<unk>"], [False, True], weights[:2], "Bob", [0])
    assert found == ["▁", "Bob"]


def test_no_break_spaces_are_a_part_of_their_word():
    pieces, source = ["▁à", "<unk>"], "le prix est 10\u202f000\u00a0€ à Paris"
    weights = np.eye(6)[[4, 5]]
    assert with_unknown_replaced(pieces, [False, True], weights, source, list(range(6))) == ["▁à", "▁Paris"]
    assert with_unknown_replaced(pieces[1:], [True], np.eye(6)[[3]], source, list(range(6))) == ["▁10\u202f000\u00a0€"]


def test_soft_alignment_between_words():
    """Source words of 2, 1 and 2 subwords, target words of 1 and 2; the end of the target left out."""
    weights = np.array(
        [[0.1, 0.2, 0.3, 0.1, 0.1, 0.2], [0.5, 0, 0, 0.5, 0, 0], [0, 0, 0, 0, 0, 1.0], [1, 0, 0, 0, 0, 0]]
    )
    found = soft_alignment(weights, [0, 0, 1, 2, 2], [0, 1, 1])
    assert found == pytest.approx(np.array([[0.3, 0.3, 0.2, 0.2], [0.25, 0, 0.25, 0.5]]))
    assert soft_alignment(np.ones((1, 1)), [], [0]).tolist() == [[1.0]]
    assert soft_alignment(np.zeros((1, 3)), [0, 1], []).shape == (0, 3)


def test_unknown_subwords_become_what_the_dictionary_says():
    weights = np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.2, 0.8, 0.0]])
    pieces, unknown = ["<unk>", "▁is", "<unk>"], [True, False, True]
    words = {"anna": "Ann", "Bonn": "Bonn-on-Rhine"}
    found = with_unknown_replaced(pieces, unknown, weights, "Anna Bonn", [0, 1], words)
    assert found == ["▁Ann", "▁is", "▁Bonn-on-Rhine"]
    assert with_unknown_replaced(pieces, unknown, weights, "Anna Bonn", [0, 1]) == ["▁Anna", "▁is", "▁Bonn"]


SRC = ["the old house", "tree", "a cat sleeps"]
TGT = ["house old the the", "river tree", "cat"]
LINES = ["0-2 0-3 1-1 2-0", "", "0-0 1-0"]


def setup(tmp_path, lines=LINES, type="bpe", boundaries="eos"):
    subwords = small_subwords(type, 52)
    corpus = load_parallel(write_pair(tmp_path, SRC, TGT), side("de", subwords), side("en", subwords))
    links = TokenRows.from_lists([list(map(int, line.replace("-", " ").split())) for line in lines])
    return corpus, subwords, WordAlignments(links, (subwords, subwords), boundaries)


@pytest.mark.parametrize("boundaries", ["eos", "bos_eos", "none"])
@pytest.mark.parametrize("type", ["bpe", "unigram", "word", "char"])
def test_every_subword_has_those_of_its_word(tmp_path, type, boundaries):
    corpus, subwords, found = setup(tmp_path, type=type, boundaries=boundaries)
    batch = TrainBatches(corpus, 1000, boundaries=boundaries).batch(1, 0)
    step, row, position, share = found.of_batch(
        batch.src, batch.src_lengths, batch.tgt_out, batch.tgt_lengths, batch.indices
    )
    before = boundaries == "bos_eos"
    expected = {}
    for b, line in enumerate(batch.indices.tolist()):
        sides = []
        for ids in (batch.src[before : batch.src_lengths[b], b], batch.tgt_out[: batch.tgt_lengths[b], b]):
            words = []
            for piece in subwords.pieces(ids[ids > 3].tolist()):
                words.append((words[-1] if words else 0) + (piece.startswith("▁") and bool(words)))
            sides.append(words)
        pairs = {tuple(map(int, pair.split("-"))) for pair in LINES[line].split()}
        for t, target in enumerate(sides[1]):
            places = [s for s, source in enumerate(sides[0]) if (source, target) in pairs]
            expected |= {(t, b, s + before): 1 / len(places) for s in places}
    keys = zip(step.tolist(), row.tolist(), position.tolist(), strict=True)
    assert dict(zip(keys, share.tolist(), strict=True)) == pytest.approx(expected)
    assert len(expected) >= 6


def test_a_batch_without_any(tmp_path):
    corpus, _, found = setup(tmp_path, ["", "", ""])
    batch = TrainBatches(corpus, 1000).batch(1, 0)
    arrays = found.of_batch(batch.src, batch.src_lengths, batch.tgt_out, batch.tgt_lengths, batch.indices)
    assert all(len(array) == 0 for array in arrays)
    assert arrays[0].dtype == np.int64


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
        "from tests.data.test_alignment import SIZES, made_pairs;"
        "src, tgt, _ = made_pairs(8000);"
        "found = LearnedAlignment.learn(TokenRows.from_lists(src), TokenRows.from_lists(tgt), SIZES);"
        "print(found._diagonal.hex())"
    )
    assert python(code, OPENBLAS_NUM_THREADS="1").stdout == python(code, OPENBLAS_NUM_THREADS="3").stdout != ""


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
