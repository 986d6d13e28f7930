"""Training methods of the settings: changes to a batch before the update, and terms added to its loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.data.batching.batches import Batch, make_batch
from nmt.errors import DeviceError
from nmt.evaluate import sentence_utility
from nmt.model.batch_pass import LIKELIHOOD, Alignment, Objective, Risk
from nmt.rnn.profile import operation
from nmt.special_tokens import EOS_ID, UNK_ID, boundary_ids

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.alignment.word_alignment import WordAlignments
    from nmt.data.tokens.subwords import Subwords
    from nmt.model.network import Network


class MinimumRisk:
    """Samples candidates for minimum risk training: translations from the model next to the reference, and the cost of
    each (Shen et al. 2016, sections 3.2 and 4.1). Raises DeviceError if the model is on a GPU. `subwords`: subwords of
    the target: costs are computed on text."""

    def __init__(self, config: Config, model: Network, subwords: Subwords, threads: int) -> None:
        self._settings, self._limits, self._threads = config.training, config.decoding, threads
        self._model, self._subwords = model, subwords
        self._boundaries = config.model.encoder.boundaries
        self._utility = sentence_utility(self._settings.minimum_risk_metric)
        if not model.device.is_cpu:
            raise DeviceError(
                f"training.minimum_risk: must be 0 on a GPU, got {self._settings.minimum_risk} on the device "
                f"{model.device.name}; use --device cpu"
            )

    def candidates(self, batch: Batch, seed: int) -> tuple[Batch, Risk]:
        """Return the candidates of a batch's sentences, one per row: each reference, and every distinct sampled
        translation that differs from it. `seed` determines the samples."""
        with operation("drawing translations"):
            sources, references = self._sources(batch), _targets(batch)
            drawn = self._drawn(sources, seed)
        with operation("making batches"):
            found = [
                [reference, *sorted({tuple(ids) for ids in ways} - {tuple(reference)})]
                for reference, ways in zip(references, drawn, strict=True)
            ]
            numbers = np.repeat(np.arange(len(found)), [len(ways) for ways in found])
            first = np.concatenate([[True], numbers[1:] != numbers[:-1]])
            rows = make_batch(
                [sources[n] for n in numbers],
                [ids for ways in found for ids in ways],
                range(len(numbers)),
                self._boundaries,
            )
        with operation("costs of translations"):
            costs = np.concatenate([self._costs(ways) for ways in found])
        order, settings = rows.indices, self._settings
        risk = Risk(
            numbers[order], costs[order], first[order], settings.minimum_risk_alpha, settings.minimum_risk_likelihood
        )
        return replace(rows, indices=batch.indices[numbers[order]]), risk

    def _sources(self, batch: Batch) -> list[list[int]]:
        """Return the words of each source, without special tokens."""
        before, after = boundary_ids(self._boundaries)
        ends = batch.src_lengths - len(after)
        return [batch.src[len(before) : end, row].tolist() for row, end in enumerate(ends)]

    def _drawn(self, sources: list[list[int]], seed: int) -> list[list[list[int]]]:
        """Return sampled translations of each source, including those cut off at the greatest length."""
        from nmt.decode import search

        model: Any = self._model
        count = self._settings.minimum_risk
        found = search(
            model,
            sources,
            beam_size=count,
            n_best=count,
            max_length_ratio=self._limits.max_length_ratio,
            max_length_extra=self._limits.max_length_extra,
            batch_size=len(sources),
            threads=self._threads,
            sampling=True,
            sampling_seed=seed,
        )
        return [[one.ids for one in ways] for ways in found]

    def _costs(self, ways: list[Any]) -> np.ndarray:
        """Return the costs of one sentence's candidates, the reference first."""
        reference, *texts = self._subwords.decode(ways)
        return np.array([0.0, *(1 - self._utility(text, reference) / 100 for text in texts)])


def _targets(batch: Batch) -> list[list[int]]:
    """Return the words of each target, without EOS."""
    return [batch.tgt_out[: length - 1, row].tolist() for row, length in enumerate(batch.tgt_lengths)]


_SRC, _TGT, _MIXED = range(3)
"""Purposes of a batch's random numbers; each has its own stream."""


@dataclass(frozen=True)
class Prepared:
    """A batch as the update uses it, and the terms that are added to its loss."""

    batch: Any
    objective: Objective = LIKELIHOOD

    @property
    def num_tgt_tokens(self) -> int:
        """Return the number of target tokens over which its loss is summed."""
        return self.objective.tokens(self.batch.tgt_lengths)

    @property
    def options(self) -> dict[str, Any]:
        """Return the keyword arguments for `Network.loss_and_gradients`; empty if nothing is added to the loss."""
        return {} if self.objective is LIKELIHOOD else {"objective": self.objective}


class Methods:
    """The training methods that the settings enable; without any, a batch is unchanged. Raises DeviceError if one of
    them does not work on the model's device.

    Args:
        model: The model whose predictions scheduled sampling uses.
        alignments: Word alignments of the training pairs, if attention is guided by them.
        tgt_subwords: Subwords of the target, for the costs in minimum risk training.
    """

    def __init__(
        self,
        config: Config,
        model: Network,
        threads: int,
        alignments: WordAlignments | None = None,
        tgt_subwords: Subwords | None = None,
    ) -> None:
        settings, source = config.training, config.data.src
        self._settings, self._model, self._threads = settings, model, threads
        self._alignments, self._has_factors = alignments, bool(config.model.encoder.factors)
        before, after = boundary_ids(config.model.encoder.boundaries)
        self._objective = Objective(
            r_drop=settings.r_drop,
            guided_alignment=settings.guided_alignment,
            coverage=settings.coverage_loss,
            widest_source=source.max_length + len(before) + len(after),
        )
        if not (settings.r_drop or settings.coverage_loss or alignments is not None):
            self._objective = LIKELIHOOD
        self._copies = config.model.decoder.copy_source
        self._changes_batch = any(
            (settings.src_word_dropout, settings.tgt_word_dropout, settings.scheduled_sampling, settings.r_drop)
        )
        self._risk: MinimumRisk | None = None
        if settings.minimum_risk and tgt_subwords is not None:
            self._risk = MinimumRisk(config, model, tgt_subwords, threads)
        self.repeats = 2 if settings.r_drop else 1
        """The count of each target token in a prepared batch."""
        self.recounts = settings.r_drop > 0 or bool(source.sampling_alpha or config.data.tgt.sampling_alpha)
        """Whether a prepared batch can have other numbers of tokens than planned."""

    def prepare(self, batch: Any, update: int, seed: int) -> Prepared:
        """Return the batch as update `update`, counted from 1, uses it; `seed` determines random draws."""
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
        if self._risk is not None:
            batch, risk = self._risk.candidates(batch, seed)
            objective = replace(objective, risk=risk)
        if self._changes_batch:
            with operation("making batches"):
                batch = self._changed(batch, update, seed)
        return Prepared(batch, objective)

    def _changed(self, batch: Any, update: int, seed: int) -> Any:
        """Return the batch after random changes, doubled if it is passed twice (R-Drop)."""
        settings = self._settings
        rise = max(1, settings.scheduled_sampling_updates)
        if rate := settings.scheduled_sampling * min(1.0, update / rise):
            batch = replace(batch, tgt_in=self._mixed(batch, rate, seed))
        if rate := settings.tgt_word_dropout:
            batch = replace(batch, tgt_in=_dropped(batch.tgt_in, rate, _random(seed, _TGT)))
        if rate := settings.src_word_dropout:
            model: Any = self._model
            units = model.units_of(batch.src) if self._has_factors else batch.src
            dropped = _dropped(units, rate, _random(seed, _SRC))
            # The factors of an unknown word are kept.
            batch = replace(batch, src=dropped if units is batch.src else dropped + (batch.src - units))
        return batch.doubled() if settings.r_drop else batch

    def _mixed(self, batch: Any, rate: float, seed: int) -> np.ndarray:
        """Return the decoder's inputs, some of them replaced by the model's own predictions."""
        model: Any = self._model
        guessed = model.predictions(batch, self._threads)
        mixed: np.ndarray = batch.tgt_in.copy()
        drawn = _random(seed, _MIXED).random(mixed.shape) < rate
        drawn[0] = False  # the decoder's input there is the start token
        drawn &= mixed > EOS_ID
        before = np.empty_like(guessed)
        before[1:] = guessed[:-1]
        mixed[drawn] = before[drawn]
        return mixed


def largest_shape(config: Config, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the most target steps, source steps and rows (T, S, B) of a batch of this shape once prepared."""
    (T, S, B), settings, limits = shape, config.training, config.decoding
    if settings.minimum_risk:
        T = max(T, int(limits.max_length_ratio * S) + limits.max_length_extra + 1)
        return T, S, (settings.minimum_risk + 1) * B
    return T, S, 2 * B if settings.r_drop else B


def _random(seed: int, purpose: int) -> np.random.Generator:
    return np.random.default_rng([seed, purpose])


def _dropped(ids: np.ndarray, rate: float, random: np.random.Generator) -> np.ndarray:
    """Return the ids with a random fraction of the words replaced by the unknown token; special tokens are kept."""
    return np.where((ids > EOS_ID) & (random.random(ids.shape) < rate), ids.dtype.type(UNK_ID), ids)
