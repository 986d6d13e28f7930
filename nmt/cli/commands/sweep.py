"""nmt-sweep: train one config with many settings."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nmt.cli.lines.streams import say, tell
from nmt.cli.options.command import Command
from nmt.cli.options.path_types import INPUT, OUTPUT_FOLDER, writes


@click.command(cls=Command)
@click.argument("config", metavar="CONFIG.yaml", type=INPUT)
@click.option(
    "--grid",
    metavar="KEY.PATH=V1,V2,...",
    multiple=True,
    help="Train with each of these values; several --grid options give every combination.",
)
@click.option(
    "--set",
    "overrides",
    metavar="KEY.PATH=VALUE",
    multiple=True,
    help="Override one setting of the config for all runs.",
)
@click.option(
    "--seeds", type=click.IntRange(min=1), default=1, help="Number of runs per combination, with consecutive seeds."
)
@click.option("--jobs", type=click.IntRange(min=1), default=1, help="Number of runs in parallel.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    show_default="all cores, divided by --jobs",
    help="Number of CPU cores per run.",
)
@writes(
    "-o",
    "--output",
    kind=OUTPUT_FOLDER,
    metavar="DIR",
    show_default="model_dir of the config",
    text="Folder for the runs.",
)
def sweep(
    config: str,
    grid: tuple[str, ...],
    overrides: tuple[str, ...],
    seeds: int,
    jobs: int,
    threads: int | None,
    output: str | None,
) -> None:
    """Train with every combination of some settings, and compare.

    Each run has its own folder in DIR, named after its settings; NAME.err next to it shows its progress. Run the same
    command again to continue: finished runs are not repeated, and an interrupted run is resumed. Ctrl-C lets current
    runs save first. Standard output gets a table with mean and standard deviation over seeds; DIR/sweep.tsv lists every
    run. If a run fails, the others continue, and the exit code is 1.

    \b
    Examples:
        nmt-sweep configs/quickstart.yaml --grid training.learning_rate=1e-3,3e-3 --seeds 3
        nmt-sweep configs/quickstart.yaml --grid model.decoder.dropout=0.1,0.3 --jobs 2 -o runs/dropout
        nmt-train train.en train.de -o runs/a --show-config > a.yaml; nmt-sweep a.yaml --seeds 3 -o runs/seeds
    """
    from nmt.rnn.cores import default_threads
    from nmt.train.sweep import parse_grid, plan, run_sweep, summary

    folder, runs = plan(config, overrides, parse_grid(grid), seeds, None if output is None else Path(output))
    cores = str(threads or max(1, default_threads() // jobs))
    command = [sys.executable, "-m", "nmt", "train", config, "--threads", cores]
    command += [word for text in overrides for word in ("--set", text)]
    ended_by = run_sweep(command, folder, runs, jobs, tell)
    say(summary(runs))
    if ended_by is not None:
        sys.exit(128 + ended_by)
    if any(run.error for run in runs):
        sys.exit(1)
