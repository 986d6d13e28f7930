"""Training methods of the settings: changes to a batch before the update, and terms added to its loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.model.batch_pass import LIKELIHOOD, Alignment, Objective
from nmt.rnn.profile import operation
from nmt.special_tokens import EOS_ID, UNK_ID, boundary_ids

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.alignment.word_alignment import WordAlignments
    from nmt.model.network import Network


_SRC, _TGT = range(2)
"""Purposes of a batch's random numbers; each has its own stream."""


@dataclass(frozen=True)
class Prepared:
    """A batch as the update uses it, and the terms that are added to its loss."""

    batch: Any
    objective: Objective = LIKELIHOOD

    @property
    def num_tgt_tokens(self) -> int:
        """Return the number of target tokens over which its loss is summed."""
        return int(self.batch.tgt_lengths.sum())

    @property
    def options(self) -> dict[str, Any]:
        """Return the keyword arguments for `Network.loss_and_gradients`; empty if nothing is added to the loss."""
        return {} if self.objective is LIKELIHOOD else {"objective": self.objective}


class Methods:
    """The training methods that the settings enable; without any, a batch is unchanged. `alignments`: word alignments
    of the training pairs, if attention is guided by them."""

    def __init__(self, config: Config, model: Network, alignments: WordAlignments | None = None) -> None:
        settings, source = config.training, config.data.src
        self._settings, self._model = settings, model
        self._alignments, self._has_factors = alignments, bool(config.model.encoder.factors)
        before, after = boundary_ids(config.model.encoder.boundaries)
        self._objective = Objective(
            r_drop=settings.r_drop,
            guided_alignment=settings.guided_alignment,
            widest_source=source.max_length + len(before) + len(after),
        )
        if not (settings.r_drop or alignments is not None):
            self._objective = LIKELIHOOD
        self._copies = config.model.decoder.copy_source
        self._changes_batch = any((settings.src_word_dropout, settings.tgt_word_dropout, settings.r_drop))
        self.repeats = 2 if settings.r_drop else 1
        """The count of each target token in a prepared batch."""
        self.recounts = settings.r_drop > 0
        """Whether a prepared batch can have other numbers of tokens than planned."""

    def prepare(self, batch: Any, seed: int) -> Prepared:
        """Return the batch as an update uses it; `seed` determines random draws."""
        objective = self._objective
        if self._alignments is not None:  # from the words before any of them becomes unknown
            with operation("making batches"):
                step, row, position, share = self._alignments.of_batch(
                    batch.src, batch.src_lengths, batch.tgt_out, batch.tgt_lengths, batch.indices
                )
                if self.repeats == 2:
                    step, position, share = np.tile(step, 2), np.tile(position, 2), np.tile(share, 2)
                    row = np.concatenate([2 * row, 2 * row + 1])
            objective = replace(objective, alignment=Alignment(step, row, position, share))
        if self._copies and self._settings.src_word_dropout:  # an unknown word is copied as what it was
            objective = replace(objective, copied=batch.src)
        if self._changes_batch:
            with operation("making batches"):
                batch = self._changed(batch, seed)
        return Prepared(batch, objective)

    def _changed(self, batch: Any, seed: int) -> Any:
        """Return the batch after random changes, doubled if it is passed twice (R-Drop)."""
        settings = self._settings
        if rate := settings.tgt_word_dropout:
            batch = replace(batch, tgt_in=_dropped(batch.tgt_in, rate, _random(seed, _TGT)))
        if rate := settings.src_word_dropout:
            model: Any = self._model
            units = model.units_of(batch.src) if self._has_factors else batch.src
            dropped = _dropped(units, rate, _random(seed, _SRC))
            # The factors of an unknown word are kept.
            batch = replace(batch, src=dropped if units is batch.src else dropped + (batch.src - units))
        return batch.doubled() if settings.r_drop else batch


def _random(seed: int, purpose: int) -> np.random.Generator:
    return np.random.default_rng([seed, purpose])


def _dropped(ids: np.ndarray, rate: float, random: np.random.Generator) -> np.ndarray:
    """Return the ids with a random fraction of the words replaced by the unknown token; special tokens are kept."""
    return np.where((ids > EOS_ID) & (random.random(ids.shape) < rate), ids.dtype.type(UNK_ID), ids)
