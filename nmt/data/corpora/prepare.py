"""Create the sides of a model from the `data` settings: load their subwords, or train them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, cast

import numpy as np

from nmt.data.corpora.corpus import CHUNK, Side, clean_line, clean_lines, metered, text_bytes
from nmt.data.corpora.looking import LOOKED_AT
from nmt.data.corpora.sources import format_of, name_of, sources_of
from nmt.data.quality.filter import LineFilter
from nmt.data.tokens.factors import FactorError, is_featured, learn_factors, split_words, subwords_from_file, symbols_in
from nmt.data.tokens.subwords import Subwords, auto_subwords
from nmt.system.notices import Show, tell_nobody

if TYPE_CHECKING:
    from nmt.config import CorpusConfig, DataConfig, SideConfig


def training_text(
    corpora: str | Sequence[CorpusConfig], sides: Sequence[SideConfig], every_side: Sequence[SideConfig] | None = None
) -> Iterator[str]:
    """Yield the cleaned lines of one or both sides without tags, for training subwords. Files of lines are read one
    after the other; a table has the columns of `every_side`, if those are more than `sides`."""
    for source in sources_of(corpora):
        if format_of(source.path) == "lines":
            for side in sides:
                for part in source.parts([side.lang]):
                    lines = (str(line) for (line,) in part.rows())
                    while chunk := list(islice(lines, CHUNK)):
                        yield from clean_lines(chunk, side.lowercase, side.normalize)
            continue
        both = every_side or sides
        wanted = [(number, side) for number, side in enumerate(both) if side in sides]
        for part in source.parts([side.lang for side in both]):
            for row in part.rows():
                for number, side in wanted:
                    yield clean_line(str(row[number]), side.lowercase, side.normalize)


def filtered_text(
    corpora: str | Sequence[CorpusConfig],
    sides: Sequence[SideConfig],
    every_side: Sequence[SideConfig],
    rules: LineFilter,
) -> Iterator[str]:
    """Yield the lines of `training_text` without the pairs that `rules` drop, which check every side."""
    parts = [part for source in sources_of(corpora) for part in source.parts([side.lang for side in every_side])]
    rows = (row for part in parts for row in part.rows() if None not in row)
    while chunk := list(islice(rows, CHUNK)):
        raw = cast(list[tuple[str, ...]], list(zip(*chunk, strict=True)))
        clean = [
            clean_lines(lines, side.lowercase, side.normalize) for lines, side in zip(raw, every_side, strict=True)
        ]
        kept = np.flatnonzero(rules.keep(raw, clean)).tolist()
        for lines, side in zip(clean, every_side, strict=True):
            if side in sides:
                yield from (lines[number] for number in kept)


Sample = Sequence[Sequence[str]]
"""Cleaned lines for each side, to train on instead of the training text."""


def load_sides(
    data: DataConfig, notify: Show = tell_nobody, show: Show = tell_nobody, sample: Sample | None = None
) -> tuple[Side, Side]:
    """Return the source and the target side; with joint subwords both have the same Subwords object. `notify` receives
    a line about each choice, `show` the progress of reading. Raises DataError if a given model is missing or damaged,
    or the training text cannot give the requested vocabulary."""
    settings, pair = data.subwords, (data.src, data.tgt)
    if settings.joint:
        src = tgt = _given_or_trained(data, settings.model_file, pair, pair, (notify, show), sample)
    else:
        src = _given_or_trained(data, settings.src_model_file, pair[:1], pair, (notify, show), sample and sample[:1])
        tgt = _given_or_trained(data, settings.tgt_model_file, pair[1:], pair, (notify, show), sample and sample[1:])
    return Side(data.src, src), Side(data.tgt, tgt)


def training_filter(data: DataConfig, sides: Sequence[SideConfig]) -> LineFilter | None:
    """Return the rules of `data.filter`, with the lines of data.dev and data.test if `overlap` needs them, or None if
    no rule is set. Raises DataError if one of those files cannot be read. `sides`: source and target."""
    if not data.filter.is_on:
        return None
    held_out = (line for corpora in data.held_out for line in training_text(corpora, sides[:1], sides))
    return LineFilter(data.filter, held_out)


def _given_or_trained(
    data: DataConfig,
    model_file: str | None,
    sides: Sequence[SideConfig],
    every_side: Sequence[SideConfig],
    log: tuple[Show, Show],
    sample: Sample | None,
) -> Subwords:
    """Return a model loaded from its file, or trained on the filtered texts, or a sample, of the given sides. `log`
    receives the choices, and the progress of reading."""
    notify, show = log
    is_filtered = data.filter.is_on and not (data.src_factors and sides[0] is data.src)
    # Held-out lines and duplicates are not bad text: they need not be removed to train subwords.
    rules = data.filter.model_copy(update={"overlap": "none"})
    langs = [side.lang for side in (every_side if is_filtered else sides)]

    def text() -> Iterator[str]:
        if sample is not None:
            return chain.from_iterable(sample)
        size = sum(text_bytes(source, langs) for source in sources_of(data.train))
        if is_filtered:
            lines = filtered_text(data.train, sides, every_side, LineFilter(rules))
        else:
            lines = training_text(data.train, sides, every_side)
        return metered(lines, "subwords", size, show)

    if data.src_factors and sides[0] is data.src:
        return with_factors(data, model_file, text, notify)
    if model_file:
        return subwords_from_file(model_file)
    return auto_subwords(data.subwords, text, notify, tags_of(data) if data.src in sides else [])


def with_factors(
    data: DataConfig, model_file: str | None, text: Callable[[], Iterable[str]], notify: Callable[[str], None]
) -> Subwords:
    """Return subwords, loaded from a file or trained on cleaned text, for words with the factors of `data.src`. Raises
    DataError: A word has another number of factors; or see `auto_subwords`."""
    count, separator = len(data.src_factors), data.factor_separator
    try:
        if model_file:
            words = subwords_from_file(model_file)
        else:

            def bare() -> Iterator[str]:
                for index, line in enumerate(text()):
                    yield " ".join(word for word, *_ in split_words(line, count, separator, index))

            words = auto_subwords(data.subwords, bare, notify)
        return words if len(words.factor_sizes) == count else learn_factors(words, text(), count, separator)
    except FactorError as error:
        raise error.at(f"{name_of(data.train)}, source line {error.index + 1}") from None


def tags_of(data: DataConfig) -> list[str]:
    """Return the distinct tags of training and held-out corpora, and the training ones' features, as source sentences
    contain them; lines such as `walk +V +PST` have them, too. With subwords of type word, they need not be known."""
    sources = [source for value in (data.train, *data.held_out) for source in sources_of(value)]
    src, tgt = data.src, data.tgt
    found = {clean_line(source.tag, src.lowercase, src.normalize) for source in sources if source.tag}
    for source in sources_of(data.train) if data.subwords.type != "word" else ():
        rows = (row for part in source.parts([src.lang, tgt.lang]) for row in part.rows())
        first = list(islice(rows, LOOKED_AT)) if source.features is None else []
        if source.features is not None or sum(is_featured(str(row[0])) for row in first) > len(first) / 2:
            rest = chain(first, rows)
            found |= {one for row in rest for one in symbols_in(clean_line(str(row[0]), src.lowercase, src.normalize))}
    return sorted(found)
