"""The first minutes on a card, on the stand-in: each step, and what is written when one hangs, breaks or is killed."""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import waiting

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="GPUs are used on Linux")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def card():
    yield importlib.import_module("card")
    sys.modules.pop("card", None)


def test_a_dry_run_of_all_steps(tmp_path):
    pytest.importorskip("numba_cuda", reason="kernels run by their PTX: pip install -e .[cuda-compiler]")
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, ROOT / "benchmarks" / "card.py", "--dry-run"]
    ran = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={**given, "OUT": str(tmp_path / "out")}, check=False
    )
    rows = {row["step"]: row for row in json.loads((tmp_path / "out" / "card.json").read_text())}
    assert ran.returncode == 0, ran.stdout
    may_lack = {"compile": "numba-cuda"}
    for name, row in rows.items():
        assert row["state"] == "ok" or (row["state"] == "missing" and may_lack[name] in row["last"]), ran.stdout
    speeds = json.loads((tmp_path / "out" / "operators.json").read_text())
    assert [row["contender"] for row in speeds["operators"] if "training" in row] == ["ours float32", "ours bfloat16"]
    log = (tmp_path / "out" / "card.txt").read_text()
    assert [line[5:] for line in log.splitlines() if line.startswith("==== ")] == list(rows)


def test_all_limits_together_are_nine_minutes(card):
    assert sum(limit for _, limit in card.STEPS.values()) <= 540
    assert sum(limit + 2 * card.GRACE for _, limit in card.STEPS.values()) <= 600


def test_a_run_that_is_stopped_as_a_whole_has_written_what_came_before(tmp_path):
    """The rows of the steps before, the one that ran, and what that had printed; the next call adds to these."""
    script = tmp_path / "run.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r})\n"
        "import card, os, time\n"
        "def says(place): print('found', flush=True)\n"
        "def dies(place): print(os.getpid(), flush=True); time.sleep(600)\n"
        "card.STEPS = {'one': (says, 60), 'two': (says, 60), 'three': (dies, 60), 'four': (says, 60)}\n"
        "card.__file__ = __file__\n"
        "sys.exit(card.main())\n"
    )
    command = [sys.executable, script, "--out", tmp_path]
    whole = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
    log = tmp_path / "card.txt"
    try:
        waiting.until(lambda: log.exists() and re.search(r"three\n\d+\n", log.read_text()))
    finally:
        whole.kill()
        whole.wait()
    before = log.read_text()
    os.kill(int(before.split()[-1]), signal.SIGKILL)
    rows = json.loads((tmp_path / "card.json").read_text())
    assert [(row["step"], row["state"]) for row in rows] == [("one", "ok"), ("two", "ok"), ("three", "running")]
    assert re.fullmatch(r"==== one\nfound\n==== two\nfound\n==== three\n\d+\n", before)
    assert subprocess.run([*command, "--only", "four", "two"], cwd=ROOT, check=False).returncode == 0
    rows = json.loads((tmp_path / "card.json").read_text())
    assert [(row["step"], row["state"]) for row in rows] == [
        ("one", "ok"),
        ("two", "ok"),
        ("three", "running"),
        ("four", "ok"),
    ]
    assert log.read_text() == f"{before}==== four\nfound\n==== two\nfound\n"


def test_a_step_that_hangs_or_breaks_leaves_the_others_their_turn(card, tmp_path, monkeypatch, capfd):
    """Also where its own children hang, and hear nothing of the request to end."""
    script = tmp_path / "steps.py"
    script.write_text(
        "import os, signal, subprocess, sys, time\n"
        "name = sys.argv[2]\n"
        "print('begun', name, flush=True)\n"
        "if name == 'start':\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    print(child.pid, flush=True)\n"
        "    time.sleep(600)\n"
        "sys.exit({'machine': 0, 'compile': 3, 'products': 1}[name])\n"
    )
    monkeypatch.setattr(card, "__file__", str(script))
    monkeypatch.setattr(card, "STEPS", {name: (None, 3) for name in ("machine", "compile", "start", "products")})
    monkeypatch.setattr(card, "GRACE", 0.5)
    monkeypatch.setattr(sys, "argv", ["card.py", "--out", str(tmp_path)])
    assert card.main() == 1
    rows = json.loads((tmp_path / "card.json").read_text())
    assert [row["state"] for row in rows] == ["ok", "missing", "stopped", "failed"]
    assert rows[2]["seconds"] < 30
    child = Path("/proc") / rows[2]["last"] / "stat"
    assert not child.exists() or child.read_text().split()[2] == "Z"
    assert "begun products" in capfd.readouterr().out


def test_a_machine_without_a_gpu_is_told_so_by_each_step(tmp_path):
    (tmp_path / "cupy.py").write_text("raise ImportError('no module named cupy')\n")
    command = [sys.executable, ROOT / "benchmarks" / "card.py", "--out", tmp_path, "--only", "machine", "start"]
    given = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(command, capture_output=True, text=True, env=given, check=False)
    assert ran.returncode == 1, ran.stdout
    rows = json.loads((tmp_path / "card.json").read_text())
    assert [row["state"] for row in rows] == ["ok", "failed"]
    assert rows[1]["last"].startswith(
        "cuda: the packages cupy and numba-cuda must be installed, got no module named cupy"
    )


def test_what_is_wrong_fails_the_step(card):
    import numpy as np

    with pytest.raises(SystemExit, match="y: must be within 1e-03"):
        card._right("y", np.full(3, 1.1), np.ones(3), 1e-3)
    with pytest.raises(SystemExit, match="y: must be within 1e-03"):
        card._right("y", np.full(3, np.nan), np.ones(3), 1e-3)


def test_packages_may_be_carried_as_wheels(card, tmp_path):
    import zipfile

    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels" / "carried-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("carried.py", "WEIGHT = 3\n")
    path = card.unpacked(tmp_path / "wheels", tmp_path / "site")
    script = "import carried, nmt; print(carried.WEIGHT, nmt.__file__)"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert ran.stdout.split() == ["3", str(ROOT / "nmt" / "__init__.py")], ran.stderr
