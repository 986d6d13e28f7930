"""multi30k.py, eutrans.py and exact_match.py on whole and broken folders and without a network."""

import gzip
import io
import subprocess
import sys
import urllib.error
from pathlib import Path

import multi30k
import pytest
import text_files

SCRIPTS = Path(multi30k.__file__).parent
SHARED = SCRIPTS.parent.parent / "shared" / "data"
MULTI30K_FILES = [f"{part}.{language}" for part in multi30k.PARTS for language in multi30k.LANGUAGES]


def run(script, *arguments):
    command = [sys.executable, SCRIPTS / script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def one_line(answer, script):
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1].startswith(f"{script}: ")
    assert "Traceback" not in answer.stderr
    return answer.stderr.splitlines()[-1]


@pytest.fixture
def small_copy(tmp_path):
    """A folder in the layout of Multi30k: train packed, the rest plain; two lines a file."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for part, name in multi30k.PARTS.items():
        for language in multi30k.LANGUAGES:
            text = f"eins {part} {language}\nzwei ü\n".encode()
            if part == "train":
                (folder / f"{name}.raw.{language}.gz").write_bytes(gzip.compress(text))
            else:
                (folder / f"{name}.{language}").write_bytes(text)
    return folder


def test_multi30k_from_a_folder(small_copy, tmp_path):
    answer = run("multi30k.py", "--from", small_copy, "--out", tmp_path / "out")
    assert answer.returncode == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(MULTI30K_FILES)
    assert (tmp_path / "out/train.de").read_text("utf-8") == "eins train de\nzwei ü\n"
    assert (tmp_path / "out/dev.fr").read_text("utf-8") == "eins dev fr\nzwei ü\n"
    for name in MULTI30K_FILES:
        assert f"warning: {name} differs" in answer.stderr


@pytest.mark.skipif(not (SHARED / "multi30k").is_dir(), reason="no shared folder beside the clone")
def test_multi30k_checksums_are_those_of_the_measured_copy(tmp_path):
    answer = run("multi30k.py", "--from", SHARED / "multi30k", "--out", tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "29000 train, 1014 dev, 1000 test" in answer.stdout


@pytest.mark.skipif(not (SHARED / "eutrans").is_dir(), reason="no shared folder beside the clone")
def test_eutrans_from_the_shared_copy(tmp_path):
    answer = run("eutrans.py", "--from", SHARED / "eutrans", "--out", tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "9900 train, 100 dev, 1498 test" in answer.stdout


def test_unequal_sides_write_nothing(small_copy, tmp_path):
    (small_copy / "val.en").write_text("only one\n")
    message = one_line(run("multi30k.py", "--from", small_copy, "--out", tmp_path / "out"), "multi30k.py")
    assert "dev: all languages must have the same number of lines, got de 2, en 1, fr 2" in message
    assert not (tmp_path / "out").exists()


def test_broken_folders_are_one_line(small_copy, tmp_path):
    message = one_line(run("multi30k.py", "--from", tmp_path / "none"), "multi30k.py")
    assert "must be a folder" in message
    (small_copy / "train.raw.en.gz").write_bytes(b"\x1f\x8bbroken")
    assert "whole gzip file" in one_line(
        run("multi30k.py", "--from", small_copy, "--out", tmp_path / "out"), "multi30k.py"
    )
    (small_copy / "train.raw.en.gz").unlink()
    assert "must contain train.raw.en or train.en" in one_line(
        run("multi30k.py", "--from", small_copy, "--out", tmp_path / "out"), "multi30k.py"
    )
    (small_copy / "train.en").write_bytes(b"fine\n\xff\xfe\n")
    assert "train.en:2: must be UTF-8" in one_line(
        run("multi30k.py", "--from", small_copy, "--out", tmp_path / "out"), "multi30k.py"
    )


def test_no_network_is_one_line(monkeypatch):
    def unreachable(address, timeout):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(text_files.urllib.request, "urlopen", unreachable)
    with pytest.raises(SystemExit, match="must be reachable.*--from FOLDER") as stop:
        multi30k.download("train", "de")
    assert "\n" not in str(stop.value)


def test_download_unpacks_and_reports_a_difference(monkeypatch, capsys):
    asked = []

    def answer(address, timeout):
        asked.append(address)
        return io.BytesIO(gzip.compress(b"anderer Text\n"))

    monkeypatch.setattr(text_files.urllib.request, "urlopen", answer)
    text = multi30k.download("dev", "de")
    assert text == b"anderer Text\n"
    assert asked == [f"{multi30k.HOME}/val.de.gz"]
    multi30k.report_difference("dev", "de", text)
    assert "warning: dev.de differs" in capsys.readouterr().err


def test_unwritable_output_is_one_line(small_copy, tmp_path):
    (tmp_path / "file").write_text("in the way")
    message = one_line(run("multi30k.py", "--from", small_copy, "--out", tmp_path / "file"), "multi30k.py")
    assert "must be writable" in message
    assert (tmp_path / "file").read_text() == "in the way"


def test_exact_match(tmp_path):
    (tmp_path / "hyp").write_text("a\nb\n\nd\n")
    (tmp_path / "ref").write_text("a\nB\n\nd\n")
    answer = run("exact_match.py", tmp_path / "hyp", tmp_path / "ref", "--at-least", "75")
    assert answer.returncode == 0
    assert answer.stdout.splitlines() == ["  got  b", "  for  B", "exact match: 75.0% (3 of 4)"]
    answer = run("exact_match.py", tmp_path / "hyp", tmp_path / "ref", "--at-least", "75.1")
    assert "must be at least 75.1%, got 75.0%" in one_line(answer, "exact_match.py")


def test_exact_match_refuses_files_of_other_length(tmp_path):
    (tmp_path / "hyp").write_text("a\n")
    (tmp_path / "ref").write_text("a\nb\n")
    (tmp_path / "empty").write_text("")
    for hypotheses, references in (("hyp", "ref"), ("empty", "empty"), ("none", "ref")):
        answer = run("exact_match.py", tmp_path / hypotheses, tmp_path / references)
        assert "must" in one_line(answer, "exact_match.py")
