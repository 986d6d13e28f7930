"""Details of translations, made by forced decoding, and what is computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nmt.data.alignment.word_alignment import hard_alignment, never_attended, with_unknown_replaced, words_of
from nmt.inference.pipeline import source_tokens, texts_of
from nmt.inference.translation import Detail, Translation, distinct
from nmt.special_tokens import EOS_ID, UNK_ID

if TYPE_CHECKING:
    from nmt.data.tokens.subwords import Subwords
    from nmt.decode import Ensemble, Forced, Fusion, Hypothesis
    from nmt.inference.pipeline import TranslationPipeline
    from nmt.model.translation import TranslationModel

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
    model: TranslationModel | Ensemble | Fusion,
    sentences: Sequence[str],
    src_ids: Sequence[Sequence[int]],
    found: Sequence[Sequence[Hypothesis]],
    dictionary: Mapping[str, str] | None,
) -> list[list[Translation]]:
    """Return translations with details, by forced decoding of the hypotheses of sentences that are not blank and
    whose ids are `src_ids`; with a dictionary, even an empty one, unknown subwords are replaced. A model that copies
    does so by itself unless there are entries."""
    from nmt.data.corpora.corpus import clean_line
    from nmt.decode import force

    flat = [(n, h) for n, hypotheses in enumerate(found) for h in hypotheses]
    sources = [src_ids[n] for n, _ in flat]
    targets = [[*h.ids, EOS_ID] if h.finished else list(h.ids) for _, h in flat]
    size = translator.config.decoding.batch_size
    forced = force(model, sources, targets, attention=True, batch_size=size, threads=translator.num_threads)
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
    """Return texts that differ by more than spaces in decreasing order of expected utility (`chrf` or `bleu`), which
    becomes their score."""
    from nmt.evaluate import expected_utilities

    utilities = expected_utilities([t.text for t in translations], measure)
    ranked = sorted((replace(t, score=u) for u, t in zip(utilities, translations, strict=True)), key=lambda t: -t.score)
    return distinct(ranked, [t.text for t in ranked], len(ranked))
