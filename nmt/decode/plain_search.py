"""The plain search on the processor as one compiled computation (see `rnn.stepping.compiled_beam`).

It keeps the best continuations and does nothing else, with the same results as `beam.BeamCell`, which runs step by step
and supports all options.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from nmt.decode.hypotheses import Block, Hypothesis, LoopDecoder, best_of
from nmt.decode.rules.options import SearchOptions
from nmt.decode.rules.penalty import length_divisors
from nmt.rnn.arrays.beam_state import BeamSettings
from nmt.special_tokens import BOS_ID, EOS_ID

if TYPE_CHECKING:
    from nmt.rnn.stepping.compiled_beam import CompiledBeam


def beam_settings(options: SearchOptions, size: int, longest: int) -> BeamSettings:
    """Return the settings of a compiled loop that processes `size` sentences at a time, whose translations have at most
    `longest` tokens."""
    return BeamSettings(
        size=size,
        beam_size=options.beam_size,
        n_best=options.n_best,
        eos_id=EOS_ID,
        never=BOS_ID,
        first_token=options.first_token,
        divisors=length_divisors(options.length_penalty, longest + 2),
        word_reward=options.word_reward,
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
