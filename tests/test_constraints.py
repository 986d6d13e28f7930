"""What a model is asked to say and cannot, and what is asked in the wrong form: a line of warning, or of error."""

import copy
import pickle

import pytest

from nmt.errors import ConfigError, DataError
from nmt.inference.generator import Generator
from nmt.inference.translation import Constraints
from nmt.inference.translator import Translator
from tests.saved_models import sentences, write_folder, write_language_folder

LINES = sentences(2, seed=4)


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return Translator.load(write_folder(tmp_path_factory.mktemp("constraints") / "model"), threads=1)


@pytest.fixture(scope="module")
def generator(translator, tmp_path_factory):
    folder = write_language_folder(tmp_path_factory.mktemp("constraints") / "lm", translator.tgt_subwords)
    return Generator.load(folder, threads=1)


@pytest.mark.parametrize(
    ("constraints", "warning"),
    [
        (Constraints(prefixes="kara Ω, 日"), "the prefix is incomplete: the vocabulary lacks Ω,, 日"),
        (Constraints(prefixes="kara losu"), None),
        (Constraints(required=[["日本語"]]), "a constraint is incomplete: the vocabulary lacks 日本語"),
        (Constraints(glossary=[["losu", "Ω"]]), "a phrase of the glossary is incomplete: the vocabulary lacks Ω"),
    ],
)
def test_what_the_vocabulary_lacks_is_named(constraints, warning, translator):
    ((found,),) = translator.translate_nbest(LINES[:1], n_best=1, constraints=constraints)
    assert [one for one in found.warnings if "lacks" in one] == ([warning] if warning else [])


@pytest.mark.parametrize("given", [{"required": "losu"}, {"required": ["losu"]}, {"glossary": ["losu"]}])
def test_a_phrase_in_the_place_of_a_list_is_refused(given, translator):
    with pytest.raises(DataError, match=r"must be a list of phrases for each sentence, got 'losu' .* \[\['losu'\]\]"):
        translator.translate_nbest(LINES[:1], n_best=1, constraints=Constraints(**given))


def test_what_is_typed_or_begun_is_named_too(translator, generator):
    session = translator.session(LINES[0])
    assert "the prefix is incomplete: the vocabulary lacks 日本" in session.complete("日本")[0].warnings
    assert not any("lacks" in one for one in session.complete("kara")[0].warnings)
    for sampling in (True, False):
        first, second = generator.generate(["日 kara", "kara"], samples=2, max_length=5, sampling=sampling)
        assert all("the prompt is incomplete: the vocabulary lacks 日" in one.warnings for one in first)
        assert not any("lacks" in text for one in second for text in one.warnings)


def test_mistakes_in_python_are_said(translator):
    with pytest.raises(TypeError, match="translate: must have no n_best, got it; translate_nbest gives several"):
        translator.translate(LINES, n_best=3)
    for wrong, fact in ((LINES, "list"), (None, "None"), (3, "int")):
        with pytest.raises(TypeError, match=f"TypingSession: sentence must be one string, got {fact}"):
            translator.session(wrong)
    with pytest.raises(TypeError, match="TypingSession: typed must be one string, got list"):
        translator.session(LINES[0]).complete(["kara"])
    with pytest.raises(TypeError, match="Translator: sentences must be a list of strings, got set"):
        translator.translate(set(LINES))


def test_lengths_and_kinds_of_search_that_contradict_are_refused(translator, generator):
    with pytest.raises(ConfigError, match="decoding.min_length must be below 2010, .* got 100000; raise"):
        translator.translate(LINES, min_length=100_000)
    with pytest.raises(ConfigError, match="decoding.min_length: must be below max_length"):
        generator.generate(["kara"], max_length=10, min_length=10)
    assert generator.generate([""], max_length=2503, min_length=2500)  # no source, no length that it allows


def test_what_is_at_work_is_not_pickled(translator, generator):
    for one in (translator, generator, translator.session(LINES[0])):
        for way in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="must be made in the process that uses it.*path of the model"):
                way(one)
        assert vars(copy.copy(one)) == vars(one)
