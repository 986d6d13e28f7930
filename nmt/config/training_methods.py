"""The complete `training` section: adds methods that change an update or its loss, which are off by default."""

import json
from typing import Annotated, Literal

from pydantic import Field, model_validator

from nmt.config.section import Fraction, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, require
from nmt.config.training_section import TrainingBasics


class TrainingConfig(TrainingBasics):
    """How the weights are found, and when to stop looking."""

    ema_decay: Fraction = 0.0
    """Decay of an exponential moving average of the parameters, which is used for validation, checkpoints and
    translation: 0.999 averages about the last 1,000 updates, 0 turns averaging off. Over the first n updates it is (1 +
    n) / (10 + n) if that is less."""
    src_word_dropout: Fraction = 0.0
    """Share of the encoder's input subwords that are replaced by the unknown one in training."""
    tgt_word_dropout: Fraction = 0.0
    """The same for the decoder's input, so that it relies on the source (Bowman et al. 2016, 3.1)."""
    r_drop: NonNegativeFloat = 0.0
    """Weight of R-Drop: every batch is read twice with different dropout, and the divergence between the two
    predictions is added to the loss (Liang et al. 2021: 5 for translation). Doubles the time of an update."""
    scheduled_sampling: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the decoder's input subwords that are its own predictions instead of the reference (Bengio et al. 2015),
    made in a first pass over the reference (Duckworth et al. 2019)."""
    scheduled_sampling_updates: NonNegativeInt = 0
    """Updates over which scheduled_sampling rises from 0 to its value."""
    guided_alignment: NonNegativeFloat = 0.0
    """Weight of the cross entropy between attention and word alignments in the loss (Chen et al. 2016). The alignments
    are those of data.alignment, or are learned from the pairs themselves before the first update."""
    coverage_loss: NonNegativeFloat = 0.0
    """Weight of the coverage loss, which penalises attending to the same source positions again (See et al. 2017: 1.0),
    against repetitions."""

    minimum_risk: NonNegativeInt = 0
    """Number of translations sampled for each sentence. Their expected cost, with that of the reference, is minimised
    instead of the negative log-likelihood (Shen et al. 2016), from a model that is already trained. 0 for the
    likelihood. Time and memory of an update grow with it."""
    minimum_risk_metric: Literal["bleu", "chrf", "per"] = "bleu"
    """With minimum_risk, the cost of a translation: 1 minus its sentence BLEU or chrF; or edits per space-separated
    symbol of the reference (per), for letters to sounds."""
    minimum_risk_alpha: PositiveFloat = 0.005
    """With minimum_risk, the exponent of the translations' probabilities: larger values give more weight to the most
    probable ones."""
    minimum_risk_likelihood: NonNegativeFloat = 0.0
    """With minimum_risk, the weight of the (smoothed) negative log-likelihood of the reference, which is added."""

    loss_spikes: Literal["keep", "skip", "rollback"] = "keep"
    """Action for an update whose loss jumps: none (keep); skip it (skip); or restore the parameters of the last
    validation and continue with the batches after it (rollback)."""
    spike_deviations: PositiveFloat = 6.0
    """With loss_spikes, a spike is a loss per token this many standard deviations above the running mean of about 100
    earlier updates."""
    stop_metrics: tuple[Literal["bleu", "chrf", "ppl", "loss"], ...] = Field(default=(), strict=False)
    """Further metrics for stop_after, if stop_on is any or all."""
    stop_on: Literal["first", "any", "all"] = "first"
    """Training stops when metric has not improved for stop_after validations (first), or any or all of it and
    stop_metrics."""

    @property
    def adds_to_loss(self) -> bool:
        """Return whether the loss has more terms than the (smoothed) likelihood."""
        return bool(self.r_drop or self.guided_alignment or self.coverage_loss or self.minimum_risk)

    @model_validator(mode="after")
    def _check_methods(self) -> "TrainingConfig":
        """Raise ValueError if training methods conflict."""
        if not self.scheduled_sampling:
            why = "set scheduled_sampling: 0.25"
            require(self, {"scheduled_sampling_updates": 0}, "without scheduled_sampling", why)
        if self.minimum_risk:
            names = "r_drop", "scheduled_sampling", "guided_alignment", "coverage_loss"
            require(self, dict.fromkeys(names, 0), "with minimum_risk", "it is of the likelihood")
        else:
            require(self, {"minimum_risk_likelihood": 0}, "without minimum_risk", "set minimum_risk: 16")
        if bool(self.stop_metrics) != (self.stop_on != "first"):
            fact = json.dumps(self.stop_metrics)
            raise ValueError(
                f"stop_metrics must be {'none' if self.stop_on == 'first' else 'given'} with "
                f"stop_on: {self.stop_on}, got {fact}; any and all are of several"
            )
        return self


class FixedTraining(TrainingConfig):
    """The training section of a run on one corpus, whose size determines its numbers (see
    nmt/train/planning/lengths.py)."""

    learning_rate_warmup: NonNegativeInt
    updates: PositiveInt | None
    validation_freq: PositiveInt
