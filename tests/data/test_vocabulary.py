"""Vocabularies of listed units: cut, numbered, joined again; and their files."""

import json

import pytest

from nmt.data.tokens.factors import read_subwords
from nmt.data.tokens.subwords import SPECIAL_PIECES
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import DataError


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
    units = ["low@@", "er", "low", "n@@", "e@@", "w"]
    cut = Vocabulary(units, merges=merges)
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
    with pytest.raises(DataError, match="a part of one"):
        read_subwords(Vocabulary(["a"]).model_bytes[:-3])
