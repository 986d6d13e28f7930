"""The candidates of minimum risk training: what is drawn, what it costs, and that learning from it lowers the risk."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt.config import config_from_dict
from nmt.data.batching.batches import make_batch
from nmt.errors import ConfigError, DeviceError
from nmt.evaluate import sentence_utility
from nmt.special_tokens import BOS_ID, EOS_ID
from nmt.storage.model_folder import read_checkpoint
from nmt.train.run.resume_check import check_resume
from nmt.train.run.trainer import Trainer
from nmt.train.updates.methods import Methods, MinimumRisk, largest_shape
from tests import small_models
from tests.train.fake_model import write_corpus

RISK = {"minimum_risk": 6, "minimum_risk_alpha": 0.5}


class Letters:
    """Subwords of a test: unit n is a letter, and a word."""

    def decode(self, rows: Any) -> list[str]:
        return [" ".join(chr(ord("a") + n - 4) for n in ids if n > EOS_ID) for ids in rows]


def config_of(folder: Path | None = None, **training: Any) -> Any:
    values: dict[str, Any] = {
        "model_dir": "unused",
        "data": {"train": "unused", "dev": "unused", "src": {"lang": "xx"}, "tgt": {"lang": "yy"}},
        "training": training,
    }
    if folder is not None:
        write_corpus(folder, "train", 40, 1)
        write_corpus(folder, "dev", 5, 2)
        values |= {"model_dir": str(folder / "model"), "threads": 1}
        values["data"] |= {"train": str(folder / "train"), "dev": str(folder / "dev"), "check": False}
        values["data"]["subwords"] = {"type": "word", "vocab_size": 60}
        values["model"] = {"encoder": small_models.ENCODER, "decoder": small_models.DECODER}
        values["training"] = {
            "batch_size": 40,
            "validation_freq": 4,
            "logging_freq": 1,
            "scheduling": "constant",
            **training,
        }
    return config_from_dict(values)


PAIRS = [([4, 5, 6], [7, 5]), ([6], [4]), ([8, 8, 5, 4], [6, 6, 6, 6])]


@pytest.mark.parametrize("boundaries", ["eos", "bos_eos"])
def test_each_sentence_has_its_reference_and_other_translations_once(boundaries: str) -> None:
    model = small_models.build(9, encoder={"boundaries": boundaries})
    config = config_of(**RISK)
    config = config.model_copy(update={"model": model.config})
    batch = make_batch([src for src, _ in PAIRS], [tgt for _, tgt in PAIRS], [30, 40, 50], boundaries)
    source = MinimumRisk(config, model, Letters(), 1)  # type: ignore[arg-type]
    rows, risk = source.candidates(batch, 3)
    seen: dict[int, list[tuple[int, ...]]] = {}
    utility = sentence_utility("bleu")
    for row, line in enumerate(rows.indices.tolist()):
        n = [30, 40, 50].index(line)
        ids = tuple(rows.tgt_out[: rows.tgt_lengths[row] - 1, row].tolist())
        assert rows.tgt_in[0, row] == BOS_ID
        assert risk.is_reference[row] == (list(ids) == PAIRS[n][1])
        own = [token for token in rows.src[:, row].tolist() if token > EOS_ID]
        assert own == PAIRS[n][0], "the source stands beside each of its candidates"
        text, reference = Letters().decode([ids, PAIRS[n][1]])
        assert risk.cost[row] == pytest.approx(0 if risk.is_reference[row] else 1 - utility(text, reference) / 100)
        seen.setdefault(risk.sentence[row], []).append(ids)
    assert sorted(seen) == [0, 1, 2]
    assert all(len(set(ways)) == len(ways) <= 7 for ways in seen.values())
    assert sum(map(len, seen.values())) > 9, "they differ"
    again, others = (source.candidates(batch, seed)[0] for seed in (3, 4))
    np.testing.assert_array_equal(again.tgt_out, rows.tgt_out)
    assert again.tgt_out.shape != others.tgt_out.shape or (again.tgt_out != others.tgt_out).any()


def test_a_batch_stays_within_what_memory_was_planned_for() -> None:
    config = config_of(**RISK)
    batch = make_batch([src for src, _ in PAIRS], [tgt for _, tgt in PAIRS], range(3))
    model = small_models.build(9)
    rows = Methods(config, model, 1, None, Letters()).prepare(batch, 1, 3).batch  # type: ignore[arg-type]
    T, S, B = largest_shape(config, (len(batch.tgt_out), len(batch.src), len(batch)))
    assert len(rows.tgt_out) <= T
    assert (len(rows.src), len(rows)) <= (S, B)
    assert largest_shape(config_of(r_drop=1.0), (3, 4, 5)) == (3, 4, 10)
    assert largest_shape(config_of(), (3, 4, 5)) == (3, 4, 5)


@pytest.mark.parametrize(
    ("name", "value"), [("minimum_risk_metric", "chrf"), ("minimum_risk_alpha", 0.1), ("minimum_risk_likelihood", 0.5)]
)
def test_each_setting_changes_what_is_learned(tmp_path: Path, name: str, value: Any) -> None:
    found = []
    for more in ({}, {name: value}):
        config = config_of(tmp_path, **{**RISK, **more}, updates=2)
        config = config.model_copy(update={"model_dir": str(tmp_path / str(len(found)))})
        Trainer(config).run()
        arrays, *_ = read_checkpoint(Path(config.model_dir) / "last.safetensors")
        found.append({key: array.tobytes() for key, array in arrays.items()})
    assert found[0] != found[1]


def test_edits_are_a_cost() -> None:
    assert sentence_utility("per")("a b c", "a x c d") == pytest.approx(50)
    assert sentence_utility("per")("a b c", "a") == pytest.approx(-100)


def test_an_interruption_changes_no_bit(tmp_path: Path) -> None:
    config = config_of(tmp_path, **RISK, minimum_risk_likelihood=0.1, batch_multiplier=2, tgt_word_dropout=0.1)
    assert check_resume(config, 2).startswith("update 4\t")


def test_learning_from_it_lowers_the_risk(tmp_path: Path) -> None:
    """From a model that has learned a little, on the same 40 pairs."""
    Trainer(config_of(tmp_path, updates=60, epochs=100, early_stopping_patience=None, learning_rate=0.02)).run()
    config = config_of(
        tmp_path,
        **RISK,
        updates=120,
        epochs=100,
        learning_rate=0.02,
        load_model=str(tmp_path / "model"),
        logging_freq=10,
    )
    Trainer(config.model_copy(update={"model_dir": str(tmp_path / "risk")})).run()
    events = [json.loads(line) for line in (tmp_path / "risk" / "metrics.jsonl").read_text().splitlines()]
    losses = [event["loss"] for event in events if event["event"] == "train"]
    assert losses[-1] < 0.9 * losses[0]


def test_what_it_does_not_go_with() -> None:
    class OnGpu:
        class device:  # noqa: N801 - stands for an object
            name, is_cpu = "cuda", False

    with pytest.raises(DeviceError, match=r"training\.minimum_risk: must be 0 on a GPU, got 6 .* use --device cpu"):
        MinimumRisk(config_of(**RISK), OnGpu(), Letters(), 1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="minimum_risk_likelihood must be 0 without minimum_risk, got 1"):
        config_of(minimum_risk_likelihood=1)
    with pytest.raises(ConfigError, match="r_drop must be 0 with minimum_risk, got 2"):
        config_of(minimum_risk=4, r_drop=2)
