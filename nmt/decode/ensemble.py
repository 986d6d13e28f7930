"""Several models in one search: an ensemble of translation models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nmt.decode.hypotheses import Decoder, ForcedScores, ScoringModel, States, TokenIds
from nmt.rnn.kernels.search.choose import top_tokens

if TYPE_CHECKING:
    from nmt.rnn.device import Device

Average = Literal["log_prob", "prob"]


class Ensemble:
    """Several models that the search treats as one. average: `log_prob` makes the score of a token the mean of its
    log-probabilities (a geometric mean, not normalised again), `prob` the logarithm of its mean probability."""

    loop_obstacle = "several models are averaged in each step"

    def __init__(self, models: Sequence[ScoringModel], average: Average = "log_prob") -> None:
        self.models, self.average = list(models), average

    def __repr__(self) -> str:
        """Return the models and the kind of average."""
        return f"Ensemble({self.models!r}, {self.average})"

    @property
    def device(self) -> Device:
        """Return the device of the first model."""
        return self.models[0].device

    def written(self, ids: list[int]) -> list[int]:
        """Return the tokens that ids write, by the first model; see `SearchModel`."""
        return self.models[0].written(ids)

    def search_decoder(self, threads: int | None = None, longest: int = 0) -> EnsembleDecoder:
        """Return a decoder of all models."""
        return EnsembleDecoder([m.search_decoder(threads, longest) for m in self.models], self.average)

    def block_decoder(self, src_ids: TokenIds, K: int) -> EnsembleBlockDecoder:
        """Return a GPU decoder of all models for a block of sentences."""
        decoders = [m.block_decoder(src_ids, K) for m in self.models]
        return EnsembleBlockDecoder(decoders, partial(self.device.search.average_log_probs, kind=self.average))

    def forced_log_probs(
        self, src_ids: TokenIds, tgt_ids: TokenIds, *, attention: bool = False, threads: int | None = None
    ) -> ForcedScores:
        """Return the averaged scores of the given tokens, and the mean attention of the models that have attention; see
        `ScoringModel`."""
        found = [m.forced_log_probs(src_ids, tgt_ids, attention=attention, threads=threads) for m in self.models]
        scores = [averaged(one, self.average) for one in zip(*(f[0] for f in found), strict=True)]
        weights = [np.mean(np.stack(one), axis=0) for one in zip(*(f[1] for f in found if f[1]), strict=True)]
        return scores, weights


class EnsembleDecoder:
    """Several decoders side by side, whose scores are averaged. Their states are named `0.h`, `1.h` and so on; their
    outputs are concatenated."""

    def __init__(self, decoders: Sequence[Decoder], average: Average) -> None:
        self.decoders, self.average = list(decoders), average
        self.eos_id = self.decoders[0].eos_id
        self._sentence_ids = np.zeros((len(self.decoders), 0), np.int64)  # the ids in each decoder, by our ids
        self._widths: list[int] = []

    def admit(
        self, src_ids: list[list[int]], candidates: list[np.ndarray] | None = None
    ) -> tuple[np.ndarray, States, np.ndarray]:
        """Admit the sentences to every decoder; see `Decoder.admit`."""
        admitted = [d.admit(src_ids, candidates) for d in self.decoders]
        sentence_ids = self._sentence_ids.shape[1] + np.arange(len(src_ids))
        self._sentence_ids = np.concatenate([self._sentence_ids, np.stack([a[0] for a in admitted])], axis=1)
        return sentence_ids, self._joined([a[1] for a in admitted]), admitted[0][2]

    def release(self, sentence_ids: np.ndarray) -> None:
        """Release the sentences in every decoder."""
        for decoder, own in zip(self.decoders, self._sentence_ids, strict=True):
            decoder.release(own[sentence_ids])

    def close(self) -> None:
        """Close every decoder."""
        for decoder in self.decoders:
            decoder.close()

    def step(
        self, tokens: np.ndarray, states: States, parent: np.ndarray, sentence_ids: np.ndarray
    ) -> tuple[np.ndarray, States]:
        """Run one step of every decoder; see `Decoder.step`."""
        found = []
        for n, (decoder, own) in enumerate(zip(self.decoders, self._sentence_ids, strict=True)):
            start = f"{n}."
            one = {k.removeprefix(start): v for k, v in states.items() if k.startswith(start)}
            found.append(decoder.step(tokens, one, parent, own[sentence_ids]))
        self._widths = [outputs.shape[1] for outputs, _ in found]
        return np.concatenate([outputs for outputs, _ in found], axis=1), self._joined([s for _, s in found])

    def _joined(self, parts: Sequence[States]) -> States:
        """Return the states of all decoders, named `NUMBER.NAME`."""
        return {f"{n}.{k}": v for n, states in enumerate(parts) for k, v in states.items()}

    def best_tokens(self, outputs: np.ndarray, first_token: int, places: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the best tokens by the averaged scores; see `Decoder.best_tokens`."""
        scores = self.log_probs(outputs)
        scores[:, :first_token] = -np.inf
        return top_tokens(scores, places)

    def log_probs(self, outputs: np.ndarray) -> np.ndarray:
        """Return the averaged scores; see `Decoder.log_probs`."""
        own = np.split(outputs, np.cumsum(self._widths)[:-1], axis=1)
        parts = zip(self.decoders, own, strict=True)
        return averaged([d.log_probs(np.ascontiguousarray(y)) for d, y in parts], self.average)


class EnsembleBlockDecoder:
    """Several block decoders side by side on a GPU. `combine`: averages the log-probabilities of several, arrays of one
    shape on the device, which it may write to."""

    def __init__(self, decoders: Sequence[Any], combine: Callable[[list[Any]], Any]) -> None:
        self.decoders, self.combine = list(decoders), combine
        self.first, self.memory = self.decoders[0].first, self.decoders[0].memory
        self.repeats = all(decoder.repeats for decoder in self.decoders)

    def step(self, tokens: Any) -> list[Any]:
        """Run one step and return the outputs of each decoder."""
        return [decoder.step(tokens) for decoder in self.decoders]

    def log_probs(self, outputs: list[Any]) -> Any:
        """Return the combined log-probabilities of all tokens."""
        return self.combine([decoder.log_probs(y) for decoder, y in zip(self.decoders, outputs, strict=True)])

    def follow(self, parents: Any) -> None:
        """Reorder the rows of every decoder; see `BlockDecoder.follow`."""
        for decoder in self.decoders:
            decoder.follow(parents)


def averaged(parts: Sequence[np.ndarray], average: Average) -> np.ndarray:
    """Return the average of the log-probabilities of several models, arrays of one shape."""
    log_probs = np.stack(parts)
    if average == "log_prob":
        return np.asarray(log_probs.mean(axis=0))
    top = log_probs.max(axis=0)
    # A token that is no candidate of any model has -inf, and keeps it.
    top = np.where(np.isfinite(top), top, 0).astype(log_probs.dtype)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(log_probs - top).mean(axis=0)))
