"""Subwords whose number and kind the text decides."""

import pytest

from nmt.config import SubwordsConfig
from nmt.data.tokens.subwords import VocabularyError, auto_subwords, auto_vocab_size, train_subwords, words_of
from tests.data.corpora import sentences


def chosen(text, **settings):
    said = []
    found = auto_subwords(SubwordsConfig(**settings), lambda: iter(text), said.append)
    return found, said


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
    text = [chr(0x4E00 + n) + chr(0x4E00 + (n * 7) % 1500) for n in range(1500)] * 2
    found, _ = chosen(text, type="bpe")
    assert found.vocab_size > 1500


@pytest.mark.parametrize("type", ["char", "word"])
def test_letters_and_words_are_all_taken(type):
    text = ["ab cd", "cd e"]
    found, _ = chosen(text, type=type)
    assert found.encode(text) == train_subwords(text, type=type, vocab_size=100).encode(text)


def test_a_number_that_the_text_does_not_hold_is_an_error_that_says_what_to_write():
    with pytest.raises(VocabularyError, match=r"at most \d+ for this text, got 8000; .*: write \d+, or auto"):
        chosen(sentences(400), vocab_size=8000)
