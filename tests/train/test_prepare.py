"""What a run would meet after minutes or hours is looked at before its first update."""

from typing import Any

import pytest

from nmt.config import config_from_dict
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import ConfigError
from nmt.train.tasks.prepare import sides_of_sample
from tests.train import fake_model


def settings(**decoding: Any) -> Any:
    side = {"train": "t", "dev": "d", "src": {"lang": "a"}, "tgt": {"lang": "b"}}
    return config_from_dict({"model_dir": "x", "data": side, "decoding": decoding})


def test_searches_that_exclude_each_other_are_refused_by_the_settings() -> None:
    line = r"decoding\.beam_groups must be 1 with sampling: true, got 5; a search has groups or draws samples"
    with pytest.raises(ConfigError, match=line):
        settings(sampling=True, beam_groups=5)


@pytest.mark.parametrize("weight", [0.001, 0.02, 1.0])
def test_weights_leave_something_in_every_epoch(make_trainer: Any, tmp_path: Any, weight: float) -> None:
    fake_model.write_setup(tmp_path)
    trainer = make_trainer({"data": {"train": [{"path": str(tmp_path / "train"), "weight": weight}]}}, updates=3)
    if weight == 0.001:
        with pytest.raises(ConfigError, match="weights must leave at least one pair of a corpus in every epoch, got 0"):
            trainer.run()
    else:
        assert trainer.run().update == 3


def test_texts_are_checked_with_a_list_of_words_that_the_settings_name(tmp_path: Any) -> None:
    (tmp_path / "words.spm").write_bytes(Vocabulary(["one", "two"]).model_bytes)
    data = {"train": "t", "dev": "d", "src": {"lang": "a"}, "tgt": {"lang": "b"}}
    data["subwords"] = {"joint": True, "model_file": str(tmp_path / "words.spm")}
    config = config_from_dict({"model_dir": str(tmp_path / "model"), "data": data})
    src, tgt = sides_of_sample(config, [["one three"], ["two"]], lambda text: None)
    assert src.subwords is tgt.subwords and src.subwords.encode(["one three two"]) == [[4, 1, 5]]
