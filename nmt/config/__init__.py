"""Convert YAML to typed settings and back; the only package that uses YAML and pydantic.

    config = load_config("configs/quickstart.yaml", ["training.batch_size=2048"])
    config.model.decoder.hidden_size

Sections: `data_section`, `model_section`, `training_section`, `decoding_section`; `complaints` formats the error
messages.
"""

from nmt.config.corpora import CorpusConfig
from nmt.config.data_section import DataConfig, FilterConfig, SideConfig, SubwordsConfig
from nmt.config.decoding_section import DecodingConfig
from nmt.config.loading import Config, config_from_dict, dump_config, load_config
from nmt.config.model_section import DecoderConfig, EmbeddingsConfig, EncoderConfig, ModelConfig
from nmt.config.schema import config_schema
from nmt.config.training_methods import FixedTraining, TrainingConfig
from nmt.config.values import checked_text, checked_value, with_values

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
