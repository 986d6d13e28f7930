"""Scores of several references, and error rates worked out by hand."""

import pytest

from nmt.errors import DataError
from nmt.evaluate import score_translations, split_references
from nmt.evaluate.error_rates import edit_distance


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
