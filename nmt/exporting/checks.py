"""Checks whether a model can be exported as a program, for C or the web."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nmt.errors import CheckpointError
from nmt.exporting.page import check_recurrent
from nmt.exporting.subword_tables import obstacle_of
from nmt.model.translation_program import program_obstacle
from nmt.search_settings import ROWS, SearchValues, in_effect

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel

EXPORTED = frozenset(
    {"beam_size", "length_penalty", "max_length_ratio", "max_length_extra", "n_best", "batch_size", "word_reward"}
    | {"generate_unk", "lm_weight", "glossary_bonus"}
)
"""Settings of the search that exported models follow, or that have no effect there; all others must be off."""


def check_exported(saved: SavedModel, goal: str) -> None:
    """Raise CheckpointError if a model has parts or settings that no program has; `goal`: what it is for."""
    decoding = SearchValues(**{name: getattr(saved.config.decoding, name) for name in ROWS})
    check_recurrent(saved, goal)
    for side, subwords in (("source", saved.src_subwords), ("target", saved.tgt_subwords)):
        if why := obstacle_of(subwords):
            raise CheckpointError(
                f"{saved.path}: the {side}'s subwords must be a sentencepiece model for {goal}, got {why}"
            )
    if asked := [name for name in in_effect(decoding) if name not in EXPORTED]:
        name = asked[0]
        default, value = ROWS[name].default, getattr(decoding, name)
        raise CheckpointError(
            f"{saved.path}: decoding.{name} must be {default} for {goal}, got {value}; change it in a copy"
        )
    model = saved.build("float32")
    if why := program_obstacle(model, model.encoder):
        raise CheckpointError(f"{saved.path}: must be a model whose translation is one program, got one where {why}")
