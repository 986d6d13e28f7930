"""nmt-train: from a config and text to a model folder."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from nmt.cli.command import Command, WholeSetting, device_option, threads_option, version_option

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.train.trainer import TrainingResult


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
@device_option()
@click.option(
    "--seed",
    type=WholeSetting("seed", 0),
    show_default="seed of the config, there 42",
    help="Start of all random numbers.",
)
@click.option(
    "--profile",
    "profile_updates",
    type=click.IntRange(min=1),
    is_flag=False,
    flag_value=20,
    metavar="[N]",
    show_default=False,
    help="Train nothing: run N updates (20) and print where their time goes, by name of operation.",
)
@click.option(
    "--plan",
    is_flag=True,
    help="Train nothing: run a few batches and print parameters, memory, speed and how long training will take.",
)
@click.option(
    "--ranks",
    "planned_ranks",
    type=click.IntRange(min=1, max=100_000),
    metavar="N",
    show_default="1",
    help="With --plan, also predict an update by N ranks (mpiexec -n N), over networks of several speeds.",
)
@version_option()
def train(
    config_file: str,
    overrides: tuple[str, ...],
    threads: int | None,
    device: str | None,
    seed: int | None,
    profile_updates: int | None,
    plan: bool,
    planned_ranks: int | None,
) -> None:
    """Train a translator, or a language model, as CONFIG.yaml says.

    The model goes to the folder its model_dir names. The same command goes on where an earlier run
    stopped. Ctrl-C or SIGTERM finishes the update under way, saves and exits (130, 143); a second
    one exits at once. Progress goes to standard error, and with more detail to train.log and
    metrics.jsonl in the folder; standard output gets the results. --plan and --profile write no
    file and make no folder: they print to standard output.

    \b
    Examples:
        nmt-train configs/quickstart.yaml --set training.max_minutes=10 --threads 2
        nmt-train configs/quickstart.yaml --plan --ranks 8
        mpiexec -n 8 nmt-train configs/quickstart.yaml --threads 1
        nmt-train configs/quickstart.yaml --profile 50 --set training.batch_size=8192
    """
    if planned_ranks is not None and not plan:
        raise click.UsageError("--ranks is for --plan; mpiexec -n N starts N ranks.")
    from nmt.config import load_config
    from nmt.train.launch import join_ranks  # what is slow to load waits until there is work to do

    if seed is not None:
        overrides = (*overrides, f"seed={seed}")
    ranks = join_ranks()
    with ranks.together():
        config = load_config(config_file, overrides)
        if plan or profile_updates is not None:
            _try(config, threads, device, profile_updates, (planned_ranks or 1) if plan else None)
            return
        from nmt.train.trainer import Trainer

        terminal = sys.stderr if ranks.rank == 0 else None
        result = Trainer(config, threads=threads, device=device, terminal=terminal, ranks=ranks).run()
        if ranks.rank == 0:
            _tell(result)
    if result.signal is not None:
        sys.exit(128 + result.signal)


def _tell(result: TrainingResult) -> None:
    """Write what came of a run to standard output."""
    from nmt.cli.streams import say

    if result.best_path is not None:
        scores = "\t".join(f"{name} {score:.4f}" for name, score in result.best_scores.items())
        say(f"best\t{result.best_path}\tupdate {result.best_update}\t{scores}")
    for score in result.test_scores.values():
        say(f"test\t{score.name}\t{score.score:.2f}\t{score.signature}")


def _try(
    config: Config, threads: int | None, device: str | None, profile_updates: int | None, planned_ranks: int | None
) -> None:
    """Print what some updates tell; nothing is saved. `planned_ranks`: for the plan, None for no plan."""
    from nmt.cli.streams import say, tell
    from nmt.train.cost_report import cost_report
    from nmt.train.dry_run import DryRun
    from nmt.train.profile_table import profile_page

    dry_run = DryRun(config, threads, tell, device)
    pages = []
    if planned_ranks is not None:
        pages.append(cost_report(dry_run, planned_ranks))
    if profile_updates is not None:
        pages.append(profile_page(dry_run, profile_updates))
    say("\n\n".join(pages))


if __name__ == "__main__":
    from nmt.cli import entry

    entry.train()
