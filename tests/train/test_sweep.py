"""Sweeps: every combination once, resumed without repeating, failures and signals without loss."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from nmt.errors import CheckpointError, ConfigError
from nmt.system.files import lock_alone
from nmt.train.sweep import Sweep, _last_words, _reason, parse_grid, plan
from nmt.train.sweep_table import summary
from nmt.train.tasks.plain_texts import Texts, settings_of
from tests.train import fake_model

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, fake_model.__file__, "nmt-train"]


@pytest.fixture
def config(tmp_path: Path) -> str:
    settings = fake_model.write_setup(tmp_path, epochs=2)
    settings["data"]["test"] = str(tmp_path / "test")
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(settings))
    return str(tmp_path / "c.yaml")


def make(config: str, grid: list[str], seeds: int = 1) -> Sweep:
    folder, jobs = plan(config, (), parse_grid(grid), seeds, Path(config).parent / "sweep")
    return Sweep(config, folder, jobs, COMMAND)


def test_grids_are_read_and_combined(config: str) -> None:
    assert parse_grid(["training.adam_betas=[0.9,0.98],[0.8,0.9]"]) == [
        ("training.adam_betas", ["[0.9,0.98]", "[0.8,0.9]"])
    ]
    folder, jobs = plan(config, (), parse_grid(["training.epochs=1,2", "seed=5,6"]), 1, None)
    assert folder.name == "model" and [job.folder.name for job in jobs] == [
        "epochs=1,seed=5", "epochs=1,seed=6", "epochs=2,seed=5", "epochs=2,seed=6"]  # fmt: skip
    names = [job.folder.name for job in plan(config, (), parse_grid(["name=a b,a/b"]), 1, None)[1]]
    assert len(set(names)) == 2 and not any("/" in name for name in names)
    for bad, message in (
        (["x"], "must be KEY.PATH=V1,V2"),
        (["seed=1,"], "must be KEY"),
        (["seed=1", "seed=2"], "once"),
    ):
        with pytest.raises(ConfigError, match=message):
            parse_grid(bad)
    with pytest.raises(ConfigError, match="did you mean"):
        make(config, ["training.epoch=1,2"])
    with pytest.raises(ConfigError, match="leave one out"):
        make(config, ["seed=1,2"], seeds=2)


def test_two_texts_are_swept_as_a_config_is(tmp_path: Path) -> None:
    fake_model.write_setup(tmp_path)
    texts = Texts((str(tmp_path / "train.xx"), str(tmp_path / "train.yy")))
    said: list[str] = []
    chosen = settings_of(texts, None, tmp_path / "s", None, said.append)
    folder, jobs = plan(
        chosen.values, ("training.updates=20",), parse_grid(["training.learning_rate=0.3,0.1"]), 1, None
    )
    assert not folder.exists(), "the grid is checked before anything is written"
    path = chosen.write_for_sweep(folder, said.append)
    assert folder == tmp_path / "s" and len(jobs) == 2 and any("held out" in line for line in said)
    assert jobs[0].config["data"]["dev"] == str(tmp_path / "s" / "dev")
    sweep = Sweep(path, folder, jobs, COMMAND, ["--set", "training.updates=20"])
    assert sweep.run(1, said.append) is None
    assert all(job.result for job in jobs), [job.error for job in jobs]
    again = settings_of(texts, None, tmp_path / "s", None, said.append)
    again.write()
    assert again == chosen, "the same text is held out"


def test_a_sweep_runs_everything_once_and_goes_on(config: str) -> None:
    said: list[str] = []
    sweep = make(config, ["training.learning_rate=0.3,0.1"], seeds=2)
    assert sweep.run(2, said.append) is None
    assert all(job.result and not job.error for job in sweep.jobs), [job.error for job in sweep.jobs]
    assert sum("begun" in line for line in said) == 4
    table = summary(sweep.jobs).splitlines()
    assert len(table) == 3 and "test BLEU" in table[0] and "±" in table[1] and table[1].split()[1] == "2"
    rows = [line.split("\t") for line in (sweep.folder / "sweep.tsv").read_text().splitlines()]
    assert len(rows) == 5 and len({len(row) for row in rows}) == 1
    assert {json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])["event"] for folder in
            (job.folder for job in sweep.jobs)} == {"start"}  # fmt: skip
    wider = make(config, ["training.learning_rate=0.3,0.1,0.2"], seeds=2)
    said.clear()
    assert wider.run(1, said.append) is None
    assert said[0] == "sweep: 4 of 6 runs have ended before" and sum("begun" in line for line in said) == 2


SCORES = "import sys; print('warning: the text is odd', file=sys.stderr); print('best\\tlast\\tupdate 1\\tBLEU 3.0')"


def test_another_grid_in_the_folder_keeps_the_runs_of_the_first(config: str) -> None:
    """Also the minutes of a run are those of all its starts, and each warning is shown once."""

    def run(*grid: str) -> tuple[Sweep, list[str]]:
        said: list[str] = []
        sweep = make(config, list(grid))
        sweep.command = [sys.executable, "-c", SCORES]
        assert sweep.run(1, said.append) is None
        return sweep, said

    first, said = run("training.learning_rate=0.3,0.1")
    assert [line for line in said if "warning" in line] == ["sweep: learning_rate=0.3: warning: the text is odd"]
    record = json.loads((first.folder / "sweep.json").read_text())
    record["runs"]["learning_rate=0.1"] |= {"result": None, "minutes": 5.0}
    (first.folder / "sweep.json").write_text(json.dumps(record))
    run("training.epochs=3,4")
    rows = [line.split("\t") for line in (first.folder / "sweep.tsv").read_text().splitlines()]
    assert rows[0][:3] == ["run", "training.learning_rate", "training.epochs"]
    assert [row[0] for row in rows[1:]] == ["learning_rate=0.3", "learning_rate=0.1", "epochs=3", "epochs=4"]
    again, said = run("training.learning_rate=0.3,0.1")
    assert said[0] == "sweep: 1 of 2 runs have ended before" and again.jobs[1].result["minutes"] >= 5
    assert len(json.loads((first.folder / "sweep.json").read_text())["runs"]) == 4


def test_a_run_that_fails_ends_no_other(config: str) -> None:
    sweep = make(config, ["data.subwords.vocab_size=5,60"])
    sweep.jobs[0].folder.mkdir(parents=True)
    (sweep.jobs[0].folder / "last.safetensors").write_bytes(b"nothing")
    assert sweep.run(1, lambda text: None) is None
    assert "model_dir must be new" in sweep.jobs[0].error and sweep.jobs[1].result
    assert "failed: vocab_size=5" in summary(sweep.jobs)


def test_a_second_sweep_in_the_folder_is_refused(config: str) -> None:
    sweep = make(config, ["seed=1"])
    sweep.folder.mkdir()
    import os

    handle = os.open(sweep.folder, os.O_RDONLY)
    try:
        assert lock_alone(handle)
        with pytest.raises(CheckpointError, match="another sweep at work"):
            sweep.run(1, lambda text: None)
    finally:
        os.close(handle)


def test_a_signal_lets_runs_save_and_the_next_sweep_resumes(config: str, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from nmt.train.sweep import *\n"
        f"folder, jobs = plan({config!r}, (), [('training.epochs', ['2000'])], 1, Path({str(tmp_path / 'sweep')!r}))\n"
        f"print(Sweep({config!r}, folder, jobs, {COMMAND!r}).run(1, lambda text: None))"
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
    record = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    assert record["runs"]["epochs=2000"]["result"] is None


def test_only_combinations_have_to_be_possible_and_the_impossible_one_is_named(config: str) -> None:
    grid = parse_grid(["training.decay_length=1,2"])
    _, jobs = plan(config, ("training.scheduling=decaying",), grid, 2, None)
    assert [job.values["seed"] for job in jobs] == ["42", "43"] * 2
    with pytest.raises(ConfigError) as caught:
        plan(config, (), parse_grid(["training.scheduling=plateau,linear", "training.epochs=1,2"]), 1, None)
    line = str(caught.value)
    assert line.startswith("--grid: the combination training.scheduling=linear training.epochs=1 must be possible, got")
    assert "updates must be a number" in line and "\n" not in line


def test_examples_of_grids_are_settings() -> None:
    pages = [ROOT / "docs" / "comparing.md", ROOT / "nmt" / "cli" / "commands" / "sweep.py"]
    found = [words for page in pages for words in re.findall(r"^ *nmt-sweep (\S+\.yaml) (.*)$", page.read_text(), re.M)]
    assert len(found) == 4
    for path, options in found:
        grid = [option.split()[0] for option in options.split("--grid ")[1:]]
        assert plan(str(ROOT / path), (), parse_grid(grid), 1, None)[1]


def test_the_reason_is_the_error_whoever_writes_behind_it(tmp_path: Path) -> None:
    (tmp_path / "x.err").write_text("subwords\nError: model_dir must not be in use\nepoch 20  update 450  left 8s\n")
    assert _reason(tmp_path / "x.err") == "model_dir must not be in use"
    (tmp_path / "x.err").write_text("Traceback\nValueError: x\n")
    assert _reason(tmp_path / "x.err") == "ValueError: x"


def test_how_far_the_runs_are_is_shown(config: str) -> None:
    shown: list[str] = []
    sweep = make(config, ["training.epochs=2"])
    assert sweep.run(1, lambda text: None, shown.append) is None
    assert any(text.startswith("epochs=2: ") for text in shown)
    (sweep.folder / "epochs=2.err").write_text("old\nepoch 1  update 50\n")
    assert _last_words(sweep.folder / "epochs=2.err") == "epoch 1  update 50"
    assert _last_words(sweep.folder / "gone.err") == ""


@pytest.mark.skipif(sys.platform != "linux", reason="what becomes of children is the system's")
def test_a_sweep_that_is_killed_leaves_no_run_behind(config: str, tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from nmt.train.sweep import *\n"
        f"folder, jobs = plan({config!r}, (), [('training.epochs', ['200000'])], 1, Path({str(tmp_path / 'sweep')!r}))\n"  # noqa: E501
        f"Sweep({config!r}, folder, jobs, {COMMAND!r}).run(1, lambda text: None)"
    )
    folder = tmp_path / "sweep" / "epochs=200000"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        until = time.monotonic() + 300
        while not ((folder / "metrics.jsonl").exists() and '"train"' in (folder / "metrics.jsonl").read_text()):
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.05)
        process.kill()
    until = time.monotonic() + 300
    while "stopped at epoch" not in (folder / "train.log").read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert (folder / "last.safetensors").exists()
