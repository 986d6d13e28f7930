"""Convert YAML to typed settings and back; the only package that uses YAML and pydantic.

    config = load_config("configs/quickstart.yaml", ["training.batch_size=2048"])
    config.model.decoder.hidden_size

Sections: `data_section`, `model_section`, `training_section`, and `schema` with `decoding` and the whole; `complaints`
formats the error messages.
"""

from nmt.config.data_section import CorpusConfig, DataConfig, FilterConfig, SideConfig, SubwordsConfig
from nmt.config.loading import (
    Config,
    checked_text,
    checked_value,
    config_from_dict,
    dump_config,
    load_config,
    with_values,
)
from nmt.config.model_section import DecoderConfig, EmbeddingsConfig, EncoderConfig, ModelConfig
from nmt.config.schema import DecodingConfig, config_schema
from nmt.config.training_section import FixedTraining, TrainingConfig

__all__ = [
    "Config",
    "CorpusConfig",
    "DataConfig",
    "DecoderConfig",
    "DecodingConfig",
    "EmbeddingsConfig",
    "EncoderConfig",
    "FixedTraining",
    "ModelConfig",
    "SideConfig",
    "FilterConfig",
    "SubwordsConfig",
    "TrainingConfig",
    "checked_text",
    "checked_value",
    "config_from_dict",
    "config_schema",
    "dump_config",
    "load_config",
    "with_values",
]
