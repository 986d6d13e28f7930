"""The plain search as one computation finds, bit by bit, what it finds step by step."""

import importlib
import random
import threading
from collections import deque
from functools import partial

import numpy as np
import pytest

from nmt.decode import Ensemble, LiveSearch, SearchOptions, live_search, search
from nmt.model.decoders import ModelDecoder
from nmt.rnn import tuning
from nmt.rnn.kernels.search import candidates
from nmt.rnn.stepping.compiled_beam import CompiledBeam
from tests import small_models
from tests.decode.test_shortlist import SOME, VOCAB
from tests.waiting import at_once

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


def test_what_was_prepared_serves_the_next_search_and_changed_weights(model, monkeypatch):
    first = search(model, SOURCES[:1], beam_size=2, threads=1)
    kept = model.idle_steppers[1].kept[-1][1]
    assert search(model, SOURCES[:1], beam_size=2, threads=1) == first
    assert model.idle_steppers[1].kept[-1][1] is kept
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
    assert all(loop is None for _, loop in model.idle_steppers[1].kept)


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


def test_searches_at_the_same_time_share_the_threads(monkeypatch):
    one, other, third = (module._Running() for _ in range(3))
    monkeypatch.setattr(module, "_running", [])
    assert [module._share_of(6, one), module._share_of(6, other), module._share_of(6, third)] == [6, 3, 2]
    del one, other
    assert module._share_of(6, module._Running()) == 3
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


class Sentence:
    def __init__(self, src_ids, expected=None, is_bulk=False):
        self.src_ids, self.expected, self.gone, self.is_bulk = list(src_ids), expected, False, is_bulk
        self.hypotheses = self.error = None

    def found(self, hypotheses):
        assert self.hypotheses is None
        self.hypotheses = hypotheses

    def failed(self, error):
        self.error = error


class Queue:
    """Gives at most `at_once` sentences of a kind, `pauses` times none, and then says that it is over."""

    def __init__(self, sentences, at_once=3, pauses=0):
        self.rest = [deque(one for one in sentences if one.is_bulk == kind) for kind in (False, True)]
        self.at_once, self.pauses = at_once, pauses
        self.lock = threading.Lock()

    def take(self, most, most_bulk, *, wait):
        assert max(most, most_bulk) > 0
        with self.lock:
            if not any(self.rest):
                return None
            if not wait and self.pauses:
                self.pauses -= 1
                return []
            rooms = zip(self.rest, (most, most_bulk), strict=True)
            return [rest.popleft() for rest, room in rooms for _ in range(min(room, self.at_once, len(rest)))]


@pytest.fixture(scope="module")
def one_model():
    return small_models.build(VOCAB, scale=0.7)


def hand_out(ended):
    for sentence, hypotheses in ended:
        sentence.found(hypotheses)


def live(one_model, size=4, options=None, **changes):
    settings = {"beam_size": 3, "length_penalty": 0.7, "n_best": 2, "max_length_ratio": 2.0, "max_length_extra": 10}
    return LiveSearch(one_model, SearchOptions.of(options, settings | changes), size=size, longest=30, deliver=hand_out)


def found_by_search(one_model, options=None, **changes):
    settings = {"beam_size": 3, "length_penalty": 0.7, "n_best": 2, "threads": 1}
    return search(one_model, SOURCES, options=options, **settings | changes)


@pytest.mark.parametrize("options", [None, SearchOptions(shortlist=SOME)], ids=["all", "shortlist"])
@pytest.mark.parametrize("size, at_once, pauses", [(1, 1, 0), (4, 1, 9), (4, 3, 0), (32, 5, 4)])
def test_what_search_finds_is_found(one_model, size, at_once, pauses, options):
    asked = [Sentence(ids) for ids in SOURCES]
    live(one_model, size, options).run(Queue(asked, at_once, pauses))
    assert [one.hypotheses for one in asked] == found_by_search(one_model, options)


@pytest.mark.parametrize("at_once", [1, 5])
def test_long_texts_beside_others_change_nothing(one_model, at_once):
    asked = [Sentence(ids, is_bulk=n % 3 > 0) for n, ids in enumerate(6 * SOURCES)]
    live(one_model).run(Queue(asked, at_once, 7))
    assert [one.hypotheses for one in asked] == 6 * found_by_search(one_model)


def test_it_is_at_work_while_sentences_are(one_model):
    one, seen = live(one_model), []

    class Watched(Queue):
        def take(self, most, most_bulk, *, wait):
            seen.append(one.is_at_work)
            return super().take(most, most_bulk, wait=wait)

    one.run(Watched([Sentence(ids) for ids in SOURCES], 1))
    assert seen[0] is False and True in seen and not one.is_at_work


STEP = 5
"""What a step costs in hypotheses, however few are in work: reading the weights."""


class Client(Queue):
    """Beside a long text somebody asks for one sentence after another, each a while after the last has come. Time is
    the work that is done; a step or an encoding in which the sentence comes is waited for."""

    def __init__(self, work, sources, long):
        super().__init__([Sentence(ids, is_bulk=True) for ids in long], at_once=100)
        self.work, self.coming, self.random = work, deque(sources), random.Random(3)
        self.arrival, self.now, self.waits = 0.0, None, []

    def take(self, most, most_bulk, *, wait):
        if self.now is not None and self.now.hypotheses is not None:
            self.waits.append(self.work[0] - self.arrival)
            self.now, self.arrival = None, self.work[0] + self.random.randrange(200)
        if self.now is None and not self.coming:
            return None
        came = []
        while most_bulk and self.rest[1] and len(came) < most_bulk:
            came.append(self.rest[1].popleft())
        if self.now is None and (self.work[0] >= self.arrival or (wait and not came)):
            self.work[0] = max(self.work[0], self.arrival)
            self.now = Sentence(self.coming.popleft())
            came.append(self.now)
        return came


def test_a_long_text_at_most_doubles_what_others_wait(one_model, monkeypatch):
    work = [0.0]
    run, admit = CompiledBeam.run, live_search.admit_block

    def running(loop, *, most_steps, **more):
        result = run(loop, most_steps=most_steps, **more)
        work[0] += most_steps * (STEP + loop._memory["num_rows"])
        return result

    def admitting(decoder, loop, block, *more):
        work[0] += sum(map(len, block.src_ids))
        return admit(decoder, loop, block, *more)

    monkeypatch.setattr(CompiledBeam, "run", running)
    monkeypatch.setattr(live_search, "admit_block", admitting)
    monkeypatch.setattr(live_search, "moment", lambda: work[0])
    long = {"max_length_extra": 30, "length_penalty": 3.0}
    sources = (100 * SOURCES)[:300]
    alone = Client(work, sources, [])
    live(one_model, 32, **long).run(alone)
    beside = Client(work, sources, 200 * SOURCES)
    live(one_model, 32, **long).run(beside)
    done = len(200 * SOURCES) - len(beside.rest[1])
    assert len(alone.waits) == len(beside.waits) == len(sources)
    for share in (0.5, 0.99):
        one, other = (sorted(waits)[int(share * len(waits))] for waits in (alone.waits, beside.waits))
        assert one < other <= 2 * one
    assert done > len(sources)  # and the long text goes on


def test_two_threads_share_a_queue(one_model):
    asked = [Sentence(ids) for ids in 3 * SOURCES]
    queue, search_of_all = Queue(asked), live(one_model)
    at_once(*[partial(search_of_all.run, queue)] * 2)
    assert [one.hypotheses for one in asked] == 3 * found_by_search(one_model)


def test_who_is_gone_leaves_at_once_and_nobody_else_is_changed(one_model):
    long = {"max_length_extra": 2000, "length_penalty": 9.0, "beam_size": 2}
    asked = [Sentence(ids) for ids in SOURCES]
    unwanted = asked[::3]

    class Leaving(Queue):
        def take(self, *rooms, wait):
            for one in unwanted:
                one.gone = True
            return super().take(*rooms, wait=wait)

    one = live(one_model, 8, **long)
    one.run(Leaving(asked, 8))
    expected = found_by_search(one_model, **long)
    assert max(len(expected[n][0].ids) for n, sentence in enumerate(asked) if sentence.gone) > 100
    for n, sentence in enumerate(asked):
        if sentence.gone:
            assert max(len(h.ids) for h in sentence.hypotheses) <= 8
        else:
            assert sentence.hypotheses == expected[n]


def test_sentences_may_say_nothing(one_model):
    asked = [Sentence(ids) for ids in SOURCES]
    live(one_model, max_length_ratio=0.0, max_length_extra=0).run(Queue(asked))
    assert [[h.ids for h in one.hypotheses] for one in asked] == [[[]]] * len(SOURCES)


def test_after_an_error_everyone_in_work_knows(one_model):
    asked = [Sentence(ids) for ids in SOURCES[:6]]

    class Broken(Queue):
        def take(self, *rooms, wait):
            if len(self.rest[0]) < 4:
                raise MemoryError("no more")
            return super().take(*rooms, wait=wait)

    with pytest.raises(MemoryError):
        live(one_model).run(Broken(asked))
    assert all((one.hypotheses is None) == isinstance(one.error, MemoryError) for one in asked[:3])
    assert all(one.error is None for one in asked[3:])


class Lane:
    """Sentences whose steps take a given time; what it spends is counted."""

    def __init__(self, seconds, taken):
        self.seconds, self.taken, self.spent, self.last, self.room = seconds, taken, 0.0, 0.0, 50

    def admit(self, came):
        self.taken += len(came)
        self.spent += self.seconds * len(came)
        return self.seconds * len(came)

    def run_steps(self):
        self.spent += self.seconds
        self.last = self.seconds
        return self.seconds


@pytest.mark.parametrize(("quick", "slow"), [(1.0, 1.0), (1.0, 7.0), (3.0, 2.0)])
def test_a_long_text_has_its_share_of_the_time_and_all_of_it_alone(quick, slow):
    single, bulk = Lane(quick, 1), Lane(slow, 1)
    turns = live_search._Turns(single, bulk)
    for _ in range(3000):
        turns.run_steps()
    assert bulk.spent / (single.spent + bulk.spent) == pytest.approx(live_search.BULK_SHARE, abs=0.01)
    single.taken, before = 0, bulk.spent
    for _ in range(10):
        turns.run_steps()
    assert bulk.spent == before + 10 * slow
    single.taken, bulk.taken = 1, 0
    for _ in range(100):
        turns.run_steps()
    bulk.taken, before = 1, bulk.spent
    turns.run_steps()
    assert bulk.spent <= before + slow, "an idle lane saves nothing up"


def test_what_a_long_text_took_to_be_encoded_is_paid_before_more_is_admitted():
    single, bulk = Lane(1.0, 1), Lane(2.0, 0)
    turns = live_search._Turns(single, bulk)
    assert turns.bulk_room == 8
    turns.admit([Sentence([4], is_bulk=True)] * 5 + [Sentence([5])])
    assert (single.taken, bulk.taken, single.spent, bulk.spent) == (2, 5, 1.0, 10.0)
    rounds = 0
    while not turns.bulk_room:
        turns.run_steps()
        rounds += 1
    assert 20 <= rounds <= 26, "at a third of the time two seconds for each, of its own steps too"
    bulk.room = 3
    assert turns.bulk_room == 3


def test_a_search_that_ends_leaves_its_steps_to_the_next(one_model):
    one_model.idle_steppers.clear()
    for _ in range(2):
        live(one_model).run(Queue([Sentence(ids, is_bulk=n % 2 > 0) for n, ids in enumerate(SOURCES)]))
        assert len(one_model.idle_steppers[1].kept) == 2, "those of both lanes"
