"""training.batch_multiplier: several batches make one update."""

import json
import signal
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.data.batching.batches import StreamBatches
from nmt.rnn.devices import cpu
from nmt.train.distributed.ranks import Ranks
from nmt.train.run.trainer import Trainer
from nmt.train.updates.optimizer import make_optimizer
from nmt.train.updates.state import batch_seed
from nmt.train.updates.update import GradientSum, Updater
from tests.model.test_language import build as build_language_model
from tests.settings import settings_with
from tests.small_models import batch_of, build
from tests.train.test_resume import assert_same

CONFIG = settings_with(training={"learning_rate": 0.01, "label_smoothing": 0.1})


class Group:
    """Batches of one update."""

    def __init__(self, batches):
        self.batches = batches
        self.num_src_tokens = sum(batch.num_src_tokens for batch in batches)
        self.num_tgt_tokens = sum(batch.num_tgt_tokens for batch in batches)

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(enumerate(self.batches))


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


def test_parts_of_a_text_are_more_streams(tmp_path):
    """A language model's update of 2 parts is that of twice the streams, states carried on included."""
    from nmt.data.corpora.readers import TokenRows

    rng = np.random.default_rng(5)
    lines = TokenRows.from_lists([rng.integers(4, 11, 9).tolist() for _ in range(11)])
    parts, whole = StreamBatches(lines, 3, 4, parts=2), StreamBatches(lines, 6, 4)
    assert parts.num_batches() == 2 * whole.num_batches()
    assert parts.tokens()[:, 1].tolist() == [batch.num_tgt_tokens for batch in parts.epoch(1)]
    assert parts.shapes().tolist() == [[len(b.tgt_in), 0, len(b)] for b in parts.epoch(1)]
    one, other = updater_of(build_language_model()), updater_of(build_language_model())
    segments = list(parts.epoch(1))
    for number, segment in enumerate(whole.epoch(1)):
        both = [s for s in segments[2 * number : 2 * number + 2] if s.num_tgt_tokens]
        added, alone = one.update(Group(both), number + 1, 0.01), other.update_with(segment, number + 1, 0.01)
        assert added.stats.loss == pytest.approx(alone.stats.loss, rel=1e-5)
        assert added.norm == pytest.approx(alone.norm, rel=1e-4)


def events(folder, kind):
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def test_everything_counts_updates(make_trainer):
    trainer = make_trainer(batch_multiplier=3, metric="loss", validation_freq=2, logging_freq=2, updates=7)
    result = trainer.run()
    assert result.update == 7
    assert [event["update"] for event in events(trainer.folder, "validation")] == [2, 4, 6, 7]
    assert [event["update"] for event in events(trainer.folder, "train")] == [2, 4, 6]
    alone = make_trainer({"model_dir": str(trainer.folder.parent / "alone")}, metric="loss", updates=7)
    alone.run()
    tokens = [events(folder, "train")[0] for folder in (trainer.folder, alone.folder)]
    per_update = [event["tgt_tokens"] / event["update"] for event in tokens]
    assert 2 < per_update[0] / per_update[1] < 4


@pytest.mark.parametrize("call", [1, 5, 11])
def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(make_trainer, fake, monkeypatch, call):
    import os

    options = {"batch_multiplier": 3, "metric": "loss", "validation_freq": 3}
    trainer = make_trainer(**options)
    trainer.run()
    undisturbed = trainer.folder.rename(trainer.folder.with_name("undisturbed"))
    whole, calls = fake.loss_and_gradients, 0

    def interrupted(self, *args, **named):
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGINT)
        return whole(self, *args, **named)

    monkeypatch.setattr(fake, "loss_and_gradients", interrupted)
    assert make_trainer(**options).run().signal == signal.SIGINT
    assert calls % 3 == 0 or calls == call, "the whole update is done"
    trainer = make_trainer(**options)
    trainer.run()
    assert_same(trainer.folder, undisturbed)


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
    from nmt.train.checkpoints.checkpoint import read_whole

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

    carried = []
    monkeypatch.setattr(model, "carry", carried.append)
    monkeypatch.setattr(model, "loss_and_gradients", breaking)
    outcome = updater_of(model).update_with(batch_of(pairs(1, 3)), 1, 0.01)
    assert outcome.is_finite == (broken is None)
    assert all((model.params[name] == param).all() == (broken is not None) for name, param in before.items())
    assert carried == ([] if broken is None else [{}]), "nor is a state of such a batch carried to the next"


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
    assert {name: array[0] for name, array in gradients.arrays.items()} == {
        "encoder.W": 2,
        "encoder2.W": 1,
        "encoder": 2,
    }
    gradients.ready()
    assert all(array[0] == 2 for array in gradients.arrays.values())
