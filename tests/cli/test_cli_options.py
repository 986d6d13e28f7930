"""Options that are given twice, that do nothing, or that do not go together; and what a newcomer types."""

import errno
import os

import click
import pytest
from click.testing import CliRunner

from nmt.cli.commands.bundle import bundle
from nmt.cli.commands.evaluate import evaluate
from nmt.cli.commands.export import export
from nmt.cli.commands.pages.report import report
from nmt.cli.commands.quantize import quantize
from nmt.cli.commands.score import score
from nmt.cli.commands.translate import translate
from nmt.cli.front import front
from nmt.cli.options.command import Command
from nmt.inference.translator import Translator
from tests.saved_models import sentences, write_folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("options")
    write_folder(folder / "model")
    (folder / "text").write_text("".join(f"{line}\n" for line in sentences(3)))
    return folder


def call(place, command, *words, code=0):
    former = os.getcwd()
    os.chdir(place)
    try:
        result = CliRunner().invoke(command, words)
    finally:
        os.chdir(former)
    assert code in (None, result.exit_code), (result.output, result.exception)
    return result


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (evaluate, ["--hyp", "text", "--hyp", "text", "--ref", "text"]),
        (evaluate, ["--hyp", "text", "--ref", "text", "--metric", "bleu", "--metric", "chrf"]),
        (translate, ["model", "text", "-o", "x", "--output", "y"]),
    ],
)
def test_an_option_given_twice_is_refused(command, words, place):
    assert "must be given once, got it twice" in call(place, command, *words, code=2).stderr


def test_what_may_be_repeated_still_may(place):
    call(place, evaluate, "--hyp", "text", "--ref", "text", "--ref", "text")


@pytest.mark.parametrize(
    ("command", "words", "needed"),
    [
        (translate, ["model", "text", "--column", "x"], "--column changes nothing without a table"),
        (translate, ["model", "text", "--output-column", "x"], "--output-column changes nothing without a table"),
        (translate, ["model", "text", "--alignment-type", "soft"], "--alignment-type changes nothing without --ali"),
        (translate, ["model", "text", "--split"], "--split changes nothing without --format"),
        (translate, ["model", "text", "--ensemble-average", "prob"], "changes nothing without --ensemble"),
        (translate, ["model", "text", "--glossary-bonus", "2"], "--glossary-bonus changes nothing without --glossary"),
        (evaluate, ["--hyp", "text", "--ref", "text", "--beam-size", "3"], "--beam-size changes nothing without MODEL"),
    ],
)
def test_an_option_that_does_nothing_is_told(command, words, needed, place):
    assert f"warning: {needed}" in call(place, command, *words).stderr or needed in call(place, command, *words).stderr


def test_defaults_are_told_of_nobody(place):
    assert "changes nothing" not in call(place, translate, "model", "text").stderr
    assert "changes nothing" not in call(place, evaluate, "--hyp", "text", "--ref", "text").stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--output-format", "text", "--scores"], "--scores needs --output-format tsv or json"),
        (["--format", "html", "--n-best", "3"], "--format html goes without --n-best"),
        (["text", "-o", "text2", "--alignments", "text2"], "must be a file of its own, got that of -o"),
        (["text", "out.de"], "2 files to translate need -o"),
    ],
)
def test_what_does_not_go_together_is_refused(words, line, place):
    words = words if words[0] == "text" else ["text", *words]
    result = CliRunner()
    former = os.getcwd()
    os.chdir(place)
    try:
        result = CliRunner().invoke(translate, ["model", *words])
    finally:
        os.chdir(former)
    assert result.exit_code in (1, 2) and line in result.stderr
    assert not (place / "text2").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("translate modle text", "modle: no such folder; did you mean model?"),
        ("translate runs/model text", "runs/model: no such folder; there is no folder runs"),
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
        ("sweep none.yaml --grid training.updates=1,2", "Error: none.yaml: no such file"),
        ("bundle model new.nmt", "-o FILE.nmt names the output, got new.nmt without an option"),
    ],
)
def test_a_mistake_is_answered_in_one_line_by_what_was_meant(words, told, place):
    (place / "text2").write_text("a\nb\n")
    (place / "model.nmt").touch()
    result = call(place, front, *words.split(), code=None)
    assert result.exit_code in (1, 2) and told in result.stderr.replace(os.sep, "/") and result.stderr.count("\n") == 1


def test_score_of_a_translator_without_sources_names_the_option(place):
    assert "Give --src" in call(place, score, "model", "--tgt", "text", code=2).stderr


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
    edits = {"edit_actions": True, "attention": "none", "input_feeding": False}
    write_folder(tmp_path / "edits", decoder=edits)
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


def test_help_has_a_short_name():
    assert CliRunner().invoke(front, ["-h"]).exit_code == 0
    assert "MODEL" in CliRunner().invoke(front, ["translate", "-h"]).stdout


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

    for text, told in (
        ("can't start new thread", "Error: threads: the system must give one more, got none"),
        ("a", ""),
    ):
        result = CliRunner().invoke(started, ["--text", text])
        assert result.stderr.startswith(told)
        assert isinstance(result.exception, SystemExit if told else RuntimeError)
