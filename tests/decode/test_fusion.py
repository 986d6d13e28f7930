"""Shallow fusion against trying everything: the translation model by its losses, the language model by an oracle in
plain loops; then every option of the search with a language model beside it."""

from functools import cache

import numpy as np
import pytest

from nmt.data.tokens.subwords import EOS_ID
from nmt.decode import Ensemble, Fusion, force
from tests.decode import test_beam, test_options
from tests.decode.test_beam import ForcedModel, compare_with_everything
from tests.decode.test_options import EVERY, compare_with_forced, find, forced_targets, sources_of
from tests.decode.test_shortlist import SOME
from tests.model import test_language

VOCAB = test_options.VOCAB
WEIGHT = 0.7


def language_model(vocab_size, seed=0):
    """Two layers of LSTM, as `test_language.oracle` has them."""
    return test_language.build(np.float32, seed, vocab_size)


@cache
def oracle(prior, tokens):
    return float(test_language.oracle(prior, tokens).sum())


class FusedWitness(ForcedModel):
    """What another witness says, with what the oracle of the language model says."""

    def __init__(self, forced, prior, weight):
        super().__init__(forced.model, forced.source, forced.vocab_size)
        self.forced, self.prior, self.weight = forced, prior, weight

    def total(self, tokens):
        return self.forced.total(tokens) + self.weight * oracle(self.prior, tokens)


@pytest.fixture(scope="module")
def model():
    return test_options.build(4)


@pytest.fixture(scope="module")
def small_prior():
    return language_model(test_beam.VOCAB, seed=3)


@pytest.fixture(scope="module")
def fused(model):
    return Fusion(model, language_model(VOCAB), WEIGHT)


sentences = test_options.sentences


BRUTE_FORCE = [("lstm", 0.3, "none"), ("lstm", 2.0, "average"), ("conv", 0.7, 0.6)]


@pytest.mark.parametrize(("name", "weight", "length_penalty"), BRUTE_FORCE)
def test_a_wide_beam_finds_what_brute_force_finds(name, weight, length_penalty, small_prior):
    model, witnesses = test_beam.model_and_witnesses(name, 0)
    fused = [FusedWitness(one, small_prior, weight) for one in witnesses]
    compare_with_everything(Fusion(model, small_prior, weight), fused, length_penalty)


@pytest.mark.parametrize("name", EVERY)
def test_log_probs_are_those_of_forced_decoding_for_every_batch(name, fused, sentences):
    compare_with_forced(name, fused, sentences)


@pytest.mark.parametrize("with_shortlist", [False, True])
def test_a_weight_of_nothing_changes_no_bit(with_shortlist, model, sentences):
    options = {"shortlist": SOME} if with_shortlist else {}
    assert find(Fusion(model, language_model(VOCAB), 0), sentences, **options) == find(model, sentences, **options)


@pytest.mark.parametrize("average", ["log_prob", "prob"])
def test_an_ensemble_with_a_language_model(average, model, sentences):
    pair = Ensemble([model, test_options.build(2, decoder={"hidden_size": 7})], average)
    prior = language_model(VOCAB)
    found = find(Fusion(pair, prior, WEIGHT), sentences)
    targets, sources = forced_targets(found), sources_of(found, sentences)
    plain = force(pair, sources, targets, attention=True, threads=1)
    forced = force(Fusion(pair, prior, WEIGHT), sources, targets, attention=True, threads=1)
    for h, target, one, both in zip((h for some in found for h in some), targets, plain, forced, strict=True):
        expected = one.log_probs + WEIGHT * test_language.oracle(prior, target)
        assert both.log_probs == pytest.approx(expected, abs=1e-5)
        assert h.log_prob == pytest.approx(float(expected.sum()), abs=1e-4)
        assert (both.attention == one.attention).all()
    assert [h.ids for some in found for h in some] != [h.ids for some in find(pair, sentences) for h in some]


def test_with_a_shortlist_both_models_choose_among_the_candidates(model, fused, sentences):
    found = find(fused, sentences, shortlist=SOME)
    for source, hypotheses in zip(sentences[:8], found, strict=False):
        own = SOME.candidates(source)
        forced = ForcedModel(model, source, VOCAB)
        witnesses = forced, FusedWitness(forced, fused.language_model, 1.0)
        for h in hypotheses:
            assert set(h.ids) <= set(own.tolist())
            tokens, expected = [*h.ids, *[EOS_ID] * h.finished], 0.0
            for t, token in enumerate(tokens):
                ours, both = (witness(tuple(tokens[:t])) for witness in witnesses)
                for share, log_probs in ((1.0, ours[own]), (WEIGHT, both[own] - ours[own])):
                    place = np.flatnonzero(own == token)[0]
                    expected += share * (log_probs[place] - np.log(np.exp(log_probs).sum()))
            assert h.log_prob == pytest.approx(expected, abs=1e-4)
    assert find(fused, sentences, shortlist=SOME, threads=2, batch_size=16) == found
    assert find(fused, sentences, shortlist=SOME, batch_size=5) == found


def test_a_weight_below_nothing_is_refused(model):
    with pytest.raises(ValueError, match=r"Fusion: weight must be 0 or more, got -0\.1"):
        Fusion(model, language_model(VOCAB), -0.1)
