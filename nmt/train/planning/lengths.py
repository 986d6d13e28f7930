"""The duration of a run that depends on the corpus: numbers for `updates: auto` and similar settings.

The numbers follow the Multi30k recipe, which was tuned by hand (29,000 pairs, 223 updates per epoch): 2,800 updates,
200 of them for warm-up, a validation after every 350. Other corpora get the same number of epochs, unless the settings
give another one (`training.auto_epochs`), and the same proportions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from nmt.config import Config, FixedTraining, TrainingConfig
from nmt.config.training_section import TO_ZERO
from nmt.errors import ConfigError
from nmt.train.updates.dealing import Dealing
from nmt.train.updates.schedule import Schedule

if TYPE_CHECKING:
    from nmt.train.distributed.ranks import Ranks
    from nmt.train.tasks.task import Task


LEAST_UPDATES = 500
"""The least number of updates for `updates: auto`: even a small corpus needs that many to train a model."""
WARMUP_SHARE = 14
VALIDATIONS = 8
_FEW_TOKENS = 256
"""Tokens of a batch below which batch_size was probably meant to count sentences."""
_DROPS = ("dropout", "zoneout")
VALIDATION_SHARE = 0.1
"""The share of the time between two validations that a validation takes with `validation_pairs: auto`."""
LEAST_PAIRS = 50
"""The fewest pairs that `validation_pairs: auto` chooses: the score of fewer would say little."""
_LOSS_COST, _BEAM_COST = 0.4, 0.4
"""The time of validation by target token, relative to training: of loss and encoder, and of the search, by its beam."""
LEAST_BETWEEN = 25
"""The fewest updates between validations: a short run would otherwise mostly validate."""
MOST_BETWEEN = 2000
"""The most updates between validations if the settings limit epochs or time, but not updates."""


def fixed_training(settings: TrainingConfig, dealing: Dealing) -> FixedTraining:
    """Return the settings with numbers for updates, warm-up and validation_freq for this corpus and these batches, and
    the learning rate scaled to the batches per update. Raises ConfigError if the warm-up is longer than the run."""
    a_pass = dealing.num_updates(1)
    at_most = settings.epochs * a_pass
    updates = settings.updates
    if updates == "auto":
        updates = min(at_most, usual_updates(settings, a_pass))
    warmup: int | str = settings.learning_rate_warmup
    if not isinstance(warmup, int):
        least = 1 if settings.scheduling == "inverse_square_root" else 0
        warmup = max(least, min(at_most, updates or at_most) // WARMUP_SHARE)
    every = settings.validation_freq
    if every == "auto":
        every = max(1, min(a_pass, MOST_BETWEEN))
        if updates:
            every = max(updates // VALIDATIONS, min(updates, LEAST_BETWEEN))
    if settings.scheduling in TO_ZERO and updates is not None and updates <= warmup:
        raise ConfigError(
            f"training.learning_rate_warmup must be below the {updates} updates that this corpus gets with updates: "
            f"auto, got {warmup}; write auto"
        )
    rate = settings.learning_rate * rate_factor(settings.learning_rate_scaling, dealing.size)
    numbers = {"updates": updates, "learning_rate_warmup": warmup, "validation_freq": every, "learning_rate": rate}
    return FixedTraining.model_validate(settings.model_dump() | numbers)


def usual_updates(settings: TrainingConfig, a_pass: int) -> int:
    """Return the updates that make `auto_epochs` over a corpus of `a_pass` updates, to the nearest hundred."""
    return max(LEAST_UPDATES, round(settings.auto_epochs * a_pass / 100) * 100)


def validation_pairs(config: Config, pairs: int, tokens: int, tokens_between: float) -> int:
    """Return the number of validation pairs that are read during training. `pairs`, `tokens`: the number of all
    validation pairs, and of their target tokens; `tokens_between`: target tokens of training between validations."""
    wanted = config.training.validation_pairs
    if wanted == "auto":
        cost = _LOSS_COST + _BEAM_COST * config.decoding.beam_size
        share = VALIDATION_SHARE * tokens_between / (cost * max(1, tokens))
        wanted = max(LEAST_PAIRS, int(share * pairs))
    return min(pairs, wanted or pairs)


def rate_factor(scaling: str, batches_an_update: int) -> float:
    """Return the factor for the learning rate if an update has several batches.

    linear: Goyal et al. 2017, section 2.1, for sgd; sqrt: Krizhevsky 2014, section 3.2, which keeps the variance of a
    step, and suits adam (Malladi et al. 2022).
    """
    return {"none": 1.0, "sqrt": math.sqrt(batches_an_update), "linear": float(batches_an_update)}[scaling]


def auto_lengths(settings: TrainingConfig, fixed: FixedTraining, dealing: Dealing) -> str | None:
    """Return in words the numbers that replace each auto; None if there is none."""
    names = ("updates", "learning_rate_warmup", "validation_freq")
    chosen = [f"{name} {getattr(fixed, name):,}" for name in names if getattr(settings, name) == "auto"]
    count = dealing.num_updates(1)
    return f"auto: {', '.join(chosen)}; {count:,} update{'s' * (count > 1)} per epoch" if chosen else None


def doubts(config: Config, fixed: FixedTraining) -> list[str]:
    """Return warnings about settings that have no effect, or an unintended one, in a run of this length."""
    found = []
    if fixed.updates is not None and fixed.learning_rate_warmup > fixed.updates:
        found.append(
            f"training.learning_rate_warmup is {fixed.learning_rate_warmup:,}, and training.updates ends the run at "
            f"{fixed.updates:,}: the learning rate comes to {fixed.updates / fixed.learning_rate_warmup:.2g} of it"
        )
    training, sides = config.training, (config.model.encoder, config.model.decoder)
    drops = [training.src_word_dropout, training.tgt_word_dropout]
    for side in sides:
        values = {**side.to_dict(), "embeddings.dropout": side.embeddings.dropout}
        drops += [value for key, value in values.items() if key.endswith(_DROPS) and isinstance(value, float)]
    if fixed.r_drop and not any(drops):
        found.append(
            f"training.r_drop is {fixed.r_drop:g}, and no dropout is set: both readings of a batch are the same, which "
            "takes twice the time for nothing"
        )
    if training.batch_type == "token" and (size := training.batch_size) < _FEW_TOKENS:
        found.append(
            f"training.batch_size is {size} target tokens (subwords), a sentence or two of usual length; "
            "to count sentences set training.batch_type=sentence"
        )
    return [f"warning: {text}" for text in found]


class Plan(NamedTuple):
    """The numbers that depend on the corpus, the model and the machine."""

    dealing: Dealing
    """The corpus divided into updates, in each of which every rank computes the same number of batches."""
    settings: FixedTraining
    schedule: Schedule


def make_plan(config: Config, task: Task, ranks: Ranks, notify: Callable[[str], None]) -> Plan:
    """Return the plan of a run. `notify` receives a line about each number that replaces an auto."""
    parts = ranks.size * config.training.batch_multiplier
    dealing = Dealing(task.batches(config.training.batch_size), parts, config.seed, rank=ranks.rank, ranks=ranks.size)
    settings = fixed_training(config.training, dealing)
    if chosen := auto_lengths(config.training, settings, dealing):
        notify(chosen)
    return Plan(dealing, settings, Schedule(settings))
