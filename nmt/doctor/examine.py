"""Run all checks: read the training text once, then check held-out texts, overlap and vocabulary. Memory is bounded by
the hashes of pairs (`texts.MOST_HASHES`), a sample of lines for the subwords, and the held-out texts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from nmt.data.corpora.judged_texts import judged_corpus
from nmt.data.corpora.sources import sources_of
from nmt.data.tokens.factors import FactorError
from nmt.data.tokens.subwords import auto_vocab_size, words_of
from nmt.doctor.texts import CUT, FILTERS, Block, Duplicates, Finding, Findings, Overlap, Tally, Text, found
from nmt.errors import DataError
from nmt.special_tokens import EOS_ID, UNK_ID
from nmt.system.notices import Show, tell_nobody

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.corpora.corpus import Side

_RARE = 5
"""An embedding is learned from the occurrences of its token; fewer than this many teach little."""
_MOST_RARE = 0.5
_LEAST_UNITS = 200
_MOST_UNKNOWN = 0.001
_MOST_LONG = 0.01
_SHOWN = 8


class Vocabulary:
    """Counts the tokens of texts. `config`: the settings, which say where the subwords come from."""

    def __init__(self, sides: Sequence[Side], config: Config) -> None:
        self._sides, self._is_given = sides, config.training.load_model is not None
        self._asked, self._words = config.data.subwords, Counter[int]()
        self._counts = [np.zeros(side.subwords.vocab_size, dtype=np.int64) for side in sides]

    def check(self, text: Text, lines: Sequence[Sequence[str]], *, training: bool) -> list[Finding]:
        """Tokenize the cleaned lines of each side, which start at the first line; return findings about unknown
        characters and, for training text, about sentences that are too long."""
        findings: list[Finding | None] = []
        too_long = np.zeros(len(lines[0]), dtype=bool)
        for side, counts, these, file in zip(self._sides, self._counts, lines, text.files, strict=True):
            rows = _units(side, these, file)
            unknown = np.fromiter((UNK_ID in row for row in rows), dtype=bool, count=len(rows))
            lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
            too_long |= lengths > side.config.max_length
            if training:
                self._words[id(side.subwords)] += words_of(these)
                tokens = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(lengths.sum()))
                counts += np.bincount(tokens, minlength=len(counts))
            findings.append(_unknown(side, file, these, rows, unknown, self._advice))
        if training:
            findings.append(_long(text, too_long, lines))
        return found(findings)

    @property
    def _advice(self) -> str:
        """Return the advice about unknown characters."""
        if self._is_given:
            return "training.extend_vocabulary adds subwords to those of training.load_model"
        asked = self._asked
        if asked.model_file or asked.src_model_file or asked.tgt_model_file:
            return "let nmt learn subwords of this text, without data.subwords.model_file"
        advice = ["raise data.subwords.character_coverage"] if asked.character_coverage < 1 else []
        if asked.type == "word":
            advice.append("use subwords instead of words (data.subwords.type: unigram), of text with these characters")
        return ", or ".join(advice) or "the training text has none of these characters; add text that has them"

    def absurd(self, text: Text, share: float) -> list[Finding]:
        """Return findings about large vocabularies that are rarely used; `share`: that of the text that was checked."""
        asked, is_words, findings = self._asked.vocab_size, self._asked.type == "word", []
        groups: dict[int, list[int]] = {}
        for number, side in enumerate(self._sides):
            groups.setdefault(id(side.subwords), []).append(number)
        for subwords, numbers in groups.items():
            fits = asked == "auto" or asked <= auto_vocab_size(round(self._words[subwords] / (share or 1)))
            is_odd = is_words or self._is_given or not fits
            counts = np.sum([self._counts[number] for number in numbers], axis=0)[EOS_ID + 1 :]
            rare = int((counts < max(1, _RARE * share)).sum())
            if is_odd and len(counts) > _LEAST_UNITS and rare > _MOST_RARE * len(counts):
                files = ", ".join(text.files[number] for number in numbers)
                what = f"of the vocabulary are seen less than {_RARE} times in the training text"
                better = "use subwords (data.subwords.type: unigram)" if is_words else "auto takes fewer"
                advice = f"too few to learn a vector from: data.subwords.vocab_size is {asked}; {better}"
                if self._is_given:
                    advice = "too few to learn a vector from; they stay as the model of training.load_model has them"
                findings.append(Finding("vocabulary", "warning", files, rare, len(counts), what, "units", (), advice))
        return findings


def _units(side: Side, lines: Sequence[str], file: str) -> list[list[int]]:
    """Return the token ids of lines. Raises DataError for a word with another number of factors."""
    subwords = side.subwords
    try:
        rows = subwords.encode(lines)
    except FactorError as error:
        raise error.at(f"{file}, line {error.index + 1}") from None
    return [list(subwords.unit_ids(row)) for row in rows] if subwords.factor_sizes else rows


def _unknown(
    side: Side, file: str, lines: Sequence[str], rows: list[list[int]], marked: np.ndarray, advice: str
) -> Finding | None:
    """Return the finding about unknown tokens if there are more than a few, or None."""
    units = sum(map(len, rows))
    count = sum(row.count(UNK_ID) for row in rows)
    if not units or count / units < _MOST_UNKNOWN:
        return None
    examples = Tally()
    examples.add(marked, 0, lines)
    unknown: Counter[str] = Counter()
    for number in np.flatnonzero(marked)[:1000].tolist():
        pieces = side.subwords.cut([lines[number]])[0]
        unknown.update(piece.strip("▁") for piece, unit in zip(pieces, rows[number], strict=True) if unit == UNK_ID)
    often = " ".join(piece for piece, _ in unknown.most_common(_SHOWN))
    what = f"are unknown to the vocabulary, most often {often}"
    return Finding("unknown", "warning", file, count, units, what, "units", tuple(examples.examples), advice)


def _long(text: Text, marked: np.ndarray, lines: Sequence[Sequence[str]]) -> Finding | None:
    """Return the finding about lines over max_length if there are more than a few, or None."""
    if marked.mean() <= _MOST_LONG:
        return None
    tally = Tally()
    tally.add(marked, 0, *lines)
    advice = "raise data.src.max_length and data.tgt.max_length, or split the text into sentences"
    return tally.finding("long", text.where, len(marked), "are longer than max_length", unit="pairs", advice=advice)


PAIRS_AT_START = 1_000_000
"""The number of pairs of a larger training text that are checked before the first update; this takes half a minute."""
_SAMPLE = 50_000
"""The number of lines that are tokenized into subwords."""
_Sides = Callable[[list[list[str]]], "tuple[Side, Side]"]


def examine(
    config: Config,
    sides: _Sides | None = None,
    *,
    limit: int | None = None,
    show: Show = tell_nobody,
    concurrently: bool = False,
) -> Findings:
    """Check the texts of data.train, data.dev and data.test, and return the findings. Raises DataError for what is no
    text.

    Args:
        sides: Returns both sides with subwords, perhaps trained on the first cleaned lines of each side; None skips the
            checks of subwords. Called if there was no error.
        limit: The number of lines of the training text to check; None for all.
        concurrently: Call `sides`, which writes no files, in a thread while the rest is read.
    """
    with ThreadPoolExecutor(1) as pool:
        return _examine(config, sides, limit, show, pool if concurrently else None)


def _examine(
    config: Config, sides: _Sides | None, limit: int | None, show: Show, pool: ThreadPoolExecutor | None
) -> Findings:
    """Return the findings of `examine`; with a pool, the subwords are made in one of its threads."""
    began = time.monotonic()
    data = config.data
    configs = [data.src, data.tgt]
    trains = [Text(source, configs) for source in sources_of(data.train)]
    of_training = {train.prefix for train in trains}
    held_out = {one.path: Text(one, configs, False) for corpora in data.held_out for one in sources_of(corpora)}
    result = Findings()
    kept = {prefix: _all_lines(text) for prefix, text in held_out.items()}
    others = [(text, kept[prefix]) for prefix, text in held_out.items() if prefix not in of_training]
    limits = [limit and max(1, (limit - done) // (len(trains) - done)) for done, _ in enumerate(trains)]
    sample = _Sample(len(trains))
    before, met = 0, list[Finding]()
    made: Future[tuple[Side, Side]] | None = None
    for train, most in zip(trains, limits, strict=True):
        overlap, duplicates = Overlap(others, data.filter.overlap, named=len(trains) > 1), Duplicates()
        sample.begin()
        for block in train.blocks(most):
            duplicates.add(block)
            overlap.add(block)
            sample.add(block)
            if sides is not None and pool is not None and made is None and train is trains[-1] and sample.is_full:
                made = pool.submit(sides, sample.lines)
            rate = (before + train.total) / max(1e-9, time.monotonic() - began)
            show(f"data: {before + train.total:,} training lines looked at, {rate:,.0f}/s")
        before += train.total
        result.complete &= most is None or train.total < most
        of_train = [*train.findings(), *found([duplicates.finding(train)])]
        result.findings += [one for one in of_train if not getattr(data.filter, FILTERS.get(one.name, one.name), False)]
        met += overlap.findings(train)
    for text in held_out.values():
        result.findings += text.findings()
    judged = (judged_corpus(text.source, [side.lang for side in configs]) for text in (*trains, *held_out.values()))
    names = dict.fromkeys(line for lines in judged for line in lines)  # of source and target, as the user named them
    result.findings += [Finding("names", "warning", line, 1, 0, "") for line in names]
    result.findings += met
    for text in held_out.values():
        if text.prefix in of_training:
            what, advice = "are the training text itself", "hold out a part of it: scores say nothing else"
            count = text.total
            result.findings.append(Finding("overlap", "warning", text.where, count, count, what, "lines", (), advice))
    result.counts = {text.prefix: text.total for text in (*trains, *held_out.values())}
    if sides is not None and not result.errors:
        make = made.result if made is not None else partial(sides, sample.lines)
        result.findings += _subwords(make, trains, sample, list(held_out.values()), kept, config)
    if data.subwords.type == "word":  # for text that is cut already
        result.findings = [one for one in result.findings if one.name not in CUT]
    result.seconds = time.monotonic() - began
    return result


class _Sample:
    """A sample of the training text: the first cleaned lines of each corpus."""

    def __init__(self, corpora: int) -> None:
        self._most = max(1, _SAMPLE // corpora)
        self.of_each: list[list[list[str]]] = []

    @property
    def lines(self) -> list[list[str]]:
        """Return the lines of all corpora, for each side."""
        return [[line for lines in self.of_each for line in lines[side]] for side in (0, 1)]

    def begin(self) -> None:
        """Start the next corpus."""
        self.of_each.append([[], []])

    @property
    def is_full(self) -> bool:
        """Return whether the sample of this corpus is complete."""
        return len(self.of_each[-1][0]) >= self._most

    def add(self, block: Block) -> None:
        """Add lines of a block until the sample of this corpus is complete."""
        for kept, lines in zip(self.of_each[-1], block.clean, strict=True):
            kept += lines[: self._most - len(kept)]


def _all_lines(text: Text) -> list[list[str]]:
    """Return all cleaned lines of a held-out text."""
    lines: list[list[str]] = [[], []]
    for block in text.blocks():
        for side, these in zip(lines, block.clean, strict=True):
            side += these
    return lines


def _subwords(
    sides: Callable[[], tuple[Side, Side]],
    trains: list[Text],
    sample: _Sample,
    held_out: list[Text],
    kept: dict[str, list[list[str]]],
    config: Config,
) -> list[Finding]:
    """Return the findings about the vocabulary."""
    try:
        both = sides()
    except DataError as error:
        return [Finding("vocabulary", "error", str(error), 1, 0, "")]
    vocabulary = Vocabulary(both, config)
    findings = []
    for train, lines in zip(trains, sample.of_each, strict=True):
        findings += vocabulary.check(train, lines, training=True)
    share = sum(len(lines[0]) for lines in sample.of_each) / sum(train.total for train in trains)
    findings += vocabulary.absurd(trains[0], share)
    for text in held_out:
        findings += vocabulary.check(text, kept[text.prefix], training=False)
    return findings
