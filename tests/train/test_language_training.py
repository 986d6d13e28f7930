"""task: lm from settings to a folder that scores; resumed runs, plans and mistakes."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from nmt import LanguageScorer
from nmt.cli.commands.score import score
from nmt.config import config_from_dict
from nmt.errors import ConfigError
from nmt.storage.model_folder import read_checkpoint
from nmt.storage.saved_model import load_saved_model, save_bundle, save_quantised
from nmt.train.planning.dry_run import DryRun, cost_report
from nmt.train.run.trainer import Trainer


@pytest.fixture(autouse=True)
def fake() -> None:
    """In the place of the one that puts the fake model into the real one's place."""


def settings(folder: Path, name: str = "model", **training: Any) -> dict[str, Any]:
    """A character model of small numbers counted up: after `3 4` comes `5`."""
    rng = np.random.default_rng(5)
    for part, count in (("train", 120), ("dev", 12), ("test", 7)):
        lines = [" ".join(str((start + n) % 10) for n in range(4)) for start in rng.integers(0, 10, count)]
        (folder / f"{part}.en").write_text("\n".join([*lines, ""]) + "\n", encoding="utf-8")
    return {
        "task": "lm",
        "model_dir": str(folder / name),
        "threads": 1,
        "data": {
            **{part: str(folder / part) for part in ("train", "dev", "test")},
            "tgt": {"lang": "en"},
            "subwords": {"type": "word", "vocab_size": 40},
        },
        "model": {"decoder": {"hidden_size": 16, "num_layers": 2, "dropout": 0.1, "embeddings": {"embedding_dim": 8}}},
        "training": {"learning_rate": 0.02, "batch_type": "sentence", "batch_size": 5, "bptt": 7, "metric": "ppl"}
        | {"validation_freq": 20, "logging_freq": 10, "updates": 150, **training},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model and its texts."""
    folder = tmp_path_factory.mktemp("lm")
    result = Trainer(config_from_dict(settings(folder))).run()
    assert "150 updates" in result.reason
    assert result.best_scores["ppl"] < 2, "the next number is certain, the first of a line is one of ten"
    assert set(result.test_scores) == {"ppl"} and result.test_scores["ppl"].signature.endswith("|streams:1")
    return folder


def params(path: Path) -> dict[str, np.ndarray]:
    return read_checkpoint(path / "last.safetensors")[0]


def test_a_resumed_run_is_the_run(folder: Path, tmp_path: Path) -> None:
    """Stopped within an epoch: the states of the text are saved with the rest."""
    given = settings(tmp_path)
    given["training"] |= {"updates": 31, "validation_freq": 1000}
    whole = Trainer(config_from_dict({**given, "model_dir": str(tmp_path / "whole")})).run()
    Trainer(config_from_dict({**given, "training": {**given["training"], "updates": 17}})).run()
    carried = [name for name in params(tmp_path / "model") if name.startswith("carried/")]
    assert sorted(carried) == ["carried/0.c", "carried/0.h", "carried/1.c", "carried/1.h"]
    again = Trainer(config_from_dict(given)).run()
    assert again.best_scores == whole.best_scores
    ours, theirs = params(tmp_path / "model"), params(tmp_path / "whole")
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array, err_msg=name)
    assert "starts again" not in (tmp_path / "model" / "train.log").read_text()
    shorter = {**given, "training": {**given["training"], "bptt": 6, "updates": 32}}
    Trainer(config_from_dict(shorter)).run()
    assert "starts again" in (tmp_path / "model" / "train.log").read_text()


@pytest.mark.parametrize("carry", [True, False])
def test_scores_are_probabilities_in_order(folder: Path, carry: bool) -> None:
    scorer = LanguageScorer.load(folder / "model")
    lines = ["3 4 5 6", "", "1 2 3 4", "9 8", " 7  8 9 0 "]
    scored = list(scorer.score(iter(lines), carry=carry))
    assert [len(line.tokens) for line in scored] == [5, 0, 5, 3, 5]
    assert [line.characters for line in scored] == [8, 0, 8, 4, 8]
    assert scored[0].tokens[-1] == "</s>"
    assert sum(scored[2].log_probs) > sum(scored[3].log_probs), "downwards was never seen"
    alone = [next(iter(scorer.score([line]))) for line in lines]
    same = [np.allclose(a.log_probs, b.log_probs, rtol=1e-5) for a, b in zip(scored, alone, strict=True)]
    assert same[:2] == [True, True] and all(same) is (not carry)


def test_the_test_score_is_that_of_nmt_score(folder: Path) -> None:
    events = map(json.loads, (folder / "model" / "metrics.jsonl").read_text().splitlines())
    told = next(event["ppl"] for event in events if event["event"] == "test")
    result = CliRunner().invoke(score, [str(folder / "model"), "--tgt", str(folder / "test.en")])
    assert result.exit_code == 0, result.output
    assert float(result.stderr.split()[1]) == pytest.approx(told, rel=1e-3)
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[0] for row in rows] == [str(n) for n in range(8)], "a line for each, the blank one too"
    total, count = sum(float(row[1]) for row in rows), sum(int(row[2]) for row in rows)
    assert math.exp(-total / count) == pytest.approx(told, rel=1e-3)
    assert "bits for each of" in result.stderr


def test_a_plan_is_of_streams(tmp_path: Path) -> None:
    tried = DryRun(config_from_dict(settings(tmp_path)), 1, lambda text: None)
    page = cost_report(tried)
    assert "5 streams of 7 steps" in page and "source tokens/s" not in page
    assert not (tmp_path / "model").exists()


def test_a_bundle_and_a_folder_in_int8_do_what_the_folder_does(folder: Path, tmp_path: Path) -> None:
    saved = load_saved_model(folder / "model")
    save_bundle(tmp_path / "counting.nmt", saved)
    save_quantised(tmp_path / "int8", saved)
    whole = LanguageScorer.load(folder / "model")
    lines = ["3 4 5 6", "9 8"]
    small, rounded = LanguageScorer.load(tmp_path / "int8"), LanguageScorer.load(folder / "model", compute_dtype="int8")
    assert list(LanguageScorer.load(tmp_path / "counting.nmt").score(lines)) == list(whole.score(lines))
    assert list(small.score(lines)) == list(rounded.score(lines))
    exact, near = ([line.log_probs for line in one.score(lines)] for one in (whole, small))
    for one, other in zip(exact, near, strict=True):
        np.testing.assert_allclose(other, one, atol=0.5)
    assert exact != near


def test_sizes_of_an_encoder_that_is_not_there_are_not_looked_at(tmp_path: Path) -> None:
    """Its default size is more than the numbers of a very small language model."""
    given = settings(tmp_path, updates=1)
    given["model"] = {"decoder": {"hidden_size": 1, "embeddings": {"embedding_dim": 1}}}
    Trainer(config_from_dict(given)).run()
    assert LanguageScorer.load(tmp_path / "model").model.num_params < 256


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("training.metric", "bleu", "must be ppl or loss with task: lm, got bleu"),
        ("model.tied_embeddings", "all", "must be none or softmax with task: lm, got all"),
        ("data.subwords.joint", False, "must be true with task: lm, got false"),
        ("model.decoder", {"type": "conv"}, "model.decoder.type must be recurrent with task: lm, got conv"),
        ("model.decoder", {"readout": "deep"}, "must be left at its default, tanh, with task: lm, got deep"),
        ("task", "translation", "data.src must be given"),
    ],
)
def test_settings_that_do_not_go_with_the_task(tmp_path: Path, key: str, value: Any, message: str) -> None:
    values = settings(tmp_path)
    section = values
    *above, last = key.split(".")
    for part in above:
        section = section[part]
    section[last] = value
    if value == "all":
        values["model"]["decoder"] |= {"embeddings": {"embedding_dim": 16}}
        values["model"]["encoder"] = {"embeddings": {"embedding_dim": 16}}
    with pytest.raises(ConfigError, match=message):
        config_from_dict(values)
