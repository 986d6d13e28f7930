"""Shared models and many callers: serial answers; and each race that there was, made certain."""

import threading
from functools import partial

import numpy as np
import pytest

from nmt.data.batching.batches import make_batch
from nmt.decode import SearchOptions, search
from nmt.decode.session import Session
from nmt.model.translation import TranslationModel
from nmt.rnn import tuning
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.kernels.cuda.machine_code import runtime as gpu_runtime
from tests import small_models
from tests.callers import Callers, kinds, random_model, switching_often, translators
from tests.interrupts import Interrupts
from tests.saved_models import sentences
from tests.waiting import at_once, beside

VOCAB = 31
SOURCES = [[4 + (7 * n + k * n) % (VOCAB - 4) for k in range(1 + n * 5 % 11)] for n in range(23)]


@pytest.fixture
def divided(monkeypatch):
    """However small they are, steps are divided between threads."""
    monkeypatch.setattr(tuning, "ALONE_BELOW", 0)
    monkeypatch.setattr(tuning, "ALONE_A_STEP", 0)


@pytest.mark.parametrize("size", [12, 96])
def test_many_callers_get_the_serial_answers(tmp_path, size, divided):
    """All that can be asked for, of three types and two numbers of threads, and a training beside."""
    shared = translators(random_model(tmp_path, size))
    lines = list(dict.fromkeys(sentences(60, seed=3)))[:40]
    callers = Callers(shared, lines, kinds(next(text for text in shared[0].translate(lines) if text).split()[0]))
    callers.run(8, calls=12)
    assert not callers.wrong
    assert len(callers.counts) > 11


# ---------------------------------------------------------------- each race by itself


@pytest.mark.parametrize("other", [1, 4, 6])  # of which two searches have half each
def test_a_search_keeps_its_threads_whatever_another_one_has(divided, other):
    """Another search begins in the middle of this one, with other threads."""
    model = small_models.build(VOCAB, scale=0.7)
    expected = search(model, SOURCES, beam_size=3, threads=1)
    nested = []

    def ask(count):
        if len(nested) < 4:
            nested.append(search(model, SOURCES[:3], beam_size=3, threads=other, batch_size=1))

    assert search(model, SOURCES, beam_size=3, threads=2, batch_size=2, on_ended=ask) == expected
    assert search(model, SOURCES, beam_size=3, threads=1, batch_size=2, on_ended=ask) == expected
    assert nested and all(one == expected[:3] for one in nested)


def test_a_search_finds_what_the_one_before_has_used(divided):
    """The plain search leaves a step's tables as the steps of other searches want them, and these likewise."""
    model = small_models.build(VOCAB, scale=0.7)
    by_steps = SearchOptions(min_length=2, no_repeat_ngram_size=2)
    plain = search(model, SOURCES, beam_size=3, threads=1)
    ruled = search(model, SOURCES, beam_size=3, threads=1, options=by_steps)
    for _ in range(20):
        for n in (3, 5):
            assert search(model, SOURCES[n : n + 1], beam_size=3, threads=2) == plain[n : n + 1]
            assert search(model, SOURCES[n : n + 1], beam_size=3, threads=2, options=by_steps) == ruled[n : n + 1]


def test_only_the_caller_is_told_what_has_ended():
    """Whichever thread has done it: a meter is not written to by two, and Ctrl-C can stop the search."""
    model, told = small_models.build(VOCAB, scale=0.7), []
    for _ in range(5):
        counts = []

        def hear(count, counts=counts):
            told.append(threading.get_ident())
            counts.append(count)

        search(model, SOURCES, beam_size=3, threads=2, batch_size=16, on_ended=hear)
        assert sum(counts) == len(SOURCES)
    assert set(told) == {threading.get_ident()}


def test_programs_of_new_weights_are_not_those_of_old_ones(monkeypatch):
    """A caller comes between the moments when another one notices the change and has prepared new runs."""
    model, other = small_models.build(VOCAB, seed=1), small_models.build(VOCAB, seed=2)
    ids, length = np.array([[5], [6], [7]], np.int32), np.array([3])
    model.encode(ids, length, 1)
    for name, array in other.params.items():
        model.params[name][...] = array
    model.changed()
    between, program = [], TranslationModel.program

    def planted(self, *args):
        if not between:
            between.append(None)
            between[0] = model.encode(ids, length, 1).memory.copy()
        return program(self, *args)

    expected = other.encode(ids, length, 1).memory
    monkeypatch.setattr(TranslationModel, "program", planted)
    np.testing.assert_array_equal(model.encode(ids, length, 1).memory, expected)
    np.testing.assert_array_equal(between[0], expected)


def test_gradients_of_several_callers_of_one_model():
    """Each has memory of its own."""
    model = small_models.build(VOCAB)
    batches = [make_batch(SOURCES[n : n + 5], SOURCES[n + 2 : n + 7], range(5)) for n in range(8)]

    def gradients(n):
        stats, found = model.loss_and_gradients(batches[n], seed=n, threads=1)
        return stats, {name: array.copy() for name, array in found.items()}

    expected = [gradients(n) for n in range(8)]
    wrong = []

    def work(n):
        for _ in range(15):
            stats, found = gradients(n)
            same = all(np.array_equal(found[name], array) for name, array in expected[n][1].items())
            wrong.extend([] if same and stats == expected[n][0] else [n])

    with switching_often():
        at_once(*[partial(work, n) for n in range(8)])
    assert not wrong


def test_memory_of_an_interrupted_batch_is_nobody_elses():
    model = small_models.build(VOCAB)
    batch = make_batch(SOURCES[:5], SOURCES[5:10], range(5))
    expected = model.loss(batch, threads=1)
    used = model._idle_workspaces.kept[0]
    real, model.head.loss = model.head.loss, lambda *args: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        model.loss(batch, threads=1)
    model.head.loss = real
    assert model.loss(batch, threads=1) == expected
    assert used not in model._idle_workspaces.kept


def test_packed_forms_may_be_made_while_another_caller_counts_them():
    weights = Weights({f"w{n}": np.ones((4, 8), np.float32) for n in range(300)})
    stop, errors = threading.Event(), []

    def count():
        while not stop.is_set():
            try:
                weights.changed()
                _ = weights.packed_bytes
            except RuntimeError as error:
                errors.append(error)

    with switching_often(), beside(count):
        try:
            for n in range(300):
                weights.derived(f"w{n}", ("form",), lambda out: np.zeros(1))
        finally:
            stop.set()
    assert not errors


def test_a_module_whose_import_was_interrupted_is_imported_again(monkeypatch):
    """The first time its code stops half way."""
    source = "import os\nif os.environ.pop('NMT_TEST_INTERRUPT', ''):\n    raise KeyboardInterrupt\nsecond = 2\n"
    monkeypatch.setenv("NMT_TEST_INTERRUPT", "yes")
    with pytest.raises(KeyboardInterrupt):
        gpu_runtime.load_module(source, "interrupted")
    assert gpu_runtime.load_module(source, "interrupted").second == 2


def test_a_session_whose_reading_was_interrupted_goes_on_right():
    """What has been read lies along the text that was being typed, not along the one before."""
    model = small_models.build(VOCAB)
    session, calls = Session(model, SOURCES[4]), []
    session.complete([5, 6, 7])
    step = session._decoder.step

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return step(*args)

    session._decoder.step = interrupted
    with pytest.raises(KeyboardInterrupt):
        session.complete([8, 9, 10, 11])
    session._decoder.step = step
    assert session.complete([5, 6, 7, 9]) == Session(model, SOURCES[4]).complete([5, 6, 7, 9])


# ---------------------------------------------------------------- interruptions, forks, loops


@pytest.fixture(scope="module")
def interrupts(tmp_path_factory):
    return Interrupts(tmp_path_factory.mktemp("interrupts"), size=24)


@pytest.mark.parametrize("name", ["searching", "scoring", "training", "compiling"])
def test_after_an_interruption_the_next_call_is_right(interrupts, name):
    assert {interrupts.interrupt(name, seed) for seed in range(2 if name == "compiling" else 5)} == {"right"}


def test_children_forked_after_use_find_what_their_parent_did(interrupts):
    assert all(interrupts.children() for _ in range(2))
