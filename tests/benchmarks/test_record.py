"""The record: its time is that of all stages, whatever was interrupted."""

import json
import subprocess
import sys

import pytest

EVENTS = [
    {"event": "start", "time": 1010.0},
    {"event": "train", "time": 1100.0},
    {"event": "start", "time": 5000.0},  # the run was interrupted and resumed much later
    {"event": "end", "time": 5300.0, "elapsed": 360.0},
    {"event": "test", "time": 5320.0, "bleu": 40.5, "signatures": {"bleu": "tok:13a"}},
]


def test_minutes_are_of_training_and_scoring():
    from record import figures_of

    assert figures_of(EVENTS) == (pytest.approx(380 / 60), 40.5, "tok:13a")
    assert figures_of(EVENTS[:-1]) is None


def test_an_unfinished_line_of_the_log_is_left_out(tmp_path):
    from record import events_of

    assert events_of(tmp_path) == []
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in EVENTS) + '{"event": "tr')
    assert events_of(tmp_path) == EVENTS


def test_a_row_belongs_to_a_commit(tmp_path):
    from record import Figures, commit_of, row_of

    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "file").write_text("one")
    for words in (["init", "-q"], ["add", "file"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    commit = commit_of(tmp_path)
    assert f" | {commit} | 7.0 | 40.50 | a=1 | " in row_of(Figures(7.0, 40.5, ""), commit, ["a=1"])
    assert row_of(Figures(7.0, 40.5, "case:lc|tok:13a"), commit, []).endswith(r" | case:lc\|tok:13a |")
    (tmp_path / "file").write_text("two")
    with pytest.raises(SystemExit, match="without changes"):
        commit_of(tmp_path)


def test_the_code_of_a_command_that_fails_is_passed_on(tmp_path, monkeypatch):
    import record

    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(SystemExit, match="1"):
        record.train(tmp_path / "config.yaml", tmp_path, [])
