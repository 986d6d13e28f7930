"""Files that are whole or not there, and what they keep of those that they replace."""

import os
import stat

import pytest

from nmt.system import files
from nmt.system.files import TEMPORARY_SUFFIX, new_folder, replacing, write_bytes, write_private


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_what_is_replaced_keeps_its_mode(mode, tmp_path):
    path = tmp_path / "f"
    path.write_text("old")
    path.chmod(mode)
    with replacing(path) as temporary:
        assert mode_of(temporary) == mode, "nobody may read it meanwhile who may not read the former one"
        temporary.write_text("new")
    assert (path.read_text(), mode_of(path)) == ("new", mode)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_what_is_replaced_keeps_its_owner(tmp_path):
    path = tmp_path / "f"
    path.write_text("old")
    os.chown(path, 1234, 2345)
    write_bytes(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write what is protected")
def test_what_is_write_protected_is_not_replaced(tmp_path):
    path = tmp_path / "f"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(PermissionError), replacing(path):
        pytest.fail("it is protected")
    assert path.read_text() == "old"


@pytest.mark.parametrize("name", ["x" * 255, "x" * 240, "é" * 127, "b\udcff" * 100])
def test_long_names_that_are_legal_can_be_written(name, tmp_path):
    write_bytes(tmp_path / name, b"1")
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / name) as temporary:
        temporary.write_bytes(b"2")
        raise ZeroDivisionError
    assert (tmp_path / name).read_bytes() == b"1"
    assert len(os.listdir(tmp_path)) == 1
    (tmp_path / "folders").mkdir()
    with new_folder(tmp_path / "folders" / name) as folder:
        (folder / "f").write_text("1")
    assert (tmp_path / "folders" / name / "f").read_text() == "1"


def test_an_empty_folder_stays_the_same_one_when_it_is_filled(tmp_path, monkeypatch):
    target = tmp_path / "new"
    target.mkdir(mode=0o700)
    before = target.stat()
    monkeypatch.chdir(target)
    with new_folder(target) as folder:
        (folder / "a").write_text("1")
        (folder / "inner").mkdir()
        assert not (target / "a").exists()
        with pytest.raises(FileExistsError, match="another process"), new_folder(target):
            pytest.fail("two cannot fill it")
    after = os.stat(".")
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert sorted(os.listdir(".")) == ["a", "inner"]


def test_an_empty_folder_stays_empty_when_filling_it_fails(tmp_path):
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path) as folder:
        (folder / "a").write_text("1")
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []
    (tmp_path / f".new.1{TEMPORARY_SUFFIX}").mkdir()  # of a run that was killed
    with new_folder(tmp_path) as folder:
        (folder / "b").write_text("1")
    assert os.listdir(tmp_path) == ["b"]


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_a_private_file_is_private_from_its_first_byte(tmp_path, monkeypatch):
    path, modes, move = tmp_path / "key", [], files._move
    path.write_bytes(b"")
    path.chmod(0o644)
    monkeypatch.setattr(files, "_move", lambda one, to: (modes.append(one.stat().st_mode & 0o777), move(one, to)))
    write_private(path, b"secret")
    assert path.read_bytes() == b"secret" and modes == [0o600] == [path.stat().st_mode & 0o777]
