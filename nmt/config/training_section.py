"""The `training` section."""

from typing import Annotated, Literal

from pydantic import Field

from nmt.config import section

TO_ZERO = ("linear", "cosine")
"""Schedules whose rate reaches zero at `updates`."""


class TrainingBasics(section.Section):
    """The `training` section without its methods."""

    load_model: section.FilePath | None = None
    """Model to start from, a folder or a file of nmt-bundle: a new run takes its subwords and the parameters of its
    best checkpoint, then trains with these settings (fine-tuning). Settings that determine the meaning of parameters
    are taken from that model if omitted, and must equal its own otherwise. A resumed run has its own parameters."""
    reset_optimizer: bool = True
    """With load_model: start with a new optimizer state. false takes that of the model's last checkpoint, and its
    parameters."""
    extend_vocabulary: Annotated[int, Field(ge=0, le=100_000)] = 0
    """With load_model: add at most this many subwords for the training text: unknown characters first, then the pieces
    that shorten it most. A new subword starts as the mean of the subwords that previously represented its text."""
    freeze: tuple[section.Text, ...] = Field(default=(), strict=False)
    """Parameters that are not trained, by patterns of their names: encoder.*, *embeddings. They have no optimizer state
    and do not count in the norm of the gradient. If a pattern matches none, the error lists all names."""
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    """Rule that changes the weights."""
    learning_rate: Annotated[float, Field(gt=0, le=1000)] = 1e-3
    """Size of its steps; about 1.0 for sgd."""
    adam_betas: tuple[section.Fraction, section.Fraction] = Field(default=(0.9, 0.999), strict=False)
    """Decay of the running means of the gradient and of its square, for adam and adamw."""
    adam_eps: section.PositiveFloat = 1e-8
    """Added to the divisor, for adam and adamw."""
    weight_decay: section.NonNegativeFloat = 0.0
    """Weight decay: added to the gradient; with adamw subtracted from the weights."""
    momentum: section.Fraction = 0.0
    """Momentum of sgd."""
    clip_grad_norm: section.PositiveFloat | None = 5.0
    """Maximum norm of the gradient, which is scaled down to it; null turns clipping off."""
    label_smoothing: section.Fraction = 0.0
    """Probability moved from the correct word to all others."""
    batch_size: Annotated[int, Field(ge=1, le=10_000_000)] = 4096
    """Target tokens per batch (without padding), or sentences: see batch_type."""
    batch_type: Literal["token", "sentence"] = "token"
    """The unit of batch_size."""
    batch_multiplier: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Number of batches whose gradients are accumulated for one update: like one batch that many times as large, in the
    memory of one. With several ranks (mpiexec, docs/many-machines.md) each computes that many."""
    learning_rate_scaling: Literal["none", "sqrt", "linear"] = "none"
    """Scaling of learning_rate if an update has several batches, by batch_multiplier or ranks: with the square root of
    their number (for adam), or with the number itself (for sgd). Both need a warm-up."""
    gradient_dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format in which ranks send gradients: bfloat16 halves the bytes, and rounds."""
    scheduling: Literal["plateau", "inverse_square_root", "linear", "cosine", "constant"] = "plateau"
    """Learning rate over time: lowered when validation stops improving (plateau), with the root of the updates after
    the warm-up (inverse_square_root), in a straight line (linear) or half a cosine (cosine) to zero at the last of
    `updates`, or never (constant)."""
    learning_rate_warmup: Annotated[int | Literal["auto"], section.WholeOrAuto(0)] = 0
    """Updates over which the learning rate rises from 0 to its value; auto: the first fourteenth of `updates`, or of
    the epochs where that is null."""
    cooldown: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Last share of the run in which the learning rate falls in a straight line to zero, whichever of updates, epochs
    and max_minutes ends it: 0.2 for its last fifth, 0 for never. Early stopping ends a run without one."""
    recompute: Literal["attention", "gates"] = "attention"
    """Values that the backward pass computes again instead of storing them. attention: those for every pair of source
    and target positions. gates: also the gates of cells, so that only states are stored; this saves memory and takes up
    to a third more time."""
    learning_rate_min: section.NonNegativeFloat = 1e-6
    """With plateau, training stops when the learning rate falls below this after the warm-up."""
    decrease_factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Factor for the learning rate, with plateau."""
    lower_after: section.NonNegativeInt = 3
    """With plateau, the learning rate is lowered after this many validations without improvement."""
    stop_after: section.PositiveInt | None = 10
    """Training stops after this many validations without improvement; null: never."""
    metric: Literal["bleu", "chrf", "ppl", "loss"] = "bleu"
    """Metric of the validations, which defines improvement and chooses the best checkpoint."""
    epochs: section.PositiveInt = 50
    """Training stops after this many epochs, each a pass over the corpus."""
    updates: Annotated[int | Literal["auto"] | None, section.WholeOrAuto(1, optional=True)] = None
    """Training stops after this many updates, if not null. auto: those of `auto_epochs`, to the nearest hundred, at
    least 500 updates, and no more than those of `epochs`."""
    auto_epochs: section.PositiveFloat = 12.5
    """With updates: auto, number of epochs. nmt-train --budget says how many its time allows, and compares them with
    this number."""
    max_minutes: section.PositiveFloat | None = None
    """Training stops after this many minutes, if not null; a resumed run includes those before."""
    validation_freq: section.CountOrAuto = "auto"
    """Updates between validations; auto: an eighth of `updates`, at least 25; if `updates` is null, one pass over the
    corpus, at most 2,000 updates."""
    validation_pairs: Annotated[int | Literal["auto"] | None, section.WholeOrAuto(1, optional=True)] = "auto"
    """Pairs of data.dev, evenly spaced, that a validation during training reads; null: all of them. auto: as many as
    take about a tenth of the time between two validations, at least 50; all if they take less. A resumed run keeps its
    pairs."""
    logging_freq: section.PositiveInt = 50
    """Updates between progress lines."""
    shuffle: bool = True
    """Shuffle sentences into new batches in every epoch."""
    print_valid_sents: tuple[section.NonNegativeInt, ...] = Field(default=(0, 1, 2), strict=False)
    """Validation sentences, counted from 0, whose translations are logged."""
    keep_best_ckpts: section.PositiveInt = 1
    """Number of best checkpoints to keep, in addition to the last one."""
    keep_last_ckpts: section.PositiveInt = 1
    """Number of newest validated checkpoints to keep, for nmt-average; 1: only the last one."""

    def _check_start(self) -> None:
        """Raise ValueError if settings do not fit load_model."""
        if self.load_model is None:
            why = "new subwords have a size of their own, data.subwords.vocab_size"
            section.require(self, {"extend_vocabulary": 0}, "without load_model", why)
        if not self.reset_optimizer:
            why = "the state of new units is not there"
            section.require(self, {"extend_vocabulary": 0}, "with reset_optimizer: false", why)

    def _check_rates(self) -> None:
        """Raise ValueError if learning rates and schedule do not fit each other."""
        if self.learning_rate_min >= self.learning_rate:
            raise ValueError(
                f"learning_rate_min must be below learning_rate ({self.learning_rate:g}), "
                f"got {self.learning_rate_min:g}; training would stop at once"
            )
        if self.scheduling == "inverse_square_root" and self.learning_rate_warmup == 0:
            raise ValueError(
                f"learning_rate_warmup must be at least 1 with scheduling: {self.scheduling}, got 0; "
                "a usual value is 1000"
            )
        if self.scheduling in TO_ZERO and self.updates is None:
            raise ValueError(
                f"updates must be a number or auto with scheduling: {self.scheduling}, got null; it is where the "
                "learning rate reaches zero"
            )
        warmup, updates = self.learning_rate_warmup, self.updates  # auto is not known before the corpus is read
        if self.scheduling in TO_ZERO and isinstance(warmup, int) and isinstance(updates, int) and warmup >= updates:
            raise ValueError(
                f"updates must be above learning_rate_warmup ({warmup}) with scheduling: "
                f"{self.scheduling}, got {updates}; it is where the learning rate reaches zero"
            )
        if self.scheduling in TO_ZERO:
            why = "that falls to zero by itself: set scheduling: constant"
            section.require(self, {"cooldown": 0}, f"with scheduling: {self.scheduling}", why)
        if self.optimizer != "sgd":
            section.require(self, {"momentum": 0}, f"with optimizer: {self.optimizer}", "only sgd uses it")


class TrainingConfig(TrainingBasics):
    """How the weights are found, and when to stop looking."""

    ema_decay: section.Fraction = 0.0
    """Decay of an exponential moving average of the parameters, which is used for validation, checkpoints and
    translation: 0.999 averages about the last 1,000 updates, 0 turns averaging off. Over the first n updates it is (1 +
    n) / (10 + n) if that is less."""
    src_word_dropout: section.Fraction = 0.0
    """Share of the encoder's input subwords that are replaced by the unknown one in training."""
    tgt_word_dropout: section.Fraction = 0.0
    """The same for the decoder's input, so that it relies on the source (Bowman et al. 2016, 3.1)."""
    r_drop: section.NonNegativeFloat = 0.0
    """Weight of R-Drop: every batch is read twice with different dropout, and the divergence between the two
    predictions is added to the loss (Liang et al. 2021: 5 for translation). Doubles the time of an update."""
    guided_alignment: section.NonNegativeFloat = 0.0
    """Weight of the cross entropy between attention and word alignments in the loss (Chen et al. 2016). The alignments
    are learned from the pairs themselves before the first update."""


class FixedTraining(TrainingConfig):
    """The training section of a run on one corpus, whose size determines its numbers (see
    nmt/train/planning/lengths.py)."""

    learning_rate_warmup: section.NonNegativeInt
    updates: section.PositiveInt | None
    validation_freq: section.PositiveInt
