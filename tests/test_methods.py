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
    side = {"sampling_alpha": 0.2, "max_length": 30}
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
            "encoder": {**ENCODER, "dropout": 0.1, "zoneout": 0.1, "drop_connect": 0.2},
            "decoder": {**DECODER, "hidden_dropout": 0.1, "zoneout": 0.1, "drop_connect": 0.2},
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


@pytest.mark.parametrize("name", ALL)
def test_each_changes_what_a_run_learns(tmp_path: Path, name: str) -> None:
    arrays = []
    for value in (None, ALL[name]):
        values = settings(tmp_path, updates=2, **({name: value} if value is not None else {}))
        values["model_dir"] += str(value)
        Trainer(config_from_dict(values)).run()
        folder = Path(values["model_dir"])
        arrays.append({key: array.tobytes() for key, array in read_checkpoint(folder / "last.safetensors")[0].items()})
        events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        losses = [event for event in events if event["event"] == "train"]
        assert len(losses) == 2
        assert all(event["nll"] > 0 and event["loss"] > 0 for event in losses)
    assert arrays[0] != arrays[1]
