"""The benchmarks of a GPU on the stand-in: checks, tables, the recipe, and each step of the first ten minutes."""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nmt.rnn.kernels.cuda.device_cuda import CudaDevice
from tests import waiting
from tests.devices import runtime_with


@pytest.fixture
def gpu(monkeypatch):
    module = importlib.import_module("gpu")
    monkeypatch.setattr(module, "TURN_SECONDS", 0)
    monkeypatch.setattr(module, "TURNS", 1)
    yield module
    for name in ("gpu", "_gpu_peer"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_rows_of_a_case(cell, gpu):
    runtime, rows = runtime_with(), []
    gpu.case(cell, gpu.Shape("tiny", 2, 2, 4, 8, mean_length=2), CudaDevice(runtime), rows)
    ours = [row for row in rows if row["contender"].startswith("ours")]
    assert [row["contender"] for row in ours] == ["ours float32", "ours bfloat16"]
    assert all(row["training"] > 0 and "failed" not in row for row in ours), ours
    # Without a GPU PyTorch's rows say why they are empty.
    assert all("failed" in row for row in rows if row["contender"].startswith("torch"))


def test_what_disagrees_is_named(gpu):
    ones, twos = {"y": np.ones(3)}, {"y": np.full(3, 2.0)}
    assert gpu.wrong(ones, twos, 1e-3) == "y is off by 5.0e-01, allowed 1e-03"
    assert gpu.wrong(twos, twos, 1e-3) is None


def test_persistent_rows(gpu):
    runtime, rows = runtime_with(multiprocessors=132), []
    gpu.persistent("gru", gpu.Shape("tiny", 1, 2, 4, 32), runtime, rows)
    gpu.persistent("gru", gpu.Shape("tiny", 1, 2, 4, 20), runtime, rows)
    assert rows[0]["backward us a step"] > 0
    assert rows[2]["failed"] == "does not fit"


@pytest.fixture
def gpu_recipe():
    return importlib.import_module("gpu_recipe")


def test_losses_are_compared_relatively_and_one_for_one(gpu_recipe, capsys):
    assert gpu_recipe.compare_losses([4.0, 2.0], [4.0, 2.02]) == pytest.approx(0.01)
    assert "update     2" in capsys.readouterr().out
    for other in ([4.0], []):
        with pytest.raises(SystemExit, match="as many on both devices"):
            gpu_recipe.compare_losses([4.0, 2.0], other)


def test_a_line_may_differ_where_scores_are_as_near_as_rounding(gpu_recipe, capsys):
    first = [{"text": text, "score": -1.0} for text in ("a", "b", "c")]
    second = [{"text": "a", "score": -1.5}, {"text": "x", "score": -1.0 + 1e-5}, {"text": "y", "score": -1.1}]
    assert gpu_recipe.compare_translations(first, second) == 1
    out = capsys.readouterr().out
    assert "line 2: tie" in out and "line 3: DIFFERS" in out and "1 of 3 lines are the same, 1 ties, 1 differ" in out


def test_the_commands_are_those_of_the_package(gpu_recipe, capfd):
    for command in ("nmt-train", "nmt-translate"):
        gpu_recipe.run(command, "--help")
        assert f"Usage: {command}" in capfd.readouterr().out
    with pytest.raises(SystemExit, match="must end with exit code 0"):
        gpu_recipe.run("nmt-train", "--no-such-option")


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
