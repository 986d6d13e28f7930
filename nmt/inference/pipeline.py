"""The pipeline between text and search: a model with its subwords and settings; functions for nmt's own packages
between text and ids, for the inputs of a search, and for details of translations by forced decoding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from nmt.data.alignment.word_alignment import hard_alignment, never_attended, with_unknown_replaced, words_of
from nmt.data.tokens.characters import lowered
from nmt.data.tokens.factors import featured_ids, featured_lines
from nmt.errors import ConfigError, DataError
from nmt.inference.terms import Terms
from nmt.inference.translation import MAX_SOURCE_SUBWORDS, Detail, NotPickled, Novelty, Translation, distinct, lacking
from nmt.special_tokens import EOS_ID, SPACE, UNK_ID

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.calibration import Calibration
    from nmt.data.tokens.subwords import Subwords
    from nmt.decode import Ensemble, Forced, Hypothesis, Shortlist
    from nmt.inference.nearest import Recall, Rows
    from nmt.model.translation import TranslationModel
    from nmt.storage.saved_model import LoadedModel


class ReadsSource(Protocol):
    """A translator, or several in a row, that reads text in a source language."""

    config: Config
    src_subwords: Subwords


class TranslationPipeline(NotPickled):
    """A model with what belongs to it: the base of `Translator`, whose arguments it has."""

    def __init__(
        self,
        model: TranslationModel | Ensemble,
        src_subwords: Subwords,
        tgt_subwords: Subwords,
        config: Config,
        num_threads: int = 1,
        *,
        shortlist: Shortlist | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        self.model = model
        self.src_subwords = src_subwords
        self.tgt_subwords = tgt_subwords
        self.config = config
        self.place = config.model_dir
        """The path it was loaded from, for error messages."""
        self.num_threads = num_threads
        self.shortlist, self.calibration = shortlist, calibration
        self.recall: Recall | None = None
        """The pairs that are read while translating (nearest.py)."""
        self.loaded: tuple[LoadedModel, ...] = ()
        """The model, or the models of an ensemble, that `Translator.load` made of files."""

    def __repr__(self) -> str:
        data = self.config.data
        what = f"{data.src.lang} -> {data.tgt.lang}, {self.model!r}"
        return f"{type(self).__name__}({what}, threads={self.num_threads})"


MOST_SUBWORDS = 200
"""The longest sentence that is read as a pair or learnt, in subwords of each side: the work grows with it."""
PipelineT = TypeVar("PipelineT", bound=TranslationPipeline)


def search_model(translator: TranslationPipeline) -> Any:
    """Return the model as a search runs it, with the pairs that it reads."""
    return translator.model if translator.recall is None else translator.recall.reading(translator.model)


def attends(translator: TranslationPipeline) -> bool:
    """Return whether the model, or the first of several, has attention to its source."""
    return translator.config.model.decoder.attention != "none"


def learnt_for(translator: TranslationPipeline, shortlist: bool) -> dict[str, Any]:
    """Return what the search needs from the training text: the shortlist. Raises ConfigError if it is missing."""
    if not shortlist:
        return {}
    check_writes_tokens(translator, "a shortlist")
    if translator.shortlist is None:
        raise ConfigError("shortlist: must be learnt before it is used, got a model without; run nmt-shortlist")
    return {"shortlist": translator.shortlist}


def check_writes_tokens(translator: TranslationPipeline, what: str) -> None:
    """Raise ConfigError if a model writes edit actions, whose probabilities are not those of tokens, for `what`."""
    if translator.config.model.decoder.edit_actions:
        raise ConfigError(
            f"model.decoder.edit_actions: must be false for {what}, got true; translate without it, or train a model "
            "with attention alone"
        )


def check_no_factors(translator: ReadsSource, what: str) -> None:
    """Raise ConfigError if source words must have factors, which `what` does not support."""
    if factors := translator.config.data.src_factors:
        raise ConfigError(
            f"{what}: must have a model without data.src_factors, got one with {', '.join(factors)}; translate "
            "lines that have them with nmt-translate"
        )


def source_ids(translator: ReadsSource, sentences: Sequence[str], cut: set[int] | None = None) -> list[list[int]]:
    """Return the ids of sentences, cleaned as in training; indices of truncated ones are added to `cut`."""
    lines, subwords = _cleaned(translator, sentences), translator.src_subwords
    data, decoder = translator.config.data, translator.config.model.decoder
    of_letters = data.subwords.type == "word" and (decoder.edit_actions or decoder.copy_source)
    has_features = data.features_columns is not None or of_letters
    ids = featured_ids(subwords, lines) if has_features else subwords.encode(lines)
    for index, row in enumerate(ids):
        if len(row) > MAX_SOURCE_SUBWORDS:
            ids[index] = row[:MAX_SOURCE_SUBWORDS]
            if cut is not None:
                cut.add(index)
    return ids


def target_ids(translator: TranslationPipeline, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids of target text, cleaned as in training. Raises ConfigError for edit actions."""
    check_writes_tokens(translator, "text of the target (scores, prefixes, constraints, learning)")
    return translator.tgt_subwords.encode(_cleaned_target(translator, texts))


def rows_of(translator: TranslationPipeline, pairs: Sequence[tuple[str, str]]) -> Rows:
    """Return pairs of texts as subwords; without those that are too long or have an empty side."""
    sources = source_ids(translator, [source for source, _ in pairs])
    targets, lengths = target_ids(translator, [target for _, target in pairs]), range(1, MOST_SUBWORDS + 1)
    rows = zip(sources, targets, strict=True)
    return [(src, tgt) for src, tgt in rows if len(src) in lengths and len(tgt) in lengths]


def reading(translator: PipelineT, pairs: Sequence[tuple[str, str]], name: str) -> PipelineT:
    """Return a translator as one that reads pairs, of the text `name`. Raises ConfigError or DataError if it cannot."""
    from nmt.decode import Ensemble
    from nmt.inference.nearest import LEAST_ALIKE, MOST_READ, Recall, finder, projection_of

    model: Any = translator.model
    if not model.device.is_cpu:
        raise ConfigError(f"{name}: must be read by a model on the processor, got one on a GPU; leave device out")
    if isinstance(model, Ensemble) and any(one.config.model.decoder.copy_source for one in translator.loaded):
        raise ConfigError(f"{name}: must be read by models that do not copy, got an ensemble of copying ones; take one")
    check_no_factors(translator, name)
    similar, found = finder(name, least=LEAST_ALIKE, most=MOST_READ), copy(translator)
    recall = Recall(similar, translator.src_subwords.decode, projection_of(model))
    found.recall = recall.with_pairs(rows_of(translator, pairs))
    if not found.recall:
        raise DataError(f"{name}: must have pairs of sentences that the model can read, got none; check the text")
    return found


def lacking_in_target(translator: TranslationPipeline, whose: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Return a warning if the vocabulary cannot represent texts in the target language."""
    return lacking(whose, translator.tgt_subwords.unwritten(_cleaned_target(translator, texts)))


def _cleaned_target(translator: TranslationPipeline, texts: Sequence[str]) -> list[str]:
    from nmt.data.corpora.corpus import clean_lines

    side = translator.config.data.tgt
    return clean_lines(texts, side.lowercase, side.normalize)


def _cleaned(translator: ReadsSource, sentences: Sequence[str]) -> list[str]:
    """Return source sentences cleaned as in training."""
    from nmt.data.corpora.corpus import clean_lines

    data = translator.config.data
    if data.features_columns is not None:
        sentences = featured_lines(sentences, data.features_columns)
    return clean_lines(sentences, data.src.lowercase, data.src.normalize)


def source_tokens(
    translator: TranslationPipeline, sentences: Sequence[str], src_ids: Sequence[Sequence[int]]
) -> list[list[str]]:
    """Return the source subwords as strings; unknown ones keep their text."""
    cut = translator.src_subwords.cut(_cleaned(translator, sentences))
    return [tokens[: len(row)] for tokens, row in zip(cut, src_ids, strict=True)]


@lru_cache(maxsize=8)
def _terms_of(glossary: tuple[tuple[str, str], ...], language: str) -> Terms:
    """Return the phrases of a glossary, to be found; one without a letter or digit occurs nowhere."""
    return Terms([source if any(map(str.isalnum, source)) else "" for source, _ in glossary], language)


def entries_for(translator: ReadsSource, sentence: str, glossary: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs of a glossary whose phrases occur in a sentence, as `Terms` has it."""
    terms = _terms_of(tuple(glossary), translator.config.data.src.lang)
    return [glossary[number] for number in terms.found(translator.src_subwords.bare(sentence))]


def phrases_for(translator: ReadsSource, sentence: str, glossary: Sequence[tuple[str, str]]) -> list[str]:
    """Return the translations of the glossary phrases that occur in a sentence."""
    return [target for _, target in entries_for(translator, sentence, glossary)]


def phrases_missing(translator: ReadsSource, phrases: Sequence[str], translation: str) -> list[str]:
    """Return the phrases that do not occur in a translation, as `Terms` has it."""
    side = translator.config.data.tgt
    written = [lowered(one) for one in phrases] if side.lowercase else phrases  # as the model writes them
    there = Terms(written, side.lang).found(translation, overlapping=True)
    return [one for number, one in enumerate(phrases) if number not in there]


def with_chances(
    translator: TranslationPipeline,
    sentences: Sequence[str],
    src_ids: Sequence[Sequence[int]],
    found: Sequence[Sequence[Translation]],
) -> list[list[Translation]]:
    """Return translations with what a calibrated model knows about them; all are as they are of another one."""
    known = translator.calibration
    if known is None:
        return [list(row) for row in found]
    there = [n for n, row in enumerate(src_ids) if row]
    words = unseen_words(translator, known, [sentences[n] for n in there], [src_ids[n] for n in there])
    unseen = dict(zip(there, words, strict=True))
    flat = [(n, one) for n in there for one in found[n]]
    sums = [one.log_prob for _, one in flat], [one.length for _, one in flat]
    chances = iter(known.chances([src_ids[n] for n, _ in flat], *sums).tolist() if flat else ())
    return [
        [replace(one, chance=next(chances), unseen=unseen[n]) if n in unseen else one for one in row]
        for n, row in enumerate(found)
    ]


def unseen_words(
    translator: TranslationPipeline, known: Calibration, sentences: Sequence[str], src_ids: Sequence[Sequence[int]]
) -> list[tuple[str, ...]]:
    """Return the words of each sentence, whose ids are `src_ids`, that the training text does not have, in order."""
    places = known.unseen(src_ids)
    some = [n for n, own in enumerate(places) if own]
    tokens = source_tokens(translator, [sentences[n] for n in some], [src_ids[n] for n in some])
    words: list[tuple[str, ...]] = [()] * len(sentences)
    for n, row in zip(some, tokens, strict=True):
        words[n] = tuple(dict.fromkeys("".join(row[one]).replace(SPACE, "") for one in places[n]))
    return words


def novelty_of(translator: TranslationPipeline, sentences: Sequence[str]) -> Novelty | None:
    """Return how much of a text is new to a calibrated model; None for another model."""
    known = translator.calibration
    if known is None:
        return None
    src_ids = source_ids(translator, sentences)
    new = Counter(word for words in unseen_words(translator, known, sentences, src_ids) for word in words)
    share = known.share_unseen(src_ids)
    return Novelty(share, known.usual, [word for word, _ in new.most_common()])


def texts_of(translator: TranslationPipeline, rows: Sequence[Sequence[int]], source: str) -> list[str]:
    """Return the texts of rows of ids, translations of a sentence, with what a model has copied without knowing it.
    Copies of unknown tokens by attention are in the order of the source."""
    subwords, decoder = translator.tgt_subwords, translator.config.model.decoder
    if not (decoder.edit_actions or decoder.copy_source) or all(one > UNK_ID for row in rows for one in row):
        return subwords.decode(rows)
    (ids,), (read,) = source_ids(translator, [source]), translator.src_subwords.cut(_cleaned(translator, [source]))
    unknown = [n for n, one in enumerate(ids) if one == UNK_ID]
    found = []
    for row in rows:
        places = iter(unknown + unknown[-1:] * len(row))
        copied = [-1 - next(places, 0) if one == UNK_ID else one for one in row] if unknown else row
        pieces = [read[-1 - one] if one < 0 else subwords.pieces([one])[0] for one in copied if one != UNK_ID]
        found.append(subwords.join(pieces))
    return found


def translations_of(
    translator: TranslationPipeline, hypotheses: Sequence[Hypothesis], source: str = ""
) -> list[Translation]:
    """Return hypotheses as text; `source` is the sentence that they are translations of, for models that copy."""
    texts = texts_of(translator, [list(hypothesis.ids) for hypothesis in hypotheses], source)
    return [
        Translation(text, one.score, one.log_prob, length=one.length)
        for text, one in zip(texts, hypotheses, strict=True)
    ]


_END = "</s>"
_TRUNCATED = "truncated at maximum length"


def detail_of(
    src_tokens: list[str], tgt_subwords: Subwords, target: Sequence[int], forced: Forced, finished: bool
) -> Detail:
    """Return the detail of a translation whose tokens are `target`, with EOS last if it is finished."""
    log_probs = [float(x) for x in forced.log_probs]
    return _detail(tgt_subwords.pieces(target), log_probs, src_tokens, forced.attention, finished)


def _detail(
    tokens: list[str], log_probs: list[float], src_tokens: list[str], attention: np.ndarray | None, finished: bool
) -> Detail:
    """Return a detail with the alignment and warnings that follow from the attention, None for a model without."""
    weights = attention if attention is not None else np.zeros((len(tokens), len(src_tokens) + 1))
    src_words, tgt_words = words_of(src_tokens), words_of(tokens[: len(tokens) - finished])
    attends = attention is not None
    warnings = [f"source word {n} never attended" for n in never_attended(weights, src_words) if attends]
    if not finished:
        warnings.append(_TRUNCATED)
    pairs = hard_alignment(weights, src_words, tgt_words) if attends else []
    return Detail(tokens, log_probs, src_tokens, weights, pairs, warnings)


def detail_through(first: Detail, last: Detail) -> Detail:
    """Return the detail `last` of a translation of the text that `first` belongs to, with attention to the source of
    `first`: each word between passes on its attention, the mean over its subwords. Where the last model reads another
    number of words than the first one wrote, the word at the same relative place is taken."""
    is_ended = first.tokens[-1:] == [_END]
    written, read = words_of(first.tokens[: len(first.tokens) - is_ended]), words_of(last.src_tokens)
    attention = None
    if first.attention.any() and last.attention.any():
        count, to_end = max(written, default=-1) + 1, np.zeros(len(first.src_tokens) + 1)
        to_end[-1] = 1.0
        by_word = np.zeros((count + 1, len(to_end)))  # the last row is the end of the text between
        np.add.at(by_word, written, first.attention[: len(written)])
        by_word[:count] /= np.bincount(written, minlength=count)[:, None]
        by_word[count] = first.attention[-1] if is_ended else to_end
        rows = [word * count // (max(read) + 1) for word in read]
        attention = last.attention @ by_word[[*rows, count]]
    found = _detail(last.tokens, last.log_probs, first.src_tokens, attention, last.tokens[-1:] == [_END])
    if not is_ended and _TRUNCATED not in found.warnings:
        found.warnings.append(_TRUNCATED)
    return found


def text_without_unknown(
    tgt_subwords: Subwords, ids: Sequence[int], detail: Detail, source: str, dictionary: Mapping[str, str]
) -> str:
    """Return a translation's text with source words, or their entries in the dictionary, for unknown ones."""
    unknown = [i == UNK_ID for i in ids]
    if not any(unknown):
        return tgt_subwords.decode([list(ids)])[0]
    tokens, words = detail.tokens[: len(ids)], words_of(detail.src_tokens)
    return tgt_subwords.join(with_unknown_replaced(tokens, unknown, detail.attention, source, words, dictionary))


def with_details(
    translator: TranslationPipeline,
    sentences: Sequence[str],
    src_ids: Sequence[Sequence[int]],
    found: Sequence[Sequence[Hypothesis]],
    dictionary: Mapping[str, str] | None,
) -> list[list[Translation]]:
    """Return translations with details, by forced decoding of the hypotheses of sentences that are not blank; with a
    dictionary, even an empty one, unknown subwords are replaced, unless a model that copies does so by itself."""
    from nmt.data.corpora.corpus import clean_line
    from nmt.decode import force

    flat = [(n, h) for n, hypotheses in enumerate(found) for h in hypotheses]
    sources = [src_ids[n] for n, _ in flat]
    targets = [[*h.ids, EOS_ID] if h.finished else list(h.ids) for _, h in flat]
    size = translator.config.decoding.batch_size
    forced = force(translator.model, sources, targets, attention=True, batch_size=size, threads=translator.num_threads)
    tokens = source_tokens(translator, sentences, src_ids)
    results: list[list[Translation]] = [[] for _ in found]
    for (n, h), target, one in zip(flat, targets, forced, strict=True):
        detail = detail_of(tokens[n], translator.tgt_subwords, target, one, h.finished)
        text = texts_of(translator, [h.ids], sentences[n])[0]
        if dictionary is not None and (dictionary or not translator.config.model.decoder.copy_source):
            bare = translator.src_subwords.bare(sentences[n])
            source = clean_line(bare, False, translator.config.data.src.normalize)  # names keep their case
            text = text_without_unknown(translator.tgt_subwords, h.ids, detail, source, dictionary)
        results[n].append(Translation(text, h.score, h.log_prob, detail, length=h.length))
    return results


def ranked_by_agreement(translations: list[Translation], measure: str) -> list[Translation]:
    """Return different texts in decreasing order of expected utility (`chrf` or `bleu`), which becomes their score."""
    from nmt.evaluate.scores import expected_utilities

    utilities = expected_utilities([t.text for t in translations], measure)
    ranked = sorted((replace(t, score=u) for u, t in zip(utilities, translations, strict=True)), key=lambda t: -t.score)
    return distinct(ranked, [t.text for t in ranked], len(ranked))
