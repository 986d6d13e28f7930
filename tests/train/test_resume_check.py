"""nmt-train --check-resume, and what it is to find."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from nmt.cli.commands.train import train
from nmt.errors import CheckpointError, ConfigError
from nmt.train.run import restore
from nmt.train.run.resume_check import check_resume
from nmt.train.run.trainer import Trainer
from nmt.train.updates.dealing import Dealing
from nmt.train.updates.optimizer import Optimizer
from nmt.train.updates.schedule import Plateau
from tests.train import fake_model

Make = Callable[..., Trainer]


def test_sound_runs_pass_and_leave_nothing(make_trainer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_trainer(ema_decay=0.9, validation_freq=4, batch_multiplier=2, loggers=["wandb"]).config
    monkeypatch.setitem(sys.modules, "wandb", None)  # trials are logged nowhere
    told: list[str] = []
    found = check_resume(config, 3, notify=told.append)
    assert found.startswith("update 6\t")
    assert "4 arrays of optimizer, 2 arrays of params, 2 arrays of raw" in found
    assert told == ["check-resume: 6 updates in one go", "check-resume: 3 updates, an interruption, and 3 more"]
    assert not Path(config.model_dir).exists()


def forget_steps(self: Optimizer, arrays: Any, numbers: Any) -> None:
    for name, array in self.state.items():
        array[...] = arrays[name]


def forget_moment(self: Optimizer, arrays: Any, numbers: Any) -> None:
    self.steps = int(numbers["steps"])


FAULTS: dict[str, tuple[Any, str, Any, str]] = {
    "the optimizer's count": (Optimizer, "load_state_dict", forget_steps, r"optimizer/bias/m"),
    "the optimizer's moments": (Optimizer, "load_state_dict", forget_moment, r"optimizer/bias/m"),
    "the schedule": (Plateau, "load_state_dict", lambda self, state: None, r"schedule.waited 2 instead of 3"),
    "the average": (restore, "_restore_average", lambda average, saved: average.restart(), r"params/bias"),
    "the place in the text": (Dealing, "resume", lambda self, state: setattr(state, "position", 0), r"optimizer/bias"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(make_trainer: Make, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, broken, told = FAULTS[fault]
    monkeypatch.setattr(where, name, broken)
    settings = {"metric": "loss", "validation_freq": 1, "lower_after": 9, "ema_decay": 0.9}
    trainer = make_trainer(learning_rate=5.0, **settings)  # each validation is worse than the first
    with pytest.raises(CheckpointError, match=told) as caught:
        check_resume(trainer.config, 2)
    assert "\n" not in str(caught.value)


def test_a_run_too_short_to_be_cut_is_told(make_trainer: Make) -> None:
    with pytest.raises(ConfigError, match="must have more than the 5 updates before its interruption, got 4 in all"):
        check_resume(make_trainer(updates=4).config, 5)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(fake_model.write_setup(tmp_path)))
    found = CliRunner().invoke(train, [str(path), "--check-resume", "2"], catch_exceptions=False)
    assert found.exit_code == 0
    assert found.stdout.startswith("same\tupdate 4\t")
    assert not (tmp_path / "model").exists()
    monkeypatch.setattr(Optimizer, "load_state_dict", forget_steps)
    found = CliRunner().invoke(train, [str(path), "--check-resume", "2"])
    assert found.exit_code == 1
    assert "must give identical results to one that is not, got" in found.stderr
    assert CliRunner().invoke(train, [str(path), "--check-resume", "--plan"]).exit_code == 2
