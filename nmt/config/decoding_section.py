"""The `decoding` section."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from nmt.config.section import (
    AnyFloat,
    FilePath,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    Section,
    Seed,
)

# Each hypothesis is a row of the decoder's states and has memory in the beam.
BeamSize = Annotated[int, Field(ge=1, le=1000)]
Samples = Annotated[int, Field(ge=1, le=10_000)]
# Memory is allocated for this number of sentences at once.
Sentences = Annotated[int, Field(ge=1, le=100_000)]
# A hypothesis has memory for all its tokens; positions are 32-bit numbers.
Length = Annotated[int, Field(ge=0, le=100_000)]


def _length_penalty(value: Any) -> str | float:
    """Return one of two names or a number. It is a single validator, because pydantic would report an error once for
    each alternative of a union."""
    if value in ("none", "average"):
        return str(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 100:
        return float(value)
    raise ValueError("")


LengthPenalty = Annotated[
    Literal["none", "average"] | float,
    BeforeValidator(_length_penalty),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["none", "average"], "type": "string"},
                {"type": "number", "minimum": 0, "maximum": 100},
            ]
        }
    ),
]

LONGEST_SOURCE = 1000
"""The most subwords of a source; a longer one is truncated before translation."""


class DecodingConfig(Section):
    """Search for translations. Options of the commands override these settings."""

    beam_size: BeamSize = Field(default=5, description="Number of hypotheses kept at each step; 1 is greedy search.")
    length_penalty: LengthPenalty = Field(
        default=1.0,
        description="Divisor of the log-probability when hypotheses of different lengths are compared: 1 (none), the "
        "length (average), or ((5 + length) / 6) to the power of this number (Wu et al. 2016, 7).",
    )
    max_length_ratio: Annotated[float, Field(gt=0, le=1000)] = Field(
        default=2.0,
        description="A translation has at most this many subwords for each source subword ...",
    )
    max_length_extra: Length = Field(default=10, description="... and this many more.")
    n_best: Samples = Field(default=1, description="Number of translations for each sentence.")
    batch_size: Sentences = Field(default=64, description="Sentences translated together.")
    word_reward: AnyFloat = Field(
        default=0.0, description="Added to the score for each subword; values above 0 favour long translations."
    )
    word_reward_bounded: bool = Field(
        default=False,
        description="Limit the word reward to the number of subwords expected for the length of the source "
        "(lengths.json in the model folder).",
    )
    coverage_penalty: NonNegativeFloat = Field(
        default=0.0,
        description="Beta of GNMT's penalty for source subwords that got little attention (Wu et al. 2016, 7).",
    )
    lm: FilePath | None = Field(
        default=None,
        description="Folder or file of a language model (task: lm) with the target's subwords, for shallow fusion "
        "(Gulcehre et al. 2015, 4.1). Not used in training, and not stored by nmt-bundle.",
    )
    lm_weight: NonNegativeFloat = Field(
        default=0.1, description="Weight of the language model's log-probabilities; 0 turns it off."
    )
    min_length: Length = Field(default=0, description="A translation has at least this many subwords.")
    generate_unk: bool = Field(default=True, description="Whether the unknown subword may be produced.")
    no_repeat_ngram_size: Length = Field(
        default=0, description="No sequence of this many subwords occurs twice in a translation; 0 turns this off."
    )
    repetition_penalty: PositiveFloat = Field(
        default=1.0,
        description="Factor for the log-probabilities of subwords that the translation already contains; above 1 "
        "makes repetition less likely.",
    )
    beam_groups: BeamSize = Field(
        default=1,
        description="Groups the beam is divided into for diverse beam search (Vijayakumar et al. 2018); 1 is usual "
        "beam search. It must divide beam_size.",
    )
    diversity_strength: NonNegativeFloat = Field(
        default=0.5, description="Penalty for each earlier group that chose the same subword at this step."
    )
    sampling: bool = Field(
        default=False,
        description="Sample translations from the model's distribution instead of searching for the best.",
    )
    sampling_temperature: Annotated[float, Field(ge=0.001, le=1000)] = Field(
        default=1.0, description="Sampling from probabilities to the power 1 / this; below 1 sharpens them."
    )
    sampling_topk: NonNegativeInt = Field(default=0, description="Sample among this many likeliest subwords; 0: all.")
    sampling_topp: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="Sample among the likeliest subwords whose probabilities sum to this (nucleus)."
    )
    sampling_seed: Seed = Field(
        default=0, description="Seed of sampling; the same sentence and seed give the same samples."
    )
    mbr: Literal["none", "chrf", "bleu"] = Field(
        default="none",
        description="Choose the candidate that agrees best with all others by this metric (minimum Bayes risk); with "
        "sampling the candidates are samples, else the hypotheses of the beam.",
    )
    mbr_samples: Samples = Field(default=32, description="With mbr and sampling, number of samples for each sentence.")
    glossary_bonus: NonNegativeFloat = Field(
        default=8.0,
        description="Added to the score for each glossary phrase in the translation, in equal shares for its "
        "subwords. In nats: the log-probability by which the model may prefer other words.",
    )

    @model_validator(mode="after")
    def _check_n_best(self) -> "DecodingConfig":
        """Raise ValueError if more translations are asked for than there are hypotheses in the beam."""
        if self.n_best > self.beam_size:
            raise ValueError(
                f"n_best must be at most beam_size ({self.beam_size}), got {self.n_best}; raise beam_size too"
            )
        return self

    @model_validator(mode="after")
    def _check_lengths(self) -> "DecodingConfig":
        """Raise ValueError if min_length is not below the maximum length even for the longest source. If it conflicts
        only for shorter sources, translations carry a warning."""
        most = int(self.max_length_ratio * LONGEST_SOURCE) + self.max_length_extra
        if self.min_length >= most:
            raise ValueError(
                f"min_length must be below {most}, what max_length_ratio and max_length_extra allow for a source of "
                f"{LONGEST_SOURCE} subwords, got {self.min_length}; raise max_length_extra too"
            )
        return self

    @model_validator(mode="after")
    def _check_groups(self) -> "DecodingConfig":
        """Raise ValueError unless the groups are of equal size, and not combined with sampling."""
        if self.sampling and self.beam_groups > 1:
            raise ValueError(
                f"beam_groups must be 1 with sampling: true, got {self.beam_groups}; a search has groups or draws "
                "samples: leave one of them out"
            )
        if self.beam_size % self.beam_groups:
            raise ValueError(
                f"beam_groups must divide beam_size ({self.beam_size}), got {self.beam_groups}; change one of them"
            )
        return self
