"""Candidates for minimum risk training: translations sampled from the model next to the reference, and the cost of each
(Shen et al. 2016, sections 3.2 and 4.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.data.batching.batches import Batch, make_batch
from nmt.errors import DeviceError
from nmt.evaluate import sentence_utility
from nmt.model.objective import Risk
from nmt.rnn.profile import operation
from nmt.special_tokens import boundary_ids

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.tokens.subwords import Subwords
    from nmt.model.network import Network


class MinimumRisk:
    """Samples candidates for the sentences of a batch. Raises DeviceError if the model is on a GPU.

    Args:
        subwords: Subwords of the target: costs are computed on text.
    """

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
            numbers[order],
            costs[order],
            first[order],
            settings.minimum_risk_alpha,
            settings.minimum_risk_likelihood,
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
