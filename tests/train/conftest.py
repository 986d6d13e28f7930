"""Every test here runs with the fake model in the real one's place."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nmt.config import config_from_dict
from nmt.train.run.trainer import Trainer
from tests.train import fake_model


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> type[fake_model.TranslationModel]:
    for name, module in fake_model.modules().items():
        monkeypatch.setitem(__import__("sys").modules, name, module)
    monkeypatch.setattr(fake_model.TranslationModel, "broken_calls", set())
    return fake_model.TranslationModel


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trainer]:
    """Return a function from training settings to a run with them that has ended, which tests only read."""

    @cache
    def of(**training: Any) -> Trainer:
        settings = fake_model.write_setup(tmp_path_factory.mktemp("finished"), **training)
        trainer = Trainer(config_from_dict(settings))
        trainer.run()
        return trainer

    return of


@pytest.fixture
def make_trainer(tmp_path: Path) -> Callable[..., Trainer]:
    """Return a function from training settings, and others merged on top, to a Trainer."""

    def make(top: dict[str, Any] | None = None, **training: Any) -> Trainer:
        settings = fake_model.write_setup(tmp_path, **training)
        for key, value in (top or {}).items():
            if isinstance(value, dict):
                settings[key] = {**settings.get(key, {}), **value}
            else:
                settings[key] = value
        return Trainer(config_from_dict(settings))

    return make
