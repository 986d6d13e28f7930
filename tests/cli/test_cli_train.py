"""nmt-train: results on standard output, the rest on standard error, and mistakes in one line."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Result, Run, write
from tests.train import fake_model


def test_output_is_results_only(trained: Result, setup: Path) -> None:
    best, *test = trained.lines
    assert best.startswith(f"best\t{setup / 'model' / 'best.safetensors'}\tupdate ")
    assert [line.split("\t")[:2] for line in test] == [["test", "BLEU"], ["test", "chrF2"], ["test", "TER"]]
    assert "epoch   1" in trained.err
    assert "\r" not in trained.err, "no live line without a terminal"


def test_overrides_seed_and_threads(setup: Path, run: Run, tmp_path: Path) -> None:
    options = ["--set", f"model_dir={tmp_path / 'm'}", "--set", "training.updates=2"]
    result = run("nmt-train", setup / "c.yaml", *options, "--seed", "7", "--threads", "2")
    config = (tmp_path / "m" / "config.yaml").read_text()
    assert "seed: 7" in config
    assert "updates: 2" in config
    assert "threads: 1" in config, "the number of cores is not a property of the model"
    assert "2 threads" in result.err or "2 were asked for, got 1" in result.err, "on a machine of one core"


def test_the_recipe_copied_trains_on_any_text(run: Run, tmp_path: Path) -> None:
    recipe = Path(__file__).parents[2] / "configs" / "multi30k_de_en.yaml"
    text = recipe.read_text().replace("data/multi30k/", f"{tmp_path}/").replace("runs/multi30k_de_en", f"{tmp_path}/m")
    text = text.replace("lang: de", "lang: xx").replace("lang: en", "lang: yy")
    (tmp_path / "mine.yaml").write_text(text)
    for prefix, lines in (("train", 60), ("dev", 9), ("test", 5)):
        fake_model.write_corpus(tmp_path, prefix, lines, seed=lines)
    result = run("nmt-train", tmp_path / "mine.yaml")
    assert "subwords: bpe, a vocabulary of" in result.err
    assert "auto: updates 50, learning_rate_warmup 3, validation_freq 25; 1 update per epoch" in result.err
    assert result.lines[0].startswith(f"best\t{tmp_path}/m/best.safetensors\tupdate ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_exit_code_of_a_signal(number: signal.Signals, setup: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, fake_model.__file__, "nmt-train", str(setup / "c.yaml")]
        + ["--set", f"model_dir={tmp_path}", "--set", "training.logging_freq=1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"NMT_FAKE_SECONDS": "0.05"},
    )
    assert process.stderr is not None
    while "update      3" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert "run the same command again to resume from" in errors
    assert (tmp_path / "last.safetensors").exists()


def test_a_reader_that_leaves_does_not_end_the_training(setup: Path, tmp_path: Path) -> None:
    command = [sys.executable, fake_model.__file__, "nmt-train", str(setup / "c.yaml")]
    process = subprocess.Popen(
        [*command, "--set", f"model_dir={tmp_path}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert "finished: 4 epochs" in (tmp_path / "train.log").read_text()


def change(folder: Path, line: int, src: str) -> None:
    lines = (folder / "train.xx").read_text().split("\n")
    lines[line - 1] = src
    (folder / "train.xx").write_text("\n".join(lines))


def test_a_page_and_json(run: Run, tmp_path: Path) -> None:
    config = write(tmp_path)
    change(tmp_path, 17, "w1 <br> w2")
    page = run("nmt-train", config, "--check-data")
    assert page.lines[0].startswith(f"data: looked at 200 of {tmp_path / 'train'}, 20 of {tmp_path / 'dev'}")
    warning = f"warning: {tmp_path / 'train.xx'}: 1 of 200 lines (0.5%) contain tags or entities of HTML"
    assert any(line.startswith(warning) for line in page.lines)
    assert "           17  w1 <br> w2" in page.lines
    found = json.loads(run("nmt-train", config, "--check-data", "--json").out)
    (markup,) = [one for one in found["findings"] if one["name"] == "markup"]
    assert markup["examples"] == [{"line": 17, "text": "w1 <br> w2"}] and markup["level"] == "warning"
    assert not (tmp_path / "model").exists()


def test_what_cannot_work_is_exit_code_1_and_refused_before_training(run: Run, tmp_path: Path) -> None:
    config = write(tmp_path)
    (tmp_path / "train.xx").open("a").write("one more\n")
    page = run("nmt-train", config, "--check-data", code=1)
    assert "error: " in page.out.decode() and "got 201 and 200" in page.out.decode()
    refused = run("nmt-train", config, code=1)
    assert refused.err.count("\n") == 1 and "got 201 and 200" in refused.err


def test_a_run_tells_each_warning_once_and_keeps_them(run: Run, tmp_path: Path) -> None:
    config = write(tmp_path)
    change(tmp_path, 17, "w1 <br> w2")
    done = run("nmt-train", config)
    assert done.err.count("contain tags or entities") == 1 and "(line 17)" in done.err
    kept = json.loads((tmp_path / "model" / "data_check.json").read_text())
    assert "markup" in {one["name"] for one in kept["findings"]}
    again = run("nmt-train", config, "--set", "training.epochs=5")
    assert "resuming from" in again.err and "contain tags" not in again.err
    settings = ["data.check=false", f"model_dir={tmp_path / 'other'}", "data.filter.markup=true"]
    silent = run("nmt-train", config, *(word for setting in settings for word in ("--set", setting)))
    assert "contain tags" not in silent.err
    assert "removed by data.filter: 1 markup" in silent.err


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
    result = run(command, *arguments[command], "--device", "cuda", env=WITHOUT, code=1)
    assert result.err.startswith("Error: ") and len(result.err.splitlines()) == 1
    assert "must" in result.err and "--device cpu" in result.err


def test_auto_goes_on_without(run, arguments):
    given = run("nmt-translate", *arguments["nmt-translate"], env=WITHOUT)
    result = run("nmt-translate", *arguments["nmt-translate"], "--device", "auto", env=WITHOUT)
    assert result.out == given.out
    assert "device auto: the processor, for " in result.err


def test_the_config_may_name_the_device(run, setup):
    assert "--device cpu" in run("nmt-train", setup / "c.yaml", "--set", "device=cuda", env=WITHOUT, code=1).err
