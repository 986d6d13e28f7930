"""Which search answers, and what a model that has no live search, or no completions, says."""

import asyncio
import logging
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("starlette", reason="needs the extra [serve]")

from nmt.inference.translation import LENGTHENED
from nmt.inference.translator import Translator
from nmt.serve import engine, models
from nmt.serve.engine import Ask, Engine
from nmt.serve.protocols import own_routes
from nmt.serve.service import Sessions
from nmt.serve.settings import RequestError
from tests.saved_models import sentences, write_folder

LINES = sentences(3, seed=6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("engine") / "model")


def configured(folder, **decoding):
    """The model with other settings in its config.yaml."""
    found = Translator.load(folder, threads=1)
    section = found.config.decoding.model_copy(update=decoding)
    found.config = found.config.model_copy(update={"decoding": section})
    return found


@pytest.mark.parametrize(
    ("decoding", "reason"),
    [
        ({}, "compiled loop: model and settings allow it"),
        ({"min_length": 2}, "step by step: a compiled loop lacks min_length"),
        ({"mbr": "chrf"}, "compiled loop: mbr compares several translations"),
    ],
)
def test_a_model_without_a_live_search_says_why_and_answers(decoding, reason, folder, caplog):
    translator = configured(folder, **decoding)
    with caplog.at_level(logging.INFO, "nmt.serve"):
        served = Engine(translator)
    try:
        told = [one.getMessage() for one in caplog.records if ": requests " in one.getMessage()]
        how = "are translated in small batches" if decoding else "share one search"
        assert told == [f"{translator.config.name}: requests {how}, {reason}"]
        found = asyncio.run(served.translate(LINES))
        assert [one[0].text for one in found] == translator.translate(LINES)
    finally:
        served.close()


def test_a_model_of_edits_answers_without_details(tmp_path):
    """The page asks for alternatives with their words and probabilities."""
    decoder = {"edit_actions": True, "attention": "none", "input_feeding": False}
    folder = write_folder(tmp_path / "edits", subwords="char", decoder=decoder)
    served = Engine(Translator.load(folder, threads=1))
    try:
        found = asyncio.run(served.translate(["kara losu"], Ask(3, details=True)))
        assert [one.detail for one in found[0]] == [None] * len(found[0]) and found[0]
    finally:
        served.close()


def test_a_least_length_that_a_sentence_does_not_allow_is_told(folder):
    served = Engine(configured(folder, min_length=6, max_length_ratio=1.0, max_length_extra=0))
    try:
        found = asyncio.run(served.translate(["kara", "kara losu miti " * 4]))
        assert [LENGTHENED in one[0].warnings for one in found] == [True, False]
    finally:
        served.close()


def test_an_error_in_joining_what_was_found_fails_the_requests_and_not_the_server(folder, monkeypatch):
    served, joined = Engine(configured(folder)), engine.translations_of

    def broken(translator, hypotheses):
        monkeypatch.setattr(engine, "translations_of", joined)
        raise IndexError("no such token")

    monkeypatch.setattr(engine, "translations_of", broken)
    try:
        with pytest.raises(IndexError, match="no such token"):
            asyncio.run(asyncio.wait_for(served.translate(LINES[:1]), 60))
        assert asyncio.run(served.translate(LINES)) == configured(folder).translate_nbest(LINES)
    finally:
        served.close()


def test_an_error_in_making_the_search_is_no_reason_to_go_on_without(folder, monkeypatch):
    def broken(*args, **settings):
        raise ValueError("shapes differ")

    monkeypatch.setattr(engine, "LiveSearch", broken)
    with pytest.raises(ValueError, match="shapes differ"):
        Engine(configured(folder))


@pytest.mark.parametrize("decoding", [{"sampling": True, "beam_size": 1}], ids=str)
def test_completions_that_a_model_cannot_give_are_refused_in_one_line(decoding, folder, monkeypatch):
    translator = configured(folder, **decoding)
    models._warm_up(translator)  # a thread's life: whatever it raises is a traceback in the log
    fields = {"q": LINES[0], "typed": "", "source": "xx", "target": "yy"}

    async def pair(*args):
        return SimpleNamespace(engine=SimpleNamespace(translator=translator), generation=1), None

    async def asked(request):
        return service, fields, ""

    async def connected(request, work):
        return await work

    settings = SimpleNamespace(limits=SimpleNamespace(seconds=30))
    service = SimpleNamespace(
        check=lambda *args: None,
        pair=pair,
        sessions=Sessions(),
        settings=settings,
        in_time=lambda seconds: asyncio.timeout(seconds),
    )
    monkeypatch.setattr(own_routes.web, "read_request", asked)
    monkeypatch.setattr(own_routes.web, "while_connected", connected)

    async def ask():
        await own_routes.complete(SimpleNamespace())

    with pytest.raises(RequestError, match="decoding.* must be .* for a session") as told:
        asyncio.run(ask())
    assert told.value.status == 400


def test_an_engine_that_lacks_a_thread_ends_those_that_run(folder, monkeypatch):
    started = []

    class Refused(threading.Thread):
        def start(self):
            if started:
                raise RuntimeError("can't start new thread")
            started.append(self)
            super().start()

    monkeypatch.setattr(engine, "Thread", Refused)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        Engine(Translator.load(folder, threads=1))
    started[0].join(10)
    assert not started[0].is_alive()
