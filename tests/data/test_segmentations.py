"""How a word is cut when its cut is drawn: each cut as often as the papers say."""

import functools
import itertools
import math
from collections import Counter
from random import Random

import pytest
import sentencepiece

from nmt.data.tokens.segmentations import BpeSegmentation, UnigramSegmentation, segmentation_of, units_of
from nmt.data.tokens.subwords import train_subwords

SYLLABLES = "ka lo mi su ne ra ti vo".split()
WORD, OTHER = "kalomira", "sunekalo"

DRAWS = 8_000
# Of a chi-squared with k degrees the value that one run in a million exceeds is below k + 6 sqrt(2 k) + 15.


@functools.cache
def trained(type):
    """A model of text of two to four syllables a word: with units of one syllable and of several."""
    random = Random(1)
    words = ["".join(random.choices(SYLLABLES, k=random.randint(2, 4))) for _ in range(300)]
    lines = [" ".join(random.choices(words, k=8)) for _ in range(400)]
    return train_subwords(lines, type=type, vocab_size=90)


def cuts(word):
    """All ways to cut a word."""
    for places in itertools.product([False, True], repeat=len(word) - 1):
        ends = [n for n, cut in enumerate(places, 1) if cut] + [len(word)]
        yield tuple(word[a:b] for a, b in itertools.pairwise([0, *ends]))


def assert_drawn_as(expected, found):
    """Counts of cuts agree with probabilities."""
    assert set(found) <= {cut for cut, probability in expected.items() if probability > 0}
    total = found.total()
    likely = {cut: p for cut, p in expected.items() if p * total >= 5}
    square = sum((found[cut] - p * total) ** 2 / (p * total) for cut, p in likely.items())
    assert len(likely) > 2
    assert square < len(likely) + 6 * math.sqrt(2 * len(likely)) + 15


@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.5])
def test_unigram_is_the_power_of_the_probability(alpha):
    units = units_of(trained("unigram").model_bytes)
    for word in ("▁" + WORD, "▁" + OTHER):
        weights = {
            cut: math.exp(alpha * sum(units.scores[unit] for unit in cut))
            for cut in cuts(word)
            if all(unit in units.scores for unit in cut)
        }
        total = sum(weights.values())
        segmentation, random = UnigramSegmentation(units.scores, alpha), Random(1)
        found = Counter(tuple(segmentation.draw(word, random)) for _ in range(DRAWS))
        assert_drawn_as({cut: weight / total for cut, weight in weights.items()}, found)


def test_unigram_is_drawn_as_sentencepiece_does():
    subwords = trained("unigram")
    processor = sentencepiece.SentencePieceProcessor(model_proto=subwords.model_bytes)
    theirs = Counter(
        tuple(cut)
        for cut in processor.encode(
            [WORD] * DRAWS, out_type=str, enable_sampling=True, alpha=0.3, nbest_size=-1, num_threads=1
        )
    )
    segmentation, random = UnigramSegmentation(units_of(subwords.model_bytes).scores, 0.3), Random(2)
    ours = Counter(tuple(segmentation.draw("▁" + WORD, random)) for _ in range(DRAWS))
    seen = [cut for cut in ours | theirs if ours[cut] + theirs[cut] >= 10]
    square = sum((ours[cut] - theirs[cut]) ** 2 / (ours[cut] + theirs[cut]) for cut in seen)
    assert len(seen) > 5
    assert square < len(seen) + 6 * math.sqrt(2 * len(seen)) + 15


def plain_bpe_dropout(word, scores, alpha, random):
    """Algorithm 1 of the paper as it stands there."""
    units = list(word)
    while True:
        kept = [
            (scores[a + b], -place)
            for place, (a, b) in enumerate(itertools.pairwise(units))
            if a + b in scores and random.random() >= alpha
        ]
        if not kept:
            return tuple(units)
        place = -max(kept)[1]
        units[place : place + 2] = ["".join(units[place : place + 2])]


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_bpe_dropout_is_the_paper_s_algorithm(alpha):
    scores = units_of(trained("bpe").model_bytes).scores
    for word in ("▁" + WORD, "▁" + OTHER):
        plain = Random(3)
        expected = Counter(plain_bpe_dropout(word, scores, alpha, plain) for _ in range(8 * DRAWS))
        segmentation, random = BpeSegmentation(scores, alpha), Random(4)
        found = Counter(tuple(segmentation.draw(word, random)) for _ in range(DRAWS))
        assert_drawn_as({cut: count / expected.total() for cut, count in expected.items()}, found)


def test_bpe_without_dropout_is_the_cut_and_with_all_of_it_the_letters():
    subwords = trained("bpe")
    scores = units_of(subwords.model_bytes).scores
    for word in (WORD, OTHER, *SYLLABLES):
        cut = subwords.cut([word])[0]
        assert BpeSegmentation(scores, 0.0).draw("▁" + word, Random(1)) == cut
        assert BpeSegmentation(scores, 1.0).draw("▁" + word, Random(1)) == list("▁" + word)


@pytest.mark.parametrize("type", ["unigram", "bpe"])
def test_a_word_that_the_units_cannot_spell_is_not_cut(type):
    segmentation = segmentation_of(units_of(trained(type).model_bytes), 0.3)
    assert segmentation.draw("▁kaÆlo", Random(1)) is None


@pytest.mark.parametrize("type", ["unigram", "bpe"])
def test_units_are_those_of_sentencepiece(type):
    model = trained(type).model_bytes
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    units = units_of(model)
    special = {processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()}
    expected = {processor.id_to_piece(n): n for n in range(processor.vocab_size()) if n not in special}
    assert units.type == type
    assert units.numbers == expected
    assert units.scores == {unit: processor.get_score(n) for unit, n in expected.items()}


def test_words_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr("nmt.data.tokens.segmentations._MOST_WORDS", 3)
    segmentation = UnigramSegmentation({"a": -1.0, "b": -1.0, "ab": -1.5}, 1.0)
    for word in ("a", "b", "ab", "ba", "aba"):
        segmentation.draw(word, Random(1))
    assert len(segmentation._known) == 2
