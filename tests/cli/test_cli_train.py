"""nmt-train: results on standard output, the rest on standard error, and mistakes in one line."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Result, Run
from tests.train import fake_model


def test_output_is_results_only(trained: Result, setup: Path) -> None:
    assert trained.code == 0, trained.err
    best, *test = trained.lines
    assert best.startswith(f"best\t{setup / 'model' / 'best.safetensors'}\tupdate ")
    assert [line.split("\t")[:2] for line in test] == [
        ["test", "BLEU"],
        ["test", "chrF2"],
        ["test", "TER"],
    ]
    assert "epoch   1" in trained.err
    assert "\r" not in trained.err, "no live line without a terminal"


def test_overrides_seed_and_threads(setup: Path, run: Run, tmp_path: Path) -> None:
    options = ["--set", f"model_dir={tmp_path / 'm'}", "--set", "training.updates=2"]
    result = run("nmt-train", setup / "c.yaml", *options, "--seed", "7", "--threads", "2")
    assert result.code == 0, result.err
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
    assert result.code == 0, result.err
    assert "subwords: bpe, a vocabulary of" in result.err
    assert "auto: updates 50, learning_rate_warmup 3, validation_freq 25; 1 update per epoch" in result.err
    assert result.lines[0].startswith(f"best\t{tmp_path}/m/best.safetensors\tupdate ")


MISTAKES = {
    "no config": (["nowhere.yaml"], 1, "nowhere.yaml"),
    "unknown key": (["--set", "training.epoch=3"], 1, "did you mean training.epochs?"),
    "wrong value": (["--set", "training.optimizer=adm"], 1, "did you mean adam"),
    "missing file": (["--set", "data.dev=nowhere"], 1, "nowhere.xx"),
    "unequal lines": (["--set", "data.dev={folder}/unequal"], 1, "the same number of lines"),
    "not UTF-8": (["--set", "data.dev={folder}/latin"], 1, "latin.xx: line 1 must be UTF-8"),
    "empty corpus": (["--set", "data.train={folder}/empty"], 1, "got none"),
    "vocabulary": (["--set", "data.subwords.type=unigram"], 1, "vocab_size must be at most"),
    "binding": (["--set", "model.encoder.num_layers=2"], 1, "num_layers must stay 1"),
    "option": (["--sed", "3"], 2, "Did you mean"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_one_line(case: str, model: Path, setup: Path, run: Run, tmp_path: Path) -> None:
    options, code, message = MISTAKES[case]
    contents = {
        "unequal": (b"a\nb\n", b"a\n"),
        "latin": ("é\n".encode("latin-1"), b"a\n"),
        "empty": (b"", b""),
    }
    for prefix, sides in contents.items():
        for lang, content in zip(("xx", "yy"), sides, strict=True):
            (tmp_path / f"{prefix}.{lang}").write_bytes(content)
    options = [option.format(folder=tmp_path) for option in options]
    config = [] if case == "no config" else [setup / "c.yaml"]
    if case not in ("binding", "option"):
        options += ["--set", f"model_dir={tmp_path / 'm'}"]
    result = run("nmt-train", *config, *options)
    assert result.code == code, result.err
    assert message in result.err
    assert result.out == b""
    assert "Traceback" not in result.err
    if code == 1:
        errors = [line for line in result.err.splitlines() if line.startswith("Error: ")]
        assert result.err.splitlines()[-1:] == errors


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
        [*command, "--set", f"model_dir={tmp_path}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert "finished: 4 epochs" in (tmp_path / "train.log").read_text()
