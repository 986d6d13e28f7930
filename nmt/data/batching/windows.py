"""Divide a corpus larger than memory into batches window by window, preparing the next window while one is in use."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

import numpy as np

from nmt.data.batching.batches import Batch, gather, length_order, num_pools
from nmt.data.batching.epochs import Batches, drawn
from nmt.data.batching.index import LONGEST, PAIRS, TGT_TOKENS, WINDOW_PAIRS, IndexedCorpus, Rows, joined
from nmt.overriding import override
from nmt.rnn.profile import operation
from nmt.special_tokens import boundary_ids

_BLOCKS_SEED, _WINDOW_SEED = 0x626C6F63, 0x77696E64
"""Parts of seeds that make the order of blocks and the order within windows independent."""


@dataclass(frozen=True)
class Window:
    """Pairs in memory, and the rows of each batch."""

    rows: Rows
    batches: list[np.ndarray]
    tokens: np.ndarray
    shapes: np.ndarray


class WindowBatches(Batches):
    """Batches, like `TrainBatches`, of indexed pairs, of which only two windows of WINDOW_PAIRS are in memory: the
    current one, and the next one, which a thread prepares.

    An index is already in random order. An epoch takes its blocks of 4,096 pairs (fewer for a small corpus) in a newly
    shuffled order, from each corpus as many as its weight says; a window has the next blocks of each corpus, in the
    same proportions as the whole, and mixes their pairs. So the first epoch is a shuffle without any trace of the order
    of the text, and in later epochs pairs of the same block share a window again, but not a batch; which pairs share a
    block is random.

    The number of batches in each window follows from the counts of its blocks, so an epoch can be resumed anywhere
    without reading earlier windows.
    """

    def __init__(
        self, corpus: IndexedCorpus, batch_size: int, batch_type: str = "token", seed: int = 42, boundaries: str = "eos"
    ) -> None:
        self._corpus, self._batch_size, self._seed = corpus, batch_size, seed
        self._by_tokens, self._boundaries = batch_type == "token", boundaries
        self._around = sum(map(len, boundary_ids(boundaries)))
        self._longest = 1 + max(int(index.blocks[:, LONGEST].max(initial=0)) for index in corpus.indexes)
        self._lock = Lock()
        self._futures: dict[tuple[int, int], Future[Window]] = {}
        self._counts: tuple[int, list[int]] = (-1, [])
        self._worker = ThreadPoolExecutor(1, "windows")

    @override
    def windows(self, epoch: int = 0) -> list[int]:
        if self._counts[0] != epoch:
            self._counts = epoch, [self._count(blocks) for blocks in self._blocks(epoch)]
        return self._counts[1]

    @override
    def num_batches(self, epoch: int = 0) -> int:
        return sum(self.windows(epoch))

    @override
    def shapes(self, epoch: int = 0) -> np.ndarray:
        return self._window(epoch, 0).shapes

    @override
    def tokens(self, epoch: int = 0, window: int = 0) -> np.ndarray:
        return self._window(epoch, window).tokens

    @override
    def batch(self, epoch: int, number: int) -> Batch:
        first = 0
        for place, count in enumerate(self.windows(epoch)):
            if number < first + count:
                window = self._window(epoch, place)
                rows, chosen = window.rows, window.batches[number - first]
                return gather(rows.src, rows.tgt, chosen, rows.numbers[chosen], self._boundaries)
            first += count
        raise IndexError(f"batch {number} of {first}")

    @override
    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        return (self.batch(epoch, number) for number in range(start, self.num_batches(epoch)))

    def _window(self, epoch: int, place: int) -> Window:
        """Return a window, and start preparing the next one; both are kept."""
        windows = len(self.windows(epoch))
        following = (epoch, place + 1) if place + 1 < windows else (epoch + 1, 0)
        with self._lock:
            wanted = [(epoch, place), following]
            self._futures = {key: self._futures.get(key) or self._worker.submit(self._prepare, *key) for key in wanted}
            found = self._futures[wanted[0]]
        if not found.done():
            with operation("waiting for data"):
                return found.result()
        return found.result()

    def _prepare(self, epoch: int, place: int) -> Window:
        """Read the blocks of a window, and divide its pairs into batches."""
        blocks = self._blocks(epoch)[place]
        rows = joined([index.read(numbers) for index, numbers in zip(self._corpus.indexes, blocks, strict=True)])
        lengths = rows.src.lengths + self._around, rows.tgt.lengths + 1
        random = np.random.default_rng([self._seed, epoch, place, _WINDOW_SEED])
        batches = self._deal(random, *lengths, self._count(blocks))
        tokens = [[int(side[chosen].sum()) for side in lengths] for chosen in batches]
        shapes = [(lengths[1][chosen].max(), lengths[0][chosen].max(), len(chosen)) for chosen in batches]
        return Window(rows, batches, np.array(tokens).reshape(-1, 2), np.array(shapes).reshape(-1, 3))

    def _deal(
        self, random: np.random.Generator, src_lengths: np.ndarray, tgt_lengths: np.ndarray, count: int
    ) -> list[np.ndarray]:
        """Return the rows of each of `count` batches: shuffled into pools, sorted by length in each, split, and
        shuffled again.

        The order of every second pool is reversed, so that a batch that spans two pools has rows of similar length.
        """
        order = random.permutation(len(src_lengths))
        weights = tgt_lengths if self._by_tokens else np.ones_like(tgt_lengths)
        pools = np.array_split(order, num_pools(int(weights.sum()), self._batch_size))
        sorted_pools = [pool[length_order(src_lengths[pool], tgt_lengths[pool])] for pool in pools]
        order = np.concatenate([pool[:: 1 - 2 * (n % 2)] for n, pool in enumerate(sorted_pools)])
        starts = np.cumsum(weights[order]) - weights[order]
        cuts = np.searchsorted(starts, np.arange(1, count) * (int(weights.sum()) / max(1, count)))
        # A batch has at least one row, whatever the lengths are.
        cuts = np.maximum.accumulate(np.maximum(cuts - np.arange(count - 1), 1)) + np.arange(count - 1)
        cuts = np.minimum(cuts, len(order) - np.arange(count - 1, 0, -1))
        batches = np.split(order, cuts) if len(order) else []
        return [batches[number] for number in random.permutation(len(batches))]

    def _count(self, blocks: list[list[int]]) -> int:
        """Return the number of batches for these blocks: enough that none is too large, whatever its last row is."""
        totals = np.sum(
            [index.blocks[numbers].sum(axis=0) for index, numbers in zip(self._corpus.indexes, blocks, strict=True)],
            axis=0,
        )
        pairs = int(totals[PAIRS])
        if not self._by_tokens:
            return -(-pairs // self._batch_size)
        room = max(self._batch_size - self._longest + 1, self._batch_size // 2, 1)
        return min(pairs, -(-(int(totals[TGT_TOKENS]) + pairs) // room))

    def _blocks(self, epoch: int) -> list[list[list[int]]]:
        """Return, for each window of an epoch, the block numbers of each index."""
        indexes = self._corpus.indexes
        taken = [
            drawn(len(index.blocks), index.weight, epoch, (self._seed, number), _BLOCKS_SEED)
            for number, index in enumerate(indexes)
        ]
        pairs = sum(index.weight * len(index) for index in indexes)
        count = max(1, round(pairs / WINDOW_PAIRS))
        return [
            [chosen[len(chosen) * at // count : len(chosen) * (at + 1) // count].tolist() for chosen in taken]
            for at in range(count)
        ]
