"""No module of nmt imports itself in the end: a circle is two modules that are one, or a part that lies in the wrong
place. Imports for types alone and imports inside functions count as well."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import nmt

Graph = dict[str, set[str]]

ALLOWED = [["nmt.rnn.graph", "nmt.rnn.ops"]]
"""Circles that there are: see ARCHITECTURE.md."""


def modules(package: Path) -> dict[str, Path]:
    """The modules of a package and of all below it, by name. Not the package itself: importing any of them imports it
    first, and its own names, which are loaded when asked for, are nobody's below it."""
    names = {path: path.relative_to(package.parent).with_suffix("").parts for path in package.rglob("*.py")}
    dotted = {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in names.items()}
    dotted.pop(package.name, None)
    return dotted


def imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[str, str | None]]:
    """What a file imports, wherever in it: names of modules, each with a name that is taken out of it or None."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            here = module.split(".") if is_package else module.split(".")[:-1]
            outer = here[: len(here) - node.level + 1] if node.level else []
            base = ".".join([*outer, *([node.module] if node.module else [])])
            yield from ((base, alias.name) for alias in node.names)


def import_graph(files: Mapping[str, Path]) -> Graph:
    """Which of these modules each of them imports."""
    graph: Graph = {}
    for module, path in files.items():
        found = imported(ast.parse(path.read_text()), module, path.name == "__init__.py")
        named = {f"{base}.{name}" if f"{base}.{name}" in files else base for base, name in found}
        graph[module] = {name for name in named if name in files and name != module}
    return graph


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


def test_there_are_no_circles_but_those_that_are_written_down():
    assert circles(import_graph(modules(Path(nmt.__file__).parent))) == ALLOWED


@pytest.mark.parametrize(
    "way_back",
    [
        "from house.low import x",
        "import house.low",
        "from . import low",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.low import x",
        "def f():\n    from house.low import x",
        "class C:\n    def f(self):\n        import house.low as other",
    ],
)
def test_every_kind_of_import_makes_a_circle(tmp_path, way_back):
    house = tmp_path / "house"
    house.mkdir()
    (house / "__init__.py").write_text("from house.high import y\n")
    (house / "low.py").write_text("from house.middle import z\nx = 1\n")
    (house / "middle.py").write_text("from house import high\nz = 1\n")
    (house / "high.py").write_text("y = 1\n")
    assert circles(import_graph(modules(house))) == []
    (house / "high.py").write_text(f"{way_back}\ny = 1\n")
    found = circles(import_graph(modules(house)))
    assert found == [["house.high", "house.low", "house.middle"]]
