"""Completing what somebody types, in text: what translate_nbest gives with the same beginning."""

import copy

import numpy as np
import pytest

from nmt.decode import Shortlist
from nmt.errors import ConfigError
from nmt.inference.pipeline import target_ids
from nmt.inference.translation import Constraints
from nmt.inference.translator import Translator
from tests.refusals import refused
from tests.saved_models import sentences

LINES = sentences(3, seed=5)


@pytest.fixture(scope="module")
def translator(folder):
    found = Translator.load(folder, threads=1)
    every = np.arange(found.tgt_subwords.vocab_size, dtype=np.int32)
    found.shortlist = Shortlist(np.minimum(np.arange(len(every) + 1), 5) * 3, every[:15], every[4:12], len(every))
    return found


@pytest.mark.parametrize("shortlist", [False, True])
def test_completions_are_those_of_translating(shortlist, translator):
    for line in LINES:
        session = translator.session(line)
        for typed in ("", "kara", "kara losu", "kara", "nuyo losu mira"):
            options = {"n_best": 3, "shortlist": shortlist, "repetition_penalty": 1.2}
            expected = translator.translate_nbest([line], constraints=Constraints(prefixes=[typed]), **options)[0]
            assert session.complete(typed, **options) == expected
        assert session.subwords_read > 0


@pytest.mark.parametrize("n_best", [1, 3])
def test_completions_are_chosen_by_agreement(n_best, translator):
    options = {"n_best": n_best, "mbr": "chrf", "beam_size": 5}
    expected = translator.translate_nbest([LINES[1]], constraints=Constraints(prefixes=["kara"]), **options)[0]
    assert translator.session(LINES[1]).complete("kara", **options) == expected


def test_what_is_not_for_sessions_is_said(translator):
    line = "decoding.sampling: must be .* for a session, got true; give complete"
    refused(ConfigError, line, translator.session(LINES[0]).complete, "", sampling=True)
    configured = copy.copy(translator)
    configured.config = translator.config.with_changes({"decoding.sampling": True})
    refused(ConfigError, "decoding.sampling: must be .* for a session", configured.session(LINES[0]).complete, "")


def test_nothing_is_read_again(translator):
    """As docs/decoding.md says of the property."""
    session, read = translator.session(LINES[0]), []
    for typed in ("kara", "kara losu", "kara losu"):
        session.complete(typed)
        read.append(session.subwords_read)
    counts = [len(row) for row in target_ids(translator, ["kara", "kara losu"])]
    assert read == [counts[0], counts[1], counts[1]] and counts[0] < counts[1]


def test_a_blank_sentence_has_nothing_to_complete(translator):
    (found,) = translator.session("  ").complete("kara")
    assert (found.text, found.score) == ("", 0.0)


def test_what_prints_says_what_it_is(translator):
    session = translator.session("kara losu")
    model = f"TranslationModel({translator.model.num_params:,} parameters, vocabularies src 48, tgt 48, float32, cpu)"
    assert repr(translator.model) == model
    assert repr(session) == f"TypingSession('kara losu', Translator(xx -> yy, {model}, threads=1))"
    assert repr(translator.model.step_decoder).startswith("Scan(")
    assert repr(translator.src_subwords) == "Subwords(48 units)"
