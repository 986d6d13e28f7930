"""What lies between requests and engines: models that are replaced, long texts in pieces."""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra [serve]")

from nmt.documents import passage
from nmt.errors import CheckpointError, ConfigError
from nmt.inference.translation import Translation
from nmt.serve import app
from nmt.serve import models as models_module
from nmt.serve import service as service_module
from nmt.serve.engine import Ask
from nmt.serve.limits import ClosedError, FullError, Gate
from nmt.serve.models import Detector, Models, ServedModel
from nmt.serve.service import Service, TextOptions
from nmt.serve.settings import Limits, RequestError, ServerSettings
from tests.serve.servers import model_folder


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


def texts(service, model, sentences):
    found = asyncio.run(service.ask(model, sentences, Ask(), ""))
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
    with pytest.raises(RequestError, match="more to translate than may wait"):
        texts(service, service.models.all[0], ["x"] * 100)


def test_keys_that_others_can_read_are_warned_of(tmp_path, caplog):
    path = tmp_path / "keys"
    for mode, warned in ((0o600, False), (0o640, True)):
        path.write_text("one\n")
        path.chmod(mode)
        caplog.clear()
        ServerSettings((), keys=str(path)).read_keys()
        assert ("must be readable by its user alone" in caplog.text) == warned


def test_keys_are_read_anew(tmp_path, monkeypatch):
    path = Path(tmp_path / "keys")
    path.write_text("one\n")
    service = service_of(served("a"))
    service.settings = ServerSettings((), keys=str(path))
    monkeypatch.setattr(service_module, "load_models", lambda settings: served("a"))
    service.models.all[0].engine.close = lambda: None

    async def reloaded(text):
        path.write_text(text)
        service.models.all[0].engine.close = lambda: None
        await service.reload()

    asyncio.run(reloaded("two\n"))
    assert service.gate.enter("two", "")
    with pytest.raises(RequestError):
        service.gate.enter("one", "")


def test_long_texts_are_looked_at_beside_the_loop(monkeypatch):
    """Found by the benchmark: a document of 5,000 lines kept everybody waiting for a third of a second."""
    service = service_of(served("a"))
    looks = []
    find = passage.scanned
    monkeypatch.setattr(passage, "scanned", lambda text: looks.append(text) or find(text))

    async def translate(count):
        texts = [f"x {n}" for n in range(count)]
        return await service.translate(service.models.all[0], texts, TextOptions(split=False), "")

    try:
        assert len(asyncio.run(translate(900))) == 900 and looks == []
        assert len(asyncio.run(translate(3))) == 3 and looks
    finally:
        service.box.close()


def test_answers_do_not_wait_for_acknowledgements():
    """Found by the benchmark: each answer took 40 ms longer, whatever the model."""
    from nmt.serve.server import listen_on

    async def delays():
        found = asyncio.get_running_loop().create_future()
        place = listen_on("127.0.0.1", 0)

        def connected(reader, writer):
            plug = writer.get_extra_info("socket")
            found.set_result(plug.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(connected, sock=place):
            _, writer = await asyncio.open_connection(*place.getsockname())
            result = await found
            writer.close()
        return result

    assert asyncio.run(delays()) == 1


def test_a_wrong_path_is_the_only_thing_said(tmp_path):
    """It was "loading 1 models" first."""
    command = [
        sys.executable,
        "-c",
        "from nmt.cli.entry import serve; serve()",
        str(tmp_path / "gone"),
        "--port",
        "0",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1 and ended.stdout == ""
    assert ended.stderr == f"Error: {tmp_path}/gone: no such folder; check the path\n"


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
    with pytest.raises(CheckpointError):
        models_module.load_models(ServerSettings((tmp_path / "a", tmp_path / "b")))
    assert closed == ["first"]


@pytest.mark.parametrize("features", [(), (7,)])
def test_a_word_with_features_is_not_divided(monkeypatch, tmp_path, features):
    """The points in `walk +V.PTCP +SG` had ended a sentence: its features were translated as another."""
    folder = model_folder(tmp_path / "model")
    monkeypatch.setattr(models_module, "feature_ids", lambda subwords: features)
    one = models_module._load(folder, ServerSettings((folder,)), set())
    one.engine.close()
    assert (one.splitter is None) == bool(features)
