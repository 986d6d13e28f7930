"""Which batches of an epoch make an update together, and which process computes which of them.

Gradients of so many batches as one update has are added up: by one process, one after another
(`training.batch_multiplier`), or by several ranks side by side, or both. The update is the same one: the plan is a
function of (seed, epoch, number of batches an update) and of nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nmt.rnn.profile import operation

if TYPE_CHECKING:
    from nmt.train.updates.state import TrainingState

SOURCE_WORK = 0.2
"""What a source token costs, where a target token costs 1: measured with configs/quickstart.yaml by
benchmarks/scaling_out.py; a larger encoder costs more."""


class Batches(Protocol):
    """The corpus dealt into batches, epoch by epoch."""

    in_order: bool
    """Whether batches go on where others ended, and have to be used as they come."""

    def num_batches(self, epoch: int = 0) -> int:
        """Return batches in an epoch."""

    def windows(self, epoch: int = 0) -> list[int]:
        """Return batches in each part of an epoch that is planned by itself: one part, but for corpora larger than
        memory."""

    def shapes(self, epoch: int = 0) -> np.ndarray:
        """Return target steps, source steps and rows of every batch of an epoch's first window, T, S and B: int64
        [batches, 3]."""

    def tokens(self, epoch: int = 0, window: int = 0) -> np.ndarray:
        """Return source and target tokens of every batch of a window of an epoch: int64 [batches, 2]."""

    def batch(self, epoch: int, number: int) -> Any:
        """Return one batch of an epoch, counted from 0."""

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """Return the batches of an epoch in order, from number `start` on."""


@dataclass(frozen=True)
class UpdateBatches:
    """The batches whose gradients make one update.

    numbers: Of all of them, in the epoch. own: Places in `numbers` of those that this process computes. The tokens are
    those of all of them.
    """

    epoch: int
    numbers: list[int]
    own: list[int]
    num_src_tokens: int
    num_tgt_tokens: int
    batches: Batches = field(repr=False)

    def __len__(self) -> int:
        """Return how many batches there are in all."""
        return len(self.numbers)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield the batches of this process, each with its place; those that hold nothing to learn are left out."""
        for place in self.own:
            with operation("making batches"):
                batch = self.batches.batch(self.epoch, self.numbers[place])
            if batch.num_tgt_tokens:
                yield place, batch


class SingleBatch:
    """An update of one batch that comes from nowhere in an epoch."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self.num_src_tokens: int = batch.num_src_tokens
        self.num_tgt_tokens: int = batch.num_tgt_tokens

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield the batch at place 0."""
        yield 0, self._batch

    def __len__(self) -> int:
        """Return 1."""
        return 1


class Dealing:
    """A corpus in batches, dealt to updates and to ranks.

    Where an update has one batch they come as they are. Otherwise those of like work make an update, so that ranks
    wait little for one another; a corpus whose batches must follow one another keeps their order.

    Args:
        batches: The corpus.
        size: Batches an update: `training.batch_multiplier` times the number of ranks.
        seed: Of the run.
        rank, ranks: Which process this is of how many.
    """

    def __init__(self, batches: Batches, size: int = 1, seed: int = 42, *, rank: int = 0, ranks: int = 1) -> None:
        self.batches, self.size = batches, size
        self._seed, self._rank, self._ranks = seed, rank, ranks
        self._tokens: tuple[tuple[int, int], np.ndarray] = ((-1, -1), np.zeros((0, 2), np.int64))

    def num_updates(self, epoch: int) -> int:
        """Updates in an epoch."""
        return sum(-(-count // self.size) for count in self.batches.windows(epoch))

    def left(self, state: TrainingState) -> Iterator[UpdateBatches]:
        """Yield the rest of the state's epoch, update by update.

        What was used of it may have been dealt to updates of other sizes, by runs with other ranks (see
        `TrainingState.dealt`): each batch is used once in an epoch all the same. An update has batches of one window.
        """
        dealt = list(state.dealt)
        done = state.position - sum(count for _, count in dealt)
        first = 0
        for window, count in enumerate(self.batches.windows(state.epoch)):
            if not dealt and done >= count:
                done, first = done - count, first + count
                continue
            rest = list(range(count))
            while dealt and rest:
                size, used = dealt[0]
                order = [number for group in self._groups(state.epoch, window, rest, size) for number in group]
                rest = sorted(order[used:])
                dealt[:1] = [(size, used - len(order))] if used > len(order) else []
            for group in self._groups(state.epoch, window, rest, self.size):
                done -= len(group)
                if done < 0:
                    src, tgt = self._tokens_of(state.epoch, window)[group].sum(axis=0).tolist()
                    numbers = [first + number for number in group]
                    yield UpdateBatches(state.epoch, numbers, self._own(len(group)), src, tgt, self.batches)
            first += count

    def resume(self, state: TrainingState) -> None:
        """Note in a saved state that its epoch goes on in updates of this size."""
        if state.position and state.batches_an_update != self.size:
            if self.batches.in_order:
                state.position, state.dealt = 0, []  # other streams: the epoch begins again
            else:
                state.dealt.append((state.batches_an_update, state.position - sum(count for _, count in state.dealt)))
        state.batches_an_update = self.size

    def _groups(self, epoch: int, window: int, numbers: Sequence[int], size: int) -> list[list[int]]:
        """Return batches of a window dealt to updates of one size; the smallest batches make the one that has fewer."""
        if size == 1 or self.batches.in_order:
            return [list(numbers[at : at + size]) for at in range(0, len(numbers), size)]
        tokens = self._tokens_of(epoch, window)[numbers]
        work = SOURCE_WORK * tokens[:, 0] + tokens[:, 1]
        by_work = np.asarray(numbers)[np.argsort(-work, kind="stable")].tolist()
        groups = [by_work[at : at + size] for at in range(0, len(by_work), size)]
        np.random.default_rng([self._seed, epoch, size, *([window] if window else [])]).shuffle(groups)
        return groups

    def _own(self, count: int) -> list[int]:
        """Return places of this rank's batches among `count` by falling work: 0 1 2, then 2 1 0, and so on, so that no
        rank has the larger one every time."""
        places = []
        for first in range(0, count, self._ranks):
            forward = self.batches.in_order or first // self._ranks % 2 == 0
            turn = self._rank if forward else self._ranks - 1 - self._rank
            if first + turn < count:
                places.append(first + turn)
        return places

    def _tokens_of(self, epoch: int, window: int) -> np.ndarray:
        if self._tokens[0] != (epoch, window):
            self._tokens = ((epoch, window), self.batches.tokens(epoch, window))
        return self._tokens[1]
