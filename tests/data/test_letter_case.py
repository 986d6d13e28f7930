"""Letter case by language: Turkish and Azerbaijani have an i with and one without a dot, each with its capital."""

import pytest

from nmt.data.corpora.corpus import clean_line, clean_lines
from nmt.data.tokens.letter_case import capitals_of, lowered, titled


@pytest.mark.parametrize("language", ["tr", "az", "TR", "tr-TR", "tr_CY", "az-Latn-AZ", "tur", "aze", "crh"])
def test_both_letters_keep_their_dots(language):
    assert lowered("DİKKAT IŞIK", language) == "dikkat ışık" and lowered("DI\u0307KKAT", language) == "dikkat"
    assert capitals_of("izin ışık", language) == "İZİN IŞIK" and capitals_of("dikkat", language) == "DİKKAT"
    assert titled("i", language) == "İ" and titled("ı", language) == "I"
    for text in ("istanbul'da ılık bir gün", "çiğ köfte", "iı", "ilə", "", "123"):
        assert lowered(capitals_of(text, language), language) == text
    assert lowered("Ələ ƏLİ", language) == "ələ əli"


@pytest.mark.parametrize("language", ["", "en", "de", "trv", "lt", "fr-TR", "xx"])
def test_other_languages_have_one(language):
    for text in ("DİKKAT IŞIK", "Izmir", "ıİiI", "STRASSE", "ΟΔΟΣ"):
        assert lowered(text, language) == lowered(text) == text.lower()
        assert capitals_of(text, language) == capitals_of(text) == text.upper()
    assert titled("i", language) == "I" and titled("ǆ", language) == "ǅ"
    assert titled("", language) == ""


def test_scripts_of_one_case_stay():
    for language in ("tr", ""):
        assert lowered("ᏣᎳᎩ ABC", language) == "ᏣᎳᎩ abc" and capitals_of("საქართველო abc", language) == "საქართველო ABC"
        assert titled("ს", language) == "ს"


def test_what_models_were_trained_on_stays():
    """`lowercase` of a saved model cleans as it did in training, in all languages alike."""
    assert clean_line("DİKKAT IŞIK", lowercase=True) == "di̇kkat işik" == clean_lines(["DİKKAT IŞIK"], True)[0]
