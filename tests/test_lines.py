"""Lines of whatever a path names: bounded, in order, as they come; one line of error for what is no text in lines."""

import gzip
import os
import socket
import threading
from itertools import islice
from pathlib import Path

import pytest

from nmt.data.corpora.corpus import clean_line, clean_lines
from nmt.errors import DataError
from nmt.system.lines import MAX_LINE_BYTES, Lines, chunks, open_lines, read_lines, read_text

FIFO_LINES = [f"line {n}" for n in range(3000)]


def line_of(call):
    with pytest.raises(DataError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_has_a_bound(tmp_path, packed):
    path = tmp_path / ("a.gz" if packed else "a")
    most = b"x" * MAX_LINE_BYTES
    path.write_bytes(gzip.compress(b"first\n" + most + b"\r\nlast\n") if packed else b"first\n" + most + b"\r\nlast\n")
    assert [len(line) for line in open_lines(str(path))] == [5, MAX_LINE_BYTES, 4]
    path.write_bytes(gzip.compress(b"first\n" + most + b"x" * 9) if packed else b"first\n" + most + b"x")
    line = line_of(lambda: list(open_lines(str(path))))
    assert line.startswith(f"{path}: line 2 must have at most 8,388,608 bytes")


def test_a_device_without_end_is_an_error():
    for path in ("/dev/zero", "/dev/full"):
        assert line_of(lambda p=path: list(open_lines(p))).startswith(f"{path}: line 1 must have at most")
        assert line_of(lambda p=path: read_text(p)).startswith(f"{path}: line 1 must have at most")
    assert list(open_lines("/dev/null")) == []


def test_what_is_kept_whole_has_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.system.lines.MAX_TEXT_BYTES", 140)
    path = tmp_path / "a"
    path.write_text("12345\n12345\n")
    assert read_text(str(path)) == ["12345", "12345"]
    path.write_text("12345\n12345\n1\n")
    assert line_of(lambda: read_text(str(path))).startswith(
        f"{path}: must be text that takes at most 140 bytes of memory"
    )


def test_pipes_are_read_in_order_whatever_pieces_they_come_in(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    content = "".join(f"{line}\n" for line in FIFO_LINES).encode()[:-1]  # the last line has no end

    def write():
        with path.open("wb", buffering=0) as pipe:
            for start in range(0, len(content), 1237):
                pipe.write(content[start : start + 1237])

    writer = threading.Thread(target=write)
    writer.start()
    assert list(open_lines(str(path))) == FIFO_LINES
    writer.join()


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
        assert f"{place}: must be a text file, got a socket" in line_of(lambda: open_lines(str(place)))
    assert f"{tmp_path}: must be a text file, got a folder" in line_of(lambda: open_lines(str(tmp_path)))


WRONG = {
    "UTF-16 with a mark": ("Hallo\n".encode("utf-16"), "UTF-16"),
    "little endian": ("Hallo Welt\r\n".encode("utf-16-le"), "UTF-16"),
    "big endian": ("Hallo Welt\n".encode("utf-16-be"), "UTF-16"),
    "carriage returns": (b"one\rtwo\rthree\r", "carriage returns alone"),
    "carriage returns within": (b"one\rtwo", "carriage returns alone"),
}


@pytest.mark.parametrize("case", WRONG)
def test_other_conventions_are_recognised(case, tmp_path):
    content, message = WRONG[case]
    (tmp_path / "a").write_bytes(content)
    line = line_of(lambda: list(read_lines(tmp_path / "a")))
    assert line.startswith(f"{tmp_path / 'a'}: must ") and message in line


def test_odd_characters_within_text_stay(tmp_path):
    (tmp_path / "a").write_bytes(b"a\0\rb\nx\ry")
    assert list(read_lines(tmp_path / "a")) == ["a\0\rb", "x\ry"]
    (tmp_path / "a").write_bytes(b"only\r")
    assert list(read_lines(tmp_path / "a")) == ["only"]


def test_chunks_take_what_is_there():
    there = iter([True, False, True, True, True, True, False])
    lines = Lines(iter(range(7)), lambda: next(there))
    assert list(chunks(lines, 3)) == [[0, 1], [2, 3, 4], [5, 6]]
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


def test_paths_are_strings_or_paths(tmp_path):
    (tmp_path / "a").write_text("x\n")
    assert list(read_lines(Path(tmp_path / "a"))) == list(read_lines(str(tmp_path / "a"))) == ["x"]
