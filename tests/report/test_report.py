"""The page of runs: what it holds, that it is whole by itself, and small whatever a run wrote."""

import json
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest

from nmt.errors import DataError
from nmt.evaluate.scores import bleu_interval, score_translations
from nmt.report import read_run, report_data, report_page
from nmt.report.runs import thinned
from tests.cli.conftest import Run as Command
from tests.data.corpora import sentences
from tests.refusals import refused

EVIL = "</script><img src=x onerror=alert(1)>"


def write(folder: Path, updates: int = 400, every: int = 10, *, tail: str = "", **start) -> Path:
    """A run's events, as nmt-train writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = random.Random(folder.name)
    events = [{"event": "start", "parameters": 1000, "threads": 2, "device": "cpu", "batch_size": 64, **start}]
    for update in range(every, updates + 1, every):
        nll = 5 * math.exp(-update / 100) + drawn.random()
        common = {"update": update, "elapsed": update / 10, "loss": nll, "ppl": math.exp(nll), "accuracy": 0.5}
        rates = {"learning_rate": 1e-3, "gradient_norm": drawn.random(), "tgt_tokens_per_second": 5000.0}
        events.append({"event": "train", "nll": nll, **common, **rates})
        if update % (10 * every) == 0:
            bleu = 10 + update / 100
            events.append({"event": "validation", "bleu": bleu, "chrf": 40, "best": True, **common})
            hypothesis = f"guess {update // (20 * every)} {EVIL}"
            sample = {"source": f"Quelle {EVIL}", "reference": "right", "hypothesis": hypothesis}
            events.append({"event": "samples", "update": update, "intervals": {"bleu": 1.25}, "samples": [sample]})
    events.insert(1, {"event": "signatures", "bleu": "nrefs:1|tok:13a", "chrf": "nc:6"})
    text = "".join(json.dumps(event) + "\n" for event in events) + tail
    (folder / "metrics.jsonl").write_text(text)
    return folder


def data_of(page: str) -> dict:
    """What a page gives its scripts."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])


def tables_of(data: dict) -> dict[str, list]:
    """The rows of the tables by their titles; those of several runs one after another."""
    found: dict[str, list] = {}
    for table in data["tables"]:
        found.setdefault(table["title"], []).extend(table["rows"])
    return found


def test_a_page_says_what_runs_were(tmp_path: Path) -> None:
    folders = [write(tmp_path / name, learning_rate=rate) for name, rate in (("a", 1), ("b", 2))]
    finding = {"name": "markup", "where": "train.de", "count": 3, "total": 9, "what": "contain tags"}
    check = {"findings": [finding | {"examples": [{"line": 17, "text": "x"}]}]}
    (folders[0] / "data_check.json").write_text(json.dumps(check))
    runs = [read_run(folder) for folder in folders]
    runs[0].settings, runs[1].settings = {"seed": 1, "threads": 2}, {"seed": 2, "threads": 2}
    data = report_data(runs, {"a": ["<svg></svg>"], "b": []})
    tables = tables_of(data)
    assert [row[5] for row in tables["Runs"]] == ["14.00 ± 1.25"] * 2 and tables["Signatures"][0][
        0
    ] == "nrefs:1|tok:13a"
    assert [row[0] for row in tables["Settings that differ"]] == ["seed"] and data["pictures"] == {"a": ["<svg></svg>"]}
    assert tables["Found in the corpus"] == [["markup", "train.de", "3 of 9", "contain tags", "17"]]
    assert [row[1] for row in tables["Translations"]][:4] == [f"guess {n} {EVIL}" for n in range(3)] + ["right"]
    assert data["runs"] == [str(folder) for folder in folders]
    assert [len(curve) for curve in data["charts"][0]["curves"]] == [4, 4]
    assert data["charts"][0]["bands"][0] == [[100, 1.25], [200, 1.25], [300, 1.25], [400, 1.25]]


def test_the_page_holds_all_it_needs_and_no_text_leaves_its_data(tmp_path: Path) -> None:
    page = report_page([read_run(write(tmp_path / "a"))], title="Mine & </title>")
    assert data_of(page)["title"] == "Mine & </title>" and "<title>Mine &amp; &lt;/title&gt;</title>" in page
    assert "onerror" not in re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.DOTALL)
    assert page.count("<script") == page.count("</script>") == 2 and "onerror" in page
    assert not re.search(r"^(import|export) |@import|url\(|<link|src=\"", page.split("</style>")[0], re.MULTILINE)
    assert not re.search(r"^(import|export) ", page, re.MULTILINE)


def test_samples_are_kept_where_they_change(tmp_path: Path) -> None:
    run = read_run(write(tmp_path / "a"))
    assert [update for update, _ in run.samples[0]["changes"]] == [100, 200, 400]
    assert run.best["update"] == 400 and run.speed == 5000 and run.updates == 400


def test_a_resumed_run_counts_once_and_half_a_line_is_passed_over(tmp_path: Path) -> None:
    again = [{"event": "resume", "update": 200}, {"event": "train", "update": 210, "nll": 0.5, "elapsed": 30}]
    tail = "".join(json.dumps(event) + "\n" for event in again) + '{"event": "tra'
    run = read_run(write(tmp_path / "a", tail=tail))
    curve = run.curves["train nll"]
    assert [update for update, _, _ in curve] == list(range(10, 401, 10))
    assert dict((update, value) for update, _, value in curve)[210] == 0.5
    assert run.skipped == 1 and report_data([run])["warnings"] == [
        f"{run.name}: 1 lines of metrics.jsonl cannot be read."
    ]


def test_scores_that_cannot_be_compared_are_said_so(tmp_path: Path) -> None:
    runs = [read_run(write(tmp_path / name)) for name in "ab"]
    assert report_data(runs)["warnings"] == []
    runs[1].events["signatures"]["bleu"] = "nrefs:1|tok:char"
    assert "bleu scores have different signatures" in report_data(runs)["warnings"][0]


def test_a_long_run_makes_a_small_page(tmp_path: Path) -> None:
    page = report_page([read_run(write(tmp_path / "a", updates=60_000, every=5))])
    assert len(page) < 1_500_000


def test_thinning_keeps_peaks_ends_and_order() -> None:
    values = np.ones(10_000)
    values[4321], values[777], values[1], values[9_998] = 99.0, -99.0, 5.0, 5.0
    found = thinned(values, 200).tolist()
    assert len(found) <= 200 and found == sorted(set(found)) and {0, 1, 777, 4321, 9_998, 9_999} <= set(found)
    assert thinned(values[:200], 200).tolist() == list(range(200))


def test_values_that_are_no_numbers_are_left_out_of_a_curve(tmp_path: Path) -> None:
    values = [1.5, "2", None, math.nan, 3, 10**400, True]
    lines = [json.dumps({"event": "train", "update": n, "elapsed": 60 * n, "loss": v}) for n, v in enumerate(values)]
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("\n".join([*lines[:5], f" {lines[6]} ", "{} {}", "{"]) + "\n", "utf-8")
    run = read_run(folder)
    assert run.curves["train loss"] == [(0, 0.0, 1.5), (4, 4.0, 3.0), (6, 6.0, 1.0)] and run.skipped == 2
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    assert "train loss" not in read_run(folder).curves  # a number that no float holds makes no curve, and no traceback


def test_a_folder_that_is_none_is_one_line(tmp_path: Path) -> None:
    refused(DataError, "must be a model folder with metrics.jsonl", read_run, tmp_path)
    (tmp_path / "metrics.jsonl").write_text("nothing\n")
    refused(DataError, "must contain the events of a run, got none", read_run, tmp_path)


def test_the_interval_is_that_of_sacrebleu() -> None:
    references = sentences(150, 3, 14)
    drawn = random.Random(1)
    hypotheses = [" ".join(word for word in line.split() if drawn.random() > 0.2) for line in references]
    want = score_translations(hypotheses, references, metrics=("bleu",), confidence=True)["bleu"].interval
    assert bleu_interval(hypotheses, references) == pytest.approx(want, rel=0.15)
    assert bleu_interval(hypotheses, references) == bleu_interval(hypotheses, references)


def test_a_training_tells_the_report_what_it_shows(model: Path, run: Command) -> None:
    found = read_run(model)
    assert found.events["start"]["machine"]["processor"] and found.events["start"]["parameters"] > 0
    assert found.events["signatures"]["bleu"].startswith("nrefs:1") and found.intervals
    assert len(found.samples) == 3 and found.samples[0]["reference"]
    assert found.events["test"]["signatures"]["bleu"] and found.findings is not None
    assert found.settings["data.src.lang"] == "xx"
