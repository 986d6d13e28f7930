"""How long a run lasts, where its settings leave that to the corpus: numbers for `updates: auto` and the like.

The numbers are those of the Multi30k recipe, which was tuned by hand (29,000 pairs, 223 updates a pass): 2,800 updates,
200 of them to warm up, a validation after every 350. Other corpora get as many passes and the same shares of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nmt.config import FixedTraining
from nmt.config.training_section import TO_ZERO
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.config import Config, TrainingConfig
    from nmt.train.updates.dealing import Dealing

PASSES = 12.5
"""Passes over the corpus that `updates: auto` makes ..."""
LEAST_UPDATES = 500
"""... or so many updates where that is less: a model has to be found at all, however small the corpus is."""
WARMUP_SHARE = 14
VALIDATIONS = 8
_DROPS = ("dropout", "drop_connect", "zoneout")
LEAST_BETWEEN = 25
"""Updates from one validation to the next, however short the run is: else it would do little but validate."""
MOST_BETWEEN = 2000
"""Updates from one validation to the next, where no number of updates divides into VALIDATIONS parts."""


def fixed_training(settings: TrainingConfig, dealing: Dealing) -> FixedTraining:
    """Return the settings with numbers for updates, warm-up and validation_freq, for this corpus in these batches, and
    with the learning rate that goes with so many of them an update.

    Raises ConfigError: The learning rate's warm-up is longer than the run that the corpus allows.
    """
    a_pass = dealing.num_updates(1)
    at_most = settings.epochs * a_pass
    updates = _auto_updates(a_pass, at_most) if settings.updates == "auto" else settings.updates
    warmup = _warmup(settings, min(at_most, updates or at_most))
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


def rate_factor(scaling: str, batches_an_update: int) -> float:
    """Return what the learning rate is multiplied by where an update has several batches.

    linear: Goyal et al. 2017, section 2.1, for sgd; sqrt: Krizhevsky 2014, section 3.2, which keeps the variance of a
    step, and suits adam (Malladi et al. 2022).
    """
    return {"none": 1.0, "sqrt": math.sqrt(batches_an_update), "linear": float(batches_an_update)}[scaling]


def auto_lengths(settings: TrainingConfig, fixed: FixedTraining, dealing: Dealing) -> str | None:
    """In words what stands for every auto, None where there is none."""
    names = ("updates", "learning_rate_warmup", "validation_freq")
    chosen = [f"{name} {getattr(fixed, name):,}" for name in names if getattr(settings, name) == "auto"]
    return f"auto: {', '.join(chosen)}, by {dealing.num_updates(1):,} updates a pass" if chosen else None


def doubts(config: Config, fixed: FixedTraining) -> list[str]:
    """Return settings that do nothing, or not what they are for, in a run of this length."""
    found = []
    if fixed.updates is not None and fixed.learning_rate_warmup > fixed.updates:
        found.append(
            f"training.learning_rate_warmup is {fixed.learning_rate_warmup:,}, and training.updates ends the run at "
            f"{fixed.updates:,}: the learning rate comes to {fixed.updates / fixed.learning_rate_warmup:.2g} of it"
        )
    training, sides = config.training, (config.model.encoder, config.model.decoder)
    drops = [training.src_word_dropout, training.tgt_word_dropout, training.scheduled_sampling]
    for side in sides[config.task == "lm" :]:
        values = {**side.to_dict(), "embeddings.dropout": side.embeddings.dropout}
        drops += [value for key, value in values.items() if key.endswith(_DROPS) and isinstance(value, float)]
    if fixed.r_drop and not any(drops):
        found.append(
            f"training.r_drop is {fixed.r_drop:g}, and no dropout is set: both readings of a batch are the same, which "
            "takes twice the time for nothing"
        )
    return [f"warning: {text}" for text in found]


def _auto_updates(a_pass: int, at_most: int) -> int:
    return min(at_most, max(LEAST_UPDATES, _rounded(PASSES * a_pass)))


def _warmup(settings: TrainingConfig, updates: int) -> int:
    """Return the configured number of updates of warm-up, or that of `auto`: a share of all updates."""
    if isinstance(settings.learning_rate_warmup, int):
        return settings.learning_rate_warmup
    least = 1 if settings.scheduling in ("inverse_square_root", "noam") else 0
    return max(least, updates // WARMUP_SHARE)


def _rounded(number: float) -> int:
    """To hundreds, that people can remember what they see."""
    return round(number / 100) * 100
