"""Translate token ids with a model, or score given ones; how a search runs, and the plain search as a compiled loop.

The compiled loop (see `rnn.stepping.compiled_beam`) keeps the best continuations and does nothing else, with the same
results as `beam.BeamCell`, which runs step by step and supports all options.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Unpack, cast
from weakref import ref

import numpy as np

from nmt.decode.beam import BeamCell, run
from nmt.decode.device_beam import BlockSearch
from nmt.decode.hypotheses import (
    Block,
    Hypothesis,
    LoopDecoder,
    LoopModel,
    ScoringModel,
    SearchModel,
    best_of,
    length_blocks,
)
from nmt.decode.rules.options import SearchOptions, Settings, beam_settings
from nmt.errors import ConfigError, DeviceError
from nmt.rnn.cores import default_threads
from nmt.rnn.device import Device
from nmt.rnn.kernels.threads.pool import run_parallel
from nmt.search_settings import Place, beyond

if TYPE_CHECKING:
    from nmt.rnn.stepping.compiled_beam import CompiledBeam


class SearchPath(Enum):
    """The ways to run a search; all find the same translations."""

    COMPILED = "compiled loop"  # run_loop
    STEPS = "step by step"  # beam.py
    DEVICE = "on the device"  # device_beam.py


@dataclass(frozen=True)
class SearchPlan:
    """A way to run a search, and why it is taken, in words."""

    path: SearchPath
    why: str


def search_plan(model: SearchModel, options: SearchOptions) -> SearchPlan:
    """Return how a search runs. Raises DeviceError for options that the model's device does not support."""
    device = model.device
    if not device.is_cpu:
        check_served(options, device)
        return SearchPlan(SearchPath.DEVICE, f"the model is on {device.name}")
    asked = beyond(Place.LOOP, options)
    why = f"a compiled loop lacks {' and '.join(asked)}" if asked else model.loop_obstacle
    return SearchPlan(SearchPath.STEPS, why) if why else SearchPlan(SearchPath.COMPILED, "model and settings allow it")


def check_served(options: SearchOptions, device: Device) -> None:
    """Raise DeviceError if these options need the processor, not a GPU."""
    if refused := sorted(beyond(Place.GPU, options)):
        raise DeviceError(
            f"search: {' and '.join(refused)} must be omitted or run on the CPU, got the device "
            f"{device.name}; use --device cpu"
        )


def check_session(options: SearchOptions) -> None:
    """Raise ConfigError for options that a session cannot have: it searches step by step, from states that it keeps."""
    for name in beyond(Place.SESSION, options):
        default, value = getattr(SearchOptions, name), getattr(options, name)
        raise ConfigError(
            f"decoding.{name}: must be {json.dumps(default)} for a session, got {json.dumps(value)}; give complete "
            f"{name}={default}, or translate without a session"
        )


def run_loop(
    decoder: LoopDecoder, blocks: Iterator[Block], options: SearchOptions, size: int, limits: np.ndarray
) -> Iterator[list[tuple[int, list[Hypothesis]]]]:
    """Translate all blocks, `size` sentences at a time, and yield the sentences as they end, each with its hypotheses.

    limits [N]: the maximum length (including EOS) of the translations of each sentence.

    A block is encoded as a whole, when all sentences of the previous block have entered the beam.
    """
    loop = decoder.begin_loop(beam_settings(options, size, limits.max(initial=0)))
    more, working = True, False
    while True:
        while more and loop.wants_more:
            block = next(blocks, None)
            more = block is not None
            if block is not None:
                yield admit_block(decoder, loop, block, limits)
        if not working and loop.wants_more:
            return
        working = loop.run(more=more)
        ended = loop.ended()
        decoder.release(np.array([one.sentence_id for one in ended], np.int64))
        yield [(one.sentence, translations(one.hypotheses, options.n_best)) for one in ended]


def admit_block(
    decoder: LoopDecoder, loop: CompiledBeam, block: Block, limits: np.ndarray
) -> list[tuple[int, list[Hypothesis]]]:
    """Encode a block and queue its sentences in the loop. Returns the sentences whose maximum length is 0, which have
    ended already, with their hypotheses. limits [N]: the maximum length of the translations of each sentence."""
    sentences = block.sentences
    sentence_ids, states, tokens = decoder.admit(block.src_ids, block.candidates)
    there = limits[sentences] > 0
    decoder.release(sentence_ids[~there])
    chosen = sentences[there]
    if len(chosen):
        kept = {name: state[there] for name, state in states.items()}
        loop.wait(chosen, sentence_ids[there], kept, tokens[there], limits[chosen])
        if (narrowed := decoder.narrowed()) is not None:
            layer, lists, owners = narrowed
            loop.narrow(layer, lists, owners)
    return [(n, [Hypothesis([], 0.0, 0.0, False)]) for n in sentences[~there].tolist()]


def translations(hypotheses: list[tuple[list[int], float, float, bool]], n_best: int) -> list[Hypothesis]:
    """Return the n best hypotheses as `Hypothesis` objects."""
    found = [Hypothesis(ids[: len(ids) - done], total, score, done) for ids, total, score, done in hypotheses]
    return best_of(found, n_best)


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
    limits = limits_of(model, src_ids, options)
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
            ended = ([one] for one in run(BeamCell(options, decoder, src_ids, limits), queue, size))
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


def limits_of(model: SearchModel, src_ids: Sequence[Sequence[int]], options: SearchOptions) -> np.ndarray:
    """Return the maximum length of the translations of each sentence, int64 [N]: that of the options, or that of the
    confirmed translation, with EOS, if the model reads one."""
    confirmed: Callable[[Sequence[int]], int] | None = getattr(model, "confirmed_length", None)
    limits = options.limits(src_ids)
    return limits if confirmed is None else np.maximum(limits, [confirmed(source) for source in src_ids])


def _short(
    model: SearchModel,
    src_ids: Sequence[Sequence[int]],
    options: SearchOptions,
    limits: np.ndarray,
    threads: int,
    path: SearchPath,
    on_ended: Callable[[int], None] | None,
) -> list[list[Hypothesis]]:
    """Return the translations of sentences that a model translates in one call; none of others."""
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


@dataclass(frozen=True)
class Forced:
    """log_probs [T] of the tokens of a translation, with EOS last if it has ended; attention [T, S] to the source
    tokens and EOS, None if it was not requested or the model has none."""

    log_probs: np.ndarray
    attention: np.ndarray | None


def force(
    model: ScoringModel,
    src_ids: Sequence[Sequence[int]],
    tgt_ids: Sequence[Sequence[int]],
    *,
    attention: bool = False,
    batch_size: int = 64,
    threads: int | None = None,
) -> list[Forced]:
    """Return the scores of given tokens (with EOS if it is to be scored) for each source (without EOS)."""
    empty = [np.zeros((0, len(s) + 1), np.float32) if attention else None for s in src_ids]
    found = [Forced(np.zeros(0, np.float32), one) for one in empty]  # without tokens
    lengths = [range(max(len(s), len(t))) for s, t in zip(src_ids, tgt_ids, strict=True)]
    for block in length_blocks(lengths, batch_size):
        if there := [n for n in block if len(tgt_ids[n])]:
            scores, weights = model.forced_log_probs(
                [src_ids[n] for n in there], [tgt_ids[n] for n in there], attention=attention, threads=threads
            )
            for i, n in enumerate(there):
                found[n] = Forced(scores[i], weights[i] if weights else None)
    return found
