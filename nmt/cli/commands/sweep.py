"""nmt-sweep: train one config with many settings."""

from __future__ import annotations

from pathlib import Path

import click

from nmt.cli.lines.streams import tell
from nmt.cli.options.command import Command, Setting
from nmt.cli.options.path_types import InputPath, OutputFolder, reads, writes


@click.command(cls=Command, context_settings={"show_default": True})
@click.argument("inputs", metavar="CONFIG.yaml | SRC TGT | TABLE", nargs=-1, required=True, type=InputPath())
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
    kind=OutputFolder(),
    metavar="DIR",
    show_default="model_dir of the config",
    text="Folder for the runs; required with SRC TGT or a table.",
)
@reads("--dev", multiple=True, show_default=False, text="Validation text for SRC TGT, as for nmt-train.")
@click.option("--preset", type=Setting("preset", "NAME"), show_default=False, help="Start from this preset.")
def sweep(
    inputs: tuple[str, ...],
    grid: tuple[str, ...],
    overrides: tuple[str, ...],
    seeds: int,
    jobs: int,
    threads: int | None,
    output: str | None,
    dev: tuple[str, ...],
    preset: str | None,
) -> None:
    """Train CONFIG.yaml, or SRC TGT, with every combination of some settings, and compare the results.

    Each run has its own folder in DIR, named after its settings. Run the same command again to continue: finished runs
    are not repeated, and an interrupted run is resumed. Ctrl-C lets current runs save first. Standard output gets a
    table with mean and standard deviation over seeds; DIR/sweep.tsv lists every run. If a run fails, the others
    continue, and the exit code is 1.

    \b
    Examples:
        nmt-sweep configs/quickstart.yaml --grid training.learning_rate=1e-3,3e-3 --seeds 3
        nmt-sweep configs/quickstart.yaml --grid model.decoder.dropout=0.1,0.3 --jobs 2 -o runs/dropout
        nmt-sweep train.en train.de -o runs/en-de --grid model.decoder.dropout=0.1,0.3 --seeds 3
    """
    from nmt.cli.commands.train import texts_of
    from nmt.cli.lines.sweeps import run_sweep
    from nmt.rnn.cores import default_threads
    from nmt.train.sweep import parse_grid, plan
    from nmt.train.tasks.plain_texts import settings_of

    parsed = parse_grid(grid)
    texts = texts_of(inputs, output, dev)
    own = None if texts is None else settings_of(*texts, preset, tell)
    if own is None and preset is not None:
        overrides = (f"preset={preset}", *overrides)
    config = inputs[0] if own is None else own.values
    folder, planned = plan(config, overrides, parsed, seeds, None if output is None else Path(output))
    config_file = inputs[0] if own is None else own.write_for_sweep(folder, tell)
    options = [word for text in overrides for word in ("--set", text)]
    options += ["--threads", str(threads or max(1, default_threads() // jobs))]
    run_sweep(config_file, folder, planned, options, processes=jobs)
