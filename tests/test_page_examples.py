"""Every block of Python in the documents is run: here those that use a model, elsewhere what RUN_ELSEWHERE names."""

import inspect
import re
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

import pytest

import nmt
from docs import python_page
from nmt import Translator
from nmt.inference.translation import Detail
from nmt.storage.saved_model import load_saved_model
from tests.saved_models import sentences, write_folder, write_language_folder

ROOT = Path(__file__).resolve().parent.parent
# Page -> how many of its blocks are run, with a small model under every name that they load.
RUN_HERE = {
    "README.md": 2,
    "docs/decoding.md": 1,
    "docs/presets.md": 1,
    "docs/migration.md": 1,
    "docs/threads.md": 1,
}
# Page -> the test that runs its blocks, or holds them to the code.
RUN_ELSEWHERE = {
    "docs/add-a-cell.md": "tests/test_docs.py::test_a_new_cell_as_the_page_says",
    "docs/learning.md": "tests/learning/test_learning.py::test_the_page_of_learning",
    "docs/extending.md": "tests/test_docs.py::test_code_that_the_page_of_settings_shows_stands_where_it_says",
    "docs/compiler.md": "tests/test_docs.py::test_the_compiler_as_its_page_shows_it",
    "docs/python.md": "tests/test_page_examples.py::test_the_page_of_python",
    "docs/many-machines.md": "tests/test_many_machines.py::test_the_function_for_engines",
    "docs/cells.md": "tests/test_docs.py::test_the_cell_of_the_page_of_cells",
    "docs/library.md": "tests/test_docs.py::test_operators_as_their_page_says",
    "docs/tutorials/lesson.md": "tests/test_tutorials.py::test_a_page_can_be_followed",
}


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def test_every_page_with_python_has_a_test_that_runs_it():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    found = {page.relative_to(ROOT).as_posix(): len(python_blocks(page)) for page in pages}
    assert {name for name, count in found.items() if count} == RUN_HERE.keys() | RUN_ELSEWHERE.keys()
    assert {name: found[name] for name in RUN_HERE} == RUN_HERE
    for place in RUN_ELSEWHERE.values():
        file, _, name = place.partition("::")
        assert f"def {name}" in (ROOT / file).read_text("utf-8")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with a small model under each name that a page loads."""
    folder = tmp_path_factory.mktemp("pages")
    translator = write_folder(folder / "runs" / "multi30k_de_en")
    write_folder(folder / "runs" / "demo")
    write_folder(folder / "runs" / "mine")
    write_language_folder(folder / "runs" / "multi30k_lm", load_saved_model(translator).tgt_subwords)
    (folder / "test.de").write_text("kara losu\nmiti\n", "utf-8")
    return folder


@pytest.mark.parametrize("name", RUN_HERE)
def test_the_blocks_of_a_page_run(name, models, monkeypatch, capsys):
    monkeypatch.chdir(models)
    names = {"translator": Translator.load("runs/multi30k_de_en", threads=1)}
    for block in python_blocks(ROOT / name):
        exec(compile(block, name, "exec"), names)
    printed = capsys.readouterr().out
    assert bool(printed) == any("print(" in block for block in python_blocks(ROOT / name))


def test_the_page_of_python(tmp_path, monkeypatch, capsys):
    """Trains, translates and saves as the page says, on a corpus of its own."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    for lang in ("de", "en"):
        (tmp_path / f"train.{lang}").write_text("".join(f"{line}\n" for line in sentences(200)), "utf-8")
    names = {}
    for block in python_blocks(python_page.PAGE):
        if "matplotlib" in block and find_spec("matplotlib") is None:  # of the extra [dev]
            continue
        exec(compile(block, "docs/python.md", "exec"), names)
    assert (names["config"].training.updates, names["result"].update) == (60, 90)
    assert isinstance(names["one"], str) and len(names["several"]) == 2
    assert (tmp_path / "mine.nmt").is_file()
    if "detail" in names:
        assert names["detail"].attention.shape == (len(names["detail"].tokens), len(names["columns"]))
    assert "beam_size must be" in capsys.readouterr().out


def test_the_options_on_the_page_of_python_are_those_of_the_table():
    assert python_page.PAGE.read_text("utf-8").endswith(python_page.table()), "run make docs"


def test_the_page_of_python_lists_all_arguments_and_fields():
    """Its tables have every public name, argument of `train` and field of what is returned, and no other."""
    page = python_page.PAGE.read_text("utf-8")
    intro = page.partition("## Train")[0]
    assert {name for name in nmt.__all__ if f"`{name}`" not in intro} == {"__version__"}

    def named_after(head):
        rows = page.partition(head)[2].partition("\n\n")[0].splitlines()[2:]
        return [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]

    assert named_after("| argument of `train` ") == list(inspect.signature(nmt.train).parameters)
    for kind, head in (
        (nmt.TrainingResult, "returns a `TrainingResult`:\n\n"),
        (nmt.Translation, "the best first:\n\n"),
        (Detail, "| field of `Detail` "),
    ):
        names = {one.name for one in fields(kind)} | ({"confidence"} if kind is nmt.Translation else set())
        rows = named_after(head)
        assert sorted(rows) == sorted(names), kind
        if kind is not nmt.TrainingResult:
            assert all(f"        {name}: " in kind.__doc__ for name in names - {"confidence"}), (
                "help shows each of them"
            )
