"""Where commands read and write: pipes answered as lines come, outputs that are inputs, full and closed streams."""

import errno
import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from nmt.cli.lines.streams import output_lines
from tests.cli.conftest import Run
from tests.train import fake_model


def start(*arguments: str | Path, **options: object) -> "subprocess.Popen[bytes]":
    command = [sys.executable, fake_model.__file__, *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, bufsize=0, **{**pipes, **options})  # type: ignore[call-overload]


# Answers as lines come


@pytest.mark.parametrize("options", [[], ["--batch-size", "1"]])
def test_each_line_is_answered_before_the_next_is_written(options: list[str], model: Path) -> None:
    process = start("nmt-translate", model, *options)
    for number in (3, 4, 5):
        for piece in (b"w", b"%d" % number, b"\n"):
            process.stdin.write(piece)
            time.sleep(0.01)
        assert process.stdout.readline() == b"z%d\n" % number
    for number in (6, 7, 8):
        process.stdin.write(b"w%d\n" % number)
    assert [process.stdout.readline() for _ in range(3)] == [b"z6\n", b"z7\n", b"z8\n"]
    process.stdin.write(b"w9 w1")  # the last line has no end
    out, errors = process.communicate(timeout=30)
    assert (out, errors, process.returncode) == (b"z9 z1\n", b"", 0)


def test_each_pair_is_scored_before_the_next_is_written(model: Path, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("z1\nz2\nz3\n")
    process = start("nmt-score", model, "--src", "-", "--tgt", tmp_path / "t")
    for number in range(3):
        process.stdin.write(b"w%d\n" % (number + 1))
        assert process.stdout.readline().startswith(b"%d\t-0.5" % number)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors.count(b"\n")) == (0, 1)


def test_a_large_text_through_a_pipe(model: Path) -> None:
    text = b"".join(b"w%d\n" % (n % 20) for n in range(5000))
    process = start("nmt-translate", model, "--batch-size", "8")
    out, errors = process.communicate(text, timeout=60)
    assert (out, errors, process.returncode) == (text.replace(b"w", b"z"), b"", 0)


def test_fifos_and_descriptors_are_inputs(model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    process = start("nmt-translate", model, tmp_path / "fifo", "-o", "/dev/stdout")
    with (tmp_path / "fifo").open("wb") as pipe:
        pipe.write(b"w1\nw2")
    out, _ = process.communicate(timeout=30)
    assert (out, process.returncode) == (b"z1\nz2\n", 0)


# Outputs that are inputs

OVER = {
    "itself": ["{d}/in", "-o", "{d}/in"],
    "resumed": ["{d}/in", "-o", "{d}/in", "--resume"],
    "a link": ["{d}/in", "-o", "{d}/link"],
    "a hard link": ["{d}/hard", "-o", "{d}/in"],
    "beside": ["{d}/in", "--prefix", "{d}/p", "-o", "{d}/p"],
    "a list": ["{d}/in", "--forbid", "{d}/p", "-o", "{d}/p"],
    "two outputs": ["{d}/in", "-o", "{d}/p", "--alignments", "{d}/p"],
    "alignments": ["{d}/in", "--alignments", "{d}/in"],
    "a packed one": ["{d}/packed", "-o", "{d}/packed.gz"],
    "the model": ["{d}/in", "-o", "{model}/best.safetensors"],
}


@pytest.mark.parametrize("case", OVER)
def test_an_input_is_not_written_over(case: str, model: Path, run: Run, tmp_path: Path) -> None:
    for name in ("in", "p", "packed.gz"):
        (tmp_path / name).write_bytes(b"w1\n")
    (tmp_path / "link").symlink_to("in")
    os.link(tmp_path / "in", tmp_path / "hard")
    before = (model / "best.safetensors").read_bytes()
    result = run("nmt-translate", model, *(a.format(d=tmp_path, model=model) for a in OVER[case]), code=1)
    assert result.out == b"" and result.err.count("\n") == 1
    assert "must be a file of its own, got" in result.err
    assert (model / "best.safetensors").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["hard", "in", "link", "p", "packed.gz"]
    assert all((tmp_path / name).read_bytes() == b"w1\n" for name in ("in", "p", "packed.gz"))


def test_an_input_is_not_appended_to(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"w1\n")
    for source in (tmp_path / "in", "-"):
        with (tmp_path / "in").open("rb") as given, (tmp_path / "in").open("ab") as taken:
            process = start("nmt-translate", model, source, stdin=given, stdout=taken)
            _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors.count(b"\n")) == (1, 1)
        assert b"standard output: must be a file of its own, got that of INPUT" in errors
        assert (tmp_path / "in").read_bytes() == b"w1\n"


# Full and closed streams


def test_errors_that_are_not_of_the_output_are_not_blamed_on_it(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="of something else"), output_lines(str(tmp_path / "out")) as writer:
        writer.write("half")
        raise OSError(errno.ENOSPC, "of something else")
    assert os.listdir(tmp_path) == []


FULL_STDOUT = {
    "translate": ["nmt-translate", "{model}", "{setup}/dev.xx"],
    "evaluate": ["nmt-evaluate", "--hyp", "{setup}/dev.xx", "--ref", "{setup}/dev.yy"],
    "json": ["nmt-evaluate", "--hyp", "{setup}/dev.xx", "--ref", "{setup}/dev.yy", "--json"],
    "score": ["nmt-score", "{model}", "--src", "{setup}/dev.xx", "--tgt", "{setup}/dev.yy"],
    "help": ["nmt-translate", "--help"],
    "version": ["nmt-train", "--version"],
}


@pytest.mark.parametrize("case", FULL_STDOUT)
def test_a_full_standard_output_is_one_line(case: str, model: Path, setup: Path) -> None:
    with open("/dev/full", "wb") as full:
        process = start(*(a.format(model=model, setup=setup) for a in FULL_STDOUT[case]), stdout=full)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors.startswith(b"Error: standard output: must be writable, got no space left")
    assert errors.count(b"\n") == 1


def closed(redirection: str, *arguments: str | Path) -> "subprocess.CompletedProcess[bytes]":
    """A command as its entry point runs it, with a stream closed by the shell."""
    program = "from tests.train import fake_model; import sys; sys.modules.update(fake_model.modules()); "
    program += "from nmt.cli import entry; entry.translate()"
    words = [sys.executable, "-c", program, *map(str, arguments)]
    script = f'exec "$@" {redirection}'
    root = Path(__file__).parents[2]
    return subprocess.run(
        ["bash", "-c", script, "bash", *words], capture_output=True, timeout=60, check=False, cwd=root
    )


def test_closed_streams(model: Path, setup: Path, tmp_path: Path) -> None:
    whole = (setup / "dev.yy").read_bytes()
    done = closed("<&-", model)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"Error: standard input: must be open") and done.stderr.count(b"\n") == 1
    done = closed(">&-", model, setup / "dev.xx")
    assert done.returncode == 1
    assert done.stderr.startswith(b"Error: standard output: must be open") and done.stderr.count(b"\n") == 1
    done = closed("2>&-", model, setup / "dev.xx")
    assert (done.returncode, done.stdout, done.stderr) == (0, whole, b"")
    done = closed("<&- >&- 2>&-", model, setup / "dev.xx", "-o", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr, (tmp_path / "out").read_bytes()) == (0, b"", b"", whole)
    assert closed("2>&-", model, "nowhere").returncode == 1


def test_a_full_standard_error_changes_nothing(model: Path, setup: Path) -> None:
    whole = (setup / "dev.yy").read_bytes()
    with open("/dev/full", "wb") as full:
        process = start("nmt-evaluate", model, "--src", setup / "dev.xx", "--ref", setup / "dev.yy", stderr=full)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and b"BLEU" in out and whole


def test_a_reader_who_has_had_enough(model: Path, setup: Path) -> None:
    process = start("nmt-translate", model, setup / "train.xx", "--batch-size", "1")
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=30) == 141


def test_model(model: Path, setup: Path, run: Run, tmp_path: Path) -> None:
    result = run("nmt-evaluate", model, "--src", setup / "test.xx", "--ref", setup / "test.yy", "-o", tmp_path / "out")
    assert result.lines[0].split() == ["metric", "score", "signature"]
    assert [line.split()[:2] for line in result.lines[1:]] == [["BLEU", "100.00"], ["chrF2", "100.00"], ["TER", "0.00"]]
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
    assert "100.00" in result.lines[1], result.err
    refused = run("nmt-evaluate", "--hyp", table, "--ref", table, code=1)
    assert "must be a text with one sentence per line, got a table" in refused.err


def test_a_model_of_letters_is_scored_by_wrong_words(model: Path, setup: Path, run: Run, tmp_path: Path) -> None:
    letters = tmp_path / "letters"
    shutil.copytree(model, letters)
    config = letters / "config.yaml"
    config.write_text(config.read_text().replace("preset: null", "preset: character"))
    files = ["--src", setup / "test.xx", "--ref", setup / "test.yy"]
    result = run("nmt-evaluate", letters, *files)
    assert [line.split()[0] for line in result.lines[1:]] == ["WER", "PER", "accuracy", "chrF2"], result.err
    assert [line.split()[0] for line in run("nmt-evaluate", letters, *files, "--metric", "bleu").lines[1:]] == ["BLEU"]


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
    assert "not calibrated" not in result.err
    assert "kept in all: 100.0%" in result.out.decode() and "in the worse half by chrF" in result.lines[-1]
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    found = json.loads(run("nmt-evaluate", model, *files, "--json").out)["confidence"]
    assert found["kept"] == 1 and sum(one["lines"] for one in found["bins"]) == len(
        (setup / "test.xx").read_text().splitlines()
    )
    refused = run(
        "nmt-evaluate", "--hyp", setup / "test.yy", "--ref", setup / "test.yy", "--plot-confidence", "a.svg", code=2
    )
    assert "--plot-confidence is for MODEL" in refused.err
    (model / "confidence.safetensors").rename(tmp_path / "away")
    try:
        assert "is the mean probability of its subwords, not calibrated" in run("nmt-evaluate", model, *files).err
    finally:
        (tmp_path / "away").rename(model / "confidence.safetensors")


def test_columns_for_other_metrics(run: Run, texts: Path) -> None:
    files = ["--src", texts / "src", "--hyp", texts / "a", "--ref", texts / "ref", "--ref", texts / "b"]
    run("nmt-evaluate", *files, "--tsv", texts / "out.tsv")
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
