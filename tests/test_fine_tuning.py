"""training.load_model with a real model: units added to its vocabulary."""

import io

import numpy as np
import pytest

from nmt import Translator
from nmt.config import config_from_dict
from nmt.storage.model_folder import load_folder_config, load_subwords, read_checkpoint
from nmt.train.trainer import Trainer
from tests.saved_models import sentences, write_folder


@pytest.mark.parametrize(("joint", "tied"), [(True, "all"), (False, "none")])
def test_a_model_with_more_units_translates_and_goes_on(tmp_path, joint, tied):
    sizes = {"decoder": {"embeddings": {"embedding_dim": 6}}, "encoder": {"embeddings": {"embedding_dim": 6}}}
    base = write_folder(tmp_path / "base", joint=joint, tied=tied, **sizes)
    values = load_folder_config(base).to_dict()
    lines = [f"{line} žluť qqq" for line in sentences(60, seed=4)]
    for lang in ("xx", "yy"):
        (tmp_path / f"new.{lang}").write_text("\n".join(lines) + "\n", "utf-8")
    values["model_dir"] = str(tmp_path / "tuned")
    values["data"] |= {"train": str(tmp_path / "new"), "check": False}
    values["training"] |= {
        "load_model": str(base),
        "extend_vocabulary": 6,
        "freeze": ["decoder.*"],
        "updates": 1,
        "learning_rate": 1e-9,
        "learning_rate_min": 1e-12,
    }
    said = io.StringIO()
    Trainer(config_from_dict(values), terminal=said).run()
    assert f"; {6 if joint else 12} units were added, each the mean" in said.getvalue()
    old, new = load_subwords(base, joint=joint), load_subwords(tmp_path / "tuned", joint=joint)
    assert [one.vocab_size - other.vocab_size for one, other in zip(new, old, strict=True)] == [6, 6]
    before = read_checkpoint(base / "best.safetensors", prefix="params/")[0]
    after = read_checkpoint(tmp_path / "tuned" / "last.safetensors", prefix="params/")[0]
    assert before.keys() == after.keys()
    for name, array in after.items():
        size = before[name].shape
        inner = array[tuple(slice(0, n) for n in size)]
        np.testing.assert_allclose(inner, before[name], atol=1e-6)
        if "decoder" in name:
            assert np.array_equal(array, before[name])
    bias = after["params/output.b"]
    assert len(bias) == new[1].vocab_size and np.isfinite(bias).all()
    translator = Translator.load(tmp_path / "tuned", threads=1)
    assert len(translator.translate(lines[:3])) == 3
    values["training"]["updates"] = 2
    Trainer(config_from_dict(values)).run()  # goes on with the units it has
    assert load_subwords(tmp_path / "tuned", joint=joint)[0].model_bytes == new[0].model_bytes
