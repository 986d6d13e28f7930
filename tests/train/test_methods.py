"""What is done with batches before they are learned from: word dropout, scheduled sampling, R-drop, alignments."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nmt.config import config_from_dict
from nmt.data.batching.batches import make_batch
from nmt.data.corpora.corpus import Side
from nmt.data.corpora.readers import TokenRows
from nmt.model.batch_pass import LIKELIHOOD
from nmt.special_tokens import EOS_ID, UNK_ID
from nmt.train.tasks import task as task_module
from nmt.train.tasks.task import Task
from nmt.train.tasks.validation import is_better
from nmt.train.updates.update import Methods
from tests.settings import settings_with
from tests.train import fake_model

PAIRS = [(list(range(4, 4 + n)), list(range(5, 25 - n))) for n in range(1, 19)]


MODEL: Any = SimpleNamespace(factors=None)


def methods(**training: Any) -> Methods:
    return Methods(settings_with(training=training), MODEL)


def batch() -> Any:
    return make_batch([src for src, _ in PAIRS], [tgt for _, tgt in PAIRS], range(len(PAIRS)))


def test_without_any_a_batch_is_what_it_was() -> None:
    given = batch()
    prepared = methods().prepare(given, 7)
    assert prepared.batch is given
    assert prepared.objective is LIKELIHOOD
    assert methods().repeats == 1


@pytest.mark.parametrize(("setting", "name"), [("src_word_dropout", "src"), ("tgt_word_dropout", "tgt_in")])
def test_words_become_unknown(setting: str, name: str) -> None:
    given = batch()
    dropped = methods(**{setting: 0.4}).prepare(given, 7).batch
    before, after = getattr(given, name), getattr(dropped, name)
    words = before > EOS_ID
    changed = before != after
    assert not changed[~words].any(), "no special token is touched"
    assert (after[changed] == UNK_ID).all()
    assert changed.sum() / words.sum() == pytest.approx(0.4, abs=0.12)  # of some 180 words: three deviations
    for other in {"src", "tgt_in", "tgt_out"} - {name}:
        assert getattr(dropped, other) is getattr(given, other)
    again, others = (methods(**{setting: 0.4}).prepare(given, seed).batch for seed in (7, 8))
    np.testing.assert_array_equal(getattr(again, name), after)
    assert not np.array_equal(getattr(others, name), after)


class Aligned:
    """Aligns the first token of each row with its first source token, if both are words."""

    def of_batch(self, src: Any, src_lengths: Any, tgt_out: Any, tgt_lengths: Any, lines: Any) -> Any:
        assert (src[0] > EOS_ID).all(), "words as they are"
        assert (
            (src.shape[1:], tgt_out.shape[1:]) == (src_lengths.shape, tgt_lengths.shape) == (lines.shape, lines.shape)
        )
        assert src_lengths.max() == len(src) and tgt_lengths.max() == len(tgt_out)
        count = len(lines)
        return np.zeros(count, np.int64), np.arange(count), np.zeros(count, np.int64), np.ones(count)


def test_alignments_are_of_words_before_they_are_dropped_and_of_both_passes() -> None:
    config = settings_with(training={"guided_alignment": 1.0, "src_word_dropout": 0.9, "r_drop": 1.0})
    aligned: Any = Aligned()
    found = Methods(config, MODEL, aligned).prepare(batch(), 7).objective.alignment
    assert found is not None
    assert sorted(found.row.tolist()) == list(range(2 * len(PAIRS)))
    assert len(found.step) == len(found.share) == len(found.position) == 2 * len(PAIRS)


def test_r_drop_reads_every_pair_twice_side_by_side() -> None:
    given = batch()
    prepared = methods(r_drop=5.0).prepare(given, 3)
    twice = prepared.batch
    for name in ("src", "tgt_in", "tgt_out", "src_lengths", "tgt_lengths", "indices"):
        np.testing.assert_array_equal(getattr(twice, name)[..., ::2], getattr(given, name))
        np.testing.assert_array_equal(getattr(twice, name)[..., 1::2], getattr(given, name))
    assert (twice.num_src_tokens, twice.num_tgt_tokens) == (2 * given.num_src_tokens, 2 * given.num_tgt_tokens)
    assert prepared.objective.r_drop == 5.0


def held_out(folder: Any, line: str, **src: Any) -> tuple[Task, list[str]]:
    """The task with a line more in its dev set, and what it said."""
    settings = fake_model.write_setup(folder)
    settings["data"]["src"] |= src
    config = config_from_dict(settings)
    for lang in (config.data.src.lang, config.data.tgt.lang):
        path = folder / f"dev.{lang}"
        path.write_text(f"{path.read_text()}{line if lang == config.data.src.lang else 'z1'}\n")
    units = SimpleNamespace(encode=lambda lines: [[4] * len(line.split()) for line in lines])
    said: list[str] = []
    return Task(config, Side(config.data.src, units), Side(config.data.tgt, units)).held_out(said.append), said


@pytest.fixture
def without_translator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "Translator", lambda *args: None)


def batches(task: Task) -> list[Any]:
    return task.validator(SimpleNamespace(), 64, 1, lambda: None, SimpleNamespace(rank=0, size=1)).batches  # type: ignore[arg-type, return-value]


def test_a_line_without_end_is_cut_for_the_loss_and_said(tmp_path: Any, without_translator: None) -> None:
    task, said = held_out(tmp_path, "w1 " * 10_000)
    (warning,) = [text for text in said if text.startswith("warning: data.dev: 1 of ")]
    assert "have a side of more than 1,000 subwords and are truncated for the loss, line " in warning
    assert max(batch.src.shape[0] for batch in batches(task)) <= 1001
    assert len(task._dev.src_texts[-1].split()) == 10_000  # type: ignore[union-attr]


def test_what_training_allows_is_not_cut(tmp_path: Any, without_translator: None) -> None:
    task, said = held_out(tmp_path, "w1 " * 3000, max_length=5000)
    assert not [text for text in said if text.startswith("warning")]
    assert max(batch.src.shape[0] for batch in batches(task)) >= 3000


def test_rows_are_cut_to_their_beginnings() -> None:
    rows = TokenRows.from_lists([[4, 5, 6], [], [7]])
    assert [row.tolist() for row in rows.taken(np.array([2, 0, 1]), 2)] == [[7], [4, 5], []]


def test_some_of_the_validation_pairs_are_at_equal_distances(tmp_path: Any, without_translator: None) -> None:
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


@pytest.mark.parametrize(
    ("metric", "score", "best", "want"),
    [
        ("bleu", (30.1, 1.0), (30.0, 1.0), True),
        ("bleu", (29.9, 1.0), (30.0, 1.0), False),
        ("chrf", (30.1, 1.0), (30.0, 1.0), True),
        ("ppl", (4.0, 1.0), (5.0, 1.0), True),
        ("ppl", (6.0, 1.0), (5.0, 1.0), False),
        ("loss", (9.0, math.nan), (9.0, 5.0), False),
        ("loss", (9.0, math.inf), (9.0, 5.0), False),
        ("bleu", (100.0, 0.1), (100.0, 0.2), True),  # equal scores are ranked by loss
        ("bleu", (100.0, 0.2), (100.0, 0.2), False),
        ("bleu", (0.1, 6.1), (0.9, 6.2), True),  # noise: the lower loss counts
        ("bleu", (0.9, 6.3), (0.1, 6.2), False),
        ("bleu", (1.1, 6.3), (0.9, 6.2), True),
        ("bleu", (0.9, 6.1), (1.1, 6.2), False),
        ("chrf", (0.9, 6.3), (0.1, 6.2), True),
    ],
)
def test_is_better(metric: str, score: tuple[float, float], best: tuple[float, float], want: bool) -> None:
    """Each has a score and a loss."""
    one, other = ({metric: value, "loss": loss} for value, loss in (score, best))
    assert is_better(metric, one, other) is want


def test_the_first_is_best_unless_it_is_no_number() -> None:
    assert is_better("loss", {"loss": 9.0}, {})
    assert not is_better("bleu", {"bleu": math.nan, "loss": math.nan}, {})
