"""Subwords of words that have factors behind them."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from nmt.config import config_from_dict
from nmt.data.corpora.corpus import clean_line, clean_lines
from nmt.data.corpora.prepare import load_sides
from nmt.data.tokens.characters import capitals_of, lowered, titled
from nmt.data.tokens.factors import FactoredSubwords, FactorError, learn_factors, read_subwords
from nmt.data.tokens.subwords import SPECIAL_PIECES, Subwords, train_subwords
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import ConfigError, DataError
from nmt.special_tokens import EOS_ID, UNK_ID
from tests.refusals import refused
from tests.settings import changed, texts_in

WORDS = ["house", "houses", "small", "smaller", "run", "runs", "running", "the", "a|b"]
TAGS, NUMBERS = ["NOUN", "VERB", "ADJ"], ["sg", "pl"]


def sentences(count: int, seed: int = 1, separator: str = "|") -> list[str]:
    rng = random.Random(seed)

    def word() -> str:
        return separator.join(rng.choice(parts) for parts in (WORDS, TAGS, NUMBERS))

    return [" ".join(word() for _ in range(rng.randint(1, 6))) for _ in range(count)]


@pytest.fixture(scope="module", params=["bpe", "unigram", "char", "word"])
def words(request: Any) -> Subwords:
    text = [" ".join(word.rsplit("|", 2)[0] for word in line.split()) for line in sentences(300)]
    sizes = {"bpe": 30, "unigram": 26, "char": 40, "word": 20}
    return train_subwords(text, type=request.param, vocab_size=sizes[request.param])


def test_units_are_those_of_the_words_and_each_has_its_words_factors(words: Subwords) -> None:
    text = sentences(300)
    found = learn_factors(words, text, 2, "|")
    V, (F, G) = found.vocab_size, found.factor_sizes
    assert (V, F, G) == (words.vocab_size, 5, 4)
    for line, ids in zip(text, found.encode(text), strict=True):
        parts = [word.rsplit("|", 2) for word in line.split()]
        assert found.unit_ids(ids) == words.encode([" ".join(word for word, *_ in parts)])[0]
        expected = []
        for word, tag, number in parts:
            pair = found.values[0].index(tag) + 2, found.values[1].index(number) + 2
            expected += [pair] * len(words.encode([word])[0])
        assert [(number // V % F, number // V // F) for number in ids] == expected
        assert found.decode([ids]) == words.decode([found.unit_ids(ids)])
        assert found.pieces(ids) == words.pieces(found.unit_ids(ids))
        assert found.cut([line])[0] == words.cut([found.bare(line)])[0]
    assert found.encode(["", "house|NOUN|dual"])[0] == []
    assert {number // V // F for number in found.encode(["house|NOUN|dual"])[0]} == {1}, "an unknown value"
    assert {number // V % F for number in found.encode(["house|X|sg"])[0]} == {1}
    assert all(number > EOS_ID for number in found.encode(["house|NOUN|sg"])[0])


def test_frequent_values_come_first_and_rare_ones_are_unknown() -> None:
    found = learn_factors(Vocabulary(["a"]), ["a|X a|Y a|Y", "a|Z a|Y a|X"], 1, "|")
    assert found.values == [["Y", "X"]]
    assert found.encode(["a|Z b|Y"]) == [[4 + 5 * 1, UNK_ID + 5 * 2]]


@pytest.mark.parametrize("bad", ["house", "house|NOUN", "a house|NOUN|sg", "|NOUN|sg", "house||sg", "house|NOUN|"])
def test_a_word_without_its_factors_is_told(bad: str) -> None:
    found = FactoredSubwords(Vocabulary(WORDS), [TAGS, NUMBERS], "|")
    with pytest.raises(FactorError, match=r"sentence 2: each word must have 2 factors behind it, word\|FACTOR\|FACTOR"):
        found.encode(["house|NOUN|sg", bad])


def test_bytes_round_trip_and_damaged_ones_are_a_line() -> None:
    found = FactoredSubwords(Vocabulary(WORDS), [TAGS, NUMBERS], "￨")
    again = read_subwords(found.model_bytes)
    assert isinstance(again, FactoredSubwords)
    assert again.model_bytes == found.model_bytes
    assert again.encode(["run￨VERB￨sg"]) == found.encode(["run￨VERB￨sg"])
    assert repr(again) == "FactoredSubwords(13 units, values 5, 4)"
    values = json.loads(found.model_bytes)
    for changes in (
        *({"nmt_factors": 2}, {"separator": ""}, {"words": "!"}, {"words": 3}),
        *({"values": wrong} for wrong in ([["a", "a"]], [1], [[1]], [[""]])),
    ):
        with pytest.raises(DataError, match="src.spm: must be subwords with factors, got .*; restore a copy"):
            read_subwords(json.dumps({**values, **changes}).encode(), "src.spm")
    refused(DataError, "src.spm: must be subwords with factors", read_subwords, found.model_bytes[:-9], "src.spm")


def test_more_combinations_than_numbers_are_refused() -> None:
    many = [str(n) for n in range(2000)]
    with pytest.raises(DataError, match="data.src_factors: must have fewer than 2,147,483,648 combinations"):
        FactoredSubwords(Vocabulary(["a"]), [many, many, many], "|")


def settings(**changes: Any) -> dict[str, Any]:
    data = texts_in(Path(), src_factors=["pos", "number"], subwords={"type": "word", "vocab_size": 30, "joint": False})
    values = {"model_dir": "unused", "data": data, "model": {"encoder": {"factors": [4, 3]}}}
    return changed(values, ((key.replace("__", "."), value) for key, value in changes.items()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model__encoder__factors": [4]}, r"model.encoder.factors must be 2 sizes, one for each of .*, got 1"),
        ({"data__src_factors": []}, r"model.encoder.factors must be 0 sizes, one for each of .*, got 2"),
        ({"data__subwords__joint": True}, "data.subwords.joint must be false with data.src_factors"),
        ({"model__encoder__type": "conv"}, "model.encoder.type must be recurrent with data.src_factors"),
        ({"training__guided_alignment": 0.5}, "training.guided_alignment must be 0 with data.src_factors"),
        ({"data__train": [{"path": "a", "tag": "<x>"}]}, "data.train must have no tags with data.src_factors"),
        ({"training__extend_vocabulary": 5, "training__load_model": "x"}, "extend_vocabulary must be 0 with data.src_"),
    ],
)
def test_what_they_do_not_go_with(changes: dict[str, Any], message: str) -> None:
    refused(ConfigError, message, config_from_dict, settings(**changes))


def test_a_line_of_training_text_is_named(tmp_path: Any) -> None:
    (tmp_path / "train.xx").write_text("the|ADJ|sg house|NOUN|sg\nthe|ADJ|sg house\n")
    (tmp_path / "train.yy").write_text("das Haus\ndas Haus\n")
    config = config_from_dict(settings(data__train=str(tmp_path / "train")))
    refused(DataError, r"train, source line 2: each word must have 2 factors .* got 'house'", load_sides, config.data)


def test_words_and_characters_come_back():
    words, letters = Vocabulary(["a", "dog"]), Vocabulary(list("ab "), split="characters")
    assert words.encode(["a dog", "", "dog cat  a"]) == [[4, 5], [], [5, 1, 4]]
    assert words.decode([[4, 5, 3], [], [1, 2, 5]]) == ["a dog", "", "dog"]
    assert letters.encode(["ab b", "x"]) == [[4, 5, 6, 5], [1]]
    assert letters.decode([[4, 5, 6, 5]]) == ["ab b"]


def test_neighbouring_unknown_units_are_as_many_tokens():
    assert Vocabulary(["a"]).encode(["x y a z"]) == [[1, 1, 4, 1]]
    assert Vocabulary(["a"], split="characters", unknown="left_out").encode(["xaay"]) == [[4, 4]]


def test_pieces_start_words_and_there_are_as_many_as_ids():
    words = Vocabulary(["a", "b"])
    assert words.pieces([4, 1, 3]) == ["\u2581a", *(SPECIAL_PIECES[n] for n in (1, 3))]
    assert words.cut(["a x"]) == [["\u2581a", "\u2581x"]]
    assert words.join(["\u2581a", "\u2581x"]) == "a x"


def test_merges_are_learned_order_first():
    # By hand: l o w e r</w> -> lo w e r</w> -> low e r</w> -> low er</w>; unmerged letters stay apart.
    merges = [("l", "o"), ("lo", "w"), ("e", "r</w>")]
    cut = Vocabulary(["low@@", "er", "low", "n@@", "e@@", "w"], merges=merges)
    assert cut.encode(["lower new"]) == [[4, 5, 7, 8, 9]]
    assert cut.decode([[4, 5, 7, 8, 9]]) == ["lower new"]
    assert cut.cut(["lower new"]) == [["\u2581low@@", "er", "\u2581n@@", "e@@", "w"]]


def test_a_vocabulary_comes_back_from_its_bytes():
    found = Vocabulary(["\u00e4", "b"], split="characters", unknown="left_out", merges=[("a", "b")])
    again = read_subwords(found.model_bytes)
    assert isinstance(again, Vocabulary)
    assert again.model_bytes == found.model_bytes
    assert again.encode(["b\u00e4c"]) == [[5, 4]]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"nmt_vocabulary": 2}, "another version"),
        ({"units": ["a", "a"]}, "a unit twice"),
        ({"units": [1]}, "units that are not texts"),
        ({"units": ["\ud800"]}, "units that are not texts"),
        ({"split": "x"}, "no known way to split"),
        ({"merges": [["a"]]}, "merges that are not pairs"),
    ],
)
def test_damage_is_one_line(change, line):
    values = json.loads(Vocabulary(["a"]).model_bytes) | change
    with pytest.raises(DataError, match=f"model.spm: must be a vocabulary, got .*{line}"):
        read_subwords(json.dumps(values).encode(), "model.spm")


def test_a_part_is_one_line():
    refused(DataError, "a part of one", read_subwords, Vocabulary(["a"]).model_bytes[:-3])


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
