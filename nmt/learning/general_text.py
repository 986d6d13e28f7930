"""A sample of the text that the base model was trained on, so that learning loses nothing general."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

from nmt.data.corpora.sources import sources_of
from nmt.errors import DataError
from nmt.learning.guard import HELD_OUT
from nmt.learning.memory import Use

if TYPE_CHECKING:
    from nmt.config import Config, CorpusConfig

_logger = logging.getLogger("nmt")

_REPLAYED, _MOST_READ = 1_000, 500_000
"""Pairs of the training text that are kept for replays, and pairs that they are drawn from."""


def general_text(config: Config) -> list[tuple[Use, str, str]]:
    """Return a sample of data.train to replay and one of data.dev to score; where a text is missing, nothing, and a
    warning goes to the logger `nmt`."""
    found = []
    for use, corpora, count, lacks in (
        (Use.REPLAYED, config.data.train, _REPLAYED, "is not replayed, so that more of it may be forgotten"),
        (Use.HELD_OUT, config.data.dev, HELD_OUT, "is not scored, so that nothing notices what is forgotten"),
    ):
        try:
            pairs = _sample(config, corpora, count)
        except DataError as error:
            _logger.warning("warning: the text of the base model %s: %s", lacks, error)
            continue
        found += [(use, source, target) for source, target in pairs]
    return found


def _sample(config: Config, corpora: str | Sequence[CorpusConfig], count: int) -> list[tuple[str, str]]:
    """Return random pairs of a text, the same ones each time (Vitter 1985, algorithm R)."""
    random, kept = Random(config.seed), list[tuple[str, str]]()
    for seen, pair in enumerate(islice(_pairs(config, corpora), _MOST_READ)):
        if seen < count:
            kept.append(pair)
        elif (place := random.randrange(seen + 1)) < count:
            kept[place] = pair
    return kept


def _pairs(config: Config, corpora: str | Sequence[CorpusConfig]) -> Iterator[tuple[str, str]]:
    langs = config.data.src.lang, config.data.tgt.lang
    for source in sources_of(corpora):
        tag = "" if source.tag is None else f"{source.tag} "
        for part in source.parts(langs):
            for src, tgt in part.rows():
                if src and tgt:
                    yield tag + src, tgt
