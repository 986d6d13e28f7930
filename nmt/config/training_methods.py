"""The complete `training` section: adds methods that change an update or its loss, which are off by default."""

from nmt.config.section import Fraction, NonNegativeFloat, NonNegativeInt, PositiveInt
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
    guided_alignment: NonNegativeFloat = 0.0
    """Weight of the cross entropy between attention and word alignments in the loss (Chen et al. 2016). The alignments
    are those of data.alignment, or are learned from the pairs themselves before the first update."""

    @property
    def adds_to_loss(self) -> bool:
        """Return whether the loss has more terms than the (smoothed) likelihood."""
        return bool(self.r_drop or self.guided_alignment)


class FixedTraining(TrainingConfig):
    """The training section of a run on one corpus, whose size determines its numbers (see
    nmt/train/planning/lengths.py)."""

    learning_rate_warmup: NonNegativeInt
    updates: PositiveInt | None
    validation_freq: PositiveInt
