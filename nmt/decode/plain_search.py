"""The plain search on the processor: the best continuations and nothing else, as one computation (see `rnn.beam_loop`).

What `beam.BeamCell` computes step by step, with the same results; that is the place for whatever options exchange.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nmt.decode.beam import Block, Hypothesis


def run_loop(
    decoder: Any, loop: Any, blocks: Iterator[Block], limits: np.ndarray, expected: np.ndarray | None, n_best: int
) -> Iterator[list[tuple[int, list[Hypothesis]]]]:
    """Translate all blocks; gives sentences as they end, each with its hypotheses. limits and expected [N]: of every
    sentence there is, its most tokens, EOS counted, and expected length.

    A block is encoded at once, when the sentences of the last one are all in work.
    """
    more, working = True, False
    while more or working:
        if more and loop.wants_more:
            block = next(blocks, None)
            more = block is not None
            if block is not None:
                sentences, names, states, tokens = block[0], *decoder.admit(*block[1:])
                there = limits[sentences] > 0
                decoder.release(names[~there])
                yield [(n, [Hypothesis([], 0.0, 0.0, False)]) for n in sentences[~there].tolist()]
                chosen = sentences[there]
                lengths = None if expected is None else expected[chosen]
                kept = {name: state[there] for name, state in states.items()}
                loop.wait(chosen, names[there], kept, tokens[there], limits[chosen], lengths)
                decoder.narrow_loop(loop)
        working = loop.run(more=more)
        ended = loop.ended()
        decoder.release(np.array([one.name for one in ended], np.int64))
        yield [(one.sentence, _translations(one.hypotheses, n_best)) for one in ended]


def _translations(hypotheses: list[tuple[list[int], float, float, bool]], n_best: int) -> list[Hypothesis]:
    """The best ones, finished ones first, then by score."""
    found = [Hypothesis(ids[: len(ids) - done], total, score, done) for ids, total, score, done in hypotheses]
    return sorted(found, key=lambda h: (not h.finished, -h.score))[:n_best]
