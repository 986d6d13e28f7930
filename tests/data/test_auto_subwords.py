"""Subwords whose number and kind the text decides."""

import numpy as np
import pytest

from nmt.config import SubwordsConfig
from nmt.data.tokens.extension import extended, parts_of_new, with_means
from nmt.data.tokens.subwords import VocabularyError, auto_subwords, auto_vocab_size, train_subwords, words_of
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import ConfigError
from nmt.special_tokens import UNK_ID
from tests.data.corpora import sentences, small_subwords


def chosen(text, **settings):
    said = []
    return auto_subwords(SubwordsConfig(**settings), lambda: iter(text), said.append), said


@pytest.mark.parametrize(
    ("words", "size"),
    [(0, 1000), (99_999, 1000), (100_000, 2000), (667_000, 8000), (5_000_000, 16_000), (10**9, 32_000)],
)
def test_units_by_running_words(words, size):
    assert auto_vocab_size(words) == size


def test_text_without_spaces_has_words_too():
    assert words_of(["two words", "", "x" * 95]) == 2 + 0 + 9


def test_a_small_text_gets_all_it_holds():
    text = sentences(400)
    with pytest.raises(VocabularyError) as caught:
        train_subwords(text, type="bpe", vocab_size=1000)
    found, said = chosen(text)
    assert found.vocab_size == caught.value.most
    assert said == [f"subwords: bpe, a vocabulary of {found.vocab_size} (auto)"]
    alone, _ = chosen(text, type="unigram")
    assert alone.vocab_size < found.vocab_size


def test_the_same_as_with_the_number():
    text = sentences(400)
    auto, said = chosen(text, vocab_size=40)  # small enough for unigram
    assert auto.model_bytes == train_subwords(text, type="unigram", vocab_size=40).model_bytes
    assert said == ["subwords: unigram, a vocabulary of 40 (auto)"]
    plain, said = chosen(text, type="unigram", vocab_size=40)
    assert (plain.model_bytes, said) == (auto.model_bytes, [])


def test_many_characters_get_their_units_and_more():
    found, _ = chosen([chr(0x4E00 + n) + chr(0x4E00 + (n * 7) % 1500) for n in range(1500)] * 2, type="bpe")
    assert found.vocab_size > 1500


@pytest.mark.parametrize("type", ["char", "word"])
def test_letters_and_words_are_all_taken(type):
    text = ["ab cd", "cd e"]
    found, _ = chosen(text, type=type)
    assert found.encode(text) == train_subwords(text, type=type, vocab_size=100).encode(text)


def test_a_number_that_the_text_does_not_hold_is_an_error_that_says_what_to_write():
    with pytest.raises(VocabularyError, match=r"at most \d+ for this text, got 8000; .*: write \d+, or auto"):
        chosen(sentences(400), vocab_size=8000)


NEW = ["fjord wanderlust über zebra", "zebra über fjord", "wanderlust zebra", "the house"] * 40


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_new_units_shorten_the_text_and_former_ids_stay(kind):
    old = small_subwords(kind, 45)
    new = extended(old, lambda: NEW, 20, kind)
    added = new.pieces(range(45, new.vocab_size))
    assert 5 < len(added) <= 20 and new.pieces(range(45)) == old.pieces(range(45))
    assert set("üjz") <= set(added), "characters that were unknown come first"
    assert UNK_ID in old.encode(["zebra über fjord"])[0] and not any(UNK_ID in row for row in new.encode(NEW))
    assert sum(map(len, new.encode(NEW))) < sum(map(len, old.encode(NEW)))
    lines = sentences(50)
    assert new.decode(new.encode(lines + NEW)) == lines + NEW
    assert type(new)(new.model_bytes).encode(NEW) == new.encode(NEW)
    assert extended(old, lambda: NEW, 20, kind).model_bytes == new.model_bytes
    assert extended(old, lambda: NEW, 2, kind).vocab_size == 47


def test_a_new_unit_is_the_mean_of_its_parts():
    old = small_subwords()
    new = extended(old, lambda: NEW, 20, "unigram")
    parts = parts_of_new(old, new)
    assert len(parts) == new.vocab_size - 45
    table = np.random.default_rng(1).standard_normal((45, 3)).astype(np.float32)
    whole = with_means(table, parts)
    assert whole.shape == (new.vocab_size, 3) and whole.dtype == np.float32 and np.array_equal(whole[:45], table)
    several = 0
    for n, piece in enumerate(new.pieces(range(45, new.vocab_size))):
        if parts[n]:
            spelt = "".join(old.pieces(parts[n])).replace("▁", "")
            assert spelt == "".join(letter for letter in piece if letter not in "▁üjzf")
            np.testing.assert_allclose(whole[45 + n], table[parts[n]].mean(axis=0), rtol=1e-6)
            several += len(parts[n]) > 1
        else:
            np.testing.assert_allclose(whole[45 + n], table[4:].mean(axis=0), rtol=1e-6)
    assert several > 3
    assert with_means(table[:, 0], parts).shape == (new.vocab_size,)


@pytest.mark.parametrize(("kind", "size"), [("unigram", 52), ("bpe", 90)])
def test_capitals_start_as_the_lower_case_of_their_unit(kind, size):
    """A model of lower-cased text goes on with text that has capitals."""
    old = small_subwords(kind, size)
    lines = [line.title() for line in sentences(300)]
    new = extended(old, lambda: lines, 60, kind)
    parts = dict(zip(new.pieces(range(size, new.vocab_size)), parts_of_new(old, new), strict=True))
    longer = 0
    for piece, units in parts.items():
        assert units and UNK_ID not in units
        assert "".join(old.pieces(units)).replace("▁", "") == piece.replace("▁", "").lower()
        longer += piece != piece.lower() and len(piece) > 1
    assert longer > 1, "not only letters, pieces of words with capitals too"


def test_what_cannot_be_extended():
    with pytest.raises(ConfigError, match="vocabulary is a list of words or characters"):
        extended(Vocabulary(["a", "b"]), lambda: NEW, 3, "word")


def test_text_that_needs_nothing_adds_nothing():
    lines = sentences(400)
    old = train_subwords(lines, vocab_size=52)
    assert extended(old, lambda: lines, 50, "unigram").vocab_size == old.vocab_size
