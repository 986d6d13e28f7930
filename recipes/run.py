"""Trains all models of a recipe, each language with each seed, scores them alone and as ensembles, and writes a table.

    python recipes/run.py                                     list the recipes
    python recipes/run.py letters-to-sounds --seeds 4         ten languages, five models each, and their ensembles
    python recipes/run.py letters-to-sounds --only fre kor    two of them
    python recipes/run.py --all --hours 12 --jobs 2           all recipes whose texts are there, and a page

Where a recipe names several methods, the first model of a language is trained by each of them, the one with the best
first score on dev is kept, and the other seeds are trained by its method. The ensemble of such a recipe has all models
of a language: of their five best answers, the one with the largest sum of probabilities.

Runs go to runs/recipes/RECIPE/LANGUAGE/SEED, or to METHOD-SEED there, the table of a recipe to
runs/recipes/RECIPE/results.tsv and to standard output. Run the same command again to resume: finished training and
translation is not repeated. Settings are chosen on dev, and test is only scored; docs/recipes.md compares the results
with published figures.
"""

import argparse
import json
import math
import operator
import shlex
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

from catalogue import MINUTES, RECIPES, Recipe

from nmt.system.files import write_bytes

DONE = "trained.tsv"
"""What nmt-train printed, which is written when it has ended well."""


TOGETHER = "ensemble"
SMALLER_IS_BETTER = {"wer", "per"}
SHORTEST, LEAST_SHARE = 0.5, 0.1
"""Minutes of the shortest training that is worth its start, and the least share of what a recipe takes."""
CANDIDATES = 5
"""Answers to a line by each of several models that decide together by lists."""
_COSTS = ("minutes", "megabytes")
TIMED = ("int8", "lines/s", "int8 lines/s")
"""Of single models: the score in int8, and lines translated a second of the clock, loading included, in both forms."""
LISTED = f"in {CANDIDATES} best"
"""Of single models: the percentage of lines whose correct answer is among the best ones."""
BY_DEV = "by dev"
"""Of recipes with several methods: the score of all models together in languages where they are better on dev than the
single ones, and of these elsewhere."""
Row = dict[str, str | float]
"""One system's scores on one part of one language."""


class CommandError(Exception):
    """A command has failed; the text is its last line."""


@dataclass(frozen=True)
class Job:
    """One model: of a recipe, for a language (or whatever its variants are), by a method, from one seed; `place` is the
    folder of the recipe's runs."""

    recipe: Recipe
    variant: str
    method: str
    seed: int
    place: Path

    @property
    def name(self) -> str:
        """The seed, after the method where the recipe has several."""
        return f"{self.method}-{self.seed}" if self.method else f"{self.seed}"

    @property
    def folder(self) -> Path:
        """That of the run."""
        return self.place / self.variant / self.name


@dataclass(frozen=True)
class Commands:
    """Starts the commands: `launcher` is put before each of them; `extra` are settings of every training, and `budget`
    its time, such as `5m`, if its recipe does not decide."""

    launcher: list[str]
    threads: int
    extra: list[str]
    budget: str = ""

    def run(self, name: str, *words: str | Path) -> str:
        """Returns what `nmt NAME` printed. Raises CommandError with the last line of its errors."""
        command = [*self.launcher, sys.executable, "-m", "nmt", name, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
            raise CommandError(f"nmt {name}: {last}")
        return done.stdout

    def train(self, job: Job) -> float:
        """Trains a model unless that was done; returns the minutes it took, by its own log."""
        done = job.folder / DONE
        if not done.is_file():
            settings = job.recipe.settings(job.variant, job.method) | {
                "model_dir": str(job.folder),
                "seed": str(job.seed),
            }
            words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
            words += [word for text in self.extra for word in ("--set", text)]
            words += ["--budget", self.budget] if self.budget else []
            printed = self.run("train", job.recipe.config, *words, "--threads", str(self.threads))
            write_bytes(done, printed.encode())
        return minutes_of(job.folder)

    def translate(
        self, source: Path, output: Path, models: list[Path], search: tuple[str, ...] = (), by_lists: bool = False
    ) -> Path:
        """Translates with an ensemble of the models and options of the search, unless the file exists; `by_lists` each
        model by itself, so that models of any kinds can decide together (see `likeliest`)."""
        if output.is_file():
            return output
        began = time.monotonic()
        if by_lists:
            lists = [self.candidates(source, model) for model in models]
            write_bytes(output, "".join(f"{line}\n" for line in likeliest(lists)).encode())
        else:
            words = [word for other in models[1:] for word in ("--ensemble", str(other))]
            self.run("translate", models[0], source, "-o", output, *words, *search, "--threads", str(self.threads))
        write_bytes(_seconds_file(output), f"{time.monotonic() - began:.3f}\n".encode())
        return output

    def candidates(self, source: Path, model: Path) -> list[dict[str, float]]:
        """The best answers of a model to each line, and their probabilities; found once, and kept in its folder."""
        output = model / f"{source.stem}.tsv"
        if not output.is_file():
            words = ["--n-best", str(CANDIDATES), "--threads", str(self.threads)]
            self.run("translate", model, source, "-o", output, *words)
        found: list[dict[str, float]] = [{} for _ in range(line_count(source))]
        for line in output.read_text("utf-8").splitlines():
            number, _, score, text = line.split("\t")
            known = found[int(number)]
            known[text] = known.get(text, 0.0) + math.exp(float(score))
        return found

    def scores(self, recipe: Recipe, hypotheses: Path, references: Path) -> dict[str, float]:
        """Metric to score of a translated file."""
        words: list[str | Path] = ["--hyp", hypotheses, "--ref", references]
        words += ["--metric", ",".join(recipe.metrics), "--json"]
        words += ["--ref-separator", recipe.separator] if recipe.separator else []
        words += ["--lowercase"] if recipe.lowercase else []
        words += ["--tokenize", recipe.tokenize] if recipe.tokenize else []
        found = json.loads(self.run("evaluate", *words))["metrics"]
        return {name: found[name]["score"] for name in recipe.metrics}


def likeliest(lists: list[list[dict[str, float]]]) -> list[str]:
    """The answer to each line that has the largest sum of probabilities over all models, empty where there is none."""
    chosen = []
    for answers in zip(*lists, strict=True):
        total: Counter[str] = Counter()
        for one in answers:
            total.update(one)
        chosen.append(max(total, key=lambda text: total[text], default=""))
    return chosen


def minutes_of(folder: Path) -> float:
    """Minutes that a run took, by the times in its log, without interruptions."""
    return max((float(event.get("elapsed", 0.0)) for event in events_of(folder)), default=0.0) / 60


def megabytes_of(folder: Path) -> float:
    """The most memory that a run held, in MB; of several starts the most of all."""
    return max((float(event.get("peak_memory", 0.0)) for event in events_of(folder)), default=0.0) / 1e6


def seconds_of(output: Path) -> float:
    """Seconds that the command took that translated a text, from its start to its end."""
    return float(_seconds_file(output).read_text("utf-8"))


def _seconds_file(output: Path) -> Path:
    return output.with_name(f"{output.name}.seconds")


def events_of(folder: Path) -> list[dict[str, Any]]:
    """The figures in the log of a run."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]


def rows_of(commands: Commands, recipe: Recipe, variant: str, jobs: list[Job], tried: Sequence[Job] = ()) -> list[Row]:
    """Scores one language: each part by each model and, of several, by all of them together, with those of other
    methods that were `tried`."""
    rows: list[Row] = []
    systems = [([job.folder], job.name, job.folder) for job in jobs]
    every = [*jobs, *(job for job in tried if job not in jobs)]
    if len(every) > 1:
        seeds = "+".join(job.name for job in every)
        systems.append(([job.folder for job in every], f"{TOGETHER} {seeds}", jobs[0].folder.parent))
    by_lists = len(recipe.methods) > 1 or recipe.is_listed
    for part in recipe.parts:
        source, references = recipe.files(variant, part)
        for models, name, place in systems:
            output = place / f"{part}.{name.replace(' ', '-')}.out"
            commands.translate(source, output, models, recipe.search, by_lists)
            score = commands.scores(recipe, output, references)
            if recipe.is_timed and len(models) == 1:
                narrow = commands.translate(source, output.with_suffix(".int8"), models, ("--compute-dtype", "int8"))
                score["int8"] = commands.scores(recipe, narrow, references)[recipe.metrics[0]]
                score["lines/s"] = line_count(source) / seconds_of(output)
                score["int8 lines/s"] = line_count(source) / seconds_of(narrow)
            if recipe.is_listed and len(models) == 1:
                lists = commands.candidates(source, models[0])
                right = references.read_text("utf-8").splitlines()
                score[LISTED] = 100 * sum(map(operator.contains, lists, right)) / len(right)
            cost = {"minutes": round(sum(minutes_of(model) for model in models), 1)}
            cost["MB"] = round(max(megabytes_of(model) for model in models))
            rows.append({"variant": variant, "part": part, "system": name, **score, **cost})
    return rows


def best_method(commands: Commands, recipe: Recipe, variant: str, jobs: list[Job]) -> str:
    """Of one model by each method, the method of the one that scores best on the part by which a recipe chooses; of
    equal ones the first."""
    if len(jobs) == 1:
        return jobs[0].method
    dev = recipe.cut_to([variant], list(recipe.parts[:1]))
    rows = [row for job in jobs for row in rows_of(commands, dev, variant, [job])]
    scores = {job.method: float(row[recipe.metrics[0]]) for job, row in zip(jobs, rows, strict=True)}
    for method, score in scores.items():
        _say(f"{variant}, {recipe.parts[0]}: {score:.2f} by {method}")
    return (min if recipe.metrics[0] in SMALLER_IS_BETTER else max)(scores, key=lambda method: scores[method])


def table(recipe: Recipe, rows: list[Row]) -> str:
    """A line for each language and part: mean and deviation of single models, the ensemble, minutes and memory of one
    training, published figures; and the means over languages, which are parts where one model has several."""
    header = ["", "part", f"{recipe.metrics[0]}, single", "deviation", "ensemble", "minutes", "MB"]
    header += [*more_columns(recipe), *recipe.published_names]
    lines = ["\t".join(header)]
    every: list[Summary] = []
    scored = dict.fromkeys(str(row["variant"]) for row in rows)
    for part in recipe.parts:
        summaries = [Summary.of(recipe, variant, part, rows) for variant in scored]
        lines += [one.line() for one in summaries]
        if len(summaries) > 1:
            lines.append(Summary.mean(summaries).line())
        every += summaries
    if len(every) > 1 and all(part in recipe.published for part in recipe.parts):  # parts are languages
        lines.append(replace(Summary.mean(every), part="all").line())
    return "\n".join(lines)


def alone_and_together(recipe: Recipe, variant: str, part: str, rows: list[Row]) -> tuple[list[Row], float | None]:
    """The rows of single models on one part of one language, and the score of all together if there are several."""
    found = [row for row in rows if (row["variant"], row["part"]) == (variant, part)]
    alone = [row for row in found if not str(row["system"]).startswith(TOGETHER)]
    joint = [float(row[recipe.metrics[0]]) for row in found if row not in alone]
    return alone, joint[0] if joint else None


def together_is_better(recipe: Recipe, variant: str, rows: list[Row]) -> bool:
    """Whether all models together are better than the first one on dev; False if dev was not scored."""
    alone, joint = alone_and_together(recipe, variant, "dev", rows)
    if not alone or joint is None:
        return False
    better = operator.lt if recipe.metrics[0] in SMALLER_IS_BETTER else operator.gt
    return bool(better(joint, float(alone[0][recipe.metrics[0]])))


def more_columns(recipe: Recipe) -> list[str]:
    """The columns that only some recipes have."""
    return [
        *(TIMED if recipe.is_timed else ()),
        *([LISTED] if recipe.is_listed else ()),
        *([BY_DEV] if len(recipe.methods) > 1 else ()),
    ]


@dataclass(frozen=True)
class Summary:
    """A line of the table for one language: scores of its single models, of their ensemble, and published ones."""

    name: str
    part: str
    single: list[float]
    joint: float | None
    minutes: float
    megabytes: float
    published: tuple[float, ...]
    weight: int = 1
    more: tuple[float, ...] = ()

    @classmethod
    def of(cls, recipe: Recipe, variant: str, part: str, rows: list[Row]) -> "Summary":
        """One language and part."""
        alone, joint = alone_and_together(recipe, variant, part, rows)
        single = [float(row[recipe.metrics[0]]) for row in alone]
        known = recipe.published.get(part, recipe.published.get(variant, ()) if part in recipe.published_part else ())
        minutes, megabytes = (statistics.mean(float(row[name]) for row in alone) for name in ("minutes", "MB"))
        weight = line_count(recipe.files(variant, part)[1]) if recipe.by_item else 1
        columns = [name for name in more_columns(recipe) if name != BY_DEV]
        more = [statistics.mean(float(row[name]) for row in alone) for name in columns]
        if BY_DEV in more_columns(recipe):
            more.append(joint if joint is not None and together_is_better(recipe, variant, rows) else single[0])
        return cls(variant, part, single, joint, minutes, megabytes, known, weight, tuple(more))

    @classmethod
    def mean(cls, summaries: list["Summary"]) -> "Summary":
        """The means over languages, or over all their items; of seeds, too, before their deviation is taken."""
        weights = [one.weight for one in summaries]
        runs = [statistics.fmean(scores, weights) for scores in zip(*(one.single for one in summaries), strict=False)]
        joint = [one.joint for one in summaries if one.joint is not None]
        together = statistics.fmean(joint, weights) if len(joint) == len(summaries) else None
        published = [one.published for one in summaries if one.published]
        columns = zip(*published, strict=True) if len(published) == len(summaries) else ()
        known = tuple(statistics.fmean(column, weights) for column in columns)
        minutes, megabytes = (statistics.mean(getattr(one, name) for one in summaries) for name in _COSTS)
        more = tuple(statistics.fmean(one, weights) for one in zip(*(one.more for one in summaries), strict=True))
        name = f"mean of {len(summaries)}"
        return cls(name, summaries[0].part, runs, together, minutes, megabytes, known, more=more)

    def line(self) -> str:
        """Cells between tabs."""
        deviation = f"{statistics.stdev(self.single):.2f}" if len(self.single) > 1 else "-"
        cells = [self.name, self.part, f"{statistics.mean(self.single):.2f}", deviation, _text(self.joint)]
        cells += [f"{self.minutes:.1f}", f"{self.megabytes:.0f}", *(f"{value:.2f}" for value in self.more)]
        return "\t".join([*cells, *(f"{value:.2f}" for value in self.published)])


def _say(line: str) -> None:
    """Writes a line of progress whole, among those of others that work side by side."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def line_count(path: Path) -> int:
    """The number of lines of a text, each ended."""
    return path.read_bytes().count(b"\n")


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def columns(rows: list[Row]) -> str:
    """All scores as lines between tabs."""
    names = list(rows[0])
    lines = ["\t".join(str(row.get(name, "")) for name in names) for row in rows]
    return "\n".join(["\t".join(names), *lines]) + "\n"


def arguments() -> argparse.Namespace:
    """The command's own."""
    parser = argparse.ArgumentParser(description="Train, score and compare all models of a recipe.")
    parser.add_argument("recipe", nargs="?", choices=list(RECIPES), help="which one; without it, they are listed")
    parser.add_argument("--all", action="store_true", help="all whose texts are there, and a page, index.html")
    parser.add_argument("--hours", type=float, help="with --all: the time that they share (default: what they take)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="languages or corpora (default: all of the recipe)")
    parser.add_argument("--seeds", type=int, default=1, help="models of each, seeds 1 to this (default: %(default)s)")
    parser.add_argument(
        "--jobs", type=int, default=1, help="trainings and translations side by side (default: %(default)s)"
    )
    parser.add_argument("--threads", type=int, default=1, help="cores of each training (default: %(default)s)")
    parser.add_argument("--parts", nargs="+", metavar="PART", help="what to score: dev, test (default: the recipe's)")
    parser.add_argument("--set", dest="extra", action="append", default=[], metavar="KEY=VALUE", help="as of nmt-train")
    parser.add_argument(
        "--budget", default="", metavar="TIME", help="of every training, in place of the recipe's updates"
    )
    parser.add_argument("--launcher", default="", help="prefix of each command, such as 'srun -n1 -c1'")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("runs/recipes"), help="folder of all runs (default: %(default)s)"
    )
    return parser.parse_args()


def check(options: argparse.Namespace) -> None:
    """Ends the script if options do not go together."""
    if min(options.seeds, options.jobs, options.threads) < 1:
        sys.exit("run.py: --seeds, --jobs and --threads must be at least 1, got less; leave them out")
    if options.all and (options.recipe or options.only or options.parts or options.budget):
        sys.exit("run.py: --all must be without a recipe, --only, --parts and --budget, got one; leave it out")
    if options.hours is not None and not (options.all and 0 < options.hours < math.inf):
        sys.exit("run.py: --hours must be a positive number, with --all, got another; give --all --hours 12")


def chosen(options: argparse.Namespace) -> Recipe:
    """The recipe, limited to the selected languages. Ends the script if there are none, or if a text is missing."""
    recipe: Recipe = RECIPES[options.recipe]
    unknown = set(options.only or ()) - set(recipe.variants) or set(options.parts or ()) - set(recipe.parts)
    if unknown:
        known = ", ".join([*recipe.variants, *recipe.parts])
        sys.exit(f"run.py: {options.recipe}: must have what is asked for, got {sorted(unknown)[0]}; it has {known}")
    recipe = recipe.cut_to(options.only, options.parts)
    if missing := missing_texts(recipe):
        sys.exit(f"run.py: {missing[0]}: must be there, it is not; run {recipe.data} first")
    return recipe


def missing_texts(recipe: Recipe) -> list[Path]:
    """The training texts of a recipe that are not there."""
    return [path for variant in recipe.variants for path in recipe.files(variant, "train") if not path.is_file()]


def first_jobs(recipe: Recipe, place: Path) -> list[Job]:
    """The models of the first seed, by each method."""
    return [Job(recipe, name, method, 1, place) for name in recipe.variants for method in recipe.methods]


def trained_and_scored(
    name: str, recipe: Recipe, options: argparse.Namespace, commands: Commands
) -> tuple[list[Row], int]:
    """Trains all models of a recipe and scores them; returns the scores and how many trainings have failed, which stop
    no others. Raises CommandError if a model cannot be scored."""
    place, failed = options.output / name, list[Job]()

    def train(job: Job) -> bool:
        try:
            minutes = commands.train(job)
        except CommandError as error:
            failed.append(job)
            _say(f"{job.folder}: {error}")
            return False
        _say(f"{job.folder}: trained in {minutes:.1f} min")
        return True

    def trained(jobs: list[Job]) -> list[Job]:
        with ThreadPoolExecutor(options.jobs) as pool:
            return [job for job, is_trained in zip(jobs, pool.map(train, jobs), strict=True) if is_trained]

    def best_of(variant: str) -> list[Job]:
        tried = [job for job in first if job.variant == variant]
        method = best_method(commands, RECIPES[name], variant, tried)
        return [job for job in tried if job.method == method]

    def score(text: tuple[str, str]) -> list[Row]:
        variant, part = text
        own, tried = ([job for job in some if job.variant == variant] for some in (jobs, first))
        return rows_of(commands, recipe.cut_to(None, [part]), variant, own, tried)

    first = trained(first_jobs(recipe, place))
    variants = [variant for variant in recipe.variants if any(job.variant == variant for job in first)]
    with ThreadPoolExecutor(1 if recipe.is_timed else options.jobs) as pool:
        kept = [job for some in pool.map(best_of, variants) for job in some]
        jobs = kept + trained([replace(job, seed=seed) for seed in range(2, options.seeds + 1) for job in kept])
        rows = [row for some in pool.map(score, product(variants, recipe.parts)) for row in some]
    if rows:
        write_bytes(place / "results.tsv", columns(rows).encode())
    return rows, len(failed)


def failures(failed: int) -> str:
    """A line that says how many trainings have failed."""
    return f"failed: {failed} of its trainings, see above; the same command tries them again"


def everything(options: argparse.Namespace, commands: Commands) -> int:
    """Trains and scores all recipes whose texts are there, those of the smallest models first, and writes a page after
    each. Returns how many have failed.

    With `--hours`, a recipe has its share of what is left of that time. If that is less than it takes by `MINUTES`,
    each of its trainings gets a budget. The same command goes on where it was stopped. Ends the script if the hours do
    not suffice for the shortest trainings.
    """
    began = time.monotonic()
    end = None if options.hours is None else began + 3600 * options.hours
    pages, failed = list[tuple[Recipe, str, str]](), 0
    names = sorted(RECIPES, key=lambda name: MINUTES[name])
    waiting = minutes_waiting(names, options)
    least = sum(map(shortest, waiting)) / 60 / options.jobs
    if options.hours is not None and options.hours < least:
        sys.exit(
            f"run.py: --hours must be at least {math.ceil(10 * least) / 10} for {len(waiting)} trainings with --jobs "
            f"{options.jobs}, got {options.hours:g}; give more, or run single recipes"
        )
    for at, name in enumerate(names):
        recipe = RECIPES[name]
        budget = ""
        if end is not None:
            left = max(0.0, end - time.monotonic()) / 60 * options.jobs
            share = share_of(left, minutes_waiting(names[at:], options))
            budget = f"{max(shortest(MINUTES[name]), MINUTES[name] * share):.1f}m" if share < 1 else ""
        note, lines = "", ""
        if missing_texts(recipe):
            note = f"not run: its texts are missing; {recipe.data}"
        else:
            try:
                rows, bad = trained_and_scored(name, recipe, options, replace(commands, budget=budget))
                note, lines = failures(bad) if bad else "", table(recipe, rows) if rows else ""
            except CommandError as error:
                note = f"failed: {error}"
            if note:
                failed += 1
                _say(f"run.py: {name}: {note}")
        pages.append((recipe, note, lines))
        text = page(pages, failed, (time.monotonic() - began) / 3600, options.output)
        write_bytes(options.output / "index.html", text.encode())
    return failed


def minutes_waiting(names: list[str], options: argparse.Namespace) -> list[float]:
    """The minutes of one core, about, of each model of some recipes whose texts are there that is not trained yet."""
    found: list[float] = []
    for name in names:
        recipe = RECIPES[name]
        if not missing_texts(recipe):
            first = first_jobs(recipe, options.output / name)
            waiting = sum(not (job.folder / DONE).is_file() for job in first)
            found += [MINUTES[name]] * (waiting + (options.seeds - 1) * len(recipe.variants))
    return found


def shortest(minutes: float) -> float:
    """The minutes that a training gets at least which should have so many."""
    return max(SHORTEST, LEAST_SHARE * minutes)


def share_of(left: float, waiting: list[float]) -> float:
    """The share of their minutes that trainings get, each of them at least its `shortest`, so that `left` suffices for
    all; 0 where it does not suffice for that."""
    waiting = sorted(waiting)
    for number, minutes in enumerate(waiting):
        share = (left - sum(map(shortest, waiting[:number]))) / sum(waiting[number:])
        if share * minutes >= shortest(minutes):
            return share
    return 0.0 if waiting else 1.0


def page(found: list[tuple[Recipe, str, str]], failed: int, hours: float, folder: Path) -> str:
    """A page with a table for each recipe, and a line for each that has none or has failed; and what all of it took."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    run = sum(bool(lines) for *_, lines in found)
    parts = [f"<p>{hours:.1f} hours, {size:,.0f} MB on disk; {run} of {len(found)} recipes run, {failed} failed.</p>"]
    for recipe, note, text in found:
        parts.append(f"<h2>{escape(recipe.title)}</h2>")
        parts += [f"<p>{escape(note)}</p>"] if note else []
        if text:
            head, *lines = ([escape(cell) for cell in line.split("\t")] for line in text.splitlines())
            cells = ["".join(f"<td>{cell}</td>" for cell in line) for line in lines]
            top = "".join(f"<th>{cell}</th>" for cell in head)
            parts.append(f"<div><table><tr>{top}</tr><tr>{'</tr><tr>'.join(cells)}</tr></table></div>")
    return PAGE.replace("PARTS", "\n".join(parts))


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Recipes</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
div { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; white-space: nowrap; border-bottom: 1px solid #8884 }
th:first-child, td:first-child { text-align: left }
</style>
<h1>Recipes</h1>
PARTS
</html>
"""


def main() -> None:
    """Trains, then scores; a failing model is reported and does not stop the others."""
    options = arguments()
    check(options)
    commands = Commands(shlex.split(options.launcher), options.threads, options.extra, options.budget)
    if options.all:
        sys.exit(1 if everything(options, commands) else 0)
    if options.recipe is None:
        for name, recipe in RECIPES.items():
            print(f"{name}\t{recipe.title}\t{recipe.data}")
        return
    recipe, started = chosen(options), time.monotonic()
    rows, failed = trained_and_scored(options.recipe, recipe, options, commands)
    if rows:
        print(table(recipe, rows))
    models = len({(row["variant"], row["system"]) for row in rows if not str(row["system"]).startswith(TOGETHER)})
    print(f"{models} models in {(time.monotonic() - started) / 60:.1f} min", file=sys.stderr)
    if failed:
        sys.exit(f"run.py: {failures(failed)}")


if __name__ == "__main__":
    main()
