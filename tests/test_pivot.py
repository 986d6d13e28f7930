"""Translating through a third language: text between, scores, attention of both models, and what is refused."""

import copy
import logging
import pickle
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from nmt import Pivot, Translator
from nmt.data.alignment.word_alignment import words_of
from nmt.errors import ConfigError, DataError
from nmt.inference.pipeline import detail_through, phrases_for
from nmt.inference.pivot import through
from nmt.inference.translation import CUT, Constraints, Detail, Translation, confidence_in
from tests.refusals import refused
from tests.saved_models import sentences

LINES = [*sentences(6, seed=9), "", "kara"]


@pytest.fixture(scope="module")
def models(pivots: dict[str, Path]) -> dict[str, Translator]:
    return {name: Translator.load(path) for name, path in pivots.items()}


@pytest.fixture(scope="module")
def pivot(models: dict[str, Translator]) -> Pivot:
    return Pivot(models["de-en"], models["en-fr"])


def test_it_is_one_model_after_the_other(pivot: Pivot, models: dict[str, Translator]) -> None:
    assert pivot.translate(LINES) == models["en-fr"].translate(models["de-en"].translate(LINES))
    assert pivot.translate([]) == [] and pivot.translate([" ", "\t"]) == ["", ""]
    settings: dict[str, Any] = {"beam_size": 3, "length_penalty": "none"}
    between = models["de-en"].translate(LINES, **settings)
    assert pivot.translate(LINES, **settings) == models["en-fr"].translate(between, **settings)


def test_several_are_those_of_the_last(pivot: Pivot, models: dict[str, Translator]) -> None:
    first = models["de-en"].translate_nbest(LINES, n_best=1)
    last = models["en-fr"].translate_nbest([one[0].text for one in first], n_best=3)
    found = pivot.translate_nbest(LINES, n_best=3)
    assert [[t.text for t in ts] for ts in found] == [[t.text for t in ts] for ts in last]
    for (one,), others, mine in zip(first, last, found, strict=True):
        for other, made in zip(others, mine, strict=True):
            assert made.score == other.score
            assert made.log_prob == one.log_prob + other.log_prob and made.length == one.length + other.length
            assert made.confidence == confidence_in([one, other])


def test_attention_goes_through_the_words_between(pivot: Pivot, models: dict[str, Translator]) -> None:
    """Written as loops from the definition."""
    first = models["de-en"].translate_nbest(LINES, details=True)
    last = models["en-fr"].translate_nbest([one[0].text for one in first], details=True)
    checked = 0
    for (one,), (other,), (made,) in zip(first, last, pivot.translate_nbest(LINES, details=True), strict=True):
        if one.detail is None or other.detail is None:
            assert made.detail is None
            continue
        a, b, c = one.detail, other.detail, made.detail
        assert c is not None and (c.tokens, c.log_probs, c.src_tokens) == (b.tokens, b.log_probs, a.src_tokens)
        ended = a.tokens[-1] == "</s>"
        written, read = words_of(a.tokens[: len(a.tokens) - ended]), words_of(b.src_tokens)
        assert max(written) == max(read) == len(one.text.split()) - 1
        for t in range(len(b.tokens)):
            for s in range(len(a.src_tokens) + 1):
                total = b.attention[t, -1] * (a.attention[-1, s] if ended else float(s == len(a.src_tokens)))
                for m, word in enumerate(read):
                    own = [k for k, w in enumerate(written) if w == word]
                    total += b.attention[t, m] * sum(a.attention[k, s] for k in own) / len(own)
                assert c.attention[t, s] == pytest.approx(total, abs=1e-5)
        assert c.attention.sum(1) == pytest.approx(np.ones(len(c.tokens)), abs=1e-4)
        words = words_of(c.src_tokens), words_of(c.tokens[: len(c.tokens) - (c.tokens[-1] == "</s>")])
        best = {(int(c.attention[t].argmax()), w) for t, w in enumerate(words[1])}
        assert c.alignment == sorted({(words[0][s], w) for s, w in best if s < len(words[0])})
        checked += 1
    assert checked >= 3


def detail(tokens: list[str], src_tokens: list[str], attention: list[list[float]]) -> Detail:
    return Detail(tokens, [-0.1] * len(tokens), src_tokens, np.array(attention).reshape(len(tokens), -1), [], [])


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_words_that_the_models_count_differently(count: int) -> None:
    """A text of two words, which the last model reads as another number of them."""
    first = detail(["▁a", "▁b", "</s>"], ["▁x", "▁y"], [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    src = [f"▁m{n}" for n in range(count)]
    found = detail_through(first, detail(["▁u", "</s>"], src, [[1 / (count + 1)] * (count + 1)] * 2))
    assert found.attention.sum(1) == pytest.approx([1, 1])
    assert found.attention.shape == (2, 3)


def test_a_text_that_was_truncated_between() -> None:
    found = detail_through(detail(["▁a"], ["▁x"], [[1, 0]]), detail(["▁u", "</s>"], ["▁a"], [[0.5, 0.5], [0, 1]]))
    assert found.attention == pytest.approx(np.array([[0.5, 0.5], [0, 1]]))
    assert "truncated at maximum length" in found.warnings


def test_nothing_between_has_no_alignment() -> None:
    last = detail(["▁u", "</s>"], ["▁a"], [[0.5, 0.5], [0, 1]])
    assert detail_through(Detail([], [], ["▁x"], np.zeros((0, 2)), [], []), last).alignment == []


def test_without_attention_there_is_no_alignment(models: dict[str, Translator]) -> None:
    found = Pivot(models["de-en"], models["silent"]).translate_nbest(LINES, details=True)
    details = [one.detail for (one,) in found if one.detail is not None]
    assert details and all(one.alignment == [] and not one.attention.any() for one in details)


def test_wishes_are_for_the_last_and_its_glossary_is_of_the_source(pivot: Pivot) -> None:
    found = pivot.translate_nbest(LINES, constraints=Constraints(prefixes="miti nura"))
    there = [one.text for (one,), between in zip(found, pivot.first.translate(LINES), strict=True) if between]
    assert len(there) >= 3 and all(text.startswith("miti nura") for text in there)
    assert phrases_for(pivot, "kara losu", [("losu", "nuyo"), ("miti", "kara")]) == ["nuyo"]
    with pytest.raises(DataError, match="must have an entry for each sentence"):
        pivot.translate_nbest(LINES, constraints=Constraints(prefixes=["a"]))


def test_warnings_of_both_are_told(pivot: Pivot, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "nmt"):
        pivot.translate(["kara " * 2000])
    assert sum(CUT in one.getMessage() for one in caplog.records) == 1


def test_three_models(models: dict[str, Translator], pivot: Pivot) -> None:
    found = Pivot(pivot, models["fr-it"])
    assert found.translate(LINES) == models["fr-it"].translate(pivot.translate(LINES))
    assert (found.config.data.src.lang, found.config.data.tgt.lang) == ("de", "it")
    assert any(one.detail is not None for (one,) in found.translate_nbest(LINES, details=True))


def test_progress_counts_each_sentence_once_and_may_stop_either(pivot: Pivot) -> None:
    counts: list[int] = []
    pivot.translate_nbest(LINES, on_batch=counts.append)
    assert sum(counts) == len(LINES) and counts[0] == 0

    with pytest.raises(KeyboardInterrupt):
        pivot.translate_nbest(LINES, on_batch=Mock(side_effect=KeyboardInterrupt))


def test_completions_while_typing(pivot: Pivot, models: dict[str, Translator]) -> None:
    (between,) = models["de-en"].translate([LINES[0]])
    found = pivot.session(LINES[0]).complete("miti")
    assert [one.text for one in found] == [one.text for one in models["en-fr"].session(between).complete("miti")]


def test_wrong_uses_are_one_line(models: dict[str, Translator], pivot: Pivot) -> None:
    with pytest.raises(ConfigError, match="en-fr: must translate from fr, the language that .*en-fr translates into"):
        Pivot(models["en-fr"], models["en-fr"])
    with pytest.raises(ConfigError, match="dictionary: must be for one model, got it for a pivot"):
        pivot.translate_nbest(LINES, replace_unk=True, dictionary={"a": "b"})
    refused(ConfigError, "shortlist: must be learnt before", pivot.translate_nbest, LINES, shortlist=True)
    refused(TypeError, "sentences must be a list of strings", pivot.translate, [b"kara"])  # type: ignore[list-item]
    refused(TypeError, "did you mean beam_size", pivot.translate, LINES, beam=3)  # type: ignore[call-arg]
    refused(TypeError, "must be made in the process that uses it", pivot.__reduce__)


def test_an_empty_text_between_is_told(pivot: Pivot, models: dict[str, Translator]) -> None:
    empty = Translation("", -1.0, -2.0, warnings=("the translation is empty",), length=1)
    ((found,),) = through([empty], [[Translation("", 0, 0)]])
    assert found.warnings == empty.warnings and found.text == "" and found.detail is None
    assert found.confidence == empty.confidence


TWO_LINES = sentences(2, seed=4)


@pytest.mark.parametrize(
    ("constraints", "warning"),
    [
        (Constraints(prefixes="kara Ω, 日"), "the prefix is incomplete: the vocabulary lacks Ω,, 日"),
        (Constraints(prefixes="kara losu"), None),
        (Constraints(glossary=[["losu", "Ω"]]), "a phrase of the glossary is incomplete: the vocabulary lacks Ω"),
    ],
)
def test_what_the_vocabulary_lacks_is_named(constraints, warning, translator):
    ((found,),) = translator.translate_nbest(TWO_LINES[:1], n_best=1, constraints=constraints)
    assert [one for one in found.warnings if "lacks" in one] == ([warning] if warning else [])


@pytest.mark.parametrize("given", [{"glossary": "losu"}, {"glossary": ["losu"]}])
def test_a_phrase_in_the_place_of_a_list_is_refused(given, translator):
    with pytest.raises(DataError, match=r"must be a list of phrases for each sentence, got 'losu' .* \[\['losu'\]\]"):
        translator.translate_nbest(TWO_LINES[:1], n_best=1, constraints=Constraints(**given))


def test_what_is_typed_is_named_too(translator):
    session = translator.session(TWO_LINES[0])
    assert "the prefix is incomplete: the vocabulary lacks 日本" in session.complete("日本")[0].warnings
    assert not any("lacks" in one for one in session.complete("kara")[0].warnings)


def test_mistakes_in_python_are_said(translator):
    with pytest.raises(TypeError, match="translate: must have no n_best, got it; translate_nbest gives several"):
        translator.translate(TWO_LINES, n_best=3)
    for wrong, fact in ((TWO_LINES, "list"), (None, "None"), (3, "int")):
        refused(TypeError, f"TypingSession: sentence must be one string, got {fact}", translator.session, wrong)
    with pytest.raises(TypeError, match="TypingSession: typed must be one string, got list"):
        translator.session(TWO_LINES[0]).complete(["kara"])
    refused(TypeError, "Translator: sentences must be a list of strings, got set", translator.translate, set(TWO_LINES))


def test_lengths_and_kinds_of_search_that_contradict_are_refused(translator):
    with pytest.raises(ConfigError, match="decoding.min_length must be below 2010, .* got 100000; raise"):
        translator.translate(TWO_LINES, min_length=100_000)


def test_what_is_at_work_is_not_pickled(translator):
    for one in (translator, translator.session(TWO_LINES[0])):
        for way in (pickle.dumps, copy.deepcopy):
            refused(TypeError, "must be made in the process that uses it.*path of the model", way, one)
        assert vars(copy.copy(one)) == vars(one)
