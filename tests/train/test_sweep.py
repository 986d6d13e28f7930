"""Sweeps: every combination once, resumed without repeating, failures and signals without loss."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from nmt.errors import CheckpointError, ConfigError
from nmt.system.files import lock_alone, open_folder
from nmt.train.sweep import _mean, parse_grid, plan, run_sweep, summary
from tests.refusals import refused
from tests.train import fake_model

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, fake_model.__file__, "nmt-train"]


@pytest.fixture
def config(tmp_path: Path) -> str:
    settings = fake_model.write_setup(tmp_path, epochs=2)
    settings["data"]["test"] = str(tmp_path / "test")
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(settings))
    return str(tmp_path / "c.yaml")


def make(config, grid, seeds=1):
    return plan(config, (), parse_grid(grid), seeds, Path(config).parent / "sweep")


def run(config, folder, runs, processes=1):
    said = []
    assert run_sweep([*COMMAND, config], folder, runs, processes, said.append) is None
    return said


def test_grids_are_read_and_combined(config: str) -> None:
    assert parse_grid(["training.adam_betas=[0.9,0.98],[0.8,0.9]"]) == [
        ("training.adam_betas", ["[0.9,0.98]", "[0.8,0.9]"])
    ]
    folder, runs = plan(config, (), parse_grid(["training.epochs=1,2", "seed=5,6"]), 1, None)
    assert folder.name == "model" and [run.folder.name for run in runs] == [
        "epochs=1,seed=5", "epochs=1,seed=6", "epochs=2,seed=5", "epochs=2,seed=6"]  # fmt: skip
    names = [run.folder.name for run in plan(config, (), parse_grid(["name=a b,a/b"]), 1, None)[1]]
    assert len(set(names)) == 2 and not any("/" in name for name in names)


@pytest.mark.parametrize(
    ("grid", "seeds", "line"),
    [
        (["x"], 1, "--grid x: must be KEY.PATH=V1,V2"),
        (["seed=1,"], 1, "--grid seed=1,: must be KEY"),
        (["seed=1", "seed=2"], 1, "--grid seed=2: each key must be given once"),
        (["training.epoch=1,2"], 1, "--grid training.epoch=1: training.epoch is not a setting; did you mean"),
        (
            ["model.encoder.rnn_type=gru,no_such_cells.Cell"],
            1,
            "--grid: the combination model.encoder.rnn_type=no_such_cells.Cell must be possible, got",
        ),
        (["seed=1,2"], 2, "--seeds: must not be given with a grid over seed"),
        (
            ["training.scheduling=plateau,linear", "training.epochs=1,2"],
            1,
            "--grid: the combination training.scheduling=linear training.epochs=1 must be possible, got",
        ),
    ],
)
def test_a_mistake_in_the_grid_is_named_once(config: str, grid: list[str], seeds: int, line: str) -> None:
    assert refused(ConfigError, "", make, config, grid, seeds).startswith(line)


def test_small_scores_keep_their_digits() -> None:
    assert _mean([0.4]) == "0.4" and _mean([0.0044, 0.0052]) == "0.0048 ± 0.000566"
    assert _mean([27.431, 27.5]) == "27.47 ± 0.0488" and _mean([0.0]) == "0.00"


def test_a_sweep_runs_everything_once_and_goes_on(config: str) -> None:
    folder, runs = make(config, ["training.learning_rate=0.3,0.1"], seeds=2)
    assert sum("begun" in line for line in run(config, folder, runs, 2)) == 4
    assert all(one.result and not one.error for one in runs), [one.error for one in runs]
    table = summary(runs).splitlines()
    assert len(table) == 3 and "test BLEU" in table[0] and "±" in table[1] and table[1].split()[1] == "2"
    rows = [line.split("\t") for line in (folder / "sweep.tsv").read_text().splitlines()]
    assert len(rows) == 5 and len({len(row) for row in rows}) == 1
    folder, wider = make(config, ["training.learning_rate=0.3,0.1,0.2"], seeds=2)
    assert sum("begun" in line for line in run(config, folder, wider)) == 2
    assert [one.result for one in wider[:4]] == [one.result for one in runs]


def test_a_run_that_fails_ends_no_other(config: str) -> None:
    folder, runs = make(config, ["data.subwords.vocab_size=5,60"])
    runs[0].folder.mkdir(parents=True)
    (runs[0].folder / "last.safetensors").write_bytes(b"nothing")
    run(config, folder, runs)
    assert "model_dir must be new" in runs[0].error and runs[1].result
    assert "failed: vocab_size=5" in summary(runs)
    runs[0].file("err").write_text("subwords\nError: the reason\nepoch 20  update 450  left 8s\n")
    runs[0].end(1)
    assert runs[0].error == "the reason"


def test_a_second_sweep_in_the_folder_is_refused(config: str) -> None:
    folder, runs = make(config, ["seed=1"])
    folder.mkdir()
    handle = open_folder(folder)
    try:
        assert lock_alone(handle)
        refused(CheckpointError, "another sweep at work", run, config, folder, runs)
    finally:
        os.close(handle)


def test_a_signal_lets_runs_save_and_the_next_sweep_resumes(config: str, tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from nmt.train.sweep import *\n"
        f"folder, runs = plan({config!r}, (), [('training.epochs', ['2000'])], 1, Path({str(tmp_path / 'sweep')!r}))\n"
        f"print(run_sweep({[*COMMAND, config]!r}, folder, runs, 1, lambda text: None))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        metrics = tmp_path / "sweep" / "epochs=2000" / "metrics.jsonl"
        until = time.monotonic() + 300
        while not (metrics.exists() and '"train"' in metrics.read_text()):
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=300)[0].strip() == str(int(signal.SIGINT)).encode()
    assert (tmp_path / "sweep" / "epochs=2000" / "last.safetensors").exists()
    assert not (tmp_path / "sweep" / "epochs=2000.json").exists()


def test_only_combinations_have_to_be_possible(config: str) -> None:
    _, runs = plan(config, ("training.scheduling=linear",), parse_grid(["training.updates=10,20"]), 2, None)
    assert [run.values["seed"] for run in runs] == ["42", "43"] * 2


def test_examples_of_grids_are_settings() -> None:
    pages = [ROOT / "docs" / "comparing.md", ROOT / "nmt" / "cli" / "commands" / "sweep.py"]
    found = [words for page in pages for words in re.findall(r"^ *nmt-sweep (\S+\.yaml) (.*)$", page.read_text(), re.M)]
    assert len(found) == 4
    for path, options in found:
        grid = [option.split()[0] for option in options.split("--grid ")[1:]]
        assert plan(str(ROOT / path), (), parse_grid(grid), 1, None)[1]
