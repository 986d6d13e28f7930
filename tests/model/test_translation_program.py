"""A translation as one program: the bits of the search for any threads; nothing prepared is stale, or too much."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import nmt.exporting as exporting
from nmt.decode import search
from nmt.decode.rules.selectors import sample_keys
from nmt.model import translation_program
from nmt.rnn import tuning
from nmt.rnn.kernels.search import ruled_tokens
from tests.refusals import refused
from tests.small_models import build

V = 11
GRU = {"rnn_type": "gru", "num_layers": 2, "residual": True}
KINDS = {
    "lstm": {},
    "mean": {"decoder": {"init_from": "mean"}},
    "gru, residual, tied": {"encoder": GRU, "decoder": {**GRU, "conditional": True}},
    "lexical": {"decoder": {"lexical": True}},
    "last states": {"encoder": {"num_layers": 2}, "decoder": {"num_layers": 2, "init_hidden": "last"}},
    "no product of the state": {"decoder": {"rnn_type": "ssru", "input_feeding": False}},
    "no product and no attention": {"decoder": {"rnn_type": "sru", "attention": "none"}},
    "both boundaries": {"encoder": {"boundaries": "bos_eos"}},
    "convolutions": {"encoder": {"type": "conv", "kernel_size": 3, "num_layers": 2, "hidden_size": 4}},
    "mean of convolutions": {
        "encoder": {"type": "conv", "kernel_size": 5, "hidden_size": 4, "max_positions": 4},
        "decoder": {"init_from": "mean"},
    },
    "factors": {"encoder": {"factors": [3, 2]}, "decoder": {"lexical": True}, "factor_sizes": [2, 3]},
    "one direction": {"encoder": {"bidirectional": False, "rnn_type": "gru"}, "decoder": {"init_hidden": "zero"}},
}
SOURCES = [[5, 6, 7], [8, 4], [9], [4, 4, 4, 4, 10, 5], [7, 6, 5]]


@pytest.mark.parametrize("compute_dtype", [None, "bfloat16", "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_sentences_of_one_length_have_the_bits_they_have_in_a_batch(kind, compute_dtype, monkeypatch):
    monkeypatch.setattr(tuning, "ALONE_BELOW", 1)
    monkeypatch.setattr(tuning, "ALONE_A_STEP", 1)
    model = build(V, compute_dtype=compute_dtype, **KINDS[kind])
    sources = SOURCES
    if "factors" in kind:
        sources = [[token + V * (n % 6) for n, token in enumerate(ids)] for ids in SOURCES]
    src, lengths = model.pad_sources(sources)
    whole = model.encode(src, lengths, 2)
    alone = [[model.encode(src[:S, b : b + 1], lengths[b : b + 1], n) for n in (2, 1)] for b, S in enumerate(lengths)]
    for b, found in enumerate(alone):  # later sentences have not changed what earlier ones became
        for one in found:
            np.testing.assert_array_equal(one.memory[:, 0], whole.memory[: lengths[b], b])
            assert all(np.array_equal(state[0], whole.states[name][b]) for name, state in one.states.items())
    model._programs.clear()
    for beam_size in (1, 4):
        together = search(model, sources, beam_size=beam_size, n_best=beam_size, threads=1)
        assert not model._programs
        for threads in (1, 2, 3):
            for ids, expected in zip(sources, together, strict=True):
                assert search(model, [ids], beam_size=beam_size, n_best=beam_size, threads=threads) == [expected]
            pair = search(model, [sources[0], sources[4]], beam_size=beam_size, n_best=beam_size, threads=threads)
            assert pair == [together[0], together[4]]
        assert model._programs.keys() == {1, 2, 3}
        model._programs.clear()


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": np.float64},
        {"decoder": {"type": "conv", "kernel_size": 3, "hidden_size": 4}},
        {"decoder": {"rnn_type": "mlstm", "attention": "none"}},
        {"decoder": {"copy_source": True}},
    ],
    ids=str,
)
def test_other_models_are_searched_as_before(changes):
    model = build(V, **changes)
    together = search(model, SOURCES, beam_size=2)
    assert [search(model, [ids], beam_size=2)[0] for ids in SOURCES] == together
    assert not model._programs


@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 64, 65, 100])
def test_keys_of_samples_are_those_of_python(size):
    ids = np.arange(3, 3 + 7 * size, 7, dtype=np.int32)
    keys = np.zeros(2, np.uint64)
    ruled_tokens.sample_keys(keys, np.array([size, 1]), np.append(ids, np.int32(4)), 12345678901234)
    assert keys.tolist() == sample_keys([ids.tolist(), [4]], 12345678901234).tolist()


def test_a_sentence_alone_takes_few_calls_of_python():
    model, calls = build(V), []
    for _ in range(3):
        search(model, [[5, 6, 7]], beam_size=3, threads=1)
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_qualname) if event == "call" else None)
    search(model, [[5, 6, 7]], beam_size=3, threads=1)
    sys.setprofile(before)
    assert 10 < len(calls) < 70, calls


def test_much_memory_is_not_kept(monkeypatch):
    model = build(V)
    first = search(model, [[5, 6, 7]], beam_size=3, threads=1)
    (run,) = model._programs[1][1].kept
    assert len(run._memory) > 0
    monkeypatch.setattr(tuning, "KEPT_SOURCE_BYTES", 100)
    for _ in range(2):
        assert search(model, [[5, 6, 7]], beam_size=3, threads=1) == first
        assert len(run._memory) == 0


def test_a_lack_of_memory_is_an_error_after_which_sentences_are_translated(monkeypatch):
    model = build(V)
    expected = search(model, [[5, 6, 7]], beam_size=3, threads=1)

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as failing:
        failing.setattr(translation_program, "aligned", fail)
        refused(MemoryError, "", search, model, [[5] * 60], beam_size=5, threads=1)
    assert search(model, [[5, 6, 7]], beam_size=3, threads=1) == expected


def test_no_host_names_a_part_of_a_model():
    """What is no cell is written once, in the program: see docs/extending.md."""
    for folder in ("c", "web"):
        for path in (Path(exporting.__file__).parent / folder).iterdir():
            text = path.read_text("utf-8") if path.suffix in (".c", ".h", ".js", ".py") else ""
            assert not re.search(
                r"\b(lexical|residual|convolution\w*|positions|bridge|routes|of_mean|layers|directions)\b", text
            ), path


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
