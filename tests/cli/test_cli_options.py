"""Options that are given twice, that do nothing, or that do not go together; and what a newcomer types."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import chdir
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest
from click.testing import CliRunner

from nmt.cli.commands.bundle import bundle
from nmt.cli.commands.evaluate import evaluate
from nmt.cli.commands.export import export
from nmt.cli.commands.pages.report import report
from nmt.cli.commands.quantize import quantize
from nmt.cli.commands.shortlist import shortlist
from nmt.cli.commands.translate import translate
from nmt.cli.front import front
from nmt.cli.lines.resume import RECORD_SUFFIX, continued_lines
from nmt.cli.lines.streams import phrase_pairs
from nmt.cli.options.command import Command
from nmt.cli.options.foreign_options import resolved
from nmt.errors import DataError
from nmt.inference.translator import Translator
from nmt.storage.tensor_file import map_tensors, write_tensors
from nmt.system.lines import Lines
from tests.cli.conftest import Run
from tests.saved_models import write_folder
from tests.train import fake_model


def call(place, command, *words, code=0):
    with chdir(place):
        result = CliRunner().invoke(command, words)
    assert code in (None, result.exit_code), (result.output, result.exception)
    return result


@pytest.mark.parametrize("dash", ["-", "—", "–", "—-"])
def test_long_options_may_have_another_dash(dash):
    name = "beam_size" if dash == "-" else "beam-size"
    expected = ["--beam-size=3", f"{dash}no-such", "—"]
    assert resolved([f"{dash}{name}=3", f"{dash}no-such", "—"], {"--beam-size"}) == expected


@pytest.mark.parametrize(
    ("command", "words", "needed"),
    [
        (translate, ["model", "text", "--column", "x"], "--column changes nothing without a table"),
        (translate, ["model", "text", "--output-column", "x"], "--output-column changes nothing without a table"),
        (translate, ["model", "text", "--alignment-type", "soft"], "--alignment-type changes nothing without --ali"),
        (translate, ["model", "text", "--split"], "--split changes nothing without --format"),
        (translate, ["model", "text", "--ensemble-average", "prob"], "changes nothing without --ensemble"),
        (translate, ["model", "text", "--seed", "5"], "--seed changes nothing without --sampling\n"),
        (translate, ["model", "text", "--sampling-temperature", "0.5"], "changes nothing without --sampling\n"),
        (translate, ["model", "text", "--mbr-samples", "5", "--mbr", "chrf"], "without --mbr and --sampling\n"),
        (translate, ["model", "text", "--glossary-bonus", "2"], "--glossary-bonus changes nothing without --glossary"),
        (evaluate, ["--hyp", "text", "--ref", "text", "--beam-size", "3"], "--beam-size changes nothing without MODEL"),
    ],
)
def test_an_option_that_does_nothing_is_told(command, words, needed, place):
    told = call(place, command, *words).stderr
    assert needed in told and told.startswith("warning: ")


def test_defaults_are_told_of_nobody(place):
    for words in ([], ["--seed", "5", "--sampling"]):
        assert "changes nothing" not in call(place, translate, "model", "text", *words).stderr
    assert "changes nothing" not in call(place, evaluate, "--hyp", "text", "--ref", "text").stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("translate modle text", "modle: no such folder; did you mean model?"),
        ("translate nowhere/none text", "nowhere/none: no such folder; there is no folder nowhere"),
        ("translate mine text", "mine: no such folder; did you mean runs/mine?"),
        ("quantize mine -o new", "mine: no such folder; did you mean runs/mine?"),
        ("translate model text --then run/mine", "run/mine: no such folder; did you mean runs/mine?"),
        ("translate runs/model text", "runs/model: no such folder; did you mean model?"),
        ("train data", "data is a folder with pairs.tsv; give data/pairs.tsv. See"),
        ("train two -o new", "two is a folder with train.de and train.en; give two/train.de two/train.en, the source"),
        (
            "train text two -o new",
            "two: must be a text file, got a folder; name one in it, as two/dev.de or two/dev.en",
        ),
        (
            "train my words.tsv -o new",
            "a path with spaces stands in quotation marks: front train 'my words.tsv' -o new",
        ),
        ("score model --src text --tgt my words.tsv", "front score model --src text --tgt 'my words.tsv'"),
        ("translate empty text", "got one without config.yaml; did you mean runs/empty?"),
        ("translate . text", "got one without config.yaml; did you mean model?"),
        ("translate model txet", "txet: no such file, nor txet.gz or txet.zst; did you mean text?"),
        ("translate model text -o new/out", "new/out: no such folder new; make it, or choose another place"),
        ("translate model text --device gpu", "'gpu' is not one of 'cpu', 'cuda', 'auto'; did you mean cuda?"),
        ("train model", "model: must be a file of settings, got a folder; did you mean model/config.yaml?"),
        ("train text text2 -o new --set training.updatse=3", "did you mean training.updates?"),
        ("train new.yaml text -o new", "new.yaml goes alone: a config names its own files in data.train"),
        ("translate https://x.org/m.nmt text", "m.nmt: must be on this machine, got an address; download it first"),
        ("evaluate --hyp text2 --ref text", "text, text2: must have the same number of lines, got 3 and 2; line n"),
        ("average model.nmt --last 2 -o new", "model.nmt: must be a folder that nmt-train wrote, got a file"),
        ("import model -o new", "model: must be a model of another system, got one of nmt; use it as it is"),
        ("sweep my.tsv", "that cannot start any token; nmt-train takes such a table"),
        ("sweep none.yaml --grid training.updates=1,2", "Error: none.yaml: no such file"),
        ("translate model text --output-format text --scores", "--scores needs --output-format tsv or json"),
        ("translate model text --format html --n-best 3", "--format html goes without --n-best"),
        ("translate model text -o text2 --alignments text2", "must be a file of its own, got that of -o"),
        ("translate model text out.de", "2 files to translate need -o"),
        ("translate model a.txt --shard 1/2", "need -o"),
        ("translate model - -o out --shard 1/2", "not standard input"),
        ("translate model a.txt -o out --shard 3/2", "must be I/N with I from 1 to N"),
        ("translate model a.txt b.txt -o out --n-best 2", "--n-best is for lines of one text"),
        ("translate model a.txt none.txt -o out", "none.txt: no such file or folder"),
        ("translate model a.txt b.txt -o out --output-column text", "must be another column"),
        ("translate model a.txt a.txt -o out", "must have a name of its own"),
        ("translate model a.txt b.txt -o .", "must be a file of its own"),
        ("translate model a.txt b.txt -o b.txt", "must be a folder, got a file"),
        ("translate model b.parquet -o out", "must be a Parquet file"),
        ("translate model void -o out", "must contain files to translate, got none"),
        ("translate model . -o out --format html", "--format html is for one document"),
        ("translate model a.txt b.txt -o out --format html", "--format html is for one document"),
        ("translate model a.jsonl -o out --format html", "--format html is for one document"),
        ("translate model a.jsonl -o out.parquet", "got jsonl in a file for parquet"),
        ("translate model a.jsonl -o out.parquet.gz", "got jsonl in a file for parquet"),
        ("backtranslate model none -o b", "none: no such file"),
        ("backtranslate model a.yy -o a", "a.yy"),
        ("backtranslate no a.yy -o b", "no"),
        ("translate model --dictionary x", "--dictionary needs --replace-unk"),
        ("translate model text -o x --output y", "--output must be given once, got it twice"),
        ("evaluate --hyp text --hyp text --ref text", "--hyp must be given once, got it twice"),
        ("evaluate --hyp text --ref text --metric bleu --metric chrf", "--metric must be given once, got it twice"),
        ("score model --tgt text", "Missing option '--src'"),
        ("average model --last 2 --best 2 -o x", "Give one of"),
        ("average model --last 2 -o x", "must contain 2 checkpoints"),
        ("average model/x --last 2 -o x", "no such folder"),
        ("bundle model -o x.bin", "must end in .nmt"),
        ("bundle model/nothing -o x.nmt", "no such folder"),
        ("bundle model -o model/no/folder/x.nmt", "x.nmt: no such folder"),
        ("shortlist model --src x", "Give --src with --tgt"),
        ("cache clear model", "nmt-cache clear: must have no model, got model; only fill takes some"),
        ("cache list model", "nmt-cache list: must have no model, got model"),
        ("cache fill missing", "missing: no such folder"),
        ("cache list --compute-dtype int8", "--compute-dtype changes nothing without the models of fill"),
        ("bundle model new.nmt", "-o FILE.nmt names the output, got new.nmt without an option"),
        ("bundle model -o a.nmt --card", "a.md: must be a new file, got one that is there"),
        ("score model --src a.txt --tgt b.txt -o a.txt", "must be a file of its own, got that of --src"),
        ("evaluate model --src a.txt --ref b.txt -o a.txt", "must be a file of its own, got that of --src"),
        ("translate model a.jsonl -o o.jsonl --column x", "error in all 2, in the first one: must have 'x', got text;"),
        ("train text text2 -o new --show-config --plan", "Give one of --show-config and --plan."),
        ("train text text2 -o new --preset huge", "must be one of tiny, low-resource, character, edits, captions"),
        ("train c.yaml training.updates=3", "write --set training.updates=3"),
        ("train two/train -o new", "two/train.de and two/train.en; name both"),
        ("train - text -o new", "got standard input, which is read once"),
        ("train text text -o new", "must be two files, source and target"),
        ("train text text2 -o new --set device=gpu", "did you mean cuda?"),
        ("quantize model small", "-o DIR names the output, got small"),
        ("evaluate model x.de x.en", "--src FILE and --ref FILE name the files, got x.de x.en"),
        ("score model x.de x.en", "--src FILE and --tgt FILE name the files, got x.de x.en"),
        ("bundle model -o m.nmt", "m.nmt: must be a new file, got one that is there; remove it"),
        ("quantize model -o m.nmt", "m.nmt: must be a new folder, got a file; choose"),
        ("quantize model -o two", "two: must be a new folder, got a folder that is not empty"),
        ("average model --checkpoint best -o two", "two: must be a new folder, got a folder that is not empty"),
    ],
)
def test_a_mistake_is_answered_in_one_line_by_what_was_meant(words, told, place):
    if "b.parquet" in words:
        pytest.importorskip("pyarrow")
    for name in ("text2", "a.txt", "b.txt", "a.yy", "m.nmt", "a.md"):
        (place / name).write_text("a\nb\n")
    for name, text in {"my.tsv": "\ta\n", "a.jsonl": '{"text": "a"}\n' * 2, "b.parquet": "PAR0"}.items():
        (place / name).write_text(text)
    (place / "void").mkdir(exist_ok=True)
    files = "empty/a/b runs/mine/a runs/empty/config.yaml data/pairs.tsv two/dev.de two/dev.en two/train.de"
    for name in (*files.split(), "two/train.en", "model.nmt", "my words.tsv"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).touch()
    before = {path: path.is_file() and path.read_bytes() for path in place.rglob("*")}
    result = call(place, front, *words.split(), code=None)
    assert told in result.stderr.replace(os.sep, "/") and result.stderr.count("\n") == 1
    assert result.stderr.startswith("Error: ")
    assert result.exit_code == 1 + result.stderr.endswith(" --help.\n") and result.stdout == ""
    assert before == {path: path.is_file() and path.read_bytes() for path in place.rglob("*")}


def test_a_model_in_int8_is_not_quantised_again(place, tmp_path):
    call(place, quantize, "model", "-o", str(tmp_path / "q"))
    result = call(place, quantize, str(tmp_path / "q"), "-o", str(tmp_path / "r"), code=1)
    assert "must be a model in float32, got one in int8" in result.stderr and not (tmp_path / "r").exists()


def test_the_ensemble_names_the_model_as_it_was_given(place, tmp_path):
    write_folder(tmp_path / "moved_from", vocab_size=40)
    (tmp_path / "moved_from").rename(tmp_path / "moved_to")
    one, other = Translator.load(place / "model"), Translator.load(tmp_path / "moved_to")
    with pytest.raises(Exception, match="moved_to: must have the subwords"):
        one.together_with([other], "prob")


def test_a_model_of_edits_and_one_of_tokens_are_no_ensemble(place, tmp_path):
    write_folder(tmp_path / "edits", decoder={"edit_actions": True, "attention": "none", "input_feeding": False})
    for first, other in (("model", tmp_path / "edits"), (tmp_path / "edits", "model")):
        result = call(place, translate, str(first), "text", "-o", "out", "--ensemble", str(other), code=1)
        assert "model.decoder.edit_actions must be as in the first model of the ensemble" in result.stderr
        assert result.stderr.count("\n") == 1


def test_names_that_are_not_utf_8_come_through(place, tmp_path):
    card = call(place, bundle, "model", "-o", str(tmp_path / "b\udcff.nmt"), "--card")
    assert (tmp_path / "b\udcff.md").is_file() and card.exit_code == 0
    write_folder(tmp_path / "m").rename(tmp_path / "mo\udcff")
    (tmp_path / "mo\udcff" / "metrics.jsonl").write_text('{"event": "train", "update": "x", "elapsed": [1]}\n')
    call(place, report, str(tmp_path / "mo\udcff"), "-o", str(tmp_path / "r.html"), "--attention", "0")
    assert "mo\\ufffd" in (tmp_path / "r.html").read_text("utf-8")


@pytest.mark.parametrize("name", ["model/config.yaml", "model/best.safetensors", "mine.yaml"])
def test_a_report_is_not_written_over_what_is_no_page(name, place):
    (place / "mine.yaml").write_text("model_dir: x\n")
    before = (place / name).read_bytes()
    (place / "model" / "metrics.jsonl").write_text('{"event": "start"}\n')
    call(place, report, "model", "-o", name, code=1)
    call(place, export, "model", "--to", "web", "-o", name, code=1)
    assert (place / name).read_bytes() == before
    call(place, report, "model", "-o", "page.html", "--attention", "0")
    call(place, report, "model", "-o", "page.html", "--attention", "0")


def test_the_front_alone_writes_its_list_to_standard_output():
    result = CliRunner().invoke(front, [])
    assert result.exit_code == 0 and "translate" in result.stdout and not result.stderr


@pytest.mark.parametrize("number", [errno.ENAMETOOLONG, errno.EACCES, errno.EMFILE])
def test_what_the_system_refuses_is_one_line_and_a_bug_keeps_its_traceback(number):
    @click.command(cls=Command)
    def refused():
        raise OSError(number, os.strerror(number), "a\nb")

    @click.command(cls=Command)
    def wrong():
        raise FileNotFoundError(errno.ENOENT, "a bug")

    result = CliRunner().invoke(refused, [])
    assert result.exit_code == 1 and result.stderr.startswith("Error: a\\nb: must be usable, got")
    assert result.stderr.count("\n") == 1
    assert isinstance(CliRunner().invoke(wrong, []).exception, FileNotFoundError)


def test_a_thread_that_the_system_does_not_give_is_one_line():
    @click.command(cls=Command)
    @click.option("--text")
    def started(text):
        raise RuntimeError(text)

    lacking = "Error: threads: the system must give one more, got none"
    for text, told in (("can't start new thread", lacking), ("a", "")):
        result = CliRunner().invoke(started, ["--text", text])
        assert result.stderr.startswith(told)
        assert isinstance(result.exception, SystemExit if told else RuntimeError)


def test_json_lines(model: Path, run: Run) -> None:
    result = run("nmt-translate", model, "--output-format", "json", "--n-best", "2", stdin=b"w1 w2\n\nw3\n")
    records = [json.loads(line) for line in result.lines]
    assert [record["line"] for record in records] == [0, 1, 2]
    assert records[0]["source"] == "w1 w2"
    best, second = records[0]["translations"]
    assert best["text"] == "z1 z2" and second["text"] == "z1"
    assert best["tokens"] == ["▁z1", "▁z2", "</s>"]
    assert best["token_log_probs"] == [-0.25] * 3
    assert best["alignment"] == [[0, 0], [1, 1]]
    assert best["warnings"] == [] and second["warnings"] == []
    (blank,) = records[1]["translations"]  # it has the same fields as all others
    assert blank.keys() == best.keys() and blank["text"] == "" and blank["score"] == blank["log_prob"] == 0.0
    assert blank["tokens"] == blank["token_log_probs"] == blank["alignment"] == blank["warnings"] == []


def test_alignments_and_pictures(model: Path, run: Run, tmp_path: Path) -> None:
    options = ["--alignments", tmp_path / "a", "--plot-attention", tmp_path / "plots"]
    run("nmt-translate", model, *options, stdin=b"w1 w2\n\nw3 <&>\n")
    assert (tmp_path / "a").read_text().split("\n") == ["0-0 1-1", "", "0-0 1-1", ""]
    assert sorted(os.listdir(tmp_path / "plots")) == ["0.svg", "2.svg"]
    tree = ElementTree.parse(tmp_path / "plots" / "0.svg")  # noqa: S314 - we wrote it
    assert [e.text for e in tree.iter() if e.tag.endswith("text")] == ["▁w1", "▁w2", "</s>", "▁z1", "▁z2", "</s>"]


def test_files_beside_the_input_must_have_as_many_lines(model: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "p").write_text("z1\n")
    result = run("nmt-translate", model, "--prefix", tmp_path / "p", stdin=b"w1\nw2\n", code=1)
    assert "must have one line for each input line, got 1" in result.err
    (tmp_path / "p").write_text("z1\nz2\nz3\n")
    result = run("nmt-translate", model, "--prefix", tmp_path / "p", stdin=b"w1\nw2\n", code=1)
    assert "must have as many lines as the input, 2, got more" in result.err


def test_scores(setup: Path, model: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("w1 w2\nw3\n")
    (tmp_path / "t").write_text("z1\nz3 z4\n")
    result = run("nmt-score", model, "--src", tmp_path / "s", "--tgt", tmp_path / "t")
    assert result.lines == ["0\t-0.500000\t2\t1.284025", "1\t-0.750000\t3\t1.284025"]
    assert result.err == "perplexity 1.2840 of 5 subwords in 2 lines\n"
    result = run("nmt-score", model, "--src", tmp_path / "s", "--tgt", tmp_path / "t", "--output-format", "json")
    record = json.loads(result.lines[1])
    assert (record["log_prob"], record["tokens"]) == (-0.75, ["▁z3", "▁z4", "</s>"])
    (tmp_path / "t").write_text("z1\n")
    result = run("nmt-score", model, "--src", tmp_path / "s", "--tgt", tmp_path / "t", code=1)
    assert result.out == b"" and "must have one line for each" in result.err


ANSWERS = {
    "text": (False, b"".join(b"z%d\n" % n for n in range(12))),
    "tsv": (True, b"".join(b"%d\t%d\t-1.0\tz\n" % (n, rank) for n in range(12) for rank in (1, 2, 3))),
}


@pytest.mark.parametrize("form", ANSWERS)
def test_a_file_is_continued_wherever_it_was_cut(form: str, tmp_path: Path) -> None:
    numbered, whole = ANSWERS[form]
    lines = whole.splitlines(keepends=True)
    each = len(lines) // 12
    out, record = tmp_path / "out", tmp_path / f"out{RECORD_SUFFIX}"
    records = [(f"w{n}", {"p": "z"}) for n in range(12)]
    for read in range(1, 13):  # lines of input that the killed run had read
        out.unlink(missing_ok=True)
        with continued_lines(str(out), Lines(iter(records)), {"beam_size": 3}, tsv=numbered) as begun:
            assert begun.answered == 0
            assert [next(begun.rest) for _ in range(read)] == records[:read]
            begun.save()
        saved = record.read_bytes()
        for cut in range(read * len(whole) // 12 + 1):
            out.write_bytes(whole[:cut])
            record.write_bytes(saved)
            with continued_lines(str(out), Lines(iter(records)), {"beam_size": 3}, tsv=numbered) as continued:
                answered = continued.answered
                complete = whole[:cut].count(b"\n") // each
                is_open = numbered and complete * each == whole[:cut].count(b"\n") and complete > 0
                assert answered == complete - is_open
                assert list(continued.rest) == records[answered:]
                continued.save()
                for line in lines[answered * each :]:
                    continued.writer.write(line.decode().rstrip("\n"))
            assert out.read_bytes() == whole
            assert json.loads(record.read_bytes())["lines"] == 12


def test_an_output_is_gone_on_with_by_one_run_at_a_time(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with continued_lines(out, Lines(iter([])), {}, tsv=False), pytest.raises(DataError) as caught:
        with continued_lines(out, Lines(iter([])), {}, tsv=False):
            pass
    assert "must not be in use" in str(caught.value)


OTHERS = {
    "same": ([], b"w1\nw2\nw3\n", 0, None),
    "more lines": ([], b"w1\nw2\nw3\nw4\n", 0, None),
    "what changes no result": (["--batch-size", "1", "--threads", "1"], b"w1\nw2\nw3\n", 0, None),
    "another input": ([], b"w1\nw2\nw4\n", 1, "3 lines of another input"),
    "fewer lines": ([], b"w1\nw2\n", 1, "3 lines of another input"),
    "another beam": (["--beam-size", "2"], b"w1\nw2\nw3\n", 1, "beam_size 5, now 2"),
    "another format": (["--output-format", "json"], b"w1\nw2\nw3\n", 1, "output_format text, now json"),
    "a prefix": (["--prefix-text", "z9"], b"w1\nw2\nw3\n", 1, "prefix_text None, now z9"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_file_is_continued_by_its_own_run_alone(case: str, model: Path, run: Run, tmp_path: Path) -> None:
    options, given, code, message = OTHERS[case]
    out = tmp_path / "out"
    run("nmt-translate", model, "--resume", "-o", out, stdin=b"w1\nw2\nw3\n")
    before = out.read_bytes(), (tmp_path / f"out{RECORD_SUFFIX}").read_bytes()
    assert before[0] == b"z1\nz2\nz3\n"
    result = run("nmt-translate", model, "--resume", "-o", out, *options, stdin=given, code=code)
    if message is None:
        assert out.read_bytes() == given.replace(b"w", b"z")
    else:
        assert result.err.count("\n") == 1 and message in result.err
        assert (out.read_bytes(), (tmp_path / f"out{RECORD_SUFFIX}").read_bytes()) == before


def test_another_model_does_not_continue_a_file(model: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("nmt-translate", model, "--resume", "-o", out, stdin=b"w1\n")
    other = tmp_path / "other"
    shutil.copytree(model, other)
    run("nmt-translate", other, "--resume", "-o", out, stdin=b"w1\nw2\n")  # a copy is the same model
    tensors, content = map_tensors(other / "best.safetensors")
    tensors["params/bias"] += 0.5
    write_tensors(other / "best.safetensors", tensors, content)
    result = run("nmt-translate", other, "--resume", "-o", out, stdin=b"w1\nw2\n", code=1)
    assert "made with another model;" in result.err


@pytest.mark.parametrize("content", ["z1\nz2\n", "half a line"])
@pytest.mark.parametrize("record", [None, "", "{}", "[", '{"run": 1, "lines": 2, "digest": "x"}'])
def test_what_nobody_recorded_is_not_continued(
    content: str, record: str | None, model: Path, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "out").write_text(content)
    if record is not None:
        (tmp_path / f"out{RECORD_SUFFIX}").write_text(record)
    result = run("nmt-translate", model, "--resume", "-o", tmp_path / "out", stdin=b"w1\nw2\nw3\n", code=1)
    assert "without its record out.resume.json" in result.err
    assert result.err.count("\n") == 1 and (tmp_path / "out").read_text() == content


def test_a_killed_run_is_resumed(model: Path, run: Run, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_text("".join(f"w{n % 20}\n" for n in range(100)))
    out = tmp_path / "out"
    options = [str(x) for x in ("nmt-translate", model, source, "-o", out, "--resume", "--batch-size", "1")]
    slow = {**os.environ, "NMT_FAKE_SECONDS": "0.02"}
    for lines in (3, 10):
        process = subprocess.Popen([sys.executable, fake_model.__file__, *options], env=slow)
        while not out.exists() or out.read_bytes().count(b"\n") < lines:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert lines <= out.read_bytes().count(b"\n") < 100
    run(*options)
    assert out.read_text() == "".join(f"z{n % 20}\n" for n in range(100))


def test_samples_are_not_counted_against_the_largest_beam(model: Path, run: Run) -> None:
    result = run("nmt-translate", model, "--sampling", "--n-best", "1001", stdin=b"w1\n")
    assert result.err == ""
    assert result.out.count(b"\n") == 1001


@pytest.mark.parametrize("option", ["--mass", "--most-missed"])
def test_a_share_that_is_no_number(option: str) -> None:
    result = CliRunner().invoke(shortlist, ["model", option, "nan"])
    assert (result.exit_code, "'nan' is not a finite number" in result.output) == (2, True)


def test_glossaries_have_tabs_or_equals_signs(tmp_path):
    """As on the server's page: a tab, if there is one, or else the first `=`."""
    file = tmp_path / "g"
    file.write_text("train\tBahn\nout of = aus\na = b\tc=d\n1+1=2=x\n")
    assert phrase_pairs(str(file)) == [("train", "Bahn"), ("out of", "aus"), ("a = b", "c=d"), ("1+1", "2=x")]
