"""Whole translators with products in bfloat16: losses, gradients, learning and search beside float32."""

from dataclasses import replace

import numpy as np
import pytest

from nmt.config import TrainingConfig, config_from_dict
from nmt.decode import search
from nmt.rnn.devices import cpu, resolved_dtype
from nmt.rnn.kernels.machine_code import features
from nmt.special_tokens import EOS_ID
from nmt.storage.model_folder import build_model
from nmt.train.updates.optimizer import make_optimizer
from tests import small_models
from tests.oracle import compare
from tests.train import fake_model

VOCAB = 23
OPTIONS = {"decoder": {"attention": "general", "embeddings": {"embedding_dim": 6}}, "tied": "softmax"}


def build(compute_dtype, **more):
    return small_models.build(VOCAB, compute_dtype=compute_dtype, scale=0.3, **OPTIONS, **more)


def some_batch():
    rng = np.random.default_rng(2)
    sources = small_models.random_sentences(rng, 12, VOCAB, 7)
    return small_models.batch_of([(src, src[::-1]) for src in sources])


def test_loss_and_gradients_are_near_and_do_not_depend_on_threads():
    batch, exact, near = some_batch(), build("float32"), build("bfloat16")
    wanted, gradients = exact.loss_and_gradients(batch, seed=0, threads=1)
    stats, found = near.loss_and_gradients(batch, seed=0, threads=1)
    assert stats.loss != wanted.loss
    assert stats.loss == pytest.approx(wanted.loss, rel=1e-3)
    for name, g in gradients.items():
        assert 1e-5 < compare.norm_error(found[name], g) < compare.BFLOAT16_TOLERANCE, name
        assert found[name].dtype == near.params[name].dtype == np.float32
    again, others = near.loss_and_gradients(batch, seed=0, threads=2)
    assert again == stats
    for name, g in found.items():
        np.testing.assert_array_equal(others[name], g, name)
    assert near.loss(batch, threads=2).nll == pytest.approx(exact.loss(batch, threads=1).nll, rel=1e-3)


def losses_of_training(compute_dtype, updates=100):
    """Nats a token before, and after some updates on one batch."""
    model, batch = build(compute_dtype), some_batch()
    optimizer = make_optimizer(TrainingConfig(), model.params, 1)
    losses = []
    for update in range(updates):
        stats, gradients = model.loss_and_gradients(batch, seed=update, threads=1)
        losses.append(stats.loss / stats.tokens)
        optimizer.step(model.params, gradients, 0.01)
        model.changed()
    return losses


def test_a_model_learns_as_in_float32():
    exact, near = losses_of_training("float32"), losses_of_training("bfloat16")
    assert near == losses_of_training("bfloat16")
    assert exact != near
    assert near[-1] < 0.5 * near[0]
    assert near[-1] == pytest.approx(exact[-1], rel=0.05)


def test_search_runs_in_bfloat16_and_its_score_is_its_loss():
    model, exact = build("bfloat16"), build("float32")
    for one in (model, exact):
        one.params["output.b"][EOS_ID] += 2  # sentences end before their limit
    sources = small_models.random_sentences(np.random.default_rng(4), 5, VOCAB, 6)
    options = {"beam_size": 3, "length_penalty": "none", "n_best": 1, "max_length_ratio": 2.0, "max_length_extra": 20}
    found = [hypotheses[0] for hypotheses in search(model, sources, threads=1, **options)]
    for source, best, other in zip(sources, found, search(exact, sources, threads=1, **options), strict=True):
        alone = search(model, [source], threads=2, **options)[0][0]
        assert (alone.ids, alone.log_prob) == (best.ids, best.log_prob)
        nll = model.loss(small_models.batch_of([(source, list(best.ids))]), threads=1).nll
        assert best.log_prob == pytest.approx(-nll, rel=1e-5)
        assert best.log_prob == pytest.approx(other[0].log_prob, rel=2e-2)


@pytest.mark.parametrize(("fast", "expected"), [(True, "bfloat16"), (False, "float32")])
def test_auto_is_what_is_faster_on_this_machine(monkeypatch, tmp_path, fast, expected):
    monkeypatch.setattr(features, "multiplies_pairs_fast", lambda: fast)
    assert resolved_dtype("auto") == resolved_dtype("auto", cpu()) == expected
    assert resolved_dtype("int8") == "int8"
    settings = fake_model.write_setup(tmp_path) | {"compute_dtype": "auto"}
    model = build_model(config_from_dict(settings), 9, 9)
    assert model.step_decoder.compute_dtype == expected


def test_only_amx_and_amd_multiply_pairs_fast(monkeypatch):
    """78 GFLOP/s of pairs and 170 of float32 is what Intel's vector instruction has (results/layers.md)."""
    kinds = {(True, "sapphirerapids"): True, (False, "sapphirerapids"): False, (False, "znver4"): True}
    for (has_amx, name), expected in kinds.items():
        monkeypatch.setattr(features, "TARGET", replace(features.TARGET, has_bf16=True, has_amx=has_amx))
        monkeypatch.setattr(features.binding, "get_host_cpu_name", lambda name=name: name)
        assert features.multiplies_pairs_fast() == expected
    monkeypatch.setattr(features, "TARGET", replace(features.TARGET, has_bf16=False, has_amx=False))
    assert not features.multiplies_pairs_fast()
