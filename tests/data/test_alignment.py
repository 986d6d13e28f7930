"""Alignments of words made from attention between subwords."""

import numpy as np
import pytest

from nmt.data.alignment.word_alignment import (
    hard_alignment,
    never_attended,
    pharaoh,
    soft_alignment,
    with_unknown_replaced,
    words_of,
)


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["▁a", "b", "▁c"], [0, 0, 1]),
        (["a", "▁b"], [0, 1]),
        (["▁", "x", "▁", "y", "z"], [0, 0, 1, 1, 1]),
        (["▁a", "▁"], [0, 0]),
        (["▁", "▁a"], [0, 0]),
        ([], []),
    ],
)
def test_words_are_what_spaces_divide(pieces, words):
    assert words_of(pieces) == words
    assert max(words, default=-1) + 1 == len("".join(pieces).replace("▁", " ").split())


WEIGHTS = np.array([[0.6, 0.1, 0.2, 0.1], [0.1, 0.2, 0.6, 0.1], [0.0, 0.1, 0.0, 0.9], [0.2, 0.5, 0.0, 0.3]])


def test_hard_alignment_takes_the_most_attended_subword_and_leaves_eos_out():
    pairs = hard_alignment(WEIGHTS, [0, 0, 1], [0, 1, 2])
    assert pairs == [(0, 0), (1, 1)]
    assert pharaoh(pairs) == "0-0 1-1"
    assert hard_alignment(np.zeros((0, 4)), [0, 0, 1], []) == []


def test_words_that_got_hardly_any_attention():
    assert never_attended(np.array([[0.97, 0.02, 0.0, 0.01], [0.0, 0.05, 0.05, 0.9]]), [0, 1, 1]) == []
    assert never_attended(np.array([[0.97, 0.02, 0.0, 0.01], [0.0, 0.0, 0.05, 0.95]]), [0, 1, 1]) == [1]
    assert never_attended(np.zeros((0, 3)), [0, 1]) == [0, 1]


def test_unknown_subwords_become_source_words_once_each():
    weights = np.eye(4)[[1, 0, 0, 2]]
    pieces = ["▁the", "<unk>", "<unk>", "<unk>"]
    found = with_unknown_replaced(pieces, [False, True, True, True], weights, "Bob liest Joyce", [0, 1, 2])
    assert found == ["▁the", "▁Bob", "▁Joyce"]
    found = with_unknown_replaced(["▁", "<unk>"], [False, True], weights[:2], "Bob", [0])
    assert found == ["▁", "Bob"]


def test_no_break_spaces_are_a_part_of_their_word():
    pieces, source = ["▁à", "<unk>"], "le prix est 10\u202f000\u00a0€ à Paris"
    weights = np.eye(6)[[4, 5]]
    assert with_unknown_replaced(pieces, [False, True], weights, source, list(range(6))) == ["▁à", "▁Paris"]
    assert with_unknown_replaced(pieces[1:], [True], np.eye(6)[[3]], source, list(range(6))) == ["▁10\u202f000\u00a0€"]


def test_soft_alignment_between_words():
    """Source words of 2, 1 and 2 subwords, target words of 1 and 2; the end of the target left out."""
    weights = np.array(
        [[0.1, 0.2, 0.3, 0.1, 0.1, 0.2], [0.5, 0, 0, 0.5, 0, 0], [0, 0, 0, 0, 0, 1.0], [1, 0, 0, 0, 0, 0]]
    )
    found = soft_alignment(weights, [0, 0, 1, 2, 2], [0, 1, 1])
    assert found == pytest.approx(np.array([[0.3, 0.3, 0.2, 0.2], [0.25, 0, 0.25, 0.5]]))
    assert soft_alignment(np.ones((1, 1)), [], [0]).tolist() == [[1.0]]
    assert soft_alignment(np.zeros((1, 3)), [0, 1], []).shape == (0, 3)


def test_unknown_subwords_become_what_the_dictionary_says():
    weights = np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.2, 0.8, 0.0]])
    pieces, unknown = ["<unk>", "▁is", "<unk>"], [True, False, True]
    words = {"anna": "Ann", "Bonn": "Bonn-on-Rhine"}
    found = with_unknown_replaced(pieces, unknown, weights, "Anna Bonn", [0, 1], words)
    assert found == ["▁Ann", "▁is", "▁Bonn-on-Rhine"]
    assert with_unknown_replaced(pieces, unknown, weights, "Anna Bonn", [0, 1]) == ["▁Anna", "▁is", "▁Bonn"]
