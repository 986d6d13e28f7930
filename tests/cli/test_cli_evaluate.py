"""nmt-evaluate: sacrebleu's figures for the right pair of texts, and it says what was compared."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_model(model: Path, setup: Path, run: Run, tmp_path: Path) -> None:
    files = ["--src", setup / "test.xx", "--ref", setup / "test.yy"]
    result = run("nmt-evaluate", model, *files, "-o", tmp_path / "out")
    assert result.code == 0, result.err
    assert result.lines[0].split() == ["metric", "score", "signature"]
    assert [line.split()[:2] for line in result.lines[1:]] == [
        ["BLEU", "100.00"],
        ["chrF2", "100.00"],
        ["TER", "0.00"],
    ]
    assert "references are compared with single spaces, in Unicode form NFC" in result.err
    assert (tmp_path / "out").read_text() == (setup / "test.yy").read_text()


def test_files_and_json(run: Run, tmp_path: Path) -> None:
    (tmp_path / "hyp").write_text("A small black cat sat down.\nyes\n")
    (tmp_path / "ref").write_text("a small black cat sat down .\nyes\n")
    files = ["--hyp", tmp_path / "hyp", "--ref", tmp_path / "ref", "--json"]
    cased = json.loads(run("nmt-evaluate", *files).out)
    assert cased["lines"] == 2
    assert cased["metrics"]["bleu"]["score"] < 99
    assert "case:mixed" in cased["metrics"]["bleu"]["signature"]
    lower = json.loads(run("nmt-evaluate", *files, "--lowercase").out)["metrics"]["bleu"]
    assert lower["score"] == pytest.approx(100)
    assert "case:lc" in lower["signature"]
    plain = json.loads(run("nmt-evaluate", *files, "--lowercase", "--tokenize", "none").out)
    assert plain["metrics"]["bleu"]["score"] < 99
    assert "tok:none" in plain["metrics"]["bleu"]["signature"]


MISTAKES = {
    "neither": ([], 2, "Give MODEL_DIR and --src"),
    "no source": (["{model}"], 2, "Give MODEL_DIR and --src"),
    "both": (["{model}", "--hyp", "x"], 2, "Give either"),
    "no file": (["--hyp", "nowhere"], 1, "nowhere: must be a text file"),
    "unequal": (["--hyp", "{setup}/train.yy"], 1, "must have as many lines, got 200 and 10"),
    "unequal source": (["{model}", "--src", "{setup}/train.xx"], 1, "got 200 and 10"),
    "tokenizer": (["--hyp", "x", "--tokenize", "13b"], 2, "13a"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str, model: Path, setup: Path, run: Run) -> None:
    options, code, message = MISTAKES[case]
    options = [option.format(model=model, setup=setup) for option in options]
    result = run("nmt-evaluate", *options, "--ref", setup / "test.yy")
    assert result.code == code, result.err
    assert message in result.err
    assert result.out == b""
    if code == 1:
        assert result.err.startswith("Error: ")
        assert result.err.count("\n") == 1
