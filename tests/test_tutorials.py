"""start.md and the tutorials are followed: their files are written and their commands run, in order, as they stand.

Only sizes are smaller: a few updates of training, fewer lines held out. Commands that set up an environment or serve
are left out; tests of the server have those.
"""

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nmt import Translator
from tests.saved_models import sentences, write_folder

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "docs" / "start.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
NOT_RUN = ("make ", "source ", "nmt-serve ", "curl ")
# What is held out of the corpus, and seeds.
SMALLER = [("-n 500 ", "-n 20 "), ("501,1000p", "21,40p"), ("+1001 ", "+41 "), ("--seeds 3", "--seeds 2")]
TRAINING = "updates=20 validation_freq=20 learning_rate_warmup=5 batch_size=100"
SETTINGS = [*(f"training.{setting}" for setting in TRAINING.split()), "threads=1"]
TRAINS = re.compile(r"^(nmt-train|nmt-sweep|python recipes/run\.py) [^|>]*")
# A few words stand for a corpus that the script would fetch.
WORDS = ("abby", "été", "bonjour", "lune", "nuit", "jour", "sel", "eau") * 6


def blocks(page):
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def smaller(line, copy):
    """A command of a page with less to do."""
    for old, new in SMALLER:
        line = line.replace(old, new)
    if "sigmorphon2020_g2p.py" in line:
        return f"{line} --from {copy}"
    if TRAINS.match(line) and "--check-data" not in line:
        return line.rstrip() + "".join(f" --set {setting}" for setting in SETTINGS)
    return line


def shell(line, folder):
    """Run one line in bash. The commands are those of this environment."""
    names = ("PATH", "HOME", "LANG", "XDG_CACHE_HOME", "NMT_CACHE_DIR")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    environment = {**kept, "PATH": f"{Path(sys.executable).parent}:{kept.get('PATH', '')}", "PYTHONPATH": str(ROOT)}
    command = ["bash", "-ec", f"set -o pipefail; {line}"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed(page, tmp_path):
    for name in ("configs", "data_scripts", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    copy = tmp_path / "copy"
    copy.mkdir()
    for part in ("train", "dev", "test"):
        (copy / f"fre_{part}.tsv").write_text("".join(f"{word}\t{' '.join(word)}\n" for word in WORDS), "utf-8")
    names, done = {}, 0
    for language, text in blocks(page):
        file = re.match(r"# (\S+\.(?:py|yaml))\n", text)
        if file:
            (tmp_path / file[1]).write_text(text, "utf-8")
        elif language == "python":
            with contextlib.chdir(tmp_path):
                exec(compile(text, page.name, "exec"), names)
            done += 1
        elif language == "bash":
            for line in text.replace("\\\n", " ").splitlines():
                if line.startswith(NOT_RUN):
                    continue
                result = shell(smaller(line, copy), tmp_path)
                assert result.returncode == 0, f"{line}\n{result.stdout[-1500:]}\n{result.stderr[-1500:]}"
                if "number_words.py" in line:
                    shorten(tmp_path / "data" / "demo")
                done += 1
        else:
            assert language in {"text", "yaml"}, f"{page.name}: nothing runs a block of {language}"
    assert done >= 3


def shorten(folder):
    """Most of a corpus is enough to follow a page by."""
    for path in folder.iterdir():
        most = 3000 if path.stem == "train" else 40
        path.write_text("".join(f"{line}\n" for line in path.read_text("utf-8").splitlines()[:most]), "utf-8")


def test_no_block_of_these_pages_is_left_out_by_its_kind():
    """Yaml and text blocks are files, or what a command prints; a block of text must be shown by no command here."""
    for page in PAGES:
        for language, text in blocks(page):
            assert language in {"bash", "python", "yaml"}, page.name
            assert language != "yaml" or re.match(r"# \S+\.yaml\n", text), page.name


NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# Shorter trainings for the test: this notebook compares four models and does not ask that they have learned.
SHORTER = {
    "comparing-systems": (
        '"training.updates=150", "training.validation_freq=150"',
        '"training.updates=6", "training.validation_freq=6", "training.learning_rate_warmup=2"',
    )
}


@pytest.fixture(scope="module")
def nbformat():
    """Imported late: importing it takes seconds, which every process that collects tests would spend."""
    return pytest.importorskip("nbformat", reason="notebooks need the extra [dev]")


def printed(notebook):
    """What each cell of code printed."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(out.text for out in cell.outputs if out.output_type == "stream") for cell in cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_gives_what_it_shows(path, nbformat, monkeypatch):
    """An error of a cell, an assertion in it included, ends the run. Cells tagged `exact` print the same everywhere."""
    nbclient = pytest.importorskip("nbclient", reason="notebooks need the extra [dev]")
    pytest.importorskip("ipykernel", reason="notebooks need the extra [dev]")
    monkeypatch.setitem(os.environ, "PYTHONPATH", str(ROOT))
    notebook = nbformat.read(path, as_version=4)
    shown = printed(notebook)
    if path.stem in SHORTER:
        usual, short = SHORTER[path.stem]
        (training,) = [cell for cell in notebook.cells if usual in cell.source]
        training.source = training.source.replace(usual, short)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    exact = ["exact" in cell.metadata.get("tags", []) for cell in code]
    assert any(exact)
    for same, ours, theirs in zip(exact, printed(notebook), shown, strict=True):
        assert bool(ours) == bool(theirs)
        assert not same or ours == theirs


def test_notebooks_are_committed_with_their_outputs_and_without_this_machine(nbformat):
    assert len(NOTEBOOKS) == 4
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code"), path.name
        assert not re.search(r"/(?:tmp|home|root|work|usr)/", path.read_text("utf-8")), path.name


PAGE = (Path(__file__).parents[1] / "docs" / "many-machines.md").read_text(encoding="utf-8")
LINES = [*sentences(40, seed=8), ""]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the model of the page."""
    folder = tmp_path_factory.mktemp("engines")
    write_folder(folder / "runs" / "de-en")
    return folder


def test_shards_by_xargs(place):
    found = re.search(r"^On one machine:\n\n```bash\n(.*?)```", PAGE, re.M | re.S)
    assert found is not None
    (place / "big.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-ec", found[1]], cwd=place, env={**os.environ, "PATH": path}, check=True)
    expected = Translator.load(place / "runs" / "de-en", threads=1).translate(LINES)
    assert (place / "big.en").read_text(encoding="utf-8").splitlines() == expected


class Frame(dict):
    """What the page needs of a DataFrame."""

    def assign(self, **columns):
        return Frame({**self, **columns})


def test_the_function_for_engines(place, monkeypatch):
    monkeypatch.chdir(place)
    found = {}
    exec(re.search(r"```python\n(.*?)```", PAGE, re.S)[1], found)  # noqa: S102 - our own page
    expected = Translator.load(place / "runs" / "de-en", threads=1).translate(LINES)
    assert found["translated"](Frame(text=LINES)) == {"text": LINES, "translation": expected}


LOADED = re.compile(r'<(?:script|img|iframe)[^>]* src="([^"]+)"|<link[^>]* href="([^"]+)"')


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("sphinx", "myst_nb", "furo", "latex2mathml")),
    reason="the site needs the extra [site]",
)
def test_the_site_is_built_without_a_warning_and_asks_no_other_host(tmp_path):
    """A link within the site that leads nowhere, or a page that no list names, is a warning of Sphinx, and ends it."""
    made = tmp_path / "html"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs", "-d", tmp_path / "cache", "."]
    done = subprocess.run([*command, made], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    pages = {path.relative_to(made).as_posix(): path.read_text("utf-8") for path in made.rglob("*.html")}
    assert {"index.html", "docs/tutorials/lesson.html", "docs/tour.html", "search.html"} <= pages.keys()
    for name, text in pages.items():
        assert not [one for pair in LOADED.findall(text) for one in pair if one.startswith(("http", "//"))], name
        for target in re.findall(r'href="(?:\.\./)*(_downloads/[^"#]+)"', text):
            assert (made / target).is_file(), f"{name}: {target}"
    assert pages["docs/model.html"].count("<math") > 30 and "$" not in re.sub("<[^>]*>", "", pages["docs/model.html"])
    assert 'class="cell_output' in pages["docs/notebooks/inside-a-cell.html"]
    names = set(re.findall(r' id="(nmt\.[\w.]+)"', pages["docs/names.html"]))
    assert {"nmt.train.run.training.train", "nmt.Translator.load", "nmt.rnn.LSTMCell"} <= names
    assert "batch_multiplier" in pages["docs/settings.html"]
    assert (made / "searchindex.js").stat().st_size > 100_000
