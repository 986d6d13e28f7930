"""A tiny translator trained on a GPU: losses, gradients, updates and files are those of the processor."""

from math import prod

import numpy as np
import pytest

from nmt.decode import search
from nmt.rnn.devices import cpu
from nmt.storage.model_folder import build_model, read_checkpoint, set_params
from nmt.train.checkpoints.checkpoint import save_checkpoint
from nmt.train.updates.optimizer import make_optimizer
from nmt.train.updates.update import Updater
from tests.settings import settings_with
from tests.small_models import DECODER, ENCODER, batch_of, build, on_device, random_sentences

V = 14
DROPOUT = {"encoder": {"embeddings": {"embedding_dim": 4, "dropout": 0.2}}, "decoder": {"hidden_dropout": 0.3}}
CASES = {
    "lstm with a bridge": {},
    "dropout": DROPOUT,
    "gru, two layers, tied": {
        "encoder": {"rnn_type": "gru", "bidirectional": False, "num_layers": 2, "hidden_size": 6, "residual": True},
        "decoder": {"rnn_type": "gru", "num_layers": 2, "init_hidden": "last", "embeddings": {"embedding_dim": 6}},
        "tied": "softmax",
    },
    "factors of the source": {"factor_sizes": (4, 5), "encoder": {"factors": (3, 2)}},
}


def batch(seed, count=4, factors=1):
    """Random sentences; each source word has one of so many combinations of factors."""
    rng = np.random.default_rng(seed)
    sources, targets = (random_sentences(rng, count, V, 4) for _ in range(2))
    sources = [[word + V * int(rng.integers(factors)) for word in words] for words in sources]
    return batch_of(list(zip(sources, targets, strict=True)))


@pytest.mark.parametrize("case", CASES)
def test_loss_and_all_gradients_are_those_of_the_processor(device, case):
    ours = build(V, dtype=np.float64, **CASES[case])
    theirs = on_device(ours, device, dtype=np.float64, **CASES[case])
    options, factors = {"seed": 5, "label_smoothing": 0.1}, prod(CASES[case].get("factor_sizes", ()))
    mine, gradients = ours.loss_and_gradients(batch(1, factors=factors), **options)
    other, found = theirs.loss_and_gradients(batch(1, factors=factors), **options)
    assert (other.tokens, other.correct) == (mine.tokens, mine.correct)
    np.testing.assert_allclose([other.nll, other.loss], [mine.nll, mine.loss], rtol=1e-12)
    held_out = batch(2, factors=factors)
    assert theirs.loss(held_out).nll == pytest.approx(ours.loss(held_out).nll, rel=1e-12)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(theirs.device.download(found[name]), gradient, rtol=1e-10, atol=1e-12, err_msg=name)


def settings(**training):
    training = {"optimizer": "adam", "learning_rate": 0.02, "clip_grad_norm": 1.0, **training}
    return settings_with(model={"encoder": ENCODER, "decoder": DECODER}, training=training)


def trained(device, updates, config):
    """A model after some updates on one device, its losses and its optimizer."""
    model = build_model(config, V, V, device=device)
    model.initialize(7)
    optimizer = make_optimizer(config.training, model.params, 1, device)
    updater = Updater(config, model, optimizer, 1)
    losses = [updater.update_with(batch(n % 2, 3), n, 0.02) for n in range(1, updates + 1)]
    return model, [one.stats.loss / one.stats.tokens for one in losses], optimizer


def test_loss_curve_and_translations_after_updates(device):
    """The same within float32's rounding, which a few updates of a tiny model hardly enlarge."""
    config = settings(label_smoothing=0.1)
    ours, mine, _ = trained(cpu(), 4, config)
    theirs, other, _ = trained(device, 4, config)
    assert mine[-1] < mine[0] - 0.05
    np.testing.assert_allclose(other, mine, rtol=2e-5)
    sources = random_sentences(np.random.default_rng(0), 3, V, 3)
    options = {"beam_size": 2, "max_length_ratio": 1.0, "max_length_extra": 2}
    found = [[h[0].ids for h in search(model, sources, **options)] for model in (ours, theirs)]
    assert found[0] == found[1]


def test_a_model_moves_from_a_gpu_to_the_processor_and_back(device, tmp_path):
    config, path = settings(), tmp_path / "last.safetensors"
    model, _, optimizer = trained(device, 1, config)
    state, numbers = optimizer.state_dict()
    params = {name: device.download(array) for name, array in model.params.items()}
    save_checkpoint(path, params=params, optimizer=state, metadata={"optimizer": numbers})
    tensors, _ = read_checkpoint(path, prefix="params/")
    for place in (cpu(), device):
        moved = build_model(config, V, V, device=place)
        set_params(moved, tensors, path)
        for name, array in params.items():
            np.testing.assert_array_equal(place.download(moved.params[name]), array)
        assert moved.loss(batch(1)).nll == pytest.approx(model.loss(batch(1)).nll, rel=1e-5)
