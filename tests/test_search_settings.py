"""Each row of the table of search settings is reached from Python, from the commands and from the server."""

import asyncio
import sys
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from nmt import Translator
from nmt.cli.commands.translate import translate
from nmt.cli.options.search_options import words_of
from nmt.config import DecodingConfig
from nmt.decode import Ensemble, LiveSearch, SearchOptions, SearchPath, search, search_plan
from nmt.decode.rules.selectors import CandidateSelector
from nmt.decode.search import check_served, check_session
from nmt.errors import CheckpointError, ConfigError, DeviceError
from nmt.exporting.checks import EXPORTED, check_exported
from nmt.search_settings import ROWS, Place, SearchSettings, SearchValues, beyond, usable
from nmt.serve import engine
from nmt.serve.engine import Ask, Engine
from nmt.special_tokens import EOS_ID
from nmt.storage.saved_model import load_saved_model
from tests import small_models
from tests.cli.test_cli_models import call
from tests.refusals import refused
from tests.saved_models import sentences

OTHERS = {
    "beam_size": 7,
    "length_penalty": "average",
    "max_length_ratio": 1.5,
    "max_length_extra": 4,
    "n_best": 2,
    "batch_size": 3,
    "word_reward": 0.5,
    "min_length": 2,
    "generate_unk": False,
    "no_repeat_ngram_size": 3,
    "repetition_penalty": 1.25,
    "sampling": True,
    "sampling_temperature": 0.5,
    "sampling_topk": 6,
    "sampling_topp": 0.5,
    "sampling_seed": 9,
    "mbr": "chrf",
    "mbr_samples": 4,
    "glossary_bonus": 2.5,
}
"""For each setting another value than its default."""


def settings_for(name):
    """The setting at its other value, and what it needs."""
    return {need: OTHERS[need] for need in ROWS[name].needs} | {name: OTHERS[name]}


def expected(name):
    """The field of the options that shows the setting, and its value there."""
    if name == "mbr_samples":
        return "beam_size", OTHERS[name]  # so many are drawn
    return name, 5 if name == "n_best" else OTHERS[name]  # all of the beam are kept, as some may read alike


@pytest.mark.parametrize("name", OTHERS)
def test_an_export_follows_a_setting_or_refuses_it(place, name):
    saved, changes = load_saved_model(place / "model"), {f"decoding.{k}": v for k, v in settings_for(name).items()}
    saved = replace(saved, config=saved.config.with_changes(changes))
    if name in EXPORTED:
        check_exported(saved, "C")
    else:
        refused(CheckpointError, "decoding.* must be .* for C, got", check_exported, saved, "C")


@pytest.fixture
def asked(monkeypatch):
    """The options of all searches."""
    seen = SimpleNamespace(options=[])

    def noted(model, src_ids, *, options, **more):
        seen.options.append(options)
        return search(model, src_ids, options=options, **more)

    class NotedLive(LiveSearch):
        def __init__(self, model, options, **more):
            seen.options.append(options)
            super().__init__(model, options, **more)

    monkeypatch.setattr(sys.modules["nmt.decode"], "search", noted)
    monkeypatch.setattr(engine, "LiveSearch", NotedLive)
    return seen


def assert_reached(seen, name):
    field, value = expected(name)
    assert value in [getattr(options, field) for options in seen.options]


def load(place, **decoding):
    """The model with other settings in its config."""
    found = Translator.load(place / "model", threads=1)
    section = DecodingConfig(**{name: value for name, value in decoding.items() if name != "n_best"})
    found.config = found.config.model_copy(update={"decoding": section})
    return found


def test_there_is_another_value_for_each_row():
    assert OTHERS.keys() == ROWS.keys()
    assert all(ROWS[name].default != value for name, value in OTHERS.items())


def test_rows_are_told_apart_by_what_they_say():
    texts = [row.text for row in ROWS.values()]
    assert all(texts) and len(set(texts)) == len(texts)
    assert all(need in ROWS for row in ROWS.values() for need in row.needs)


def test_the_typed_names_are_those_of_the_table():
    names = SearchSettings.__annotations__
    assert set(names) == set(usable(Place.CALL))
    assert {name: ROWS[name].kind | None for name in names} == names


def test_the_section_has_the_rows_and_their_defaults():
    fields = DecodingConfig.model_fields
    assert list(fields) == list(ROWS)
    for name, row in ROWS.items():
        assert (fields[name].default, fields[name].description) == (row.default, row.text)
        assert getattr(DecodingConfig(**settings_for(name)), name) == OTHERS[name]
    assert vars(SearchValues()) == DecodingConfig().model_dump()


@pytest.mark.parametrize("name", ROWS)
def test_python_reaches_it(name, place, asked):
    given = settings_for(name)
    load(place).translate_nbest(sentences(2), n_best=given.pop("n_best", 1), **given)
    assert_reached(asked, name)


@pytest.mark.parametrize("name", ROWS)
def test_the_command_reaches_it(name, place, asked):
    call(translate, place / "model", place / "text", *words_of(settings_for(name)))
    assert_reached(asked, name)


@pytest.mark.parametrize("name", ROWS)
def test_the_server_reaches_it(name, place, asked):
    with closing(Engine(load(place, **settings_for(name)))) as served:
        asyncio.run(served.translate(sentences(2), Ask(n_best=OTHERS["n_best"] if name == "n_best" else 1)))
    assert_reached(asked, name)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.needs])
def test_an_option_without_what_it_needs_is_told(name, place):
    given = {name: OTHERS[name]} | ({} if name != "mbr_samples" else {"sampling": True})
    told, whole = (
        call(translate, place / "model", place / "text", *words_of(one)).stderr for one in (given, settings_for(name))
    )
    assert f"warning: {words_of({name: OTHERS[name]})[0]} changes nothing without --" in told
    assert "changes nothing" not in whole


# ---------------------------------------------------------------- where it can be used

WISHES = {"forbidden": [[4]], "prefixes": [[4]], "glossary": [[[4]]], "more_rules": list}


@pytest.fixture(scope="module")
def model():
    return small_models.build(12)


@pytest.mark.parametrize("name", [*ROWS, *WISHES])
def test_the_plan_follows_from_the_table(name, model):
    """A compiled loop keeps the best continuations and does nothing else."""
    given = settings_for(name) if name in ROWS else {name: WISHES[name]}
    options = SearchOptions(**given)
    plan = search_plan(model, options)
    is_plain = type(options.selector([[4]], EOS_ID)) is CandidateSelector
    is_plain &= name != "more_rules"  # nobody knows what they do
    assert plan.path is (SearchPath.COMPILED if is_plain else SearchPath.STEPS), (
        f"{name}: a setting that makes a rule needs lacks=(Place.LOOP,), and one with it a line in SearchOptions.rules"
    )
    assert plan.path is SearchPath.COMPILED or any(f"a compiled loop lacks {one}" in plan.why for one in given)
    if plan.path is SearchPath.STEPS and not beyond(Place.PROGRAM, options):
        given, none = (vars(one.token_rules([0])) for one in (options, SearchOptions()))
        assert any(not np.array_equal(given[key], none[key]) for key in none), f"{name}: needs lacks=(Place.PROGRAM,)"


def test_the_plan_follows_from_the_model(model):
    assert search_plan(Ensemble([model, model]), SearchOptions()).path is SearchPath.STEPS
    placed = {"type": "conv", "hidden_size": 5, "embeddings": {"embedding_dim": 4}, "max_positions": 4}
    plan = search_plan(small_models.build(12, encoder=placed, decoder=placed | {"attention": "dot"}), SearchOptions())
    assert plan.path is SearchPath.STEPS and "position" in plan.why
    away = SimpleNamespace(device=SimpleNamespace(name="cuda", is_cpu=False))
    assert search_plan(away, SearchOptions(min_length=2)).path is SearchPath.DEVICE


@pytest.mark.parametrize("name", ROWS)
def test_what_a_place_lacks_is_refused_there(name):
    row, options = ROWS[name], SearchOptions(**{name: OTHERS[name]})
    found = [place for place, check in CHECKS.items() if is_refused(check, options)]
    assert found == [place for place in CHECKS if place in row.lacks]


def is_refused(check, options):
    try:
        check(options)
    except (ConfigError, DeviceError):
        return True
    return False


CHECKS = {
    Place.GPU: lambda options: check_served(options, SimpleNamespace(name="cuda", is_cpu=False)),
    Place.SESSION: check_session,
}
