"""From the `data` section to the two sides of a model: subwords read, or trained on the spot."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmt.data.corpus import Side, training_text
from nmt.data.subwords import Subwords, train_subwords

if TYPE_CHECKING:
    from nmt.config import DataConfig, SideConfig


def load_sides(data: "DataConfig") -> tuple[Side, Side]:
    """Source and target side; with joint subwords both have the same Subwords object.

    Raises DataError if a given model is missing or damaged, or if the training text cannot give the
    vocabulary asked for.
    """
    settings = data.subwords
    if settings.joint:
        both = _given_or_trained(data, settings.model_file, (data.src, data.tgt))
        return Side(data.src, both), Side(data.tgt, both)
    return (
        Side(data.src, _given_or_trained(data, settings.src_model_file, (data.src,))),
        Side(data.tgt, _given_or_trained(data, settings.tgt_model_file, (data.tgt,))),
    )


def load_side(data: "DataConfig") -> Side:
    """The one side of a language model, `data.tgt`. Raises DataError as `load_sides` does."""
    return Side(data.tgt, _given_or_trained(data, data.subwords.model_file, (data.tgt,)))


def _given_or_trained(data: "DataConfig", model_file: str | None, sides: Sequence["SideConfig"]) -> Subwords:
    if model_file:
        return Subwords.from_file(model_file)
    settings = data.subwords
    return train_subwords(
        training_text(data.train, sides),
        type=settings.type,
        vocab_size=settings.vocab_size,
        character_coverage=settings.character_coverage,
    )
