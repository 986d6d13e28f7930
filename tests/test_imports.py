"""Who imports whom, and what `import nmt` loads. No module of nmt imports itself in the end: a circle is two modules
that are one, or a part that lies in the wrong place. Imports for types alone, inside functions and by a name in a
string count as well."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import python

Graph = dict[str, set[str]]

ALLOWED = [["nmt.rnn.graph", "nmt.rnn.ops"]]
COMPILER = [
    *(f"nmt.rnn.kernels.machine_code.{name}" for name in ("jit", "native")),
    *(f"nmt.rnn.kernels.memory.{name}" for name in ("arrays", "compiling", "table_layout")),
]
"""Circles that there are: see ARCHITECTURE.md."""


@pytest.fixture
def import_graph():
    pytest.importorskip("grimp", reason="needs import-linter")
    from docs.rooms import import_graph

    return import_graph


def circles(graph: Graph) -> list[list[str]]:
    """Sets of modules that all reach one another."""
    reached: dict[str, set[str]] = {}
    for module in graph:
        seen: set[str] = set()
        waiting = list(graph[module])
        while waiting:
            if (one := waiting.pop()) not in seen:
                seen.add(one)
                waiting.extend(graph[one])
        reached[module] = seen
    found = {frozenset(n for n in reached[m] if m in reached[n]) for m in graph if m in reached[m]}
    return sorted(sorted(one) for one in found)


def with_names_in_strings(graph: Graph, root: Path) -> Graph:
    """The graph with what `import_module` imports by a name of ours, f"{__package__}.name" as well."""
    found = {module: set(imported) for module, imported in graph.items()}
    for path in root.rglob("*.py"):
        module = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                name = ast.unparse(node.args[0]).strip("f'\"").replace("{__package__}", module.rpartition(".")[0])
                if name in found:
                    found[module].add(name)
    return found


def test_there_are_no_circles_but_those_that_are_written_down(import_graph):
    graph = import_graph("nmt")
    assert circles(graph) == ALLOWED
    assert circles(with_names_in_strings(graph, Path(__file__).parents[1] / "nmt")) == sorted([*ALLOWED, COMPILER])


def test_every_kind_of_import_makes_a_circle(import_graph, tmp_path, monkeypatch):
    house = tmp_path / "house"
    house.mkdir()
    (house / "__init__.py").write_text("from house.high import y\n")
    (house / "low.py").write_text("from house.middle import z\nx = 1\n")
    (house / "middle.py").write_text("from house import high\nz = 1\n")
    (house / "high.py").write_text("y = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert circles(import_graph("house")) == []
    for way_back in ("from . import low", "if TYPE_CHECKING:\n    import house.low", "def f():\n    import house.low"):
        (house / "high.py").write_text(f"from typing import TYPE_CHECKING\n{way_back}\ny = 1\n")
        assert circles(import_graph("house")) == [["house.high", "house.low", "house.middle"]]


ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "data_scripts"
# What takes long to load or is only needed for work.
HEAVY = ("numba", "llvmlite", "pydantic", "yaml", "click", "sentencepiece", "sacrebleu", "rich")


def loaded_by(statement):
    """Returns the top-level modules that a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    return set(python(code).stdout.split())


@pytest.mark.parametrize("statement", ["import nmt", "import nmt.errors"])
def test_import_is_light(statement):
    loaded = loaded_by(statement)
    assert "nmt" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_loading_is_noticed():
    assert "yaml" in loaded_by("import yaml")


@pytest.mark.parametrize("module", ["nmt.config", "nmt.cli.commands.translate"])
def test_numba_waits_for_work(module):
    assert loaded_by(f"import {module}").isdisjoint({"numba", "llvmlite"})


def test_import_contracts_hold():
    tool = Path(sys.executable).with_name("lint-imports")
    found = str(tool) if tool.exists() else shutil.which("lint-imports")
    if found is None:
        pytest.skip("import-linter is not installed")
    answer = subprocess.run([found, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("path", sorted(SCRIPTS.rglob("*.py")), ids=lambda path: path.name)
def test_corpus_scripts_need_only_python(path):
    """So that they run before anything is installed, and never lean on nmt."""
    own = {file.stem for file in SCRIPTS.iterdir()}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        else:
            continue
        for module in modules:
            assert module.split(".")[0] in own | sys.stdlib_module_names
