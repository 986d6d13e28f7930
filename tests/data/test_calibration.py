"""A confidence that is a probability: words and pairs that training had, and what the validation text says of them."""

import numpy as np
import pytest

from nmt.data.calibration import KEPT, LEAST_PAIRS, calibrated, learn_known, least_of
from nmt.data.corpora.readers import TokenRows
from nmt.data.tokens.subwords import train_subwords
from nmt.special_tokens import UNK_ID

TRAINED = ["kara losu, miti", "losu karamiti", "日本語 kara"]
SUBWORDS = train_subwords([*TRAINED, "(Kara) 1950 KARAMITI."] * 50, type="bpe", vocab_size=60)


def rows_of(*lines: str) -> list[list[int]]:
    return SUBWORDS.encode(lines)


def known(*lines: str):
    return learn_known(SUBWORDS, TokenRows.from_lists(rows_of(*lines)))


def unseen(line: str) -> list[str]:
    (row,), (pieces,) = rows_of(line), SUBWORDS.cut([line])
    (found,) = known(*TRAINED).unseen([row])
    return ["".join(pieces[one]).replace("▁", "") for one in found]


@pytest.mark.parametrize(
    "line, expected",
    [
        ("kara losu, miti", []),
        ("miti kara (losu)", []),  # signs belong to no word
        ("Kara, mitikara. KARAMITI 1950", ["mitikara"]),
        ("lo su", ["lo", "su"]),  # parts of words that training had are other words
        ("kara żołw", ["żołw"]),  # with letters that no text has
        ("日本語", []),
        ("", []),
    ],
)
def test_words_that_training_never_had(line: str, expected: list[str]) -> None:
    assert unseen(line) == expected
    assert (UNK_ID in rows_of(line)[0]) == ("ż" in line), "unknown units are new"


def test_words_of_many_rows_are_those_of_each() -> None:
    lines = ["miti", "", "kara mitikara", "losu"]
    together = known(*TRAINED).unseen(rows_of(*lines))
    assert together == [known(*TRAINED).unseen(rows_of(line))[0] for line in lines]


def test_chances_are_those_of_the_validation_text() -> None:
    rng = np.random.default_rng(1)
    count = 4000
    rows = rows_of(*(" ".join(rng.choice(["kara", "losu", "mitikara"], 6)) for _ in range(count)))
    log_probs, lengths = -rng.gamma(2.0, 3.0, count), rng.integers(4, 9, count)
    scores = np.clip(90 + 12 * log_probs / lengths + rng.normal(0, 15, count), 0, 100)
    half = count // 2
    found = calibrated(known(*TRAINED), rows[:half], log_probs[:half], lengths[:half], scores[:half], KEPT)
    assert found is not None
    chances, kept = found.chances(rows[half:], log_probs[half:], lengths[half:]), scores[half:] >= KEPT
    for part in np.array_split(np.argsort(chances), 5):
        assert chances[part].mean() == pytest.approx(kept[part].mean(), abs=0.06)
    assert chances.tolist() == [
        pytest.approx(found.chances([row], [one], [length])[0])
        for row, one, length in zip(rows[half:], log_probs[half:], lengths[half:], strict=True)
    ]
    assert 0 < found.usual < 1


def test_a_text_of_which_nothing_is_kept_has_an_order() -> None:
    log_probs = -np.arange(1.0, 1 + LEAST_PAIRS)
    rows, lengths = rows_of("kara losu") * LEAST_PAIRS, [3] * LEAST_PAIRS
    scores = 30 + log_probs / 3 + np.random.default_rng(1).normal(0, 9, LEAST_PAIRS)
    found = calibrated(known(*TRAINED), rows, log_probs, lengths, scores, KEPT)
    assert found is not None
    chances = found.chances(rows, log_probs, lengths)
    assert np.all(np.diff(chances) < 0) and chances.max() < 0.1
    assert calibrated(found, rows[1:], log_probs[1:], lengths[1:], log_probs[1:], KEPT) is None


@pytest.mark.parametrize(
    "references, least",
    [(["a man", "two dogs run"], KEPT), (["k a r a", "l o s u"], 100), (["kara", "losu miti", "su"], 100)],
)
def test_words_must_be_the_same(references: list[str], least: float) -> None:
    assert least_of(references) == least
