"""Notebooks run as they stand, in a kernel of their own, and print what they were committed with."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
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
