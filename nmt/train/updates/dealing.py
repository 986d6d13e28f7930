"""Assign the batches of an epoch to updates, and those of an update to processes.

The gradients of all batches of an update are summed: by one process in turn (`training.batch_multiplier`), by several
ranks in parallel, or both. The update is the same in each case: the plan depends only on (seed, epoch, number of
batches per update).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nmt.data.batching.batches import TrainBatches
    from nmt.train.updates.schedule import TrainingState

SOURCE_WORK = 0.2
"""Work of a source token relative to a target token; measured with configs/quickstart.yaml by
12995ccb:benchmarks/scaling_out.py. A larger encoder costs more."""


@dataclass(frozen=True)
class UpdateBatches:
    """The batches whose gradients make one update.

    numbers: The numbers of all batches within the epoch. own: Indices into `numbers` of the batches that this process
    computes. The token counts include all batches.
    """

    epoch: int
    numbers: list[int]
    own: list[int]
    num_src_tokens: int
    num_tgt_tokens: int
    batches: TrainBatches = field(repr=False)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield this process's batches, each with its place in the update."""
        for place in self.own:
            yield place, self.batches.batch(self.epoch, self.numbers[place])


class Dealing:
    """A corpus divided into batches, which are distributed over updates and ranks.

    With one batch per update, batches keep their order. Otherwise batches of similar work form an update, so that ranks
    wait little for each other.

    `size`: batches per update: `training.batch_multiplier` times the number of ranks; `rank`, `ranks`: the number of
    this process, and how many there are.
    """

    def __init__(self, batches: TrainBatches, size: int = 1, seed: int = 42, *, rank: int = 0, ranks: int = 1) -> None:
        self.batches, self.size = batches, size
        self._seed, self._rank, self._ranks = seed, rank, ranks
        self._tokens: tuple[int, np.ndarray] = (-1, np.zeros((0, 2), np.int64))

    def num_updates(self, epoch: int) -> int:
        """Return the number of updates in an epoch."""
        return -(-self.batches.num_batches(epoch) // self.size)

    def left(self, state: TrainingState) -> Iterator[UpdateBatches]:
        """Yield the updates that remain in the state's epoch. Earlier runs with another number of ranks may have used
        batches in updates of other sizes (see `TrainingState.dealt`); each batch is still used once per epoch."""
        rest = list(range(self.batches.num_batches(state.epoch)))
        for size, used in state.dealt:
            rest = sorted([number for group in self._groups(state.epoch, rest, size) for number in group][used:])
        done = state.position - sum(count for _, count in state.dealt)
        for group in self._groups(state.epoch, rest, self.size):
            done -= len(group)
            if done < 0:
                src, tgt = self._tokens_of(state.epoch)[group].sum(axis=0).tolist()
                yield UpdateBatches(state.epoch, group, self._own(len(group)), src, tgt, self.batches)

    def resume(self, state: TrainingState) -> None:
        """Prepare a saved state to continue its epoch with updates of this size."""
        if state.position and state.batches_an_update != self.size:
            state.dealt.append((state.batches_an_update, state.position - sum(count for _, count in state.dealt)))
        state.batches_an_update = self.size

    def _groups(self, epoch: int, numbers: Sequence[int], size: int) -> list[list[int]]:
        """Return the batches of an epoch in updates of one size; the smallest form the update that has fewer."""
        if size == 1:
            return [[number] for number in numbers]
        tokens = self._tokens_of(epoch)[numbers]
        work = SOURCE_WORK * tokens[:, 0] + tokens[:, 1]
        by_work = np.asarray(numbers)[np.argsort(-work, kind="stable")].tolist()
        groups = [by_work[at : at + size] for at in range(0, len(by_work), size)]
        np.random.default_rng([self._seed, epoch, size]).shuffle(groups)
        return groups

    def _own(self, count: int) -> list[int]:
        """Return the indices of this rank's batches among `count`: 0 1 2, then 2 1 0, so that all get equal work."""
        places = []
        for first in range(0, count, self._ranks):
            forward = first // self._ranks % 2 == 0
            turn = self._rank if forward else self._ranks - 1 - self._rank
            if first + turn < count:
                places.append(first + turn)
        return places

    def _tokens_of(self, epoch: int) -> np.ndarray:
        if self._tokens[0] != epoch:
            self._tokens = epoch, self.batches.tokens(epoch)
        return self._tokens[1]
