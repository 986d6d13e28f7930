"""A search without a last sentence finds what `search` finds, whoever comes, goes and fails beside."""

import threading
from collections import deque

import pytest

from nmt.decode import LiveSearch, SearchOptions, search
from tests import small_models
from tests.decode.test_plain_search import SOURCES
from tests.decode.test_shortlist import SOME, VOCAB


class Sentence:
    def __init__(self, src_ids, expected=None):
        self.src_ids, self.expected, self.gone = list(src_ids), expected, False
        self.hypotheses = self.error = None

    def found(self, hypotheses):
        assert self.hypotheses is None
        self.hypotheses = hypotheses

    def failed(self, error):
        self.error = error


class Queue:
    """Gives at most `at_once` sentences, `pauses` times none, and then says that it is over."""

    def __init__(self, sentences, at_once=3, pauses=0):
        self.rest, self.at_once, self.pauses = deque(sentences), at_once, pauses
        self.lock = threading.Lock()

    def take(self, most, *, wait):
        assert most > 0
        with self.lock:
            if not self.rest:
                return None
            if not wait and self.pauses:
                self.pauses -= 1
                return []
            return [self.rest.popleft() for _ in range(min(most, self.at_once, len(self.rest)))]


@pytest.fixture(scope="module")
def model():
    return small_models.build(VOCAB, scale=0.7)


def live(model, size=4, options=None, **changes):
    settings = {"beam_size": 3, "length_penalty": 0.7, "n_best": 2, "max_length_ratio": 2.0, "max_length_extra": 10}
    return LiveSearch(model, size=size, longest=30, options=options, **settings | changes)


def found_by_search(model, options=None, **changes):
    settings = {"beam_size": 3, "length_penalty": 0.7, "n_best": 2, "threads": 1}
    return search(model, SOURCES, options=options, **settings | changes)


@pytest.mark.parametrize("size, at_once, pauses", [(1, 1, 0), (4, 1, 9), (4, 3, 0), (32, 5, 4)])
def test_what_search_finds_is_found(model, size, at_once, pauses):
    asked = [Sentence(ids) for ids in SOURCES]
    live(model, size).run(Queue(asked, at_once, pauses))
    assert [one.hypotheses for one in asked] == found_by_search(model)


@pytest.mark.parametrize(
    "options, expected",
    [
        (SearchOptions(shortlist=SOME), None),
        (SearchOptions(generate_unk=False), None),
        (SearchOptions(word_reward=0.9), [len(s) * 0.9 for s in SOURCES]),
    ],
)
def test_with_what_a_plain_search_may_be_told(model, options, expected):
    asked = [Sentence(ids, expected and expected[n]) for n, ids in enumerate(SOURCES)]
    live(model, options=options).run(Queue(asked))
    if expected:
        options = SearchOptions(word_reward=0.9, expected_lengths=expected)
    assert [one.hypotheses for one in asked] == found_by_search(model, options)


def test_two_threads_share_a_queue(model):
    asked = [Sentence(ids) for ids in 3 * SOURCES]
    queue, search_of_all = Queue(asked), live(model)
    threads = [threading.Thread(target=search_of_all.run, args=(queue,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [one.hypotheses for one in asked] == 3 * found_by_search(model)


def test_who_is_gone_leaves_at_once_and_nobody_else_is_changed(model):
    long = {"max_length_extra": 2000, "length_penalty": 9.0, "beam_size": 2}
    asked = [Sentence(ids) for ids in SOURCES]
    unwanted = asked[::3]

    class Leaving(Queue):
        def take(self, most, *, wait):
            for one in unwanted:
                one.gone = True
            return super().take(most, wait=wait)

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
        def take(self, most, *, wait):
            if len(self.rest) < 4:
                raise MemoryError("no more")
            return super().take(most, wait=wait)

    with pytest.raises(MemoryError):
        live(model).run(Broken(asked))
    assert all((one.hypotheses is None) == isinstance(one.error, MemoryError) for one in asked[:3])
    assert all(one.error is None for one in asked[3:])


@pytest.mark.parametrize(
    "options", [SearchOptions(min_length=3), SearchOptions(coverage_penalty=0.1), SearchOptions(no_repeat_ngram_size=2)]
)
def test_no_other_search_is_taken(model, options):
    with pytest.raises(ValueError, match="plain search"):
        live(model, options=options)
