"""Trains all models of a recipe, each language with each seed, scores them alone and as ensembles, and writes a table.

    python recipes/run.py                                     list the recipes
    python recipes/run.py letters-to-sounds --seeds 5         ten languages, five models each, and their ensembles
    python recipes/run.py letters-to-sounds --only fre kor    two of them

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
import shlex
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from catalogue import RECIPES, Recipe

from nmt.system.files import write_bytes

DONE = "trained.tsv"
"""What nmt-train printed, which is written when it has ended well."""


TOGETHER = "ensemble"
SMALLER_IS_BETTER = {"wer", "per"}
CANDIDATES = 5
"""Answers to a line by each of several models that decide together by lists."""
_COSTS = ("minutes", "megabytes")
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
    """Starts the commands: `launcher` is put before each of them; `extra` are settings of every training."""

    launcher: list[str]
    threads: int
    extra: list[str]

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
        if by_lists:
            lists = [self.candidates(source, model / f"{source.stem}.tsv", model) for model in models]
            write_bytes(output, "".join(f"{line}\n" for line in likeliest(lists)).encode())
        else:
            words = [word for other in models[1:] for word in ("--ensemble", str(other))]
            self.run("translate", models[0], source, "-o", output, *words, *search, "--threads", str(self.threads))
        return output

    def candidates(self, source: Path, output: Path, model: Path) -> list[dict[str, float]]:
        """The best answers of a model to each line, and their probabilities; found once, and kept in `output`."""
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
        words = ["--hyp", hypotheses, "--ref", references, "--metric", ",".join(recipe.metrics), "--json"]
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
    for part in recipe.parts:
        source, references = recipe.files(variant, part)
        for models, name, place in systems:
            output = place / f"{part}.{name.replace(' ', '-')}.out"
            commands.translate(source, output, models, recipe.search, by_lists=len(recipe.methods) > 1)
            score = commands.scores(recipe, output, references)
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
        print(f"{variant}, {recipe.parts[0]}: {score:.2f} by {method}", file=sys.stderr, flush=True)
    return (min if recipe.metrics[0] in SMALLER_IS_BETTER else max)(scores, key=lambda method: scores[method])


def table(recipe: Recipe, rows: list[Row]) -> str:
    """A line for each language and part: mean and deviation of single models, the ensemble, minutes and memory of one
    training, published figures; and the means over languages, which are parts where one model has several."""
    header = ["", "part", f"{recipe.metrics[0]}, single", "deviation", "ensemble", "minutes", "MB"]
    header += recipe.published_names
    lines = ["\t".join(header)]
    every: list[Summary] = []
    for part in recipe.parts:
        summaries = [Summary.of(recipe, variant, part, rows) for variant in recipe.variants]
        lines += [one.line() for one in summaries]
        if len(summaries) > 1:
            lines.append(Summary.mean(summaries).line())
        every += summaries
    if len(every) > 1 and all(part in recipe.published for part in recipe.parts):  # parts are languages
        lines.append(replace(Summary.mean(every), part="all").line())
    return "\n".join(lines)


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

    @classmethod
    def of(cls, recipe: Recipe, variant: str, part: str, rows: list[Row]) -> "Summary":
        """One language and part."""
        found = [row for row in rows if (row["variant"], row["part"]) == (variant, part)]
        alone = [row for row in found if not str(row["system"]).startswith(TOGETHER)]
        joint = [float(row[recipe.metrics[0]]) for row in found if row not in alone]
        single = [float(row[recipe.metrics[0]]) for row in alone]
        known = recipe.published.get(part, recipe.published.get(variant, ()) if part in recipe.published_part else ())
        minutes, megabytes = (statistics.mean(float(row[name]) for row in alone) for name in ("minutes", "MB"))
        weight = line_count(recipe.files(variant, part)[1]) if recipe.by_item else 1
        return cls(variant, part, single, joint[0] if joint else None, minutes, megabytes, known, weight)

    @classmethod
    def mean(cls, summaries: list["Summary"]) -> "Summary":
        """The means over languages, or over all their items; of seeds, too, before their deviation is taken."""
        weights = [one.weight for one in summaries]
        runs = [statistics.fmean(scores, weights) for scores in zip(*(one.single for one in summaries), strict=True)]
        joint = [one.joint for one in summaries if one.joint is not None]
        together = statistics.fmean(joint, weights) if len(joint) == len(summaries) else None
        published = [one.published for one in summaries if one.published]
        columns = zip(*published, strict=True) if len(published) == len(summaries) else ()
        known = tuple(statistics.fmean(column, weights) for column in columns)
        minutes, megabytes = (statistics.mean(getattr(one, name) for one in summaries) for name in _COSTS)
        return cls(f"mean of {len(summaries)}", summaries[0].part, runs, together, minutes, megabytes, known)

    def line(self) -> str:
        """Cells between tabs."""
        deviation = f"{statistics.stdev(self.single):.2f}" if len(self.single) > 1 else "-"
        cells = [self.name, self.part, f"{statistics.mean(self.single):.2f}", deviation, _text(self.joint)]
        cells += [f"{self.minutes:.1f}", f"{self.megabytes:.0f}"]
        return "\t".join([*cells, *(f"{value:.2f}" for value in self.published)])


def line_count(path: Path) -> int:
    """The number of lines of a text, each ended."""
    return path.read_bytes().count(b"\n")


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def columns(rows: list[Row]) -> str:
    """All scores as lines between tabs."""
    names = list(rows[0])
    return "\n".join(["\t".join(names), *("\t".join(str(row[name]) for name in names) for row in rows)]) + "\n"


def arguments() -> argparse.Namespace:
    """The command's own."""
    parser = argparse.ArgumentParser(description="Train, score and compare all models of a recipe.")
    parser.add_argument("recipe", nargs="?", choices=list(RECIPES), help="which one; without it, they are listed")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="languages or corpora (default: all of the recipe)")
    parser.add_argument("--seeds", type=int, default=1, help="models of each, seeds 1 to this (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="cores of each training (default: %(default)s)")
    parser.add_argument("--parts", nargs="+", metavar="PART", help="what to score: dev, test (default: the recipe's)")
    parser.add_argument("--set", dest="extra", action="append", default=[], metavar="KEY=VALUE", help="as of nmt-train")
    parser.add_argument("--launcher", default="", help="prefix of each command, such as 'srun -n1 -c1'")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("runs/recipes"), help="folder of all runs (default: %(default)s)"
    )
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> Recipe:
    """The recipe, limited to the selected languages. Ends the script if there are none."""
    recipe: Recipe = RECIPES[options.recipe]
    unknown = set(options.only or ()) - set(recipe.variants) or set(options.parts or ()) - set(recipe.parts)
    if unknown:
        known = ", ".join([*recipe.variants, *recipe.parts])
        sys.exit(f"run.py: {options.recipe}: must have what is asked for, got {sorted(unknown)[0]}; it has {known}")
    if min(options.seeds, options.jobs, options.threads) < 1:
        sys.exit("run.py: --seeds, --jobs and --threads must be at least 1, got less; leave them out")
    return recipe.cut_to(options.only, options.parts)


def main() -> None:
    """Trains, then scores; a failing model is reported and does not stop the others."""
    options = arguments()
    if options.recipe is None:
        for name, recipe in RECIPES.items():
            print(f"{name}\t{recipe.title}\t{recipe.data}")
        return
    recipe = chosen(options)
    missing = [path for variant in recipe.variants for path in recipe.files(variant, "train") if not path.is_file()]
    if missing:
        sys.exit(f"run.py: {missing[0]}: must be there, it is not; run {recipe.data} first")
    commands = Commands(shlex.split(options.launcher), options.threads, options.extra)
    place = options.output / options.recipe
    started, failed = time.monotonic(), []

    def train(job: Job) -> None:
        try:
            minutes = commands.train(job)
        except CommandError as error:
            failed.append(job)
            print(f"{job.folder}: {error}", file=sys.stderr, flush=True)
            return
        print(f"{job.folder}: trained in {minutes:.1f} min", file=sys.stderr, flush=True)

    def train_all(jobs: list[Job]) -> list[Job]:
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(train, jobs))
        if failed:
            sys.exit(
                f"run.py: {len(failed)} of {len(jobs)} trainings failed, see above; the same command tries them again"
            )
        return jobs

    first = train_all([Job(recipe, name, method, 1, place) for name in recipe.variants for method in recipe.methods])
    kept = []
    for variant in recipe.variants:
        tried = [job for job in first if job.variant == variant]
        method = best_method(commands, RECIPES[options.recipe], variant, tried)
        kept += [job for job in tried if job.method == method]
    others = [replace(job, seed=seed) for seed in range(2, options.seeds + 1) for job in kept]
    jobs = kept + train_all(others)
    rows = []
    for variant in recipe.variants:
        own, tried = ([job for job in some if job.variant == variant] for some in (jobs, first))
        rows += rows_of(commands, recipe, variant, own, tried)
    write_bytes(place / "results.tsv", columns(rows).encode())
    print(table(recipe, rows))
    print(f"{len(first) + len(others)} models in {(time.monotonic() - started) / 60:.1f} min", file=sys.stderr)


if __name__ == "__main__":
    main()
