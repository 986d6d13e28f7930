"""Translate token ids with a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Lock, get_ident
from typing import TYPE_CHECKING
from weakref import ref

import numpy as np

from nmt.decode.beam import BeamCell, Block, Decoder, Hypothesis, run
from nmt.decode.blocks import length_blocks
from nmt.decode.choosers import BestChooser
from nmt.decode.device_beam import BlockSearch
from nmt.decode.ensemble import Ensemble
from nmt.decode.fusion import Fusion
from nmt.decode.options import SearchOptions
from nmt.decode.penalty import LengthPenalty, length_divisor
from nmt.decode.plain_search import can_loop, run_loop
from nmt.rnn.cores import default_threads
from nmt.rnn.kernels.pool import run_parallel
from nmt.rnn.stepping.beam_settings import BeamSettings
from nmt.special_tokens import BOS_ID, UNK_ID

if TYPE_CHECKING:
    from nmt.model import TranslationModel
    from nmt.model.language import LanguageModel

_LEAST_WORK = 8
"""Sentences in work below which a thread of its own is not worth reading all weights."""


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
    model: TranslationModel | LanguageModel | Ensemble | Fusion,
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
    """The n best translations of each sentence (ids without EOS), best first.

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
    size = min(batch_size or len(src_ids), len(src_ids))
    options = options or SearchOptions()
    limits = options.limits(src_ids, max_length_ratio, max_length_extra)
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
    longest = max(map(len, src_ids)) + 1 if options.coverage_penalty else 0
    first_token = UNK_ID if options.allow_unk else BOS_ID
    found: list[list[Hypothesis]] = [[] for _ in src_ids]
    caller = get_ident()  # who alone is told what has ended, whichever parts it does

    def work(part: int, parts: int) -> None:
        decoder: Decoder = model.search_decoder(own_threads, longest)
        chooser = options.chooser(src_ids, beam_size, decoder.eos_id)
        ended: Iterator[list[tuple[int, list[Hypothesis]]]] | None = None
        if type(chooser) is BestChooser and can_loop(decoder):
            divisors = length_divisor(length_penalty, np.arange(limits.max(initial=0) + 2))
            wanted = size, beam_size, n_best, decoder.eos_id, BOS_ID, first_token, divisors
            loop = decoder.begin_loop(BeamSettings(*wanted, options.word_reward, bounded=expected is not None))
            if loop is not None:
                ended = run_loop(decoder, loop, queue, limits, expected, n_best)
        if ended is None:
            rewards = options.word_reward, options.coverage_penalty
            cell = BeamCell(
                decoder, limits, beam_size, length_penalty, n_best, first_token, BOS_ID, *rewards, chooser, expected
            )
            ended = ([one] for one in run(cell, queue, size))
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
        if self._options.shortlist is None:
            return np.array(block), sources
        return np.array(block), sources, [self._options.candidates(n, s) for n, s in zip(block, sources, strict=True)]

    def count(self, ended: int) -> None:
        """So many more sentences have ended."""
        with self._lock:
            self._ended += ended

    def newly_ended(self) -> int:
        """How many sentences have ended since the last call."""
        ended = self._ended
        self._told, new = ended, ended - self._told
        return new

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.failed |= error is not None
