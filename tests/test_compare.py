"""Comparing: significance and error rates worked out by hand, and refusals."""

import random

import pytest

import nmt
from nmt.errors import DataError
from nmt.evaluate import score_translations, split_references
from nmt.evaluate.compare import (
    check_tokenised_alike,
    compare,
    differences,
)
from nmt.evaluate.error_rates import edit_distance
from tests.data.corpora import sentences


def broken(lines, share, seed):
    """The lines with a share of their words replaced."""
    drawn = random.Random(seed)
    return [" ".join("wrong" if drawn.random() < share else word for word in line.split()) for line in lines]


REFERENCES = sentences(120, 3, 14)


def test_a_better_system_is_significant_and_an_equal_one_is_not():
    a, b, same = broken(REFERENCES, 0.3, 1), broken(REFERENCES, 0.1, 2), broken(REFERENCES, 0.3, 4)
    better = compare(a, b, [REFERENCES], metrics=("bleu", "chrf++", "wer"))
    equal = compare(a, same, [REFERENCES], metrics=("bleu",))
    assert better["bleu"].p_bootstrap < 0.01 and better["bleu"].p_randomisation < 0.01
    assert equal["bleu"].p_bootstrap > 0.05 and equal["bleu"].p_randomisation > 0.05
    alone = score_translations(a, REFERENCES, metrics=("bleu", "chrf++", "wer"), confidence=True)
    for name, score in alone.items():
        assert better[name].a.score == pytest.approx(score.score)
        assert better[name].a.interval == pytest.approx(score.interval, abs=0.3)
    assert better["bleu"].b.score > better["bleu"].a.score and better["wer"].b.score < better["wer"].a.score
    assert "bs:1000" in better["bleu"].a.signature


def test_equal_texts_and_few_differences_are_not_significant():
    """Three lines differ and all are better: all three are swapped or none in one trial of four, so p is 1/4."""
    a = broken(REFERENCES, 0.3, 1)
    for metric in ("bleu", "chrf", "ter", "wer"):
        same = compare(a, list(a), [REFERENCES], metrics=(metric,))[metric]
        assert same.p_bootstrap == same.p_randomisation == 1.0
        few = compare(a, REFERENCES[:3] + a[3:], [REFERENCES], metrics=(metric,))[metric]
        assert 0.23 < few.p_randomisation < 0.27


def test_several_references_and_chrf_plus_plus():
    hypotheses = ["a cat sat", "the dog runs home"]
    one, other = ["a cat sits here", "the dog runs home"], ["a cat sat", "home the dog runs"]
    both = score_translations(hypotheses, [one, other], metrics=("bleu", "chrf++", "ter"))
    assert both["ter"].score == 0 and "nrefs:2" in both["bleu"].signature
    assert both["chrf++"].name == "chrF2++" and "nw:2" in both["chrf++"].signature
    assert score_translations(hypotheses, one, metrics=("ter",))["ter"].score > 0
    with pytest.raises(DataError, match="got 2 and 1"):
        score_translations(hypotheses, [one, other[:1]])


def test_error_rates_by_hand():
    references = split_references([["b a | b e", "k a t", "d o g"]], " | ")
    assert references == [["b a", "k a t", "d o g"], ["b e", None, None]]
    scores = score_translations(["b e", "k a", "t  o g"], references, metrics=("wer", "per", "accuracy"))
    assert scores["wer"].score == pytest.approx(200 / 3)
    assert scores["accuracy"].score == pytest.approx(100 / 3)
    assert scores["per"].score == pytest.approx(100 * (0 + 1 + 1) / (2 + 3 + 3))
    assert "nrefs:var" in scores["wer"].signature and "unit:line" in scores["wer"].signature
    lower = score_translations(["B E"], ["b e"], metrics=("wer",), lowercase=True)["wer"]
    assert lower.score == 0 and "case:lc" in lower.signature
    assert score_translations(["B E"], ["b e"], metrics=("wer",))["wer"].score == 100


@pytest.mark.parametrize(
    ("one", "other", "want"), [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3)]
)
def test_edit_distance(one, other, want):
    assert edit_distance(one, other) == want


def test_the_sentences_that_differ_most():
    references = ["the old house", "a small tree", "green river", "same"]
    a, b = ["the old house", "a tall bush", "red river", "same"], ["an ox", "a small tree", "green river", "same"]
    rows = differences(a, b, [references], 2)
    assert [row[0] for row in rows] == [0, 1]
    assert rows[0][1] == pytest.approx(100) and rows[1][2] == pytest.approx(100)


def test_the_public_function_takes_what_evaluate_takes():
    a, b = ["the cat sat", "a dog ran"] * 5, ["the cat sat", "a dog sat"] * 5
    references = ["the cat sat", "a dog ran off"] * 5
    found = nmt.compare(a, b, references)
    assert list(found) == ["bleu", "chrf", "ter"] and isinstance(found["bleu"], nmt.PairedScore)
    assert found == nmt.compare(iter(a), tuple(b), [references])
    for name, score in nmt.evaluate(a, references).items():
        assert found[name].a.score == pytest.approx(score.score) and found[name].a.name == score.name


@pytest.mark.parametrize(
    ("given", "error", "line"),
    [
        (("one", ["b"], ["c"]), TypeError, "compare: a must be a list of strings, got one string"),
        ((["a"], [3], ["c"]), TypeError, "compare: b must be a list of strings, got int at place 0"),
        ((["a"], ["b"], "c"), TypeError, "compare: references must be a list of strings, got one string"),
        ((["a"], ["b"], ["c", "d"]), DataError, "both systems and the references must have the same number of lines"),
        (([], [], []), DataError, "the references must have at least one line"),
    ],
)
def test_what_callers_get_wrong_is_one_line(given, error, line):
    with pytest.raises(error, match=rf"\A[^\n]*{line}[^\n]*\Z"):
        nmt.compare(*given)
    with pytest.raises(DataError, match="evaluation: "):
        nmt.compare(["a"], ["b"], ["c"], metrics=["blue"])
    with pytest.raises(DataError, match="tokenize must be one of"):
        nmt.compare(["a"], ["b"], ["c"], tokenize="12a")


def test_texts_that_are_not_tokenised_alike_are_refused():
    plain = ["The house, the tree."] * 20
    tokenised = ["The house , the tree ."] * 20
    check_tokenised_alike({"A": plain, "B": plain, "the references": plain})
    check_tokenised_alike({"A": tokenised, "B": tokenised, "the references": tokenised})
    with pytest.raises(DataError, match="tokenised alike, got .* 100% of the lines of B and in 0% of A"):
        compare(plain, tokenised, [plain], metrics=("bleu",))
