"""training.batch_multiplier: several batches make one update."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.config import TrainingConfig
from nmt.rnn.devices import cpu
from nmt.rnn.kernels.search.search_rules import mix
from nmt.train.checkpoints.checkpoint import read_whole
from nmt.train.distributed.ranks import Ranks
from nmt.train.planning.lengths import fixed_training, rate_factor
from nmt.train.run.trainer import Trainer
from nmt.train.updates.dealing import SOURCE_WORK, Dealing
from nmt.train.updates.optimizer import make_optimizer
from nmt.train.updates.schedule import TrainingState, batch_seed, update_seed
from nmt.train.updates.update import GradientSum, Updater
from tests.settings import settings_with
from tests.small_models import Group, batch_of, build
from tests.train.resumed import events

CONFIG = settings_with(training={"learning_rate": 0.01, "label_smoothing": 0.1})


def pairs(seed, count):
    rng = np.random.default_rng(seed)
    return [
        (rng.integers(4, 20, rng.integers(1, 7)).tolist(), rng.integers(4, 20, 1 + n % 5).tolist())
        for n in range(count)
    ]


def updater_of(model, config=CONFIG):
    return Updater(config, model, make_optimizer(config.training, model.params), 1)


@pytest.mark.parametrize("tied", ["none", "all"])
def test_batches_added_up_are_one_batch_so_many_times_as_large(tied):
    """Without dropout: masks are drawn batch by batch."""
    sides = {"encoder": {"embeddings": {"embedding_dim": 6}}, "decoder": {"embeddings": {"embedding_dim": 6}}}
    parts = [pairs(seed, count) for seed, count in ((1, 3), (2, 9), (3, 6))]
    several, whole = (build(20, tied=tied, scale=0.3, **sides) for _ in range(2))
    one, other = updater_of(several), updater_of(whole)
    for number in (1, 2):
        stats = one.update(Group([batch_of(part) for part in parts]), number, 0.01)
        alone = other.update_with(batch_of([pair for part in parts for pair in part]), number, 0.01)
        assert (stats.stats.tokens, stats.stats.correct) == (alone.stats.tokens, alone.stats.correct)
        assert stats.stats.loss == pytest.approx(alone.stats.loss, rel=1e-6)
        assert stats.norm == pytest.approx(alone.norm, rel=1e-5)
        for name, gradient in one.gradients.items():
            np.testing.assert_allclose(gradient, other.gradients[name], rtol=0, atol=2e-6, err_msg=name)
    for name, param in several.params.items():
        np.testing.assert_allclose(param, whole.params[name], rtol=0, atol=1e-5, err_msg=name)


def test_what_is_read_twice_counts_once():
    """R-Drop reads each pair twice; without dropout both times are alike."""
    twice = CONFIG.model_copy(update={"training": CONFIG.training.model_copy(update={"r_drop": 1.0})})
    batch = batch_of(pairs(1, 12))
    found = updater_of(build(20, scale=0.3), twice).update_with(batch, 1, 0.01).stats
    once = updater_of(build(20, scale=0.3)).update_with(batch, 1, 0.01).stats
    assert once.correct > 0
    assert (found.tokens, found.correct) == (once.tokens, once.correct)
    assert found.nll == pytest.approx(once.nll, rel=1e-5)


def test_everything_counts_updates(make_trainer):
    trainer = make_trainer(batch_multiplier=3, metric="loss", validation_freq=2, logging_freq=2, updates=7)
    assert trainer.run().update == 7
    assert [event["update"] for event in events(trainer.folder, "validation")] == [2, 4, 6, 7]
    assert [event["update"] for event in events(trainer.folder, "train")] == [2, 4, 6]
    alone = make_trainer({"model_dir": str(trainer.folder.parent / "alone")}, metric="loss", updates=7)
    alone.run()
    tokens = [events(folder, "train")[0] for folder in (trainer.folder, alone.folder)]
    per_update = [event["tgt_tokens"] / event["update"] for event in tokens]
    assert 2 < per_update[0] / per_update[1] < 4


def test_a_run_goes_on_with_another_multiplier(make_trainer):
    first = make_trainer(batch_multiplier=3, updates=2)
    first.run()
    used = trainer_state(first)["position"]
    trainer = make_trainer(batch_multiplier=2, updates=5)
    trainer.run()
    log = (trainer.folder / "train.log").read_text()
    assert "changed since the checkpoint: training.batch_multiplier: 3 -> 2" in log
    state = trainer_state(trainer)
    assert state["dealt"] == [[3, used]] and used < state["position"] <= used + 6


def trainer_state(trainer: Trainer):
    return read_whole(trainer.folder / "last.safetensors").metadata["state"]


def test_the_seed_of_masks_is_of_the_run_the_update_and_the_place(monkeypatch):
    model, seeds = build(20), []
    compute = model.loss_and_gradients
    monkeypatch.setattr(model, "loss_and_gradients", lambda *a, **k: (seeds.append(k["seed"]), compute(*a, **k))[1])
    updater, prepared = updater_of(model), []
    prepare = updater._methods.prepare
    monkeypatch.setattr(updater._methods, "prepare", lambda *a: (prepared.append(a[1:]), prepare(*a))[1])
    updater.update(Group([batch_of(pairs(seed, 2)) for seed in (1, 2, 3)]), 7, 0.01)
    assert seeds == [batch_seed(CONFIG.seed, 7, place) for place in range(3)]
    assert prepared == [(seed,) for seed in seeds]


@pytest.mark.parametrize("broken", [None, "loss", "gradient", "both"])
def test_an_update_whose_loss_or_gradient_is_not_finite_changes_nothing(broken, monkeypatch):
    model = build(20, scale=0.3)
    before = {name: param.copy() for name, param in model.params.items()}
    compute = model.loss_and_gradients

    def breaking(*arguments, into, **options):
        stats, gradients = compute(*arguments, into=into, **options)
        if broken in ("gradient", "both"):
            into["output.b"][3] = np.inf
        return (replace(stats, loss=np.nan) if broken in ("loss", "both") else stats), gradients

    monkeypatch.setattr(model, "loss_and_gradients", breaking)
    assert updater_of(model).update_with(batch_of(pairs(1, 3)), 1, 0.01).is_finite == (broken is None)
    assert all((model.params[name] == param).all() == (broken is not None) for name, param in before.items())


def gradients_of(*names):
    shapes = dict.fromkeys(names, (2,))
    model = SimpleNamespace(device=cpu(), gradient_group=lambda: cpu().group(shapes, np.float32))
    return GradientSum(model, "float32", Ranks())


def test_an_update_that_was_interrupted_adds_nothing_to_the_next():
    gradients = gradients_of("encoder.W")
    gradients.begin([None, None])
    for done in range(2):
        gradients.arrays_for(done, is_last=done == 1)["encoder.W"][...] = 5
    gradients.begin([None])
    gradients.arrays_for(0, is_last=True)["encoder.W"][...] = 1
    gradients.ready()
    assert gradients.arrays["encoder.W"].tolist() == [1, 1]


def test_a_process_without_batches_adds_zero():
    gradients = gradients_of("encoder.W")
    gradients.arrays["encoder.W"][...] = 5
    gradients.begin([None])
    assert gradients.arrays["encoder.W"].tolist() == [5, 5], "its batch overwrites them"
    gradients.begin([])
    assert gradients.arrays["encoder.W"].tolist() == [0, 0]


def test_a_group_is_ready_without_others_whose_names_begin_alike():
    """Only parameters of the group's name, or below it, are added when it is ready."""
    gradients = gradients_of("encoder.W", "encoder2.W", "encoder")
    gradients.begin([None, None])
    for done in range(2):
        for array in gradients.arrays_for(done, is_last=done == 1).values():
            array[...] = 1
    gradients.ready("encoder")
    first = {name: array[0] for name, array in gradients.arrays.items()}
    assert first == {"encoder.W": 2, "encoder2.W": 1, "encoder": 2}
    gradients.ready()
    assert all(array[0] == 2 for array in gradients.arrays.values())


class Batches:
    """Batches of which only the tokens are known; `batch` is a number."""

    def __init__(self, count):
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


@pytest.mark.parametrize(("size", "ranks"), [(4, 1), (4, 2), (4, 4), (6, 3), (5, 5)])
def test_every_batch_once_and_every_rank_its_own(size, ranks):
    batches = Batches(23)
    of_rank = [list(Dealing(batches, size, rank=r, ranks=ranks).left(TrainingState())) for r in range(ranks)]
    assert len(of_rank[0]) == Dealing(batches, size).num_updates(1) == -(-23 // size)
    used = []
    for one_update in zip(*of_rank, strict=True):
        assert len({tuple(group.numbers) for group in one_update}) == 1, "all ranks know the same update"
        assert sorted(place for group in one_update for place in group.own) == list(range(len(one_update[0])))
        assert {group.num_tgt_tokens for group in one_update} == {int(batches.tokens()[one_update[0].numbers, 1].sum())}
        used += one_update[0].numbers
    assert sorted(used) == list(range(23))


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

    assert wait([list(Dealing(batches, 8, rank=r, ranks=4).left(TrainingState())) for r in range(4)]) < 0.02


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
            rest = dealing.left(TrainingState(epoch=epoch, position=sum(map(len, found[:done]))))
            assert [group.numbers for group in rest] == [group.numbers for group in found[done:]]
        tokens = dealing.batches.tokens(epoch)
        for group in found:
            assert (group.num_src_tokens, group.num_tgt_tokens) == tuple(tokens[group.numbers].sum(axis=0))


def test_ranks_take_turns_forward_and_back():
    dealings = [Dealing(Batches(9), 9, rank=rank, ranks=3) for rank in range(3)]
    assert [one._own(9) for one in dealings] == [[0, 5, 6], [1, 4, 7], [2, 3, 8]]
    assert [one._own(8) for one in dealings] == [[0, 5, 6], [1, 4, 7], [2, 3]]
