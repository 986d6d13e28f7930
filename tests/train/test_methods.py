"""What is done with batches before they are learned from: word dropout, scheduled sampling, R-drop, alignments."""

from typing import Any

import numpy as np
import pytest

from nmt.data.batching.batches import make_batch
from nmt.data.batching.streams import StreamBatches
from nmt.data.corpora.rows import TokenRows
from nmt.model.batch_pass import LIKELIHOOD
from nmt.special_tokens import EOS_ID, UNK_ID
from nmt.train.updates.methods import Methods, largest_shape
from tests.settings import settings_with

PAIRS = [(list(range(4, 4 + n)), list(range(5, 25 - n))) for n in range(1, 19)]


def methods(model: Any = None, **training: Any) -> Methods:
    return Methods(settings_with(training=training), model, 1)


def batch() -> Any:
    return make_batch([src for src, _ in PAIRS], [tgt for _, tgt in PAIRS], range(len(PAIRS)))


def test_without_any_a_batch_is_what_it_was() -> None:
    given = batch()
    prepared = methods().prepare(given, 1, 7)
    assert prepared.batch is given
    assert prepared.objective is LIKELIHOOD
    assert prepared.options == {}
    assert (methods().repeats, methods().recounts) == (1, False)


@pytest.mark.parametrize(("setting", "name"), [("src_word_dropout", "src"), ("tgt_word_dropout", "tgt_in")])
def test_words_become_unknown(setting: str, name: str) -> None:
    given = batch()
    dropped = methods(**{setting: 0.4}).prepare(given, 1, 7).batch
    before, after = getattr(given, name), getattr(dropped, name)
    words = before > EOS_ID
    changed = before != after
    assert not changed[~words].any(), "no special token is touched"
    assert (after[changed] == UNK_ID).all()
    assert changed.sum() / words.sum() == pytest.approx(0.4, abs=0.12)  # of some 180 words: three deviations
    for other in {"src", "tgt_in", "tgt_out"} - {name}:
        assert getattr(dropped, other) is getattr(given, other)
    again, others = (methods(**{setting: 0.4}).prepare(given, 1, seed).batch for seed in (7, 8))
    np.testing.assert_array_equal(getattr(again, name), after)
    assert not np.array_equal(getattr(others, name), after)


class Guesses:
    """Says 100 + t at step t."""

    def predictions(self, batch: Any, threads: int) -> np.ndarray:
        return np.broadcast_to(100 + np.arange(len(batch.tgt_in))[:, None], batch.tgt_in.shape).astype(np.int32)


@pytest.mark.parametrize(("update", "rate"), [(1, 0.05), (5, 0.25), (10, 0.5), (99, 0.5)])
def test_some_words_are_what_the_model_says_after_those_before(update: int, rate: float) -> None:
    given = batch()
    found = methods(Guesses(), scheduled_sampling=0.5, scheduled_sampling_updates=10).prepare(given, update, 3).batch
    words = given.tgt_in > EOS_ID
    drawn = found.tgt_in >= 100
    assert not drawn[~words].any()
    assert drawn.sum() / words.sum() == pytest.approx(rate, abs=0.13)
    steps = np.broadcast_to(np.arange(len(drawn))[:, None], drawn.shape)
    np.testing.assert_array_equal(found.tgt_in[drawn], 99 + steps[drawn])
    np.testing.assert_array_equal(found.tgt_in[~drawn], given.tgt_in[~drawn])
    np.testing.assert_array_equal(found.tgt_out, given.tgt_out)


def test_the_first_word_of_a_segment_stays_since_no_prediction_is_before_it() -> None:
    given = StreamBatches(TokenRows.from_lists([list(range(4, 40))]), 2, 6).batch(0, 1)
    assert (given.tgt_in[0] > EOS_ID).all(), "the segment before it ended within a text"
    settings = {"scheduled_sampling": 1.0, "scheduled_sampling_updates": 1}
    found = methods(Guesses(), **settings).prepare(given, 1, 3).batch
    np.testing.assert_array_equal(found.tgt_in[0], given.tgt_in[0])
    words = given.tgt_in > EOS_ID
    steps = np.broadcast_to(np.arange(len(words))[:, None], words.shape)
    np.testing.assert_array_equal(found.tgt_in[1:], np.where(words, 99 + steps, given.tgt_in)[1:])


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
    found = Methods(config, Any, 1, aligned).prepare(batch(), 1, 7).objective.alignment  # type: ignore[arg-type]
    assert found is not None
    assert sorted(found.row.tolist()) == list(range(2 * len(PAIRS)))
    assert len(found.step) == len(found.share) == len(found.position) == 2 * len(PAIRS)


def test_r_drop_reads_every_pair_twice_side_by_side() -> None:
    given = batch()
    prepared = methods(r_drop=5.0).prepare(given, 1, 3)
    twice = prepared.batch
    for name in ("src", "tgt_in", "tgt_out", "src_lengths", "tgt_lengths", "indices"):
        np.testing.assert_array_equal(getattr(twice, name)[..., ::2], getattr(given, name))
        np.testing.assert_array_equal(getattr(twice, name)[..., 1::2], getattr(given, name))
    assert (twice.num_src_tokens, twice.num_tgt_tokens) == (2 * given.num_src_tokens, 2 * given.num_tgt_tokens)
    assert prepared.options["objective"].r_drop == 5.0
    segment = StreamBatches(TokenRows.from_lists([[4, 5, 6, 7, 8]]), 2, 2).batch(0, 0)
    np.testing.assert_array_equal(segment.doubled().tgt_in, np.repeat(segment.tgt_in, 2, axis=1))
    assert segment.doubled().num_tgt_tokens == 2 * segment.num_tgt_tokens


def test_the_largest_batch_has_room_for_every_candidate() -> None:
    """Each source has the reference and the sampled translations, the longest of which end with EOS."""
    limits = {"max_length_ratio": 1.5, "max_length_extra": 4}
    shapes = {}
    for name, training in {"plain": {}, "r_drop": {"r_drop": 1.0}, "risk": {"minimum_risk": 3}}.items():
        config = settings_with(training=training, decoding=limits)
        shapes[name] = [largest_shape(config, shape) for shape in ((9, 7, 5), (99, 7, 5))]
    assert shapes["plain"] == [(9, 7, 5), (99, 7, 5)]
    assert shapes["r_drop"] == [(9, 7, 10), (99, 7, 10)]
    assert shapes["risk"] == [(10 + 4 + 1, 7, 20), (99, 7, 20)]
