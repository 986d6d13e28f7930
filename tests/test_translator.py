"""The Python interface: order, blanks, limits, cleaning, and batches that stay small."""

import logging
import sys
from typing import Any, get_overloads

import pytest

from nmt.data.tokens.subwords import train_subwords
from nmt.evaluate.scores import sentence_utility
from nmt.inference.pipeline import ranked_by_agreement
from nmt.inference.translation import BROKEN, CUT, MAX_SOURCE_SUBWORDS, Translation, distinct
from nmt.inference.translator import Constraints, Translator
from tests.settings import settings_with
from tests.train import fake_model

WORDS = [f"w{n}" for n in range(30)]


@pytest.fixture
def translator(monkeypatch: pytest.MonkeyPatch) -> Translator:
    """A translator that gives every word back as it is."""
    for name, module in fake_model.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    subwords = train_subwords([" ".join(WORDS)], type="word", vocab_size=60)
    config = settings_with({"src": {"lang": "xx", "lowercase": True, "normalize": "nfkc"}})
    model = fake_model.TranslationModel(None, subwords.vocab_size, subwords.vocab_size)
    for index in range(subwords.vocab_size):
        model.params["table"][index, index] = 1
    return Translator(model, subwords, subwords, config)  # type: ignore[arg-type]


def test_text_is_cleaned_as_in_training(translator: Translator) -> None:
    assert translator.translate(["  W1\u2003Ｗ２\x00w3 "]) == ["w1 w2 w3"]


def test_a_line_break_is_said_to_be_a_space(translator: Translator, caplog: pytest.LogCaptureFixture) -> None:
    assert translator.translate(["w1\nw2", "w3\n", "w4"]) == ["w1 w2", "w3", "w4"]
    (line,) = caplog.messages
    assert BROKEN in line and "line 1" in line
    assert [BROKEN in one[0].warnings for one in translator.translate_nbest(["w1\r\nw2", " \nw3"])] == [True, False]


def test_checkers_of_types_know_which_it_is() -> None:
    types = [one.__annotations__ for one in get_overloads(Translator.translate)]
    assert [(one["sentences"], one["return"]) for one in types] == [("str", "str"), ("Iterable[str]", "list[str]")]


def test_long_lines_are_cut_with_a_warning(translator: Translator, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = translator.translate(["w1 " * (MAX_SOURCE_SUBWORDS + 5), "w2"])
    assert [len(line.split()) for line in found] == [MAX_SOURCE_SUBWORDS, 1]
    assert [record.getMessage() for record in caplog.records] == [f"warning: {CUT} (line 1)"]


def test_constraints_reach_the_search_as_subwords(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def search(model: Any, src_ids: Any, *, options: Any, **rest: Any) -> Any:
        seen.append(options)
        return fake_model.search(model, src_ids, options=options, **rest)

    monkeypatch.setattr(sys.modules["nmt.decode"], "search", search)
    constraints = Constraints(prefixes=["w1", "w9", "w2 w3"], glossary=[[], [], ["w7"]], forbidden=["w8"])
    translator.translate_nbest(["w1", "", "w2"], constraints=constraints, min_length=3, glossary_bonus=1.5)
    ids = {word: translator.tgt_subwords.encode([word])[0][0] for word in WORDS}
    (options,) = seen
    assert options.prefixes == [[ids["w1"]], [ids["w2"], ids["w3"]]]  # a blank line is not searched
    assert (options.glossary, options.glossary_bonus) == ([[], [[ids["w7"]]]], 1.5)
    assert (options.forbidden, options.min_length) == ([[ids["w8"]]], 3)


def test_scores_of_given_translations(translator: Translator) -> None:
    (detail,) = translator.score(["w1 w2"], ["w2 w1 w3"])
    assert detail.tokens == ["▁w2", "▁w1", "▁w3", "</s>"]
    assert detail.log_probs == [-0.25] * 4
    assert detail.alignment == [(0, 0), (1, 1)]


def test_minimum_bayes_risk_ranks_by_agreement(translator: Translator) -> None:
    found = translator.translate_nbest(["w1 w2 w3"], mbr="bleu", beam_size=3, n_best=2)[0]
    texts = ["w1 w2 w3", "w1 w2", "w1"]
    utility = sentence_utility("bleu")
    expected = {text: sum(utility(text, other) for other in texts) / 3 for text in texts}
    assert {t.text: t.score for t in found} == dict(sorted(expected.items(), key=lambda pair: -pair[1])[:2])
    assert found[0].score > found[1].score


def test_translations_of_a_line_differ_by_more_than_spaces(translator: Translator) -> None:
    found = translator.translate_nbest(["w1 w2"], n_best=5, beam_size=5)[0]
    assert [t.text for t in found] == ["w1 w2", "w1", ""]  # the fake search leaves out one word after the other
    assert distinct("abcd", ["x y", "x  y", " z", "x y "], 2) == ["a", "c"]
    assert len(translator.translate_nbest(["w1 w2"], n_best=5, sampling=True)[0]) == 5, "samples stay as drawn"
    candidates = [Translation(text, 0.0, 0.0) for text in ("x y", "x  y", "z")]
    assert [t.text for t in ranked_by_agreement(candidates, "chrf")] == ["x y", "z"]


def test_the_configured_number_of_translations(translator: Translator) -> None:
    translator.config = translator.config.with_changes({"decoding.n_best": 3})
    assert [len(found) for found in translator.translate_nbest(["w1 w2 w3"])] == [3]
    assert [len(found) for found in translator.translate_nbest(["w1 w2 w3"], n_best=2)] == [2]
