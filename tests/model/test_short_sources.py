"""Few short sources are encoded by runs that were prepared once a length: the same bits, and never stale."""

import numpy as np
import pytest

from nmt.decode import search
from tests.small_models import build

V = 11
KINDS = {
    "bidirectional lstm": {},
    "one direction": {"encoder": {"bidirectional": False, "rnn_type": "gru"}, "decoder": {"init_hidden": "zero"}},
    "two layers": {"encoder": {"num_layers": 2}, "decoder": {"num_layers": 2}},
    "mean": {"decoder": {"init_from": "mean"}},
    "residual": {"encoder": {"num_layers": 2, "residual": True}},
}


def encoded(model, ids, threads):
    source = model.encode(np.array(ids, np.int32)[:, None], np.array([len(ids)]), threads)
    return {"memory": source.memory[:, 0], **{name: state[0] for name, state in source.states.items()}}


@pytest.mark.parametrize("compute_dtype", [None, "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_alone_has_the_bits_it_has_in_a_batch(kind, compute_dtype):
    model = build(V, compute_dtype=compute_dtype, dtype=np.float32, **KINDS[kind])
    rng = np.random.default_rng(2)
    lengths = np.array([9, 4, 7, 4])
    src = rng.integers(4, V, (9, 4)).astype(np.int32)
    whole = model.encode(src, lengths, 2)
    for threads in (2, 1, 2):
        for b, length in enumerate(lengths):
            alone = encoded(model, src[:length, b], threads)
            np.testing.assert_array_equal(alone.pop("memory"), whole.memory[:length, b])
            for name, state in alone.items():
                np.testing.assert_array_equal(state, whole.states[name][b])


def test_later_sentences_do_not_change_what_earlier_ones_became():
    model = build(V)
    first = encoded(model, [5, 6, 7], 1)
    kept = {name: array.copy() for name, array in first.items()}
    encoded(model, [8, 9, 4], 1)
    for name, array in kept.items():
        np.testing.assert_array_equal(first[name], array)


def test_nothing_prepared_outlives_its_parameters():
    """Encoding and searching after a change of parameters, in place or by other arrays, is that of a new model."""
    model, other = build(V, seed=1), build(V, seed=2)
    sources = [[5, 6, 7], [8, 4]]
    for ids in sources:
        search(model, [ids], threads=2)
    for name, array in other.params.items():
        model.params[name][...] = array
    model.changed()
    assert [search(model, [ids], threads=2) for ids in sources] == [search(other, [ids], threads=2) for ids in sources]
    third = build(V, seed=3)
    for name, array in third.params.items():
        model.weights[name] = array.copy()
    assert [search(model, [ids], threads=2) for ids in sources] == [search(third, [ids], threads=2) for ids in sources]


def test_searches_one_after_another_are_as_the_first():
    """Their steppers serve the next one, also after a search that failed."""
    model = build(V, seed=4)
    rng = np.random.default_rng(0)
    sources = [rng.integers(4, V, 1 + n % 7).tolist() for n in range(40)]
    together = search(model, sources, beam_size=3, threads=2)

    def stop(count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(model, sources[:3], beam_size=3, threads=2, on_ended=stop)
    for ids, expected in zip(sources, together, strict=True):
        assert search(model, [ids], beam_size=3, threads=2) == [expected]
