"""Which batches make an update, and who computes them."""

import json

import numpy as np
import pytest

from nmt.config import TrainingConfig
from nmt.rnn.kernels.search.search_rules import mix
from nmt.train.planning.lengths import fixed_training, rate_factor
from nmt.train.updates.dealing import SOURCE_WORK, Dealing
from nmt.train.updates.state import TrainingState, batch_seed, update_seed


class Batches:
    """Batches of which only the tokens are known; `batch` is a number."""

    in_order = False

    def __init__(self, count, in_order=False):
        self.in_order = in_order
        self._tokens = np.random.default_rng(3).integers(50, 100, (count, 2))

    def num_batches(self, epoch=0):
        return len(self._tokens)

    def tokens(self, epoch=0):
        return self._tokens


def walk(dealing, state, updates):
    """Use so many updates of the state's epoch; the numbers of their batches."""
    used = []
    for batches, _ in zip(dealing.left(state), range(updates), strict=False):
        used.append(batches.numbers)
        state.position += len(batches)
    return used


def test_one_batch_an_update_is_the_plan_as_it_is():
    groups = list(Dealing(Batches(7)).left(TrainingState(epoch=2, position=3)))
    assert [group.numbers for group in groups] == [[3], [4], [5], [6]]
    assert all(group.own == [0] for group in groups)
    assert [group.own for group in Dealing(Batches(8), 4).left(TrainingState())] == [[0, 1, 2, 3]] * 2


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize(("size", "ranks"), [(4, 1), (4, 2), (4, 4), (6, 3), (5, 5)])
def test_every_batch_once_and_every_rank_its_own(size, ranks, in_order):
    batches = Batches(23, in_order)
    of_rank = [list(Dealing(batches, size, rank=r, ranks=ranks).left(TrainingState())) for r in range(ranks)]
    assert len(of_rank[0]) == Dealing(batches, size).num_updates(1) == -(-23 // size)
    used = []
    for one_update in zip(*of_rank, strict=True):
        assert len({tuple(group.numbers) for group in one_update}) == 1, "all ranks know the same update"
        assert sorted(place for group in one_update for place in group.own) == list(range(len(one_update[0])))
        assert {group.num_tgt_tokens for group in one_update} == {int(batches.tokens()[one_update[0].numbers, 1].sum())}
        used += one_update[0].numbers
    assert sorted(used) == list(range(23))
    if in_order:
        assert used == list(range(23))


def test_seeds_are_mixed_like_the_noise_of_sampling():
    """By SplitMix64, which the search has for arrays of 64 bits."""

    def mixed(value):
        return int(mix(np.uint64(value % 2**64)))

    with np.errstate(over="ignore"):
        for seed, update in ((0, 1), (42, 7), (-3, 10**6), (2**63, 99), (1, 2**40)):
            expected = mixed(mixed(seed) + update) >> 2
            assert update_seed(seed, update) == batch_seed(seed, update, 0) == expected
            assert batch_seed(seed, update, 3) == mixed(mixed(expected) + 3) >> 2


def test_a_new_run_has_done_nothing():
    state = TrainingState().to_dict()
    assert (state.pop("epoch"), state.pop("batches_an_update")) == (1, 1)
    assert not any(state.values())


def test_a_state_comes_back_from_its_file_as_it_was():
    state = TrainingState(update=7, kept=[(1.5, 3), (2.0, 6)], dealt=[(4, 12)], best_scores={"bleu": 3.0})
    assert TrainingState.from_dict(json.loads(json.dumps(state.to_dict() | {"later": 1}))) == state


def test_a_state_forgets_its_best_validation_and_nothing_else():
    state = TrainingState(7, 2, 5, best_update=6, best_scores={"bleu": 1.0}, without_improvement=3, validated_update=6)
    state.kept = [(1.0, 6)]
    state.forget_best()
    assert state == TrainingState(7, 2, 5)


def test_ranks_have_like_work():
    batches = Batches(400)
    work = batches.tokens() @ [SOURCE_WORK, 1.0]

    def wait(groups):
        """Of the time of updates, the share in which a rank waits for the slowest."""
        shares = [[work[[g.numbers[p] for p in g.own]].sum() for g in one] for one in zip(*groups, strict=True)]
        return 1 - np.sum(shares) / (4 * np.sum(np.max(shares, axis=1)))

    dealt = [list(Dealing(batches, 8, rank=r, ranks=4).left(TrainingState())) for r in range(4)]
    assert wait(dealt) < 0.02
    whole = [list(Dealing(Batches(400, True), 8, rank=r, ranks=4).left(TrainingState())) for r in range(4)]
    assert wait(whole) > 0.08, "as the plan has them, ranks would wait"


def test_an_epoch_goes_on_with_other_numbers_of_ranks():
    state, batches, used = TrainingState(epoch=3), Batches(50), []
    for size in (4, 2, 2, 1, 3):
        dealing = Dealing(batches, size)
        dealing.resume(state)
        state = TrainingState.from_dict(state.to_dict())
        used += walk(dealing, state, 4)
    assert [size for size, _ in state.dealt] == [4, 2, 1] and len(used) == 20
    used += walk(dealing, state, 99)
    assert sorted(number for group in used for number in group) == list(range(50))


def test_streams_begin_again_with_another_number_of_ranks():
    state = TrainingState(position=6, batches_an_update=2)
    Dealing(Batches(9, True), 3).resume(state)
    assert (state.position, state.dealt, state.batches_an_update) == (0, [], 3)


def test_another_epoch_and_seed_deal_otherwise():
    def numbers(seed, epoch):
        return [group.numbers for group in Dealing(Batches(40), 4, seed).left(TrainingState(epoch=epoch))]

    assert numbers(1, 1) == numbers(1, 1)
    assert numbers(1, 1) != numbers(1, 2) and numbers(1, 1) != numbers(2, 1)


@pytest.mark.parametrize(("scaling", "factor"), [("none", 1.0), ("sqrt", 2.0), ("linear", 4.0)])
def test_the_learning_rate_follows_the_batches_an_update(scaling, factor):
    assert rate_factor(scaling, 4) == factor
    settings = TrainingConfig(learning_rate=0.01, learning_rate_scaling=scaling, validation_freq=10)
    assert fixed_training(settings, Dealing(Batches(8), 4)).learning_rate == pytest.approx(0.01 * factor)
    assert fixed_training(settings, Dealing(Batches(8))).learning_rate == 0.01


def test_updates_have_the_tokens_of_their_epoch():
    class Changing(Batches):
        """Batches with tokens of their own in each epoch."""

        def tokens(self, epoch=0):
            return 1000 * epoch + np.arange(20).reshape(-1, 2)

    dealing = Dealing(Changing(10), 2)
    for epoch in (1, 3):
        found = list(dealing.left(TrainingState(epoch=epoch)))
        for done in range(len(found)):
            position = sum(map(len, found[:done]))
            rest = dealing.left(TrainingState(epoch=epoch, position=position))
            assert [group.numbers for group in rest] == [group.numbers for group in found[done:]]
        tokens = dealing.batches.tokens(epoch)
        for group in found:
            assert (group.num_src_tokens, group.num_tgt_tokens) == tuple(tokens[group.numbers].sum(axis=0))


def test_ranks_take_turns_forward_and_back():
    assert [Dealing(Batches(9), 9, rank=rank, ranks=3)._own(9) for rank in range(3)] == [
        [0, 5, 6],
        [1, 4, 7],
        [2, 3, 8],
    ]
    assert [Dealing(Batches(9), 9, rank=rank, ranks=3)._own(8) for rank in range(3)] == [[0, 5, 6], [1, 4, 7], [2, 3]]
