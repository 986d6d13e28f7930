"""The whole look: training text once through, held-out texts, overlap, vocabulary; memory does not grow with the text.

What grows is bounded: hashes of pairs (`repeats.MOST_HASHES`), a sample of lines for the subwords, and the held-out
texts, which are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from nmt.data.sources import sources_of
from nmt.doctor.findings import Finding, Findings, found
from nmt.doctor.repeats import Duplicates, Overlap
from nmt.doctor.texts import Block, Text
from nmt.doctor.vocabulary import Vocabulary
from nmt.errors import DataError

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.corpus import Side

PAIRS_AT_START = 1_000_000
"""Of a larger training text so many are looked at before the first update: half a minute."""
_SAMPLE = 50_000
"""Lines that are cut into subwords."""


def _show_nobody(text: str) -> None:
    pass


def examine(
    config: Config,
    sides: Callable[[list[list[str]]], tuple[Side, Side]] | None = None,
    *,
    limit: int | None = None,
    show: Callable[[str], None] = _show_nobody,
) -> Findings:
    """Look at the texts of data.train, data.dev and data.test.

    Args:
        config: The settings.
        sides: Gives both sides with subwords, for which it may train on the cleaned lines that it gets, the first ones
            of each side; None leaves out what concerns subwords. Called when there was no error.
        limit: Lines of the training text to look at; None for all.
        show: Told now and then how far it is.

    Raises:
        DataError: A file is missing, or is no text in lines at all.
    """
    began = time.monotonic()
    data = config.data
    configs = [data.src, data.tgt] if config.task == "translation" else [data.tgt]
    trains = [Text(source, configs) for source in sources_of(data.train)]
    of_training = {train.prefix for train in trains}
    held_out = {source.path: Text(source, configs) for corpora in data.held_out for source in sources_of(corpora)}
    result = Findings()
    kept = {prefix: _whole(text) for prefix, text in held_out.items()}
    others = [(text, kept[prefix]) for prefix, text in held_out.items() if prefix not in of_training]
    limits = [limit and max(1, (limit - done) // (len(trains) - done)) for done, _ in enumerate(trains)]
    sample = _Sample(len(configs), len(trains))
    before, met = 0, list[Finding]()
    for train, most in zip(trains, limits, strict=True):
        overlap, duplicates = Overlap(others), Duplicates()
        sample.begin()
        for block in train.blocks(most):
            duplicates.add(block)
            overlap.add(block)
            sample.add(block)
            rate = (before + train.total) / max(1e-9, time.monotonic() - began)
            show(f"data: {before + train.total:,} training lines looked at, {rate:,.0f}/s")
        before += train.total
        result.complete &= most is None or train.total < most
        result.findings += [*train.findings(), *found([duplicates.finding(train)])]
        met += overlap.findings(train)
    for text in held_out.values():
        result.findings += text.findings()
    result.findings += met
    result.findings += [_same_text(text) for text in held_out.values() if text.prefix in of_training]
    result.counts = {text.prefix: text.total for text in (*trains, *held_out.values())}
    if sides is not None and not result.errors:
        result.findings += _subwords(sides, trains, sample, list(held_out.values()), kept)
    result.seconds = time.monotonic() - began
    return result


class _Sample:
    """The first cleaned lines of each corpus of the training text."""

    def __init__(self, sides: int, corpora: int) -> None:
        self._sides, self._most = sides, max(1, _SAMPLE // corpora)
        self.of_each: list[list[list[str]]] = []

    @property
    def lines(self) -> list[list[str]]:
        """Those of all corpora, of each side."""
        return [[line for lines in self.of_each for line in lines[side]] for side in range(self._sides)]

    def begin(self) -> None:
        """Begin another corpus."""
        self.of_each.append([[] for _ in range(self._sides)])

    def add(self, block: Block) -> None:
        """Keep what there is room for."""
        for kept, lines in zip(self.of_each[-1], block.clean, strict=True):
            kept += lines[: self._most - len(kept)]


def _whole(text: Text) -> list[list[str]]:
    """The cleaned lines of a held-out text."""
    lines: list[list[str]] = [[] for _ in text.sides]
    for block in text.blocks():
        for side, these in zip(lines, block.clean, strict=True):
            side += these
    return lines


def _same_text(text: Text) -> Finding:
    """The finding for a held-out text that is the training text."""
    what = "are the training text itself"
    advice = "hold out a part of it: scores say nothing else"
    return Finding("overlap", "warning", text.where, text.total, text.total, what, "lines", (), advice)


def _subwords(
    sides: Callable[[list[list[str]]], tuple[Side, Side]],
    trains: list[Text],
    sample: _Sample,
    held_out: list[Text],
    kept: dict[str, list[list[str]]],
) -> list[Finding]:
    """What concerns the vocabulary."""
    try:
        both = sides(sample.lines)
    except DataError as error:
        return [Finding("vocabulary", "error", str(error), 1, 0, "")]
    vocabulary = Vocabulary(both[2 - len(trains[0].sides) :])
    told = []
    for train, lines in zip(trains, sample.of_each, strict=True):
        told += vocabulary.look(train, lines, training=True)
    share = sum(len(lines[0]) for lines in sample.of_each) / sum(train.total for train in trains)
    told += vocabulary.absurd(trains[0], share)
    for text in held_out:
        told += vocabulary.look(text, kept[text.prefix], training=False)
    return told
