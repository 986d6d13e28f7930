"""What comes from an engine is whole, or the benchmark says that it is not."""

import json
from pathlib import Path

import pytest

LINES = [f"line {number}" for number in range(70)]
TRANSLATIONS = [line.upper() for line in LINES]


def write_out(folder: Path, rows: list[dict[str, object]]) -> None:
    out = folder / "out" / "part"
    out.mkdir(parents=True, exist_ok=True)
    (out / "0.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (out / "_SUCCESS").write_text("")


def test_every_line_once_and_beside_its_own_translation(tmp_path: Path) -> None:
    from engines import FILES, Corpus

    corpus = Corpus(tmp_path / "c", LINES)
    given = [
        json.loads(line)
        for path in sorted((corpus.folder / "corpus").iterdir())
        for line in path.read_text().splitlines()
    ]
    assert [row["text"] for row in given] == LINES and len(list((corpus.folder / "corpus").iterdir())) <= FILES
    assert (corpus.folder / "big.txt").read_text().splitlines() == LINES
    whole = [{**row, "translation": TRANSLATIONS[row["id"]], "translation_error": ""} for row in given]
    write_out(corpus.folder, whole[::-1])
    corpus.check(TRANSLATIONS)
    swapped = [{**whole[0], "translation": TRANSLATIONS[1]}, *whole[1:]]
    told = [{**whole[0], "translation_error": "must be text"}, *whole[1:]]
    for wrong in (whole[1:], [*whole, whole[0]], swapped, told):
        write_out(corpus.folder, wrong)
        with pytest.raises(AssertionError):
            corpus.check(TRANSLATIONS)


def test_maps_of_a_file_are_counted_alone(tmp_path: Path) -> None:
    import mmap
    import os

    from engines import mapped

    if not Path("/proc/self/smaps").exists():
        pytest.skip("needs /proc/PID/smaps")
    path = tmp_path / "weights"
    path.write_bytes(b"x" * (1 << 20))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
        assert sum(memory[:: mmap.PAGESIZE]) > 0  # every page is there
        assert mapped(os.getpid(), "Rss", f"{tmp_path}/") == 1 << 20
    assert mapped(os.getpid(), "Rss", f"{tmp_path}/") == 0 and mapped(os.getpid(), "Rss", "") > 1 << 20
