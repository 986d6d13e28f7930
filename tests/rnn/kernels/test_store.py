"""The store of machine code: what is read is what was written, by us; all else is compiled again."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.rnn.kernels.machine_code import store as stores
from nmt.rnn.kernels.machine_code.store import Record, Store

ROOT = Path(__file__).resolve().parents[3]
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
    given = {**os.environ, "NMT_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=given, check=False)
    assert done.returncode == 0, done.stderr
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
    monkeypatch.setattr(stores.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    stores.store.cache_clear()
    yield lambda: (stores.store.cache_clear(), stores.store().folder)[1]
    stores.store.cache_clear()


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
    assert stores.store() is stores.store()
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
    environment = {**os.environ, "NMT_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WORK]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    assert [process.communicate()[0] for process in both] == [filled[1]] * 2
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
