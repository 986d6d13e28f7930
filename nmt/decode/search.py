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
"""A thread gets a search of its own only with this many sentences in work for each; with fewer, reading all weights
once more costs it more than it gains."""


class _Running:
    """Alive as long as a search runs, however it ends."""


# Where two searches begin at the same moment one of them may be missing here: both are right, and a little slower. The
# references have no callbacks: an interruption that comes while one runs is lost.
_running: list[ref[_Running]] = []


def _share_of(threads: int, search: _Running) -> int:
    """Of threads that a search may use, while others are running. Two searches with a thread each are done sooner than
    two that take turns at sharing every step."""
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

    `batch_size` sentences are in work at a time (all of them where None): when one ends the next one joins. A
    translation has at most `max_length_ratio` times as many tokens as its source, plus `max_length_extra`, EOS
    counted, and what options make it say besides. The result depends neither on what else is in work nor on the
    number of threads, of which searches that callers run at the same time have each a share. `on_ended` is called with
    the number of sentences that have ended since its last call; it may raise to stop. With `options.sampling` there are
    `beam_size` samples of each sentence.
    """
    if not src_ids:
        return []
    this = _Running()
    threads = _share_of(threads or default_threads(), this)
    options = options or SearchOptions()
    limits = options.limits(src_ids, max_length_ratio, max_length_extra)
    size = min(batch_size or len(src_ids), len(src_ids))
    if model.device.name != "cpu":
        blocks = BlockSearch(model, beam_size, length_penalty, n_best, options)
        return blocks.run(src_ids, limits, batch_size=size, on_ended=on_ended)
    # With enough to do each thread runs a search of its own: nobody waits for anybody. With less, a few threads share
    # each of fewer searches.
    workers = max(1, min(threads, size // _LEAST_WORK))
    own_threads = max(1, threads // workers)
    size = -(-size // workers)
    queue = _Queue(src_ids, length_blocks(src_ids, size), options)
    expected = None if options.expected_lengths is None else np.array(options.expected_lengths, np.float64)
    asked = _Asked(src_ids, limits, expected, beam_size, length_penalty, n_best, options)
    longest = max(map(len, src_ids)) + 1 if options.coverage_penalty else 0
    found: list[list[Hypothesis]] = [[] for _ in src_ids]
    caller = get_ident()  # who alone is told what has ended, whichever parts it does

    def work(part: int, parts: int) -> None:
        decoder = model.search_decoder(own_threads, longest)
        ended = asked.sentences(decoder, queue, size)
        with queue:
            for sentences in ended:
                for n, hypotheses in sentences:
                    found[n] = hypotheses
                queue.count(len(sentences))
                if on_ended is not None and get_ident() == caller:
                    on_ended(queue.newly_ended())
                if queue.failed:
                    return
        decoder.close()  # only now: what an error or an interruption has left half done is nobody's any more

    run_parallel(work, workers)
    if on_ended is not None and (rest := queue.newly_ended()):
        on_ended(rest)
    return found


@dataclass(frozen=True)
class _Asked:
    """What one call of `search` asks for, the same for all of its threads. limits, expected [N]: most tokens of each
    sentence's translations, and expected ones where they matter."""

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
        """Return the sentences of a queue as they end, each with its hypotheses; `size` of them are in work at a time.

        Here alone it is decided how: as one compiled loop, where the options leave the choice of continuations as it is
        and the decoder has such a loop, else step by step.
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
        """Return what a compiled loop with `size` sentences in work is told."""
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
    """Blocks of sentences for several threads. Where a thread fails inside `with`, `failed` tells the others."""

    def __init__(self, src_ids: Sequence[Sequence[int]], blocks: Iterator[list[int]], options: SearchOptions) -> None:
        self._src_ids, self._blocks, self._options, self._lock = src_ids, blocks, options, Lock()
        self._ended = self._told = 0
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
        """So many more sentences have ended."""
        with self._lock:
            self._ended += ended

    def newly_ended(self) -> int:
        """Return how many sentences have ended since the last call."""
        ended = self._ended
        self._told, new = ended, ended - self._told
        return new

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.failed |= error is not None
