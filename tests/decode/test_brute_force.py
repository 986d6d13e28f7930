"""The search against trying everything, and against the model's own training loss.

The witness never runs the search: it asks the model for losses of forced targets. Replacing the
last target of a batch by a token v gives -log p(words, v); the difference to -log p(words) is -log
p(v | words).

The conventions checked here: PAD and BOS are never produced; a limit of n steps allows n tokens,
EOS counted; EOS is a token of the sum and of the length in the penalties; a translation without EOS
has finished = False.
"""

import dataclasses
import functools

import numpy as np
import pytest

from nmt.data.tokens.subwords import BOS_ID, EOS_ID, PAD_ID
from nmt.decode import search
from tests import small_models
from tests.oracle import beam

VOCAB = 6
FORBIDDEN = (PAD_ID, BOS_ID)
EVERYTHING = 128  # more than there are prefixes of 4 tokens out of UNK and two words, finished ones included
PENALTIES = ["none", "average", 1.0, 0.6]
SOURCES = [[4, 5], [5], [4, 4, 5, 5], [5, 1, 4]]
# Another attention and cell is another plan: two models, both with two seeds.
MODELS = {
    "lstm": {},
    "gru_no_feeding": {
        "encoder": {"rnn_type": "gru"},
        "decoder": {"rnn_type": "gru", "attention": "general", "input_feeding": False},
    },
}
# Attention in every layer, positions that are counted; more steps than positions. Nothing squashes what the output
# layer reads, so smaller numbers do.
CONV = {"type": "conv", "num_layers": 2, "hidden_size": 5, "embeddings": {"embedding_dim": 4}, "max_positions": 4}
MODELS["conv"] = {"encoder": CONV, "decoder": CONV | {"attention": "dot"}, "scale": 0.5}
EVERY_MODEL = [(name, seed) for name in MODELS for seed in (0, 1)]
# Search knows nothing of cells: a decoder whose states are a window of past inputs.
MODELS["ssru_to_convolution"] = {
    "encoder": {"rnn_type": "ssru"},
    "decoder": {"rnn_type": "convolution", "num_layers": 2, "residual": True},
}
MODELS["conv_to_lstm"] = {"encoder": CONV}
MODELS["lstm_to_conv"] = {"decoder": CONV | {"attention": "general"}, "scale": 0.5}

every_model = pytest.mark.parametrize(("name", "seed"), EVERY_MODEL)


def model_of(name, seed, vocab_size=VOCAB):
    return small_models.build(vocab_size, seed=seed, **{"scale": 0.8, **MODELS[name]})


@functools.lru_cache(maxsize=2)
def model_and_witnesses(name, seed):
    """A model and the witness of each of SOURCES, which remember: tests of one model follow one another."""
    model = model_of(name, seed)
    return model, [ForcedModel(model, source) for source in SOURCES]


def find(model, sources, *, beam_size, max_length=None, **options):
    """The search with a limit of `max_length` tokens for every source, or of 2 * length + 3."""
    limits = {"max_length_ratio": 2.0, "max_length_extra": 3}
    if max_length is not None:
        limits = {"max_length_ratio": 0.0, "max_length_extra": max_length}
    given = {"length_penalty": "none", "n_best": 1, "threads": 1, **limits, **options}
    return search(model, sources, beam_size=beam_size, **given)


class ForcedModel:
    """log_probs(prefix) of one source sentence by losses of forced targets; it remembers."""

    def __init__(self, model, source, vocab_size=VOCAB):
        self.model, self.source, self.vocab_size = model, source, vocab_size
        self.totals = {(): 0.0}

    def total(self, tokens):
        """log p of these tokens, EOS among them or not."""
        if tokens not in self.totals:
            batch = small_models.batch_of([(self.source, list(tokens[:-1]))])
            forced = batch.tgt_out.copy()
            forced[-1, 0] = tokens[-1]
            batch = dataclasses.replace(batch, tgt_out=forced)
            self.totals[tokens] = -float(self.model.loss(batch, threads=1).nll)
        return self.totals[tokens]

    def __call__(self, prefix):
        before = self.total(prefix)
        log_probs = np.full(self.vocab_size, -np.inf)
        for token in range(self.vocab_size):
            if token not in FORBIDDEN:
                log_probs[token] = self.total((*prefix, token)) - before
        return log_probs


@every_model
def test_forced_losses_are_log_probabilities(name, seed):
    """The witness's own check: what is left for PAD and BOS is a probability too."""
    forced = ForcedModel(model_of(name, seed), SOURCES[0])
    for prefix in [(), (4,), (5, 4)]:
        assert 0.0 < np.exp(forced(prefix)).sum() < 1.0


@pytest.mark.parametrize("length_penalty", PENALTIES)
@every_model
def test_a_wide_beam_finds_what_brute_force_finds(name, seed, length_penalty):
    compare_with_everything(*model_and_witnesses(name, seed), length_penalty)


def compare_with_everything(model, witnesses, length_penalty):
    """A beam that holds all prefixes of 4 tokens against all sequences that each source's witness scores."""
    results = find(model, SOURCES, beam_size=EVERYTHING, max_length=4, length_penalty=length_penalty, n_best=5)
    for witness, hypotheses in zip(witnesses, results, strict=True):
        everything = beam.all_sequences(
            witness, eos=EOS_ID, max_length=4, length_penalty=length_penalty, forbidden=FORBIDDEN
        )
        finished = [sequence for sequence in everything if sequence.finished]
        found = [h for h in hypotheses if h.finished]
        assert found, "no finished translation although the beam holds all of them"
        assert len(hypotheses) == 5
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for h, expected in zip(found, finished, strict=False):
            assert h.score == pytest.approx(expected.score, abs=1e-4)
            assert h.log_prob == pytest.approx(expected.log_prob, abs=1e-4)
            assert tuple(h.ids) == expected.ids
        everywhere = {(s.ids, s.finished): s.score for s in everything}
        for h in hypotheses:
            assert h.score == pytest.approx(everywhere[tuple(h.ids), h.finished], abs=1e-4)
        assert len({(tuple(h.ids), h.finished) for h in hypotheses}) == 5


@pytest.mark.parametrize(("name", "seed"), [*EVERY_MODEL, ("ssru_to_convolution", 0)])
def test_greedy_is_beam_one_is_the_likeliest_token_each_time(name, seed):
    model, witnesses = model_and_witnesses(name, seed)
    for length_penalty in ("none", 1.0):
        results = find(model, SOURCES, beam_size=1, max_length=6, length_penalty=length_penalty)
        for witness, (h,) in zip(witnesses, results, strict=True):
            expected = beam.greedy(
                witness, eos=EOS_ID, max_length=6, length_penalty=length_penalty, forbidden=FORBIDDEN
            )
            assert (tuple(h.ids), h.finished) == (expected.ids, expected.finished)
            assert h.log_prob == pytest.approx(expected.log_prob, abs=1e-4)
            assert h.score == pytest.approx(expected.score, abs=1e-4)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_no_translation_is_longer_than_the_limit(limit):
    for name, seed in EVERY_MODEL:
        for hypotheses in find(model_of(name, seed), SOURCES, beam_size=3, max_length=limit, n_best=3):
            assert hypotheses
            for h in hypotheses:
                assert len(h.ids) + h.finished <= limit
                assert not set(h.ids) & {*FORBIDDEN, EOS_ID}


WIDE_VOCAB = 12


@pytest.fixture(scope="module")
def sentences():
    return small_models.random_sentences(np.random.default_rng(11), 70, WIDE_VOCAB, longest=9)


@pytest.mark.parametrize("name", MODELS)
def test_a_score_is_minus_the_training_loss(name, sentences):
    """Finished translations directly; those cut off at the limit by forcing their last token."""
    finished = 0
    for seed in (0, 1, 2, 4):
        model = model_of(name, seed, WIDE_VOCAB)
        found = find(model, sentences, beam_size=4, n_best=2)
        for source, hypotheses in zip(sentences, found, strict=True):
            for h in hypotheses:
                expected = ForcedModel(model, source).total(tuple(h.ids))
                if h.finished:
                    batch = small_models.batch_of([(source, h.ids)])
                    expected = -model.loss(batch, threads=1).nll
                    finished += 1
                assert h.log_prob == pytest.approx(expected, abs=5e-5)
                assert h.score == h.log_prob
    assert finished >= 10, "hardly a translation ended: other seeds would show more"


@pytest.mark.parametrize("beam_size", [1, 5])
@pytest.mark.parametrize("name", MODELS)
def test_batches_and_threads_do_not_change_a_translation(name, beam_size, sentences):
    # The average rewards length: without it, flat random models like the empty translation best.
    options = {"beam_size": beam_size, "length_penalty": "average"}

    def translations(model, size, threads):
        found = []
        for start in range(0, len(sentences), size):
            part = sentences[start : start + size]
            found += find(model, part, threads=threads, **options)
        return [(list(hypotheses[0].ids), hypotheses[0].finished) for hypotheses in found]

    different = set()
    for seed in (0, 1, 2):
        model = model_of(name, seed, WIDE_VOCAB)
        alone = translations(model, 1, 1)
        different |= {tuple(ids) for ids, _ in alone}
        assert translations(model, 64, 1) == alone
        whole = find(model, sentences, threads=1, **options)
        assert [(list(hypotheses[0].ids), hypotheses[0].finished) for hypotheses in whole] == alone
        assert translations(model, 64, 2) == alone
        assert translations(model, 1, 2) == alone
        for size, threads in ((7, 1), (40, 2), (40, 3)):  # others join; threads with searches of their own
            assert find(model, sentences, batch_size=size, threads=threads, **options) == whole
    assert len(different) >= 10, "hardly any two differ: other seeds would show more"


@pytest.mark.parametrize("threads", [1, 2])
def test_ended_sentences_are_told_and_an_error_stops_the_search(threads, sentences):
    model = model_of("lstm", 0, WIDE_VOCAB)
    told = []
    find(model, sentences, beam_size=2, batch_size=20, threads=threads, on_ended=told.append)
    assert sum(told) == len(sentences) and len(told) > 2

    def stop(count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find(model, sentences, beam_size=2, batch_size=20, threads=threads, on_ended=stop)
