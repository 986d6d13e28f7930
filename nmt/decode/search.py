"""Translate token ids with a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock, get_ident
from weakref import ref

import numpy as np

from nmt.decode.beam import BeamCell, run
from nmt.decode.blocks import length_blocks
from nmt.decode.device_beam import BlockSearch
from nmt.decode.hypotheses import Block, Hypothesis, SearchDecoder, SearchModel
from nmt.decode.plain_search import run_loop
from nmt.decode.rules.options import SearchOptions
from nmt.decode.rules.penalty import LengthPenalty, length_divisor
from nmt.rnn.cores import default_threads
from nmt.rnn.kernels.threads.pool import run_parallel
from nmt.rnn.stepping.beam_settings import BeamSettings
from nmt.special_tokens import BOS_ID

_LEAST_WORK = 8
"""Each thread runs a separate search only if there are at least this many sentences for each; with fewer, reading all
weights once more costs more than it gains."""


class _Running:
    """A marker that exists as long as a search runs, however the search ends."""


# If two searches begin at the same moment, one of them may be missing here: both are still right, only a little slower.
# The references have no callbacks: an interruption during a callback would be lost.
_running: list[ref[_Running]] = []


def _share_of(threads: int, search: _Running) -> int:
    """Return how many of `threads` threads a search may use while other searches run. Two searches with one thread each
    finish sooner than two that take turns with all threads at every step."""
    global _running
    _running = [*(other for other in _running if other() is not None), ref(search)]
    return max(1, threads // len(_running))


def search(
    model: SearchModel,
    src_ids: Sequence[Sequence[int]],
    *,
    beam_size: int = 5,
    length_penalty: LengthPenalty = 1.0,
    n_best: int = 1,
    max_length_ratio: float = 2.0,
    max_length_extra: int = 10,
    batch_size: int | None = None,
    threads: int | None = None,
    on_ended: Callable[[int], None] | None = None,
    options: SearchOptions | None = None,
) -> list[list[Hypothesis]]:
    """Return the n best translations of each sentence (ids without EOS), best first.

    `batch_size` sentences are processed at a time (all of them if None): when one ends, the next one joins. A
    translation has at most `max_length_ratio` times as many tokens as its source, plus `max_length_extra`, including
    EOS, plus the tokens that the options force. The result depends neither on the other sentences in the batch nor on
    the number of threads; searches that run at the same time share the threads. `on_ended` is called with the number of
    sentences that have ended since its last call; it may raise to stop the search. With `options.sampling`, each
    sentence gets `beam_size` samples.
    """
    if not src_ids:
        return []
    this = _Running()
    threads = _share_of(threads or default_threads(), this)
    options = options or SearchOptions()
    limits = options.limits(src_ids, max_length_ratio, max_length_extra)
    size = min(batch_size or len(src_ids), len(src_ids))
    if not model.device.is_cpu:
        blocks = BlockSearch(model, beam_size, length_penalty, n_best, options)
        return blocks.run(src_ids, limits, batch_size=size, on_ended=on_ended)
    # With enough sentences each thread runs a separate search, and no thread waits. With fewer, several threads share
    # each of fewer searches.
    workers = max(1, min(threads, size // _LEAST_WORK))
    own_threads = max(1, threads // workers)
    size = -(-size // workers)
    queue = _Queue(src_ids, length_blocks(src_ids, size), options)
    expected = None if options.expected_lengths is None else np.array(options.expected_lengths, np.float64)
    request = _Request(src_ids, limits, expected, beam_size, length_penalty, n_best, options)
    longest = max(map(len, src_ids)) + 1 if options.coverage_penalty else 0
    found: list[list[Hypothesis]] = [[] for _ in src_ids]
    caller = get_ident()  # only this thread calls on_ended, whichever parts it runs

    def work(part: int, parts: int) -> None:
        decoder = model.search_decoder(own_threads, longest)
        ended = request.sentences(decoder, queue, size)
        with queue:
            for sentences in ended:
                for n, hypotheses in sentences:
                    found[n] = hypotheses
                queue.count(len(sentences))
                if on_ended is not None and get_ident() == caller:
                    on_ended(queue.newly_ended())
                if queue.failed:
                    return
        decoder.close()  # only here: after an error or an interruption the decoder must not be reused

    run_parallel(work, workers)
    if on_ended is not None and (rest := queue.newly_ended()):
        on_ended(rest)
    return found


@dataclass(frozen=True)
class _Request:
    """The arguments of one call of `search`, shared by its threads. limits [N]: the maximum length of the translations
    of each sentence; expected [N]: their expected lengths, or None."""

    src_ids: Sequence[Sequence[int]]
    limits: np.ndarray
    expected: np.ndarray | None
    beam_size: int
    length_penalty: LengthPenalty
    n_best: int
    options: SearchOptions

    def sentences(
        self, decoder: SearchDecoder, queue: Iterator[Block], size: int
    ) -> Iterator[list[tuple[int, list[Hypothesis]]]]:
        """Yield the sentences of a queue as they end, each with its hypotheses; `size` sentences are processed at a
        time.

        This method alone chooses how to search: as one compiled loop if the options keep the plain choice of
        continuations and the decoder has such a loop, otherwise step by step.
        """
        selector = self.options.selector(self.src_ids, self.beam_size, decoder.eos_id)
        loop = decoder.begin_loop(self._settings(size, decoder.eos_id)) if selector.is_plain else None
        if loop is not None:
            return run_loop(decoder, loop, queue, self.limits, self.expected, self.n_best)
        cell = BeamCell(
            decoder,
            self.limits,
            self.beam_size,
            self.length_penalty,
            self.n_best,
            first_token=self.options.first_token,
            never=BOS_ID,
            word_reward=self.options.word_reward,
            coverage_penalty=self.options.coverage_penalty,
            selector=selector,
            expected=self.expected,
        )
        return ([one] for one in run(cell, queue, size))

    def _settings(self, size: int, eos_id: int) -> BeamSettings:
        """Return the settings of a compiled loop that processes `size` sentences at a time."""
        return BeamSettings(
            size=size,
            beam_size=self.beam_size,
            n_best=self.n_best,
            eos_id=eos_id,
            never=BOS_ID,
            first_token=self.options.first_token,
            divisors=length_divisor(self.length_penalty, np.arange(self.limits.max(initial=0) + 2)),
            word_reward=self.options.word_reward,
        )


class _Queue(Iterator[Block]):
    """Blocks of sentences for several threads. If a thread fails inside `with`, `failed` is set for the others."""

    def __init__(self, src_ids: Sequence[Sequence[int]], blocks: Iterator[list[int]], options: SearchOptions) -> None:
        self._src_ids, self._blocks, self._options, self._lock = src_ids, blocks, options, Lock()
        self._ended = self._reported = 0
        self.failed = False

    def __next__(self) -> Block:
        with self._lock:
            block = next(self._blocks)
        sources = [list(self._src_ids[n]) for n in block]
        candidates = None
        if self._options.shortlist is not None:
            candidates = [self._options.candidates(n, s) for n, s in zip(block, sources, strict=True)]
        return Block(np.array(block), sources, candidates)

    def count(self, ended: int) -> None:
        """Add `ended` to the number of sentences that have ended."""
        with self._lock:
            self._ended += ended

    def newly_ended(self) -> int:
        """Return how many sentences have ended since the last call."""
        ended = self._ended
        self._reported, new = ended, ended - self._reported
        return new

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.failed |= error is not None
