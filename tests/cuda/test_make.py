"""`make test-gpu` and `make bench-gpu` on a bare machine: nothing of the project is installed, nor pydantic, CuPy."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def bare(tmp_path):
    """A Python that sees the installed packages, but not the checkout, and none of those that such a machine lacks."""
    for name in ("pydantic", "cupy"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('no module named {name}')\n")
    packages = Path(np.__file__).parents[1]
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={tmp_path}:${{PYTHONPATH:+$PYTHONPATH:}}{packages} exec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    return python


def make(target, bare, tmp_path, *variables):
    """Exit status, and everything that was written."""
    command = ["make", "-C", ROOT, target, f"GPU_PYTHON={bare}", f"OUT={tmp_path / 'out'}", *variables]
    given = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MAKEFLAGS")}
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=given, check=False)
    logs = tmp_path / "out" / "tests.txt"
    return ran.returncode, ran.stdout + ran.stderr + (logs.read_text() if logs.exists() else "")


def test_a_bare_machine_is_told_what_it_lacks(bare, tmp_path):
    status, text = make("bench-gpu", bare, tmp_path)
    assert status != 0
    assert "cuda: the packages cupy and numba-cuda must be installed, got no module named cupy; " in text


def test_the_persistent_kernels_are_tested_and_no_planted_bug_is(bare, tmp_path):
    """A planted bug may spin for ever on a GPU. What needs other packages is named."""
    variables = ("GPU_WORKERS=0", "PYTEST_ARGS=--collect-only -p no:randomly")
    _, text = make("test-gpu", bare, tmp_path, *variables)
    found = [line for line in text.splitlines() if "::" in line]
    assert sum("test_persistent.py::test_layer" in line for line in found) == 12
    assert not [line for line in found if "test_compile" in line or "test_host_side" in line]
    assert any("test_cells.py::" in line for line in found)
    assert any("test_blas.py::" in line for line in found)


def test_planted_bugs_are_left_out_on_a_gpu(bare, tmp_path):
    script = (
        "import tests.cuda.test_persistent as t; "
        "print([m.args for m in t.test_planted_bug_is_caught.pytestmark if m.name == 'skipif'])"
    )
    given = {**os.environ, "NMT_TEST_DEVICE": "cuda", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([bare, "-c", script], capture_output=True, text=True, cwd=tmp_path, env=given, check=False)
    assert ran.stdout.strip() == "[(True,)]", ran.stderr
