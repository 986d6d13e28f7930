"""The pages tell the truth: their commands, options, settings, folders and links exist."""

import importlib
import importlib.util
import inspect
import os
import platform
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding

import nmt
from docs import python_page
from docs.show.__main__ import main as show
from nmt import Translator
from nmt.cli.entry import COMMANDS
from nmt.cli.front import load_command
from nmt.config import load_config
from nmt.inference.translation import Detail
from nmt.model.parts.cells import decoder_layers, encoder_cells, import_cells
from nmt.model.parts.encoder import Bridge
from nmt.rnn import GRU, LSTM, RNN, ZoneoutCell, layouts
from nmt.rnn.layers.layer_stack import LayerOptions
from tests.processes import python
from tests.saved_models import sentences, write_folder

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("results/*.md")])
# What is not ours but stands in commands of the pages: of shells, and of clusters.
OF_SYSTEMS = {
    *"cat comet-compare comet-score curl cyclonedx-py echo eval export for grep head install ln ls mkdir".split(),
    *"mpiexec mv paste pip python3 runuser sacrebleu sed seq shuf sort source split srun systemctl tail".split(),
    *"timeout useradd xargs .venv/bin/pre-commit".split(),
}
# Files that a page tells its reader to write; tests below write and run them.
OF_PAGES = {"my_cells.py"}


def code_blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def shell_commands():
    """Every command of every page's bash blocks, one case each; a pipe makes several."""
    for page in PAGES:
        for block in code_blocks(page, "bash"):
            for line in block.replace("\\\n", " ").splitlines():
                for command in re.split(r"\s*\|\s*", line.split("#")[0].strip()):
                    if command:
                        yield pytest.param(shlex.split(command), id=f"{page.name}: {command}")


def options_of(name):
    options = {"--help"}
    for parameter in load_command(name).params:
        if parameter.param_type_name == "option":
            options |= {*parameter.opts, *parameter.secondary_opts}
    return options


@cache
def help_of(*words):
    """Return what Python prints for a script, or -m and a module, and --help."""
    return subprocess.run([sys.executable, *words, "--help"], capture_output=True, text=True, check=True).stdout


def check_nmt_command(words):
    name = words[0].removeprefix("nmt-")
    assert {word.split("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)} <= options_of(name)


def check_make(words):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert {word for word in words[1:] if "=" not in word} <= set(targets)


def check_python(words):
    script = words[1]
    if script == "-m":
        assert importlib.util.find_spec(words[2]) is not None and not words[2].startswith("tests")
        known = set(re.findall(r"(?<![\w-])--?[a-z]+", help_of("-m", words[2])))
        assert {word for word in words[3:] if word.startswith("-")} <= known
        return
    if script in OF_PAGES:
        return
    assert (ROOT / script).is_file()
    known = set(re.findall(r"--[a-z-]+", help_of(ROOT / script)))
    assert {word.split("=")[0] for word in words[2:] if word.startswith("--")} <= known


@pytest.mark.parametrize("words", list(shell_commands()))
def test_commands_of_the_pages_exist(words):
    if words[0] == "nmt" and not words[1].startswith("-"):
        words = [f"nmt-{words[1]}", *words[2:]]
    if words[0].startswith("nmt-"):
        check_nmt_command(words)
    elif words[0] == "make":
        check_make(words)
    elif words[0] == "nmt":
        assert set(words[1:]) <= {"--help", "--version"}
    elif words[0] == "python":
        check_python(words)
    else:  # in an environment, an absolute path
        assert (Path(words[0]).name if words[0].startswith("/") else words[0]) in OF_SYSTEMS
    for word in words:
        if word.startswith("configs/"):
            assert (ROOT / word).is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_stand_in_blocks_that_are_looked_at(page):
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    assert not re.findall(r"\n\n {4}((?:nmt[ -]|pip |python |make |mpiexec |curl ).*)", text)


def test_the_demo_is_what_its_settings_write():
    config = load_config(ROOT / "configs" / "quickstart.yaml")
    assert f"DEMO_MODEL := {config.model_dir}\n" in (ROOT / "Makefile").read_text()


def test_settings_read_what_the_scripts_write():
    for config_name, folder in (("quickstart", "demo"), ("multi30k_de_en", "multi30k")):
        text = (ROOT / "configs" / f"{config_name}.yaml").read_text("utf-8")
        for part in ("train", "dev"):
            assert re.search(rf"^\s+{part}: data/{folder}/{part}$", text, re.M)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented(name):
    section = (ROOT / "docs" / "commands.md").read_text("utf-8").split(f"## nmt-{name}\n")[1].split("\n## ")[0]
    assert options_of(name) <= set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", section)), "run make docs"


def schema_paths(node, schema, prefix=""):
    """Yields the dotted path of every setting of a JSON schema, sections included."""
    for key, child in node.get("properties", {}).items():
        yield prefix + key
        for part in [child, *child.get("anyOf", []), *child.get("allOf", [])]:
            if "$ref" in part:
                part = schema["$defs"][part["$ref"].rsplit("/", 1)[-1]]
            yield from schema_paths(part, schema, f"{prefix}{key}.")


@cache
def anchors(path):
    """The anchors of a page's headings, as the repository's host makes them."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.M | re.S)
    headings = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line) for line in re.findall(r"^#+ (.*)$", text, re.M))
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if not re.match(r"[a-z]+:", target):
            name, _, anchor = target.partition("#")
            path = page.parent / name if name else page
            assert path.exists(), target
            if path.suffix == ".md" and anchor and not anchor.startswith("module-"):
                assert anchor in anchors(path), target


def test_make_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    phony = set(re.search(r"^\.PHONY: (.+)$", makefile, re.M).group(1).split()) - {"help"}
    assert {f"make {target}" for target in phony} == set(re.findall(r"'(make [a-z-]+) ", makefile))


def page_files(page, folder):
    """Write a page's Python blocks that begin with a file's name; returns the names."""
    blocks = {block.split()[1]: block for block in code_blocks(page, "python") if block.startswith("# ")}
    for name, block in blocks.items():
        (folder / name).write_text(block, "utf-8")
    return set(blocks)


STEP = (ROOT / "docs" / "lstm-step.md").read_text("utf-8")


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64")
    or f"LLVM {'.'.join(map(str, binding.llvm_version_info))}," not in STEP,
    reason="the page shows the assembly of one version of LLVM for x86-64 with Linux",
)
def test_the_page_of_a_step_shows_what_the_compiler_makes_today():
    """As `make docs` would write it, in a process that compiles for the page's processor."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r}); import lstm_step\n"
        "sys.stdout.write(lstm_step.refreshed(lstm_step.PAGE.read_text('utf-8')))"
    )
    assert python(code, NMT_CPU="avx2", NMT_CPU_UNCHECKED="1").stdout == STEP, "run make docs"


def test_a_new_cell_as_the_page_says(tmp_path, monkeypatch):
    page = ROOT / "docs" / "add-a-cell.md"
    assert page_files(page, tmp_path) == OF_PAGES | {"more_cells.py", "tied_cells.py"}
    command = next(line for line in "".join(code_blocks(page, "bash")).splitlines() if line.startswith("nmt-train"))
    settings = [word for word in shlex.split(command) if word.startswith("model.")]
    monkeypatch.chdir(tmp_path)
    config = load_config(ROOT / "configs" / "quickstart.yaml", settings)
    import_cells(config)
    cells = [type(cell).__name__ for cell in (*encoder_cells(config.model), *decoder_layers(config.model))]
    assert set(cells) == {"MGUCell"} and Bridge(config.model).routes
    zoneout = load_config(ROOT / "configs" / "quickstart.yaml", ["model.encoder.rnn_type=more_cells.zoneout_lstm"])
    import_cells(zoneout)
    assert isinstance(encoder_cells(zoneout.model)[0], ZoneoutCell)
    options = {"capture_output": True, "text": True, "check": True, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    printed = subprocess.run([sys.executable, "my_cells.py"], **options).stdout.splitlines()
    shown = "".join(code_blocks(page, "text")).splitlines()
    assert printed[:2] == shown[:2] and printed[-1] == shown[-1]
    assert [line[:64].rstrip() for line in printed[2:5]] == [line[:64].rstrip() for line in shown[2:5]]
    tied = [sys.executable, "-c", "from nmt.rnn import check; from tied_cells import TiedCell; check(TiedCell)"]
    assert subprocess.run(tied, **options).stdout.splitlines()[-1] == "TiedCell: all 13 hold"


def test_code_that_the_page_of_settings_shows_stands_where_it_says():
    blocks = code_blocks(ROOT / "docs" / "extending.md", "python")
    assert len(blocks) == 3
    for block in blocks:
        place, code = block.removeprefix("# ").split("\n", 1)
        standing = [line.strip() for line in (ROOT / place).read_text("utf-8").splitlines()]
        shown = [line.strip() for line in code.strip().splitlines()]
        assert any(standing[at : at + len(shown)] == shown for at in range(len(standing))), code


def test_operators_as_their_page_says():
    """The examples run one after the other, and the table's keywords exist."""
    page = ROOT / "docs" / "library.md"
    first, second, steps, node = code_blocks(page, "python")[3:7]
    names = {}
    exec(compile(first, page.name, "exec"), names)
    assert names["found"].d_x.shape == names["x"].shape and names["y"].shape == (7, 3, 256)
    before = names["layer"].flat.copy()
    exec(compile(second, page.name, "exec"), names)
    assert (names["layer"].flat != before).mean() > 0.9 and not names["dw"].any()
    exec(compile(steps, page.name, "exec"), names)
    assert names["y"].shape == (1, 3, 16) and not names["decoder"].params["W_h_l0"].flags.writeable
    layer = LSTM(3, 4, bidirectional=True)
    names |= {"attributes": {"direction": "bidirectional"}, "inputs": ["B"], "P": None}
    names |= {"input_size": 3, "hidden_size": 4} | layouts.to_onnx("LSTM", layer.params)
    exec(compile(node, page.name, "exec"), names)
    np.testing.assert_array_equal(names["layer"].flat, layer.flat)
    options = page.read_text("utf-8").split("### Options\n")[1].split("\n### ")[0]
    table = "".join(row.split("|")[1] for row in options.splitlines() if row.startswith("| `"))
    own = {name for one in (LSTM, GRU, RNN) for name in inspect.signature(one.__init__).parameters}
    keywords = set(re.findall(r"`(\w+)", table))
    assert keywords <= own | set(LayerOptions.__annotations__)
    common = {"self", "input_size", "num_layers", "options"}
    plain = {"bias", "dropout", "dtype", "compute_dtype", "threads", "recompute", "device"}
    assert (own - common) | (set(LayerOptions.__annotations__) - plain) == keywords


def test_scans_as_their_page_says():
    """The examples run one after the other, and give what the text between them promises."""
    page, names = ROOT / "docs" / "library.md", {}
    for block in code_blocks(page, "python")[:3]:
        exec(compile(block, page.name, "exec"), names)
    run, back, mask = names["run"], names["back"], names["mask"]
    assert not run.y[2:, 1].any() and run.y[:2, 1].all()
    assert set(back.initial) == set(run.final) and back.captured["memory"].shape == names["memory"].shape
    assert all(gradient.any() for gradient in names["gradients"].values())
    np.testing.assert_allclose(names["attention"][..., 0].sum(axis=1), mask, atol=1e-6)
    assert sorted(names["result"].tapes) == [0, 4, 8]
    assert all(gradient.any() for gradient in names["d_own"].values())


def test_the_cell_of_the_page_of_cells(capsys):
    page, names = ROOT / "docs" / "cells.md", {"__name__": "page"}
    (block,) = code_blocks(page, "python")
    exec(compile(block, page.name, "exec"), names)
    names["check"](names["GLACell"], hidden_size=8)
    assert "GLACell" in capsys.readouterr().out


def test_the_compiler_as_its_page_shows_it(capsys):
    """Every text is one that a command of the page prints today, or the Python above it."""
    page = ROOT / "docs" / "compiler.md"
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    commands = [shlex.split(line) for line in "".join(code_blocks(page, "bash")).splitlines()]
    # The page's commands are run in this process; tests/test_show.py starts one of its own.
    own = [words[3:] for words in commands if "-o" not in words and not OF_PAGES & {w.split(":")[0] for w in words}]
    assert len(own) > 2
    printed = []
    for words in own:
        assert show(words) == 0
        printed.append(capsys.readouterr().out)
    compared = 0
    for (before, code), (language, text) in zip(blocks, blocks[1:], strict=False):
        if language != "text":
            continue
        if before == "python":
            assert python(code).stdout == text
        else:
            piece = text.removeprefix("...\n").removesuffix("...\n").rstrip("\n")
            assert any(piece in output for output in printed), piece
        compared += 1
    assert compared > 8


# Page -> how many of its blocks are run, with a small model under every name that they load.
RUN_HERE = {"README.md": 2, "docs/decoding.md": 1, "docs/migration.md": 1, "docs/threads.md": 1}
# Page -> the test that runs its blocks, or holds them to the code.
RUN_ELSEWHERE = {
    "docs/add-a-cell.md": "tests/test_docs.py::test_a_new_cell_as_the_page_says",
    "docs/learning.md": "tests/learning/test_learning.py::test_the_page_of_learning",
    "docs/extending.md": "tests/test_docs.py::test_code_that_the_page_of_settings_shows_stands_where_it_says",
    "docs/compiler.md": "tests/test_docs.py::test_the_compiler_as_its_page_shows_it",
    "docs/python.md": "tests/test_docs.py::test_the_page_of_python",
    "docs/many-machines.md": "tests/test_tutorials.py::test_the_function_for_engines",
    "docs/cells.md": "tests/test_docs.py::test_the_cell_of_the_page_of_cells",
    "docs/library.md": "tests/test_docs.py::test_operators_as_their_page_says",
    "docs/tutorials/lesson.md": "tests/test_tutorials.py::test_a_page_can_be_followed",
}


def test_every_page_with_python_has_a_test_that_runs_it():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    found = {page.relative_to(ROOT).as_posix(): len(code_blocks(page, "python")) for page in pages}
    assert {name for name, count in found.items() if count} == RUN_HERE.keys() | RUN_ELSEWHERE.keys()
    assert {name: found[name] for name in RUN_HERE} == RUN_HERE
    for place in RUN_ELSEWHERE.values():
        file, _, name = place.partition("::")
        assert f"def {name}" in (ROOT / file).read_text("utf-8")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with a small model under each name that a page loads."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("multi30k_de_en", "demo", "mine"):
        write_folder(folder / "runs" / name)
    (folder / "test.de").write_text("kara losu\nmiti\n", "utf-8")
    return folder


@pytest.mark.parametrize("name", RUN_HERE)
def test_the_blocks_of_a_page_run(name, models, monkeypatch, capsys):
    monkeypatch.chdir(models)
    names = {"translator": Translator.load("runs/multi30k_de_en", threads=1)}
    for block in code_blocks(ROOT / name, "python"):
        exec(compile(block, name, "exec"), names)
    assert bool(capsys.readouterr().out) == any("print(" in block for block in code_blocks(ROOT / name, "python"))


def test_the_page_of_python(tmp_path, monkeypatch, capsys):
    """Trains, translates and saves as the page says, on a corpus of its own."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    for lang in ("de", "en"):
        (tmp_path / f"train.{lang}").write_text("".join(f"{line}\n" for line in sentences(200)), "utf-8")
    names = {}
    for block in code_blocks(python_page.PAGE, "python"):
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
            told = names - {"confidence"}
            assert all(f"        {name}: " in kind.__doc__ for name in told), "help shows each of them"
