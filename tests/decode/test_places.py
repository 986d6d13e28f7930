"""Every place finds what the search in steps finds, bit by bit, with every option that it has."""

from dataclasses import replace

import pytest

from nmt.decode import Session, search
from nmt.search_settings import Place, beyond
from tests import small_models
from tests.decode.test_plain_search import SOURCES, Queue, Sentence, live, step_by_step
from tests.decode.test_shortlist import VOCAB
from tests.search_cases import LISTS, RULES, options_for, test_every_setting_has_a_case_or_is_tested_elsewhere

__all__ = ["test_every_setting_has_a_case_or_is_tested_elsewhere"]
COMMON = {"beam_size": 3, "n_best": 3, "max_length_ratio": 2.0, "max_length_extra": 10}
SOME = SOURCES[:12]


@pytest.fixture(scope="module", params=[None, "int8"])
def model(request):
    return small_models.build(VOCAB, scale=0.7, compute_dtype=request.param)


def own(options, n):
    """The options of sentence n alone."""
    lists = {name: getattr(options, name) for name in ("prefixes", "glossary")}
    return replace(options, **{name: value and [value[n]] for name, value in lists.items()})


def alone(model, options, threads):
    """By a program, where it has these options."""
    found = (search(model, [one], threads=threads, options=own(options, n), **COMMON) for n, one in enumerate(SOME))
    return [hypotheses for (hypotheses,) in found]


def in_sessions(model, options):
    return [Session(model, one).complete(options=own(options, n), **COMMON) for n, one in enumerate(SOME)]


def lively(model, options):
    asked = [Sentence(ids) for ids in SOME]
    live(model, options=options, length_penalty=options.length_penalty, **COMMON).run(Queue(asked))
    return [one.hypotheses for one in asked]


PLACES = {
    "batches of 5": lambda model, options: search(model, SOME, options=options, batch_size=5, threads=1, **COMMON),
    "two threads": lambda model, options: search(model, SOME, options=options, batch_size=16, threads=2, **COMMON),
    "alone": lambda model, options: alone(model, options, 1),
    "alone, by two threads": lambda model, options: alone(model, options, 2),
    "sessions": in_sessions,
    "live": lively,
}
LACKS = {"sessions": Place.SESSION, "live": Place.LOOP}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", [*RULES, *LISTS])
def test_a_place_finds_what_steps_find(name, place, model, monkeypatch):
    options = options_for(name, len(SOME))
    if place in LACKS and beyond(LACKS[place], options):
        pytest.skip(f"{place} have no {name}")
    found = PLACES[place](model, options)
    with monkeypatch.context() as steps:
        steps.setattr("nmt.rnn.tuning.SHORT_ROWS", 0)
        expected = step_by_step(steps, model, SOME, options=options, threads=1, **COMMON)
    assert found == expected
    plain = name in ("nothing", "forbidden without effect")
    assert plain == (found == step_by_step(monkeypatch, model, SOME, threads=1, **COMMON))
