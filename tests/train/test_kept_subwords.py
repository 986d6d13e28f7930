"""Subwords that lie beside an index: made once for a text and its settings, and found by the next run."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt.config import Config, config_from_dict
from nmt.errors import CheckpointError
from nmt.train.log.progress import TrainingLog
from nmt.train.tasks import data_check
from nmt.train.tasks.data_check import check_before_training
from nmt.train.tasks.kept_subwords import kept_subwords
from nmt.train.tasks.prepare import sides_of_dry_run, sides_of_run
from nmt.train.tasks.translation_task import indexing_of
from tests.data.corpora import sentences, write_pair

Made = Callable[..., Config]


@pytest.fixture
def config(tmp_path: Path) -> Made:
    """Gives settings, with changes of the section `data`."""
    text = write_pair(tmp_path, sentences(300, seed=1), sentences(300, seed=2))
    held_out = write_pair(tmp_path, sentences(20, seed=3), sentences(20, seed=4), "dev")

    def made(**changes: Any) -> Config:
        data = {
            "train": text,
            "dev": held_out,
            "src": {"lang": "de"},
            "tgt": {"lang": "en"},
            "subwords": {"vocab_size": 45},
            "index": str(tmp_path / "index"),
            **changes,
        }
        return config_from_dict({"name": "x", "model_dir": str(tmp_path / "run"), "data": data})

    return made


def said_by(config: Config, folder: Path) -> list[str]:
    """What a run's start says, with its model folder new."""
    said: list[str] = []
    folder.mkdir()
    sides_of_run(config, folder, said.append, lambda text: None)
    return said


def test_the_next_run_on_a_text_does_not_read_it(config: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said_by(config(), tmp_path / "first")[0] == "subwords: reading the training text"
    monkeypatch.setattr("nmt.data.corpora.prepare.load_sides", None)
    (said,) = said_by(config(), tmp_path / "second")
    assert said.startswith(f"subwords: those of {tmp_path / 'index' / 'subwords-'}")
    first, second = ((tmp_path / name / "joint.spm").read_bytes() for name in ("first", "second"))
    assert first == second
    src, tgt = sides_of_dry_run(config(), lambda text: None)
    assert src.subwords.model_bytes == tgt.subwords.model_bytes == first


@pytest.mark.parametrize(
    "changes",
    [
        {"subwords": {"vocab_size": 44}},
        {"subwords": {"vocab_size": 45, "joint": False}},
        {"src": {"lang": "de", "lowercase": True}},
        {"filter": {"max_length_ratio": 3.0}},
    ],
    ids=str,
)
def test_other_settings_have_subwords_of_their_own(config: Made, tmp_path: Path, changes: dict[str, Any]) -> None:
    said_by(config(), tmp_path / "first")
    assert "subwords: reading the training text" in said_by(config(**changes), tmp_path / "second")


def test_another_text_has_subwords_of_its_own(config: Made, tmp_path: Path) -> None:
    said_by(config(), tmp_path / "first")
    with (tmp_path / "train.de").open("a") as file:
        file.write("und noch ein Satz\n")
    assert "subwords: reading the training text" in said_by(config(), tmp_path / "second")


def test_a_text_that_was_looked_at_is_not_looked_at_again(
    config: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_check, "_PAIRS_OF_INDEXED", 50)
    said = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        terminal = io.StringIO()
        log = TrainingLog(None, terminal)
        check_before_training(config(), tmp_path / name, log)
        indexing = indexing_of(config(), *sides_of_run(config(), tmp_path / name, log.line, log.live))
        assert indexing is not None
        indexing.make(log.live, log.line)
        said.append(terminal.getvalue())
    assert "looked at 300 of" in said[0]
    assert "looked at 50 of" in said[1]


def test_separate_subwords_come_back_each(config: Made, tmp_path: Path) -> None:
    separate = config(subwords={"vocab_size": 45, "joint": False})
    said_by(separate, tmp_path / "first")
    said_by(separate, tmp_path / "second")
    for name in ("src.spm", "tgt.spm"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_a_dry_run_keeps_nothing(config: Made, tmp_path: Path) -> None:
    sides_of_dry_run(config(), lambda text: None)
    assert not (tmp_path / "index").exists()


def test_without_an_index_nothing_is_kept(config: Made, tmp_path: Path) -> None:
    assert kept_subwords(config(index=None)) is None
    said_by(config(), tmp_path / "first")
    file = str(tmp_path / "first" / "joint.spm")
    assert kept_subwords(config(subwords={"vocab_size": 45, "model_file": file})) is None


def test_damaged_ones_are_told_in_a_line_that_names_them(config: Made, tmp_path: Path) -> None:
    said_by(config(), tmp_path / "first")
    (kept,) = (tmp_path / "index").glob("subwords-*")
    (kept / "joint.spm").write_bytes(b"no model")
    with pytest.raises(CheckpointError) as caught:
        said_by(config(), tmp_path / "second")
    assert str(kept) in str(caught.value)
    assert "\n" not in str(caught.value)
