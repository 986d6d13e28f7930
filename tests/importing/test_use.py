"""Imported models are folders like any other: they are trained further, quantised and bundled."""

import numpy as np
import pytest

from nmt import Translator
from nmt.config import config_from_dict
from nmt.storage.model_folder import load_folder_config
from nmt.storage.quantised_model import save_quantised
from nmt.storage.saved_model import load_saved_model, save_bundle
from nmt.train.run.trainer import Trainer
from tests.importing.checks import imported
from tests.importing.test_toolkits import PAIRS, Joey, OpenNMT

MODELS = {
    "joeynmt": (lambda folder: Joey("bridge").save(folder), PAIRS),
    "opennmt-py": (lambda folder: OpenNMT("mlp").save(folder), PAIRS),
}


def loss(translator, pairs):
    """Mean negative log-probability of a token."""
    details = translator.score([src for src, _ in pairs], [tgt for _, tgt in pairs])
    return -float(np.mean(np.concatenate([detail.log_probs for detail in details])))


@pytest.mark.parametrize("name", MODELS)
def test_more_training_lowers_the_loss(tmp_path, name):
    save_model, pairs = MODELS[name]
    (tmp_path / "theirs").mkdir()
    base = tmp_path / "model"
    before = loss(imported(save_model(tmp_path / "theirs"), base), pairs)
    for lang, lines in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
        (tmp_path / f"text.{lang}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    values = load_folder_config(base).to_dict()
    values["model_dir"] = str(tmp_path / "tuned")
    values["data"] |= {"train": str(tmp_path / "text"), "dev": str(tmp_path / "text"), "check": False}
    values["training"] |= {"load_model": str(base), "updates": 20, "learning_rate": 0.01, "validation_freq": 20}
    Trainer(config_from_dict(values)).run()
    assert loss(Translator.load(tmp_path / "tuned", threads=1), pairs) < 0.9 * before


@pytest.mark.parametrize("name", MODELS)
def test_int8_and_a_bundle_are_the_same_model(tmp_path, name):
    save_model, pairs = MODELS[name]
    (tmp_path / "theirs").mkdir()
    translator = imported(save_model(tmp_path / "theirs"), tmp_path / "model")
    saved, sources = load_saved_model(tmp_path / "model"), [src for src, _ in pairs]
    save_bundle(tmp_path / "model.nmt", saved)
    assert Translator.load(tmp_path / "model.nmt", threads=1).translate(sources) == translator.translate(sources)
    save_quantised(tmp_path / "int8", saved)
    small = Translator.load(tmp_path / "int8", threads=1)
    assert loss(small, pairs) == pytest.approx(loss(translator, pairs), rel=0.05)
    save_bundle(tmp_path / "int8.nmt", load_saved_model(tmp_path / "int8"))
    assert Translator.load(tmp_path / "int8.nmt", threads=1).translate(sources) == small.translate(sources)
