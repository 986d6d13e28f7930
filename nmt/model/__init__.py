"""Encoders and decoders: cells wired together."""

from nmt.model.translation import LossStats, TranslationModel

__all__ = ["LossStats", "TranslationModel"]
