import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _scripts_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    yield
    for name in ("_cases", "_timing", "_toolkits", "_machine", "_watch", "cells", "peak", "train_step"):
        sys.modules.pop(name, None)
