"""Bundles the best model of each language for publication: int8, one file with a model card, below 20 MB.

    python recipes/zoo.py                          of all recipes that were run: runs/recipes -> runs/zoo
    python recipes/zoo.py --runs FOLDER -o FOLDER

The best is the seed with the best first score on the part on which settings are chosen. Existing files are kept.
Standard output gets a table: file, bytes, seed, score on that part of the model as trained and of the file.
"""

import argparse
import csv
import sys
from pathlib import Path

from catalogue import RECIPES, Recipe
from run import SMALLER_IS_BETTER, TOGETHER, CommandError, Commands

MOST_BYTES = 20_000_000


def best_seed(recipe: Recipe, variant: str, rows: list[dict[str, str]]) -> tuple[str, float] | None:
    """The seed of the best single model of a language, and its score; None where none was scored."""
    metric, part = recipe.metrics[0], recipe.parts[0]
    known = [row for row in rows if (row["variant"], row["part"]) == (variant, part)]
    single = {row["system"]: float(row[metric]) for row in known if not row["system"].startswith(TOGETHER)}
    if not single:
        return None
    choose = min if metric in SMALLER_IS_BETTER else max
    seed = choose(single, key=lambda name: single[name])
    return seed, single[seed]


def make(commands: Commands, recipe: Recipe, variant: str, model: Path, file: Path) -> float:
    """Writes the file and its card unless they are there; returns its score. Raises CommandError."""
    small = file.parent / ".int8" / file.stem
    if not file.is_file():
        if not small.is_dir():
            commands.run("quantize", model, "-o", small)
        commands.run("bundle", small, "-o", file, "--card")
    source, references = recipe.files(variant, recipe.parts[0])
    output = commands.translate(source, file.parent / ".int8" / f"{file.stem}.{recipe.parts[0]}", [file])
    return commands.scores(recipe, output, references)[recipe.metrics[0]]


def main() -> None:
    """Makes all files; one that fails or is too large is reported, and the exit code is then 1."""
    parser = argparse.ArgumentParser(description="Make files to give away of the models that recipes trained.")
    parser.add_argument("--runs", type=Path, default=Path("runs/recipes"), help="what run.py wrote (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="cores (default: %(default)s)")
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/zoo"), help="folder of the files (%(default)s)")
    options = parser.parse_args()
    tables = {name: options.runs / name / "results.tsv" for name in RECIPES}
    if not any(path.is_file() for path in tables.values()):
        sys.exit(f"zoo.py: {options.runs}: must contain a recipe that was run, got none; start recipes/run.py first")
    commands, failed = Commands([], options.threads, []), False
    print("\t".join(["file", "bytes", "seed", "metric", "as trained", "this file"]))
    for name, path in tables.items():
        rows = list(csv.DictReader(path.open(encoding="utf-8"), delimiter="\t")) if path.is_file() else []
        for variant in RECIPES[name].variants:
            best = best_seed(RECIPES[name], variant, rows)
            if best is None:
                continue
            file = options.output / f"{name}-{variant}.nmt"
            try:
                score = make(commands, RECIPES[name], variant, path.parent / variant / best[0], file)
            except CommandError as error:
                failed = True
                print(f"{file}: {error}", file=sys.stderr)
                continue
            size = file.stat().st_size
            failed |= size > MOST_BYTES
            cells = [file.name, f"{size}", best[0], RECIPES[name].metrics[0], f"{best[1]:.2f}", f"{score:.2f}"]
            print("\t".join(cells), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
