"""Texts that are held out: of lines without end the beginnings count."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from nmt.config import config_from_dict
from nmt.data.corpora.corpus import Side
from nmt.data.corpora.rows import TokenRows
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
