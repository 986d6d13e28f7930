"""nmt-train --check-data: results on standard output, nothing on disk, exit code 1 where training cannot work; and the
same look before the first update."""

import json
from pathlib import Path

import yaml

from tests.cli.conftest import Run
from tests.train import fake_model


def write(folder: Path) -> Path:
    settings = fake_model.write_setup(folder)
    settings["data"]["test"] = str(folder / "test")
    (folder / "c.yaml").write_text(yaml.safe_dump(settings))
    return folder / "c.yaml"


def change(folder: Path, line: int, src: str) -> None:
    lines = (folder / "train.xx").read_text().split("\n")
    lines[line - 1] = src
    (folder / "train.xx").write_text("\n".join(lines))


def test_a_page_and_json(run: Run, tmp_path: Path) -> None:
    config = write(tmp_path)
    change(tmp_path, 17, "w1 <br> w2")
    page = run("nmt-train", config, "--check-data")
    assert page.code == 0, page.err
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
    page = run("nmt-train", config, "--check-data")
    assert page.code == 1 and "error: " in page.out.decode() and "got 201 and 200" in page.out.decode()
    refused = run("nmt-train", config)
    assert refused.code == 1 and refused.err.count("\n") == 1 and "got 201 and 200" in refused.err


def test_a_run_tells_each_warning_once_and_keeps_them(run: Run, tmp_path: Path) -> None:
    config = write(tmp_path)
    change(tmp_path, 17, "w1 <br> w2")
    done = run("nmt-train", config)
    assert done.code == 0, done.err
    assert done.err.count("contain tags or entities") == 1 and "(line 17)" in done.err
    kept = json.loads((tmp_path / "model" / "data_check.json").read_text())
    assert "markup" in {one["name"] for one in kept["findings"]}
    again = run("nmt-train", config, "--set", "training.epochs=5")
    assert "resuming from" in again.err and "contain tags" not in again.err
    settings = ["data.check=false", f"model_dir={tmp_path / 'other'}", "data.filter.markup=true"]
    silent = run("nmt-train", config, *(word for setting in settings for word in ("--set", setting)))
    assert silent.code == 0 and "contain tags" not in silent.err
    assert "removed by data.filter: 1 markup" in silent.err


def test_json_goes_with_check_data(run: Run, tmp_path: Path) -> None:
    assert run("nmt-train", write(tmp_path), "--json").code == 2
