"""A search reads matrix states by the number of the row that each hypothesis continues; it finds what it finds if every
row has a copy of the state it continues."""

import numpy as np
import pytest

from nmt.decode import SearchOptions, Session, search
from nmt.rnn import Axes, LinearAttentionCell, MLSTMCell, Scan, State, Weights, axes, flat, tanh, total
from nmt.rnn.arrays.array_names import ArrayKind
from nmt.rnn.arrays.weights import initial_params
from nmt.rnn.compiler import share
from nmt.rnn.stepping import prepared_step
from nmt.rnn.stepping.stepper import Stepper
from tests import small_models
from tests.decode.test_plain_search import MODELS, SOURCES, Queue, Sentence, live, step_by_step
from tests.decode.test_shortlist import VOCAB
from tests.rnn.random_cells import Made


@pytest.fixture
def copying(monkeypatch):
    """Within this, steps are compiled as for states that are small enough to be copied."""

    def run(function, *args):
        with monkeypatch.context() as patch:
            patch.setattr(share, "_indexed", lambda step, shared: {})
            prepared_step.compile_step.cache_clear()
            found = function(*args)
        prepared_step.compile_step.cache_clear()
        return found

    return run


def build(compute_dtype):
    return small_models.build(VOCAB, scale=0.7, compute_dtype=compute_dtype, **MODELS["matrix states"])


def searched(compute_dtype, monkeypatch):
    """What each kind of search finds, and how many arrays of states the step reads by index."""
    model = build(compute_dtype)
    beam = {"beam_size": 5, "n_best": 3, "batch_size": 4, "threads": 1}
    found = {"beam": search(model, SOURCES, **beam), "stepped": step_by_step(monkeypatch, model, SOURCES, **beam)}
    assert found["beam"] == found["stepped"]
    found["again"] = search(model, SOURCES, **beam | {"batch_size": 2, "beam_size": 2})
    found["two threads"] = search(model, SOURCES, **beam | {"threads": 2, "batch_size": 2})
    found["rules"] = search(model, SOURCES, **beam, options=SearchOptions(no_repeat_ngram_size=2, min_length=3))
    found["sampling"] = search(model, SOURCES, threads=1, options=SearchOptions(sampling=True, sampling_seed=3))
    session = Session(model, SOURCES[7])
    found["session"] = [
        session.complete(prefix, beam_size=4, n_best=2) for prefix in ([], [4, 7, 8, 10], [4, 7], [4, 9, 9], [])
    ]
    sentences = [Sentence(ids) for ids in SOURCES]
    live(model).run(Queue(sentences, pauses=3))
    found["live"] = [one.hypotheses for one in sentences]
    return found, len(model.idle_steppers[1].kept[-1][0].prepared.shared.indexed)


@pytest.mark.parametrize("compute_dtype", [None, "bfloat16", "int8"])
def test_every_search_finds_what_it_finds_with_copies(compute_dtype, copying, monkeypatch):
    expected, none = copying(searched, compute_dtype, monkeypatch)
    found, indexed = searched(compute_dtype, monkeypatch)
    assert none == 0 < indexed
    for name, one in expected.items():
        assert found[name] == one, name


def multiplied(p, x, s):
    """The next matrix depends on a product of the last one, which must be in the order of rows."""
    x = axes(x @ p.W, k=2, v=3)
    S = tanh(x + axes((flat(s.S) * flat(x)) @ p.U, k=2, v=3) + axes(flat(s.S) @ p.U, k=2, v=3))
    return flat(S) + flat(s.n), State(S=S, n=s.n * 0.5 + S * total(x, "v"))


SIZES = {"params": {"W": (5, 6), "U": (6, 6)}, "states": dict.fromkeys("Sn", Axes(k=2, v=3))}
CELLS = {
    "delta": (lambda: LinearAttentionCell(5, 6, heads=2, key_size=2, delta=True, window=2), 1),
    "mlstm": (lambda: MLSTMCell(5, 6, heads=2), 3),
    "multiplied": (lambda: Made(multiplied, **SIZES, input_size=5, output_size=6), 1),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CELLS)
def test_each_row_continues_its_parent(name, threads, copying):
    """Rows come, go, share and swap parents; each has what a scan of its own inputs gives, with the bits of copies."""
    make, count = CELLS[name]
    scan, rng = Scan(make(), dtype=np.float64, threads=threads), np.random.default_rng(2)
    start = initial_params(scan.cell, 1, float)
    weights = Weights({k: v + 0.3 * rng.standard_normal(v.shape) for k, v in start.items()})
    copier, stepper = copying(Stepper, scan, weights), Stepper(scan, weights)
    indexed = stepper.prepared.shared.indexed
    assert len(indexed) == count > len(copier.prepared.shared.indexed)
    paths = np.zeros((0, 3, 5))
    states = {k: np.zeros_like(v) for k, v in scan.forward(weights, np.zeros((1, 3, 5))).final.items()}
    for rows in (3, 7, 7, 2, 19, 5, 5):
        parent, x = rng.integers(paths.shape[1], size=rows), rng.standard_normal((rows, 5))
        expected, after = copier.step(x, {k: v.copy() for k, v in states.items()}, parent=parent)
        states = {k: v if ArrayKind.STATE.of(k) in indexed else v.copy() for k, v in states.items()}
        y, states = stepper.step(x, states, parent=parent)
        np.testing.assert_array_equal(y, expected)
        paths = np.concatenate([paths[:, parent], x[None]])
        whole = scan.forward(weights, paths)
        np.testing.assert_allclose(y, whole.y[-1], rtol=1e-12, atol=1e-13)
        for state, final in whole.final.items():
            np.testing.assert_array_equal(states[state], after[state])
            np.testing.assert_allclose(states[state], final, rtol=1e-12, atol=1e-13)
