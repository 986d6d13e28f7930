"""Files that are whole or not there, and what they keep of those that they replace."""

import gzip
import os
import socket
import stat
from itertools import islice

import pytest

import nmt
from nmt.config import load_config
from nmt.data.corpora.corpus import clean_line, clean_lines
from nmt.errors import CheckpointError, DataError, NMTError, PathError
from nmt.exporting.to_numpy import save_numpy
from nmt.importing.sources import import_model
from nmt.storage.saved_model import load_saved_model, save_quantised
from nmt.system import files
from nmt.system.files import TEMPORARY_SUFFIX, new_folder, replacing, write_bytes, write_private
from nmt.system.lines import MAX_LINE_BYTES, Lines, chunks, open_lines, read_lines, read_text, text_file
from nmt.system.paths import check_new_folder, check_output, check_prefix, named, shown
from tests.refusals import refused
from tests.saved_models import write_folder
from tests.waiting import beside


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


READERS = [load_config, nmt.Translator.load, load_saved_model, import_model]
READERS += [text_file, read_lines, open_lines, read_text, named]
BAD = ["", "x" * 300, "a\0b", "y/" * 3000 + "y"]


@pytest.mark.parametrize("path", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__qualname__)
def test_bad_paths_are_errors_of_one_line(read, path):
    assert len(refused(NMTError, "", read, path)) < 1000


def test_errors_of_paths_are_those_of_texts_and_of_models():
    assert issubclass(PathError, DataError) and issubclass(PathError, CheckpointError)


def test_a_name_is_shown_in_one_line_of_text():
    assert shown("b\udcff\n") == "b\ufffd\\n"
    assert len(shown("x" * 4000)) < 150


def test_a_file_whose_name_ends_in_a_slash_is_none(tmp_path):
    (tmp_path / "f").write_text("")
    refused(PathError, "must be a folder, since its name ends in a slash, got a file", named, f"{tmp_path}/f/")
    assert named(f"{tmp_path}/") == tmp_path


def test_a_name_that_is_too_long_with_its_packed_ending_can_be_read(tmp_path):
    path = tmp_path / ("x" * 254)
    refused(DataError, "no such file", text_file, path)
    path.write_text("one\n")
    assert read_text(str(path)) == ["one"]


def test_a_text_in_the_place_of_a_file_gets_a_hint():
    for text in ("the train leaves", "a " * 200):
        refused(DataError, "standard input", read_lines, text)
    refused(DataError, "check the path", read_lines, "all my pairs.xlsx")


@pytest.mark.parametrize("check", [check_output, check_prefix])
def test_outputs_lie_in_folders_that_are_there(check, tmp_path):
    assert check(str(tmp_path / "f")) == tmp_path / "f"
    for place in ("none/f", "new/"):
        refused(PathError, "", check, f"{tmp_path}/{place}")


def test_no_model_is_written_over_another(tmp_path):
    folder = write_folder(tmp_path / "m")
    saved = load_saved_model(folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for write in (save_quantised, save_numpy):
        refused(CheckpointError, "must be a new folder, got one that contains a model", write, folder, saved)
    refused(CheckpointError, "must be a new folder", check_new_folder, folder)
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


FIFO_LINES = [f"line {n}" for n in range(3000)]


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_has_a_bound(tmp_path, packed):
    path = tmp_path / ("a.gz" if packed else "a")
    most = b"x" * MAX_LINE_BYTES
    path.write_bytes(gzip.compress(b"first\n" + most + b"\r\nlast\n") if packed else b"first\n" + most + b"\r\nlast\n")
    assert [len(line) for line in open_lines(str(path))] == [5, MAX_LINE_BYTES, 4]
    path.write_bytes(gzip.compress(b"first\n" + most + b"x" * 9) if packed else b"first\n" + most + b"x")
    line = refused(DataError, "", lambda: list(open_lines(str(path))))
    assert line.startswith(f"{path}: line 2 must have at most 8,388,608 bytes")


def test_a_device_without_end_is_an_error():
    for path in ("/dev/zero", "/dev/full"):
        for read in (lambda one: list(open_lines(one)), read_text):
            assert refused(DataError, "", read, path).startswith(f"{path}: line 1 must have at most")
    assert list(open_lines("/dev/null")) == []


def test_what_is_kept_whole_has_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.system.lines.MAX_TEXT_BYTES", 140)
    path = tmp_path / "a"
    path.write_text("12345\n12345\n")
    assert read_text(str(path)) == ["12345", "12345"]
    path.write_text("12345\n12345\n1\n")
    line = refused(DataError, "", read_text, str(path))
    assert line.startswith(f"{path}: must be text that takes at most 140 bytes of memory")


def test_pipes_are_read_in_order_whatever_pieces_they_come_in(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    content = "".join(f"{line}\n" for line in FIFO_LINES).encode()[:-1]  # the last line has no end

    def write():
        with path.open("wb", buffering=0) as pipe:
            for start in range(0, len(content), 1237):
                pipe.write(content[start : start + 1237])

    with beside(write):
        assert list(open_lines(str(path))) == FIFO_LINES


def test_a_pipe_may_hold_more_than_is_read_ahead(tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.system.lines.MAX_LINE_BYTES", 20)
    test_pipes_are_read_in_order_whatever_pieces_they_come_in(tmp_path)


def test_lines_that_have_come_are_taken_together():
    reading, writing = os.pipe()
    try:
        os.write(writing, b"".join(b"line %d\n" % n for n in range(1000)))  # fits into a pipe, and is one read
        lines = open_lines(f"/dev/fd/{reading}")
        assert [len(chunk) for chunk in islice(chunks(lines, 300), 4)] == [300, 300, 300, 100]
        assert not lines.ready(), "the pipe is open, and holds nothing"
        os.write(writing, b"a\nb")
        assert next(chunks(lines, 300)) == ["a"]
    finally:
        os.close(writing)
        os.close(reading)
    assert list(chunks(lines, 300)) == [["b"]]


def test_sockets_and_folders_are_no_text(tmp_path):
    place = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(place))
        assert f"{place}: must be a text file, got a socket" in refused(DataError, "", open_lines, str(place))
    assert f"{tmp_path}: must be a text file, got a folder" in refused(DataError, "", open_lines, str(tmp_path))


WRONG = {
    "zip": (b"PK\x03\x04\x14\n", "a zip archive"),
    "gzip": (b"\x1f\x8b\x08\n", "a gzip archive without .gz"),
    "bzip2": (b"BZh91AY\n", "a bzip2 archive"),
    "zstd": (b"\x28\xb5\x2f\xfd\x00\n", "a zstd archive"),
    "UTF-32": (b"\xff\xfe\x00\x00a\x00\x00\x00\n", "UTF-32"),
    "UTF-16 with a mark": ("Hallo\n".encode("utf-16"), "UTF-16"),
    "little endian": ("Hallo Welt\r\n".encode("utf-16-le"), "UTF-16"),
    "big endian": ("Hallo Welt\n".encode("utf-16-be"), "UTF-16"),
    "carriage returns": (b"one\rtwo\rthree\r", "carriage returns alone"),
    "carriage returns within": (b"one\rtwo", "carriage returns alone"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_text_of_ours_is_called_by_its_name(case, tmp_path):
    content, message = WRONG[case]
    (tmp_path / "a").write_bytes(content)
    line = refused(DataError, "", lambda: list(read_lines(tmp_path / "a")))
    assert line.startswith(f"{tmp_path / 'a'}: must ") and message in line


def test_odd_characters_within_text_stay(tmp_path):
    (tmp_path / "a").write_bytes(b"a\0\rb\nx\ry")
    assert list(read_lines(tmp_path / "a")) == ["a\0\rb", "x\ry"]
    (tmp_path / "a").write_bytes(b"only\r")
    assert list(read_lines(tmp_path / "a")) == ["only"]


def test_chunks_take_what_is_there():
    there = iter([True, False, True, True, True, True, False])
    assert list(chunks(Lines(iter(range(7)), lambda: next(there)), 3)) == [[0, 1], [2, 3, 4], [5, 6]]
    assert list(chunks(iter(range(7)), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(chunks(Lines(iter(range(7))), 3)) == [[0, 1, 2], [3, 4, 5], [6]]


def test_a_byte_order_mark_alone_is_no_line(tmp_path):
    path = tmp_path / "a"
    for content, lines in ((b"\xef\xbb\xbf", []), (b"\xef\xbb\xbf\n", [""]), (b"\xef\xbb\xbfa\n\n", ["a", ""])):
        path.write_bytes(content)
        assert list(read_lines(path)) == lines


@pytest.mark.parametrize("text", ["\u200b", "\u200b \u2060\ufeff", "\u00a0\u3000", "\u00ad", "\U000e0061\t\ufe0f", ""])
@pytest.mark.parametrize("normalize", ["none", "nfc", "nfkc"])
def test_what_shows_nothing_is_blank(text, normalize):
    assert clean_line(text, normalize=normalize) == ""
    assert clean_line(f"{text}\u2581", normalize=normalize) == ""
    assert clean_lines([f"{text}\u2581", "a"], normalize=normalize) == ["", "a"]
    assert clean_line(f"{text}a\u200db{text}", normalize=normalize).strip(f" {text}") == "a\u200db"
