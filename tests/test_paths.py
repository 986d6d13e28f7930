"""Paths that a user names, in the Python interface: errors of one line, as the commands have them."""

from pathlib import Path

import pytest

import nmt
from nmt.config import load_config
from nmt.errors import CheckpointError, DataError, NMTError, PathError
from nmt.exporting.to_numpy import save_numpy
from nmt.importing.sources import import_model
from nmt.inference.generator import Generator
from nmt.storage.quantised_model import save_quantised
from nmt.storage.saved_model import load_saved_model
from nmt.system.lines import open_lines, read_lines, read_text, text_file
from nmt.system.paths import check_new_folder, check_output, check_prefix, named, shown
from tests.saved_models import write_folder

READERS = [load_config, nmt.Translator.load, Generator.load, load_saved_model, import_model]
READERS += [text_file, read_lines, open_lines, read_text, named]
BAD = ["", "x" * 300, "a\0b", "y/" * 3000 + "y"]


@pytest.mark.parametrize("path", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__qualname__)
def test_bad_paths_are_errors_of_one_line(read, path):
    with pytest.raises(NMTError) as caught:
        read(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000


def test_errors_of_paths_are_those_of_texts_and_of_models():
    assert issubclass(PathError, DataError) and issubclass(PathError, CheckpointError)


def test_a_name_is_shown_in_one_line_of_text():
    assert shown("b\udcff\n") == "b\ufffd\\n"
    assert len(shown("x" * 4000)) < 150


def test_a_file_whose_name_ends_in_a_slash_is_none(tmp_path):
    (tmp_path / "f").write_text("")
    with pytest.raises(PathError, match="must be a folder, since its name ends in a slash, got a file"):
        named(f"{tmp_path}/f/")
    assert named(f"{tmp_path}/") == tmp_path


def test_a_name_that_is_too_long_with_its_packed_ending_can_be_read(tmp_path):
    path = tmp_path / ("x" * 254)
    with pytest.raises(DataError, match="no such file"):
        text_file(path)
    path.write_text("one\n")
    assert read_text(str(path)) == ["one"]


def test_a_text_in_the_place_of_a_file_gets_a_hint():
    for text in ("the train leaves", "a " * 200):
        with pytest.raises(DataError, match="standard input"):
            read_lines(text)


@pytest.mark.parametrize("check", [check_output, check_prefix])
def test_outputs_lie_in_folders_that_are_there(check, tmp_path):
    assert check(str(tmp_path / "f")) == tmp_path / "f"
    for place in ("none/f", "new/"):
        with pytest.raises(PathError):
            check(f"{tmp_path}/{place}")


def test_no_model_is_written_over_another(tmp_path):
    folder = write_folder(tmp_path / "m")
    saved = load_saved_model(folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for write in (save_quantised, save_numpy):
        with pytest.raises(CheckpointError, match="must be a new folder, got one that contains a model"):
            write(folder, saved)
    with pytest.raises(CheckpointError, match="must be a new folder"):
        check_new_folder(folder)
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (b"PK\x03\x04\x14", "a zip archive"),
        (b"\x1f\x8b\x08", "a gzip archive without .gz"),
        (b"BZh91AY", "a bzip2 archive"),
        (b"\x28\xb5\x2f\xfd\x00", "a zstd archive"),
        (b"\xff\xfe\x00\x00a\x00\x00\x00", "UTF-32"),
        (b"\xff\xfea\x00", "UTF-16"),
    ],
)
def test_what_is_no_text_is_called_by_its_name(start, what, tmp_path):
    Path(tmp_path / "t").write_bytes(start + b"\n")
    with pytest.raises(DataError, match=what):
        list(read_lines(tmp_path / "t"))
