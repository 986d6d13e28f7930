"""The scripts of benchmarks/: what they import is there, and their arguments can be read."""

import ast
import runpy
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(BENCHMARKS.glob("*.py"))
_OPTIONAL = {"ctranslate2", "cupy", "matplotlib", "onmt", "torch", "yoyodyne"}


def test_what_the_scripts_import_of_nmt_is_there():
    """One of them asked for names that were gone, and nobody had run it since."""
    gone = []

    def is_there(module, name):
        return hasattr(module, name) or (hasattr(module, "__path__") and find_spec(f"{module.__name__}.{name}"))

    for path in SCRIPTS:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "nmt":
                module = import_module(node.module)
                gone += [f"{path.name}: {module.__name__}.{a.name}" for a in node.names if not is_there(module, a.name)]
    assert gone == []


@pytest.mark.parametrize(
    "path", [p for p in SCRIPTS if p.stem[0] != "_" and "ArgumentParser" in p.read_text("utf-8")], ids=lambda p: p.stem
)
def test_the_help_of_a_script_is_written(path, monkeypatch, capsys):
    """One of them asked for a script that had been removed."""
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    try:
        with pytest.raises(SystemExit, match="^0$"):
            runpy.run_path(str(path), run_name="__main__")
    except ModuleNotFoundError as error:
        if error.name not in _OPTIONAL:
            raise
        pytest.skip(f"needs {error.name}")
    assert "usage: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("mxnet", (300, 20, 800, 800, 1, False)),
        ("mxnet5", (300, 20, 800, 800, 5, False)),
        ("mxnet5bi", (300, 20, 800, 800, 5, True)),
        ("cudnn", (8, 128, 1024, 1024, 3, False)),
    ],
)
def test_shapes_are_those_of_the_tables_of_others(name, sizes) -> None:
    """MXNet's second table has one direction in its caption and both in its heading."""
    from _cases import SHAPES

    shape = SHAPES[name]
    assert (shape.T, shape.N, shape.I, shape.H, shape.layers, shape.bidirectional) == sizes
