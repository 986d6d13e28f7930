"""docs/learning.md: its Python runs as it stands, and its numbers are those of the code."""

import re
from pathlib import Path

import pytest

from nmt import Translator
from nmt.learning import projects
from nmt.learning.learning_translator import IDLE
from nmt.learning.trainer import SHARE, Recipe
from tests.saved_models import write_folder

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "learning.md").read_text("utf-8")


def test_the_page_of_learning(tmp_path, monkeypatch, capsys):
    pytest.importorskip("rapidfuzz", reason="needs the extra [learn]")
    write_folder(tmp_path / "runs" / "de-en")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    exec(compile(block, "docs/learning.md", "exec"), {})
    assert "Good morning!" in capsys.readouterr().out
    assert Translator.load("runs/de-en-letters").translate("kara") is not None
    assert "Hi!" in Path("letters.tmx").read_text("utf-8")


def test_its_numbers_are_those_of_the_code():
    recipe = Recipe()
    assert f"more than {projects.SLOWS:g} |" in PAGE and f"more than {projects.STOPS:g}, or no number" in PAGE
    assert f"less than {projects.SLOWS / 2:g} again" in PAGE
    assert (projects.EVERY, projects.HELD_OUT) == (10, 100) and "every ten pairs, 100 held-out pairs" in PAGE
    assert (recipe.updates, recipe.neighbours, recipe.replayed) == (2, 2, 4)
    assert "Two updates" in PAGE and "up to two similar" in PAGE and "four pairs of the training text" in PAGE
    assert (recipe.passes, IDLE, SHARE) == (6, 60, 1)
    assert "six passes" in PAGE and "a minute without a new pair" in PAGE and "all parameters" in PAGE
