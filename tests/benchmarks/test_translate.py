"""The benchmark of translating: what it runs, and the tables it makes of records."""

import argparse
import json
import sys
from pathlib import Path

import pytest

from tests.saved_models import write_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("models") / "model")


def test_options_have_the_sizes_of_the_issue_and_quick_ones() -> None:
    from translate import arguments

    whole = arguments(["m"])
    assert (whole.beams, whole.batches, whole.threads, whole.dtypes) == (
        [1, 5],
        [1, 64],
        [2, 1],
        "float32,bfloat16,int8",
    )
    assert (whole.lines, whole.single_lines, whole.long_lines) == (None, 300, 10_000)
    quick = arguments(["m", "--quick", "--lines", "7", "--batches", "1,32,128"])
    assert (quick.lines, quick.single_lines, quick.long_lines, quick.batches) == (7, 20, 0, [1, 32, 128])


def test_the_long_text_is_whole_pairs_of_all_files_again_and_again(tmp_path: Path) -> None:
    from translate import long_text

    for name, count in (("test", 3), ("dev", 2)):
        for lang in ("en", "de"):
            (tmp_path / f"{name}.{lang}").write_text("".join(f"{name} {n}\n" for n in range(count)), "utf-8")
    src, ref = long_text(tmp_path / "test.en", tmp_path / "test.de", 12)
    assert src == ref and len(src) == 12
    assert sorted(src) == sorted([*[f"test {n}" for n in range(3)] * 2, *["dev 0", "dev 1"] * 2, "test 0", "test 1"])
    assert long_text(tmp_path / "test.en", tmp_path / "test.de", 2)[0] != [], "and fewer than there are"


def test_single_sentences_are_answered_one_after_another() -> None:
    from _watch import converse

    watched, answers, seconds = converse(["cat"], ["ä b", "", "c"])
    assert (watched.status, answers, len(seconds)) == (0, ["ä b", "", "c"], 3)
    code = "import sys; print(sys.stdin.readline().upper(), end='', flush=True); sys.exit(3)"
    watched, answers, _ = converse([sys.executable, "-c", code], ["a", "b"])
    assert (watched.status, answers) == (3, ["A"])


def test_shares_are_of_the_whole() -> None:
    from _search_share import shares

    names = {
        "step": 4.0,
        "output layer: best tokens": 2.0,
        "encoder.0.f: loop": 1.0,
        "scan: time loop": 0.5,
        "search": 1.0,
    }
    found = shares(names | {"packing": 0.5}, 10.0)
    expected = {"cell": 0.4, "output": 0.2, "encoder": 0.15, "choice": 0.1, "search": 0.25}
    assert found == pytest.approx(expected)


def commands_of(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    import _systems

    seen: list[list[str]] = []
    monkeypatch.setattr(_systems, "watch", lambda command, **options: seen.append(command))
    return seen


def test_our_model_runs_in_each_precision_with_and_without_its_shortlist(model, tmp_path, monkeypatch) -> None:
    import _systems

    setting = _systems.Setting(5, 64, 2)
    assert [s.name for s in _systems.ours_in_all(model, ["float32"], tmp_path)] == ["nmt float32"]
    (model / "shortlist.safetensors").write_bytes(b"12345")
    assert model / "shortlist.safetensors" == model / _systems.SHORTLIST_NAME
    found = _systems.ours_in_all(model, ["float32", "bfloat16"], tmp_path)
    assert [s.name for s in found] == [f"nmt {d}{s}" for d in ("float32", "bfloat16") for s in ("", ", shortlist")]
    assert found[1].disk_mb - found[0].disk_mb == pytest.approx(5e-6), "the shortlist is a file, too"
    assert not any("train" in path.name for path in found[0].files) and all(path.exists() for path in found[1].files)
    seen = commands_of(monkeypatch)
    found[3].run(setting, tmp_path / "s", tmp_path / "t")
    text = " ".join(seen[0])
    assert "--compute-dtype bfloat16 --beam-size 5 --batch-size 64 --threads 2 --shortlist" in text
    command, _ = found[0].answers(setting)
    assert command[command.index(str(model)) + 1] == "-" and "--shortlist" not in command


def test_peers_run_as_given_and_the_rest_is_left_out(model, tmp_path, monkeypatch, capsys) -> None:
    import _systems

    for name in ("onmt/bin/onmt_train", "onmt/bin/python", "marian/bin/pymarian"):
        (tmp_path / f"venv-{name}").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"venv-{name}").touch()
    given = dict.fromkeys(("onmt", "marian", "marian_int8", "marian_vocab", "ctranslate2"), tmp_path / "file")
    options = argparse.Namespace(peers=tmp_path, subwords=model / "joint.spm", joey=None, **given)
    found = _systems.peers(options)
    assert [s.name for s in found] == [
        "OpenNMT-py fp32",
        "OpenNMT-py int8",
        "Marian float32",
        "Marian int8",
        "CTranslate2 int8 Transformer",
    ]
    assert "joey: skipped; give --joey" in capsys.readouterr().err
    seen = commands_of(monkeypatch)
    for system in found:
        system.run(_systems.Setting(5, 1, 2), tmp_path / "s", tmp_path / "t")
    assert "-precision int8" in " ".join(seen[1]) and "-beam_size 5 -batch_size 1" in " ".join(seen[1])
    assert "--mini-batch 1 --maxi-batch 1 " in " ".join(seen[2])
    assert seen[4][-3:] == ["5", "1", "2"]
    pieces = found[0].encode(["kara losu"])
    assert found[0].text(pieces) == ["kara losu"]


def record(system: str, batch: int, speed: float | None, **more: object) -> dict[str, object]:
    plain = {"system": system, "beam": 5, "batch": batch, "threads": 2, "lines": 1000, "text": "test"}
    figures = {"sentences_per_second": speed, "source_words_per_second": speed and 12 * speed, "peak_mb": 300.4}
    return plain | figures | {"disk_mb": 53.93, "bleu": 30.123, "latency_ms": None, "shares": None} | more


def test_the_table_has_the_fastest_batch_and_single_sentences() -> None:
    from _translation_table import markdown, ratios

    latency = {"latency_ms": {"p50": 10.04, "p95": 20.0, "p99": 31.0}, "shares": {"search": 0.084, "encoder": 0.12}}
    records = [
        record("nmt float32", 1, 40.0, **latency),
        record("nmt float32", 32, 150.0),
        record("nmt float32", 64, 200.0),
        record("OpenNMT-py fp32", 64, 50.0),
        record("Marian int8", 64, None),
    ]
    table = markdown(records)
    assert table[0] == "Text `test`, 1,000 lines:"
    first = "| nmt float32 | 5 | 2 | 1 | 40.0 | 480.0 | 10.0 | 20.0 | 31.0 | 12 % | 8 % | 300 | 53.9 | 30.12 |"
    assert table[4] == first
    assert table[5] == "| nmt float32 | 5 | 2 | 64 | 200.0 | 2400.0 | - | - | - | - | - | 300 | 53.9 | 30.12 |"
    assert table[7].startswith("| Marian int8 | 5 | 2 | 64 | - | - |") and len(table) == 8
    assert ratios(records) == ["- test, 2 threads, beam 5, best batch: nmt float32 is 4.00x OpenNMT-py fp32"]
    assert json.loads(json.dumps(records)) == records


def test_the_faster_turn_counts() -> None:
    from translate import better

    slow, fast, none = (record("a", 1, speed) for speed in (1.0, 2.0, None))
    assert better(None, none) is none and better(none, slow) is slow
    assert better(slow, fast) is fast and better(fast, slow) is fast
