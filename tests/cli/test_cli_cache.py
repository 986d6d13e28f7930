"""nmt-cache: what it says of the store, and that it empties and fills it."""

import shutil

import pytest

from tests.processes import python
from tests.saved_models import write_folder


def run(cache, *arguments, program="from nmt.cli.entry import cache; cache()", code=0):
    return python(program, *arguments, code=code, NMT_CACHE_DIR=str(cache), NMT_SHIPPED_CODE="0")


def test_an_empty_store_is_listed(tmp_path):
    done = run(tmp_path / "new")
    assert done.stdout == ""
    assert done.stderr.startswith(f"{tmp_path / 'new' / 'nmt-code'}: 0 functions, 0 bytes")
    assert run(tmp_path / "new", "list").stderr == done.stderr


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A model, a store with the code that it runs, and what was said when that was compiled."""
    folder = tmp_path_factory.mktemp("filled")
    model = write_folder(folder / "model")
    return model, folder / "cache", run(folder / "cache", "fill", model, "--threads", 1).stderr


def test_a_command_tells_of_compilation_once_on_a_machine(filled):
    model, cache, said = filled
    assert str(model) in said
    assert said.count("compiling machine code, once on this machine") == 1
    assert "compiling" not in run(cache, "fill", model, "--threads", 1).stderr


def test_what_a_model_runs_is_compiled_beforehand_and_removed_again(filled, tmp_path):
    """And then translating loads no compiler."""
    model, cache = filled[0], shutil.copytree(filled[1], tmp_path / "cache")
    lines = [line.split("\t") for line in run(cache).stdout.splitlines()]
    assert len(lines) > 10
    assert sum(int(size) for _, size, _ in lines) == sum(p.stat().st_size for p in (cache / "nmt-code").iterdir())
    program = (
        "import sys; from nmt import Translator\n"
        "Translator.load(sys.argv[1], threads=1).translate(['a b', 'b'])\nprint('numba' in sys.modules)"
    )
    assert run(cache, model, program=program).stdout == "False\n"
    assert run(cache, "clear").stderr == f"{cache / 'nmt-code'}: {len(lines)} functions removed\n"
    assert list((cache / "nmt-code").iterdir()) == []


def test_without_a_folder_it_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    program = (
        "from nmt.rnn.kernels.machine_code import store; store.tempfile.gettempdir = lambda: '/proc/nothing'\n"
        "from nmt.cli.entry import cache; cache()"
    )
    assert "NMT_CACHE_DIR" in run(tmp_path / "file", program=program, code=1).stderr


def test_a_number_format_is_that_of_a_model(filled, tmp_path):
    """The code of int8 was not compiled beforehand for a server that uses it."""
    model, cache = filled[0], shutil.copytree(filled[1], tmp_path / "other")
    before = len(run(cache).stdout.splitlines())
    run(cache, "fill", model, "--compute-dtype", "int8")
    assert 0 < before < len(run(cache).stdout.splitlines())
