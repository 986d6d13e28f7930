"""A search without a last sentence finds what `search` finds, whoever comes, goes and fails beside."""

import random
import threading
from collections import deque

import pytest

from nmt.decode import LiveSearch, SearchOptions, live_search, search
from nmt.rnn.stepping.compiled_beam import CompiledBeam
from tests import small_models
from tests.decode.test_plain_search import SOURCES
from tests.decode.test_shortlist import SOME, VOCAB


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
def model():
    return small_models.build(VOCAB, scale=0.7)


def hand_out(ended):
    for sentence, hypotheses in ended:
        sentence.found(hypotheses)


def live(model, size=4, options=None, **changes):
    settings = {"beam_size": 3, "length_penalty": 0.7, "n_best": 2, "max_length_ratio": 2.0, "max_length_extra": 10}
    return LiveSearch(model, SearchOptions.of(options, settings | changes), size=size, longest=30, deliver=hand_out)


def found_by_search(model, options=None, **changes):
    settings = {"beam_size": 3, "length_penalty": 0.7, "n_best": 2, "threads": 1}
    return search(model, SOURCES, options=options, **settings | changes)


@pytest.mark.parametrize("size, at_once, pauses", [(1, 1, 0), (4, 1, 9), (4, 3, 0), (32, 5, 4)])
def test_what_search_finds_is_found(model, size, at_once, pauses):
    asked = [Sentence(ids) for ids in SOURCES]
    live(model, size).run(Queue(asked, at_once, pauses))
    assert [one.hypotheses for one in asked] == found_by_search(model)


@pytest.mark.parametrize("at_once", [1, 5])
def test_long_texts_beside_others_change_nothing(model, at_once):
    asked = [Sentence(ids, is_bulk=n % 3 > 0) for n, ids in enumerate(6 * SOURCES)]
    live(model).run(Queue(asked, at_once, 7))
    assert [one.hypotheses for one in asked] == 6 * found_by_search(model)


def test_it_is_at_work_while_sentences_are(model):
    one, seen = live(model), []

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


def test_a_long_text_at_most_doubles_what_others_wait(model, monkeypatch):
    work = [0.0]
    run, admit = CompiledBeam.run, live_search.admit_block

    def running(loop, *, most_steps, **more):
        result = run(loop, most_steps=most_steps, **more)
        work[0] += most_steps * STEP + loop._memory["steps_run"]
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
    live(model, 32, **long).run(alone)
    beside = Client(work, sources, 200 * SOURCES)
    live(model, 32, **long).run(beside)
    done = len(200 * SOURCES) - len(beside.rest[1])
    assert len(alone.waits) == len(beside.waits) == len(sources)
    for share in (0.5, 0.99):
        one, other = (sorted(waits)[int(share * len(waits))] for waits in (alone.waits, beside.waits))
        assert one < other <= 2 * one
    assert done > len(sources)  # and the long text goes on


def test_with_a_shortlist(model):
    asked, options = [Sentence(ids) for ids in SOURCES], SearchOptions(shortlist=SOME)
    live(model, options=options).run(Queue(asked))
    assert [one.hypotheses for one in asked] == found_by_search(model, options)


def test_two_threads_share_a_queue(model):
    asked = [Sentence(ids) for ids in 3 * SOURCES]
    queue, search_of_all = Queue(asked), live(model)
    threads = [threading.Thread(target=search_of_all.run, args=(queue,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.hypotheses for one in asked] == 3 * found_by_search(model)


def test_who_is_gone_leaves_at_once_and_nobody_else_is_changed(model):
    long = {"max_length_extra": 2000, "length_penalty": 9.0, "beam_size": 2}
    asked = [Sentence(ids) for ids in SOURCES]
    unwanted = asked[::3]

    class Leaving(Queue):
        def take(self, *rooms, wait):
            for one in unwanted:
                one.gone = True
            return super().take(*rooms, wait=wait)

    one = live(model, 8, **long)
    one.run(Leaving(asked, 8))
    expected = found_by_search(model, **long)
    assert max(len(expected[n][0].ids) for n, sentence in enumerate(asked) if sentence.gone) > 100
    for n, sentence in enumerate(asked):
        if sentence.gone:
            assert max(len(h.ids) for h in sentence.hypotheses) <= 8
        else:
            assert sentence.hypotheses == expected[n]


def test_places_are_used_again(model):
    asked = [Sentence(ids) for ids in 20 * SOURCES]
    live(model, 2).run(Queue(asked, 2))
    assert [one.hypotheses for one in asked] == 20 * found_by_search(model)


def test_sentences_may_say_nothing(model):
    asked = [Sentence(ids) for ids in SOURCES]
    live(model, max_length_ratio=0.0, max_length_extra=0).run(Queue(asked))
    assert [[h.ids for h in one.hypotheses] for one in asked] == [[[]]] * len(SOURCES)


def test_after_an_error_everyone_in_work_knows(model):
    asked = [Sentence(ids) for ids in SOURCES[:6]]

    class Broken(Queue):
        def take(self, *rooms, wait):
            if len(self.rest[0]) < 4:
                raise MemoryError("no more")
            return super().take(*rooms, wait=wait)

    with pytest.raises(MemoryError):
        live(model).run(Broken(asked))
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


def test_a_search_that_ends_leaves_its_steps_to_the_next(model):
    model.idle_steppers.clear()
    for _ in range(2):
        asked = [Sentence(ids, is_bulk=n % 2 > 0) for n, ids in enumerate(SOURCES)]
        live(model).run(Queue(asked))
        assert len(model.idle_steppers[1].kept) == 2, "those of both lanes"
