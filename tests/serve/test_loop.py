"""What a request costs the loop that answers everybody: few calls of the system, and none that others wait for."""

import asyncio
import io
import json
import logging
import os
import re
import sys
import threading
from contextlib import closing
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tests.refusals import refused

pytest.importorskip("starlette", reason="needs the extra [serve]")

import uvicorn
from starlette.requests import Request

from nmt.documents import placeholders
from nmt.inference.translation import LENGTHENED
from nmt.inference.translator import Translator
from nmt.serve import app, engine, http_protocol, models, server, web
from nmt.serve.engine import Ask, Engine
from nmt.serve.log import log_handler
from nmt.serve.protocols import own_routes
from nmt.serve.service import Sessions
from nmt.serve.settings import RequestError
from tests.saved_models import sentences, write_folder
from tests.waiting import at_once, beside


class Transport:
    """Keeps what it is to send."""

    def __init__(self):
        self.sent, self.closed, self.reads = [], False, True

    def pause_reading(self):
        self.reads = False

    def resume_reading(self):
        self.reads = True

    def get_extra_info(self, name):
        return Mock() if name == "socket" else None

    def write(self, data):
        assert not self.closed
        self.sent.append(data)

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


async def test_head_and_body_of_an_answer_are_sent_together():
    transport = Transport()
    joined = http_protocol._JoinedWrites(transport, asyncio.get_running_loop())
    joined.write(b"head")
    joined.write(b"body")
    assert transport.sent == []
    await asyncio.sleep(0)
    assert transport.sent == [b"headbody"]
    joined.write(b"last")
    joined.close()
    await asyncio.sleep(0)
    assert transport.sent == [b"headbody", b"last"] and joined.is_closing()
    joined.write(b"too late")
    await asyncio.sleep(0)
    assert transport.sent == [b"headbody", b"last"]


async def test_long_answers_do_not_wait_in_memory():
    transport = Transport()
    joined = http_protocol._JoinedWrites(transport, asyncio.get_running_loop())
    for _ in range(5):
        joined.write(b"x" * 50_000)
    assert sum(map(len, transport.sent)) >= 200_000
    await asyncio.sleep(0)
    assert sum(map(len, transport.sent)) == 250_000


async def test_a_connection_is_read_while_its_request_is_answered_so_that_a_departure_is_noticed():
    """Also where the end of the body came in one large piece, which pauses reading."""
    has_all, is_gone = asyncio.Event(), asyncio.Event()

    async def application(scope, receive, send):
        while (await receive())["more_body"]:
            pass
        has_all.set()
        await scope["nmt.departed"]
        is_gone.set()

    config = uvicorn.Config(application, http=http_protocol.GuardedProtocol, lifespan="off")
    config.load()
    protocol = config.http_protocol_class(config, uvicorn.server.ServerState(), {})
    transport = Transport()
    protocol.connection_made(transport)
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
    protocol.data_received(head % 100_000)
    await asyncio.sleep(0)  # the application waits for the body
    protocol.data_received(b"x" * 100_000)
    await has_all.wait()
    assert transport.reads
    # A second request has to wait until the first one is answered, and nothing else is read.
    protocol.data_received(head % 3 + b"xyz")
    await asyncio.sleep(0)
    assert not transport.reads
    protocol.connection_lost(None)
    await is_gone.wait()


async def test_an_ending_server_leaves_a_connection_open_that_has_not_asked_yet():
    """It was closed, and a request that was on its way, such as the question whether the server is ending, was lost."""
    config = uvicorn.Config(Mock(), http=http_protocol.GuardedProtocol, lifespan="off")
    config.load()
    ending = server._Server(config, SimpleNamespace(is_ending=False), "")
    protocol, transport = config.http_protocol_class(config, ending.server_state, {}), Transport()
    protocol.connection_made(transport)
    ending.server_state.tasks.add(asyncio.ensure_future(asyncio.sleep(60)))  # a request that is answered meanwhile
    whole = asyncio.ensure_future(ending.shutdown())
    while not ending._service.is_ending:
        await asyncio.sleep(0)
    assert not transport.is_closing()
    whole.cancel()


def request_of(departed):
    return Request({"type": "http", "method": "POST", "headers": [], "nmt.departed": departed})


async def test_who_goes_cancels_the_work_and_nothing_else():
    ended = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    departed = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(departed.set_result, None)
    with pytest.raises(RequestError) as caught:
        await web.while_connected(request_of(departed), work())
    assert caught.value.status == 499 and ended == [1]
    assert not asyncio.current_task().cancelling()
    with pytest.raises(RequestError):  # the client has gone before
        await web.while_connected(request_of(departed), work())
    await asyncio.sleep(0)


async def test_who_stays_gets_the_result_and_is_forgotten():
    departed = asyncio.get_running_loop().create_future()

    async def work():
        await asyncio.sleep(0)
        return 7

    assert await web.while_connected(request_of(departed), work()) == 7
    departed.set_result(None)
    await asyncio.sleep(0)  # nobody is cancelled


async def test_a_server_that_ends_is_no_client_that_goes():
    task = asyncio.ensure_future(
        web.while_connected(request_of(asyncio.get_running_loop().create_future()), asyncio.Event().wait())
    )
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_loop_is_woken_once_for_all_that_are_done(monkeypatch):
    loop = asyncio.get_running_loop()
    outbox = engine._Outbox(loop)

    def one_of(job):
        return engine._Sentence(job, 0, "a", [4], False, "a")

    jobs = [engine._Job(engine.Ask(), False, outbox, loop.create_future(), [[]], 1) for _ in range(20)]
    wakes, wake = [], loop.call_soon_threadsafe
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *given: wakes.append(1) or wake(*given))

    def end():
        engine._answer([one_of(job) for job in jobs[:19]], 19 * [[]])
        jobs[19].fail(KeyError())

    at_once(end)
    found = await asyncio.gather(*(job.future for job in jobs), return_exceptions=True)
    assert len(wakes) == 1
    assert found[:19] == [None] * 19 and isinstance(found[19], KeyError)
    one = engine._Job(engine.Ask(), False, outbox, loop.create_future(), [[]], 1)
    engine._answer([one_of(one)], [[]])
    await one.future
    assert len(wakes) == 2


def record(text, level=logging.INFO, error=None):
    return logging.LogRecord("a", level, "", 0, text, (), error)


def test_the_log_is_written_by_a_thread_of_its_own_in_order():
    class Stream(io.StringIO):
        threads = set()

        def write(self, text):
            self.threads.add(threading.get_ident())
            return super().write(text)

    stream = Stream()
    handler, listener = log_handler(stream)
    for n in range(200):
        handler.handle(record(f"line {n}"))
    try:
        raise KeyError("lost")
    except KeyError:
        handler.handle(record("a mistake", logging.ERROR, sys.exc_info()))
    listener.stop()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == [f"line {n}" for n in range(200)] + ["a mistake"]
    assert lines[-1]["traceback"].endswith("KeyError: 'lost'")
    assert threading.get_ident() not in stream.threads


def test_a_log_that_is_not_read_holds_up_nobody():
    """A pipe whose reader has stopped: not even a warning waits for it."""
    reader, writer = os.pipe()
    with open(writer, "w") as stream:
        os.set_blocking(writer, True)
        handler, listener = log_handler(stream)
        for _ in range(200):
            handler.handle(record("x" * 1000, logging.WARNING))  # more than a pipe holds
        with beside(lambda: [None for _ in iter(lambda: os.read(reader, 65536), b"")]):
            listener.stop()
            stream.close()
    os.close(reader)


def test_nobody_who_reads_the_log_harms_no_request(capfd):
    class Stream(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    handler, listener = log_handler(Stream())
    for level in (logging.INFO, logging.ERROR):
        handler.handle(record("said", level))
    listener.stop()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("text", ["plain", "50 %", "x@y.de", "{n}", "see www.a.de", "HTTP://A.DE/x", "%s and ٣", "a/b"])
def test_a_look_for_placeholders_misses_none(text):
    whole = [found[0] for found in re.finditer(placeholders._PATTERN, text)]
    assert [one.text for one in placeholders.placeholders_of(text)] == whole


def test_paths_are_looked_up_and_others_routed():
    assert app._BY_PATH["/translate", "POST"].endpoint is app.libretranslate.translate
    assert ("/translate", "GET") not in app._BY_PATH and not any("{" in path for path, _ in app._BY_PATH)
    scope = {"type": "http", "method": "POST", "path": "/translate"}
    assert app.route_of(scope) == "/translate"
    assert app.route_of(scope | {"path": "/download_file/a"}) == "/download_file/{name}"
    assert app.route_of(scope | {"path": "/nowhere"}) == "other"


HOSTILE = {
    "lists": b"[" + b"[]," * 50_000 + b"0]",
    "numbers": b"[" + b"0," * 100_001 + b"0]",
    "objects": b"[" + b"{}," * 50_000 + b"0]",
    "names": b"{" + b",".join(b'"%d":0' % n for n in range(100_001)) + b"}",
    "texts": b'["' + b'","'.join(b"%d" % n for n in range(100_001)) + b'"]',
    "texts without end": b'[["' * 120_000,
    "brackets before a text without end": b"[" * 100_001 + b'"' + b'\\"' * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(name, monkeypatch):
    """The parser held up the loop for a third of a second for each 2 MiB of them."""
    monkeypatch.setattr(web.json, "loads", lambda text: pytest.fail("parsed"))
    refused(RequestError, "body: must have at most 100,000 values, got more", web.parse_json, HOSTILE[name])


def test_commas_and_brackets_of_a_text_are_no_values():
    for text in ('a, [b], {c} "said" \\ ' * 40_000, "\\" * 7 + ',"' * 100_001):
        assert web.parse_json(json.dumps({"q": [text, "x"]}).encode()) == {"q": [text, "x"]}


LINES = sentences(3, seed=6)


def configured(folder, **decoding):
    """The model with other settings in its config.yaml."""
    found = Translator.load(folder, threads=1)
    found.config = found.config.with_changes({f"decoding.{name}": value for name, value in decoding.items()})
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
    with caplog.at_level(logging.INFO, "nmt.serve"), closing(Engine(translator)) as served:
        told = [one.getMessage() for one in caplog.records if ": requests " in one.getMessage()]
        how = "are translated in small batches" if decoding else "share one search"
        assert told == [f"{translator.config.name}: requests {how}, {reason}"]
        found = asyncio.run(served.translate(LINES))
        assert [one[0].text for one in found] == translator.translate(LINES)


def test_a_model_of_edits_answers_without_details(tmp_path):
    """The page asks for alternatives with their words and probabilities."""
    decoder = {"edit_actions": True, "attention": "none", "input_feeding": False}
    folder = write_folder(tmp_path / "edits", subwords="char", decoder=decoder)
    with closing(Engine(Translator.load(folder, threads=1))) as served:
        found = asyncio.run(served.translate(["kara losu"], Ask(3, details=True)))
        assert [one.detail for one in found[0]] == [None] * len(found[0]) and found[0]


def test_a_least_length_that_a_sentence_does_not_allow_is_told(folder):
    with closing(Engine(configured(folder, min_length=6, max_length_ratio=1.0, max_length_extra=0))) as served:
        found = asyncio.run(served.translate(["kara", "kara losu miti " * 4]))
        assert [LENGTHENED in one[0].warnings for one in found] == [True, False]


def test_an_error_in_joining_what_was_found_fails_the_requests_and_not_the_server(folder, monkeypatch):
    joined = engine.translations_of

    def broken(translator, hypotheses):
        monkeypatch.setattr(engine, "translations_of", joined)
        raise IndexError("no such token")

    monkeypatch.setattr(engine, "translations_of", broken)
    with closing(Engine(configured(folder))) as served:
        refused(IndexError, "no such token", asyncio.run, asyncio.wait_for(served.translate(LINES[:1]), 60))
        assert asyncio.run(served.translate(LINES)) == configured(folder).translate_nbest(LINES)


def test_an_error_in_making_the_search_is_no_reason_to_go_on_without(folder, monkeypatch):
    def broken(*args, **settings):
        raise ValueError("shapes differ")

    monkeypatch.setattr(engine, "LiveSearch", broken)
    refused(ValueError, "shapes differ", Engine, configured(folder))


async def test_completions_that_a_model_cannot_give_are_refused_in_one_line(folder, monkeypatch):
    translator = configured(folder, sampling=True, beam_size=1)
    models._warm_up(translator)  # a thread's life: whatever it raises is a traceback in the log
    fields = {"q": LINES[0], "typed": "", "source": "xx", "target": "yy"}

    async def pair(*args):
        return SimpleNamespace(engine=SimpleNamespace(translator=translator), generation=1), None

    async def asked(request):
        return service, fields, ""

    async def connected(request, work):
        return await work

    settings = SimpleNamespace(limits=SimpleNamespace(seconds=30))
    service = SimpleNamespace(pair=pair, sessions=Sessions(), settings=settings, in_time=asyncio.timeout)
    service.check = lambda *args: None
    monkeypatch.setattr(own_routes.web, "read_request", asked)
    monkeypatch.setattr(own_routes.web, "while_connected", connected)

    with pytest.raises(RequestError, match="decoding.* must be .* for a session") as told:
        await own_routes.complete(SimpleNamespace())
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
    refused(RuntimeError, "can't start new thread", Engine, Translator.load(folder, threads=1))
    started[0].join(10)
    assert not started[0].is_alive()
