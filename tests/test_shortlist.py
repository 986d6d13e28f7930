"""What is learnt from attention, counted by hand; and what of references it misses."""

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.inference.shortlist_learning import ShortlistLearner, candidates_together, count_misses
from nmt.storage.model_folder import load_shortlist, save_tensors, shortlist_tensors
from tests.refusals import refused


def learner():
    found = ShortlistLearner(8, 9)
    found.add([[4, 5]], [[6, 7, 8]], [np.array([[0.9, 0.1, 0.0], [0.6, 0.4, 0.0], [0.0, 0.02, 0.98], [0, 0, 1.0]])])
    found.add([[5, 5, 4], [7]], [[7], [6]], [np.array([[0.2, 0.3, 0.5, 0], [0, 0, 0, 1.0]]), np.array([[0.5, 0.5]])])
    return found


def test_attention_is_summed_by_pairs():
    """4 sees 6 (0.9) and 7 (0.6 + 0.5); 5 sees 6 (0.1) and 7 (0.4 + 0.2 + 0.3); 7 sees 6; 8 saw the end alone."""
    assert lists_of(learner().shortlist(per_source=2, frequent=0)) == [[], [], [], [], [7, 6], [7, 6], [], [6]]
    assert learner().shortlist(1, 0).candidates([4, 7]).tolist() == [1, 3, 6, 7]
    assert learner().shortlist(1, 1).always.tolist() == [1, 3, 6], "6 and 7 come twice each: the lower number"
    assert 8 in learner().shortlist(1, 3).always and len(learner().shortlist(1, 9).always) == 5


def lists_of(found):
    return [found.tokens[found.starts[s] : found.starts[s + 1]].tolist() for s in range(8)]


@pytest.mark.parametrize("mass", [0.05, 0.3, 0.5, 0.6, 0.75, 0.9, 0.95, 1.0])
def test_lists_are_the_fewest_with_a_share_of_the_attention(mass):
    """By hand: all attention of each source subword, and the shortest prefix of its list that has the share."""
    weights = {4: {7: 0.6 + 0.5, 6: 0.9}, 5: {7: 0.4 + 0.2 + 0.3, 6: 0.1}, 7: {6: 0.5}}
    wanted = [[] for _ in range(8)]
    for source, masses in weights.items():
        ranked = sorted(masses, key=lambda token: -masses[token])
        fewest = next(n for n in (1, 2) if sum(masses[t] for t in ranked[:n]) >= mass * sum(masses.values()) - 1e-12)
        wanted[source] = ranked[:fewest]
    assert lists_of(learner().shortlist(9, 0, mass)) == wanted
    assert lists_of(learner().shortlist(1, 0, mass)) == [one[:1] for one in wanted]


def test_enough_frequent_is_the_smallest_number_that_keeps_to_the_share():
    """Against trying all numbers."""
    rng = np.random.default_rng(3)
    found = ShortlistLearner(20, 60)
    sources = [rng.integers(4, 20, rng.integers(1, 6)).tolist() for _ in range(80)]
    targets = [(4 + rng.geometric(0.08, rng.integers(1, 8)) % 50).tolist() for _ in sources]
    found.add(sources, targets, [rng.random((len(t) + 1, len(s) + 1)) for s, t in zip(sources, targets, strict=True)])
    held, said = sources[:30], [(4 + rng.geometric(0.06, 6) % 56).tolist() for _ in range(30)]
    rates = [count_misses(found.shortlist(2, n), held, said).rate for n in range(61)]
    assert rates[0] > 20 > 5 > rates[-1] > 0, "there are words that were never seen"
    for most in (0.0, rates[-1], 5.0, 10.0, 20.0, 100.0):
        wanted = next((n for n, rate in enumerate(rates) if rate <= most), rates.index(rates[-1]))
        assert found.enough_frequent(2, 1.0, most, held, said) == wanted, most
    assert found.enough_frequent(2, 1.0, 1.0, [], []) == 0


def test_candidates_of_sentences_together():
    found = learner().shortlist(per_source=2, frequent=0)
    # The longest first: [5, 4] and [7] share the layer, then [6] alone.
    assert candidates_together(found, [[6], [5, 4], [7, 6]], 2) == (4 + 2) / 2
    assert candidates_together(found, [], 2) == 0


def test_the_order_of_sentences_does_not_matter():
    rng = np.random.default_rng(0)
    rows = [
        (rng.integers(4, 8, n).tolist(), rng.integers(4, 9, n + 1).tolist(), rng.random((n + 2, n + 1)))
        for n in (1, 3, 2, 5)
    ]
    one, other = ShortlistLearner(8, 9), ShortlistLearner(8, 9)
    one.add(*map(list, zip(*rows, strict=True)))
    for row in rows[::-1]:
        other.add(*([part] for part in row))
    assert one.shortlist(3, 2).tokens.tolist() == other.shortlist(3, 2).tokens.tolist()


def test_misses():
    found = learner().shortlist(per_source=1, frequent=0)
    misses = count_misses(found, [[4], [7, 5]], [[7, 6, 8], [6, 7]])
    assert (misses.missing, misses.tokens, misses.candidates) == (2, 7, 3.5)
    assert misses.rate == pytest.approx(200 / 7)
    assert count_misses(found, [], []).rate == 0


def test_files(tmp_path):
    path = tmp_path / "s"
    assert load_shortlist(path, 9, "d") is None
    save_tensors(path, shortlist_tensors(learner().shortlist(2, 2)), {"subwords": "d"})
    again = load_shortlist(path, 9, "d")
    assert again.candidates([4, 5]).tolist() == learner().shortlist(2, 2).candidates([4, 5]).tolist()
    for size, digest in ((9, "e"), (7, "d")):
        refused(CheckpointError, "nmt-shortlist", load_shortlist, path, size, digest)
