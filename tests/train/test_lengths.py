"""Updates, warm-up and validations by the size of the corpus."""

from dataclasses import dataclass

import pytest

from nmt.config import TrainingConfig, load_config
from nmt.errors import ConfigError
from nmt.train.planning.lengths import auto_lengths, doubts, fixed_training, validation_pairs
from tests.settings import settings_with
from tests.test_config import CONFIGS


@dataclass
class Batches:
    """A corpus of which no more is known than its updates."""

    count: int
    size: int = 1

    def num_updates(self, epoch=0):
        return self.count


def lengths(count, **settings):
    fixed = fixed_training(TrainingConfig(**settings), Batches(count))
    return fixed.updates, fixed.learning_rate_warmup, fixed.validation_freq


AUTO = {"updates": "auto", "learning_rate_warmup": "auto", "validation_freq": "auto"}


def test_the_recipe_is_what_was_tuned_by_hand():
    settings = load_config(CONFIGS / "multi30k_de_en.yaml").training
    fixed = fixed_training(settings, Batches(223))  # Multi30k with 8,000 subwords in batches of 2,048 tokens
    assert (fixed.updates, fixed.learning_rate_warmup, fixed.validation_freq) == (2800, 200, 350)
    assert auto_lengths(settings, fixed, Batches(223)) == (
        "auto: updates 2,800, learning_rate_warmup 200, validation_freq 350; 223 updates per epoch"
    )


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, (50, 3, 25)),  # no more than epochs allow
        (12, (500, 35, 62)),
        (53, (700, 50, 87)),
        (1500, (18_800, 1342, 2350)),
    ],
)
def test_by_the_size_of_the_corpus(count, expected):
    assert lengths(count, scheduling="linear", **AUTO) == expected


@pytest.mark.parametrize(
    ("pairs", "tokens", "between", "expected"),
    [
        (1014, 15_000, 350 * 2000, 1014),  # Multi30k: a tenth of the time is enough for all of them
        (7283, 160_000, 250 * 900, 426),  # 4,600 pairs of talks with a long validation text
        (996, 20_000, 10 * 900, 50),  # not fewer than that
        (30, 600, 900, 30),
        (996, 20_000, 10**9, 996),
    ],
)
def test_validations_take_about_a_tenth_of_the_time(pairs, tokens, between, expected):
    config = load_config(CONFIGS / "multi30k_de_en.yaml", ["decoding.beam_size=5"])
    found = validation_pairs(config, pairs, tokens, between)
    assert found == expected
    slower = load_config(CONFIGS / "multi30k_de_en.yaml", ["decoding.beam_size=20"])
    assert min(pairs, 50) <= validation_pairs(slower, pairs, tokens, between) <= found


@pytest.mark.parametrize(("setting", "expected"), [("null", 1000), ("300", 300), ("3000", 1000)])
def test_the_number_of_validation_pairs_may_be_given(setting, expected):
    config = load_config(CONFIGS / "multi30k_de_en.yaml", [f"training.validation_pairs={setting}"])
    assert validation_pairs(config, 1000, 20_000, 1.0) == expected


@pytest.mark.parametrize(("epochs", "count", "updates"), [(40, 50, 2000), (40, 3, 500), (0.5, 5000, 2500)])
def test_epochs_are_what_auto_takes(epochs, count, updates):
    assert lengths(count, scheduling="linear", auto_epochs=epochs, **AUTO)[0] == min(updates, 50 * count)


def test_numbers_stay_and_the_rest_follows_them():
    assert lengths(100, scheduling="linear", **AUTO | {"updates": 800}) == (800, 57, 100)
    assert lengths(100, **AUTO | {"updates": None}) == (None, 50 * 100 // 14, 100)
    assert lengths(5000, validation_freq="auto") == (None, 0, 2000)
    assert lengths(100, updates=7, learning_rate_warmup=3, validation_freq=9) == (7, 3, 9)
    assert lengths(1, epochs=1, scheduling="inverse_square_root", **AUTO) == (1, 1, 1)
    assert lengths(1, epochs=1, scheduling="linear", **AUTO) == (1, 0, 1)


def test_a_warm_up_that_is_longer_than_the_corpus_allows():
    with pytest.raises(ConfigError, match=r"learning_rate_warmup must be below the 500 updates .* got 600; write auto"):
        lengths(12, scheduling="linear", updates="auto", learning_rate_warmup=600)


@pytest.mark.parametrize(("updates", "every"), [(20, 20), (30, 25), (200, 25), (400, 50), (500, 62)])
def test_a_short_run_does_not_validate_all_the_time(updates, every):
    assert lengths(100, updates=updates, validation_freq="auto")[2] == every


def told(training=None, **model):
    config = settings_with(training=training or {}, model=model)
    return doubts(config, fixed_training(config.training, Batches(100)))


def test_a_warm_up_that_never_ends_and_a_method_without_dropout_are_doubted():
    (line,) = told({"learning_rate_warmup": 1_000_000, "updates": 10, "scheduling": "constant"})
    assert line.startswith("warning: training.learning_rate_warmup is 1,000,000") and "1e-05" in line
    assert not told({"learning_rate_warmup": 10, "updates": 10, "scheduling": "constant"})
    (line,) = told({"r_drop": 5.0})
    assert line.startswith("warning: training.r_drop is 5, and no dropout is set")
    assert not told({"r_drop": 5.0}, decoder={"hidden_dropout": 0.1})
    assert not told({"r_drop": 5.0}, encoder={"embeddings": {"dropout": 0.1}})


def test_what_is_no_auto_is_not_told():
    settings = TrainingConfig(validation_freq=3)
    assert auto_lengths(settings, fixed_training(settings, Batches(9)), Batches(9)) is None
