"""From the `data` section to the two sides of a model: subwords read, or trained on the spot."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nmt.data.auto_subwords import auto_subwords
from nmt.data.corpus import Side, training_text
from nmt.data.subwords import Subwords
from nmt.data.vocabulary import subwords_from_file

if TYPE_CHECKING:
    from nmt.config import DataConfig, SideConfig


def _tell_nobody(text: str) -> None:
    pass


def load_sides(data: "DataConfig", say: Callable[[str], None] = _tell_nobody) -> tuple[Side, Side]:
    """Source and target side; with joint subwords both have the same Subwords object. `say` is told what was chosen.

    Raises DataError if a given model is missing or damaged, or if the training text cannot give the
    vocabulary asked for.
    """
    settings = data.subwords
    if settings.joint:
        both = _given_or_trained(data, settings.model_file, (data.src, data.tgt), say)
        return Side(data.src, both), Side(data.tgt, both)
    return (
        Side(data.src, _given_or_trained(data, settings.src_model_file, (data.src,), say)),
        Side(data.tgt, _given_or_trained(data, settings.tgt_model_file, (data.tgt,), say)),
    )


def load_side(data: "DataConfig", say: Callable[[str], None] = _tell_nobody) -> Side:
    """The one side of a language model, `data.tgt`. Raises DataError as `load_sides` does."""
    return Side(data.tgt, _given_or_trained(data, data.subwords.model_file, (data.tgt,), say))


def _given_or_trained(
    data: "DataConfig", model_file: str | None, sides: Sequence["SideConfig"], say: Callable[[str], None]
) -> Subwords:
    if model_file:
        return subwords_from_file(model_file)
    return auto_subwords(data.subwords, lambda: training_text(data.train, sides), say)
