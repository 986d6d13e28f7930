"""The store of machine code: named by all that it is made of, read as it was written, by us; else compiled again."""

import importlib
import json
import linecache
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

from nmt.rnn.kernels.machine_code import features, store
from nmt.rnn.kernels.machine_code.jit import inner_kernel, kernel
from nmt.rnn.kernels.machine_code.native import _BY_SYMBOL, Jitted
from nmt.rnn.kernels.machine_code.recipes import generated_loop
from nmt.rnn.kernels.machine_code.store import Record, Store
from nmt.rnn.kernels.model import update
from nmt.rnn.kernels.products import packing
from nmt.rnn.kernels.products import product as products
from nmt.rnn.kernels.search import beam_loop, candidates
from nmt.rnn.kernels.search import best_tokens as search
from nmt.rnn.kernels.threads import pool, workers
from tests.processes import python

RECORD = Record({"entry": "f", "symbols": ["nmt_g", "exp"]}, bytes(range(256)) * 3)
AS_ROOT = os.name == "posix" and os.geteuid() == 0

# A kernel on two threads: with it the pool's tasks, and functions that these call by their symbols.
WORK = """
import hashlib
import numpy as np
from nmt.rnn.kernels.model.update import square_norm
from nmt.rnn.kernels.threads.pool import run_parallel
x, sums = np.random.default_rng(0).standard_normal(1001).astype("f4"), np.zeros(2)
run_parallel(square_norm, 2, x, sums)
np.testing.assert_allclose(sums.sum(), x @ x, rtol=1e-5)
print(hashlib.sha256(sums.tobytes()).hexdigest())
"""


def run(folder, code=WORK, **environment):
    """What a process prints whose store is in a folder, and what it says besides."""
    done = python(code, NMT_CACHE_DIR=str(folder), **environment)
    return done.stdout, done.stderr


def contents(folder):
    """Every file's name, bytes and time."""
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in (Path(folder) / "nmt-code").iterdir()}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store after one process, and what that printed."""
    folder = tmp_path_factory.mktemp("filled")
    return folder, run(folder)[0]


# ---------------------------------------------------------------- one file


def test_what_was_written_is_read(tmp_path):
    kept = Store(tmp_path)
    assert kept.read("some") is None
    kept.write("some", RECORD)
    assert kept.read("some") == RECORD
    kept.write("some", Record({}, b""))
    assert Store(tmp_path).read("some") == Record({}, b"")
    assert [path.name for path in tmp_path.iterdir()] == ["some.code"]


def test_a_damaged_file_is_not_read_and_said_once(tmp_path, caplog):
    Store(tmp_path).write("some", RECORD)
    path = tmp_path / "some.code"
    whole = path.read_bytes()
    flipped = [whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :] for n in range(0, len(whole), 5)]
    for damaged in [*flipped, *(whole[:n] for n in range(0, len(whole), 5)), whole + b"\0"]:
        path.write_bytes(damaged)
        kept = Store(tmp_path)
        caplog.clear()
        assert kept.read("some") is None
        assert kept.read("some") is None
        assert [str(path) in text for text in caplog.messages] == [True]
    kept.write("some", RECORD)
    assert kept.read("some") == RECORD


@pytest.mark.skipif(os.name != "posix", reason="owners and modes")
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_change_is_not_read(tmp_path, mode, caplog):
    kept = Store(tmp_path)
    kept.write("some", RECORD)
    (tmp_path / "some.code").chmod(mode)
    assert kept.read("some") is None
    assert len(caplog.messages) == 1
    kept.write("some", RECORD)
    assert kept.read("some") == RECORD


@pytest.mark.skipif(not AS_ROOT, reason="only root can give a file away")
def test_a_file_of_another_owner_is_not_read(tmp_path):
    kept = Store(tmp_path)
    kept.write("some", RECORD)
    os.chown(tmp_path / "some.code", 12345, -1)
    assert kept.read("some") is None


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_a_link_is_not_followed(tmp_path):
    Store(tmp_path).write("some", RECORD)
    (tmp_path / "other.code").symlink_to(tmp_path / "some.code")
    assert Store(tmp_path).read("other") is None


def test_a_file_is_ours_alone_whatever_the_umask(tmp_path):
    former = os.umask(0)
    try:
        Store(tmp_path).write("some", RECORD)
    finally:
        os.umask(former)
    assert Store(tmp_path).read("some") == RECORD


def test_what_cannot_be_written_is_not(tmp_path):
    """In no folder, in one that is gone, and on a disk without room."""
    for kept in (Store(None), Store(tmp_path / "gone")):
        kept.write("some", RECORD)
        assert kept.read("some") is None
    resource = pytest.importorskip("resource")
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, former[1]))
    try:
        Store(tmp_path).write("some", RECORD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_reads_is_removed_after_a_month(tmp_path):
    """Also what a process that was killed has left; what is read is as good as new."""
    kept, day = Store(tmp_path), 24 * 3600
    for name in ("read", "unread", "recent"):
        kept.write(name, RECORD)
    (tmp_path / ".left.code.77.nmt-tmp").write_bytes(b"half")
    (tmp_path / "somebody's").write_bytes(b"not ours")
    now = (tmp_path / "read.code").stat().st_mtime
    for path in tmp_path.iterdir():
        age = 29 * day if path.name == "recent.code" else 31 * day
        os.utime(path, (now - age, now - age))
    assert Store(tmp_path).read("read") == RECORD
    Store(tmp_path).write("new", RECORD)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.code", "read.code", "recent.code", "somebody's"]


# ---------------------------------------------------------------- the folder


@pytest.fixture
def found(tmp_path, monkeypatch):
    """The folder of a process whose cache is here, and no other one."""
    monkeypatch.setenv("NMT_CACHE_DIR", str(tmp_path / "here"))
    monkeypatch.setattr(store.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    store.store.cache_clear()
    yield lambda: (store.store.cache_clear(), store.store().folder)[1]
    store.store.cache_clear()


def test_the_folder_is_made_for_us_alone(found, tmp_path):
    former = os.umask(0)
    try:
        assert found() == tmp_path / "here" / "nmt-code"
    finally:
        os.umask(former)
    assert found() == tmp_path / "here" / "nmt-code"


@pytest.mark.skipif(os.name != "posix", reason="owners and modes")
def test_a_folder_that_others_may_write_to_is_not_used_and_said_once(found, tmp_path, caplog):
    found().chmod(0o770)
    assert found().parent.parent == tmp_path / "temporary"
    assert store.store() is store.store()
    assert len(caplog.messages) == 1
    assert str(tmp_path / "here" / "nmt-code") in caplog.text


@pytest.mark.skipif(not AS_ROOT, reason="only root can give a folder away")
def test_a_folder_of_another_owner_is_not_used(found, tmp_path, caplog):
    os.chown(found(), 12345, -1)
    assert found().parent.parent == tmp_path / "temporary"
    assert "user 12345" in caplog.text


def test_nothing_is_made_below_a_home_that_does_not_exist(found, tmp_path, monkeypatch):
    """As of the users of a system's services, where root could make it."""
    monkeypatch.delenv("NMT_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nonexistent"))
    assert found().parent.parent == tmp_path / "temporary" and not (tmp_path / "nonexistent").exists()
    (tmp_path / "nonexistent").mkdir()
    assert found() == tmp_path / "nonexistent" / ".cache" / "nmt" / "nmt-code"


def test_where_nothing_can_be_made_there_is_none(found, tmp_path):
    for name in ("here", "temporary"):
        (tmp_path / name).write_text("a file")
    assert found() is None


# ---------------------------------------------------------------- processes


def test_later_processes_give_the_bits_of_the_first_and_add_nothing(filled):
    folder, printed = filled
    before = contents(folder)
    for seed in ("1", "2"):
        assert run(folder, PYTHONHASHSEED=seed) == (printed, "")
    assert contents(folder) == before


def test_code_that_is_damaged_is_compiled_anew(filled, tmp_path):
    folder, printed = filled
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    names = contents(tmp_path).keys()
    for path in (tmp_path / "nmt-code").iterdir():
        path.write_bytes(path.read_bytes()[:-100])
    answer, said = run(tmp_path)
    assert answer == printed
    assert said.count("compiled again") == 1
    after = contents(tmp_path)
    assert after.keys() == names
    assert run(tmp_path) == (printed, "")
    assert contents(tmp_path) == after


def test_processes_that_compile_at_once_do_not_disturb_one_another(filled, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        assert [printed for printed, _ in pool.map(run, [tmp_path] * 2)] == [filled[1]] * 2
    assert contents(tmp_path).keys() == contents(filled[0]).keys()
    assert run(tmp_path) == (filled[1], "")


def test_without_any_store_all_works_as_well(filled, tmp_path):
    (tmp_path / "file").write_text("a file")
    assert run(tmp_path / "file", TMPDIR=str(tmp_path / "file")) == (filled[1], "")


def test_code_that_calls_what_nobody_knows_is_not_loaded(filled, tmp_path):
    """LLVM would end the process."""
    shutil.copytree(filled[0], tmp_path, dirs_exist_ok=True)
    kept = Store(tmp_path / "nmt-code")
    for path in (tmp_path / "nmt-code").iterdir():
        facts, code = kept.read(path.stem)
        assert json.dumps(facts)
        kept.write(path.stem, Record({**facts, "symbols": [*facts["symbols"], "nmt_unknown"]}, code))
    assert run(tmp_path) == (filled[1], "")


KERNELS = Path(features.__file__).parents[1]
SOURCES = [path.relative_to(KERNELS) for path in KERNELS.rglob("*.py") if "cuda" not in path.parts]
F4, F8, PAIRS = np.dtype("f4"), np.dtype("f8"), np.dtype("u4")


def names_of(function, types="int64"):
    """Both names of a function with one argument."""
    return both_names(Jitted(function, (types,), frozenset()))


def both_names(native):
    """What it is compiled from, and its machine code."""
    return native.source_name, native.code_name


def assert_both_differ(*pairs):
    """Of names that `names_of` gives."""
    for names in zip(*pairs, strict=True):
        assert None not in names
        assert len(set(names)) == len(pairs)


def closing_over(value):
    """A function that closes over a value."""

    def function(part, parts, table):
        return value

    return function


def natives():
    """What is machine code by its address."""
    made = [search.best_task(number, packed) for number, packed in ((F4, F4), (F4, PAIRS), (F8, F8))]
    made += [products.product_task(number, packed) for number, packed in ((F4, F4), (F4, PAIRS), (F8, F8))]
    made += [candidates._candidates_task(F4, F4), pool._run_in_turn]
    made += [beam_loop.search_task(F4), beam_loop.search_task(F8)]
    made += [update.embedding_task(F4, quantised=quantised) for quantised in (False, True)]
    made += [workers.run_all, workers.worker_loop]
    made += [packing.pack.native((f"{kind} 2", "int64", "int64", f"{kind} 1")) for kind in ("float32", "float64")]
    return [*made, *_BY_SYMBOL.values()]


def test_a_change_in_any_file_gives_other_names(tmp_path, monkeypatch):
    copied, names = shutil.copytree(KERNELS, tmp_path / "kernels"), [names_of(closing_over(1))]
    assert features.fingerprint(copied) == features.FINGERPRINT
    for path in sorted(SOURCES):
        text = (copied / path).read_text()
        (copied / path).write_text(text + "\n")
        monkeypatch.setattr(store, "FINGERPRINT", features.fingerprint(copied))
        names.append(names_of(closing_over(1)))
        (copied / path).write_text(text)
    assert_both_differ(*names)


def test_a_file_more_or_less_gives_other_names(tmp_path):
    copied = shutil.copytree(KERNELS, tmp_path / "kernels")
    (copied / "another.py").write_text("")
    assert features.fingerprint(copied) != features.FINGERPRINT


def test_another_target_gives_other_names(monkeypatch):
    names = [names_of(closing_over(1))]
    for changed in ({"max_rows": 1}, {"cpu": "another"}, {"features": "+another"}):
        monkeypatch.setattr(store, "TARGET", replace(features.TARGET, **changed))
        names.append(names_of(closing_over(1)))
    assert_both_differ(*names)


def test_whatever_compiles_gives_other_names_to_code_and_the_same_to_sources(monkeypatch):
    sources, codes = set(), set()
    for name, value in (("NMT_NOTHING", "1"), ("NUMBA_OPT", "1"), ("NUMBA_OPT", "2"), ("NUMBA_CACHE_DIR", "x")):
        monkeypatch.setenv(name, value)
        store.compiler.cache_clear()
        source, code = names_of(closing_over(1))
        sources.add(source)
        codes.add(code)
    monkeypatch.setattr(store, "version", lambda package: f"another {package}")
    store.compiler.cache_clear()
    codes.add(names_of(closing_over(1))[1])
    store.compiler.cache_clear()
    assert (len(sources), len(codes)) == (1, 4)


def test_what_python_runs_gives_another_name_to_code():
    """A file may have changed since it was imported: its text is then not what is compiled."""
    imported, changed = closing_over(1), closing_over(1)
    changed.__code__ = changed.__code__.replace(co_varnames=("one", "two", "three"))
    (source, code), (same, other) = names_of(imported), names_of(changed)
    assert source == same
    assert code != other


def test_all_that_is_called_by_address_has_names_of_its_own():
    assert_both_differ(*map(both_names, natives()))


def test_names_are_the_same_in_every_process():
    code = (
        "from tests.rnn.kernels.test_store import natives; "
        "print(*sorted(name for n in natives() for name in (n.source_name, n.code_name)))"
    )
    # Other tests of this process may have made more.
    here = {str(name) for native in natives() for name in both_names(native)}
    for seed in ("1", "2"):
        found = python(code, PYTHONHASHSEED=seed).stdout.split()
        assert found and here.issuperset(found)


def test_types_and_what_is_closed_over_give_other_names():
    values = [0, 1, True, 1.0, "1", None, np.float32, np.float64, np.dtype("f4"), (1, 2), (2, 1), products.to_pairs]
    assert_both_differ(*(names_of(closing_over(value), types) for value in values for types in ("int64", "float32")))


def test_how_it_is_called_and_computed_gives_other_names():
    """Its result, a table for its arguments, and what may be done with its numbers."""
    function = closing_over(1)
    variants = [
        Jitted(function, ("int64",), frozenset()),
        Jitted(function, ("int64",), frozenset({"nsz"})),
        Jitted(function, ("int64",), frozenset(), result="int64"),
        Jitted(function, ("int64",), frozenset(), by_table=True),
    ]
    assert_both_differ(*map(both_names, variants))


def test_what_has_no_words_has_no_name():
    assert names_of(closing_over({1: 2})) == (None, None)
    assert names_of(closing_over((1, object()))) == (None, None)
    assert names_of(closing_over(inner_kernel(closing_over(object())))) == (None, None)


def test_a_change_in_generated_code_gives_another_name():
    """As one in a cell does: see tests/rnn/test_checking.py for the way there."""
    source = "F = float32\ndef function(part, parts, table, array: F):\n    array[0] = {}.0\n"
    names = [both_names(generated_loop(source.format(n), "function")) for n in (1, 2, 1)]
    assert names[0] == names[2]
    assert_both_differ(*names[:2])


HELPER = """
from nmt.rnn.kernels.machine_code.jit import inner_kernel
NUMBER = {number}
def plain(x):
    return x * {plain}
@inner_kernel
def compiled(x):
    return plain(x) + {compiled}
"""
USERS = {
    "a plain function": "from {helper} import plain\ndef function(x):\n    return plain(x)\n",
    "a compiled function": "from {helper} import compiled\ndef function(x):\n    return compiled(x)\n",
    "a function inside": "from {helper} import plain\ndef function(x):\n    return (lambda y: plain(y))(x)\n",
    "a name of a module in a module": "import {helper}, types\n"
    "whole = types.ModuleType('whole')\nwhole.part = {helper}\n"
    "def function(x):\n    return whole.part.plain(x)\n",
    "a number": "from {helper} import NUMBER\ndef function(x):\n    return x * NUMBER\n",
}


@pytest.mark.parametrize("form", ["plain", "kernel"])
@pytest.mark.parametrize("user", USERS)
def test_a_change_in_another_file_that_is_used_gives_other_names(user, form, tmp_path, monkeypatch):
    """Files that are not the kernels' own: a function's, and one of what it uses."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    here, other = "user_of_another_file", "another_file_that_is_used"
    (tmp_path / f"{here}.py").write_text(USERS[user].format(helper=other))
    unchanged = {"number": 1, "plain": 1, "compiled": 1}
    changed = {"number": 2} if "number" in user else {"plain": 2}
    names = []
    for numbers in (unchanged, unchanged | changed, unchanged):
        (tmp_path / f"{other}.py").write_text(HELPER.format(**numbers))
        for name in (here, other):
            sys.modules.pop(name, None)
        linecache.clearcache()
        importlib.invalidate_caches()
        function = importlib.import_module(here).function
        found = kernel(function).native(("int64",)) if form == "kernel" else Jitted(function, ("int64",), frozenset())
        names.append(both_names(found))
    for name in (here, other):
        del sys.modules[name]
    linecache.clearcache()
    assert names[0] == names[2]
    assert_both_differ(*names[:2])


def test_a_function_whose_source_nobody_knows_has_no_name():
    scope = {"__name__": "typed_in"}
    exec("def function(part, parts, table):\n    return 1\n", scope)  # noqa: S102
    assert names_of(scope["function"]) == (None, None)


def test_nothing_is_kept_once_a_file_has_changed(monkeypatch, tmp_path):
    """What is compiled then may be made of the files before or after."""
    assert store.sources_are_unchanged()
    copied = shutil.copytree(KERNELS, tmp_path / "kernels")
    (copied / "machine_code" / "jit.py").write_text("")
    monkeypatch.setattr(store, "fingerprint", lambda: features.fingerprint(copied))
    assert not store.sources_are_unchanged()


def test_two_functions_never_have_one_symbol():
    Jitted(closing_over, (), frozenset(), symbol="nmt_test_symbol")
    with pytest.raises(RuntimeError, match="nmt_test_symbol"):
        Jitted(natives, (), frozenset(), symbol="nmt_test_symbol")
    del _BY_SYMBOL["nmt_test_symbol"]


def test_elements_that_have_no_code_are_refused():
    @kernel
    def multiply(packed):
        a = products.address(packed, 0)
        products.rows_product(packed, a, 1, a, a, 1, 1, 1, 1, 0)

    with pytest.raises(TypingError, match="elements must be of"):
        multiply(np.zeros(1, np.int16))
