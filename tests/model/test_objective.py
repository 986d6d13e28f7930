"""What training adds to the likelihood, against its papers' formulas and finite differences in float64."""

import numpy as np
import pytest

from nmt.data.batching.batches import make_batch
from nmt.decode import force
from nmt.model.batch_pass import Alignment, Objective
from nmt.model.output_heads import attention_loss
from nmt.rnn.devices import cpu
from tests import small_models
from tests.finite_differences import check_gradients

V = 9
SEED = 5
PAIRS = [([4, 5, 6, 7, 8], [5, 4, 6]), ([8, 4], [7, 7, 5, 8, 4]), ([6], [4]), ([5, 8, 7], [])]
ALIGNMENT = Alignment(
    np.array([0, 0, 1, 2, 0]), np.array([0, 0, 0, 1, 3]), np.array([1, 0, 1, 2, 0]), np.array([0.5, 0.5, 1.0, 1.0, 1.0])
)
OBJECTIVES = {
    "r_drop": Objective(r_drop=2.0),
    "guided": Objective(guided_alignment=1.5, alignment=ALIGNMENT),
    "all": Objective(r_drop=0.5, guided_alignment=0.3, alignment=ALIGNMENT, widest_source=40),
}


def batch_of(pairs):
    return make_batch([src for src, _ in pairs], [tgt for _, tgt in pairs], range(len(pairs)))


def model_of(**changes):
    side = {"dropout": 0.3, "num_layers": 2}
    return small_models.build(V, dtype=np.float64, encoder=side, decoder={**side, "hidden_dropout": 0.2}, **changes)


@pytest.mark.parametrize("tied", ["none", "softmax"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradients_are_those_of_the_loss(name, tied):
    if tied == "softmax" and name != "r_drop":
        pytest.skip("the output layer is in the divergence alone")
    model = small_models.build(
        V,
        dtype=np.float64,
        tied=tied,
        encoder={"dropout": 0.3, "num_layers": 2},
        decoder={"hidden_dropout": 0.2, "embeddings": {"embedding_dim": 6}},
    )
    batch = batch_of(PAIRS).doubled() if "r_drop" in name or name == "all" else batch_of(PAIRS)
    options = {"seed": SEED, "threads": 1, "objective": OBJECTIVES[name], "label_smoothing": 0.1}

    def loss():
        stats, _ = model.loss_and_gradients(batch, **options)
        return stats.loss / stats.tokens

    stats, gradients = model.loss_and_gradients(batch, **options)
    plain, _ = model.loss_and_gradients(batch, **{**options, "objective": Objective()})
    assert stats.nll == plain.nll
    assert stats.loss > plain.loss, "something is added"
    check_gradients(model, gradients, loss, smallest=1e-8)


def test_the_divergence_is_that_of_the_two_distributions():
    model = model_of()
    batch = batch_of(PAIRS).doubled()
    options = {"seed": SEED, "threads": 1}
    seen = []
    whole = model.device.output_loss
    computed = model.device.download
    model.device.output_loss = lambda h, layer, *rest: (
        seen.append((computed(h).copy(), layer)) or whole(h, layer, *rest)
    )
    try:
        stats, _ = model.loss_and_gradients(batch, objective=Objective(r_drop=3.0), **options)
    finally:
        del model.device.output_loss
    plain, _ = model.loss_and_gradients(batch, **options)
    log_probs = model.device.log_probs(*seen[0], 1)
    one, other = log_probs[::2], log_probs[1::2]
    expected = sum(0.5 * (np.exp(p) @ (p - q) + np.exp(q) @ (q - p)) for p, q in zip(one, other, strict=True))
    assert stats.loss - plain.loss == pytest.approx(3.0 * expected)
    without = small_models.build(V, dtype=np.float64)  # without dropout both passes are one
    same, _ = without.loss_and_gradients(batch, objective=Objective(r_drop=3.0), **options)
    assert same.loss == pytest.approx(same.nll, rel=1e-12)


def test_guided_alignment_by_hand():
    rng = np.random.default_rng(2)
    lengths = np.array([4, 2, 3])
    weights = rng.dirichlet(np.ones(5), (4, 3))
    weights[np.arange(4)[:, None] >= lengths] = 0
    rows = Alignment(np.array([0, 1]), np.array([2, 0]), np.array([4, 3]), np.array([1.0, 0.25]))
    guided = -np.log(weights[0, 2, 4]) - 0.25 * np.log(weights[1, 0, 3])
    total, _ = attention_loss(cpu(), weights, Objective(guided_alignment=2.0, alignment=rows), 1.0)
    assert float(total) == pytest.approx(2.0 * guided)


def test_attention_of_nothing_is_finite():
    rows = Alignment(np.array([0]), np.array([0]), np.array([2]), np.array([1.0]))
    objective = Objective(guided_alignment=1.0, alignment=rows)
    total, gradient = attention_loss(cpu(), np.zeros((2, 1, 3)), objective, 1.0)
    assert np.isfinite(total) and np.isfinite(gradient).all()


def test_guided_alignment_is_of_the_attention_that_translates():
    """The mean cross entropy under the attention that `force` shows, without dropout."""
    model = small_models.build(V, dtype=np.float64)
    batch = batch_of(PAIRS[:2])
    order = batch.indices.tolist()
    shown = force(model, [PAIRS[n][0] for n in order], [[*PAIRS[n][1]] for n in order], attention=True)
    found = Alignment(np.array([0, 2, 1]), np.array([0, 0, 1]), np.array([1, 0, 2]), np.array([1.0, 1.0, 0.5]))
    expected = 0.0
    for t, b, s, share in zip(found.step, found.row, found.position, found.share, strict=True):
        expected -= share * np.log(shown[b].attention[t, s])
    objective = Objective(guided_alignment=1.0, alignment=found)
    stats, _ = model.loss_and_gradients(batch, seed=1, threads=1, objective=objective)
    assert stats.loss - stats.nll == pytest.approx(expected, rel=1e-6)
