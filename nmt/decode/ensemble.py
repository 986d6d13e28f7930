"""Several models with one vocabulary that translate together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nmt.decode.hypotheses import Decoder, ForcedScores, ScoringModel, States, TokenIds
from nmt.rnn.kernels.search.choose import top_tokens

if TYPE_CHECKING:
    from nmt.rnn.arrays.workspace import Workspace
    from nmt.rnn.device import Device
    from nmt.rnn.stepping.beam_settings import BeamSettings

Average = Literal["log_prob", "prob"]
Combine = Callable[[Sequence[np.ndarray]], np.ndarray]
"""Makes one score of each token from the log-probabilities that several decoders give it, arrays of one shape that may
be written to."""


class Ensemble:
    """Models that search takes for one.

    average: `log_prob`, a token's score is the mean of its log-probabilities (a geometric mean, not normalised again),
    or `prob`, the logarithm of its mean probability.
    """

    def __init__(self, models: Sequence[ScoringModel], average: Average = "log_prob") -> None:
        self.models, self.average = list(models), average

    def __repr__(self) -> str:
        """Return its models."""
        return f"Ensemble({self.models!r}, {self.average})"

    @property
    def device(self) -> Device:
        """Return where the first of them computes."""
        return self.models[0].device

    def search_decoder(self, threads: int | None = None, coverage_of: int = 0) -> EnsembleDecoder:
        """Return what search needs; coverage is the mean of all models'."""
        decoders = [m.search_decoder(threads, coverage_of) for m in self.models]
        return EnsembleDecoder(decoders, partial(averaged, average=self.average))

    def block_decoder(self, src_ids: TokenIds, K: int, coverage_of: int = 0) -> EnsembleBlockDecoder:
        """Return what search on a GPU needs."""
        decoders = [m.block_decoder(src_ids, K, coverage_of) for m in self.models]
        combine = partial(self.device.average_log_probs, kind=self.average)
        return EnsembleBlockDecoder(decoders, self.device, combine)

    def forced_log_probs(
        self, src_ids: TokenIds, tgt_ids: TokenIds, *, attention: bool = False, threads: int | None = None
    ) -> ForcedScores:
        """Return scores of given tokens and the mean of the attentions of those that have one; see `ScoringModel`."""
        found = [m.forced_log_probs(src_ids, tgt_ids, attention=attention, threads=threads) for m in self.models]
        scores = [averaged(one, self.average) for one in zip(*(f[0] for f in found), strict=True)]
        weights = [np.mean(np.stack(one), axis=0) for one in zip(*(f[1] for f in found if f[1]), strict=True)]
        return scores, weights


class EnsembleDecoder:
    """Decoders side by side, whose scores `combine` makes one. Their states are named `0.h`, `1.h`; their outputs lie
    beside one another."""

    def __init__(self, decoders: Sequence[Decoder], combine: Combine) -> None:
        self.decoders, self.combine = list(decoders), combine
        self.eos_id = self.decoders[0].eos_id
        self._sentence_ids = np.zeros((len(self.decoders), 0), np.int64)  # each decoder's own, by ours
        self._widths: list[int] = []

    def admit(
        self, src_ids: list[list[int]], candidates: list[np.ndarray] | None = None
    ) -> tuple[np.ndarray, States, np.ndarray]:
        """See `Decoder`."""
        admitted = [d.admit(src_ids, candidates) for d in self.decoders]
        sentence_ids = self._sentence_ids.shape[1] + np.arange(len(src_ids))
        self._sentence_ids = np.concatenate([self._sentence_ids, np.stack([a[0] for a in admitted])], axis=1)
        return sentence_ids, self._joined([a[1] for a in admitted]), admitted[0][2]

    def release(self, sentence_ids: np.ndarray) -> None:
        """See `Decoder`."""
        for decoder, own in zip(self.decoders, self._sentence_ids, strict=True):
            decoder.release(own[sentence_ids])

    def close(self) -> None:
        """See `Decoder`."""
        for decoder in self.decoders:
            decoder.close()

    def begin_loop(self, settings: BeamSettings) -> None:
        """See `SearchDecoder`: a loop reads one model."""

    def narrowed(self) -> None:
        """See `SearchDecoder`: each of the decoders has its own candidates."""

    def step(
        self, tokens: np.ndarray, states: States, parent: np.ndarray, sentence_ids: np.ndarray
    ) -> tuple[np.ndarray, States]:
        """See `Decoder`."""
        found = []
        for n, (decoder, own) in enumerate(zip(self.decoders, self._sentence_ids, strict=True)):
            start = f"{n}."
            one = {k.removeprefix(start): v for k, v in states.items() if k.startswith(start)}
            found.append(decoder.step(tokens, one, parent, own[sentence_ids]))
        self._widths = [outputs.shape[1] for outputs, _ in found]
        return np.concatenate([outputs for outputs, _ in found], axis=1), self._joined([s for _, s in found])

    def _joined(self, parts: Sequence[States]) -> States:
        """Return states of all decoders by `NUMBER.NAME`, and the mean of their coverage where they have it."""
        joined = {f"{n}.{k}": v for n, states in enumerate(parts) for k, v in states.items()}
        if "coverage" in parts[0]:
            joined["coverage"] = np.mean([states["coverage"] for states in parts if "coverage" in states], axis=0)
        return joined

    def best_tokens(self, outputs: np.ndarray, first_token: int, places: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Decoder`."""
        scores = self.log_probs(outputs)
        scores[:, :first_token] = -np.inf
        return top_tokens(scores, places)

    def log_probs(self, outputs: np.ndarray) -> np.ndarray:
        """See `Decoder`."""
        own = np.split(outputs, np.cumsum(self._widths)[:-1], axis=1)
        parts = zip(self.decoders, own, strict=True)
        return self.combine([d.log_probs(np.ascontiguousarray(y)) for d, y in parts])


class EnsembleBlockDecoder:
    """Block decoders side by side, on a GPU; `combine` as of `EnsembleDecoder`, for arrays of the device."""

    def __init__(self, decoders: Sequence[Any], device: Device, combine: Callable[[list[Any]], Any]) -> None:
        self.decoders, self.combine, self._device = list(decoders), combine, device
        self._mean: Any = None

    @property
    def first(self) -> np.ndarray:
        """See `BlockDecoder`."""
        first: np.ndarray = self.decoders[0].first
        return first

    @property
    def repeats(self) -> bool:
        """See `BlockDecoder`."""
        return all(decoder.repeats for decoder in self.decoders)

    @property
    def memory(self) -> Workspace:
        """See `BlockDecoder`."""
        memory: Workspace = self.decoders[0].memory
        return memory

    def step(self, tokens: Any) -> list[Any]:
        """Return the outputs of each."""
        return [decoder.step(tokens) for decoder in self.decoders]

    def log_probs(self, outputs: list[Any]) -> Any:
        """See `BlockDecoder`."""
        return self.combine([decoder.log_probs(y) for decoder, y in zip(self.decoders, outputs, strict=True)])

    def coverage(self) -> Any:
        """Return the mean of all, in memory of its own."""
        first, *others = (decoder.coverage() for decoder in self.decoders)
        if self._mean is None:
            self._mean = self._device.xp.empty_like(first)
        self._device.take_rows(first, self._device.index(np.arange(len(first))), self._mean)
        return self._device.average_log_probs([self._mean, *others], "log_prob")

    def follow(self, parents: Any) -> None:
        """See `BlockDecoder`."""
        for decoder in self.decoders:
            decoder.follow(parents)


def averaged(parts: Sequence[np.ndarray], average: Average) -> np.ndarray:
    """Return one score from each model's log-probabilities, arrays of one shape."""
    log_probs = np.stack(parts)
    if average == "log_prob":
        return np.asarray(log_probs.mean(axis=0))
    top = log_probs.max(axis=0)
    top = np.where(np.isfinite(top), top, 0).astype(log_probs.dtype)  # no model gives what is no candidate any chance
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(log_probs - top).mean(axis=0)))
