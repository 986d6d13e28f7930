"""The plain search as one computation finds, bit by bit, what it finds step by step."""

import importlib

import numpy as np
import pytest

from nmt.decode import Ensemble, SearchOptions, search
from nmt.model.decoders import ModelDecoder
from nmt.model.language import LanguageModel
from nmt.rnn import tuning
from nmt.rnn.kernels.search import candidates
from nmt.rnn.profile import recording
from tests import small_models
from tests.decode.test_shortlist import SOME, VOCAB

module = importlib.import_module("nmt.decode.search")  # `nmt.decode.search` is the function
MODELS = {
    "lstm, feeding": {},
    "gru, two layers, dot": {
        "decoder": {"rnn_type": "gru", "num_layers": 2, "attention": "dot", "input_feeding": False}
    },
    "tied": {"decoder": {"embeddings": {"embedding_dim": 6}}, "tied": "softmax"},
    "matrix states": {
        "encoder": {"rnn_type": "gla"},
        "decoder": {"rnn_type": "gated_delta_net", "num_layers": 2, "residual": True},
    },
}
SOURCES = [[4 + (7 * n + k * n) % (VOCAB - 4) for k in range(1 + n * 5 % 11)] for n in range(23)]


@pytest.fixture(scope="module", params=list(MODELS))
def model(request):
    return small_models.build(VOCAB, scale=0.7, **MODELS[request.param])


def step_by_step(monkeypatch, *args, **kwargs):
    with monkeypatch.context() as patch:
        patch.setattr(type(args[0]), "loop_obstacle", "a test wants steps")
        return search(*args, **kwargs)


CASES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "n_best": 4, "length_penalty": 0.7},
    "one at a time": {"beam_size": 3, "batch_size": 1, "length_penalty": "none"},
    "few at a time": {"beam_size": 5, "batch_size": 3, "n_best": 2, "length_penalty": "average"},
    "two threads": {"beam_size": 3, "batch_size": 16, "threads": 2},
    "two threads together": {"beam_size": 3, "batch_size": 2, "threads": 2},
    "a beam wider than the vocabulary": {"beam_size": VOCAB + 3, "n_best": 9},
    "longer than memory at first": {"beam_size": 2, "max_length_extra": 300, "length_penalty": 3.0, "threads": 1},
    "none may say anything": {"beam_size": 2, "max_length_ratio": 0.0, "max_length_extra": 0},
    "word penalty": {"beam_size": 4, "n_best": 3, "options": SearchOptions(word_reward=-0.3)},
    "shortlist": {"beam_size": 3, "n_best": 2, "batch_size": 4, "options": SearchOptions(shortlist=SOME)},
}


@pytest.mark.parametrize("case", list(CASES))
def test_what_is_found_step_by_step_is_found(case, model, monkeypatch):
    settings = {"threads": 1} | CASES[case]
    found = search(model, SOURCES, **settings)
    assert found == step_by_step(monkeypatch, model, SOURCES, **settings)
    assert all(found)


@pytest.mark.parametrize("options", [SearchOptions(), SearchOptions(shortlist=SOME)], ids=["all", "shortlist"])
@pytest.mark.parametrize("compute_dtype", ["bfloat16", "int8"])
def test_in_each_dtype_and_with_divided_work(compute_dtype, options, monkeypatch):
    model = small_models.build(VOCAB, scale=0.7, compute_dtype=compute_dtype)
    settings = {"beam_size": 3, "batch_size": 3, "options": options}
    expected = step_by_step(monkeypatch, model, SOURCES, threads=1, **settings)
    assert search(model, SOURCES, threads=1, **settings) == expected
    for module, name in ((tuning, "ALONE_BELOW"), (tuning, "ALONE_A_STEP"), (candidates, "_ALONE_BELOW")):
        monkeypatch.setattr(module, name, 0)
    for threads in (2, 3):
        assert search(model, SOURCES, threads=threads, **settings) == expected


def test_in_float64(monkeypatch):
    model = small_models.build(VOCAB, scale=0.7, dtype=np.float64)
    assert search(model, SOURCES, beam_size=3) == step_by_step(monkeypatch, model, SOURCES, beam_size=3)


@pytest.mark.parametrize("rnn_type", ["lstm", "mlstm"])
def test_texts_go_on_as_step_by_step(rnn_type, monkeypatch):
    decoder = {"rnn_type": rnn_type}
    config = small_models.model_settings(encoder={"embeddings": {"embedding_dim": 5}}, decoder=decoder)
    model = LanguageModel(config, VOCAB)
    rng = np.random.default_rng(3)
    for param in model.params.values():
        param[...] = rng.normal(0, 0.7, param.shape)
    model.changed()
    texts = [[], [4], [5, 6], *SOURCES[:6]]
    settings = {"beam_size": 3, "batch_size": 2, "max_length_extra": 5, "n_best": 3}
    assert search(model, texts, **settings) == step_by_step(monkeypatch, model, texts, **settings)


def test_what_was_prepared_serves_the_next_search_and_changed_weights(model, monkeypatch):
    first = search(model, SOURCES[:1], beam_size=2, threads=1)
    kept = model.idle_steppers[1].kept[-1].loop
    assert search(model, SOURCES[:1], beam_size=2, threads=1) == first
    assert model.idle_steppers[1].kept[-1].loop is kept
    former = {name: param.copy() for name, param in model.params.items()}
    for param in model.params.values():
        param *= 0.5
    model.changed()
    try:
        changed = search(model, SOURCES[:3], beam_size=2, threads=1, batch_size=1)
        assert changed[:1] != first
        assert changed == step_by_step(monkeypatch, model, SOURCES[:3], beam_size=2, threads=1, batch_size=1)
    finally:
        for name, param in model.params.items():
            param[...] = former[name]
        model.changed()
    assert search(model, SOURCES[:1], beam_size=2, threads=1) == first


def test_memory_of_many_rows_goes_when_the_search_is_over(model):
    search(model, SOURCES, beam_size=5, threads=1)
    assert all(stepper.loop is None for stepper in model.idle_steppers[1].kept)


def test_whoever_wants_it_to_stop_is_asked_now_and_then(model, monkeypatch):
    monkeypatch.setattr(tuning, "ROWS_BETWEEN_LOOKS", 8)
    expected = search(model, SOURCES, beam_size=2, batch_size=2)
    calls = []

    def stop(ended):
        calls.append(ended)
        if sum(calls) >= 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(model, SOURCES, beam_size=2, batch_size=2, on_ended=stop)
    assert sum(calls) < len(SOURCES)
    assert search(model, SOURCES, beam_size=2, batch_size=2) == expected


def test_a_profile_tells_the_parts(model):
    with recording() as profile:
        search(model, SOURCES, beam_size=3, threads=1)
    found = profile.operations
    assert found["step"].seconds > 0 and found["output layer: best tokens"].seconds > 0 and found["search"].seconds > 0
    hidden = model.config.decoder.hidden_size
    assert found["output layer: best tokens"].multiply_adds % (hidden * VOCAB) == 0 < found["step"].multiply_adds


def test_searches_at_the_same_time_share_the_threads(monkeypatch):
    one, other, third = (module._Running() for _ in range(3))
    monkeypatch.setattr(module, "_running", [])
    assert [module._share_of(6, one), module._share_of(6, other), module._share_of(6, third)] == [6, 3, 2]
    del one, other
    fourth = module._Running()
    assert module._share_of(6, fourth) == 3
    assert module._share_of(1, module._Running()) == 1


def test_an_error_in_one_thread_is_told_to_the_others():
    queue = module._Queue([[4]], iter([]), SearchOptions())
    with queue:
        pass
    assert not queue.failed
    with pytest.raises(KeyError), queue:
        raise KeyError
    with queue:
        assert queue.failed
    assert queue.failed


def test_every_sentence_that_was_admitted_is_released_once(monkeypatch):
    """Those whose translation may have no token, too."""
    model, admitted, released = small_models.build(VOCAB, scale=0.7), [], []
    admit, release = ModelDecoder.admit, ModelDecoder.release

    def admitting(self, *arguments):
        found = admit(self, *arguments)
        admitted.extend(found[0].tolist())
        return found

    def releasing(self, sentence_ids):
        released.extend(sentence_ids.tolist())
        release(self, sentence_ids)

    monkeypatch.setattr(ModelDecoder, "admit", admitting)
    monkeypatch.setattr(ModelDecoder, "release", releasing)
    settings = {"beam_size": 2, "batch_size": 4, "max_length_ratio": 0.3, "max_length_extra": 0, "threads": 1}
    found = search(model, SOURCES, **settings)
    assert any(len(source) < 4 for source in SOURCES) and any(one[0].ids for one in found)
    assert len(set(admitted)) == len(SOURCES) and sorted(released) == sorted(admitted)
    assert step_by_step(monkeypatch, model, SOURCES, **settings) == found
    assert len(admitted) == 2 * len(SOURCES) and sorted(released) == sorted(admitted)
    search(Ensemble([model, model]), SOURCES, **settings)
    assert len(admitted) == 4 * len(SOURCES) and sorted(released) == sorted(admitted)
