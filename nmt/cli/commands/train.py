"""nmt-train: train a model folder from a config and text."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from collections.abc import Mapping
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.lines.streams import say, tell
from nmt.cli.options import command
from nmt.cli.options.path_types import INPUT, OUTPUT_FOLDER, reads, writes
from nmt.system.lines import read_lines, without_packing
from nmt.system.notices import tell_nobody
from nmt.system.paths import exists, files_in, is_file, shown

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.train.distributed.ranks import Ranks
    from nmt.train.tasks.named_texts import Texts


@click.command(cls=command.Command)
@click.argument("inputs", metavar="CONFIG.yaml | SRC TGT | TABLE", nargs=-1, required=True, type=INPUT)
@writes(
    "-o",
    "--output",
    "folder",
    kind=OUTPUT_FOLDER,
    metavar="DIR",
    show_default="model_dir of the config",
    text="Folder for the model; required with SRC TGT or a table.",
)
@reads(
    "--dev",
    multiple=True,
    show_default="hold out 5 % of the pairs, at most 1,000",
    text="Validation text for SRC TGT: give it twice (source, target), or once for a table or a prefix.",
)
@click.option(
    "-s",
    "--src-lang",
    metavar="CODE",
    show_default="by headings, names or the text",
    help="Language of the source, such as chr; with CONFIG.yaml, data.src.lang.",
)
@click.option(
    "-t", "--tgt-lang", metavar="CODE", show_default="by headings, names or the text", help="Language of the target."
)
@command.table_options
@click.option(
    "--set",
    "overrides",
    metavar="KEY.PATH=VALUE",
    multiple=True,
    help="Override one setting of the config; may be repeated.",
)
@command.threads_option
@command.device_option
@click.option(
    "--seed", type=command.WholeSetting("seed", 0), show_default="seed of the config, or 42", help="Random seed."
)
@click.option(
    "--preset",
    type=command.Setting("preset", "NAME"),
    show_default=False,
    help="Start from this preset; CONFIG.yaml overrides it and may then name only the corpora.",
)
@click.option(
    "--budget",
    metavar="TIME",
    show_default=False,
    help="Train for this time, such as 2h or 90m; fits updates, schedule and validations to this machine's speed.",
)
@command.flag(
    "--plan", text="Do not train: run a few batches and print parameters, memory, speed and estimated training time."
)
@command.flag("--show-config", text="Do not train: print all settings as YAML.")
@command.flag(
    "--check-data",
    text="Do not train: check all corpora and print the problems found; exit code 1 if training cannot work.",
)
@command.flag("--json", "as_json", text="With --check-data: print JSON.")
@command.flag("--stop-with-stdin", text="Stop as by Ctrl-C when standard input ends, for programs that start this one.")
def train(
    inputs: tuple[str, ...],
    folder: str | None,
    dev: tuple[str, ...],
    src_lang: str | None,
    tgt_lang: str | None,
    overrides: tuple[str, ...],
    threads: int | None,
    device: str | None,
    seed: int | None,
    preset: str | None,
    budget: str | None,
    plan: bool,
    show_config: bool,
    check_data: bool,
    as_json: bool,
    stop_with_stdin: bool,
    **table: Any,
) -> None:
    """Train a translation model.

    CONFIG.yaml contains settings (configs/reference.yaml). The model is written to the folder given by model_dir.
    Without a config, SRC and TGT are two text files with one sentence per line, or two books in USFM, and TABLE has
    pairs: .tsv, .csv, .xlsx, .xls, .ods, .jsonl, .parquet, .tmx, .lift, .flextext, .sfm. Columns, headings, languages,
    the preset and the validation text are found or chosen and reported. All settings are written to DIR/config.yaml,
    which can be edited and trained again. Run the same command again to resume an interrupted run. Ctrl-C or SIGTERM
    finishes the current update, saves and exits (130, 143); a second one exits at once. Progress goes to standard
    error, and in more detail to train.log and metrics.jsonl in the folder; results go to standard output. --plan,
    --show-config and --check-data write nothing into model_dir but the validation text held out of SRC and
    TGT.

    \b
    Examples:
        nmt-train train.en train.de -o runs/en-de
        nmt-train words.tsv -s ka -t ipa -o runs/words --budget 10m
        nmt-train stories.xlsx --columns 2,3 -s chr -t en -o runs/stories
        nmt-train configs/quickstart.yaml --set training.max_minutes=10 --threads 2
        nmt-train texts.yaml --preset captions --show-config
        nmt-train configs/quickstart.yaml --plan
        mpiexec -n 8 nmt-train configs/quickstart.yaml --threads 1
        nmt-train configs/quickstart.yaml --check-data
        nmt-train configs/quickstart.yaml --budget 10m
    """
    if as_json and not check_data:
        raise click.UsageError("--json goes with --check-data.")
    from nmt.config import dump_config, load_config
    from nmt.system.heap import keep_little
    from nmt.train.checkpoints.start import with_model_of_start
    from nmt.train.distributed.launch import join_ranks  # imported late because it is slow to load
    from nmt.train.planning.budget import seconds_of

    keep_little()
    if stop_with_stdin:
        _stop_with_stdin()
    texts = texts_of(inputs, folder, dev, (src_lang, tgt_lang), command.table_of(table))
    if budget is not None:
        seconds_of(budget)  # raises before anything is read
    own: dict[str, str | int | None] = {"seed": seed}
    # As JSON, since a language (no) or a folder may be named like another YAML value.
    named = {"data.src.lang": src_lang, "data.tgt.lang": tgt_lang, "model_dir": folder if texts is None else None}
    own |= {key: None if value is None else json.dumps(value) for key, value in named.items()}
    if texts is None:
        own |= {"preset": preset}
    overrides += tuple(f"{key}={value}" for key, value in own.items() if value is not None)
    ranks = join_ranks()
    instead = {"--budget": budget, "--show-config": show_config, "--check-data": check_data, "--plan": plan}
    _check_alone([option for option, value in instead.items() if value], ranks.size)
    with ranks.together():
        notify = tell if ranks.rank == 0 else tell_nobody  # print messages once, not once per rank
        if texts is None:
            config = load_config(inputs[0], overrides)
        else:
            from nmt.train.run.training import config_of_texts

            config = config_of_texts(*texts, preset, notify, ranks, changes=overrides, write=not show_config)
        config = with_model_of_start(config)
        if show_config:
            click.echo(dump_config(config), nl=False)
        elif check_data:
            _check_data(config, as_json)
        elif plan:
            from nmt.train.planning.dry_run import DryRun, cost_report

            say(cost_report(DryRun(config, threads, tell, device)))
        else:
            _train(config, budget, threads, device, ranks)


def texts_of(
    inputs: tuple[str, ...],
    folder: str | None,
    dev: tuple[str, ...],
    langs: tuple[str | None, str | None] = (None, None),
    table: Mapping[str, Any] = command.NOT_SAID,
) -> tuple[Texts, Texts | None, Path] | None:
    """Return training text, validation text (None: hold some out) and model folder, or None if `inputs` is a config.
    `langs`: the codes that options give, None for others; a single name may then be the prefix of two files. `table`:
    see `table_of`.

    Raises UsageError if the arguments do not belong together.
    """
    from nmt.data.corpora.sources import format_of
    from nmt.data.tables.readers import ENDINGS

    for one in inputs:
        if _SETTING.match(one) and not exists(Path(one)):
            raise click.UsageError(f"settings are changed by --set, got {one}; write --set {one}.")
    if len(inputs) == 1 and (files := _files_to_name(Path(inputs[0]))):
        names = " and ".join(Path(file).name for file in files)
        order = ", the source first" if len(files) > 1 else ""
        raise click.UsageError(f"{shown(inputs[0])} is a folder with {names}; give {command.as_typed(files)}{order}.")
    if len(inputs) == 1 and not _is_prefix(inputs[0], langs) and format_of(inputs[0]) == "lines":
        if dev:
            raise click.UsageError(
                "--dev goes with SRC TGT or a table; in a config, data.dev names the validation text."
            )
        ending = without_packing(inputs[0]).suffix
        if without_packing(inputs[0]) != Path(inputs[0]) or ending not in (".yaml", ".yml", ".json", ""):
            kinds = "give the files of SRC and TGT, or name a table by its kind: NAME.tsv has tabs, NAME.sfm markers"
            advice = _SAVED.get(ending.lower())
            if advice is None and is_file(Path(inputs[0])) and "\t" in next(read_lines(inputs[0], lenient=True), ""):
                advice = f"it has tabs: name it {shown(Path(inputs[0]).with_suffix('.tsv'))}"
            raise click.UsageError(
                f"one file must be settings (CONFIG.yaml) or a table ({' '.join(ENDINGS)}), got {shown(inputs[0])}; "
                f"{advice or kinds}."
            )
        if table != command.NOT_SAID:
            raise click.UsageError("--columns, --header and --sheet go with a table; a config has them in data.train.")
        return None
    if settings := [one for one in inputs if Path(one).suffix in (".yaml", ".yml")]:
        raise click.UsageError(f"{settings[0]} goes alone: a config names its own files in data.train.")
    if len(inputs) > 2 or len(dev) > 2:
        several = "give --dev twice, once for each file" if len(dev) == 1 else "docs/tables.md has a config for several"
        raise click.UsageError(
            f"takes CONFIG.yaml, SRC TGT or one table, got {len(inputs)} files and {len(dev)} --dev; {several}."
        )
    if len(inputs) == 2 and len(dev) == 1 and is_file(Path(dev[0])) and format_of(dev[0]) == "lines":
        raise click.UsageError(f"--dev must be given twice with SRC TGT, for source and target, got {shown(dev[0])}.")
    if folder is None:
        meant = f"; did you mean -o {shown(inputs[1])}?" if format_of(inputs[0]) != "lines" and inputs[1:] else "."
        raise click.UsageError(f"-o DIR, a folder for the model, must be given with SRC TGT or a table{meant}")
    from nmt.train.tasks.named_texts import Texts

    train, held = (Texts(files, **table) for files in (inputs, dev))
    return train, held if dev else None, Path(folder)


_SAVED = {
    **dict.fromkeys((".numbers", ".gsheet", ".xlsb"), "save it as .xlsx"),
    **dict.fromkeys((".docx", ".doc", ".odt", ".rtf", ".pdf"), "copy its table into a spreadsheet, saved as .xlsx"),
}
"""Advice on files whose endings are those of other programs."""
_SETTING = re.compile(r"\+{0,2}[a-z_]+(\.[a-z_]+)*=")
"""The beginning of a setting, as Hydra, OmegaConf and fairseq take it among the arguments."""


def _files_to_name(folder: Path) -> list[str]:
    """Return what the command trains on of a folder: the first table or config, or the first two texts with one name;
    nothing of a model, or of a folder without them."""
    from nmt.data.corpora.sources import format_of

    # A name with ~ is of a workbook that is open.
    files = [one for one in files_in(folder) if one.name[0] != "~" and one.suffix.lower() not in _SAVED]
    if folder / "config.yaml" in files:
        return []
    alone = [[one] for one in files if format_of(str(one)) != "lines" or one.suffix in (".yaml", ".yml")]
    of_stem: dict[str, list[Path]] = {}
    for one in files:
        of_stem.setdefault(without_packing(one).stem, []).append(one)
    stems = sorted(of_stem, key=lambda stem: (not stem.startswith("train"), stem))
    found = alone + [pair for pair in [*map(of_stem.__getitem__, stems), files] if len(pair) == 2]
    return list(map(str, found[0])) if found else []


def _is_prefix(name: str, langs: tuple[str | None, str | None]) -> bool:
    """Return whether a name is the prefix of two files of these languages. Raises UsageError if these are not given."""
    from nmt.data.corpora.language_names import language_of

    place = Path(name)
    if exists(place):
        return False
    ends = {
        without_packing(one).name.removeprefix(f"{place.name}.") for one in place.parent.glob(f"{escape(place.name)}.*")
    }
    if None not in langs:
        return set(langs) <= ends
    known = sorted(end for end in ends if language_of(end) is not None)
    if len(known) == 2:
        one, other = (f"{name}.{end}" for end in known)
        raise click.UsageError(f"{name} is the beginning of {one} and {other}; name both, the source first.")
    return False


def _check_alone(given: list[str], ranks: int) -> None:
    """Raise UsageError if several options that replace normal training are given, or one with several ranks."""
    if len(given) > 1:
        raise click.UsageError(f"Give one of {' and '.join(given)}.")
    if ranks > 1 and given and given[0] != "--plan":
        raise click.UsageError(f"{given[0]} is for one process; leave mpiexec out.")


def _stop_with_stdin() -> None:
    """Send this process SIGINT when its standard input ends: the program that holds it wishes so, or was killed."""
    source = sys.stdin

    def wait() -> None:
        while source is not None and source.buffer.read(4096):
            pass
        if hasattr(signal, "pthread_kill"):  # so that a call that the main thread waits in ends, too
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            signal.raise_signal(signal.SIGINT)

    threading.Thread(target=wait, name="stop-with-stdin", daemon=True).start()


def _train(config: Config, budget: str | None, threads: int | None, device: str | None, ranks: Ranks) -> None:
    """Train, and print the results; if a signal ended training, exit with its exit code."""
    from nmt.train.run.training import run_training

    terminal = sys.stderr if ranks.rank == 0 else None
    result = run_training(config, budget, threads, device, ranks=ranks, terminal=terminal, tell=tell)
    if ranks.rank == 0:
        if result.best_path is not None:
            scores = "\t".join(f"{name} {score:.4f}" for name, score in result.best_scores.items())
            say(f"best\t{result.best_path}\tupdate {result.best_update}\t{scores}")
        for score in result.test_scores.values():
            say(f"test\t{score.name}\t{score.score:.2f}\t{score.signature}")
        if result.signal is None and result.best_path is not None:
            program = click.get_current_context().command_path.removesuffix("train")  # of nmt-train, or of nmt train
            cells = [word for name in result.cells for word in ("--cells", name)]
            tell(f"Try it: {program}translate {command.as_typed([str(result.folder), *cells])}")
    if result.signal is not None:
        sys.exit(128 + result.signal)


def _check_data(config: Config, as_json: bool) -> None:
    """Print the problems found in the texts. Exits with code 1 if training cannot work with them."""
    from nmt.cli.lines.meter import showing
    from nmt.train.tasks.prepare import check_data

    with showing() as show:
        found = check_data(config, show)
    say(json.dumps(found.to_dict(), indent=2, ensure_ascii=False) if as_json else found.page())
    if found.errors:
        sys.exit(1)
