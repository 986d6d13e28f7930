"""What is held out is never trained on, in whatever order texts come."""

import random

from nmt.studio.preparing import KINDS, MOST, HeldOut, key_of
from tests.studio.studios import pairs


def rounds(folder, texts, sources=0):
    """The held-out pairs and the training texts of rounds, each with one text more."""
    held, together, trained = None, [], []
    for text in texts:
        together += text
        held = HeldOut(folder)
        held.grow(together)
        trained.append(held.without(together, sources))
    return held.pairs, trained


def test_three_rounds_in_any_order_train_on_nothing_held_out(tmp_path):
    texts = [pairs(700), pairs(900, start=500), [(a.upper() + "!", b) for a, b in pairs(500, start=100)]]
    kept = []
    for number, order in enumerate(((0, 1, 2), (2, 1, 0), (1, 2, 0))):
        held, trained = rounds(tmp_path / str(number), [texts[place] for place in order])
        keys = {key_of(pair[0]) for kind in KINDS for pair in held[kind]}
        assert not keys & {key_of(pair[0]) for text in trained for pair in text}
        kept.append({kind: {key_of(pair[0]) for pair in held[kind]} for kind in KINDS})
        assert len(trained[-1]) > 0.85 * 1900
    assert kept[0] == kept[1] == kept[2]
    assert all(40 <= len(one) <= 120 for one in kept[0].values())


def test_a_word_is_held_out_with_all_its_forms(tmp_path):
    """Of other forms a test would be too easy: the page speaks of words that were never seen."""
    texts = [(f"go{n} +V +{form}", f"{form}went{n}") for n in range(200) for form in ("PST", "PRS")]
    held, (trained,) = rounds(tmp_path, [texts])
    words = {pair[0].split()[0] for kind in KINDS for pair in held[kind]}
    assert len(words) >= 20 and not words & {pair[0].split()[0] for pair in trained}


def test_few_pairs_have_a_test_and_many_no_more_than_needed(tmp_path):
    random_ = random.Random(0)
    for count, tests in ((40, 10), (100, 20), (390, 20)):
        held, (trained,) = rounds(tmp_path / str(count), [pairs(count)])
        assert tests <= len(held["test"]) <= tests + 12 and len(trained) + len(held["test"]) + len(held["dev"]) == count
    first = pairs(30_000)
    random_.shuffle(first)
    held, trained = rounds(tmp_path / "many", [first, pairs(30_000, start=30_000)])
    assert all(len(held[kind]) == MOST for kind in KINDS) and len(trained[1]) == 60_000 - 2 * MOST


def test_the_other_direction_trains_on_no_held_out_source(tmp_path):
    text = [*pairs(600), *((f"Anders gesagt {number}", b) for number, (_, b) in enumerate(pairs(600)))]
    held, (trained,) = rounds(tmp_path, [text], sources=1)
    assert not {pair[1] for kind in KINDS for pair in held[kind]} & {pair[1] for pair in trained}
