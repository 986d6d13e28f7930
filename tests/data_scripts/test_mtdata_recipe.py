"""mtdata_recipe.py with a stand-in for mtdata that takes only its options and writes the files that it writes."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.data_scripts.test_corpora import SCRIPTS, one_line

# Names and options are those of mtdata 0.5.1. Tags such as eng_US end train; the links to held-out sets have eng.
STAND_IN = """#!{python}
import argparse, pathlib
parser = argparse.ArgumentParser(allow_abbrev=False)
commands = parser.add_subparsers(dest="command", required=True)
listing = commands.add_parser("list-recipe", allow_abbrev=False)
listing.add_argument("-id", "--id", action="store_true")
listing.add_argument("-f", "--format", choices=["plain", "json"])
getting = commands.add_parser("get-recipe", allow_abbrev=False)
getting.add_argument("-ri", "-i", "--recipe-id", required=True)
getting.add_argument("-f", "--fail-on-error", action="store_true")
getting.add_argument("-j", "--n-jobs", type=int)
getting.add_argument("-o", "--out", dest="out_dir", type=pathlib.Path, required=True)
given = parser.parse_args()
if given.command == "list-recipe":
    print("first_ende" + chr(10) + "broken_ende" if given.id else "id" + chr(9) + "langs")
    raise SystemExit
if given.recipe_id == "broken_ende":
    print("a traceback")
    raise SystemExit(1)
out = given.out_dir
(out / "tests").mkdir(parents=True)
(out / "train-parts").mkdir()
(out / "train.eng_US").write_text("a\\nb\\nc", "utf-8")
(out / "train.deu").write_text("ä\\nb\\nc\\n", "utf-8")
(out / "train.meta.jsonl.gz").write_bytes(b"x")
(out / "train.stats.json").write_text("x")
(out / "references.bib").write_text("cite")
for name, text in (("dev", "d\\n"), ("test1", "e\\ne\\n"), ("test2", "f\\n")):
    for language in ("eng", "deu"):
        (out / "tests" / (name + language)).write_text(text)
        (out / (name + "." + language)).symlink_to("tests/" + name + language)
"""


@pytest.fixture
def run(tmp_path):
    """Run the script with the stand-in, or nothing, on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "mtdata").write_text(STAND_IN.replace("{python}", sys.executable), "utf-8")
    (folder / "mtdata").chmod(0o755)

    def call(*arguments, path=folder):
        command = [sys.executable, SCRIPTS / "mtdata_recipe.py", *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "PATH": str(path)}, cwd=tmp_path
        )

    return call


def test_a_recipe_becomes_texts_in_our_layout(run, tmp_path):
    answer = run("first_ende")
    assert answer.returncode == 0, answer.stderr
    out = tmp_path / "data/first_ende"
    assert answer.stdout == "data/first_ende: 1 dev, 2 test, 1 test2, 3 train lines each in deu, eng\n"
    names = [f"{part}.{language}" for part in ("dev", "test", "test2", "train") for language in ("deu", "eng")]
    assert sorted(path.name for path in out.iterdir()) == sorted([*names, "mtdata", "references.bib"])
    assert (out / "train.deu").read_text("utf-8") == "ä\nb\nc\n" and (out / "test2.eng").read_text() == "f\n"
    assert not any(path.is_symlink() for path in out.iterdir())
    again = run("any", "--from", out / "mtdata", "--out", tmp_path / "copy", path="")
    assert again.returncode == 0 and (tmp_path / "copy/train.eng").read_bytes() == (out / "train.eng").read_bytes()


def test_what_cannot_be_fetched_is_one_line(run, tmp_path):
    script = "mtdata_recipe.py"
    assert "got no such command; pip install mtdata" in one_line(run("first_ende", path=""), script)
    assert "near it are first_ende" in one_line(run("frist_ende"), script)
    failed = run("broken_ende")
    assert "must fetch broken_ende, got exit code 1" in one_line(failed, script) and failed.stdout == ""
    assert "must be a folder" in one_line(run("x", "--from", tmp_path / "none"), script)


def test_broken_texts_are_one_line_and_write_nothing(run, tmp_path):
    assert run("first_ende").returncode == 0
    folder, out = tmp_path / "data/first_ende/mtdata", tmp_path / "out"

    def message():
        return one_line(run("x", "--from", folder, "--out", out), "mtdata_recipe.py")

    (folder / "dev.eng").unlink()
    assert "must contain dev.deu and dev.eng, got dev.deu" in message()
    (folder / "dev.eng").write_bytes(b"one\ntwo\n")
    assert "dev: both languages must have the same number of lines, got deu 1, eng 2" in message()
    (folder / "dev.eng").write_bytes(b"one\n\xff\n")
    assert "dev.eng: must be UTF-8" in message()
    (folder / "dev.eng").write_bytes("é".encode()[:1])
    assert "dev.eng: must be UTF-8" in message()
    assert not [path for path in out.iterdir()]
    shutil.rmtree(folder)
    folder.mkdir()
    assert "must contain train.LANG of two languages" in message()
