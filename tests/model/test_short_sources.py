"""What a model keeps between searches is never stale, and not too much."""

import numpy as np
import pytest

from nmt.decode import search
from nmt.rnn import tuning
from tests.small_models import build

V = 11


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


def test_blocks_that_are_admitted_later_use_the_same_memory_and_change_nothing(monkeypatch):
    model = build(V)
    decoder = model.search_decoder(1)
    blocks = [[[5 + n, 6, 7] for n in range(3)] * 60, [[8, 9]] * 200]
    _, states, _ = decoder.admit(blocks[0])
    kept, taken = {name: array.copy() for name, array in states.items()}, decoder._sources_memory.nbytes
    decoder.admit(blocks[1])
    assert states.keys() == kept.keys() and all(np.array_equal(states[name], kept[name]) for name in states)
    assert 0 < decoder._sources_memory.nbytes < 2 * taken
    monkeypatch.setattr(tuning, "KEPT_SOURCE_BYTES", taken // 2)
    decoder.admit(blocks[0])
    assert decoder._sources_memory.nbytes == 0


def test_the_decoder_that_records_attention_is_made_once():
    model = build(V)
    (first,), (attention,) = model.forced_log_probs([[5, 6, 7]], [[8, 9]], attention=True, threads=1)
    probes = dict(model._probes)
    (again,), (same,) = model.forced_log_probs([[5, 6, 7]], [[8, 9]], attention=True, threads=1)
    assert len(probes) == 1 and model._probes == probes
    assert np.array_equal(first, again) and np.array_equal(attention, same)
