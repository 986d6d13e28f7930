"""Methods of training together, with the real engine: an interruption changes no bit, and ranks or batches added up are
one update."""

import json
from pathlib import Path
from typing import Any

import pytest

from nmt.config import config_from_dict
from nmt.storage.model_folder import read_checkpoint
from nmt.train.run.trainer import Trainer
from tests.small_models import DECODER, ENCODER
from tests.train.fake_model import write_corpus
from tests.train.resumed import difference


def settings(folder: Path, **training: Any) -> dict[str, Any]:
    write_corpus(folder, "train", 60, 1)
    write_corpus(folder, "dev", 5, 2)
    lines = [range(len(line.split())) for line in (folder / "train.xx").read_text().splitlines()]
    (folder / "train.align").write_text("".join(" ".join(f"{n}-{n}" for n in line) + "\n" for line in lines))
    side = {"max_length": 30}
    return {
        "model_dir": str(folder / "model"),
        "threads": 1,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "dev"),
            "src": {"lang": "xx", **side},
            "tgt": {"lang": "yy", **side},
            "subwords": {"type": "bpe", "vocab_size": 28},
            "check": False,
        },
        "model": {
            "encoder": {**ENCODER, "dropout": 0.1, "zoneout": 0.1},
            "decoder": {**DECODER, "hidden_dropout": 0.1, "zoneout": 0.1},
        },
        "training": {"batch_size": 60, "epochs": 3, "validation_freq": 4, "logging_freq": 1, **training},
    }


ALL = {
    "ema_decay": 0.9,
    "src_word_dropout": 0.1,
    "tgt_word_dropout": 0.1,
    "r_drop": 2.0,
    "guided_alignment": 0.5,
    "label_smoothing": 0.1,
}


@pytest.mark.parametrize(("optimizer", "alignment"), [("adam", "train.align"), ("sgd", None)])
def test_an_interruption_changes_no_bit_with_all_of_them(tmp_path: Path, optimizer: str, alignment: str | None) -> None:
    values = settings(tmp_path, optimizer=optimizer, batch_multiplier=2, **ALL)
    values["data"]["alignment"] = alignment and str(tmp_path / alignment)
    assert difference(config_from_dict(values), 3) == (6, [])


def learned(folder: Path, **training: Any) -> dict[str, bytes]:
    """The arrays that two updates leave."""
    values = settings(folder, updates=2, **training)
    Trainer(config_from_dict(values)).run()
    path = Path(values["model_dir"])
    events = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    losses = [event for event in events if event["event"] == "train"]
    assert len(losses) == 2 and all(event["nll"] > 0 and event["loss"] > 0 for event in losses)
    return {key: array.tobytes() for key, array in read_checkpoint(path / "last.safetensors")[0].items()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return learned(tmp_path_factory.mktemp("plain"))


EACH = "tgt_word_dropout", "r_drop", "guided_alignment", "label_smoothing"


@pytest.mark.parametrize("name", EACH)
def test_each_changes_what_a_run_learns(tmp_path: Path, name: str, plain: dict[str, bytes]) -> None:
    """Of the others tests/train/test_every_setting.py."""
    assert learned(tmp_path, **{name: ALL[name]}) != plain
