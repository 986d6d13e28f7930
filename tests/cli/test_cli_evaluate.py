"""nmt-evaluate: sacrebleu's figures for the right pair of texts, and it says what was compared."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
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
    assert "note: references are read with single spaces, in Unicode form NFC" in result.err
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


def test_a_table_has_the_source_in_its_first_column_and_the_reference_in_its_second(
    model: Path, setup: Path, run: Run, tmp_path: Path
) -> None:
    sides = [(setup / name).read_text().splitlines() for name in ("test.xx", "test.yy")]
    table = tmp_path / "test.tsv.gz"
    with gzip.open(table, "wt") as file:
        file.writelines(f"{src}\t{ref}\n" for src, ref in zip(*sides, strict=True))
    result = run("nmt-evaluate", model, "--src", table, "--ref", table)
    assert result.code == 0 and "100.00" in result.lines[1], result.err
    refused = run("nmt-evaluate", "--hyp", table, "--ref", table)
    assert refused.code == 1 and "must be a text with one sentence per line, got a table" in refused.err


def test_a_model_of_letters_is_scored_by_wrong_words(model: Path, setup: Path, run: Run, tmp_path: Path) -> None:
    letters = tmp_path / "letters"
    shutil.copytree(model, letters)
    config = letters / "config.yaml"
    config.write_text(config.read_text().replace("preset: null", "preset: character"))
    files = ["--src", setup / "test.xx", "--ref", setup / "test.yy"]
    result = run("nmt-evaluate", letters, *files)
    assert [line.split()[0] for line in result.lines[1:]] == ["WER", "PER", "accuracy", "chrF2"], result.err
    given = run("nmt-evaluate", letters, *files, "--metric", "bleu")
    assert [line.split()[0] for line in given.lines[1:]] == ["BLEU"]


MISTAKES = {
    "neither": ([], 2, "Give MODEL and --src"),
    "no source": (["{model}"], 2, "Give MODEL and --src"),
    "both": (["{model}", "--hyp", "x"], 2, "Give either"),
    "no file": (["--hyp", "nowhere"], 1, "nowhere: no such file"),
    "unequal": (["--hyp", "{setup}/train.yy"], 1, "must have the same number of lines, got 10 and 200"),
    "unequal source": (["{model}", "--src", "{setup}/train.xx"], 1, "got 200 and 10"),
    "tokenizer": (["--hyp", "x", "--tokenize", "13b"], 2, "13a"),
    "metric": (["--hyp", "x", "--metric", "bleu,rouge"], 2, "is none of bleu, chrf"),
    "comet": (["--hyp", "x", "--metric", "bleu,comet"], 2, "by comet-score: docs/comparing.md"),
    "compare": (["--compare", "a", "b"], 2, "sacrebleu REF -i A B"),
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


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Return a folder with `ref`, and `a` and `b`, of which `b` is better."""
    lines = [f"The dog number {number} sees a small house in the street." for number in range(40)]
    (tmp_path / "ref").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "a").write_text("".join(f"{line.replace('small house', 'old tree')}\n" for line in lines))
    (tmp_path / "b").write_text("".join(f"{line}\n" if number % 2 else "Dogs.\n" for number, line in enumerate(lines)))
    (tmp_path / "src").write_text("".join(f"Hund\t{number}\n" for number in range(40)))
    return tmp_path


def test_intervals_metrics_and_several_references(run: Run, texts: Path) -> None:
    files = ["--hyp", texts / "a", "--ref", texts / "ref", "--ref", texts / "b"]
    result = run("nmt-evaluate", *files, "--metric", "chrf++,bleu", "--confidence")
    assert result.code == 0, result.err
    assert result.lines[0].split() == ["metric", "score", "95", "%", "±", "signature"]
    assert [line.split()[0] for line in result.lines[1:]] == ["chrF2++", "BLEU"]
    assert "nrefs:2|bs:1000" in result.lines[2]
    words = run("nmt-evaluate", "--hyp", texts / "b", "--ref", texts / "ref", "--metric", "wer,per,accuracy", "--json")
    scores = json.loads(words.out)["metrics"]
    assert (scores["wer"]["score"], scores["accuracy"]["score"]) == (50, 50) and 0 < scores["per"]["score"] < 60


def test_confidence_of_a_model_is_compared_with_what_is_kept(
    model: Path, setup: Path, run: Run, tmp_path: Path
) -> None:
    files = ["--src", setup / "test.xx", "--ref", setup / "test.yy", "--confidence", "--metric", "bleu"]
    result = run("nmt-evaluate", model, *files, "--plot-confidence", tmp_path / "a.svg")
    assert result.code == 0 and "not calibrated" not in result.err
    assert "kept in all: 100.0%" in result.out.decode() and "in the worse half by chrF" in result.lines[-1]
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    found = json.loads(run("nmt-evaluate", model, *files, "--json").out)["confidence"]
    assert found["kept"] == 1 and sum(one["lines"] for one in found["bins"]) == json_lines(setup / "test.xx")
    refused = run("nmt-evaluate", "--hyp", setup / "test.yy", "--ref", setup / "test.yy", "--plot-confidence", "a.svg")
    assert refused.code == 2 and "--plot-confidence is for MODEL" in refused.err
    (model / "confidence.safetensors").rename(tmp_path / "away")
    try:
        without = run("nmt-evaluate", model, *files)
        assert without.code == 0 and "is the mean probability of its subwords, not calibrated" in without.err
    finally:
        (tmp_path / "away").rename(model / "confidence.safetensors")


def json_lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_columns_for_other_metrics(run: Run, texts: Path) -> None:
    files = ["--src", texts / "src", "--hyp", texts / "a", "--ref", texts / "ref", "--ref", texts / "b"]
    result = run("nmt-evaluate", *files, "--tsv", texts / "out.tsv")
    assert result.code == 0, result.err
    rows = [line.split("\t") for line in (texts / "out.tsv").read_text().splitlines()]
    assert rows[0] == ["src", "mt", "ref", "ref2"] and len(rows) == 41
    assert rows[1][0] == "Hund 0" and {len(row) for row in rows} == {4}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--ref", "{ref}", "--tokenize", "flores200"], "the tokenizer flores200 must be downloaded by sacrebleu once"),
        (["--ref", "{ref}", "--tokenize", "ko-mecab"], "in the checkout of nmt run pip install -e '.[ko]'"),
    ],
)
def test_what_is_not_there_is_one_line(options: list[str], expected: str, tmp_path: Path) -> None:
    if "ko-mecab" in options and find_spec("mecab_ko"):
        pytest.skip("the extra [ko] is installed")
    (tmp_path / "hyp").write_text("a\n")
    (tmp_path / "ref").write_text("a\n")
    given = [option.format(ref=tmp_path / "ref") for option in options]
    env = os.environ | {
        "SACREBLEU": str(tmp_path),
        **dict.fromkeys(("https_proxy", "http_proxy"), "http://127.0.0.1:9"),
    }
    command = [sys.executable, "-c", "from nmt.cli.entry import evaluate; evaluate()", "--hyp", str(tmp_path / "hyp")]
    found = subprocess.run([*command, *given], env=env, capture_output=True, text=True, timeout=300)
    assert found.returncode == 1 and found.stdout == ""
    (line,) = [line for line in found.stderr.splitlines() if not line.startswith("sacreBLEU: ")]
    assert "Errno" not in line
    assert line.startswith("Error: ") and expected in line
