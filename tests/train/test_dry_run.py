"""--plan, with the real model."""

import io
import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import nmt
from nmt.cli.commands.train import train
from nmt.config import Config, config_from_dict, dump_config
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.storage.model_folder import LAST_NAME, read_checkpoint
from nmt.train.planning import budget
from nmt.train.planning.dry_run import DryRun, cost_report
from nmt.train.run.trainer import Trainer
from nmt.train.tasks import task
from tests.small_models import DECODER, ENCODER
from tests.train import fake_model


@pytest.fixture(autouse=True)
def fake() -> None:
    """In the place of the one that puts the fake model into the real one's place."""


def settings(folder: Path, **training: object) -> Config:
    values = fake_model.write_setup(folder, **training)
    fake_model.write_corpus(folder, "train", 2000, 1)
    return config_from_dict({**values, "model": {"encoder": ENCODER, "decoder": DECODER}})


def dry_run(folder: Path, **training: object) -> DryRun:
    return DryRun(settings(folder, **training), 2, lambda text: None)


def test_a_plan_is_one_page_of_figures(tmp_path: Path) -> None:
    tried = dry_run(tmp_path, updates=1000, max_minutes=500, epochs=1000)
    page = cost_report(tried)
    assert len(page.splitlines()) < 60
    parts = [int(n.replace(",", "")) for n in re.findall(r"^  \D+0? +([\d,]+)$", page.split("\n\n")[0], re.M)]
    assert sum(parts[:-1]) == parts[-1] == tried.model.num_params
    for text in ("largest batch", "measured peak", "target tokens/s", "one epoch"):
        assert text in page
    assert page.count("training stops here") == 1
    assert re.search(r"1,000 updates \(training.updates\) +\S+  training stops here", page)


def test_the_command_writes_to_standard_output_alone(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(dump_config(settings(tmp_path)))
    before = sorted(path.name for path in tmp_path.iterdir())
    result = CliRunner().invoke(train, [str(tmp_path / "c.yaml"), "--plan"])
    assert result.exit_code == 0, result.output
    assert "measured peak" in result.stdout
    assert "subwords: reading the training text" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before, "no folder is made"


def test_a_trial_reads_a_run_and_leaves_it_as_it_is(tmp_path: Path) -> None:
    Trainer(settings(tmp_path, updates=2)).run()
    folder = tmp_path / "model"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    said: list[str] = []
    DryRun(settings(tmp_path), 1, said.append).measure(1, warm_up=0)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not any("subwords" in line for line in said), "those of the folder are used"


def test_a_run_with_a_budget_reads_the_text_and_learns_from_it_once(tmp_path, monkeypatch):
    """By a clock on which all takes a fiftieth of a second a look, whatever else the machine does."""
    now = itertools.count(0, 0.02)
    monkeypatch.setattr(budget, "_LEAST_SECONDS", 0.5)
    for clock in ("monotonic", "perf_counter"):
        monkeypatch.setattr(budget.time, clock, lambda: next(now))
    read: list[str] = []
    load = task.load_parallel
    monkeypatch.setattr(
        task, "load_parallel", lambda train, *a, **b: (read.append(str(train)), load(train, *a, **b))[1]
    )
    shown = io.StringIO()
    nmt.train(settings(tmp_path, guided_alignment=0.5), budget="10s", progress=shown)
    assert shown.getvalue().count("alignment: learned") == 1
    assert len(read) == len(set(read)) == 2, "train and dev"


def test_a_run_after_a_trial_gets_the_same_weights(tmp_path: Path) -> None:
    changes = {"updates": 12, "guided_alignment": 0.5}
    for name in "ab":
        (tmp_path / name).mkdir()
    Trainer(settings(tmp_path / "a", **changes)).run()
    tried = DryRun(settings(tmp_path / "b", **changes), 1, lambda text: None, keep=True)
    tried.measure(3, warm_up=1)
    Trainer(settings(tmp_path / "b", **changes), tried=tried.task).run()
    one, other = (read_checkpoint(tmp_path / name / "model" / LAST_NAME)[0] for name in "ab")
    assert one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


def test_the_median_knows_nothing_of_an_update_that_was_slow(tmp_path, monkeypatch):
    """One in which code is compiled, say, takes as long as many others."""
    tried, now = dry_run(tmp_path), [0.0]

    def update(batches):
        now[0] += 100.0 if now[0] == 2.0 else 1.0

    monkeypatch.setattr(tried, "_update", update)
    monkeypatch.setattr("nmt.train.planning.dry_run.time.perf_counter", lambda: now[0])
    timing = tried.measure(5, warm_up=1)
    assert (timing.median, timing.seconds) == (1.0, 104.0)


@pytest.mark.parametrize("has_amx", [False, True])
def test_the_plan_says_where_bfloat16_is_faster(tmp_path, monkeypatch, has_amx):
    monkeypatch.setattr("nmt.train.planning.dry_run.TARGET", replace(TARGET, has_amx=has_amx))
    assert ("compute_dtype: bfloat16" in cost_report(dry_run(tmp_path))) == has_amx
