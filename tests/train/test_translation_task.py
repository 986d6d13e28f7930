"""Texts that are held out: of lines without end the beginnings count."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from nmt.config import config_from_dict
from nmt.data.corpora.corpus import Side
from nmt.data.corpora.readers import TokenRows
from nmt.train.tasks.translation_task import TranslationTask
from tests.train import fake_model


def held_out(folder: Any, line: str, **src: Any) -> tuple[TranslationTask, list[str]]:
    """The task with a line more in its dev set, and what it said."""
    settings = fake_model.write_setup(folder)
    settings["data"]["src"] |= src
    config = config_from_dict(settings)
    for lang in (config.data.src.lang, config.data.tgt.lang):
        path = folder / f"dev.{lang}"
        path.write_text(f"{path.read_text()}{line if lang == config.data.src.lang else 'z1'}\n")
    units = SimpleNamespace(encode=lambda lines: [[4] * len(line.split()) for line in lines])
    said: list[str] = []
    task = TranslationTask(config, Side(config.data.src, units), Side(config.data.tgt, units))  # type: ignore[arg-type]
    return task.held_out(said.append), said


def batches(task: TranslationTask) -> list[Any]:
    return task.validator(SimpleNamespace(), 64, 1, lambda: None, SimpleNamespace(rank=0, size=1)).batches  # type: ignore[arg-type, return-value]


def test_a_line_without_end_is_cut_for_the_loss_and_said(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(TranslationTask, "_translator", lambda *args: None)
    task, said = held_out(tmp_path, "w1 " * 10_000)
    (warning,) = [text for text in said if text.startswith("warning: data.dev: 1 of ")]
    assert "have a side of more than 1,000 subwords and are truncated for the loss, line " in warning
    assert max(batch.src.shape[0] for batch in batches(task)) <= 1001
    assert len(task._dev.src_texts[-1].split()) == 10_000  # type: ignore[union-attr]


def test_what_training_allows_is_not_cut(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(TranslationTask, "_translator", lambda *args: None)
    task, said = held_out(tmp_path, "w1 " * 3000, max_length=5000)
    assert not [text for text in said if text.startswith("warning")]
    assert max(batch.src.shape[0] for batch in batches(task)) >= 3000


def test_rows_are_cut_to_their_beginnings() -> None:
    rows = TokenRows.from_lists([[4, 5, 6], [], [7]])
    assert [row.tolist() for row in rows.taken(np.array([2, 0, 1]), 2)] == [[7], [4, 5], []]


def test_some_of_the_validation_pairs_are_at_equal_distances(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(TranslationTask, "_translator", lambda *args: None)
    task, _ = held_out(tmp_path, "w1 w2")
    dev = task._dev
    assert dev is not None and len(dev) > 5
    ranks: Any = SimpleNamespace(rank=0, size=1)
    validator = task.validator(SimpleNamespace(), 64, 1, lambda: None, ranks, 4)  # type: ignore[arg-type]
    places = [0, len(dev) // 4, len(dev) // 2, 3 * len(dev) // 4]
    assert validator.sources == [dev.src_texts[n] for n in places]
    assert validator.references == [dev.references[n] for n in places]
    tokens = sum(int(batch.tgt_lengths.sum()) for batch in validator.batches)
    assert tokens == sum(len(dev.references[n].split()) + 1 for n in places)
    for all_of_them in (0, len(dev), len(dev) + 1):
        whole = task.validator(SimpleNamespace(), 64, 1, lambda: None, ranks, all_of_them)  # type: ignore[arg-type]
        assert whole.sources == dev.src_texts
    assert task.dev_size == (len(dev), sum(len(line.split()) + 1 for line in dev.references))
