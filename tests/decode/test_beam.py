"""The beam's own rules, on a decoder made of tables: when it stops, what it returns, what the limits mean."""

import dataclasses
import functools
import math

import numpy as np
import pytest

from nmt.data.tokens.subwords import BOS_ID, EOS_ID, PAD_ID
from nmt.decode import Hypothesis, SearchOptions, search
from nmt.decode.beam import BeamCell, run
from nmt.decode.hypotheses import Block, length_blocks
from nmt.decode.rules.score_rules import best_possible, final_scores, length_divisor
from tests import small_models
from tests.oracle import beam

EOS = 3


class TableDecoder:
    """Log-probabilities of the next token depend on the sentence and the last token alone. A source is the number of
    its table; sentence ids are numbers that say nothing."""

    eos_id = EOS

    def __init__(self, tables):
        self.tables = np.log(np.asarray(tables, np.float64))  # [N, V, V]
        self.rows, self.sources, self.most = [], {}, 0

    def admit(self, src_ids, candidates=None):
        sentence_ids = 100 + 7 * np.arange(len(src_ids)) + 1000 * len(self.rows)
        self.sources |= {int(one): n for one, (n,) in zip(sentence_ids, src_ids, strict=True)}
        self.most = max(self.most, len(self.sources))
        return sentence_ids, {"count": np.zeros((len(sentence_ids), 1))}, np.full(len(sentence_ids), 2, np.int32)

    def release(self, sentence_ids):
        for one in sentence_ids.tolist():
            del self.sources[one]

    def step(self, tokens, states, parent, sentence_ids):
        self.rows.append(len(tokens))
        tables = [self.sources[one] for one in sentence_ids.tolist()]
        return self.tables[tables, tokens], {"count": states["count"][parent] + 1}

    def best_tokens(self, outputs, first_token, places):
        outputs = outputs.copy()
        outputs[:, :first_token] = -np.inf
        tokens = np.argsort(-outputs, axis=1, kind="stable")[:, :places].astype(np.int32)
        scores = np.take_along_axis(outputs, tokens, axis=1)
        return np.where(np.isinf(scores), -1, tokens), scores

    def log_probs(self, outputs):
        return outputs.copy()


def rows(*named):
    """A table [V, V]: for the named tokens the given next probabilities, else EOS for certain."""
    table = np.full((6, 6), 1e-30)
    table[:, EOS] = 1.0
    for token, chances in named:
        table[token] = 1e-30
        for following, chance in chances.items():
            table[token, following] = chance
    return table


def translate(decoder, beam_size, *, limits=(9,), penalty="none", n_best=1, block=9, size=9):
    options = SearchOptions(beam_size=beam_size, length_penalty=penalty, n_best=n_best)
    numbers = np.arange(len(limits))
    cell = BeamCell(options, decoder, [[n] for n in numbers], np.array(limits))
    blocks = [Block(part, [[n] for n in part]) for part in np.split(numbers, numbers[block::block])]
    found = dict(run(cell, iter(blocks), size))
    assert not decoder.sources, "sentences that have ended are released"
    return [found[n] for n in numbers]


GARDEN = rows((2, {4: 0.6, 5: 0.4}), (4, {EOS: 0.4, 4: 0.6}), (5, {EOS: 1.0}))


def test_greedy_takes_the_first_best_and_a_wider_beam_finds_the_better_one():
    (greedy,) = translate(TableDecoder([GARDEN]), 1)[0]
    assert greedy.ids[:2] == [4, 4]
    (best,) = translate(TableDecoder([GARDEN]), 2)[0]
    assert best.ids == [5]
    assert best.log_prob == pytest.approx(np.log(0.4))
    assert best.finished


def test_the_search_ends_once_no_live_hypothesis_can_win():
    """[5] has ended with 0.4; what is alive has 0.36 and can only fall, so two steps are enough."""
    decoder = TableDecoder([GARDEN])
    translate(decoder, 2)
    assert len(decoder.rows) == 2


def test_with_a_length_penalty_it_goes_on_as_long_as_a_longer_one_could_win():
    decoder = TableDecoder([GARDEN])
    (best,) = translate(decoder, 2, penalty="average", limits=(30,))[0]
    assert len(decoder.rows) > 2
    lengths = np.arange(2, 31)
    # n times token 4 and EOS, or n times token 5 and EOS, scored by their mean
    chain = (np.log(0.6) * (lengths - 1) + np.log(0.4)) / lengths
    assert best.score == pytest.approx(max(chain.max(), np.log(0.4) / 2))


def test_ended_rows_leave_the_batch():
    decoder = TableDecoder([rows(), GARDEN])
    translate(decoder, 2, limits=(9, 9))
    assert decoder.rows == [2, 2]  # the first sentence ends at once, the second has two rows then


def test_sentences_join_as_others_end():
    """Never more than `size` in work, full as long as there are more; the same translations."""
    tables = [rows(), GARDEN, rows((2, {4: 1.0}), (4, {4: 0.9, EOS: 0.1})), GARDEN, rows(), GARDEN, rows()]
    limits = (9, 9, 5, 9, 0, 9, 9)
    together = translate(TableDecoder(tables), 2, limits=limits)
    decoder = TableDecoder(tables)
    assert translate(decoder, 2, limits=limits, block=2, size=2) == together
    assert max(decoder.rows) <= 4 and decoder.most <= 4
    for block in (3, 7):  # a block that is larger waits until places are free
        decoder = TableDecoder(tables)
        assert translate(decoder, 2, limits=limits, block=block, size=2) == together
        assert max(decoder.rows) <= 4
    assert len(decoder.rows) < sum(len(steps_alone(table, limit)) for table, limit in zip(tables, limits, strict=True))


def steps_alone(table, limit):
    decoder = TableDecoder([table])
    translate(decoder, 2, limits=(limit,))
    return decoder.rows


def test_the_limit_counts_eos_and_cuts():
    (cut,) = translate(TableDecoder([rows((2, {4: 1.0}), (4, {4: 1.0}))]), 1, limits=(3,))[0]
    assert cut == Hypothesis([4, 4, 4], pytest.approx(0.0), pytest.approx(0.0), finished=False)


def test_a_limit_of_zero_is_an_empty_translation():
    both = translate(TableDecoder([GARDEN, GARDEN]), 2, limits=(0, 9))
    assert both[0][0].ids == []
    assert both[1][0].ids == [5]


def test_n_best_are_distinct_and_in_order_the_ended_ones_first():
    found = translate(TableDecoder([GARDEN]), 4, n_best=4)[0]
    assert len({tuple(h.ids) for h in found}) == len(found) == 4
    order = [(not h.finished, -h.score) for h in found]
    assert order == sorted(order)
    assert found[0].ids == [5] and not found[-1].finished


def test_divisors_are_the_published_ones():
    lengths = np.array([1, 7, 25])
    assert length_divisor("none", lengths).tolist() == [1, 1, 1]
    assert length_divisor("average", lengths).tolist() == [1, 7, 25]
    assert length_divisor(0.5, lengths) == pytest.approx([1, 2**0.5, 5**0.5])


@pytest.mark.parametrize("penalty", [0, 0.25, 0.6, 0.75, 1.0, 1.7])
def test_divisors_are_powers_of_the_c_library_on_every_processor(penalty):
    """Exported libraries rank by them; NumPy's powers of an array are other ones in the last place, with AVX-512."""
    expected = [math.pow((5 + n) / 6, penalty) for n in range(2000)]
    assert length_divisor(penalty, np.arange(2000)).tolist() == expected
    assert length_divisor(penalty, np.arange(2000).reshape(2, -1)).ravel().tolist() == expected
    assert length_divisor(penalty, 7).tolist() == expected[7]


def test_the_highest_power_of_a_long_text_is_infinite():
    assert length_divisor(100.0, np.array([1, 10**5])).tolist() == [1.0, np.inf]


def test_final_scores_are_the_published_ones():
    """Wu et al. 2016, equation 14, with a word reward."""
    sums, lengths = np.array([-3.0, -8.0, 2.0]), np.array([2, 5, 7])
    found = final_scores(0.8, sums, lengths, 0.3)
    for r in range(3):
        assert found[r] == pytest.approx(sums[r] / ((5 + lengths[r]) / 6) ** 0.8 + 0.3 * lengths[r])


@pytest.mark.parametrize("penalty", ["none", "average", 0.7, 2.0])
def test_nothing_that_a_hypothesis_becomes_is_better_than_the_bound(penalty):
    rng = np.random.default_rng(0)
    for reward in (0.0, 0.4, -0.4):
        sums = np.concatenate([rng.uniform(-9, 2, 20), rng.uniform(0, 1, 20)])
        lengths, more = rng.integers(1, 9, 40), rng.integers(1, 9, 40)
        for rows in (slice(0, 20), slice(20, 40), *(slice(r, r + 1) for r in range(40))):
            limits = lengths[rows] + more[rows]
            bound = best_possible(penalty, sums[rows], lengths[rows], limits, reward)
            tight = np.full_like(bound, -np.inf)
            for later in range(1, 9):
                score = final_scores(penalty, sums[rows], np.minimum(lengths[rows] + later, limits), reward)
                assert (score <= bound + 1e-12).all()
                tight = np.maximum(tight, score)
            if reward == 0 and rows.stop - rows.start == 1:
                assert tight == pytest.approx(bound), "a bound that is reached ends the search soonest"


def test_the_end_is_a_token_of_the_length():
    assert Hypothesis([4, 5], -1.0, -1.0, finished=True).length == 3
    assert Hypothesis([4, 5], -1.0, -1.0, finished=False).length == 2


VOCAB = 6
FORBIDDEN = (PAD_ID, BOS_ID)
EVERYTHING = 128  # more than there are prefixes of 4 tokens out of UNK and two words, finished ones included
PENALTIES = ["none", "average", 1.0, 0.6]
SOURCES = [[4, 5], [5], [4, 4, 5, 5], [5, 1, 4]]
# Another attention and cell is another plan: two models, both with two seeds.
MODELS = {"lstm": {}, "gru_no_feeding": {"encoder": {"rnn_type": "gru"}}}
MODELS["gru_no_feeding"]["decoder"] = {"rnn_type": "gru", "attention": "general", "input_feeding": False}
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
        given = {"eos": EOS_ID, "max_length": 4, "length_penalty": length_penalty, "forbidden": FORBIDDEN}
        everything = beam.all_sequences(witness, **given)
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
            given = {"eos": EOS_ID, "max_length": 6, "length_penalty": length_penalty, "forbidden": FORBIDDEN}
            expected = beam.greedy(witness, **given)
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
        for source, hypotheses in zip(sentences, find(model, sentences, beam_size=4, n_best=2), strict=True):
            for h in hypotheses:
                expected = ForcedModel(model, source).total(tuple(h.ids))
                if h.finished:
                    expected = -model.loss(small_models.batch_of([(source, h.ids)]), threads=1).nll
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
            found += find(model, sentences[start : start + size], threads=threads, **options)
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


def test_blocks_cover_all_and_stay_small():
    lengths = [0, 3, 1000, 5, 0, 400, 5, 1, 1000, 2]
    blocks = list(length_blocks([[7] * length for length in lengths], 4))
    assert sorted(index for block in blocks for index in block) == list(range(10))
    assert [lengths[index] for block in blocks for index in block] == sorted(lengths, reverse=True)
    for block in blocks:
        assert len(block) == 1 or len(block) * max(lengths[i] for i in block) <= 4 * 200
    assert max(map(len, blocks)) == 4
