"""nmt-train: from a config and text to a model folder."""

from __future__ import annotations

import sys

import click

from nmt.cli.command import Command, threads_option, version_option


@click.command(cls=Command, context_settings={"show_default": True})
@click.argument("config_file", metavar="CONFIG.yaml")
@click.option(
    "--set",
    "overrides",
    metavar="KEY.PATH=VALUE",
    multiple=True,
    help="Replace one setting of the config; may be given several times.",
)
@threads_option()
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    show_default="seed of the config, there 42",
    help="Start of all random numbers.",
)
@version_option()
def train(config_file: str, overrides: tuple[str, ...], threads: int | None, seed: int | None) -> None:
    """Train a translator as CONFIG.yaml says.

    The model goes to the folder its model_dir names. The same command goes on where an earlier run
    stopped. Ctrl-C or SIGTERM finishes the update under way, saves and exits (130, 143); a second
    one exits at once. Progress goes to standard error, and with more detail to train.log and
    metrics.jsonl in the folder; standard output gets the results.

    \b
    Example:
        nmt-train configs/quickstart.yaml --set training.max_minutes=10 --threads 2
    """
    from nmt.config import load_config  # what is slow to load waits until there is work to do

    if seed is not None:
        overrides = (*overrides, f"seed={seed}")
    config = load_config(config_file, overrides)

    from nmt.train.trainer import Trainer

    result = Trainer(config, threads=threads, terminal=sys.stderr).run()
    if result.best_path is not None:
        scores = "\t".join(f"{name} {score:.4f}" for name, score in result.best_scores.items())
        click.echo(f"best\t{result.best_path}\tupdate {result.best_update}\t{scores}")
    for score in result.test_scores.values():
        click.echo(f"test\t{score.name}\t{score.score:.2f}\t{score.signature}")
    if result.signal is not None:
        sys.exit(128 + result.signal)


if __name__ == "__main__":
    train()
