"""Sentences that came before: the same bytes without a search, in bounded memory, and never those of another model."""

import asyncio
import json
import signal
import tracemalloc

import numpy as np
import pytest

from nmt.inference.translation import Detail, Translation
from nmt.inference.translator import Translator
from nmt.serve import service as service_module
from nmt.serve.engine import Ask, Engine
from nmt.serve.limits import FullError, SentenceCache
from nmt.serve.settings import RequestError
from tests.saved_models import sentences, write_folder
from tests.serve.servers import asked, model_folder, running
from tests.serve.test_service import served, service_of
from tests.waiting import until


def translations(text, count=1):
    detail = Detail(["▁a", "</s>"], [-0.5, -0.25], ["▁b"], np.array([[0.75, 0.25], [0.5, 0.5]]), [(0, 0)], ["careful"])
    return [Translation(text, -1.5, -0.75, detail, ("faint",), 2) for _ in range(count)]


def test_what_comes_back_is_what_was_kept():
    cache = SentenceCache(10**6)
    given = translations("x", 3)
    cache.put("o", "s", given)
    found = cache.get("o", "s")
    for one, other in zip(found, given, strict=True):
        assert (one.text, one.score, one.log_prob, one.warnings) == (
            other.text,
            other.score,
            other.log_prob,
            ("faint",),
        )
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


def texts(service, model, sentences, ask=None):
    found = asyncio.run(service.ask(model, sentences, ask or Ask(), ""))
    return [translations[0].text for translations in found]


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
    with pytest.raises(Exception, match="too little memory"):
        texts(service, model, ["x"])
    model.engine.error = None
    assert texts(service, model, ["x"]) == ["a x"]


def test_a_document_that_is_all_in_the_cache_lets_others_run():
    service = service_of(served("a"))
    (model,) = service.models.all
    text = [f"x {n}" for n in range(2_000)]
    texts(service, model, text)
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run():
        other = asyncio.ensure_future(others())
        await service.ask(model, text, Ask(), "")
        other.cancel()

    asyncio.run(run())
    assert len(model.engine.calls) == 8 and turns >= 4  # two pieces of 256 at a time


def test_a_text_whose_beginning_is_known_is_no_exception_to_the_limit(monkeypatch):
    monkeypatch.setattr(service_module, "_PIECE", 40)
    service = service_of(served("a"))
    (model,) = service.models.all
    text = [f"x {n}" for n in range(130)]
    texts(service, model, text[:40])
    model.engine.error = FullError
    with pytest.raises(RequestError, match="more to translate than may wait"):
        texts(service, model, text)
    model.engine.error, model.engine.calls = None, []
    assert texts(service, model, text) == [f"a {one}" for one in text]
    assert [more["accepted"] for _, more in model.engine.calls] == [False, True, True]


def test_samples_are_the_same_again(tmp_path):
    """Sampling is drawn from the seed and the sentence: a kept sample is what a search would draw again."""
    translator = Translator.load(write_folder(tmp_path / "model", seed=6), threads=1)
    section = translator.config.decoding.model_copy(update={"sampling": True})
    translator.config = translator.config.model_copy(update={"decoding": section})
    engine, lines = Engine(translator), sentences(6, seed=3)
    try:
        first = asyncio.run(engine.translate(lines, Ask(2)))
        again = asyncio.run(engine.translate([*lines[3:], *lines[:3]], Ask(2)))
    finally:
        engine.close()
    assert first == again[3:] + again[:3] and len({one[0].text for one in first}) > 1


# ---------------------------------------------------------------- in a server


@pytest.fixture(scope="module")
def cached(folder):
    with running(folder, "--no-split", "--cache", 10**6) as one:
        yield one


def counts(server):
    """Hits and misses."""
    lines = server.ask("/metrics")[2].decode().splitlines()
    return tuple(
        int(float(line.split()[1]))
        for name in ("hits", "misses")
        for line in lines
        if line.startswith(f"nmt_cache_{name}_total ")
    )


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


def test_models_that_are_loaded_again_translate_again(tmp_path, lines):
    place = model_folder(tmp_path / "model")
    other = model_folder(tmp_path / "other", seed=5)
    with running(place, "--no-split") as server:
        first = server.json("/translate", asked(lines[0]))
        for path in other.iterdir():
            path.replace(place / path.name)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: any("are reloaded" in one for one in server.log))
        assert server.json("/translate", asked(lines[0])) != first


def test_it_can_be_turned_off(folder, lines):
    with running(folder, "--no-split", "--cache", 0) as server:
        first, again = (server.json("/translate", asked(lines[0])) for _ in range(2))
        assert first == again and counts(server) == (0, 2)
        assert b"nmt_cache_bytes 0.0" in server.ask("/metrics")[2]
