"""What commands say of the files that they are given: documents, languages, sides, and the text of the training."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run

SRT = "1\n00:00:01,000 --> 00:00:02,000\nw1 w2\n"


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """Return a folder with a text of twenty lines in each of three languages."""
    for lang in ("xx", "yy", "fr"):
        (tmp_path / f"t.{lang}").write_text("".join(f"w{number} w1\n" for number in range(20)))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("film.srt", SRT, "srt"),
        ("film.txt", SRT, "srt"),
        ("page.html", "<!doctype html><p>w1</p>\n", "html"),
        ("a.po", 'msgid ""\nmsgstr ""\n', "po"),
        ("a.xliff", '<?xml version="1.0"?>\n<xliff version="1.2"></xliff>\n', "xliff"),
    ],
)
def test_a_document_is_not_read_as_lines_unless_that_is_asked(model: Path, run: Run, tmp_path, name, text, form):
    (tmp_path / name).write_text(text)
    for output in ("out.txt", f"out.{form}"):
        done = run("nmt-translate", model, tmp_path / name, "-o", tmp_path / output, code=1)
        assert done.err.count("\n") == 1 and f"--format {form}" in done.err
        assert not (tmp_path / output).exists()
    done = run("nmt-translate", model, tmp_path / name, "--format", "lines", "-o", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text().count("\n") == text.count("\n")


@pytest.mark.parametrize("name", ["s.srt", "t.html", "t.csv", "t.json", "t.tsv"])
def test_a_name_of_a_document_alone_is_a_warning(model: Path, run: Run, tmp_path, name):
    (tmp_path / name).write_text("xx\tyy\n" * 20)
    done = run("nmt-translate", model, tmp_path / name)
    assert done.err.startswith(f"warning: {tmp_path}/{name}: is ") and "skipped" not in done.err


@pytest.mark.parametrize("name", ["out.docx", "out.html", "out.xx.gz", "out.pdf", "out.jsonl", "out.xlsx"])
def test_lines_get_no_ending_of_another_format(model: Path, run: Run, lines: Path, name):
    done = run("nmt-translate", model, lines / "t.xx", "-o", lines / name, code=1)
    assert f"{name}: must have the ending of a text" in done.err and not (lines / name).exists()


def test_a_document_gets_no_ending_of_another_format(model: Path, run: Run, tmp_path):
    (tmp_path / "a.html").write_text("<p>w1</p>")
    for name in ("o.docx", "o.srt", "o.pdf"):
        done = run("nmt-translate", model, tmp_path / "a.html", "--format", "auto", "-o", tmp_path / name, code=1)
        assert "must end as INPUT does, got html for ." in done.err and not (tmp_path / name).exists()
    for name in ("o.htm", "o.xml", "o"):
        run("nmt-translate", model, tmp_path / "a.html", "--format", "html", "-o", tmp_path / name)


def test_other_languages_are_doubted_by_each_command(model: Path, run: Run, lines: Path):
    commands = {
        "nmt-translate": ([model, lines / "t.yy", "-o", lines / "out.yy"], 1),
        "nmt-evaluate": ([model, "--src", lines / "t.yy", "--ref", lines / "t.xx"], 2),
        "nmt-score": ([model, "--src", lines / "t.yy", "--tgt", lines / "t.xx"], 2),
        "nmt-backtranslate": ([model, lines / "t.yy", "-o", lines / "back"], 1),
    }
    for command, (words, count) in commands.items():
        done = run(command, *words)
        assert done.err.count(" by its name; ") == count, (command, done.err)
    assert "is xx by its name" in run("nmt-translate", model, lines / "t.xx", "-o", lines / "out.xx").err
    assert "by its name" not in run("nmt-evaluate", model, "--src", lines / "t.xx", "--ref", lines / "t.yy").err


def test_translations_in_another_language_than_the_reference_are_doubted(run: Run, lines: Path):
    (lines / "t.de").write_bytes((lines / "t.fr").read_bytes())
    done = run("nmt-evaluate", "--hyp", lines / "t.de", "--ref", lines / "t.fr")
    assert "--hyp must be fr, and is de by its name" in done.err


def test_the_training_text_is_known_again(setup: Path, model: Path, run: Run, tmp_path):
    texts = {lang: (setup / f"train.{lang}").read_text().splitlines(keepends=True) for lang in ("xx", "yy")}
    for lang, of_side in texts.items():
        (tmp_path / f"part.{lang}").write_text("".join(of_side[-len(of_side) // 2 :]))
        with gzip.open(tmp_path / f"all.{lang}.gz", "wt") as file:
            file.write("".join(of_side[::-1]))
    run("nmt-bundle", model, "-o", tmp_path / "m.nmt")
    for place in (model, tmp_path / "m.nmt"):
        for name in ("part", "all"):
            done = run("nmt-evaluate", place, "--src", tmp_path / f"{name}.xx", "--ref", tmp_path / f"{name}.yy")
            assert "about 100% of the pairs are in its training text" in done.err
    assert "training text" not in run("nmt-evaluate", model, "--src", setup / "test.xx", "--ref", setup / "test.yy").err


def test_headings_of_a_table_are_no_pair_of_a_test(model: Path, run: Run, lines: Path):
    rows = (lines / "t.xx").read_text().splitlines()
    (lines / "t.tsv").write_text("".join(f"{row}\t{row}\n" for row in ["xx", *rows][1:]))
    plain = run("nmt-evaluate", model, "--src", lines / "t.tsv", "--ref", lines / "t.tsv")
    (lines / "t.tsv").write_text("xx\tyy\n" + (lines / "t.tsv").read_text())
    done = run("nmt-evaluate", model, "--src", lines / "t.tsv", "--ref", lines / "t.tsv")
    assert done.out == plain.out and "line 1 has headings, xx | yy, and is skipped" in done.err
    table = lines / "four.tsv"
    table.write_text("".join(f"{n} a\t{row}\t{row}\tb {n}\n" for n, row in enumerate(rows)))
    for options in (["--columns", "b,C"], []):
        done = run("nmt-evaluate", model, "--src", table, "--ref", table, *options, code=int(not options))
        assert (done.out == plain.out) is bool(options), done.err
    assert "choose source and target, as with --columns" in done.err
    done = run("nmt-score", model, "--src", table, "--tgt", table, "--columns", "2,3", "--header", "no")
    assert done.out.count(b"\n") == len(rows), done.err


def test_an_output_below_the_input_is_refused_and_nothing_is_left(model: Path, run: Run, tmp_path):
    folder = tmp_path / "in"
    (folder / "b").mkdir(parents=True)
    shutil.copy(__file__, folder / "b" / "x.txt")
    (tmp_path / "link").symlink_to(folder)
    for output in (folder / "out", folder / "b" / "out", tmp_path / "link" / "out", folder):
        assert run("nmt-translate", model, folder, "-o", output, code=1).err.count("\n") == 1
        assert sorted(path.name for path in folder.rglob("*")) == ["b", "x.txt"]
    run("nmt-translate", model, folder, "-o", folder / "_out")  # which no call reads


def test_documents_in_a_folder_are_told_and_the_rest_is_translated(model: Path, run: Run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("w1\n")
    (tmp_path / "in" / "b.srt").write_text(SRT)
    assert "got SubRip subtitles" in run("nmt-translate", model, tmp_path / "in", "-o", tmp_path / "out", code=1).err
    assert [path.name for path in (tmp_path / "out").glob("[a-z]*")] == ["a.txt"]


def test_blank_lines_between_objects_are_passed_over(model: Path, run: Run, tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "w1"}\n\n{"text": "w2"}\n\n')
    run("nmt-translate", model, tmp_path / "t.jsonl", "-o", tmp_path / "out.jsonl")
    assert [json.loads(line)["text"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == ["w1", "w2"]


def test_a_prefix_of_two_texts_may_be_given(run: Run, tmp_path):
    for lang in ("de", "en"):
        (tmp_path / f"m.{lang}").write_text("w1 w2\n" * 40)
    done = run("nmt-train", tmp_path / "m", "-s", "de", "-t", "en", "-o", tmp_path / "run", "--show-config")
    assert f"train: {tmp_path}/m\n" in done.out.decode()


def test_validation_files_in_the_other_order_are_exchanged(run: Run, tmp_path):
    for name in ("m.de", "m.en", "v.de", "v.en"):
        (tmp_path / name).write_text(f"{name} w1 w2\n" * 40)
    texts = [tmp_path / "m.de", tmp_path / "m.en", "--dev", tmp_path / "v.en", "--dev", tmp_path / "v.de"]
    for languages in ((), ("-s", "de", "-t", "en")):
        done = run("nmt-train", *texts, *languages, "-o", tmp_path / "run", "--show-config")
        assert f"dev: {tmp_path}/v\n" in done.out.decode()
        assert f"taken so by their names: {tmp_path}/v.de and {tmp_path}/v.en" in done.err


def test_columns_are_named_where_a_table_gives_no_pairs(run: Run, tmp_path):
    (tmp_path / "t.tsv").write_text("eins\t\tone\n" * 40)
    done = run("nmt-train", tmp_path / "t.tsv", "-o", tmp_path / "run", "--columns", "1,2", code=1)
    assert "got an empty source or target in each row" in done.err and "--columns 2,3" in done.err


def test_a_folder_of_a_sweep_is_its_runs(model: Path, run: Run, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(model, tmp_path / "sweep" / name)
    (tmp_path / "sweep" / "sweep.tsv").write_text("run\n")
    for names in ([tmp_path / "sweep"], sorted((tmp_path / "sweep").iterdir())):
        assert "2 runs" in run("nmt-report", *names, "--attention", "0", "-o", tmp_path / "r.html").err
    run("nmt-report", tmp_path, "-o", tmp_path / "r.html", code=1)


def test_few_target_tokens_a_batch_and_the_name_of_a_run_are_told(setup: Path, run: Run, tmp_path):
    sizes = (["--set", "training.batch_size=32"], True), (["--set", "training.batch_size=256"], False)
    sentences = ["--set", "training.batch_type=sentence", "--set", "training.batch_size=32"]
    for number, (options, is_told) in enumerate((*sizes, (sentences, False))):
        done = run(
            "nmt-train", setup / "c.yaml", "-o", tmp_path / f"own{number}", "--set", "training.updates=1", *options
        )
        assert ("set training.batch_type=sentence" in done.err) is is_told
        assert f"model own{number}: " in done.err
