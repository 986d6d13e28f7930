"""What counts as the same on two devices."""

import importlib

import pytest


@pytest.fixture
def gpu_recipe():
    return importlib.import_module("gpu_recipe")


def test_losses_are_compared_relatively_and_one_for_one(gpu_recipe, capsys):
    assert gpu_recipe.compare_losses([4.0, 2.0], [4.0, 2.02]) == pytest.approx(0.01)
    assert "update     2" in capsys.readouterr().out
    for other in ([4.0], []):
        with pytest.raises(SystemExit, match="as many on both devices"):
            gpu_recipe.compare_losses([4.0, 2.0], other)


def test_a_line_may_differ_where_scores_are_as_near_as_rounding(gpu_recipe, capsys):
    first = [{"text": text, "score": -1.0} for text in ("a", "b", "c")]
    second = [{"text": "a", "score": -1.5}, {"text": "x", "score": -1.0 + 1e-5}, {"text": "y", "score": -1.1}]
    assert gpu_recipe.compare_translations(first, second) == 1
    out = capsys.readouterr().out
    assert "line 2: tie" in out and "line 3: DIFFERS" in out and "1 of 3 lines are the same, 1 ties, 1 differ" in out


def test_the_commands_are_those_of_the_package(gpu_recipe, capfd):
    for command in ("nmt-train", "nmt-translate"):
        gpu_recipe.run(command, "--help")
        assert f"Usage: {command}" in capfd.readouterr().out
    with pytest.raises(SystemExit, match="must end with exit code 0"):
        gpu_recipe.run("nmt-train", "--no-such-option")
