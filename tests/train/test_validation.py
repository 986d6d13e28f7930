"""What counts as better."""

import math

import pytest

from nmt.train.tasks.validation import is_better


@pytest.mark.parametrize(
    ("metric", "score", "best", "want"),
    [
        ("bleu", 30.1, 30.0, True),
        ("bleu", 29.9, 30.0, False),
        ("chrf", 30.1, 30.0, True),
        ("ppl", 4.0, 5.0, True),
        ("ppl", 6.0, 5.0, False),
        ("loss", math.nan, 5.0, False),
        ("loss", math.inf, 5.0, False),
    ],
)
def test_is_better(metric: str, score: float, best: float, want: bool) -> None:
    others = {"loss": 1.0} if metric != "loss" else {}
    assert is_better(metric, {**others, metric: score}, {**others, metric: best}) is want


def test_equal_scores_are_ranked_by_loss() -> None:
    best = {"bleu": 100.0, "loss": 0.2}
    assert is_better("bleu", {"bleu": 100.0, "loss": 0.1}, best)
    assert not is_better("bleu", {"bleu": 100.0, "loss": 0.2}, best)


@pytest.mark.parametrize(
    ("metric", "score", "best", "loss", "want"),
    [
        ("bleu", 0.1, 0.9, 6.1, True),  # noise: the lower loss counts
        ("bleu", 0.9, 0.1, 6.3, False),
        ("bleu", 1.1, 0.9, 6.3, True),
        ("bleu", 0.9, 1.1, 6.1, False),
        ("chrf", 0.9, 0.1, 6.3, True),
    ],
)
def test_bleu_that_is_noise_is_not_compared(metric: str, score: float, best: float, loss: float, want: bool) -> None:
    assert is_better(metric, {metric: score, "loss": loss}, {metric: best, "loss": 6.2}) is want


def test_the_first_is_best_unless_it_is_no_number() -> None:
    assert is_better("loss", {"loss": 9.0}, {})
    assert not is_better("bleu", {"bleu": math.nan, "loss": math.nan}, {})
