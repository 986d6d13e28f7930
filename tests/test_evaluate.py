"""Scores: figures worked out by hand, and signatures."""

import math

import pytest

from nmt.errors import DataError
from nmt.evaluate import format_table, score_translations


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


def test_lines_that_do_not_match_are_refused() -> None:
    with pytest.raises(DataError, match="got 1 and 2"):
        score_translations(["a"], ["a", "b"])
    with pytest.raises(DataError, match="at least one line"):
        score_translations([], [])
    with pytest.raises(DataError, match="one of bleu, chrf, .*, accuracy, got 'rouge'"):
        score_translations(["a"], ["a"], metrics=["rouge"])


def test_table_is_aligned() -> None:
    scores = score_translations(["a b c d x"], ["a b c d e"])
    lines = format_table(list(scores.values())).splitlines()
    assert [line[:8].strip() for line in lines] == ["metric", "BLEU", "chrF2", "TER"]
    assert len({line[:15].rstrip()[-3:-2] for line in lines[1:]}) == 1, "points below one another"
