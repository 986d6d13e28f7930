"""The mean of checkpoints, and which checkpoints a run keeps for it."""

import json
import os

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.inference.translator import Translator
from nmt.storage.model_folder import numbered_checkpoints, read_checkpoint
from nmt.train.checkpoints.average import average_checkpoints, best_checkpoints, newest_checkpoints, save_average
from nmt.train.checkpoints.checkpoint import save_checkpoint


@pytest.fixture
def folder(make_trainer):
    trainer = make_trainer(keep_last_ckpts=3, keep_best_ckpts=2, epochs=6)
    trainer.run()
    return trainer.folder


def events(folder, kind):
    found = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [event for event in found if event["event"] == kind]


def updates(paths):
    return [int(path.stem.split("-")[1]) for path in paths]


def test_the_newest_are_kept(folder):
    validated = [event["update"] for event in events(folder, "validation")]
    assert len(validated) > 3
    assert updates(numbered_checkpoints(folder, "last")) == sorted(validated)[:-4:-1]
    newest = numbered_checkpoints(folder, "last")[0]
    last, _ = read_checkpoint(folder / "last.safetensors", "params/")
    own, _ = read_checkpoint(newest)
    assert own.keys() == last.keys() and all((own[k] == last[k]).all() for k in own), "no optimizer in it"


def test_by_default_only_the_last_is_kept(make_trainer):
    trainer = make_trainer()
    trainer.run()
    assert not numbered_checkpoints(trainer.folder, "last")


def test_a_resumed_run_drops_what_a_killed_one_wrote_ahead(make_trainer):
    trainer = make_trainer(keep_last_ckpts=2, epochs=2)
    trainer.run()
    save_checkpoint(trainer.folder / "last-9999.safetensors", params={}, optimizer={}, metadata={})
    make_trainer(keep_last_ckpts=2, epochs=4).run()
    assert 9999 not in updates(numbered_checkpoints(trainer.folder, "last"))
    assert len(numbered_checkpoints(trainer.folder, "last")) == 2


def test_the_mean(folder, tmp_path):
    paths = newest_checkpoints(folder, 3)
    mean, _ = average_checkpoints(paths)
    for name, array in mean.items():
        own = [read_checkpoint(path)[0][name].astype(np.float64) for path in paths]
        assert (array == np.mean(own, axis=0).astype(np.float32)).all() and array.dtype == np.float32
    save_average(folder, paths, tmp_path / "mean")
    translator = Translator.load(tmp_path / "mean", threads=1)
    assert (translator.model.params["bias"] == mean["params/bias"]).all()
    assert len(translator.translate(["w1 w2", "w3"])) == 2
    assert {"config.yaml", "joint.spm", "best.safetensors", "confidence.safetensors"} == set(
        os.listdir(tmp_path / "mean")
    )
    assert read_checkpoint(tmp_path / "mean" / "best.safetensors")[1]["averaged"] == [path.name for path in paths]
    with pytest.raises(CheckpointError, match="must be a new folder"):
        save_average(folder, paths, tmp_path / "mean")


def test_one_checkpoint_is_its_own_mean(folder):
    (path,) = newest_checkpoints(folder, 1)
    mean, _ = average_checkpoints([path])
    assert all((array == mean[name]).all() for name, array in read_checkpoint(path)[0].items())


def test_the_best_are_those_of_the_log(folder):
    scores = {event["update"]: event["bleu"] for event in events(folder, "validation")}
    best = updates(best_checkpoints(folder, 2))
    assert sorted((scores[u] for u in best), reverse=True) == sorted(scores.values(), reverse=True)[:2]


def test_mistakes(folder, tmp_path):
    with pytest.raises(CheckpointError, match=r"must contain 4 checkpoints last-UPDATE.*got 3.*keep_last_ckpts: 4"):
        newest_checkpoints(folder, 4)
    with pytest.raises(CheckpointError, match=r"got 2; ask for fewer"):
        best_checkpoints(folder, 3)
    other = tmp_path / "other.safetensors"
    params = {name[7:]: array for name, array in read_checkpoint(folder / "best.safetensors")[0].items()}
    for changed in (params | {"bias": params["bias"][:3]}, {"bias": params["bias"]}, {}):
        save_checkpoint(other, params=changed, optimizer={}, metadata={})
        with pytest.raises(CheckpointError, match="must"):
            average_checkpoints([folder / "best.safetensors", other])
    save_checkpoint(other, params={"bias": np.ones(3, "i1")}, optimizer={}, metadata={})
    with pytest.raises(CheckpointError, match="average before quantising"):
        average_checkpoints([other])
    with pytest.raises(CheckpointError, match="no such file"):
        average_checkpoints([tmp_path / "nothing"])


def test_a_run_that_kept_none_is_told_of_the_two_that_are_there(make_trainer):
    trainer = make_trainer(epochs=1)
    trainer.run()
    with pytest.raises(CheckpointError, match="got 0; name those that are there, --checkpoint best --ch"):
        newest_checkpoints(trainer.folder, 5)
