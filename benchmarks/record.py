"""How long does it take from text to a translator with 40 BLEU, on one core?

`nmt-train` reads the text, makes subwords, trains, validates, translates the test text and scores it, all on one core;
by default that is Multi30k from German to English, lower-cased, and its test_2016_flickr (`data_scripts/multi30k.py`).
Printed is a row of a table with date, commit and processor: minutes of all this, and BLEU with its signature. The
compilation of machine code counts where the store is empty, the second in which Python starts does not. An interrupted
run is resumed by the same command; the work since its last checkpoint then counts once. The time must be that of a
commit: a checkout with changes is refused.

Run: python benchmarks/record.py [--config CONFIG] [--out FOLDER] [--bleu BLEU] [--core N] [--set KEY=VALUE]
"""

import argparse
import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from _machine import cpu_name

HERE = Path(__file__).resolve().parent.parent


class Figures(NamedTuple):
    """What a finished run has taken and reached."""

    minutes: float
    bleu: float
    signature: str


def events_of(folder: Path) -> list[dict[str, Any]]:
    """Return the events of a run's log, without a last line that is not complete."""
    log = folder / "metrics.jsonl"
    lines = log.read_text("utf-8").splitlines() if log.is_file() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def figures_of(events: list[dict[str, Any]]) -> Figures | None:
    """Return the figures of a run, None if it has not ended. The clock of a run, `elapsed`, begins before it reads the
    text."""
    last = {event["event"]: event for event in events}
    if "end" not in last or "test" not in last:
        return None
    end, test = last["end"], last["test"]
    seconds = end["elapsed"] + test["time"] - end["time"]
    return Figures(seconds / 60, test["bleu"], test["signatures"]["bleu"])


def train(config: Path, folder: Path, settings: list[str]) -> Figures:
    """Train until the run has ended, or resume one; return its figures. Raises SystemExit with the command's code."""
    words = [word for text in ("threads=1", f"model_dir={folder}", *settings) for word in ("--set", text)]
    code = subprocess.run([sys.executable, "-m", "nmt", "train", str(config), *words], check=False).returncode
    if code:
        sys.exit(code)
    figures = figures_of(events_of(folder))
    if figures is None:
        sys.exit(f"{folder}: must have a test score, got none; give the settings a data.test")
    return figures


def row_of(figures: Figures, commit: str, settings: list[str]) -> str:
    """Return the row of the table."""
    cells = [date.today().isoformat(), commit, f"{figures.minutes:.1f}", f"{figures.bleu:.2f}"]
    return (
        "| "
        + " | ".join(
            [*cells, ", ".join(settings) or "as configured", cpu_name(), figures.signature.replace("|", "\\|")]
        )
        + " |"
    )


def commit_of(checkout: Path) -> str:
    """Return the commit of a checkout. Raises SystemExit: it has changes that are not committed."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=checkout, check=True, capture_output=True, text=True).stdout.strip()

    if changed := git("status", "--short", "--untracked-files=no"):
        sys.exit(f"{checkout}: must be a commit without changes, got\n{changed}")
    return git("rev-parse", "--short", "HEAD")


def main() -> int:
    """Train, and print the row; exit code 1 if the BLEU was not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=HERE / "configs/multi30k_de_en.yaml")
    parser.add_argument("--out", type=Path, default=Path("runs/record"), metavar="FOLDER", help="of the run")
    parser.add_argument("--bleu", type=float, default=40.0, help="that the test text must reach")
    parser.add_argument("--core", type=int, help="number of the core, the first this process may use otherwise")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    commit = commit_of(HERE)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0)) if args.core is None else args.core})
    os.environ["PYTHONPATH"] = str(HERE)
    figures = train(args.config, args.out, args.settings)
    print("| date | commit | minutes | BLEU | settings | processor | signature |\n|---|---|---|---|---|---|---|")
    print(row_of(figures, commit, args.settings))
    if figures.bleu < args.bleu:
        print(f"{args.bleu:g} BLEU were not reached", file=sys.stderr)
    return int(figures.bleu < args.bleu)


if __name__ == "__main__":
    sys.exit(main())
