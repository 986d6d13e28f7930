"""Where terms of a glossary occur: one rule for what is asked of the search and for what is told to be followed."""

import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest

from nmt import Translator
from nmt.inference import terms as module
from nmt.inference.pipeline import phrases_for, phrases_missing
from nmt.inference.terms import Terms
from tests.saved_models import write_folder


def found(text, *terms, language="", overlapping=False):
    return [terms[number] for number in Terms(terms, language).found(text, overlapping=overlapping)]


@pytest.mark.parametrize(
    "text",
    [
        *("w0 w1", "w0 w1.", "w1, w2", '"w1"', "(w1)", "[w1]", "«w1»", "„w1“", "¿w1?", "w0—w1—w2", "w0–w1", "w0/w1"),
        *("w0\u00a0w1\u202f!", "w0\u3000w1", "w0\tw1", "w0-w1", "w0\u2011w1", "l'w1", "l\u2019w1", "w1's"),
        *("w1\u2019s", "W1 w2", "the W1", "w1…", "w1\u2122", "w1\u00b2", "\u200bw1\u200b", "w\u00ad1", "w1:w2"),
        *("**w1**", "<b>w1</b>"),
    ],
)
def test_a_word_is_found_beside_any_sign(text):
    assert found(text, "w1") == ["w1"]


@pytest.mark.parametrize("text", ["w10", "w1x", "xw1", "w1_x", "w1\u0301", "w", "w 1", "", " ", "…", "3.w2"])
def test_a_part_of_a_word_is_none(text):
    assert found(text, "w1") == []


def test_words_of_a_term_stand_next_to_each_other():
    term = "next week"
    for text in (
        *("next week", "Next week!", "next\u00a0week", "next  week", "next-week", "NEXT WEEK, PLEASE", "Next Week"),
    ):
        assert found(text, term) == [term], text
    for text in ("week next", "next, week", "next. Week", "next the week", "next weekend", "anext week", "next (week"):
        assert found(text, term) == [], text
    assert found("an e-mail", "e\u2010mail") and found("an e\u2011mail", "e-mail")
    assert found("in New York-based", "new york")
    assert found("I don\u2019t know", "don't") and not found("I do not know", "don't")
    assert found("in C++.", "C++") and not found("in C.", "C++")
    assert found("the U.S. army", "U.S.") and not found("the U S army", "U.S.")
    assert found("5 km", "5 km") and not found("3.5 km", "5 km") and found("3,5 km", "3,5 km")


def test_capitals_within_a_word_stand_for_themselves():
    assert found("let us go", "US") == [] and found("in the US", "us") == []
    assert found("Us and them", "US") == [] and found("Us and them", "us") == ["us"]
    assert found("the US army", "US") == ["US"] and found("an iPhone", "iPhone") and not found("an iphone", "iPhone")
    assert found("der Mantel", "Mantel") and found("The Coat", "coat") and found("a coat", "Coat")
    assert found("THE COAT IS WET", "coat") and found("DER MANTEL", "Mantel") and found("THE US ARMY", "US")
    assert found("DIE STRASSE IST LANG", "Straße") and found("Die BAHN. fährt", "Bahn")
    assert not found("ask the WHO", "who")
    assert found("\u00c9tat et eau", "état") and found(unicodedata.normalize("NFD", "L'État"), "état")
    assert found("the \uff35\uff33 army", "US") == ["US"]
    assert found("\u1e9ealt", "\u1e9ealt") and found("ΟΔΟΣ ΜΕΓΑΛΗ", "οδός".replace("ό", "ο"))
    assert found("ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ.", "ᏣᎳᎩ") and found("საქართველო!", "საქართველო")


def test_letters_of_turkish_have_their_own_capitals():
    for language in ("tr", "az", "tr-TR"):
        assert found("İZİN VERİLDİ ONA", "izin", language=language) and found("Işık", "ışık", language=language)
        assert not found("IZIN VERDI ONA", "izin", language=language)
    assert found("IZIN VERDI ONA", "izin", language="en")


@pytest.mark.parametrize(
    "text, term, is_there",
    [
        ("我要去上海。", "上海", True),
        ("我要去上 海。", "上海", True),
        ("我要去海上。", "上海", False),
        ("新しいバスが来る", "バス", True),
        ("バスケットをする", "バス", False),
        ("スーパー・マーケット", "マーケット", True),
        ("東京へ行く", "東京", True),
        ("「東京」", "東京", True),
        ("ﾊﾞｽが来る", "バス", True),
        ("ฉันขึ้นรถไฟไปเชียงใหม่", "รถไฟ", True),
        ("ฉันกินข้าว", "ก", False),
        ("ไปเก", "ก", False),
        ("กา", "ก", False),
        ("ខ្ញុំទៅភ្នំពេញ", "ភ្នំ", True),
        ("ខ្មែរ", "ខ", False),
        ("ຂ້ອຍໄປວຽງຈັນ", "ວຽງຈັນ", True),
        ("ເກ", "ກ", False),
        ("ကျွန်တော်ရန်ကုန်သွားမယ်", "ရန်ကုန်", True),
        ("ရန်ကုန်", "ရ", False),
        ("ไป\u200bรถไฟ\u200bนะ", "รถไฟ", True),
        ("我用iPhone手机", "iPhone", True),
        ("我用iPhone手机", "手机", True),
        ("हिन्दी बोलो", "हिन्दी", True),
        ("हिन्दी बोलो", "हिन", False),
        ("किताब", "क", False),
        ("기차가 온다", "기차가", True),
    ],
)
def test_scripts_without_spaces_are_cut_into_syllables(text, term, is_there):
    assert found(text, term) == ([term] if is_there else [])


def test_the_longest_of_terms_that_overlap_wins():
    terms = ["train", "train station", "station", "the train station in town", "a b", "b c d"]
    assert found("the train station", *terms) == ["train station"]
    assert found("the train, station", *terms) == ["train", "station"]
    assert found("a train to the train station", *terms) == ["train", "train station"]
    assert found("in the train station in town", *terms) == ["the train station in town"]
    assert found("a b c d", *terms) == ["b c d"]
    assert found("the train station", *terms, overlapping=True) == ["train", "train station", "station"]
    assert found("上海市场", "上海", "海市", "上海市", "场") == ["上海市", "场"]


def test_of_terms_for_the_same_words_the_one_that_is_written_so_wins():
    assert found("Polish food", "polish", "Polish") == ["Polish"] and found("to polish", "Polish", "polish") == [
        "polish"
    ]
    assert found("to polish", "Polish") == ["Polish"]  # alone it is taken
    assert Terms(["coat", "coat", "Coat"]).found("a coat") == [0, 1]  # two translations of one term
    assert Terms(["New York", "new york"]).found("in New York") == [0]


def test_words_may_be_inflected_where_a_stemmer_is_installed():
    pytest.importorskip("snowballstemmer", reason="needs the extra [glossary]")
    for language, text, term in (
        ("en", "two trains.", "train"),
        ("en", "a train", "trains"),
        ("en", "the train stations", "train station"),
        ("en-GB", "two CEOs", "CEO"),
        ("de", "die Mäntel", "Mantel"),
        ("de", "des Mantels", "Mantel"),
        ("fr", "les chevaliers", "chevalier"),
        ("ru", "в поездах", "поезд"),
        ("en", "TWO TRAINS", "train"),
    ):
        assert found(text, term, language=language) == [term], text
        assert found(text, term) == []
    assert found("trains station", "train station", language="en") == []  # the last word alone
    assert found("let us use it", "US", language="en") == [] and found("as is", "a", language="en") == []
    assert found("trains", "train", "trains", language="en") == ["trains"]
    assert found("trains", "train", language="xx") == []


def test_stemmers_are_used_by_one_thread_at_a_time():
    pytest.importorskip("snowballstemmer", reason="needs the extra [glossary]")
    words = [f"{a}{b}ing" for a in ("train", "walk", "look", "sing") for b in "abcdefghij"] * 20
    expected = [module._stem(word, "english") for word in words]
    module._stem.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda word: module._stem(word, "english"), words)) == expected


def test_without_the_library_words_must_be_the_same(monkeypatch):
    monkeypatch.setattr(module, "_stemmer", lambda algorithm: None)
    module._stem.cache_clear()
    assert found("two trains", "train", language="en") == [] and found("a train", "train", language="en")
    module._stem.cache_clear()


def test_terms_that_are_none_occur_nowhere():
    assert found("a b", "", " ", "\u00ad") == []
    assert found("", "a") == []


def test_a_sentence_costs_the_same_however_many_terms_there_are(monkeypatch):
    """Each text was compared with each entry."""
    looks = []
    real = Terms._is_of_case
    monkeypatch.setattr(Terms, "_is_of_case", lambda self, *given: looks.append(given) or real(self, *given))
    index = Terms([*(f"term{number} {number}" for number in range(10_000)), "kara", "Kara mo"])
    assert index.found("kara mo and term77 77, term78 78") == [77, 78, 10_001] and len(looks) < 20


@pytest.mark.parametrize(
    "text", ["a " * 5000, "A " * 5000, "a" * 50_000, "上" * 10_000, "เ" * 9000, "က" * 9000, "- " * 9000]
)
def test_hostile_glossaries_end(text):
    """A thousand terms of the same words, and a text of them: steps, not seconds, are bounded by the words."""
    terms = ["a " * n for n in range(1, 60)] + ["".join(p) for p in ("a", "A")] * 400 + ["上" * n for n in range(1, 60)]
    assert Terms(terms).found(text) is not None


def test_a_model_of_lower_case_writes_its_terms_so(tmp_path):
    plain = Translator.load(write_folder(tmp_path / "plain"))
    lower = Translator.load(write_folder(tmp_path / "lower", side={"lowercase": True}))
    glossary = [("w1", "B"), ("US", "USA"), (".", "x"), ("two words", "c"), ("words", "d")]
    for translator in (plain, lower):
        for text in ("w0 w1.", "w1, w2", '"w1"', "(w1)", "W1 w2"):
            assert phrases_for(translator, text, glossary) == ["B"]
        assert phrases_for(translator, "us. Two words", glossary) == ["c"]
    assert phrases_missing(plain, ["USA", "B"], "b usa") == ["USA"]
    assert phrases_missing(lower, ["USA", "B"], "b usa") == []
