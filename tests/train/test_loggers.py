"""training.loggers: the numbers and samples of metrics.jsonl, in TensorBoard, Weights & Biases and MLflow."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from nmt.errors import ConfigError
from nmt.train.log.loggers import Logger, Run
from nmt.train.log.progress import TrainingLog
from nmt.train.run.trainer import Trainer

Make = Callable[..., Trainer]


def events_of(trainer: Trainer) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (trainer.folder / "metrics.jsonl").read_text().splitlines()]


def samples_of(events: list[dict[str, Any]], update: int) -> list[dict[str, str]]:
    return next(event["samples"] for event in events if event["event"] == "samples" and event["update"] == update)


def in_two_starts(make_trainer: Make, logger: str) -> tuple[Trainer, list[str]]:
    """Train up to update 6 and, in a second start, to the end; return the id that each start left."""
    ids = []
    for stop_after in (6, None):
        trainer = make_trainer(loggers=[logger])
        trainer._stop_after = stop_after
        trainer.run()
        ids.append(json.loads((trainer.folder / "loggers.json").read_text())[logger])
    return trainer, ids


def test_curves_are_those_of_the_metrics(make_trainer: Make) -> None:
    pytest.importorskip("tensorboardX", reason="the extra [tensorboard] is not installed")
    from tensorboardX.event_file_writer import EventsWriter  # noqa: F401 - what writes is there
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c  # noqa: F401

    trainer = make_trainer(loggers=["tensorboard"])
    trainer.run()
    scalars: dict[tuple[str, int], float] = {}
    texts: dict[tuple[str, int], str] = {}
    for path in (trainer.folder / "tensorboard").iterdir():
        raw, place = path.read_bytes(), 0
        while place < len(raw):  # length, its checksum, the event, its checksum
            size = int.from_bytes(raw[place : place + 8], "little")
            event = Event.FromString(raw[place + 12 : place + 12 + size])
            for value in event.summary.value:
                if value.HasField("tensor"):
                    texts[value.tag, event.step] = value.tensor.string_val[0].decode()
                else:
                    scalars[value.tag, event.step] = value.simple_value
            place += 16 + size
    events = events_of(trainer)
    for event in events:
        if event["event"] in ("train", "validation"):
            assert scalars[(f"{event['event']}/loss", event["update"])] == pytest.approx(event["loss"], rel=1e-5)
    text = next(text for (tag, update), text in texts.items() if update == 8)
    assert all(field in text for sample in samples_of(events, 8) for field in sample.values())
    assert ("validation/bleu", 8) in scalars and not any(tag.endswith("/update") for tag, _ in scalars)


@pytest.mark.parametrize(
    ("name", "module"), [("tensorboard", "tensorboardX"), ("wandb", "wandb"), ("mlflow", "mlflow")]
)
def test_without_the_library_a_line_says_what_to_install(make_trainer, monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"got no {module}; .* pip install -e '.\[{name}\]'"):
        make_trainer(loggers=[name]).run()


def records_of_wandb(path: Path) -> Iterator[bytes]:
    """The records of a file in LevelDB's log format: blocks of 32 KiB of pieces, after a header of seven bytes."""
    raw, place, whole = path.read_bytes(), 7, b""
    while place < len(raw):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        size, kind = int.from_bytes(raw[place + 4 : place + 6], "little"), raw[place + 6]
        whole += raw[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last piece
            yield whole
            whole = b""


def test_a_run_of_wandb_is_continued(make_trainer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="the extra [wandb] is not installed")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("WANDB_PROJECT", "WANDB_NAME", "WANDB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    trainer, ids = in_two_starts(make_trainer, "wandb")
    assert ids[0] == ids[1] and wandb.run is None
    points: dict[tuple[str, int], float] = {}
    pages, runs, codes = [], [], []
    wandb.teardown()  # its process has written everything, as at the end of a program
    for path in sorted(trainer.folder.glob("wandb/offline-run-*/*.wandb")):
        for raw in records_of_wandb(path):
            record = Record.FromString(raw)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                runs.append((record.run.run_id, record.run.project, record.run.display_name))
            elif kind == "exit":
                codes.append(record.exit.exit_code)
            elif kind == "history":
                row = {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item
                }
                pages += [key for key in row if key.startswith("samples")]
                points |= {(key, row["update"]): one for key, one in row.items() if isinstance(one, int | float)}
    assert {*runs} == {(ids[0], Run(trainer.folder, {}).project, trainer.folder.name)} and pages
    assert codes == [1, 0], "the first start was interrupted"
    for event in events_of(trainer):
        if event["event"] in ("train", "validation"):
            assert points[f"{event['event']}/loss", event["update"]] == event["loss"]


def test_a_run_of_mlflow_is_continued(make_trainer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the extra [mlflow] is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the small package has no database
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    trainer, ids = in_two_starts(make_trainer, "mlflow")
    assert ids[0] == ids[1]
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name(Run(trainer.folder, {}).project)
    runs = client.search_runs([experiment.experiment_id])
    assert [(run.info.run_id, run.info.run_name, run.info.status) for run in runs] == [
        (ids[0], trainer.folder.name, "FINISHED")
    ]
    assert runs[0].data.params["training.validation_freq"] == str(trainer.config.training.validation_freq)
    events = events_of(trainer)
    for kind in ("train", "validation"):
        history = {one.step: one.value for one in client.get_metric_history(ids[0], f"{kind}/loss")}
        assert history == {event["update"]: event["loss"] for event in events if event["event"] == kind}
    found = Path(mlflow.artifacts.download_artifacts(run_id=ids[0], artifact_path="samples/00000008.txt"))
    text = found.read_text("utf-8")
    assert all(field in text for sample in samples_of(events, 8) for field in sample.values())


def test_an_unknown_run_of_mlflow_is_begun_again(make_trainer, tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="the extra [mlflow] is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    ids = []
    for store in ("one", "two"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / store).as_uri())
        trainer = make_trainer(loggers=["mlflow"])
        trainer.run()
        ids.append(json.loads((trainer.folder / "loggers.json").read_text())["mlflow"])
    assert ids[0] != ids[1]


def test_what_cannot_start_a_run_is_one_line(make_trainer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="the extra [mlflow] is not installed")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://x")
    with pytest.raises(ConfigError, match=r"^training.loggers: mlflow must be able to start a run, got [^\n]+; set "):
        make_trainer(loggers=["mlflow"]).run()
    wandb = pytest.importorskip("wandb", reason="the extra [wandb] is not installed")
    wandb.teardown()  # it has read its variables already
    monkeypatch.setenv("WANDB_MODE", "nonsense")
    with pytest.raises(ConfigError, match=r"^training.loggers: wandb must be able to start a run, got [^\n]+; run "):
        make_trainer(loggers=["wandb"]).run()


class FailingLogger:
    failures: tuple[type[Exception], ...] = (OSError,)
    place = "nowhere"

    def __init__(self) -> None:
        self.calls = 0

    def scalars(self, update: int, values: Mapping[str, float]) -> None:
        self.calls += 1
        raise OSError("the server is gone")

    def text(self, update: int, name: str, text: str) -> None:
        raise AssertionError("called after a failure")

    def close(self, finished: bool) -> None:
        raise AssertionError("called after a failure")


def test_a_failure_is_said_once_and_ends_nothing(tmp_path: Path) -> None:
    import io

    logger, shown = FailingLogger(), io.StringIO()
    loggers: dict[str, Logger] = {"wandb": logger}
    log = TrainingLog(tmp_path, shown, loggers)
    for update in (1, 2):
        log.event("train", update=update, loss=1.0)
        log.event("samples", update=update, samples=[{"source": "a"}])
    log.close()
    assert logger.calls == 1 and len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 4
    assert shown.getvalue() == "warning: wandb cannot be written (the server is gone); going on without it\n"


def test_damaged_ids_are_one_line(make_trainer: Make, tmp_path: Path) -> None:
    (tmp_path / "loggers.json").write_text("[1]")
    with pytest.raises(ConfigError, match=r"loggers.json: must contain the ids of the run, got something else; remove"):
        Run(tmp_path, {}).ids  # noqa: B018
