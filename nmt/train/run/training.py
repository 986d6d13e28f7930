"""Training from Python, `nmt.train`, and what it shares with the command nmt-train."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from nmt.config import Config, config_from_dict, load_config
from nmt.config.loading import Changes, changed_values
from nmt.data.corpora.sources import format_of
from nmt.errors import ConfigError
from nmt.storage.saved_model import load_saved_model
from nmt.system.notices import Show, tell_nobody, telling_of_compilation
from nmt.system.paths import is_file, named, shown
from nmt.train.distributed.launch import join_ranks
from nmt.train.log.progress import TrainingLog
from nmt.train.planning.budget import seconds_of
from nmt.train.run.loop import OVER
from nmt.train.run.trainer import Trainer, TrainingResult
from nmt.train.tasks.named_texts import Texts
from nmt.train.tasks.plain_texts import settings_of

if TYPE_CHECKING:
    from nmt.train.distributed.ranks import Ranks

Place = str | PathLike[str]


def train(
    config: Config | Place | Mapping[str, Any] | None = None,
    *,
    src: Place | None = None,
    tgt: Place | None = None,
    dev: Place | Sequence[Place] | None = None,
    output: Place | None = None,
    columns: Sequence[int | str] | None = None,
    header: bool | None = None,
    sheet: str | None = None,
    preset: str | None = None,
    changes: Mapping[str, Any] | None = None,
    budget: str | None = None,
    threads: int | None = None,
    device: str | None = None,
    progress: bool | TextIO = True,
) -> TrainingResult:
    """Train a model, or resume its training, as the command nmt-train does.

    Give settings, `train("own_text.yaml")`, or texts, `train(src="a.de", tgt="a.en", output="runs/a")`. After Ctrl-C
    the current update is finished and a checkpoint saved; then KeyboardInterrupt is raised, and the same call resumes.
    A second Ctrl-C interrupts at once. SIGTERM and SIGHUP also take their effect after a checkpoint is saved. In
    threads other than the main one, signals are not handled.

    Args:
        config: Settings, the path of a settings file, or a dictionary of settings.
        src, tgt: In place of settings: two files with one sentence per line. `src` alone is a table of pairs (.tsv,
            .csv, .xlsx, .xls, .ods, .jsonl, .parquet, .tmx, .lift, .flextext, .sfm) or the prefix of two files.
        dev: Validation text for `src`: a pair of files, or a table. None holds out 5 % of the pairs, at most 1,000.
        output: The folder for the model; required with `src`, otherwise the default is model_dir of the settings.
        columns, header, sheet: For a table, the columns of source and target, as (2, 3) or ("Cherokee", "English");
            whether its first row has headings; the sheet of a workbook. None finds them.
        preset: A preset for settings that are not given; with texts, None chooses one.
        changes: Values of settings by their keys, {"training.updates": 100}.
        budget: The time that training may take, such as 2h; fits updates and schedule to this machine's speed.
        threads: Cores to use; None takes the configured number, or all.
        device: `cpu`, `cuda` or `auto`; None takes the configured one.
        progress: True shows progress on standard error, False nothing; or a stream to show it on.

    Raises:
        NMTError: A file, a setting or the folder is not usable, or the loss has exploded; one line, as in the command.
        TypeError: Arguments do not belong together or are of another type.
    """
    if not (isinstance(progress, bool) or hasattr(progress, "write")):
        raise TypeError(f"nmt.train: progress must be True, False or a stream, got {progress!r:.60}")
    if changes is not None and not isinstance(changes, Mapping):
        raise TypeError(f"nmt.train: changes must be a dict, got {type(changes).__name__}")
    if not isinstance(budget, str | None):
        raise TypeError(f"nmt.train: budget must be a text such as '2h' or '90m', got {budget!r:.60}")
    if budget is not None:
        seconds_of(budget)  # raises before anything is read
    whole = dict(changes or {})
    texts = _texts(src, tgt, dev, output, _table(columns, header, sheet)) if config is None else None
    if texts is None:
        given = {"src": src, "tgt": tgt, "dev": dev, "columns": columns, "header": header, "sheet": sheet}
        for name, value in given.items():
            if value is not None:
                raise TypeError(
                    f"nmt.train: {name} must be omitted with settings, which name the texts, got {value!r:.60}"
                )
        own = {"preset": preset, "model_dir": output}
        whole |= {key: value for key, value in own.items() if value is not None}
    ranks = join_ranks()
    terminal = None if ranks.rank or not progress else sys.stderr if isinstance(progress, bool) else progress
    shown: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if terminal is not None and terminal is sys.stderr:
        shown = telling_of_compilation(lambda text: print(text, file=sys.stderr, flush=True))
    with ranks.together(), shown, contextlib.closing(TrainingLog(None, terminal)) as log:
        if texts is not None:
            settings = config_of_texts(*texts, preset, log.line, ranks, changes=whole, where="nmt.train")
        elif isinstance(config, Config):
            settings = config.with_changes(whole)
        elif isinstance(config, Mapping):
            settings = Config.from_dict(config, whole)
        elif isinstance(config, str | PathLike):
            settings = load_config(config, whole)
        else:
            raise TypeError(f"nmt.train: config must be a Config, a path or a dict, got {type(config).__name__}")
        result = run_training(
            settings, budget, threads, device, ranks=ranks, terminal=terminal, tell=log.line, exits=False
        )
    if result.signal is not None:
        signal.raise_signal(result.signal)
    return result


def config_of_texts(
    texts: Texts,
    dev: Texts | None,
    folder: Path,
    preset: str | None,
    tell: Show,
    ranks: Ranks,
    *,
    changes: Changes = (),
    write: bool = True,
    where: str = "nmt-train",
) -> Config:
    """Return the settings for training on texts; see `settings_of`. Languages and a model to start from may be among
    the changes. Errors begin with `where`. Called by all ranks."""
    # A change that no text could make possible is refused before any is read.
    some = {"model_dir": str(folder), "data": {"train": "a", "dev": "b", "src": {"lang": "c"}, "tgt": {"lang": "d"}}}
    try:
        config_from_dict(some, "", changes)
    except ConfigError as error:
        if not str(error).startswith(":"):  # an error of one change names it; settings together depend on the text
            raise
    sections = changed_values(changes)
    langs = [_text_at(sections, "data", side, "lang") for side in ("src", "tgt")]
    model = _text_at(sections, "training", "load_model")
    start = None if model is None else load_saved_model(model).config
    if start is not None:
        if preset is not None:
            raise ConfigError(
                f"preset: must be omitted with training.load_model, whose settings are used, got {preset}; omit it"
            )
        if texts.known == (None, None):
            langs = [given or side.lang for given, side in zip(langs, (start.data.src, start.data.tgt), strict=True)]
    texts = replace(texts, given=(langs[0], langs[1]))

    def chosen() -> Config:
        own = settings_of(texts, dev, folder, preset, tell, start=start, write=write)
        config = config_from_dict(own.values, where, changes)
        own.write(tell)
        return config

    return ranks.first_then_others(chosen)


def _text_at(values: Mapping[str, Any], *keys: str) -> str | None:
    """Return the text below these keys; None if there is none."""
    found: Any = values
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else None


def run_training(
    config: Config,
    budget: str | None,
    threads: int | None,
    device: str | None,
    *,
    ranks: Ranks,
    terminal: TextIO | None,
    tell: Show = tell_nobody,
    exits: bool = True,
) -> TrainingResult:
    """Train with these settings, fitted to the time budget if there is one; see `Trainer`. Called by all ranks."""
    tried, spent = None, 0.0
    if budget is not None:
        from nmt.train.planning.budget import Measurement, fit_to_budget

        if ranks.size > 1:
            raise ConfigError("budget: must be omitted with several ranks, got one; set training.updates")
        measure = Measurement(threads, device, tell)
        config = fit_to_budget(config, budget, measure, tell)
        tried, spent = measure.task, measure.spent
    result = Trainer(
        config, threads=threads, device=device, terminal=terminal, ranks=ranks, exits=exits, tried=tried, spent=spent
    ).run()
    if budget is not None and result.reason.endswith(OVER):
        result = replace(result, reason=f"the budget of {budget} is over (training.max_minutes)")
    return result


def _texts(
    src: Place | None,
    tgt: Place | None,
    dev: Place | Sequence[Place] | None,
    output: Place | None,
    table: Mapping[str, Any],
) -> tuple[Texts, Texts | None, Path]:
    """Return training text, validation text (None: hold some out) and folder. Raises TypeError if one is missing."""
    if src is None or output is None:
        got = "neither" if src is None else "src alone"
        raise TypeError(f"nmt.train: must be given settings, or src and output, got {got}")
    files = [src] if tgt is None else [src, tgt]
    others: list[Any] = [] if dev is None else [*dev] if isinstance(dev, list | tuple) else [dev]
    if len(others) > 2:
        raise TypeError(f"nmt.train: dev must be one or two files, got {len(others)}")
    for one in (*files, *others):
        if not isinstance(one, str | PathLike):
            raise TypeError(
                f"nmt.train: src, tgt and dev must be paths of files, got {one!r:.60}; write texts to files"
            )
    if tgt is None and format_of(str(src)) == "lines" and is_file(Path(src)):
        raise TypeError(
            f"nmt.train: tgt must be given with {shown(src)}, a file of sentences, got src alone; src alone is a table "
            "(.tsv, .xlsx, .tmx, ...), or the prefix of two files"
        )
    train, held = (Texts(tuple(str(named(one, "nmt.train")) for one in part), **table) for part in (files, others))
    return train, held if others else None, named(output, "output")


def _table(columns: Sequence[int | str] | None, header: bool | None, sheet: str | None) -> dict[str, Any]:
    """Return what a caller says of tables, as `Texts` names it. Raises TypeError for other types."""
    found = (None, None) if columns is None else tuple(columns) if isinstance(columns, list | tuple) else ()
    fits = [isinstance(one, str) or type(one) is int and one > 0 for one in found]
    if len(found) != 2 or columns is not None and not all(fits):
        raise TypeError(f"nmt.train: columns must be two numbers from 1, or two headings, got {columns!r:.60}")
    if not (header is None or isinstance(header, bool)) or not isinstance(sheet, str | None):
        raise TypeError(f"nmt.train: header must be a bool and sheet a text, got {header!r:.40} and {sheet!r:.40}")
    return {"columns": found, "header": header, "sheet": sheet}
