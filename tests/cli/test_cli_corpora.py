"""nmt-translate with files, folders, tables and shards."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nmt.cli.commands.translate import translate
from nmt.cli.lines.tables import tasks_of
from tests.saved_models import sentences

LINES = [*sentences(20, seed=4), "", *sentences(6, seed=5)]


@pytest.fixture(scope="module")
def expected(folder):
    return call(folder, "-", given="\n".join(LINES) + "\n").stdout.splitlines()


def call(folder, *arguments, given=None, code=0):
    result = CliRunner().invoke(translate, [str(folder), *map(str, arguments)], input=given)
    assert result.exit_code == code, result.output
    return result


def write_lines(path: Path, lines=LINES) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def read_lines(path: Path) -> list[str]:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.jsonl.gz", "a.txt.gz"])
@pytest.mark.parametrize("count", [1, 4, 40])
def test_shards_together_are_the_whole_in_order(folder, expected, tmp_path, name, count):
    is_table = ".jsonl" in name
    lines = [json.dumps({"id": n, "text": text}) for n, text in enumerate(LINES)] if is_table else LINES
    source = write_lines(tmp_path / name, lines)
    for number in range(count):
        call(folder, source, "-o", tmp_path / "out", "--shard", f"{number + 1}/{count}")
    parts = sorted((tmp_path / "out").glob("a*"))
    assert len(parts) == count
    found = [line for part in parts for line in read_lines(part)]
    if not is_table:
        assert found == expected
        return
    records = [json.loads(line) for line in found]
    assert [record["id"] for record in records] == list(range(len(LINES)))
    assert [record["text"] for record in records] == LINES
    assert [record["translation"] for record in records] == expected
    assert all(record["translation_error"] == "" for record in records)


def test_a_folder_keeps_its_names_and_is_dealt_whole(folder, expected, tmp_path):
    for number in range(7):
        write_lines(tmp_path / "in" / f"{number % 2}" / f"{number}.txt", LINES[: 3 * number + 1])
    write_lines(tmp_path / "in" / "_SUCCESS", [""])
    for number in (1, 2, 3):
        call(folder, tmp_path / "in", "-o", tmp_path / "out", "--shard", f"{number}/3")
    for number in range(7):
        assert read_lines(tmp_path / "out" / f"{number % 2}" / f"{number}.txt") == expected[: 3 * number + 1]
    dealt = [tasks_of([str(tmp_path / "in")], tmp_path / "out", (number, 3)) for number in range(3)]
    assert sum(map(len, dealt)) == 7
    sizes = [sum(task.source.stat().st_size for task in tasks) for tasks in dealt]
    assert max(sizes) < 1.5 * min(sizes)
    assert not list((tmp_path / "out").rglob("_SUCCESS"))


def test_what_is_there_is_not_done_again(folder, expected, tmp_path):
    for name in ("a.txt", "b.txt"):
        write_lines(tmp_path / name)
    first = call(folder, tmp_path / "a.txt", tmp_path / "b.txt", "-o", tmp_path / "out")
    assert "2 files translated, 0 were there already" in first.stderr
    (tmp_path / "out" / "a.txt").write_text("as it is\n")
    (tmp_path / "out" / "b.txt").unlink()
    again = call(folder, tmp_path / "a.txt", tmp_path / "b.txt", "-o", tmp_path / "out")
    assert "1 file translated, 1 were there already" in again.stderr
    assert read_lines(tmp_path / "out" / "a.txt") == ["as it is"] and read_lines(tmp_path / "out" / "b.txt") == expected
    other = call(folder, tmp_path / "a.txt", tmp_path / "b.txt", "-o", tmp_path / "out", "--beam-size", 2, code=1)
    assert "must have files of this very run to go on with, got some made with another beam_size" in other.stderr


def test_bad_rows_are_told_of_in_their_place(folder, expected, tmp_path):
    lines = [
        *(json.dumps({"Text": LINES[0]}), "{", "[1]", json.dumps({"line": "x"}), json.dumps({"text": 3})),
        *(json.dumps({"text": LINES[1], "translation": "t"}), json.dumps({"text": LINES[1], "n": [1, {"a": None}]})),
    ]
    source = write_lines(tmp_path / "a.jsonl", lines)
    source.write_bytes(source.read_bytes() + b'{"text": "\xff"}\n')
    result = call(folder, source, "-o", tmp_path / "out.jsonl", "--scores")
    records = [json.loads(line) for line in read_lines(tmp_path / "out.jsonl")]
    errors = [record["translation_error"] for record in records]
    assert [bool(error) for error in errors] == [False, True, True, True, True, True, False, True]
    assert records[0]["translation"] == expected[0] and records[0]["translation_score"] < 0
    assert records[6] == {
        **{"text": LINES[1], "n": [1, {"a": None}], "translation": expected[1], "translation_error": ""},
        "translation_score": records[6]["translation_score"],
    }
    assert "must be a JSON object, got list" in errors[2] and "'text'" in errors[3] and "got int" in errors[4]
    assert "must not have 'translation' already" in errors[5] and records[5]["translation"] == "t"
    assert "utf-8" in errors[7].lower()
    assert "an error in 6 rows" in result.stderr


@pytest.mark.parametrize(("count", "column"), [(1, "Line"), (3, "line")])
def test_parquet_keeps_its_columns(folder, expected, tmp_path, count, column):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"id": list(range(len(LINES) + 1)), "line": [*LINES, None], "tags": [["x"]] * (len(LINES) + 1)}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet", row_group_size=5)
    for number in range(count):
        options = ("--column", column, "--output-column", "english", "--shard", f"{number + 1}/{count}")
        call(folder, tmp_path / "a.parquet", "-o", tmp_path / "out", *options)
    tables = [parquet.read_table(path) for path in sorted((tmp_path / "out").glob("*.parquet"))]
    assert len(tables) == count
    found = pyarrow.concat_tables(tables).to_pydict()
    assert {name: found[name] for name in columns} == columns
    assert found["english"] == [*expected, ""]
    assert found["english_error"] == [""] * len(LINES) + ["must be text, got nothing"]


def test_a_job_that_fails_leaves_no_file(folder, tmp_path):
    source = write_lines(tmp_path / "a.txt")
    source.write_bytes(source.read_bytes() + b"\xff\n")
    result = call(folder, source, "-o", tmp_path / "out", "--shard", "1/1", code=1)
    assert "must be UTF-8" in result.stderr and not list((tmp_path / "out").glob("*a.txt*"))


def test_half_of_a_surrogate_pair_is_an_error_of_its_row_and_the_file_stays_utf_8(folder, expected, tmp_path):
    rows = [{"text": "\ud800 nine"}, {"text": LINES[0], "other": "\udfff"}]
    write_lines(tmp_path / "a.jsonl", [json.dumps(row) for row in rows])
    call(folder, tmp_path / "a.jsonl", "-o", tmp_path / "out.jsonl")
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [row["text"] for row in found] == ["\ud800 nine", LINES[0]]
    assert found[0]["translation"] == "" and "half of a surrogate pair" in found[0]["translation_error"]
    assert (found[1]["translation"], found[1]["other"]) == (expected[0], "\udfff")


def test_a_byte_order_mark_before_the_first_row_is_left_out(folder, expected, tmp_path):
    (tmp_path / "a.jsonl").write_text("\ufeff" + json.dumps({"text": LINES[0]}) + "\n")
    call(folder, tmp_path / "a.jsonl", "-o", tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_text())["translation"] == expected[0]


def test_a_name_that_ends_in_a_slash_is_a_folder(folder, tmp_path):
    write_lines(tmp_path / "a.jsonl", [json.dumps({"text": LINES[0]})])
    call(folder, tmp_path / "a.jsonl", "-o", f"{tmp_path}/new/")
    assert (tmp_path / "new" / "a.jsonl").is_file()


def test_a_folder_goes_on_after_a_file_that_cannot_be_read(folder, expected, tmp_path):
    for name in ("a.txt", "c.txt"):
        write_lines(tmp_path / "in" / name)
    (tmp_path / "in" / "b.txt").write_bytes(b"\xff\n" + b"x" * 9999)
    (tmp_path / "in" / "link").symlink_to("nothing")
    result = call(folder, tmp_path / "in", "-o", tmp_path / "out", code=1)
    assert all(read_lines(tmp_path / "out" / name) == expected for name in ("a.txt", "c.txt"))
    assert "link: skipped, a broken link" in result.stderr
    assert "got 1 of 3 that could not be translated" in result.stderr and "must be UTF-8" in result.stderr
    assert not (tmp_path / "out" / "b.txt").exists()
