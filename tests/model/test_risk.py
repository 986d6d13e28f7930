"""Minimum risk training's loss, against its paper's formulas by loops and finite differences in float64."""

import math

import numpy as np
import pytest

from nmt.data.batching.batches import make_batch
from nmt.decode import force
from nmt.model.batch_pass import Objective, Risk
from nmt.special_tokens import EOS_ID
from tests import small_models
from tests.finite_differences import check_gradients

V = 9
CANDIDATES = [
    (0, [5, 4, 6], 0.0),
    (0, [5, 4], 0.4),
    (0, [7, 7, 5, 8, 4], 0.9),
    (1, [7], 0.0),
    (1, [7, 5], 0.3),
    (1, [], 1.0),
]
SOURCES = [[4, 5, 6, 7, 8], [8, 4]]
REFERENCES = (0, 3)


def batch_and_risk(alpha, likelihood):
    batch = make_batch([SOURCES[n] for n, *_ in CANDIDATES], [ids for _, ids, _ in CANDIDATES], range(len(CANDIDATES)))
    order = batch.indices
    sentence = np.array([n for n, *_ in CANDIDATES])[order]
    cost = np.array([cost for *_, cost in CANDIDATES])[order]
    return batch, Risk(sentence, cost, np.isin(order, REFERENCES), alpha, likelihood)


@pytest.mark.parametrize(("likelihood", "smoothing", "tied"), [(0.0, 0.0, "none"), (0.5, 0.1, "none"), (2, 0.2, "all")])
def test_gradients_are_those_of_the_loss(likelihood, smoothing, tied):
    side = {"embeddings": {"embedding_dim": 6}}
    model = small_models.build(
        V,
        dtype=np.float64,
        tied=tied,
        encoder={"dropout": 0.3, "num_layers": 2, **side},
        decoder={"hidden_dropout": 0.2, **side},
    )
    batch, risk = batch_and_risk(0.7, likelihood)
    options = {"seed": 5, "threads": 1, "objective": Objective(risk=risk), "label_smoothing": smoothing}

    def loss():
        stats, _ = model.loss_and_gradients(batch, **options)
        return stats.loss / stats.tokens

    stats, gradients = model.loss_and_gradients(batch, **options)
    assert stats.tokens == 4 + 2, "of the references, EOS counted"
    check_gradients(model, gradients, loss, smallest=1e-9)


def test_the_loss_is_the_expected_cost_by_loops():
    model = small_models.build(V, dtype=np.float64)
    batch, risk = batch_and_risk(0.3, 0.5)
    stats, _ = model.loss_and_gradients(batch, seed=1, threads=1, objective=Objective(risk=risk))
    known = force(model, [SOURCES[n] for n, *_ in CANDIDATES], [[*ids, EOS_ID] for _, ids, _ in CANDIDATES])
    log_probs = [float(one.log_probs.sum()) for one in known]
    expected = nll = 0.0
    for sentence, reference in enumerate(REFERENCES):
        rows = [n for n, (of, *_) in enumerate(CANDIDATES) if of == sentence]
        total = sum(math.exp(0.3 * log_probs[n]) for n in rows)
        cost = sum(math.exp(0.3 * log_probs[n]) / total * CANDIDATES[n][2] for n in rows)
        expected += (len(CANDIDATES[reference][1]) + 1) * cost
        nll -= log_probs[reference]
    assert stats.nll == pytest.approx(nll, rel=1e-6)
    assert stats.loss == pytest.approx(expected + 0.5 * nll, rel=1e-6)


def test_one_candidate_alone_teaches_nothing():
    model = small_models.build(V, dtype=np.float64)
    batch = make_batch([SOURCES[0]], [[5, 4]], [0])
    risk = Risk(np.array([0]), np.array([0.0]), np.array([True]), 1.0, 0.0)
    stats, gradients = model.loss_and_gradients(batch, seed=1, threads=1, objective=Objective(risk=risk))
    assert stats.loss == 0
    assert not any(np.any(array) for array in gradients.values())


def test_very_improbable_candidates_are_numbers():
    risk = Risk(np.array([0, 0, 1]), np.array([0.0, 1.0, 0.0]), np.array([True, False, True]), 5.0, 0.0)
    loss, slopes = risk.weigh(np.array([-4000.0, -1.0, -1e30]), np.array([3, 2, 1]))
    assert loss == pytest.approx(3.0)
    assert np.isfinite(slopes).all()
