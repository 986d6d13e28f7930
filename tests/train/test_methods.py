"""What is done with batches before they are learned from: word dropout, scheduled sampling, R-drop, alignments."""

from typing import Any

import numpy as np
import pytest

from nmt.data.batching.batches import StreamBatches, make_batch
from nmt.data.corpora.readers import TokenRows
from nmt.model.batch_pass import LIKELIHOOD
from nmt.special_tokens import EOS_ID, UNK_ID
from nmt.train.updates.methods import Methods
from tests.settings import settings_with

PAIRS = [(list(range(4, 4 + n)), list(range(5, 25 - n))) for n in range(1, 19)]


def methods(model: Any = None, **training: Any) -> Methods:
    return Methods(settings_with(training=training), model)


def batch() -> Any:
    return make_batch([src for src, _ in PAIRS], [tgt for _, tgt in PAIRS], range(len(PAIRS)))


def test_without_any_a_batch_is_what_it_was() -> None:
    given = batch()
    prepared = methods().prepare(given, 7)
    assert prepared.batch is given
    assert prepared.objective is LIKELIHOOD
    assert prepared.options == {}
    assert (methods().repeats, methods().recounts) == (1, False)


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
    settings = {"guided_alignment": 1.0, "src_word_dropout": 0.9, "r_drop": 1.0}
    config = settings_with({"alignment": "unused"}, training=settings)
    aligned: Any = Aligned()
    found = Methods(config, Any, aligned).prepare(batch(), 7).objective.alignment  # type: ignore[arg-type]
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
    assert prepared.options["objective"].r_drop == 5.0
    segment = StreamBatches(TokenRows.from_lists([[4, 5, 6, 7, 8]]), 2, 2).batch(0, 0)
    np.testing.assert_array_equal(segment.doubled().tgt_in, np.repeat(segment.tgt_in, 2, axis=1))
    assert segment.doubled().num_tgt_tokens == 2 * segment.num_tgt_tokens
