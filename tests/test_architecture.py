"""Who imports whom, and what `import nmt` loads."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "data_scripts"
# What takes long to load or is only needed for work.
HEAVY = ("numba", "llvmlite", "pydantic", "yaml", "click", "sentencepiece", "sacrebleu", "rich")


def loaded_by(statement):
    """Returns the top-level modules that a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    command = [sys.executable, "-c", code]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


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
    command = [found, "--no-cache", "--no-logo"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
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
