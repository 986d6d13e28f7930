"""training.quantization_aware: what updates compute with is what nmt-quantize stores, and what they change is not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt.config import config_from_dict
from nmt.errors import CheckpointError
from nmt.model.network import Network
from nmt.storage.quantised_model import save_quantised
from nmt.storage.saved_model import load_saved_model
from nmt.train.checkpoints.resume import compare_settings
from nmt.train.updates.optimizer import make_optimizer
from nmt.train.updates.quantization import quantized
from nmt.train.updates.update import Updater
from tests import small_models
from tests.saved_models import write_folder

SIZES: dict[str, Any] = {"encoder": {"hidden_size": 40}, "decoder": {"hidden_size": 36, "attention": "general"}}
BATCH = small_models.batch_of([([5, 6, 7], [7, 8]), ([6, 9], [5])])


def network(folder: Path) -> Network:
    model: Network = load_saved_model(folder).build("float32")
    return model


def copies(model: Network) -> dict[str, np.ndarray]:
    return {name: param.copy() for name, param in model.params.items()}


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("threads", [1, 2])
def test_matrices_within_are_those_of_a_quantised_model(tmp_path: Path, bits: int, threads: int) -> None:
    folder = write_folder(tmp_path / "model", **SIZES)
    save_quantised(tmp_path / "stored", load_saved_model(folder), bits)
    model, stored = network(folder), network(tmp_path / "stored")
    before = copies(model)
    with quantized(model, bits, threads):
        for name, param in model.params.items():
            np.testing.assert_array_equal(param, stored.params[name], name)
        assert model.loss(BATCH, threads=1) == stored.loss(BATCH, threads=1)
    for name, param in model.params.items():
        np.testing.assert_array_equal(param, before[name], name)


def test_an_interruption_leaves_the_numbers_before_rounding(tmp_path: Path) -> None:
    model = network(write_folder(tmp_path / "model", **SIZES))
    before = copies(model)
    with pytest.raises(KeyboardInterrupt), quantized(model, 4, 1):
        raise KeyboardInterrupt
    for name, param in model.params.items():
        np.testing.assert_array_equal(param, before[name], name)


def updated(model: Network, settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """The parameters after one update."""
    data = {"train": "t", "dev": "d", "src": {"lang": "de"}, "tgt": {"lang": "en"}}
    training = {"optimizer": "sgd", "learning_rate": 0.5, "clip_grad_norm": None, **settings}
    config = config_from_dict({"model_dir": "unused", "data": data, "training": training})
    updater = Updater(config, model, make_optimizer(config.training, model.params), 1)
    assert updater.update_with(BATCH, 1, 0.5).is_finite
    return copies(model)


def test_the_gradient_at_the_rounded_numbers_changes_those_before_rounding(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", **SIZES)
    save_quantised(tmp_path / "4", load_saved_model(folder), 4)
    aware, rounded = network(folder), network(tmp_path / "4")
    before, at = copies(aware), copies(rounded)
    after, steps = updated(aware, {"quantization_aware": 4}), updated(rounded, {})
    for name, array in before.items():
        np.testing.assert_allclose(after[name] - array, steps[name] - at[name], atol=1e-6)
    assert any(np.abs(steps[name] - at[name]).max() > 1e-3 for name in at)


def test_a_run_does_not_go_on_with_another_value(tmp_path: Path) -> None:
    settings = [{"training": {"quantization_aware": bits}} for bits in (0, 4)]
    with pytest.raises(CheckpointError, match="training.quantization_aware must stay 0 for this checkpoint, got 4"):
        compare_settings(tmp_path / "last.safetensors", *settings)
