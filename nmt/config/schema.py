"""The type of the whole configuration with the `decoding` section, and its JSON schema."""

import json
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model

from nmt.config.data_section import DataConfig
from nmt.config.model_section import ModelConfig
from nmt.config.presets import Preset
from nmt.config.section import MOST, FilePath, Section, Seed, Text, require
from nmt.config.training_section import TrainingConfig
from nmt.search_settings import MAX_SOURCE_SUBWORDS, ROWS, Row, SearchValues


def _field(row: Row) -> Any:
    """Return the checked type of a setting, and its pydantic field."""
    least, most = -MOST if row.least is None else row.least, MOST if row.most is None else row.most
    kind = row.kind
    if row.choices and row.least is not None:
        kind = Annotated[kind, *_name_or_number(row.choices, least, most)]
    elif kind in (int, float):
        kind = Annotated[kind, Field(ge=least, le=most) if row.above is None else Field(gt=row.above, le=most)]
    elif kind == str | None:
        kind = FilePath | None
    return kind, Field(default=row.default, description=row.text)


def _name_or_number(names: Sequence[str], least: float, most: float) -> tuple[Any, ...]:
    """Return the check of a value that is one of some names or a number, and its schema. It is a single validator,
    because pydantic would report an error once for each alternative of a union."""

    def check(value: Any) -> str | float:
        if isinstance(value, str) and value in names:
            return value
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return float(value)
        raise ValueError("")

    number = {"type": "number", "minimum": least, "maximum": most}
    return BeforeValidator(check), WithJsonSchema({"anyOf": [{"enum": list(names), "type": "string"}, number]})


if TYPE_CHECKING:

    class _Values(Section, SearchValues):  # type: ignore[misc]  # frozen, which mypy does not know of a Section
        """A value for each setting of a search, checked."""
else:
    _Values = create_model("_Values", __base__=Section, **{name: _field(row) for name, row in ROWS.items()})


class DecodingConfig(_Values):  # type: ignore[misc]  # as above
    """Search for translations. Options of the commands override these settings."""

    def _check_numbers(self) -> None:
        """Raise ValueError if more translations are asked for than there are hypotheses in the beam, or if min_length
        is not below the maximum length even for the longest source. If it conflicts only for shorter sources,
        translations carry a warning."""
        if self.n_best > self.beam_size:
            raise ValueError(
                f"n_best must be at most beam_size ({self.beam_size}), got {self.n_best}; raise beam_size too"
            )
        most = int(self.max_length_ratio * MAX_SOURCE_SUBWORDS) + self.max_length_extra
        if self.min_length >= most:
            raise ValueError(
                f"min_length must be below {most}, what max_length_ratio and max_length_extra allow for a source of "
                f"{MAX_SOURCE_SUBWORDS} subwords, got {self.min_length}; raise max_length_extra too"
            )


class Settings(Section):
    """Everything a training run needs to know; saved with the model."""

    model_config = ConfigDict(title="Config")  # the name of the class that users see, which has methods as well

    preset: Preset | None = None
    """Name of a preset (docs/presets.md), whose settings apply unless this file sets them; null for the defaults in
    this file."""
    name: Text = "model"
    """Name of the run in its logs; if it is omitted, that of the folder model_dir."""
    seed: Seed = 42
    """Seed of all random numbers: the same seed and threads give the same model."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Processor cores to use; null uses all."""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    """Where to compute: the processor, a GPU (extra [cuda]), or the GPU if there is a usable one. Any model runs on
    either."""
    compute_dtype: Literal["float32", "bfloat16", "int8", "auto"] = "float32"
    """Number format of matrix products: bfloat16 takes a third of the time of float32 on a processor with a matrix unit
    (AMX), half of it with AMD's AVX-512 BF16, and more than float32 on others. Parameters, sums and losses are float32
    either way. auto is bfloat16 if this machine multiplies it faster, else float32: the last digits of results then
    depend on the machine. int8, only for translating, takes about two fifths on processors since 2019 (AVX-512 VNNI,
    AVX-VNNI, Arm dot products)."""
    model_dir: FilePath = Field(examples=["runs/model"])
    """Folder for the model, its checkpoints and logs. If it contains an unfinished run, that is resumed."""
    data: DataConfig
    """Files, normalisation, subwords."""
    model: ModelConfig = Field(default_factory=ModelConfig)
    """The network."""
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    """Training."""
    decoding: DecodingConfig = Field(default_factory=DecodingConfig)
    """Translation."""

    def _check_weights(self) -> None:
        """Raise ValueError if the corpora have weights and every epoch would have the same part of them."""
        weights = [one.weight for one in self.data.train] if isinstance(self.data.train, tuple) else []
        if not self.training.shuffle and any(weight != 1 for weight in weights):
            raise ValueError(
                "training.shuffle must be true with weights of corpora, got false; every epoch would have the same part"
            )

    def _check_methods(self) -> None:
        """Raise ValueError if training methods do not fit the model or the texts."""
        training, decoder = self.training, self.model.decoder
        if decoder.lexical and (decoder.attention in ("none", "multi_head") or self.model.encoder.type == "conv"):
            fact = "encoder.type: conv" if self.model.encoder.type == "conv" else f"attention: {decoder.attention}"
            raise ValueError(
                f"model.decoder.lexical must be false with {fact}, got true; it needs a recurrent encoder and one "
                "weight for each source position"
            )
        if training.guided_alignment and (decoder.type == "conv" or decoder.attention == "none"):
            raise ValueError(
                "training.guided_alignment must be 0 for a decoder without attention or of convolutions, got "
                f"{training.guided_alignment:g}; set it so"
            )

    def _check_copying(self) -> None:
        """Raise ValueError if settings do not fit a decoder that copies or writes edit actions."""
        needs = {"data.subwords.joint": True, "data.src_factors": (), "training.r_drop": 0}
        of_actions = needs | {
            "model.decoder.copy_source": False,
            "model.encoder.boundaries": "eos",
            "model.tied_embeddings": "none",
            "training.tgt_word_dropout": 0,
            "training.guided_alignment": 0,
            "training.extend_vocabulary": 0,
        }
        for method, wanted in (("copy_source", needs), ("edit_actions", of_actions)):
            if getattr(self.model.decoder, method):
                require(self, wanted, f"with model.decoder.{method}: true", "set it so")

    def _check_factors(self) -> None:
        """Raise ValueError if settings do not fit the source factors."""
        data, sizes = self.data, self.model.encoder.factors
        if len(data.src_factors) != len(sizes):
            raise ValueError(
                f"model.encoder.factors must be {len(data.src_factors)} sizes, one for each of data.src_factors, got "
                f"{len(sizes)}"
            )
        if not sizes:
            return
        tagged = [one.tag for one in data.train if one.tag is not None] if isinstance(data.train, tuple) else []
        clashes = {
            "data.subwords.joint must be false": data.subwords.joint,
            "model.encoder.type must be recurrent": self.model.encoder.type != "recurrent",
            "training.guided_alignment must be 0": self.training.guided_alignment > 0,
            "data.train must have no tags": bool(tagged),
            "training.extend_vocabulary must be 0": self.training.extend_vocabulary,
        }
        if wrong := [promise for promise, is_broken in clashes.items() if is_broken]:
            raise ValueError(f"{wrong[0]} with data.src_factors, got {json.dumps(data.src_factors)}; set it so")

    def _check_ties(self) -> None:
        """Raise ValueError if embeddings shared by both sides have no shared vocabulary."""
        if self.model.tied_embeddings == "all" and not self.data.subwords.joint:
            raise ValueError(
                "data.subwords.joint must be true with model.tied_embeddings: all, got false; "
                "or use tied_embeddings: softmax"
            )


@cache
def config_schema() -> dict[str, Any]:
    """Return the JSON schema of a configuration file, for editors; it is also the content of `configs/schema.json`. It
    is the same object each time, and must not be changed."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Settings.model_json_schema()}
