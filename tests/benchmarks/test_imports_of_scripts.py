"""Scripts in benchmarks import modules that exist: none names one that was removed."""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
OPTIONAL = {"cupy", "torch", "ctranslate2", "onmt", "yoyodyne", "numba", "matplotlib"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_what_a_script_imports_is_there(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
        for name in names:
            first = name.split(".")[0]
            assert (FOLDER / f"{first}.py").is_file() or first in OPTIONAL or find_spec(first), name
