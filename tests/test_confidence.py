"""How sure a model is of a translation: the same number from the search, from forced decoding and by hand."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from nmt.cli.lines.streams import output_of
from nmt.inference.translation import UNSAYABLE, Constraints, Translation, confidence_in
from nmt.inference.translator import Translator
from tests.saved_models import sentences

LINES = [*sentences(5, seed=4), "", "kara"]


@pytest.mark.parametrize("settings", [{}, {"length_penalty": "none"}, {"word_reward": 0.5}, {"min_length": 3}], ids=str)
def test_it_is_the_mean_of_forced_decoding(translator: Translator, settings: dict) -> None:
    for found in translator.translate_nbest(LINES, n_best=3, details=True, **settings):
        for one in found:
            if one.detail is not None:
                assert one.length == len(one.detail.tokens)
                assert one.confidence == pytest.approx(math.exp(np.mean(one.detail.log_probs)), rel=1e-5)
                assert 0 < one.confidence < 1


def test_it_is_the_same_with_details_and_without(translator: Translator) -> None:
    plain, full = (translator.translate_nbest(LINES, details=details) for details in (False, True))
    assert [one[0].confidence for one in plain] == [one[0].confidence for one in full]


def test_a_translation_that_was_truncated_has_no_end_to_count(translator: Translator) -> None:
    settings = {"max_length_ratio": 0.01, "max_length_extra": 2, "beam_size": 1}
    (found,) = translator.translate_nbest(["kara losu miti"], **settings)
    (other,) = translator.translate_nbest(["kara losu miti"], **settings, details=True)
    assert found[0].length == other[0].length == len(other[0].detail.tokens)


def test_completions_count_what_was_typed(translator: Translator) -> None:
    typed, prefix = translator.session(LINES[0]).complete("kara lo", n_best=2), Constraints(prefixes="kara lo")
    searched = translator.translate_nbest([LINES[0]], n_best=2, constraints=prefix, details=True)[0]
    for one, other in zip(typed, searched, strict=True):
        assert one.length == len(other.detail.tokens)
        assert one.confidence == pytest.approx(math.exp(np.mean(other.detail.log_probs)), rel=1e-5)


def test_long_sentences_of_a_text_weigh_more() -> None:
    text = [Translation("a b c", 0.0, -3.0, length=4), Translation("d", 0.0, -1.0, length=2), Translation("", 0.0, 0.0)]
    assert confidence_in(text) == pytest.approx(math.exp(-4 / 6))
    assert text[0].confidence == pytest.approx(math.exp(-3 / 4))


@pytest.mark.parametrize(
    "one, expected",
    [
        (Translation("", 0.0, 0.0), 1.0),  # a blank line
        (Translation("", 0.0, 0.0, warnings=(UNSAYABLE,)), 0.0),
        (Translation("a", 0.0, math.nan, length=2), 0.0),
        (Translation("a", 0.0, -math.inf, length=2), 0.0),
        (Translation("a", 0.0, math.inf, length=2), 0.0),
        (Translation("a", 0.0, 1e-9, length=2), 1.0),  # by rounding
    ],
)
def test_it_is_a_number_from_0_to_1(one: Translation, expected: float) -> None:
    assert one.confidence == expected
    assert confidence_in([one, Translation("b", 0.0, -1e-12, length=1)]) == pytest.approx(expected)


def test_json_has_it(translator: Translator, tmp_path: Path) -> None:
    (found,) = translator.translate_nbest(["kara losu"], n_best=2, details=True)
    (line,) = output_of("json", 0, "kara losu", found)
    written = json.loads(line)["translations"]
    assert [one["confidence"] for one in written] == [round(one.confidence, 6) for one in found]
