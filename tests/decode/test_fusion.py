"""Shallow fusion against trying everything: the translation model by its losses, the language model by an oracle in
plain loops; then every option of the search with a language model beside it."""

import numpy as np
import pytest

from nmt.data.tokens.subwords import EOS_ID
from nmt.decode import Ensemble, Fusion, SearchOptions, force, search
from tests.decode import test_beam, test_options
from tests.decode.test_beam import SOURCES, ForcedModel, compare_with_everything
from tests.decode.test_options import EVERY, compare_with_forced, find, forced_targets, sources_of
from tests.decode.test_shortlist import SOME
from tests.model import test_language

VOCAB = test_options.VOCAB
WEIGHT = 0.7


def language_model(vocab_size, seed=0):
    """Two layers of LSTM, as `test_language.oracle` has them."""
    return test_language.build(np.float32, seed, vocab_size)


class FusedWitness(ForcedModel):
    """The same with what the oracle of the language model says."""

    def __init__(self, model, source, prior, weight, vocab_size=test_beam.VOCAB):
        super().__init__(model, source, vocab_size)
        self.prior, self.weight = prior, weight

    def total(self, tokens):
        return super().total(tokens) + self.weight * float(test_language.oracle(self.prior, tokens).sum())


@pytest.fixture(scope="module")
def model():
    return test_options.build(4)


@pytest.fixture(scope="module")
def fused(model):
    return Fusion(model, language_model(VOCAB), WEIGHT)


sentences = test_options.sentences


BRUTE_FORCE = [("lstm", 0.3, "none"), ("lstm", 2.0, "average"), ("conv", 0.7, 0.6)]


@pytest.mark.parametrize(("name", "weight", "length_penalty"), BRUTE_FORCE)
def test_a_wide_beam_finds_what_brute_force_finds(name, weight, length_penalty):
    model, prior = test_beam.model_of(name, 0), language_model(test_beam.VOCAB, seed=3)
    witnesses = [FusedWitness(model, source, prior, weight) for source in SOURCES]
    compare_with_everything(Fusion(model, prior, weight), witnesses, length_penalty)


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
        witnesses = ForcedModel(model, source, VOCAB), FusedWitness(model, source, fused.language_model, 1.0, VOCAB)
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


def test_cut_at_the_limit_both_models_score_what_there_is(fused, sentences):
    options = SearchOptions(min_length=3)
    found = search(fused, sentences, beam_size=3, n_best=3, max_length_ratio=0, max_length_extra=3, options=options)
    assert any(not h.finished for some in found for h in some)
    forced = force(fused, sources_of(found, sentences), forced_targets(found), threads=2)
    for h, one in zip((h for some in found for h in some), forced, strict=True):
        assert h.log_prob == pytest.approx(float(one.log_probs.sum()), abs=1e-4)
