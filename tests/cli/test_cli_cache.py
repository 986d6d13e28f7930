"""nmt-cache: what it says of the store, and that it empties and fills it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.saved_models import write_folder

ROOT = Path(__file__).resolve().parents[2]


def run(cache, *arguments, code="from nmt.cli.entry import cache; cache()"):
    environment = {**os.environ, "NMT_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_an_empty_store_is_listed(tmp_path):
    done = run(tmp_path / "new")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"{tmp_path / 'new' / 'nmt-code'}: 0 functions, 0 bytes")
    assert run(tmp_path / "new", "list").stderr == done.stderr


def test_what_a_model_runs_is_compiled_beforehand_and_removed_again(tmp_path):
    """And then translating loads no compiler."""
    model, cache = write_folder(tmp_path / "model"), tmp_path / "cache"
    filled = run(cache, "fill", model, "--threads", 1)
    assert filled.returncode == 0, filled.stderr
    assert str(model) in filled.stderr
    listed = run(cache)
    lines = [line.split("\t") for line in listed.stdout.splitlines()]
    assert len(lines) > 10
    assert sum(int(size) for _, size, _ in lines) == sum(p.stat().st_size for p in (cache / "nmt-code").iterdir())
    code = (
        "import sys; from nmt import Translator\n"
        "Translator.load(sys.argv[1], threads=1).translate(['a b', 'b'])\nprint('numba' in sys.modules)"
    )
    translated = run(cache, model, code=code)
    assert translated.stdout == "False\n", translated.stderr
    cleared = run(cache, "clear")
    assert cleared.stderr == f"{cache / 'nmt-code'}: {len(lines)} functions removed\n"
    assert list((cache / "nmt-code").iterdir()) == []


@pytest.mark.parametrize("arguments", [("clear", "model"), ("list", "model"), ("fill", "missing")])
def test_mistakes_are_one_line(tmp_path, arguments):
    done = run(tmp_path, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


def test_without_a_folder_it_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    code = (
        "from nmt.rnn.kernels.machine_code import store; store.tempfile.gettempdir = lambda: '/proc/nothing'\n"
        "from nmt.cli.entry import cache; cache()"
    )
    done = run(tmp_path / "file", code=code)
    assert done.returncode == 1
    assert "NMT_CACHE_DIR" in done.stderr


def test_a_number_format_is_that_of_a_model(tmp_path, monkeypatch):
    """The code of int8 was not compiled beforehand for a server that uses it."""
    refused = run(tmp_path / "cache", "list", "--compute-dtype", "int8")
    assert refused.returncode == 1 and "--compute-dtype changes nothing without the models of fill" in refused.stderr
    monkeypatch.setenv("NMT_SHIPPED_CODE", "0")
    model, listed = write_folder(tmp_path / "model"), []
    for words in ((), ("--compute-dtype", "int8")):
        assert run(tmp_path / "cache", "fill", model, *words).returncode == 0
        listed.append(len(run(tmp_path / "cache").stdout.splitlines()))
    assert 0 < listed[0] < listed[1]
