"""Translate token ids with a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import Lock, get_ident
from typing import Unpack, cast
from weakref import ref

import numpy as np

from nmt.decode.beam import BeamCell, run
from nmt.decode.device_beam import BlockSearch
from nmt.decode.hypotheses import Block, Hypothesis, LoopDecoder, LoopModel, SearchModel, length_blocks
from nmt.decode.plain_search import beam_settings, run_loop, translations
from nmt.decode.plan import SearchPath, search_plan
from nmt.decode.rules.options import SearchOptions, Settings
from nmt.rnn.cores import default_threads
from nmt.rnn.kernels.threads.pool import run_parallel
from nmt.search_settings import Place, beyond

_LEAST_WORK = 8
"""Each thread runs a separate search only if there are at least this many sentences for each; with fewer, reading all
weights once more costs more than it gains."""


_MOST_RULED = 64
"""Hypotheses of a sentence for which a program follows rules: it compares all pairs of those that have ended."""


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
    options: SearchOptions | None = None,
    threads: int | None = None,
    on_ended: Callable[[int], None] | None = None,
    **settings: Unpack[Settings],
) -> list[list[Hypothesis]]:
    """Return the n best translations of each sentence (ids without EOS), best first.

    `settings` replace those of the options. `batch_size` sentences are processed at a time: when one ends, the next one
    joins. A translation has at most `max_length_ratio` times as many tokens as its source, plus `max_length_extra`,
    including EOS, plus the tokens that the options force. The result depends neither on the other sentences in the
    batch nor on the number of threads; searches that run at the same time share the threads. `on_ended` is called with
    the number of sentences that have ended since its last call; it may raise to stop the search. With `sampling`, each
    sentence gets `beam_size` samples. Raises DeviceError for options that a GPU does not support.
    """
    if not src_ids:
        return []
    this = _Running()
    threads = _share_of(threads or default_threads(), this)
    options = SearchOptions.of(options, settings)
    plan = search_plan(model, options)
    limits = options.limits(src_ids)
    if short := _short(model, src_ids, options, limits, threads, plan.path, on_ended):
        return short
    size = min(options.batch_size, len(src_ids))
    if plan.path is SearchPath.DEVICE:
        return BlockSearch(model, options).run(src_ids, limits, batch_size=size, on_ended=on_ended)
    # With enough sentences each thread runs a separate search. With fewer, several threads share each of fewer ones.
    workers = max(1, min(threads, size // _LEAST_WORK))
    own_threads, size = max(1, threads // workers), -(-size // workers)
    queue = _Queue(src_ids, length_blocks(src_ids, size), options)
    longest = max(map(len, src_ids)) + 1
    found: list[list[Hypothesis]] = [[] for _ in src_ids]
    caller = get_ident()  # only this thread calls on_ended, whichever parts it runs

    def work(part: int, parts: int) -> None:
        decoder = model.search_decoder(own_threads, longest)
        ended: Iterator[list[tuple[int, list[Hypothesis]]]]
        if plan.path is SearchPath.COMPILED:
            ended = run_loop(cast(LoopDecoder, decoder), queue, options, size, limits)
        else:
            ended = ([one] for one in run(BeamCell.of(options, decoder, src_ids, limits), queue, size))
        with queue:
            for sentences in ended:
                for n, hypotheses in sentences:
                    found[n] = [replace(one, ids=model.written(one.ids)) for one in hypotheses]
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


def _short(
    model: SearchModel,
    src_ids: Sequence[Sequence[int]],
    options: SearchOptions,
    limits: np.ndarray,
    threads: int,
    path: SearchPath,
    on_ended: Callable[[int], None] | None,
) -> list[list[Hypothesis]]:
    """Return the translations of sentences that a model without a `loop_obstacle` translates in one call; none of
    others."""
    if path is SearchPath.DEVICE or model.loop_obstacle or beyond(Place.PROGRAM, options):
        return []
    rules = None if path is SearchPath.COMPILED else options.token_rules(range(len(src_ids)))
    if rules is not None and options.beam_size > _MOST_RULED:
        return []
    settings = beam_settings(options, len(src_ids), int(limits[limits.argmax()]))
    looping: LoopModel = model  # type: ignore[assignment]
    found = looping.search_short(src_ids, limits, settings, threads, rules)
    if found and on_ended is not None:
        on_ended(len(src_ids))
    return [translations(one, options.n_best) for one in found or ()]


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
