"""The beam's own rules, on a decoder made of tables: when it stops, what it returns, what the limits mean."""

import math

import numpy as np
import pytest

from nmt.decode import Hypothesis
from nmt.decode.beam import BeamCell, run
from nmt.decode.hypotheses import Block
from nmt.decode.rules.score_rules import best_possible, final_scores, length_divisor

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
    cell = BeamCell(decoder, np.array(limits), beam_size, penalty, n_best, first_token=1, never=2)
    numbers = np.arange(len(limits))
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
                length = np.minimum(lengths[rows] + later, limits)
                score = final_scores(penalty, sums[rows], length, reward)
                assert (score <= bound + 1e-12).all()
                tight = np.maximum(tight, score)
            if reward == 0 and rows.stop - rows.start == 1:
                assert tight == pytest.approx(bound), "a bound that is reached ends the search soonest"


def test_the_end_is_a_token_of_the_length():
    assert Hypothesis([4, 5], -1.0, -1.0, finished=True).length == 3
    assert Hypothesis([4, 5], -1.0, -1.0, finished=False).length == 2
