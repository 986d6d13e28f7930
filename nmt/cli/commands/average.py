"""nmt-average: average several checkpoints of a run into one model."""

from __future__ import annotations

from pathlib import Path

import click

from nmt.cli.lines.streams import tell
from nmt.cli.options.command import Command
from nmt.cli.options.path_types import INPUT, new_folder, reads


@click.command(cls=Command)
@click.argument("model_dir", metavar="MODEL", type=INPUT)
@new_folder("New folder for the averaged model.")
@click.option("--last", type=click.IntRange(min=1), help="Average this many of the newest checkpoints.")
@click.option("--best", type=click.IntRange(min=1), help="Average this many of the best checkpoints.")
@reads(
    "--checkpoint",
    "files",
    metavar="NAME",
    multiple=True,
    show_default="none",
    text="Average this checkpoint, such as best-600 or a file; may be repeated.",
)
def average(model_dir: str, output: str, last: int | None, best: int | None, files: tuple[str, ...]) -> None:
    """Average several checkpoints of a run into a new model.

    MODEL is the folder of a run. The checkpoints are those kept by training.keep_last_ckpts or
    training.keep_best_ckpts, chosen by number or by name, or files from elsewhere. The average of a run's last
    checkpoints often translates better than any of them.

    \b
    Examples:
        nmt-average runs/de-en --last 5 -o runs/de-en-averaged
        nmt-average runs/de-en --checkpoint best-600 --checkpoint best-800 -o runs/two
    """
    if sum(given is not None for given in (last, best)) + bool(files) != 1:
        raise click.UsageError("Give one of --last, --best and --checkpoint.")
    from nmt.storage.model_folder import check_folder, find_checkpoint
    from nmt.train.checkpoints.checkpoint import best_checkpoints, newest_checkpoints, save_average

    folder = Path(model_dir)
    check_folder(folder)
    if last is not None:
        paths = newest_checkpoints(folder, last)
    elif best is not None:
        paths = best_checkpoints(folder, best)
    else:
        paths = [Path(name) if Path(name).is_file() else find_checkpoint(folder, name) for name in files]
    save_average(folder, paths, Path(output))
    tell(f"{output}: the mean of {', '.join(path.name for path in paths)}")
