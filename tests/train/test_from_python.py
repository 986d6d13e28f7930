"""nmt.train: a run from Python, from settings and from texts, with the errors of the command."""

import inspect
import io
import itertools
import os
import pydoc
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import nmt
from nmt.errors import CheckpointError, ConfigError, DataError, DeviceError
from nmt.storage.model_folder import load_folder_config, read_checkpoint
from nmt.train.distributed.ranks import Ranks
from nmt.train.planning import budget
from tests.oracle.compare import assert_same_bits
from tests.processes import python
from tests.refusals import refused
from tests.train import fake_model

ROOT = Path(__file__).parents[2]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return fake_model.write_setup(tmp_path)


def forms(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same settings in every form that `train` takes."""
    file = folder / "c.yaml"
    file.write_text(yaml.safe_dump(settings))
    with_paths = settings | {"model_dir": Path(settings["model_dir"])}
    return {"dict": with_paths, "path": file, "text": str(file), "config": nmt.Config.load(file)}


@pytest.mark.parametrize("form", ["dict", "path", "text", "config"])
def test_settings_train_a_model(form, settings, tmp_path, capfd):
    data = settings["data"] | {"test": str(tmp_path / "test")}
    result = nmt.train(forms(settings | {"data": data}, tmp_path)[form])
    assert isinstance(result, nmt.TrainingResult)
    assert (result.folder, result.signal) == (tmp_path / "model", None)
    assert result.best_path == result.folder / "best.safetensors"
    names = [f"{name}.safetensors" for name in ("best", "confidence", "former", "last")]
    names += ["config.yaml", "data_check.json", "joint.spm", "metrics.jsonl", "train.log"]
    assert sorted(os.listdir(result.folder)) == sorted(names)
    assert "4 epochs" in result.reason
    assert result.best_scores["bleu"] > 99 and result.update >= result.best_update > 0
    assert result.test_scores["bleu"].score > 99
    translator = result.translator(threads=1)
    assert [translator.translate(given) for given in ("w1 w2", "", ["", "w3"])] == ["z1 z2", "", ["", "z3"]]
    out, err = capfd.readouterr()
    assert out == "" and "finished: 4 epochs" in err


def test_changes_and_output(settings: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    updates = []
    for form, config in forms(settings, tmp_path).items():
        changes = {"training.updates": 7, "training": {"epochs": 9}}
        result = nmt.train(config, output=tmp_path / form, changes=changes, progress=False, threads=1, device="cpu")
        assert result.folder == tmp_path / form
        assert nmt.Config.load(tmp_path / form / "config.yaml").training.epochs == 9
        updates.append(result.update)
    assert updates == [7] * 4
    assert not (tmp_path / "model").exists()
    assert capfd.readouterr() == ("", "")


def test_texts_train_a_model(tmp_path: Path) -> None:
    fake_model.write_corpus(tmp_path, "train", 60, seed=1)
    shown = io.StringIO()
    texts = {"src": tmp_path / "train.xx", "tgt": str(tmp_path / "train.yy")}
    changes = {"training.updates": 50}
    result = nmt.train(**texts, output=tmp_path / "m", changes=changes, progress=shown)
    assert "60 pairs of sentences: preset low-resource" in shown.getvalue()
    assert "3 pairs held out" in shown.getvalue()
    assert result.translator().translate(["w1"])
    fake_model.write_corpus(tmp_path, "dev", 5, seed=2)
    dev = [tmp_path / "dev.xx", tmp_path / "dev.yy"]
    result = nmt.train(**texts, dev=dev, preset="low-resource", output=tmp_path / "n", changes=changes, progress=False)
    config = nmt.Config.load(result.folder / "config.yaml")
    assert (config.preset, config.data.dev, config.training.updates) == ("low-resource", str(tmp_path / "dev"), 50)
    command = [sys.executable, fake_model.__file__, "nmt-train", *texts.values(), "-o", tmp_path / "c"]
    command += ["--dev", dev[0], "--dev", dev[1], "--preset", "low-resource", "--set", "training.updates=50"]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    theirs, ours = (nmt.Config.load(tmp_path / name / "config.yaml").to_dict() for name in ("c", "n"))
    assert theirs | {"model_dir": "", "name": ""} == ours | {"model_dir": "", "name": ""}


def test_one_table(tmp_path: Path) -> None:
    (tmp_path / "words.tsv").write_text("".join(f"w{n % 9}\tz{n % 9}\n" for n in range(60)))
    how = {"preset": "character", "changes": {"training.updates": 3}, "progress": False}
    assert nmt.train(src=tmp_path / "words.tsv", output=tmp_path / "m", **how).update == 3
    (tmp_path / "three.tsv").write_text("".join(f"w{n % 9}\tx{n}\tz{n % 9}\n" for n in range(60)))
    result = nmt.train(src=tmp_path / "three.tsv", columns=(3, 1), output=tmp_path / "t", **how)
    (corpus,) = nmt.Config.load(result.folder / "config.yaml").data.train
    assert (corpus.src_column, corpus.tgt_column) == (3, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "must be given settings, or src and output, got neither"),
        ({"src": "a"}, "must be given settings, or src and output, got src alone"),
        ({"config": "c.yaml", "src": "a"}, "src must be omitted with settings, which name the texts, got 'a'"),
        ({"src": "a", "output": "m", "dev": ["a", "b", "c"]}, "dev must be one or two files, got 3"),
        (
            {"src": ["a b"], "output": "m"},
            r"src, tgt and dev must be paths of files, got \['a b'\]; write texts to files",
        ),
        ({"src": "a", "tgt": "b", "output": "m", "dev": 3}, "src, tgt and dev must be paths of files, got 3"),
        (
            {"src": __file__, "output": "m"},
            f"tgt must be given with {re.escape(__file__)}, a file of sentences, got src alone; ",
        ),
        ({"config": "c.yaml", "budget": 60}, "budget must be a text such as '2h' or '90m', got 60"),
        ({"src": "a", "columns": (0, 1)}, r"columns must be two numbers from 1, or two headings, got \(0, 1\)"),
        ({"config": "c.yaml", "sheet": "S"}, "sheet must be omitted with settings"),
        ({"config": 3}, "config must be a Config, a path or a dict, got int"),
        ({"config": "c.yaml", "progress": "yes"}, "progress must be True, False or a stream, got 'yes'"),
        ({"config": "c.yaml", "changes": ["seed=1"]}, "changes must be a dict, got list"),
    ],
)
def test_arguments_that_do_not_belong_together(arguments: dict[str, Any], message: str) -> None:
    refused(TypeError, rf"\Anmt\.train: {message}[^\n]*\Z", nmt.train, **arguments)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"training.updates": "many"}, ConfigError, "changes: training.updates must be"),
        ({"training.update": 1}, ConfigError, "training.update is not a setting; did you mean training.updates"),
        ({"compute_dtype": "int8"}, ConfigError, "compute_dtype: must be float32 or bfloat16 for training, got int8"),
        ({"data.train": "nowhere/train"}, DataError, "nowhere/train"),
        ({"model_dir": ""}, ConfigError, "model_dir must be"),
        ({"training.load_model": "nowhere"}, CheckpointError, "nowhere"),
    ],
)
@pytest.mark.parametrize("form", ["dict", "path"])
def test_mistakes_are_those_of_the_command(form, change, error, message, settings, tmp_path):
    refused(error, message, nmt.train, forms(settings, tmp_path)[form], changes=change, progress=False)


def test_files_and_devices_that_are_missing(settings: dict[str, Any], tmp_path: Path) -> None:
    refused(ConfigError, "none.yaml: no such file", nmt.train, tmp_path / "none.yaml")
    refused(DataError, "none.xx", nmt.train, src=tmp_path / "none.xx", tgt=tmp_path / "none.yy", output=tmp_path / "m")
    texts = fake_model.write_setup(tmp_path)["data"]["train"]
    given = {"src": f"{texts}.xx", "tgt": f"{texts}.yy", "output": tmp_path / "m", "preset": "smal"}
    refused(ConfigError, r"\Anmt\.train: preset must be one of tiny, ", nmt.train, **given, progress=False)
    refused(ConfigError, "threads must be", nmt.train, settings, threads=0, progress=False)
    refused(ConfigError, "must be a time such as 2h", nmt.train, settings, budget="soon", progress=False)
    from nmt.rnn.devices import choose_device

    try:
        choose_device("cuda")
    except DeviceError:
        refused(DeviceError, r"\A[^\n]+\Z", nmt.train, settings, device="cuda", progress=False)


def test_a_budget_sets_the_end(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_LEAST_SECONDS", 0.5)
    monkeypatch.setattr(budget.Measurement, "__call__", lambda *_: budget.Pace(0.01, 0.1, 40))
    now = itertools.count(0, 0.005)
    monkeypatch.setattr(budget.time, "monotonic", lambda: next(now))
    shown = io.StringIO()
    result = nmt.train(settings, budget="2s", progress=shown)
    assert re.search(r"budget: 2s, \S+ of it left after reading and timing; an update takes", shown.getvalue())
    assert result.reason == "the budget of 2s is over (training.max_minutes)"
    assert result.translator(threads=1).translate("w1")
    monkeypatch.setattr(Ranks, "size", 2)
    refused(ConfigError, "budget: must be omitted with several ranks", nmt.train, settings, budget="2s", progress=False)


def test_a_finished_run_says_which_changes_had_no_effect(settings, caplog):
    first = nmt.train(settings, progress=False)
    changes = {"training.learning_rate": 0.1, "decoding.beam_size": 3, "training.epochs": 3}
    before = load_folder_config(first.folder)
    again = nmt.train(settings, changes=changes, progress=False)
    kept = load_folder_config(first.folder)
    assert (kept.training.learning_rate, kept.decoding.beam_size) == (before.training.learning_rate, 3)
    assert (again.update, first.reason) == (first.update, "4 epochs (training.epochs)")
    told = (
        "already finished, 3 epochs (training.epochs); changed settings had no effect (training.learning_rate): "
        "start a new run with them in another folder"
    )
    assert again.reason == told and [one.getMessage() for one in caplog.records] == [f"warning: {first.folder}: {told}"]
    caplog.clear()
    assert nmt.train(settings, progress=False).reason == first.reason
    shown = io.StringIO()
    nmt.train(settings, changes=changes, progress=shown)
    assert told in shown.getvalue() and not caplog.records


@pytest.mark.parametrize("name", ["Generator", "LanguageScorer"])
def test_what_is_removed_names_what_takes_its_place(name: str) -> None:
    refused(ImportError, f"nmt.{name} is not there any more; .* KenLM or transformers", getattr, nmt, name)


# ---------------------------------------------------------------- threads and signals


class Sending(io.StringIO):
    """A stream that sends signals to this process when the third update is shown."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self._numbers = list(numbers)

    def write(self, text: str) -> int:
        if "update      3" in text:
            while self._numbers:
                signal.raise_signal(self._numbers.pop(0))
        return super().write(text)


def interrupted(settings: dict[str, Any], changes: dict[str, Any], *numbers: int) -> str:
    """What is shown of a run that signals interrupt; the handler of Ctrl-C is afterwards what it was."""
    former, shown = signal.getsignal(signal.SIGINT), Sending(*numbers)
    refused(KeyboardInterrupt, "", nmt.train, settings, changes=changes, progress=shown)
    assert signal.getsignal(signal.SIGINT) is former
    return shown.getvalue()


def test_ctrl_c_saves_and_the_same_call_resumes(settings: dict[str, Any], tmp_path: Path) -> None:
    changes = {"training.logging_freq": 1}
    whole = nmt.train(settings, changes=changes, output=tmp_path / "whole", progress=False)
    told = "stopped at epoch 1, update 3; run the same command again to resume"
    assert told in interrupted(settings, changes, signal.SIGINT)
    assert (tmp_path / "model" / "last.safetensors").exists()
    again = nmt.train(settings, changes=changes, progress=False)
    assert again.update == whole.update
    ours, theirs = (read_checkpoint(one.folder / "best.safetensors", "params/")[0] for one in (again, whole))
    assert_same_bits(ours, theirs)


def test_a_second_ctrl_c_interrupts_at_once(settings: dict[str, Any]) -> None:
    changes = {"training.logging_freq": 1}
    assert "stopped at" not in interrupted(settings, changes, signal.SIGINT, signal.SIGINT)
    assert "4 epochs" in nmt.train(settings, changes=changes, progress=False).reason


def test_other_signals_take_their_effect_afterwards(settings, tmp_path):
    came: list[bool] = []
    last = tmp_path / "model" / "last.safetensors"
    former = signal.signal(signal.SIGTERM, lambda *_: came.append(last.exists()))
    try:
        result = nmt.train(settings, changes={"training.logging_freq": 1}, progress=Sending(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, former)
    assert came == [True]
    assert (result.signal, result.update) == (signal.SIGTERM, 3)


def test_threads_train_models_at_once(settings: dict[str, Any], tmp_path: Path) -> None:
    def run(number: int) -> dict[str, np.ndarray]:
        result = nmt.train(settings, output=tmp_path / str(number), progress=False)
        return read_checkpoint(result.folder / "best.safetensors", "params/")[0]

    with ThreadPoolExecutor(2) as callers:
        first, second = callers.map(run, range(2))
    assert_same_bits(first, second)
    folder = tmp_path / "model"
    with ThreadPoolExecutor(2) as callers:  # the second finds the folder in use, or the run completed
        for future in [callers.submit(nmt.train, settings, progress=False) for _ in range(2)]:
            try:
                assert future.result().folder == folder
            except CheckpointError as error:
                assert "another nmt-train at work in it" in str(error)


# ---------------------------------------------------------------- the package that can be called


@pytest.mark.parametrize("name", ["train", "evaluate"])
def test_help_of_such_a_package_describes_the_function(name: str) -> None:
    function = getattr(nmt, name)
    shown = " ".join(pydoc.render_doc(function, renderer=pydoc.plaintext).split())
    assert f"{name}({'config=None, *, src=None' if name == 'train' else 'hypotheses, references, *'}" in shown
    assert all(" ".join(line.split()) in shown for line in function.__wrapped__.__doc__.splitlines())
    assert "Args:" in str(inspect.getdoc(function)), "which a notebook shows for nmt.train?"


def test_packages_are_functions_too() -> None:
    import nmt.train.run.trainer

    assert nmt.train.run.trainer.Trainer
    assert list(inspect.signature(nmt.train).parameters)[:4] == ["config", "src", "tgt", "dev"]
    assert list(inspect.signature(nmt.evaluate).parameters)[:2] == ["hypotheses", "references"]
    every = "import nmt; assert all(getattr(nmt, name) is not None for name in nmt.__all__)"  # without the fake model
    python(every)
    with pytest.raises(AttributeError, match="module 'nmt' has no attribute 'translate'"):
        nmt.translate  # noqa: B018
    code = "import nmt, sys; print(*sorted(sys.modules)); assert callable(nmt.train) and callable(nmt.evaluate)"
    assert not {"numpy", "nmt.errors", "pydantic", "yaml"} & {*python(code).stdout.split()}
