"""Copies of a memory, as backups make them: a file that has every acknowledged pair, or one line that says why not."""

import random
import shutil
import sqlite3
import subprocess
import sys

import pytest

from nmt import NMTError
from nmt.learning.memory import Memory
from tests.learning.conftest import parameters
from tests.refusals import refused

pytest.importorskip("rapidfuzz", reason="needs the extra [learn]")


def test_a_copy_of_the_file_alone_has_every_acknowledged_pair(learning, pairs, tmp_path):
    """It had 4,096 bytes and no pair: all was in a log beside the file until the server ended."""
    one = learning("used")
    for number, pair in enumerate(pairs[:12], start=1):
        one.learn(*pair)
        if number % 4 == 0:
            shutil.copy(tmp_path / "used", tmp_path / f"copy{number}")
            copy = learning(f"copy{number}")
            assert [(one.source, one.target) for one in copy.memory.pairs("")] == pairs[:number]
            assert parameters(copy.translator()) == parameters(one.translator())
    one.undo(3)
    one.consolidate()
    shutil.copy(tmp_path / "used", tmp_path / "late")
    assert parameters(learning("late").translator()) == parameters(one.translator())
    for path in list(tmp_path.glob("used*")):
        shutil.copy(path, tmp_path / path.name.replace("used", "both"))  # a copy of all that is there is as good
    assert parameters(learning("both").translator()) == parameters(one.translator())
    one.close()
    assert [path.name for path in tmp_path.glob("used*")] == ["used"]


_FORMER = """
import os, sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute("PRAGMA locking_mode = EXCLUSIVE")
file.execute("PRAGMA journal_mode = WAL")
for statement in sys.stdin.read().split(";\\n"):
    file.execute(statement)
print("done", flush=True)
os._exit(9)
"""


def former_version(path, like):
    """Write what a killed process of a former version leaves: an empty file, and all else in its log."""
    with sqlite3.connect(like) as file:
        dump = ";\n".join(line.rstrip(";") for line in file.iterdump() if "sqlite_sequence" not in line)
        version = file.execute("PRAGMA user_version").fetchone()[0]
    dump = dump.replace("BEGIN TRANSACTION", f"BEGIN;\nPRAGMA user_version = {version}", 1)
    subprocess.run([sys.executable, "-c", _FORMER, path], input=dump, text=True, capture_output=True, check=False)


def test_a_memory_of_a_former_version_comes_with_its_log(learning, pairs, tmp_path):
    one = learning("new")
    for pair in pairs[:3]:
        one.learn(*pair)
    learnt = parameters(one.translator())
    one.close()
    former_version(tmp_path / "former", tmp_path / "new")
    assert (tmp_path / "former").stat().st_size == 4096 and (tmp_path / "former-wal").stat().st_size > 4096
    shutil.copy(tmp_path / "former", tmp_path / "alone")
    before = (tmp_path / "alone").read_bytes()
    refused(NMTError, r"alone: must be a memory, got a file without pairs, .*copy both, or [^\n]*$", learning, "alone")
    assert (tmp_path / "alone").read_bytes() == before
    assert parameters(learning("former").translator()) == learnt
    shutil.copy(tmp_path / "former", tmp_path / "copy")
    assert len(learning("copy").memory.pairs("")) == 3


def test_a_damaged_copy_is_one_line(pairs, tmp_path):
    """Each page in turn is one that the copy has not got, or has got of another place."""

    def begin():
        return {"recipe": {"rate": 1.0}, "names": []}, [("replayed", *pair) for pair in pairs * 6]

    one = Memory(tmp_path / "used", "model", begin)
    for number, pair in enumerate(pairs[:20], start=1):
        one.add("", [pair])
        if number % 5 == 0:
            one.save_snapshot("", number, random.Random(number).randbytes(9000))
    one.close()
    whole, refused = (tmp_path / "used").read_bytes(), 0

    def tried(content):
        nonlocal refused
        (tmp_path / "copy").write_bytes(content)
        try:
            found = Memory(tmp_path / "copy", "model", begin)
        except NMTError as error:
            assert "\n" not in str(error) and "move it away" in str(error), error
            assert (tmp_path / "copy").read_bytes() == content
            refused += 1
            return
        assert [(one.source, one.target) for one in found.pairs("")] == pairs[:20]
        found.close()

    shares = (0.01, 0.2, 0.5, 0.9, 0.99)
    for share in shares:
        tried(whole[: int(len(whole) * share)])
    tried(b"not a database, but long enough to be read as one " * 40)
    tried(whole.replace(b'{"rate"', b'<"rate"'))
    assert refused == len(shares) + 2
    places = range(4096, len(whole), 4096)
    for at in places:
        tried(whole[:at] + bytes(4096) + whole[at + 4096 :])
        tried(whole[:at] + whole[:4096] + whole[at + 4096 :])
    assert refused > len(places)  # the others are pages without use, and numbers of a snapshot


def test_a_memory_that_is_none_of_this_model_says_what_to_do(learning, folder, tmp_path):
    def begin():
        return {"recipe": {}, "names": []}, []

    Memory(tmp_path / "other", "another model", begin).close()
    refused(NMTError, r"of this model, got that of another one; move it away to begin [^\n]*$", learning, "other")
    with sqlite3.connect(tmp_path / "table") as file:
        file.execute("CREATE TABLE mine (a)")
    refused(NMTError, r"must be a memory of version 2, got another file; move it away [^\n]*$", learning, "table")
    with sqlite3.connect(tmp_path / "empty") as file:
        file.execute("CREATE TABLE mine (a)")
        file.execute("PRAGMA user_version = 2")
    refused(NMTError, r"must be a memory, got: no such table: facts; move it away [^\n]*$", learning, "empty")
