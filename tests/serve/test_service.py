"""What lies between requests and engines: models that are replaced, long texts in pieces."""

import asyncio
import json
import logging
import os
import re
import signal
import socket
import tracemalloc
from contextlib import closing

import numpy as np
import pytest

from tests.refusals import refused

pytest.importorskip("starlette", reason="needs the extra [serve]")

import uvicorn
from uvicorn.server import ServerState

from nmt.documents import passage
from nmt.errors import CheckpointError, ConfigError
from nmt.inference.translation import Detail, Translation
from nmt.inference.translator import Translator
from nmt.serve import app
from nmt.serve import models as models_module
from nmt.serve import service as service_module
from nmt.serve.engine import Ask, Engine
from nmt.serve.http_protocol import GuardedProtocol
from nmt.serve.limits import ClosedError, FullError, Gate, SentenceCache
from nmt.serve.models import Detector, Models, ServedModel
from nmt.serve.server import listen_on
from nmt.serve.service import Service, TextOptions
from nmt.serve.settings import Limits, RequestError, ServerSettings
from tests.saved_models import sentences, write_folder
from tests.serve.servers import asked, model_folder, running
from tests.waiting import until


class FakeEngine:
    """Answers with its name; an error where it is told so."""

    waiting = 0

    def __init__(self, name, error=None):
        self.name, self.error, self.calls, self.at_once, self.most = name, error, [], 0, 0

    async def translate(self, sentences, ask, client, *, admission, **more):
        self.calls.append((len(sentences), more | {"accepted": admission.is_in}))
        if self.error is not None and (self.error is not FullError or not admission.is_in):
            raise self.error
        admission.is_in = True
        self.at_once += len(sentences)
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= len(sentences)
        return [[Translation(f"{self.name} {text}", 0.0, 0.0)] for text in sentences]


def served(*names, **more):
    return Models([ServedModel(n, "en", "de", FakeEngine(n, **more), None, {}, 0, 0, "int8") for n in names])


def service_of(models, **limits):
    limits = Limits(**limits)
    return Service(ServerSettings((), limits=limits), models, Gate({}, limits), Detector())


def texts(service, model, sentences, ask=None):
    found = asyncio.run(service.in_pieces(model, sentences, ask or Ask(), ""))
    return [translations[0].text for translations in found]


def test_a_model_by_name_is_that_of_the_name_after_it_is_loaded_anew():
    service = service_of(served("first", "second"))
    former = service.models.find("en", "de", "second")
    service.models = served("first", "second")
    assert texts(service, former, ["x"]) == ["second x"]
    service.models = served("first")  # it is gone: the pair's first one is what is left
    assert texts(service, former, ["x"]) == ["first x"]


def test_who_comes_to_an_engine_as_it_ends_goes_to_the_next():
    service = service_of(served("a", error=ClosedError))
    former, fresh = service.models, served("a")

    async def translate(*args, **more):
        service.models = fresh
        raise ClosedError

    former.all[0].engine.translate = translate
    assert texts(service, former.all[0], ["x"]) == ["a x"]


def test_at_the_end_nobody_is_let_in():
    service = service_of(served("a", error=ClosedError))
    with pytest.raises(RequestError) as told:
        texts(service, service.models.all[0], ["x"])
    assert told.value.status == 503


def test_a_long_text_waits_in_pieces_and_in_order(monkeypatch):
    monkeypatch.setattr(service_module, "_PIECE", 40)
    service = service_of(served("a"))
    engine = service.models.all[0].engine
    sentences = [str(n) for n in range(201)]
    assert texts(service, service.models.all[0], sentences) == [f"a {one}" for one in sentences]
    assert [count for count, _ in engine.calls] == [40] * 5 + [1] and engine.most == 80
    assert all(more["is_bulk"] for _, more in engine.calls)  # the last sentence is one of a long text, too
    assert [more["accepted"] for _, more in engine.calls] == [False] + [True] * 5


def test_what_fails_in_a_piece_is_told_as_it_is(monkeypatch):
    monkeypatch.setattr(service_module, "_PIECE", 40)
    service = service_of(served("a", error=FullError))
    refused(RequestError, "more to translate than may wait", texts, service, service.models.all[0], ["x"] * 100)


def test_keys_that_others_can_read_are_warned_of(tmp_path, caplog):
    path = tmp_path / "keys"
    for mode, warned in ((0o600, False), (0o640, True)):
        path.write_text("one\n")
        path.chmod(mode)
        caplog.clear()
        ServerSettings((), keys=str(path)).read_keys()
        assert ("must be readable by its user alone" in caplog.text) == warned


def test_keys_are_read_anew(tmp_path, monkeypatch):
    path = tmp_path / "keys"
    service = service_of(served("a"))
    service.settings = ServerSettings((), keys=str(path))
    monkeypatch.setattr(service_module, "load_models", lambda settings: served("a"))
    service.models.all[0].engine.close = lambda: None

    path.write_text("two\n")
    asyncio.run(service.reload())
    assert service.gate.enter("two", "")
    refused(RequestError, "", service.gate.enter, "one", "")


def test_long_texts_are_looked_at_beside_the_loop(monkeypatch):
    """Found by the benchmark: a document of 5,000 lines kept everybody waiting for a third of a second."""
    service = service_of(served("a"))
    looks = []
    find = passage.scanned
    monkeypatch.setattr(passage, "scanned", lambda text: looks.append(text) or find(text))

    async def translate(count):
        texts = [f"x {n}" for n in range(count)]
        return await service.translate(service.models.all[0], texts, TextOptions(split=False), "")

    with closing(service.box):
        assert len(asyncio.run(translate(900))) == 900 and looks == []
        assert len(asyncio.run(translate(3))) == 3 and looks


async def test_answers_do_not_wait_for_acknowledgements():
    """Found by the benchmark: each answer took 40 ms longer, whatever the model."""
    config = uvicorn.Config(app.make_app, log_config=None)
    config.load()
    loop = asyncio.get_running_loop()
    found, place = loop.create_future(), listen_on("127.0.0.1", 0)

    class Asked(GuardedProtocol):
        def connection_made(self, transport):
            super().connection_made(transport)
            found.set_result(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    async with await loop.create_server(lambda: Asked(config, ServerState(), {}), sock=place):
        _, writer = await asyncio.open_connection(*place.getsockname())
        writer.close()
        assert await found


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), ValueError("a bug"), ConfigError("keys: x")])
def test_a_reload_that_fails_in_any_way_does_not_end_the_watch_for_the_next_one(error, caplog):
    """Found by faults: without a thread to load in, the task ended, and later signals did nothing."""
    service, tried = service_of(served("a")), []

    async def reload():
        tried.append(1)
        if len(tried) == 1:
            raise error

    async def watched():
        watch = asyncio.ensure_future(app._reloading(service))
        for number in (1, 2):
            await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGHUP)
            while len(tried) < number:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        watch.cancel()

    service.reload = reload
    former = signal.getsignal(signal.SIGHUP)
    with caplog.at_level(logging.INFO, "nmt.serve"):
        asyncio.run(asyncio.wait_for(watched(), 20))
    signal.signal(signal.SIGHUP, former)
    failed, done = [one for one in caplog.records if "reload" in one.getMessage()]
    assert str(error).partition(":")[0].split()[-1] in failed.getMessage() and "are reloaded" in done.getMessage()
    assert (failed.exc_info is not None) == isinstance(error, ValueError)  # a bug keeps its traceback


def test_models_that_were_loaded_before_one_that_fails_are_closed(monkeypatch, tmp_path):
    """Found by faults: each reload that failed left the threads and the parameters of the models before."""
    closed = []

    def load(path, settings, taken):
        if taken:
            raise CheckpointError("the second model is broken")
        (one,) = served("first").loaded
        one.engine.close = lambda: closed.append(one.name)
        return one

    monkeypatch.setattr(models_module, "_load", load)
    monkeypatch.setattr(models_module, "check_folder", lambda path: None)
    refused(CheckpointError, "", models_module.load_models, ServerSettings((tmp_path / "a", tmp_path / "b")))
    assert closed == ["first"]


@pytest.mark.parametrize("features", [(), (7,)])
def test_a_word_with_features_is_not_divided(monkeypatch, tmp_path, features):
    """The points in `walk +V.PTCP +SG` had ended a sentence: its features were translated as another."""
    folder = model_folder(tmp_path / "model")
    monkeypatch.setattr(models_module, "feature_ids", lambda subwords: features)
    one = models_module._load(folder, ServerSettings((folder,)), set())
    one.engine.close()
    assert (one.splitter is None) == bool(features)


def translations(text, count=1):
    detail = Detail(["▁a", "</s>"], [-0.5, -0.25], ["▁b"], np.array([[0.75, 0.25], [0.5, 0.5]]), [(0, 0)], ["careful"])
    return [Translation(text, -1.5, -0.75, detail, ("faint",), 2) for _ in range(count)]


def test_what_comes_back_is_what_was_kept():
    cache = SentenceCache(10**6)
    given = translations("x", 3)
    cache.put("o", "s", given)
    found = cache.get("o", "s")
    for one, other in zip(found, given, strict=True):
        assert (one.text, one.score, one.log_prob) == (other.text, other.score, other.log_prob)
        assert one.warnings == ("faint",)
        assert one.confidence == other.confidence and one.detail.alignment == other.detail.alignment
        assert one.detail.attention.tobytes() == other.detail.attention.tobytes()
    found[0].detail.warnings.append("of a caller")
    assert cache.get("o", "s")[0].detail.warnings == ["careful"]
    assert cache.get("o", "other") is None and cache.get("p", "s") is None


def test_the_least_recently_used_goes_first():
    one = SentenceCache(10**6)
    one.put("o", "0", translations("x"))
    cache = SentenceCache(3 * one.size)
    for name in "012":
        cache.put("o", name, translations("x"))
    assert cache.get("o", "0") is not None
    cache.put("o", "3", translations("x"))
    assert [cache.get("o", name) is not None for name in "0123"] == [True, False, True, True]
    for _ in range(5):
        cache.put("o", "0", translations("x"))  # again: it is counted once
    assert len(cache) == 3 and cache.size == 3 * one.size


@pytest.mark.parametrize("most", [0, 1, 100])
def test_what_does_not_fit_is_not_kept(most):
    cache = SentenceCache(most)
    cache.put("o", "s", translations("x"))
    assert (cache.get("o", "s"), len(cache), cache.size) == (None, 0, 0)


@pytest.mark.parametrize("with_details", [False, True])
def test_memory_stays_within_the_bound(with_details):
    """Counted by Python, not by the cache."""
    most = 2 * 2**20
    cache = SentenceCache(most)
    given = translations("ä" * 40) if with_details else [Translation("ä" * 40, -1.0, -1.0, length=9)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for n in range(20_000):
            cache.put((7, 1, False, b""), f"sentence number {n} of a long text", given)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.5 * most < cache.size <= most
    assert used <= most
    cache.clear()
    assert (len(cache), cache.size) == (0, 0)


# ---------------------------------------------------------------- in the service


def test_equal_sentences_are_searched_once():
    service = service_of(served("a"))
    (model,) = service.models.all
    assert texts(service, model, ["x", "y", "x", "x"]) == ["a x", "a y", "a x", "a x"]
    assert [count for count, _ in model.engine.calls] == [2]
    assert texts(service, model, ["x", "z"]) == ["a x", "a z"]
    assert [count for count, _ in model.engine.calls] == [2, 1]
    text = service.measures.text().decode()
    assert "nmt_cache_hits_total 3.0" in text and "nmt_cache_misses_total 3.0" in text
    assert f"nmt_cache_bytes {float(service.cache.size)}" in text


def test_other_options_and_models_are_other_entries():
    service = service_of(served("a", "b"))
    first, second = service.models.all
    asks = [Ask(), Ask(2), Ask(details=True), Ask(glossary=(("x", "y"),)), Ask(glossary=(("x", "z"),))]
    for ask in asks * 2:
        texts(service, first, ["x"], ask)
    assert len(first.engine.calls) == len(asks)
    assert texts(service, second, ["x"]) == ["b x"]


def test_a_model_that_was_loaded_again_is_asked_again():
    service = service_of(served("a"))
    former = service.models.all[0]
    texts(service, former, ["x"])
    service.models = served("a")
    texts(service, former, ["x"])
    assert len(service.models.all[0].engine.calls) == 1


def test_errors_are_not_kept():
    service = service_of(served("a", error=MemoryError))
    (model,) = service.models.all
    refused(Exception, "too little memory", texts, service, model, ["x"])
    model.engine.error = None
    assert texts(service, model, ["x"]) == ["a x"]


def test_a_document_that_is_all_in_the_cache_lets_others_run():
    service = service_of(served("a"))
    (model,) = service.models.all
    text = [f"x {n}" for n in range(2_000)]
    texts(service, model, text)
    turns = []

    async def others():
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    async def run():
        other = asyncio.ensure_future(others())
        await service.in_pieces(model, text, Ask(), "")
        other.cancel()

    asyncio.run(run())
    assert len(model.engine.calls) == 8 and len(turns) >= 4  # two pieces of 256 at a time


def test_a_text_whose_beginning_is_known_is_no_exception_to_the_limit(monkeypatch):
    monkeypatch.setattr(service_module, "_PIECE", 40)
    service = service_of(served("a"))
    (model,) = service.models.all
    text = [f"x {n}" for n in range(130)]
    texts(service, model, text[:40])
    model.engine.error = FullError
    refused(RequestError, "more to translate than may wait", texts, service, model, text)
    model.engine.error, model.engine.calls = None, []
    assert texts(service, model, text) == [f"a {one}" for one in text]
    assert [more["accepted"] for _, more in model.engine.calls] == [False, True, True]


def test_samples_are_the_same_again(tmp_path):
    """Sampling is drawn from the seed and the sentence: a kept sample is what a search would draw again."""
    translator = Translator.load(write_folder(tmp_path / "model", seed=6), threads=1)
    translator.config = translator.config.with_changes({"decoding.sampling": True})
    lines = sentences(6, seed=3)
    with closing(Engine(translator)) as engine:
        first = asyncio.run(engine.translate(lines, Ask(2)))
        again = asyncio.run(engine.translate([*lines[3:], *lines[:3]], Ask(2)))
    assert first == again[3:] + again[:3] and len({one[0].text for one in first}) > 1


# ---------------------------------------------------------------- in a server


@pytest.fixture(scope="module")
def cached(folder):
    with running(folder, "--no-split", "--cache", 10**6) as one:
        yield one


def counts(server):
    """Hits and misses."""
    found = re.findall(r"(?m)^nmt_cache_(hits|misses)_total (\d+)", server.ask("/metrics")[2].decode())
    return tuple(int(number) for _, number in sorted(found))


@pytest.mark.parametrize(
    "path, body",
    [
        ("/translate", asked("{}", alternatives=3, confidence=True)),
        ("/translate", asked("<p>{} <b>{}</b></p>", format="html")),
        ("/translate", asked("{}", glossary=[["kara", "losu"]])),
        ("/api/sentences", asked("{}\n{}", alternatives=2)),
        ("/v2/translate", {"text": "{}", "source_lang": "EN", "target_lang": "DE", "confidence": True}),
    ],
)
def test_a_hit_is_the_same_bytes(cached, path, body, lines):
    given = json.loads(json.dumps(body).replace("{}", lines[7]))
    first, before = cached.ask(path, given)[2], counts(cached)
    again, after = cached.ask(path, given)[2], counts(cached)
    assert first == again
    assert after[0] > before[0] and after[1] == before[1]


def test_the_log_counts_them(cached, lines):
    cached.json("/translate", asked(lines[8:11]), headers={"X-Request-Id": "first-1"})
    cached.json("/translate", asked([*lines[9:12], lines[9]]), headers={"X-Request-Id": "second-2"})

    def line(name):
        return next((json.loads(one) for one in cached.log if f'"{name}"' in one), None)

    until(lambda: line("second-2"))
    assert (line("first-1")["sentences"], line("first-1")["cached"]) == (3, 0)
    assert (line("second-2")["sentences"], line("second-2")["cached"]) == (4, 3)


def test_it_can_be_turned_off(folder, lines):
    with running(folder, "--no-split", "--cache", 0) as server:
        first, again = (server.json("/translate", asked(lines[0])) for _ in range(2))
        assert first == again and counts(server) == (0, 2)
        assert b"nmt_cache_bytes 0.0" in server.ask("/metrics")[2]
