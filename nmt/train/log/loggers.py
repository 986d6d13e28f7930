"""Loggers of a run's curves and samples: TensorBoard, Weights & Biases, MLflow, as `training.loggers` names them."""

from __future__ import annotations

import html
import importlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nmt.errors import ConfigError
from nmt.storage.model_folder import LOGGERS_NAME
from nmt.storage.trained_settings import flat_settings
from nmt.system.extras import how_to_install
from nmt.system.files import read_json, write_bytes

FOLDER_NAME = "tensorboard"
_KINDS = ("train", "validation", "test")
_NO_CURVES = ("update", "epoch", "best", "time")
_FORBIDDEN = re.compile(r"[/\\#?%:]")
"""Characters that Weights & Biases does not allow in the name of a project."""
_MOST_PARAMS, _MOST_CHARACTERS = 100, 6000
"""Most parameters of a request to MLflow, and most characters of one of them."""


class Logger(Protocol):
    """A library that shows the curves of runs. Each method may raise the errors in `failures`."""

    failures: tuple[type[Exception], ...]
    place: str
    """Folder or address at which the run can be seen."""

    def scalars(self, update: int, values: Mapping[str, float]) -> None:
        """Add a point to each of some curves, such as `train/loss`."""

    def text(self, update: int, name: str, text: str) -> None:
        """Add a text of several lines, such as the samples of a validation."""

    def close(self, finished: bool) -> None:
        """Write what is left, and mark the run as finished or as interrupted."""


@dataclass(frozen=True)
class Run:
    """A run as loggers identify it.

    folder: The model folder. settings: All settings, by path. The run has the name of the folder, and its project, or
    experiment, that of the folder around it.
    """

    folder: Path
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return the name of the run."""
        return self.folder.resolve().name or "nmt"

    @property
    def project(self) -> str:
        """Return the name of the project."""
        return _FORBIDDEN.sub("-", self.folder.resolve().parent.name)[:128] or "nmt"

    @property
    def ids(self) -> dict[str, str]:
        """Return the id of this run by logger, which a resumed run continues. Raises ConfigError if the file that
        contains them is damaged."""
        path = self.folder / LOGGERS_NAME
        if not path.exists():
            return {}
        found = read_json(path)
        if found is None or not all(isinstance(one, str) for one in found.values()):
            raise ConfigError(f"{path}: must contain the ids of the run, got something else; remove it to start others")
        return found

    def keep(self, logger: str, identity: str) -> None:
        """Write the id that a logger gave to this run."""
        found = {**self.ids, logger: identity}
        write_bytes(self.folder / LOGGERS_NAME, (json.dumps(found, indent=2) + "\n").encode())


class TensorBoardLogger:
    """Files that TensorBoard reads, in the folder `tensorboard` of the model folder, one for each start of the run."""

    failures: tuple[type[Exception], ...] = (OSError,)

    def __init__(self, run: Run) -> None:
        self.place = str(run.folder / FOLDER_NAME)
        self._writer = _library("tensorboardX", "tensorboard").SummaryWriter(self.place, write_to_disk=True)

    def scalars(self, update: int, values: Mapping[str, float]) -> None:
        """Add points."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, update)
        self._writer.flush()

    def text(self, update: int, name: str, text: str) -> None:
        """Add a text, as a block of code in Markdown."""
        self._writer.add_text(name, "".join(f"    {line}\n" for line in text.split("\n")), update)
        self._writer.flush()

    def close(self, finished: bool) -> None:
        """Flush the curves and close the file."""
        self._writer.close()


class WandbLogger:
    """A run of Weights & Biases. Its variables, such as WANDB_MODE, WANDB_PROJECT and WANDB_NAME, take precedence."""

    def __init__(self, run: Run) -> None:
        self._library = _library("wandb", "wandb")
        self.failures: tuple[type[Exception], ...] = (self._library.Error, OSError)
        try:
            self._run = self._library.init(
                project=os.environ.get("WANDB_PROJECT", run.project),
                name=os.environ.get("WANDB_NAME", run.name),
                id=run.ids.get("wandb"),
                resume="allow",
                dir=str(run.folder),
                config=dict(run.settings),
                # The terminal is ours: no capture of what is written to it, and no lines of its own.
                settings=self._library.Settings(console="off", silent=True, disable_git=True),
            )
        except (*self.failures, ValueError) as error:  # a ValueError is about the value of a variable
            raise _not_started("wandb", error, "run wandb login, or set WANDB_MODE=offline") from None
        run.keep("wandb", self._run.id)
        # Points of a resumed run may be older than the newest ones: updates are a value, not wandb's own step.
        self._run.define_metric("*", step_metric="update")
        self.place = str(self._run.dir if self._run.offline else self._run.url)

    def scalars(self, update: int, values: Mapping[str, float]) -> None:
        """Add points."""
        self._run.log({**values, "update": update})

    def text(self, update: int, name: str, text: str) -> None:
        """Add a text as a page of HTML."""
        self._run.log({name: self._library.Html(f"<pre>{html.escape(text)}</pre>"), "update": update})

    def close(self, finished: bool) -> None:
        """Wait until everything is sent, and end the run."""
        self._run.finish(exit_code=0 if finished else 1)


class MlflowLogger:
    """A run of MLflow, on the server or in the database that MLFLOW_TRACKING_URI names."""

    def __init__(self, run: Run) -> None:
        # Curves go where the user wants them; nothing else is sent.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        library = _library("mlflow", "mlflow")
        self._metric = library.entities.Metric
        self.failures: tuple[type[Exception], ...] = (library.MlflowException, OSError)
        try:
            self._client = library.MlflowClient()
            self._id = self._resumed(run.ids.get("mlflow")) or self._new(run, library.entities.Param)
        except self.failures as error:
            advice = "set MLFLOW_TRACKING_URI to a server that runs, such as http://127.0.0.1:5000"
            raise _not_started("mlflow", error, advice) from None
        run.keep("mlflow", self._id)
        self.place = f"{library.get_tracking_uri()}, run {self._id}"

    def _resumed(self, known: str | None) -> str | None:
        """Return the id of the run to continue, or None if this server has no such run."""
        if known is None:
            return None
        try:
            self._client.update_run(known, status="RUNNING")
        except self.failures as error:
            if getattr(error, "error_code", None) == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        return known

    def _new(self, run: Run, param: Any) -> str:
        """Start a run with its settings; return its id."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", run.project)
        found = self._client.get_experiment_by_name(name)
        experiment = found.experiment_id if found is not None else self._client.create_experiment(name)
        identity = str(self._client.create_run(experiment, run_name=run.name).info.run_id)
        params = [param(key, str(value)[:_MOST_CHARACTERS]) for key, value in run.settings.items()]
        for start in range(0, len(params), _MOST_PARAMS):
            self._client.log_batch(identity, params=params[start : start + _MOST_PARAMS])
        return identity

    def scalars(self, update: int, values: Mapping[str, float]) -> None:
        """Add points."""
        now = int(time.time() * 1000)
        self._client.log_batch(self._id, metrics=[self._metric(key, one, now, update) for key, one in values.items()])

    def text(self, update: int, name: str, text: str) -> None:
        """Add a text as an artifact, a file for each update."""
        self._client.log_text(self._id, text, f"{name}/{update:08}.txt")

    def close(self, finished: bool) -> None:
        """End the run."""
        self._client.set_terminated(self._id, "FINISHED" if finished else "KILLED")


_LOGGERS: dict[str, Callable[[Run], Logger]] = {
    "tensorboard": TensorBoardLogger,
    "wandb": WandbLogger,
    "mlflow": MlflowLogger,
}


def open_loggers(names: Sequence[str], folder: Path, settings: Mapping[str, Any]) -> dict[str, Logger]:
    """Return the loggers of a run by name.

    Args:
        names: The value of `training.loggers`.
        folder: The model folder, which keeps the ids of the run for the next start.
        settings: All settings, as `Config.to_dict` returns them.

    Raises:
        ConfigError: A library is not installed, or cannot start a run.
    """
    run = Run(folder, dict(flat_settings(settings)))
    return {name: _LOGGERS[name](run) for name in names}


def scalars_of(kind: str, values: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers in an event of metrics.jsonl that become points of curves, by the curve's name."""
    if kind not in _KINDS or not isinstance(values.get("update"), int):
        return {}
    numbers = {key: one for key, one in values.items() if isinstance(one, int | float) and key not in _NO_CURVES}
    return {f"{kind}/{key}": one for key, one in numbers.items()}


def text_of(samples: Sequence[Mapping[str, str]]) -> str:
    """Return the samples of a validation as a text: a line for each field, and an empty line between samples."""
    return "\n\n".join("\n".join(f"{name:<10}  {text}" for name, text in sample.items()) for sample in samples)


def _library(name: str, extra: str) -> Any:
    """Import a library. Raises ConfigError if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigError(
            f"training.loggers: must not name {extra} without its library, got no {name}; {how_to_install(extra)}"
        ) from None


def reason_of(error: Exception) -> str:
    """Return the first line of a library's error, without the full stop of its sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(". ")


def _not_started(name: str, error: Exception, advice: str) -> ConfigError:
    """Return the error with the first sentence of a library's; the next ones are its own advice."""
    reason = reason_of(error).partition(". ")[0]
    return ConfigError(f"training.loggers: {name} must be able to start a run, got {reason}; {advice}")
