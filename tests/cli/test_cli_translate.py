"""nmt-translate: one line out for each line in, whatever the lines hold."""

import gzip
import json
import os
from pathlib import Path

from tests.cli.conftest import Run


def test_lines_stay_in_their_places(model: Path, run: Run) -> None:
    result = run("nmt-translate", model, stdin="w1 w2\n\n   \nw3\r\n\u2028\nw4\u2028w5\nw6\x0cw7\nw8 w9 w10".encode())
    assert result.lines == ["z1 z2", "", "", "z3", "", "z4 z5", "z6 z7", "z8 z9 z10"]
    assert result.err.count("\n") == 1 and "a line break in the text is a space to the model" in result.err
    assert result.err.endswith("(2 lines: 6, 7)\n")


def test_order_does_not_depend_on_batches(model: Path, setup: Path, run: Run) -> None:
    want = (setup / "train.yy").read_text().splitlines()
    for options in (["--batch-size", "1"], ["--batch-size", "3"], []):
        assert run("nmt-translate", model, setup / "train.xx", *options).lines == want


def test_empty_input_gives_empty_output(model: Path, run: Run) -> None:
    assert run("nmt-translate", model, stdin=b"").out == b""


def test_gzip_in_and_file_out(model: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"w1\nw2\n"))
    assert run("nmt-translate", model, tmp_path / "in.gz", "-o", tmp_path / "out").out == b""
    assert (tmp_path / "out").read_text() == "z1\nz2\n"
    assert sorted(os.listdir(tmp_path)) == ["in.gz", "out"]


def test_a_text_of_another_kind_is_named_before_it_is_translated(
    model: Path, setup: Path, run: Run, tmp_path: Path
) -> None:
    lines = (setup / "test.xx").read_text().splitlines()
    (tmp_path / "other").write_text("".join(f"{line} {line[::-1]}zz{line[:2]}q\n" for line in lines))
    result = run("nmt-translate", model, tmp_path / "other", "--output-format", "json", "--output", tmp_path / "out")
    assert "other: the model does not know this kind of text: its training never had " in result.err
    first = json.loads((tmp_path / "out").read_text().splitlines()[0])["translations"][0]
    assert first["unseen"][-1] in result.err or len(first["unseen"]) == 1
    assert "this kind of text" not in run("nmt-translate", model, setup / "test.xx").err


def test_pipes_as_files(model: Path, run: Run) -> None:
    assert run("nmt-translate", model, "/dev/stdin", "-o", "/dev/stdout", stdin=b"w1\nw2").lines == ["z1", "z2"]


def test_columns(model: Path, run: Run) -> None:
    assert [line.split("\t") for line in run("nmt-translate", model, "--n-best", "2", stdin=b"w1 w2\n\nw3").lines] == [
        ["0", "1", "-0.500000", "z1 z2"],
        ["0", "2", "-1.500000", "z1"],
        ["1", "1", "0.000000", ""],
        ["2", "1", "-0.500000", "z3"],
        ["2", "2", "-1.500000", ""],
    ]
    assert run("nmt-translate", model, "--scores", stdin=b"w1").lines == ["0\t1\t-0.500000\tz1"]


def test_very_long_lines(model: Path, run: Run) -> None:
    result = run("nmt-translate", model, stdin=b"w1 " * 50_000 + b"\nw2\n")
    assert result.lines == ["z1 " * 999 + "z1", "z2"]
    assert result.err.count("\n") == 1
    assert result.err == (
        "warning: standard input: a source of more than 1000 subwords is truncated to that length (line 1)\n"
    )


def test_a_broken_line_is_named_and_leaves_no_file(model: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("former")
    bad = b"w1\n" * 5000 + b"w\xe9\n"
    (tmp_path / "in").write_bytes(bad)
    for source, name in (("-", "standard input"), (tmp_path / "in", str(tmp_path / "in"))):
        result = run("nmt-translate", model, source, "-o", tmp_path / "out", stdin=bad, code=1)
        assert result.err.startswith(f"Error: {name}: line 5001 must be UTF-8")
        assert result.err.count("\n") == 1
        assert (tmp_path / "out").read_text() == "former"
        assert sorted(os.listdir(tmp_path)) == ["in", "out"]


def test_checkpoints_by_name(model: Path, run: Run, tmp_path: Path) -> None:
    for name in ("config.yaml", "joint.spm", "last.safetensors"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    assert run("nmt-translate", tmp_path, stdin=b"w1").lines == ["z1"]
    assert run("nmt-translate", tmp_path, "--checkpoint", "last", stdin=b"w1").lines == ["z1"]
    result = run("nmt-translate", tmp_path, "--checkpoint", "best", stdin=b"w1", code=1)
    assert "must contain best.safetensors" in result.err
    (tmp_path / "last.safetensors").write_bytes(b"")
    assert "must be a whole checkpoint" in run("nmt-translate", tmp_path, stdin=b"w1", code=1).err
