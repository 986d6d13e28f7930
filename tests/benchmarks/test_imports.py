"""The scripts' modules are gone after a test: `translate` is also the name of a library that reads documents."""

import ast
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
_OPTIONAL = {"ctranslate2", "cupy", "matplotlib", "onmt", "torch", "yoyodyne"}


def test_a_library_of_the_same_name_is_left_alone(importable, monkeypatch):
    library = ModuleType("translate")
    monkeypatch.setitem(sys.modules, "translate", library)
    with importable():
        from translate import main

        assert callable(main)
    assert sys.modules["translate"] is library


def test_nothing_stays_loaded(importable):
    before = list(sys.path)
    with importable():
        import peak

        assert peak.__doc__
    assert "peak" not in sys.modules and sys.path == before


def test_what_the_scripts_import_of_nmt_is_there():
    """One of them asked for names that were gone, and nobody had run it since."""
    gone = []

    def is_there(module, name):
        return hasattr(module, name) or (hasattr(module, "__path__") and find_spec(f"{module.__name__}.{name}"))

    for path in sorted(BENCHMARKS.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "nmt":
                module = import_module(node.module)
                gone += [f"{path.name}: {module.__name__}.{a.name}" for a in node.names if not is_there(module, a.name)]
    assert gone == []


def test_what_the_scripts_import_of_one_another_is_there():
    """One of them asked for a script that had been removed."""
    names = {path.stem for path in BENCHMARKS.glob("*.py")}
    asked = {
        (path.name, name)
        for path in sorted(BENCHMARKS.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in imported(node)
    }
    gone = {(path, name) for path, name in asked if name not in names | _OPTIONAL and find_spec(name) is None}
    assert gone == set()


def imported(node):
    """Return the modules that a statement imports, without what is below them."""
    if isinstance(node, ast.Import):
        return [one.name.split(".")[0] for one in node.names]
    return [node.module.split(".")[0]] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
