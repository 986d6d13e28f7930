"""The complete `training` section: adds methods that change an update or its loss, which are off by default."""

import json
from typing import Annotated, Literal

from pydantic import Field, model_validator

from nmt.config.section import Fraction, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from nmt.config.training_section import TrainingBasics


class TrainingConfig(TrainingBasics):
    """How the weights are found, and when to stop looking."""

    ema_decay: Fraction = Field(
        default=0.0,
        description="Decay of an exponential moving average of the parameters, which is what is validated, saved and "
        "translated with: 0.999 averages about the last 1,000 updates, 0 takes the parameters themselves. Over the "
        "first n updates it is (1 + n) / (10 + n) where that is less.",
    )
    src_word_dropout: Fraction = Field(
        default=0.0,
        description="Share of the subwords that the encoder reads which are replaced by the unknown one in training.",
    )
    tgt_word_dropout: Fraction = Field(
        default=0.0,
        description="The same of what the decoder reads, so that it relies on the source (Bowman et al. 2016, 3.1).",
    )
    r_drop: NonNegativeFloat = Field(
        default=0.0,
        description="Every batch is read twice with other dropout; this times the divergence between the two "
        "predictions is added to the loss (R-Drop, Liang et al. 2021: 5 for translation). Twice the time an update.",
    )
    scheduled_sampling: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0,
        description="Share of the subwords that the decoder reads which are its own predictions instead of the "
        "reference's (Bengio et al. 2015), made in a first pass over the reference (Duckworth et al. 2019).",
    )
    scheduled_sampling_updates: NonNegativeInt = Field(
        default=0, description="Updates over which scheduled_sampling rises from 0 to its value."
    )
    guided_alignment: NonNegativeFloat = Field(
        default=0.0,
        description="This times the cross entropy between attention and the word alignments of data.alignment is added "
        "to the loss (Chen et al. 2016).",
    )
    coverage_loss: NonNegativeFloat = Field(
        default=0.0,
        description="This times the attention that comes back to where it was is added to the loss (See et al. 2017: "
        "1.0), against repetitions.",
    )

    minimum_risk: NonNegativeInt = Field(
        default=0,
        description="So many translations are drawn for each sentence, and the expected cost of them and the reference "
        "is minimised instead of the likelihood (Shen et al. 2016), from a model that is trained already; 0 for the "
        "likelihood. Time and memory of an update grow with their number.",
    )
    minimum_risk_metric: Literal["bleu", "chrf", "per"] = Field(
        default="bleu",
        description="With minimum_risk, what a translation costs: 1 less its sentence BLEU or chrF; or edits for each "
        "unit of the reference between spaces (per), for letters to sounds.",
    )
    minimum_risk_alpha: PositiveFloat = Field(
        default=0.005,
        description="With minimum_risk, the exponent of the translations' probabilities: the larger, the more the most "
        "probable ones count.",
    )
    minimum_risk_likelihood: NonNegativeFloat = Field(
        default=0.0,
        description="With minimum_risk, this times the (smoothed) negative log-likelihood of the reference is added.",
    )

    loss_spikes: Literal["keep", "skip", "rollback"] = Field(
        default="keep",
        description="What is done with an update whose loss leaps: nothing (keep); it is skipped (skip); or the run "
        "goes back to the parameters of its last validation, and on with the batches behind (rollback).",
    )
    spike_deviations: PositiveFloat = Field(
        default=6.0,
        description="With loss_spikes, a leap is a loss a token of so many standard deviations above the mean of the "
        "updates before, running over about 100 of them.",
    )
    early_stopping_metrics: tuple[Literal["bleu", "chrf", "ppl", "loss"], ...] = Field(
        default=(),
        strict=False,
        description="Further measures that early_stopping_patience looks at, where early_stopping_on is any or all.",
    )
    early_stopping_on: Literal["first", "any", "all"] = Field(
        default="first",
        description="Training stops when early_stopping_metric has not improved for early_stopping_patience "
        "validations (first), or any or all of it and early_stopping_metrics.",
    )

    @property
    def adds_to_loss(self) -> bool:
        """Return whether the loss has more terms than the (smoothed) likelihood."""
        return bool(self.r_drop or self.guided_alignment or self.coverage_loss or self.minimum_risk)

    @model_validator(mode="after")
    def _check_methods(self) -> "TrainingConfig":
        """Raise ValueError if training methods conflict."""
        if self.scheduled_sampling_updates and not self.scheduled_sampling:
            raise ValueError(
                f"scheduled_sampling_updates must be 0 without scheduled_sampling, got "
                f"{self.scheduled_sampling_updates}; set scheduled_sampling: 0.25"
            )
        if self.minimum_risk:
            for name in ("r_drop", "scheduled_sampling", "guided_alignment", "coverage_loss"):
                if value := getattr(self, name):
                    raise ValueError(f"{name} must be 0 with minimum_risk, got {value:g}; it is of the likelihood")
        elif self.minimum_risk_likelihood:
            raise ValueError(
                f"minimum_risk_likelihood must be 0 without minimum_risk, got {self.minimum_risk_likelihood:g}; set "
                "minimum_risk: 16"
            )
        if bool(self.early_stopping_metrics) != (self.early_stopping_on != "first"):
            fact = json.dumps(self.early_stopping_metrics)
            raise ValueError(
                f"early_stopping_metrics must be {'none' if self.early_stopping_on == 'first' else 'given'} with "
                f"early_stopping_on: {self.early_stopping_on}, got {fact}; any and all are of several"
            )
        return self


class FixedTraining(TrainingConfig):
    """The training section of a run on one corpus, whose size determines its numbers (see
    nmt/train/planning/lengths.py)."""

    learning_rate_warmup: NonNegativeInt
    updates: PositiveInt | None
    validation_freq: PositiveInt
