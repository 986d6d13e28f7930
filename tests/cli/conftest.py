"""A model folder made once by the fake model, and commands run as a user runs them."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli import forked
from tests.train import fake_model


@dataclass
class Result:
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard output, cut at line feeds alone."""
        return self.out.decode().split("\n")[:-1]


Run = Callable[..., Result]


@pytest.fixture(scope="session")
def run() -> Run:
    """Return a function that runs a command with the fake model in a process of its own; it ends with `code`."""

    def run_command(*arguments: str | Path, stdin: bytes = b"", code: int = 0, **options: Any) -> Result:
        if not options and forked.is_usual():
            found, out, err = forked.run([*map(str, arguments)], stdin, 60)
        else:
            words = [sys.executable, fake_model.__file__, *map(str, arguments)]
            done = subprocess.run(words, input=stdin, capture_output=True, timeout=60, check=False, **options)
            found, out, err = done.returncode, done.stdout, done.stderr
        result = Result(out, err.decode().replace(os.linesep, "\n"))
        assert found == code, result.err
        return result

    return run_command


def write(folder: Path) -> Path:
    """Write corpora into a folder; return settings, `c.yaml`, which train on them into its `model`."""
    settings = fake_model.write_setup(folder)
    settings["data"]["test"] = str(folder / "test")
    (folder / "c.yaml").write_text(yaml.safe_dump(settings))
    return folder / "c.yaml"


@pytest.fixture(scope="session")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what `write` makes."""
    return write(tmp_path_factory.mktemp("cli")).parent


@pytest.fixture(scope="session")
def trained(setup: Path, run: Run) -> Result:
    """Return what the training of `setup`'s model said."""
    return run("nmt-train", setup / "c.yaml")


@pytest.fixture(scope="session")
def model(setup: Path, trained: Result) -> Path:
    assert os.path.exists(setup / "model" / "best.safetensors")
    return setup / "model"
