"""The interface of batches, their padding, and the settings of one pass over a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nmt.rnn.arrays.workspace import Allocate, Group
from nmt.special_tokens import BOS_ID, PAD_ID, boundary_ids

if TYPE_CHECKING:
    from nmt.rnn.device import Device


@dataclass(frozen=True)
class Alignment:
    """The source positions that the target tokens of a batch translate. Entry i says that the token predicted at step
    `step[i]` of row `row[i]` is aligned to source position `position[i]` with `share[i]`; the shares of a token add up
    to 1. int64 [N] and float64 [N], on the host. A token without entries is not constrained."""

    step: np.ndarray
    row: np.ndarray
    position: np.ndarray
    share: np.ndarray


@dataclass(frozen=True)
class Objective:
    """Weights of the terms that are added to the loss of a batch; 0 disables a term.

    r_drop: of the divergence between adjacent rows of the batch, which then contains every sentence twice (see
    Device.output_loss). guided_alignment: of the cross entropy between attention and `alignment`
    (see output_heads.py). widest_source: the number of source positions for which attention is recorded; a wider
    batch compiles again. copied: the source tokens [S, B] that a decoder copies, None for those of the batch.
    """

    r_drop: float = 0.0
    guided_alignment: float = 0.0
    alignment: Alignment | None = None
    widest_source: int = 0
    copied: np.ndarray | None = None

    @property
    def reads_attention(self) -> bool:
        """Return whether the loss depends on the attention weights."""
        return self.guided_alignment > 0 and self.alignment is not None


LIKELIHOOD = Objective()
"""The likelihood alone."""


class SentencePairs(Protocol):
    """A batch of sentences with their translations."""

    @property
    def src(self) -> np.ndarray:
        """Return the source tokens with boundary tokens (see `boundary_ids`), int32 [S, B]."""

    @property
    def src_lengths(self) -> np.ndarray:
        """Return the number of real tokens of each source, [B]."""

    @property
    def tgt_in(self) -> np.ndarray:
        """Return the input tokens of the decoder, int32 [T, B]."""

    @property
    def tgt_out(self) -> np.ndarray:
        """Return the tokens to predict, int32 [T, B]."""

    @property
    def tgt_lengths(self) -> np.ndarray:
        """Return the number of real tokens of each target, [B]."""


def ready_for_nobody(*names: str) -> None:
    """Do nothing: the default of `GradientTarget.ready`."""


@dataclass(frozen=True)
class GradientTarget:
    """A sink for a batch's gradients. `tokens`: the divisor of the loss, the real target tokens of the update that
    the batch belongs to. `ready` is called with names, or prefixes before a dot, of parameters whose gradients are
    final, in the order of the backward pass; parameters that it is not called with are ready at the end."""

    arrays: Group
    tokens: int
    ready: Callable[..., None] = ready_for_nobody

    @cached_property
    def scale(self) -> float:
        """Return the factor of the gradients; a device knows the object again."""
        return 1.0 / self.tokens


class SortedSource(NamedTuple):
    """A batch of sources with its rows sorted by length, longest first: tokens [S, B] and lengths [B]; the row of the
    batch of each, and the place of each row of the batch, int64 [B]."""

    src: np.ndarray
    lengths: np.ndarray
    order: np.ndarray
    back: np.ndarray

    @classmethod
    def of(cls, src: np.ndarray, lengths: np.ndarray) -> SortedSource:
        """Sort these rows."""
        order = np.argsort(-lengths, kind="stable")
        return cls(src[:, order], lengths[order], order, np.argsort(order, kind="stable"))


@dataclass(frozen=True)
class BatchPass:
    """Settings of a pass over a batch. allocate: allocates memory that is valid until the end of the pass and its
    backward pass. threads: cores to use. target: where gradients go, with dropout drawn from `seed`, label smoothing
    and an objective; None for a pass without gradients. is_transient: whether results are used up before that memory is
    reused. real, source: what is derived from the batch, made at first use where None."""

    allocate: Allocate
    threads: int
    target: GradientTarget | None = None
    seed: int = 0
    label_smoothing: float = 0.0
    objective: Objective = LIKELIHOOD
    is_transient: bool = False
    real: RealTargets | None = None
    source: SortedSource | None = None

    @property
    def training(self) -> bool:
        """Return whether to use dropout and to record tapes for the backward pass."""
        return self.target is not None

    def lasting(self, device: Device, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array for a result of the pass: part of its workspace in training or if results are transient,
        otherwise a separate array, which keeps nothing else in memory while it is referenced."""
        is_shared = self.training or self.is_transient
        return self.allocate(shape, dtype) if is_shared else device.xp.empty(shape, dtype)


def real_positions(batch: SentencePairs) -> np.ndarray:
    """Return the sorted positions of real tokens in arrays [T * B, ...]."""
    real = np.arange(len(batch.tgt_out))[:, None] < batch.tgt_lengths[None, :]
    return np.flatnonzero(real.reshape(-1))


class RealTargets(NamedTuple):
    """The sorted positions of real tokens in arrays [T * B, ...], int64 [R], and the tokens there, int32 [R]; -1 for
    rows that do not exist."""

    rows: np.ndarray
    tokens: np.ndarray

    @classmethod
    def of(cls, batch: SentencePairs, parts: int = 0) -> RealTargets:
        """Return those of a batch; with `parts`, as many rows as are whole parts of T * B."""
        rows, all_tokens = real_positions(batch), batch.tgt_out.reshape(-1)
        part = max(1, len(all_tokens) // parts) if parts else 1
        more = min(-(-len(rows) // part) * part, len(all_tokens)) - len(rows)
        return cls(*(np.append(one, np.full(more, -1, one.dtype)) for one in (rows, all_tokens[rows])))


_WIDTH = 32
"""Widths at which attention is recorded are multiples of this, so that few compiled programs serve all."""


def positions(device: Device, memory: Any, count: int) -> Any:
    """Return the input of `AttentionProbe` for memory [S, B, M]: [S, B, count]."""
    S, B, _ = memory.shape
    unit = np.broadcast_to(np.eye(S, count, dtype=memory.dtype)[:, None], (S, B, count))
    return device.upload(np.ascontiguousarray(unit))


def rounded_up(count: int) -> int:
    """Return the width at which attention over `count` positions is recorded."""
    return -(-count // _WIDTH) * _WIDTH


def pad_sources(sentences: Sequence[Sequence[int]], boundaries: str = "eos") -> tuple[np.ndarray, np.ndarray]:
    """Return source ids with their boundary tokens (see `boundary_ids`), time-major, padded [S, B], and lengths [B]."""
    before, after = boundary_ids(boundaries)
    more = len(before) + len(after)
    lengths = np.array([len(s) + more for s in sentences], np.int64)
    src = np.full((max(1, int(lengths.max(initial=1))), len(sentences)), PAD_ID, np.int32)
    for b, sentence in enumerate(sentences):
        src[: lengths[b], b] = [*before, *sentence, *after]
    return src, lengths


def pad_targets(sentences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the decoder's input tokens, which begin with BOS, the tokens to predict, [T, B] each, and lengths [B]."""
    lengths = np.array([len(s) for s in sentences], np.int64)
    tgt_in = np.full((int(lengths.max(initial=0)), len(sentences)), PAD_ID, np.int32)
    tgt_out = tgt_in.copy()
    for b, sentence in enumerate(sentences):
        tgt_out[: len(sentence), b] = sentence
        tgt_in[: len(sentence), b] = [BOS_ID, *sentence][: len(sentence)]
    return tgt_in, tgt_out, lengths
