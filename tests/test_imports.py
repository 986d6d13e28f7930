"""No module of nmt imports itself in the end: a circle is two modules that are one, or a part that lies in the wrong
place. Imports for types alone and imports inside functions count as well."""

import pytest

pytest.importorskip("grimp", reason="needs import-linter")

from docs.rooms import Graph, import_graph

ALLOWED = [["nmt.rnn.graph", "nmt.rnn.ops"]]
"""Circles that there are: see docs/decisions.md."""


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
    assert circles(import_graph("nmt")) == ALLOWED


def test_every_kind_of_import_makes_a_circle(tmp_path, monkeypatch):
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
