"""Scores: figures worked out by hand, and signatures."""

import math

import pytest

import nmt
from nmt.errors import DataError
from nmt.evaluate import scores as scoring
from nmt.evaluate.scores import expected_utilities, reliability, score_translations, sentence_utility
from nmt.report.page import reliability_svg
from tests.refusals import refused


def test_bleu_by_hand() -> None:
    # 5 words, the last one wrong: precisions 4/5, 3/4, 2/3, 1/2, no brevity penalty.
    scores = score_translations(["a b c d x"], ["a b c d e"])
    want = 100 * math.exp(sum(math.log(p) for p in (4 / 5, 3 / 4, 2 / 3, 1 / 2)) / 4)
    assert scores["bleu"].score == pytest.approx(want)
    assert scores["ter"].score == pytest.approx(100 / 5)
    assert list(scores) == ["bleu", "chrf", "ter"]
    assert all("version:" in score.signature for score in scores.values())


def test_case_counts_only_without_lowercase() -> None:
    hypotheses, references = ["A B C D E"], ["a b c d e"]
    assert score_translations(hypotheses, references)["bleu"].score < 1
    lower = score_translations(hypotheses, references, lowercase=True)
    assert lower["bleu"].score == pytest.approx(100)
    assert lower["chrf"].score == pytest.approx(100)


def test_empty_translations_are_scored() -> None:
    scores = score_translations(["", ""], ["a b", "c"])
    assert (scores["bleu"].score, scores["ter"].score) == (0, 100)


def test_table_is_aligned() -> None:
    lines = scoring.format_table(list(score_translations(["a b c d x"], ["a b c d e"]).values())).splitlines()
    assert [line[:8].strip() for line in lines] == ["metric", "BLEU", "chrF2", "TER"]
    assert len({line[:15].rstrip()[-3:-2] for line in lines[1:]}) == 1, "points below one another"


# ---------------------------------------------------------------- from Python


def test_the_package_is_a_function():
    hypotheses, references = ["a b c d e", "x"], ["a b c d f", "x"]
    given = {"metrics": ("bleu", "chrf"), "tokenize": "none", "lowercase": True}
    found = nmt.evaluate(hypotheses, references, **given)
    assert found == score_translations(hypotheses, references, **given)
    assert isinstance(found["bleu"], nmt.Score) and "tok:none" in found["bleu"].signature
    assert list(nmt.evaluate(hypotheses, (references, [None, "y"]))) == ["bleu", "chrf", "ter"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("a", ["a"]), TypeError, "evaluate: hypotheses must be a list of strings, got one string"),
        ((["a"], "a"), TypeError, "evaluate: references must be a list of strings, got one string"),
        ((["a"], None), TypeError, "evaluate: references must be a list of strings, got NoneType"),
        ((["a"], [["a", "b"], ["c"]]), DataError, "must have the same number of lines, got 1 and 2"),
        ((["a"], [3]), TypeError, "evaluate: references must be .*, got int"),
        ((["a"], [[3]]), TypeError, "evaluate: references must be a list of strings, got int at place 0"),
        ((["a", None], ["a", "b"]), TypeError, "hypotheses must be a list of strings, got NoneType at place 1"),
        ((["a"], []), DataError, "must have the same number of lines, got 1 and 0"),
        (([], []), DataError, "must have at least one line"),
        ((["a"], ["b"], "bleu"), TypeError, "evaluate: metrics must be a list of strings, got one string"),
        ((["a"], ["b"], ["blue"]), DataError, "metric must be one of bleu, .*, got 'blue'"),
        ((["a"], ["b"], ["bleu"], "moses"), DataError, "tokenize must be one of 13a, .*, got 'moses'"),
    ],
)
def test_what_cannot_be_computed(arguments, error, message):
    names = "hypotheses", "references", "metrics", "tokenize"
    refused(error, message, score_translations, **dict(zip(names, arguments, strict=False)))


def test_reliability_by_hand() -> None:
    found = reliability([0.05, 0.15, 0.15, 0.95], [10, 20, 70, 80], 60)
    assert [(one.low, one.kept, one.lines) for one in found.bins] == [(0, 0, 1), (0.1, 0.5, 2), (0.9, 1, 1)]
    assert found.error == pytest.approx((0.05 + 2 * 0.35 + 0.05) / 4) and found.kept == 0.5
    assert found.worse == 0.75, "of two equal lines at the border, each is half in the half"
    assert reliability([0.1, 0.2, 0.3, 0.4], [1, 2, 3, 4], 60).worse == 1
    assert reliability([0.4, 0.3, 0.2, 0.1], [1, 2, 3, 4], 60).worse == 0
    assert reliability([0.5] * 9, [5] * 9, 60).worse == pytest.approx(0.5)
    assert reliability([1.0], [100.0], 60).to_dict()["bins"][0]["kept"] == 1
    svg = reliability_svg(found, "a < b")
    assert svg.count("<circle") == 3 and "a &lt; b" in svg


def test_several_references_and_chrf_plus_plus():
    hypotheses = ["a cat sat", "the dog runs home"]
    one, other = ["a cat sits here", "the dog runs home"], ["a cat sat", "home the dog runs"]
    both = score_translations(hypotheses, [one, other], metrics=("bleu", "chrf++", "ter"))
    assert both["ter"].score == 0 and "nrefs:2" in both["bleu"].signature
    assert both["chrf++"].name == "chrF2++" and "nw:2" in both["chrf++"].signature
    assert score_translations(hypotheses, one, metrics=("ter",))["ter"].score > 0
    refused(DataError, "got 2 and 1", score_translations, hypotheses, [one, other[:1]])


def test_error_rates_by_hand():
    references = scoring.split_references([["b a | b e", "k a t", "d o g"]], " | ")
    assert references == [["b a", "k a t", "d o g"], ["b e", None, None]]
    scores = score_translations(["b e", "k a", "t  o g"], references, metrics=("wer", "per", "accuracy"))
    assert scores["wer"].score == pytest.approx(200 / 3)
    assert scores["accuracy"].score == pytest.approx(100 / 3)
    assert scores["per"].score == pytest.approx(100 * (0 + 1 + 1) / (2 + 3 + 3))
    assert score_translations(["a b c"], ["b"], metrics=("per",))["per"].score == pytest.approx(200)
    assert score_translations(["c"], ["a b c"], metrics=("per",))["per"].score == pytest.approx(200 / 3)
    assert "nrefs:var" in scores["wer"].signature and "unit:line" in scores["wer"].signature
    lower = score_translations(["B E"], ["b e"], metrics=("wer",), lowercase=True)["wer"]
    assert lower.score == 0 and "case:lc" in lower.signature
    assert score_translations(["B E"], ["b e"], metrics=("wer",))["wer"].score == 100


def test_expected_utility_is_the_mean_over_all_candidates():
    texts = ["a b", "a", "a b", "c"]

    def shared(text, other):
        return float(len(set(text.split()) & set(other.split())))

    assert expected_utilities(texts, shared) == [(2 + 1 + 2 + 0) / 4, (1 + 1 + 1 + 0) / 4, (2 + 1 + 2) / 4, 1 / 4]


@pytest.mark.parametrize("name", ["chrf", "chrf++", "bleu"])
def test_measures_of_sentences(name):
    utility = sentence_utility(name)
    assert utility("the cat sat on the mat", "the cat sat on the mat") == pytest.approx(100)
    assert 0 < utility("the cat sat on a mat", "the cat sat on the mat") < 100
    candidates = ["the cat sat on the mat", "the cat sat on a mat", "a dog ran", "the cat sat on the rug"]
    scores = expected_utilities(candidates, utility)
    assert scores.index(max(scores)) == 0


def test_chrf_of_all_pairs_at_once_is_that_of_sacrebleu():
    texts = [
        *("the cat sat on the mat", "a cat", "the cat sat on the mat", "x", "", "dä", "ok ok ok ok ok ok"),
        *("\u00a0 a  cat", '"Ok," said (the) cat.'),
    ]
    found = {name: expected_utilities(texts, name) for name in ("chrf", "chrf++")}
    for name, scores in found.items():
        assert scores == pytest.approx(expected_utilities(texts, sentence_utility(name))), name
        assert expected_utilities([""], name) == [0.0]
    assert found["chrf"] != pytest.approx(found["chrf++"])
    assert expected_utilities(texts, "bleu") == expected_utilities(texts, sentence_utility("bleu"))
