"""The state and the rules of a beam search of fixed size, as arrays of a device."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


@dataclass(frozen=True)
class BeamSettings:
    """Settings of a search without the interpreter, or on a GPU. size: maximum number of sentences in progress;
    beam_size: hypotheses per sentence; n_best: translations wanted. eos_id ends a hypothesis; the token `never` and
    tokens below first_token are not produced. divisors: float64, the divisor of a sum over 0, 1, ... tokens;
    word_reward: added for each token. A program also follows rules."""

    size: int
    beam_size: int
    n_best: int
    eos_id: int
    never: int
    first_token: int
    divisors: np.ndarray
    word_reward: float = 0.0


@dataclass(frozen=True)
class BeamRules:
    """Rules for the beams of N sentences with K rows each (see `TokenRules`).

    settings: those of the search. reweights: whether a rule changes scores. prefixes: int32 [N, P], -1 after the end of
    each. history: int32 [2, N * K, 1 + T], by parity of the step: the row's sample number, then its tokens so far.
    drawing: None to search; or the key uint64 [N] of each sentence's random numbers, and the temperature, top_k and
    top_p of `kernels.search.choose.draw_tokens`."""

    settings: BeamSettings
    reweights: bool
    numbers: Any
    reals: Any
    lists: Any
    prefixes: Any
    history: Any
    drawing: tuple[Any, float, int, float] | None

    @classmethod
    def make(
        cls, device: Any, rules: Any, settings: BeamSettings, T: int, *, keys: np.ndarray | None = None
    ) -> BeamRules:
        """Make rules from a `TokenRules` for a block of settings.size = N sentences with settings.beam_size = K rows
        each; T: the maximum length of a translation. The prefixes are one per sentence, or none. keys: those of
        samples, on the host."""
        N, K = settings.size, settings.beam_size
        begin = np.full((N, max(map(len, rules.prefixes), default=0)), -1, np.int32)
        for row, prefix in zip(begin, rules.prefixes, strict=False):
            row[: len(prefix)] = prefix
        history = np.zeros((2, N * K, 1 + T), np.int32)
        history[:, :, 0] = np.tile(np.arange(K), N)
        return cls(
            settings=settings,
            reweights=rules.reweights,
            **{name: device.upload(getattr(rules, name)) for name in ("numbers", "reals", "lists")},
            prefixes=device.upload(begin),
            history=device.upload(history),
            drawing=None if keys is None else (device.upload(keys), *rules.drawing),
        )


def _of(element: str) -> Any:
    """Return a field whose array has this dtype."""
    return field(metadata={"element": element})


@dataclass
class BeamState:
    """The beams of N sentences with K rows each, on the device.

    By row [N * K]: tokens int32, the last token; parents int64, the row continued; sums float64, the score by which
    continuations are compared: log-probability so far, and what rules add; log_probs float64, without what rules add.
    By sentence [N]: live int32, rows with a hypothesis; room int32, places not yet taken by an ended hypothesis; steps
    int32; limits int32, the maximum number of steps; to_beat float64, the n-th best score of a finished hypothesis.
    divisors float64: the divisor of a sum over 0, 1, ... steps. For ended hypotheses, [N, K] in the order in which they
    ended: end_log_probs and end_scores float64, end_steps int32 (0: none), end_tokens int32, end_parents int32 (rows
    before the last step), end_finished int32. history int32 [2, T, N * K]: tokens and parents after every step. going
    int32 [1]: sentences that have not ended."""

    tokens: Any = _of("int32")
    parents: Any = _of("int64")
    sums: Any = _of("float64")
    log_probs: Any = _of("float64")
    live: Any = _of("int32")
    room: Any = _of("int32")
    steps: Any = _of("int32")
    limits: Any = _of("int32")
    to_beat: Any = _of("float64")
    divisors: Any = _of("float64")
    end_log_probs: Any = _of("float64")
    end_scores: Any = _of("float64")
    end_steps: Any = _of("int32")
    end_tokens: Any = _of("int32")
    end_parents: Any = _of("int32")
    end_finished: Any = _of("int32")
    history: Any = _of("int32")
    going: Any = _of("int32")

    @classmethod
    def start(
        cls, xp: Any, *, limits: np.ndarray, K: int, token: int | np.ndarray, divisors: np.ndarray, live: int = 1
    ) -> BeamState:
        """Return `live` empty hypotheses per sentence, after `token`, one for all or [N]; none where the limit is 0.
        xp: of the device. limits: [N], of the host. divisors: for 0, 1, ... max(limits) tokens."""
        N, T = len(limits), max(1, int(limits.max(initial=0)))
        R, most = N * K, xp.asarray(limits.astype(np.int32))
        ends = {name: dtype for name, dtype in cls.elements().items() if name.startswith("end_")}
        return cls(
            tokens=xp.asarray(np.repeat(np.full(N, token, np.int32), K)),
            parents=xp.arange(R, dtype=np.int64),
            sums=xp.zeros(R, np.float64),
            log_probs=xp.zeros(R, np.float64),
            live=live * (most > 0).astype(np.int32),
            room=xp.full(N, K, np.int32),
            steps=xp.zeros(N, np.int32),
            limits=most,
            to_beat=xp.full(N, -np.inf, np.float64),
            divisors=xp.asarray(divisors),
            **{name: xp.zeros((N, K), dtype) for name, dtype in ends.items()},
            history=xp.zeros((2, T, R), np.int32),
            going=xp.full(1, int((limits > 0).sum()), np.int32),
        )

    @classmethod
    def elements(cls) -> dict[str, str]:
        """Return the dtype of each array, by name."""
        return {field.name: field.metadata["element"] for field in fields(cls)}

    def flat(self) -> dict[str, Any]:
        """Return all arrays by name, flat."""
        return {name: array.reshape(-1) for name, array in vars(self).items()}
