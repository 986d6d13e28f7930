"""What a run would meet after minutes or hours is looked at before its first update."""

from typing import Any

import pytest

from nmt.config import config_from_dict
from nmt.errors import ConfigError
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
