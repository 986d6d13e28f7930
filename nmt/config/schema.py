"""The type of the whole configuration, and its JSON schema."""

import json
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from nmt.config.data_section import DataConfig
from nmt.config.decoding_section import DecodingConfig
from nmt.config.model_section import ModelConfig
from nmt.config.presets import Preset
from nmt.config.section import FilePath, Section, Seed, Text, require
from nmt.config.training_methods import TrainingConfig


class Settings(Section):
    """Everything a training run needs to know; saved with the model."""

    model_config = ConfigDict(title="Config")  # the name of the class that users see, which has methods as well

    preset: Preset | None = None
    """Name of a preset (docs/presets.md), whose settings apply unless this file sets them; null for the defaults in
    this file."""
    name: Text = "model"
    """Name of the run in its logs; if it is omitted, that of the folder model_dir."""
    task: Literal["translation", "lm"] = "translation"
    """The task: translation, or continuing a text (lm, a language model). A language model is the decoder alone:
    settings of src, the encoder and attention have no effect then."""
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

    @model_validator(mode="after")
    def _check_task(self) -> "Settings":
        """Raise ValueError if settings do not fit the task."""
        weights = [one.weight for one in self.data.train] if isinstance(self.data.train, tuple) else []
        if not self.training.shuffle and any(weight != 1 for weight in weights):
            raise ValueError(
                "training.shuffle must be true with weights of corpora, got false; every epoch would have the same part"
            )
        if self.task == "translation":
            if "src" not in self.data.model_fields_set:
                raise ValueError("data.src must be given: The language to translate from.")
            return self
        for number, corpus in enumerate(self.data.train if isinstance(self.data.train, tuple) else ()):
            if corpus.tag is not None or corpus.weight != 1:
                raise ValueError(
                    f"data.train[{number}] must have no tag and weight: 1 with task: lm, got tag: {corpus.tag} and "
                    f"weight: {corpus.weight:g}; there is no source, and the text is read in order"
                )
        if self.model.tied_embeddings == "all":
            raise ValueError("model.tied_embeddings must be none or softmax with task: lm, got all; there is one side")
        if self.model.decoder.readout == "deep":
            raise ValueError(
                "model.decoder.readout must be left at its default, tanh, with task: lm, got deep; nothing is read out"
            )
        for path, wanted, why in _OF_LANGUAGE_MODELS:
            require(self, {path: wanted}, "with task: lm", why)
        if (metric := self.training.metric) not in ("ppl", "loss"):
            raise ValueError(f"training.metric must be ppl or loss with task: lm, got {metric}; nothing is translated")
        return self

    @model_validator(mode="after")
    def _check_methods(self) -> "Settings":
        """Raise ValueError if training methods do not fit the model or the texts."""
        training, data, decoder = self.training, self.data, self.model.decoder
        of_pairs = {
            "training.src_word_dropout": training.src_word_dropout,
            "training.guided_alignment": training.guided_alignment,
        }
        for name, value in of_pairs.items():
            if value and self.task == "lm":
                raise ValueError(f"{name} must be omitted with task: lm, got {value:g}; it is for pairs of sentences")
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
        if data.alignment is not None and not training.guided_alignment:
            raise ValueError(
                "training.guided_alignment must be positive with data.alignment, got 0; set it to 0.5, or "
                "data.alignment: null"
            )
        return self

    @model_validator(mode="after")
    def _check_copying(self) -> "Settings":
        """Raise ValueError if settings do not fit a decoder that copies or writes edit actions."""
        needs = {
            "data.subwords.joint": True,
            "task": "translation",
            "data.src_factors": (),
            "training.r_drop": 0,
        }
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
        return self

    @model_validator(mode="after")
    def _check_factors(self) -> "Settings":
        """Raise ValueError if settings do not fit the source factors."""
        data, sizes = self.data, self.model.encoder.factors
        if len(data.src_factors) != len(sizes):
            raise ValueError(
                f"model.encoder.factors must be {len(data.src_factors)} sizes, one for each of data.src_factors, got "
                f"{len(sizes)}"
            )
        if not sizes:
            return self
        tagged = [one.tag for one in data.train if one.tag is not None] if isinstance(data.train, tuple) else []
        clashes = {
            "data.subwords.joint must be false": data.subwords.joint,
            "task must be translation": self.task == "lm",
            "model.encoder.type must be recurrent": self.model.encoder.type != "recurrent",
            "training.guided_alignment must be 0": self.training.guided_alignment > 0,
            "data.train must have no tags": bool(tagged),
            "training.extend_vocabulary must be 0": self.training.extend_vocabulary,
        }
        if wrong := [promise for promise, is_broken in clashes.items() if is_broken]:
            raise ValueError(f"{wrong[0]} with data.src_factors, got {json.dumps(data.src_factors)}; set it so")
        return self

    @model_validator(mode="after")
    def _check_ties(self) -> "Settings":
        """Raise ValueError if embeddings shared by both sides have no shared vocabulary."""
        if self.model.tied_embeddings == "all" and not self.data.subwords.joint:
            raise ValueError(
                "data.subwords.joint must be true with model.tied_embeddings: all, got false; "
                "or use tied_embeddings: softmax"
            )
        return self


_OF_LANGUAGE_MODELS = (
    ("model.decoder.type", "recurrent", "a convolutional decoder attends to a source"),
    ("model.decoder.readout_size", None, "nothing is read out"),
    ("model.decoder.lexical", False, "there is no source"),
    ("data.subwords.joint", True, "there is one language"),
)
"""Settings that a language model cannot have otherwise, with their values and the reasons."""


@cache
def config_schema() -> dict[str, Any]:
    """Return the JSON schema of a configuration file, for editors; it is also the content of `configs/schema.json`. It
    is the same object each time, and must not be changed."""
    schema = Settings.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
