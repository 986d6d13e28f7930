"""Checks whether a model can be exported as a program, for C or the web."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nmt.errors import CheckpointError
from nmt.exporting.subword_tables import obstacle_of
from nmt.model.translation_program import program_obstacle
from nmt.search_settings import ROWS, Place, Row, SearchValues, in_effect, usable

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel

_USABLE = {*usable(Place.PROGRAM)} - {"mbr"}
EXPORTED = frozenset(name for name in _USABLE if _USABLE.issuperset(ROWS[name].needs))
"""Settings of the search that exported models follow, or that have no effect there; all others must be off."""
OPTIONS = [row for name, row in ROWS.items() if name in EXPORTED - {"glossary_bonus"}]
"""Those that can be set at each call."""


def bounds(row: Row) -> tuple[float, float]:
    """Return the least and the greatest value of an option; of those above a bound, a value that is little above."""
    if row.kind is bool:
        return 0, 1
    least = row.least if row.above is None else row.above + 1e-9
    return -1e9 if least is None else least, 1e9 if row.most is None else row.most


def check_exported(saved: SavedModel, goal: str) -> None:
    """Raise CheckpointError if a model has parts or settings that no program has; `goal`: what it is for."""
    decoding = SearchValues(**{name: getattr(saved.config.decoding, name) for name in ROWS})
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
