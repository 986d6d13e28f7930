"""`--device`, where no GPU can be seen: one line, and `auto` goes on without."""

import os

import pytest

WITHOUT = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def arguments(setup, model):
    return {
        "nmt-train": [setup / "c.yaml"],
        "nmt-translate": [model, setup / "test.xx"],
        "nmt-evaluate": [model, "--src", setup / "test.xx", "--ref", setup / "test.yy"],
        "nmt-score": [model, "--src", setup / "test.xx", "--tgt", setup / "test.yy"],
    }


@pytest.mark.parametrize("command", ["nmt-train", "nmt-translate", "nmt-evaluate", "nmt-score"])
def test_a_missing_gpu_is_one_line(run, arguments, command):
    result = run(command, *arguments[command], "--device", "cuda", env=WITHOUT)
    assert result.code == 1
    assert result.err.startswith("Error: ") and len(result.err.splitlines()) == 1
    assert "must" in result.err and "--device cpu" in result.err


def test_auto_goes_on_without(run, arguments):
    given = run("nmt-translate", *arguments["nmt-translate"], env=WITHOUT)
    result = run("nmt-translate", *arguments["nmt-translate"], "--device", "auto", env=WITHOUT)
    assert (result.code, result.out) == (0, given.out)
    assert "device auto: the processor, for " in result.err


def test_the_config_may_name_the_device(run, setup):
    result = run("nmt-train", setup / "c.yaml", "--set", "device=cuda", env=WITHOUT)
    assert result.code == 1 and "--device cpu" in result.err
