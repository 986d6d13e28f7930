"""Files are whole or not there."""

import os
from pathlib import Path

import pytest

from nmt.system.files import remove_temporaries, replacing, write_bytes


def test_a_failed_block_leaves_the_former_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(KeyError), replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        raise KeyError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_link_keeps_its_name_and_gets_a_new_target(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_bytes(Path("/dev/null"), b"x")
    assert not Path("/dev/null").is_file()


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_bytes(tmp_path, b"x")


def test_only_our_temporaries_are_removed(tmp_path: Path) -> None:
    for name in (".last.safetensors.12.nmt-tmp", ".hidden", "last.safetensors", "x.nmt-tmp"):
        (tmp_path / name).touch()
    assert remove_temporaries(tmp_path) == 1
    assert sorted(os.listdir(tmp_path)) == [".hidden", "last.safetensors", "x.nmt-tmp"]
