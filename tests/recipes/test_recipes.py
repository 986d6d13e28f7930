"""recipes/run.py and zoo.py, with a recipe of the smallest models: trained once, scored alone and together, bundled."""

import argparse
import csv
import json
import math
import re
import subprocess
import sys
import threading
from itertools import product
from pathlib import Path

import pytest
import run
from catalogue import MINUTES, RECIPES, SIGMORPHON2020

from nmt.config import load_config
from tests.data_scripts.test_corpora import write_tables

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    *("model.encoder.hidden_size=5", "model.encoder.num_layers=1", "model.encoder.embeddings.embedding_dim=4"),
    *("model.decoder.hidden_size=6", "model.decoder.embeddings.embedding_dim=4"),
    *("training.updates=3", "training.learning_rate_warmup=1", "training.validation_freq=3"),
    *("compute_dtype=float32", "data.check=false"),
]


def trained(folder):
    """Write what a training leaves that these tests read."""
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(json.dumps({"elapsed": 60, "peak_memory": 2e8}) + "\n")


def script(name, *words, cwd):
    command = [sys.executable, ROOT / "recipes" / name, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_has_settings_that_hold(name):
    recipe = RECIPES[name]
    for variant, method in product(recipe.variants, recipe.methods):
        settings = [f"{key}={value}" for key, value in recipe.settings(variant, method).items()]
        config = load_config(str(ROOT / recipe.config), settings)
        source, references = recipe.files(variant, "train")
        texts = config.data.train
        prefixes = [texts] if isinstance(texts, str) else [corpus.path for corpus in texts]
        for path, lang in ((source, config.data.src.lang), (references, config.data.tgt.lang)):
            assert path.suffix == f".{lang}"
            assert all(prefix.startswith(str(path.with_suffix(""))) for prefix in prefixes)
    assert (ROOT / recipe.data.split()[1]).is_file()


def test_means_of_published_figures_are_those_of_the_task():
    """18.53 and 13.98: what the ten languages' own figures give. Without dev, "by dev" is the first model."""
    recipe = RECIPES["letters-to-sounds"]
    rows = [
        {"variant": name, "part": "test", "system": system, "wer": score, "per": 0.0, "minutes": 1.0, "MB": 500}
        for name in SIGMORPHON2020
        for system, score in (("1", 10.0), ("2", 14.0), ("ensemble 1+2", 9.0))
    ]
    *_, last = run.table(recipe.cut_to(None, ["test"]), rows).splitlines()
    assert last.split("\t") == ["mean of 10", "test", "12.00", "2.83", "9.00", "1.0", "500", "10.00", "18.53", "13.98"]


def test_parts_that_are_languages_have_published_figures_and_a_mean():
    """12.68 and 26.23: the means of the nine languages' own figures."""
    recipe = RECIPES["americas-together"]
    rows = [
        {"variant": "together", "part": part, "system": "1", "chrf++": 10.0 + n, "minutes": 60.0, "MB": 600}
        for n, part in enumerate(recipe.parts)
    ]
    lines = [line.split("\t") for line in run.table(recipe, rows).splitlines()]
    assert lines[1] == ["together", "dev_aym", "10.00", "-", "-", "60.0", "600", "18.80", "34.30"]
    assert lines[-1] == ["mean of 9", "all", "14.00", "-", "-", "60.0", "600", "12.68", "26.23"]
    assert len(lines) == 11


def test_cells_are_scored_in_int8_and_timed(tmp_path, monkeypatch):
    """Two seeds of one cell: 100 lines in 2 and 5 seconds, 1.5 points less in int8."""
    recipe = RECIPES["cells-inflection"].cut_to(["gla"], ["test"])
    commands = run.Commands([], 1, [])
    source = tmp_path / "test.lemma"
    source.write_text("x\n" * 100)
    monkeypatch.setattr(run.Recipe, "files", lambda self, variant, part: (source, source))
    monkeypatch.setattr(run, "minutes_of", lambda folder: 1.0)
    monkeypatch.setattr(run, "megabytes_of", lambda folder: 300.0)

    def translate(self, source, output, models, search=(), by_lists=False):
        run._seconds_file(output).write_text("2.0" if output.name.startswith("test.1") else "5.0")
        return output

    def scores(self, recipe, output, references):
        return {"accuracy": 60.0 - 1.5 * (output.suffix == ".int8"), "per": 9.0}

    monkeypatch.setattr(run.Commands, "translate", translate)
    monkeypatch.setattr(run.Commands, "scores", scores)
    jobs = [run.Job(recipe, "gla", "", seed, tmp_path) for seed in (1, 2)]
    for job in jobs:
        job.folder.mkdir(parents=True)
    rows = run.rows_of(commands, recipe, "gla", jobs)
    head, line = (one.split("\t") for one in run.table(recipe, rows).splitlines())
    assert head[-3:] == ["int8", "lines/s", "int8 lines/s"]
    assert line == ["gla", "test", "60.00", "0.00", "60.00", "1.0", "300", "58.50", "35.00", "35.00"]
    assert run.columns(rows).splitlines()[-1].split("\t")[2] == "ensemble 1+2"


def test_dev_decides_whether_all_models_are_taken_together(tmp_path, monkeypatch):
    """Together is better on dev in the first language alone: (2 * 70 + 50) / 3 over the items of test."""
    monkeypatch.chdir(tmp_path)
    recipe = RECIPES["inflection-2022-small"].cut_to(["ang_small", "tur_small"], None)
    rows = []
    for variant, lines, dev, test in (("ang_small", 2, (60, 65), (62, 70)), ("tur_small", 1, (80, 79), (50, 90))):
        for part, scores in (("dev", dev), ("test", test)):
            references = recipe.files(variant, part)[1]
            references.parent.mkdir(parents=True, exist_ok=True)
            references.write_text("x\n" * lines)
            for system, score in zip(("edits-1", "ensemble edits-1+attention-1"), scores, strict=True):
                rows.append({"variant": variant, "part": part, "system": system, "accuracy": score, "per": 0.0}
                            | {"minutes": 1.0, "MB": 200})  # fmt: skip
    lines = [line.split("\t") for line in run.table(recipe, rows).splitlines()]
    at = lines[0].index("by dev")
    assert [line[at] for line in lines[1:]] == ["65.00", "80.00", "70.00", "70.00", "50.00", "63.33"]
    only_test = run.table(recipe.cut_to(None, ["test"]), [row for row in rows if row["part"] == "test"])
    assert [line.split("\t")[at] for line in only_test.splitlines()[1:]] == ["62.00", "50.00", "58.00"]


def test_correct_answers_among_the_best_are_counted(tmp_path, monkeypatch):
    """Of four lines the first's answer is the second best, and two lines have none among theirs."""
    recipe = RECIPES["names"].cut_to(["korean"], ["test"])
    references = tmp_path / "test.script"
    references.write_text("a b\nc\nd\ne\n")
    lists = [{"a": 0.5, "a b": 0.4}, {"c": 1.0}, {"x": 0.9}, {}]
    monkeypatch.setattr(run.Recipe, "files", lambda self, variant, part: (references, references))
    for name in ("minutes_of", "megabytes_of"):
        monkeypatch.setattr(run, name, lambda folder: 1.0)
    monkeypatch.setattr(run.Commands, "translate", lambda self, source, output, *more, **options: output)
    monkeypatch.setattr(run.Commands, "scores", lambda *given: {"accuracy": 25.0, "per": 9.0})
    monkeypatch.setattr(run.Commands, "candidates", lambda *given: lists)
    rows = run.rows_of(run.Commands([], 1, []), recipe, "korean", [run.Job(recipe, "korean", "", 1, tmp_path)])
    head, line = (one.split("\t") for one in run.table(recipe, rows).splitlines())
    assert head[-1] == "in 5 best" and line[-1] == "50.00" and line[2] == "25.00"


def test_means_over_items_count_every_line_once(tmp_path, monkeypatch):
    """Three lines of one language and one of the other: (3 * 40 + 80) / 4, and the same for published figures."""
    monkeypatch.chdir(tmp_path)
    recipe = RECIPES["inflection-2022-small"].cut_to(["tur_small", "hsi_small"], ["test"])
    for name, lines in (("tur_small", 3), ("hsi_small", 1)):
        references = recipe.files(name, "test")[1]
        references.parent.mkdir(parents=True)
        references.write_text("a b\n" * lines)
    rows = [
        {"variant": name, "part": "test", "system": "1", "accuracy": score, "per": 0.0, "minutes": 1.0, "MB": 500}
        for name, score in (("tur_small", 40.0), ("hsi_small", 80.0))
    ]
    *_, last = run.table(recipe, rows).splitlines()
    assert last.split("\t") == ["mean of 2", "test", "50.00", "-", "-", "1.0", "500", "50.00", "25.95"]


def test_each_language_keeps_the_method_that_is_better_on_dev(tmp_path, monkeypatch):
    """Also where test alone is to be scored, on which the other method is better here; equal scores keep the first."""
    monkeypatch.chdir(tmp_path)
    recipe = RECIPES["inflection-2022-small"]
    names = ("tur_small", "hsi_small")
    for name, part, side in product(names, ("train", "dev", "test"), (0, 1)):
        path = recipe.files(name, part)[side]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a b\n")
    dev = {("tur_small", "edits"): 60.0, ("tur_small", "attention"): 70.0}
    done = []

    def command(self, name, *words):
        words = [str(word) for word in words]
        if name == "train":
            folder = Path(next(word for word in words if word.startswith("model_dir=")).removeprefix("model_dir="))
            done.append("/".join(folder.parts[-2:]))
            trained(folder)
        elif name == "translate":
            Path(words[3]).write_text("0\t1\t-0.5\ta b\n")
        else:
            output = Path(words[1])
            if "ensemble" in output.name:
                return json.dumps({"metrics": {metric: {"score": 95.0} for metric in ("accuracy", "per")}})
            variant, method = output.parts[-3], output.parts[-2].split("-")[0]
            of_test = 90.0 if method == "edits" else 80.0
            score = of_test if output.name.startswith("test") else dev.get((variant, method), 50.0)
            return json.dumps({"metrics": {metric: {"score": score} for metric in ("accuracy", "per")}})
        return ""

    monkeypatch.setattr(run.Commands, "run", command)
    monkeypatch.setattr(sys, "argv", ["run.py", "inflection-2022-small", "--only", *names, "--seeds", "2"])
    run.main()
    first = [f"{name}/{method}-1" for name in names for method in recipe.methods]
    assert done == [*first, "tur_small/attention-2", "hsi_small/edits-2"]
    monkeypatch.setattr(sys, "argv", [*sys.argv[:-2], "--parts", "test", "-o", "elsewhere"])
    run.main()
    rows = list(csv.DictReader(Path("elsewhere/inflection-2022-small/results.tsv").open(), delimiter="\t"))
    assert [(row["variant"], row["part"], row["system"]) for row in rows] == [
        ("tur_small", "test", "attention-1"),
        ("tur_small", "test", "ensemble attention-1+edits-1"),
        ("hsi_small", "test", "edits-1"),
        ("hsi_small", "test", "ensemble edits-1+attention-1"),
    ]
    assert Path("elsewhere/inflection-2022-small/hsi_small/edits-1/test.edits-1.out").read_text() == "a b\n"


def test_the_texts_of_one_model_are_translated_side_by_side(tmp_path, monkeypatch):
    """Two commands at a time, each of which waits for the other."""
    monkeypatch.chdir(tmp_path)
    both = threading.Barrier(2, timeout=10)

    def command(self, name, *words):
        if name == "train":
            folder = Path(next(word for word in words if str(word).startswith("model_dir=")).removeprefix("model_dir="))
            trained(folder)
        elif name == "translate":
            both.wait()
            Path(words[3]).write_text("a b\n")
        else:
            return json.dumps({"metrics": {metric: {"score": 12.0} for metric in ("bleu", "chrf")}})
        return ""

    monkeypatch.setattr(run.Commands, "run", command)
    recipe = RECIPES["travel"]
    options = argparse.Namespace(output=tmp_path, jobs=2, seeds=1)
    rows, failed = run.trained_and_scored("travel", recipe, options, run.Commands([], 1, []))
    assert ([row["part"] for row in rows], failed) == (["dev", "test"], 0)


def test_models_of_several_methods_decide_by_the_sum_of_probabilities():
    """0.4 and 0.1 for b are more than 0.45 for a; a line without answers stays empty."""
    assert run.likeliest([[{"a": 0.45, "b": 0.4}, {"a": 1.0}, {}], [{"c": 0.3, "b": 0.1}, {}, {}]]) == ["b", "a", ""]


def test_answers_that_a_model_has_twice_are_added(tmp_path):
    source, listed = tmp_path / "dev.lemma", tmp_path / "dev.tsv"
    source.write_text("x\n\ny\n")
    listed.write_text(f"0\t1\t{math.log(0.5)}\ta\n0\t2\t{math.log(0.3)}\tb\n0\t3\t{math.log(0.3)}\tb\n2\t1\t-1\tc\n")
    assert run.likeliest([run.Commands([], 1, []).candidates(source, tmp_path)]) == ["b", "", "c"]


def test_a_recipe_from_texts_to_files_and_once_only(tmp_path):
    names = [f"ice_{part}.tsv" for part in ("train", "dev", "test")]
    write_tables(tmp_path / "copy", names, "".join(f"{w}\t{' '.join(w)}\n" for w in ("aba", "bab", "ab", "abba") * 3))
    data = [sys.executable, ROOT / "data_scripts/sigmorphon2020_g2p.py", "--from", "copy", "--languages", "ice"]
    data += ["--out", "data/sigmorphon2021_g2p"]  # tables of both years have one form
    subprocess.run(data, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    settings = [word for one in SMALL for word in ("--set", one)]
    command = ["run.py", "pronunciation-2021-low", "--only", "ice", "--seeds", "2", *settings]
    done = script(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines[1:]] == [["ice", "dev"], ["ice", "test"]]
    assert lines[2][-1] == "12.00" and len(lines[1]) == 8 and float(lines[1][6]) > 50
    table = tmp_path / "runs/recipes/pronunciation-2021-low/results.tsv"
    rows = list(csv.DictReader(table.open(encoding="utf-8"), delimiter="\t"))
    assert [row["system"] for row in rows] == ["1", "2", "ensemble 1+2"] * 2
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("best.safetensors")}
    assert len(before) == 2
    assert script(*command, cwd=tmp_path).stdout == done.stdout
    assert {path: path.stat().st_mtime_ns for path in before} == before
    zoo = script("zoo.py", cwd=tmp_path)
    assert zoo.returncode == 0, zoo.stderr
    name, size, seed, metric, trained, _ = zoo.stdout.splitlines()[1].split("\t")
    file = tmp_path / "runs/zoo" / name
    assert file.stat().st_size == int(size) < 20_000_000 and metric == "wer" and file.with_suffix(".md").is_file()
    best = min((float(row["wer"]), row["system"]) for row in rows[:2])
    assert (float(trained), seed) == (pytest.approx(best[0], abs=0.01), best[1])


def test_all_recipes_share_the_hours(tmp_path, monkeypatch):
    """Six models of about a minute and one of 4 in 2 minutes of two cores: 40 % of what each takes, but half a minute.
    The clock stands still, so that the second recipe has all that it takes. It fails."""
    assert set(MINUTES) == set(RECIPES)
    monkeypatch.chdir(tmp_path)
    small = RECIPES["pronunciation-2021-low"].cut_to(["ice", "ita", "lav", "mlt_latn", "rum", "slv"], None)
    known = {"travel": RECIPES["travel"], "names": RECIPES["names"], "pronunciation-2021-low": small}
    monkeypatch.setattr(run, "RECIPES", known)
    for name in ("travel", "pronunciation-2021-low"):
        for variant in known[name].variants:
            for path in (*known[name].files(variant, "train"), *known[name].files(variant, "dev")):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("a\n")
    budgets = []
    monkeypatch.setattr(run.time, "monotonic", lambda: 0.0)

    def scored(name, recipe, options, commands):
        budgets.append((name, commands.budget))
        if name == "travel":
            return [], 1
        for job in run.first_jobs(recipe, options.output / name):
            job.folder.mkdir(parents=True)
            (job.folder / run.DONE).write_text("")
        row = {"system": "1", "wer": 12.5, "per": 3.0, "minutes": 1.0, "MB": 200, run.LISTED: 80.0}
        return [{"variant": one, "part": part} | row for one, part in product(recipe.variants, recipe.parts)], 0

    monkeypatch.setattr(run, "trained_and_scored", scored)
    monkeypatch.setattr(sys, "argv", "run.py --all --hours 0.01 --jobs 1 -o out".split())
    with pytest.raises(SystemExit, match="--hours must be at least 0.1 for 7 trainings with --jobs 1, got 0.01; give"):
        run.main()
    monkeypatch.setattr(sys, "argv", "run.py --all --hours 0.0333334 --jobs 2 -o out".split())
    with pytest.raises(SystemExit) as ended:
        run.main()
    assert ended.value.code == 1
    assert budgets == [("pronunciation-2021-low", "0.5m"), ("travel", "")]
    page = (tmp_path / "out/index.html").read_text()
    assert "1 of 3 recipes run, 1 failed" in page and "failed: 1 of its trainings, see above" in page
    assert page.count("<td>12.50</td>") == 14 and "python data_scripts/names.py" in page
    assert page.count("<table>") == 1


def test_short_trainings_leave_time_for_long_ones():
    """Ten minutes for eight models of a minute, one of 20 and one of 10: with a third of what each takes the small ones
    would have less than half a minute, so that six minutes are left for the others, 20 % of theirs. With less than a
    tenth of what they take these would learn nothing."""
    assert run.share_of(10.0, [20.0, *[1.0] * 8, 10.0]) == pytest.approx(0.2)
    assert run.share_of(38.0, [20.0, *[1.0] * 8, 10.0]) == pytest.approx(1.0)
    assert run.share_of(6.9, [20.0, *[1.0] * 8, 10.0]) == run.share_of(-1.0, [1.0]) == 0.0
    assert run.share_of(1.0, []) == 1.0
    assert [run.shortest(minutes) for minutes in (1.0, 5.0, 20.0)] == [0.5, 0.5, 2.0]


def test_mistakes_are_one_line(tmp_path):
    for words, message in (
        (["run.py", "--all", "cmudict"], "--all must be without a recipe"),
        (["run.py", "cmudict", "--hours", "3"], "--hours must be a positive number, with --all"),
        (["run.py", "letters-to-sounds"], "run python data_scripts/sigmorphon2020_g2p.py first"),
        (["run.py", "cmudict", "--only", "xx"], "must have what is asked for, got xx"),
        (["run.py", "cmudict", "--seeds", "0"], "must be at least 1"),
        (["zoo.py"], "must contain a recipe that was run"),
    ):
        done = script(*words, cwd=tmp_path)
        assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1
    assert [line.split("\t")[0] for line in script("run.py", cwd=tmp_path).stdout.splitlines()] == list(RECIPES)


def test_a_training_that_fails_does_not_keep_others_from_their_table(tmp_path, monkeypatch, capsys):
    """Of two methods the one that was trained is kept, and of two languages the one that has a model."""
    monkeypatch.chdir(tmp_path)
    failing = {"fre/edits-1", "kor/attention-1", "kor/edits-1"}

    class Fake(run.Commands):
        def train(self, job):
            if f"{job.variant}/{job.name}" in failing:
                raise run.CommandError("no memory")
            trained(job.folder)
            return 1.0

        def translate(self, source, output, models, search=(), by_lists=False):
            return output

        def scores(self, recipe, hypotheses, references):
            return {"wer": 20.0, "per": 5.0}

    monkeypatch.setattr(run, "Commands", Fake)
    for language in ("fre", "kor"):
        (tmp_path / f"data/sigmorphon2020_g2p/{language}").mkdir(parents=True)
        for side in ("letters", "sounds"):
            (tmp_path / f"data/sigmorphon2020_g2p/{language}/train.{side}").write_text("a\n")
    monkeypatch.setattr(sys, "argv", "run.py letters-to-sounds --only fre kor --seeds 2".split())
    with pytest.raises(SystemExit, match="run.py: failed: 3 of its trainings, see above"):
        run.main()
    printed = capsys.readouterr()
    lines = [line.split("\t") for line in printed.out.splitlines()[1:]]
    assert [line[:4] for line in lines] == [["fre", part, "20.00", "0.00"] for part in ("dev", "test")]
    assert printed.err.count("no memory") == 3


def test_a_training_that_fails_is_told_and_tried_again(tmp_path):
    for part in ("train", "dev", "test"):
        for side in ("letters", "sounds"):
            path = tmp_path / f"data/sigmorphon2020_g2p/fre/{part}.{side}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("a b\n" if side == "letters" else "a\nb\n")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    done = script("run.py", "letters-to-sounds", "--only", "fre", cwd=tmp_path)
    assert done.returncode == 1 and "failed: 2 of its trainings" in done.stderr
    assert re.search(r"^runs/recipes/letters-to-sounds/fre/edits-1: nmt train: Error: .+must", done.stderr, re.M)
