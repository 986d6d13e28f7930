"""nmt-train: train a model folder from a config and text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from nmt.cli.options.command import (
    Command,
    Setting,
    WholeSetting,
    device_option,
    quiet_option,
    threads_option,
    version_option,
)
from nmt.cli.options.path_types import InputPath

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.train.distributed.ranks import Ranks
    from nmt.train.run.trainer import TrainingResult


@click.command(cls=Command, functions=50, context_settings={"show_default": True})
@click.argument("config_file", metavar="CONFIG.yaml", type=InputPath())
@click.option(
    "--set",
    "overrides",
    metavar="KEY.PATH=VALUE",
    multiple=True,
    help="Override one setting of the config; may be repeated.",
)
@threads_option()
@device_option()
@click.option(
    "--seed",
    type=WholeSetting("seed", 0),
    show_default="seed of the config, or 42",
    help="Random seed.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    metavar="N",
    show_default=False,
    help="Train N times with consecutive seeds, in subfolders of model_dir; print mean and deviation.",
)
@click.option(
    "--preset",
    type=Setting("preset", "NAME"),
    show_default=False,
    help="Start from this preset; CONFIG.yaml overrides it and may then name only the texts.",
)
@click.option(
    "--budget",
    metavar="TIME",
    show_default=False,
    help="Train for this time, such as 2h or 90m; fits updates, schedule and validations to this machine's speed.",
)
@click.option(
    "--profile",
    "profile_updates",
    type=click.IntRange(min=1),
    is_flag=False,
    flag_value=20,
    metavar="[N]",
    show_default=False,
    help="Do not train: run N updates (20) and print the time spent in each operation.",
)
@click.option(
    "--plan",
    is_flag=True,
    help="Do not train: run a few batches and print parameters, memory, speed and estimated training time.",
)
@click.option(
    "--ranks",
    "planned_ranks",
    type=click.IntRange(min=1, max=100_000),
    metavar="N",
    show_default="1",
    help="With --plan, also predict the time of an update on N ranks (mpiexec -n N) at several network speeds.",
)
@click.option("--show-config", is_flag=True, help="Do not train: print all settings as YAML.")
@click.option(
    "--check-data",
    is_flag=True,
    help="Do not train: check all texts and print the problems found; exit code 1 if training cannot work.",
)
@click.option(
    "--check-resume",
    "resume_updates",
    type=click.IntRange(min=1),
    is_flag=False,
    flag_value=5,
    metavar="[N]",
    show_default=False,
    help="Train 2 N updates (N: 5) in a temporary folder, with and without a break; exit code 1 if any bit differs.",
)
@click.option("--json", "as_json", is_flag=True, help="With --check-data: print JSON.")
@quiet_option()
@version_option()
def train(
    config_file: str,
    overrides: tuple[str, ...],
    threads: int | None,
    device: str | None,
    seed: int | None,
    seeds: int | None,
    preset: str | None,
    budget: str | None,
    profile_updates: int | None,
    plan: bool,
    planned_ranks: int | None,
    show_config: bool,
    check_data: bool,
    resume_updates: int | None,
    as_json: bool,
) -> None:
    """Train a translation model or a language model with the settings in CONFIG.yaml.

    CONFIG.yaml contains our settings or JoeyNMT's, which are converted (docs/import.md). The model is written to the
    folder given by model_dir. Run the same command again to resume an interrupted run. Ctrl-C or SIGTERM finishes the
    current update, saves and exits (130, 143); a second one exits at once. Progress goes to standard error, and in
    more detail to train.log and metrics.jsonl in the folder; results go to standard output. --seeds runs nmt-sweep
    over seeds only. --plan, --profile, --show-config, --check-data and --check-resume do not touch model_dir.

    \b
    Examples:
        nmt-train configs/quickstart.yaml --set training.max_minutes=10 --threads 2
        nmt-train texts.yaml --preset captions --show-config
        nmt-train configs/quickstart.yaml --plan --ranks 8
        mpiexec -n 8 nmt-train configs/quickstart.yaml --threads 1
        nmt-train configs/quickstart.yaml --check-data
        nmt-train configs/quickstart.yaml --check-resume
        nmt-train configs/quickstart.yaml --budget 10m
        nmt-train configs/quickstart.yaml --profile 50 --set training.batch_size=8192
    """
    tries = plan or profile_updates is not None
    if planned_ranks is not None and not plan:
        raise click.UsageError("--ranks is for --plan; mpiexec -n N starts N ranks.")
    if as_json and not check_data:
        raise click.UsageError("--json goes with --check-data.")
    given = {"--seeds": seeds is not None, "--budget": budget is not None, "--show-config": show_config}
    given |= {"--check-resume": resume_updates is not None, "--check-data": check_data, "--plan or --profile": tries}
    from nmt.cli.lines.streams import tell
    from nmt.config import dump_config, load_config
    from nmt.system.heap import keep_little
    from nmt.train.checkpoints.start import with_model_of_start
    from nmt.train.distributed.launch import join_ranks  # imported late because it is slow to load

    keep_little()
    own = {"preset": preset, "seed": seed}
    overrides += tuple(f"{key}={value}" for key, value in own.items() if value is not None)
    ranks = join_ranks()
    _check_alone(given, ranks.size)
    with ranks.together():
        config = load_config(
            config_file, overrides, tell if ranks.rank == 0 else None
        )  # print messages once, not once per seed
        if seeds is None:
            config = with_model_of_start(config)
        if seeds is not None:
            _train_seeds(config_file, overrides, seeds, threads, device)
        elif show_config:
            click.echo(dump_config(config), nl=False)
        elif check_data:
            _check_data(config, as_json)
        elif resume_updates is not None:
            _check_resume(config, resume_updates, threads, device)
        elif tries:
            _try(config, threads, device, profile_updates, (planned_ranks or 1) if plan else None)
        else:
            _train(_fitted(config, budget, threads, device) if budget is not None else config, threads, device, ranks)


def _check_alone(given: dict[str, bool], ranks: int) -> None:
    """Raise UsageError if several options are given that each replace normal training, or one of them with several
    ranks."""
    found = [name for name, is_given in given.items() if is_given]
    if len(found) > 1:
        raise click.UsageError(f"{found[0]} goes without {' and '.join(found[1:])}.")
    if ranks > 1 and found and not found[0].startswith("--plan"):
        raise click.UsageError(f"{found[0]} is for one process; leave mpiexec out.")


def _fitted(config: Config, budget: str, threads: int | None, device: str | None) -> Config:
    """Return settings fitted to the time budget on this machine."""
    from nmt.cli.lines.streams import tell
    from nmt.train.planning.budget import fit_to_budget, measured_pace

    return fit_to_budget(config, budget, measured_pace(threads, device, tell), tell)


def _train(config: Config, threads: int | None, device: str | None, ranks: Ranks) -> None:
    """Train; if a signal ended training, exit with its exit code."""
    from nmt.train.run.trainer import Trainer

    terminal = sys.stderr if ranks.rank == 0 else None
    result = Trainer(config, threads=threads, device=device, terminal=terminal, ranks=ranks).run()
    if ranks.rank == 0:
        _tell(result)
    if result.signal is not None:
        sys.exit(128 + result.signal)


def _tell(result: TrainingResult) -> None:
    """Write the results of a run to standard output."""
    from nmt.cli.lines.streams import say

    if result.best_path is not None:
        scores = "\t".join(f"{name} {score:.4f}" for name, score in result.best_scores.items())
        say(f"best\t{result.best_path}\tupdate {result.best_update}\t{scores}")
    for score in result.test_scores.values():
        say(f"test\t{score.name}\t{score.score:.2f}\t{score.signature}")


def _train_seeds(
    config_file: str, overrides: tuple[str, ...], seeds: int, threads: int | None, device: str | None
) -> None:
    """Train with several seeds, one after another, and print the results."""
    from nmt.cli.commands.sweep import run_sweep
    from nmt.train.sweep import plan

    folder, jobs = plan(config_file, overrides, [], seeds, None)
    options = [word for text in overrides for word in ("--set", text)]
    options += [] if threads is None else ["--threads", str(threads)]
    options += [] if device is None else ["--device", device]
    run_sweep(config_file, folder, jobs, options, processes=1)


def _check_data(config: Config, as_json: bool) -> None:
    """Print the problems found in the texts. Exits with code 1 if training cannot work with them."""
    import json

    from nmt.cli.lines.meter import showing
    from nmt.cli.lines.streams import say
    from nmt.train.tasks.data_check import check_data

    with showing() as show:
        found = check_data(config, show)
    say(json.dumps(found.to_dict(), indent=2, ensure_ascii=False) if as_json else found.page())
    if found.errors:
        sys.exit(1)


def _check_resume(config: Config, updates: int, threads: int | None, device: str | None) -> None:
    """Print what is bit-identical with and without an interruption."""
    from nmt.cli.lines.streams import say, tell
    from nmt.train.run.resume_check import check_resume

    say(f"same\t{check_resume(config, updates, threads=threads, device=device, say=tell)}")


def _try(
    config: Config, threads: int | None, device: str | None, profile_updates: int | None, planned_ranks: int | None
) -> None:
    """Print the measurements of a few updates; nothing is saved. `planned_ranks`: ranks for --plan, None for no
    plan."""
    from nmt.cli.lines.streams import say, tell
    from nmt.train.planning.cost_report import cost_report
    from nmt.train.planning.dry_run import DryRun
    from nmt.train.planning.profile_table import profile_page

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
