"""Details of translations, made by forced decoding, and what is computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nmt.data.alignment.attention_alignment import hard_alignment, never_attended, with_unknown_replaced, words_of
from nmt.inference.pipeline import source_tokens
from nmt.inference.translation import Detail, Translation, distinct
from nmt.special_tokens import EOS_ID, UNK_ID

if TYPE_CHECKING:
    from nmt.data.tokens.subwords import Subwords
    from nmt.decode import Ensemble, Forced, Fusion, Hypothesis
    from nmt.inference.pipeline import TranslationPipeline
    from nmt.model.translation import TranslationModel


def detail_of(
    src_tokens: list[str], tgt_subwords: Subwords, target: Sequence[int], forced: Forced, finished: bool
) -> Detail:
    """Return the detail of a translation whose tokens are `target`, with EOS last if it is finished."""
    weights = forced.attention if forced.attention is not None else np.zeros((len(target), len(src_tokens) + 1))
    tokens = tgt_subwords.pieces(target)
    src_words, tgt_words = words_of(src_tokens), words_of(tokens[: len(tokens) - finished])
    attends = forced.attention is not None
    warnings = [f"source word {n} never attended" for n in never_attended(weights, src_words) if attends]
    if not finished:
        warnings.append("truncated at maximum length")
    pairs = hard_alignment(weights, src_words, tgt_words) if attends else []
    return Detail(tokens, [float(x) for x in forced.log_probs], src_tokens, weights, pairs, warnings)


def text_without_unknown(
    tgt_subwords: Subwords, ids: Sequence[int], detail: Detail, source: str, dictionary: Mapping[str, str]
) -> str:
    """Return the text of a translation in which unknown subwords are replaced by words of the cleaned source, or by
    their entries in the dictionary."""
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
    whose ids are `src_ids`; with a dictionary, even an empty one, unknown subwords are replaced."""
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
        text = translator.tgt_subwords.decode([h.ids])[0]
        if dictionary is not None:
            bare = translator.src_subwords.bare(sentences[n])
            source = clean_line(bare, False, translator.config.data.src.normalize)  # names keep their case
            text = text_without_unknown(translator.tgt_subwords, h.ids, detail, source, dictionary)
        results[n].append(Translation(text, h.score, h.log_prob, detail))
    return results


def ranked_by_agreement(translations: list[Translation], measure: str) -> list[Translation]:
    """Return texts that differ by more than spaces in decreasing order of expected utility (`chrf` or `bleu`), which
    becomes their score."""
    from nmt.evaluate import expected_utilities, sentence_utility

    utilities = expected_utilities([t.text for t in translations], sentence_utility(measure))
    ranked = sorted((replace(t, score=u) for u, t in zip(utilities, translations, strict=True)), key=lambda t: -t.score)
    return distinct(ranked, [t.text for t in ranked], len(ranked))
