"""Minimum Bayes risk over candidates, with a measure whose sums are known."""

import pytest

from nmt.evaluate import expected_utilities, sentence_utility


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
        "the cat sat on the mat",
        "a cat",
        "the cat sat on the mat",
        "x",
        "",
        "dä",
        "ok ok ok ok ok ok",
        "\u00a0 a  cat",
        '"Ok," said (the) cat.',
    ]
    found = {name: expected_utilities(texts, name) for name in ("chrf", "chrf++")}
    for name, scores in found.items():
        assert scores == pytest.approx(expected_utilities(texts, sentence_utility(name))), name
        assert expected_utilities([""], name) == [0.0]
    assert found["chrf"] != pytest.approx(found["chrf++"])
    assert expected_utilities(texts, "bleu") == expected_utilities(texts, sentence_utility("bleu"))
