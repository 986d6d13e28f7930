"""The rules of a search on a GPU, as arrays of the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Drawing:
    """Settings for drawing tokens instead of searching.

    keys: uint64 [N] of the device, which determine each sentence's random numbers; temperature, top_k and top_p as in
    `kernels.search.choose.draw_tokens`.
    """

    keys: Any
    temperature: float
    top_k: int
    top_p: float


@dataclass(frozen=True)
class BeamChoice:
    """The settings by which a step on a GPU keeps continuations.

    The token `never` is skipped, eos_id ends a hypothesis, n_best hypotheses are wanted per sentence; word_reward is
    added to scores for each token.
    """

    eos_id: int
    never: int
    n_best: int
    word_reward: float = 0.0


@dataclass(frozen=True)
class BeamRules:
    """Rules for the beams of N sentences with K rows each (their meaning: decode/rules/score_rules.py).

    Tokens below first_token, and `never`, are not produced; nor is `eos` before min_length tokens. repetition_penalty
    is 1 and no_repeat is 0 when off. forbidden: int32 [n], tokens. phrases: int32, longer forbidden sequences one after
    another, number p from starts[p] to starts[p + 1]. prefixes: int32 [N, P], -1 after the end of each. history: int32
    [2, N * K, 1 + T], by parity of the step: the row's sample number, then its tokens so far. drawing: None to search.
    """

    first_token: int
    never: int
    eos: int
    min_length: int
    repetition_penalty: float
    no_repeat: int
    forbidden: Any
    phrases: Any
    starts: Any
    prefixes: Any
    history: Any
    drawing: Drawing | None

    @classmethod
    def make(
        cls,
        device: Any,
        *,
        N: int,
        K: int,
        T: int,
        first_token: int,
        never: int,
        eos: int,
        min_length: int = 0,
        repetition_penalty: float = 1.0,
        no_repeat: int = 0,
        forbidden: Sequence[Sequence[int]] = (),
        prefixes: Sequence[Sequence[int]] = (),
        drawing: Drawing | None = None,
    ) -> BeamRules:
        """Make rules from lists of the host; T: the maximum length of a translation. prefixes: one per sentence, or
        none."""
        longer = [tuple(s) for s in forbidden if len(s) > 1]
        starts = np.cumsum([0, *(len(s) for s in longer)])
        begin = np.full((N, max((len(p) for p in prefixes), default=0)), -1, np.int32)
        for row, prefix in zip(begin, prefixes, strict=False):
            row[: len(prefix)] = prefix
        history = np.zeros((2, N * K, 1 + T), np.int32)
        history[:, :, 0] = np.tile(np.arange(K), N)

        def whole(numbers: Sequence[int] | np.ndarray) -> Any:
            return device.upload(np.asarray(numbers, np.int32).reshape(-1))

        return cls(
            first_token=first_token,
            never=never,
            eos=eos,
            min_length=min_length,
            repetition_penalty=repetition_penalty,
            no_repeat=no_repeat,
            forbidden=whole(sorted({s[0] for s in forbidden if len(s) == 1})),
            phrases=whole([token for phrase in longer for token in phrase]),
            starts=whole(starts),
            prefixes=device.upload(begin),
            history=device.upload(history),
            drawing=drawing,
        )
