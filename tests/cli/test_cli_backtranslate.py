"""nmt-backtranslate: pairs out of text and a model; goes on where it stopped."""

import gzip

import pytest

from nmt import Translator
from nmt.cli.commands.backtranslate import backtranslate
from nmt.config import CorpusConfig
from nmt.data.corpora.corpus import Side, load_parallel
from nmt.storage.model_folder import load_folder_config, load_subwords
from nmt.storage.saved_model import load_saved_model, save_bundle
from tests.cli.test_cli_models import call
from tests.saved_models import sentences

LINES = [*sentences(9, seed=3), "", *sentences(4, seed=5)]
TEXT = "".join(f"{line}\n" for line in LINES)


def run(*arguments, code=0):
    return call(backtranslate, *arguments, "--threads", 1, code=code)


def test_pairs_to_train_on(folder, tmp_path):
    text = tmp_path / "mono.txt.gz"
    text.write_bytes(gzip.compress(TEXT.encode()))
    result = run(folder, text, "-o", tmp_path / "back", "--batch-size", 4)
    assert result.stdout == f"pairs\t14\t{tmp_path}/back.xx\t{tmp_path}/back.yy\n"
    assert f"path: {tmp_path}/back\n    tag: <bt>" in result.stderr
    made = (tmp_path / "back.yy").read_text("utf-8").splitlines()
    assert (tmp_path / "back.xx").read_text("utf-8").splitlines() == LINES
    assert made == Translator.load(folder, threads=1).translate(LINES)
    config, (subwords, _) = load_folder_config(folder), load_subwords(folder, joint=True)
    corpus = (CorpusConfig(path=str(tmp_path / "back"), tag="kara"),)
    assert load_parallel(corpus, Side(config.data.src, subwords), Side(config.data.tgt, subwords)).total == 14


def test_it_goes_on_where_it_stopped(folder, tmp_path):
    (tmp_path / "mono").write_text(TEXT, "utf-8")
    run(folder, tmp_path / "mono", "-o", tmp_path / "whole")
    expected = (tmp_path / "whole.yy").read_bytes()
    run(folder, tmp_path / "mono", "-o", tmp_path / "cut")
    (tmp_path / "cut.xx").unlink()
    (tmp_path / "cut.yy").write_bytes(expected[: len(expected) // 2])  # killed in the middle of a line
    run(folder, tmp_path / "mono", "-o", tmp_path / "cut")
    assert (tmp_path / "cut.yy").read_bytes() == expected
    assert (tmp_path / "cut.xx").read_bytes() == (tmp_path / "whole.xx").read_bytes()
    assert run(folder, tmp_path / "mono", "-o", tmp_path / "cut").stdout.startswith("pairs\t14\t"), "it is done"


def test_a_text_that_lies_at_its_place_is_not_copied(folder, tmp_path):
    (tmp_path / "a.xx").write_text(TEXT, "utf-8")
    before = (tmp_path / "a.xx").stat().st_mtime_ns
    run(folder, tmp_path / "a.xx", "-o", tmp_path / "a")
    assert (tmp_path / "a.xx").stat().st_mtime_ns == before and (tmp_path / "a.yy").exists()


def test_a_bundle_and_a_text_of_the_other_language(folder, tmp_path):
    save_bundle(tmp_path / "model.nmt", load_saved_model(folder))
    (tmp_path / "a.yy").write_text(TEXT, "utf-8")
    result = run(tmp_path / "model.nmt", tmp_path / "a.yy", "-o", tmp_path / "b")
    assert "a.yy: INPUT must be xx, and is yy by its name" in result.stderr
    assert (tmp_path / "b.yy").read_text("utf-8").splitlines() == Translator.load(folder, threads=1).translate(LINES)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("there", "must be new, or begun by this command"),
        ("train", "train.xx: must be new or contain the lines of"),
        *((name, "must be the beginning of ") for name in ("folder/", "folder")),
    ],
)
def test_an_output_that_cannot_be_and_texts_that_are_there_are_kept(folder, tmp_path, output, message):
    (tmp_path / "a.xx").write_text(TEXT, "utf-8")
    for name in ("there.yy", "train.xx"):
        (tmp_path / name).write_text("mine\n")
    (tmp_path / "folder").mkdir()
    result = run(folder, tmp_path / "a.xx", "-o", f"{tmp_path}/{output}", code=1)
    assert message in result.stderr and "--resume" not in result.stderr
    assert (tmp_path / "there.yy").read_text() == (tmp_path / "train.xx").read_text() == "mine\n"
    assert not list((tmp_path / "folder").iterdir()) and not (tmp_path / "train.yy").exists()
