"""A server of de-en and en-fr translates de-fr: in every protocol, with markup, files and glossaries."""

import asyncio
import json

import pytest

from nmt import Pivot, Translator
from nmt.serve.engine import Ask
from nmt.serve.models import Models, ServedModel
from nmt.serve.settings import RequestError
from tests.refusals import refused
from tests.serve.servers import model_folder, multipart, running
from tests.serve.test_service import FakeEngine, service_of


class Fake(FakeEngine):
    """Remembers in which texts the phrases of a glossary are."""

    terms_in = None

    async def translate(self, sentences, ask, client, *, terms_in=None, **more):
        self.terms_in = terms_in
        return await super().translate(sentences, ask, client, **more)


def models(*pairs, **more):
    found = []
    for pair in pairs:
        source, target = pair.split(">")
        found.append(ServedModel(pair, source, target, Fake(pair), None, {}, 0, 5, "int8"))
    return Models(found, **more)


def pairs(found):
    return [(one.name, one.source, one.target, one.via) for one in found.all[len(found.loaded) :]]


def test_pairs_that_no_model_translates_are_made_of_two():
    assert pairs(models("de>en", "en>fr")) == [("de>en+en>fr", "de", "fr", "en")]
    assert pairs(models("de>en", "fr>en")) == [] == pairs(models("de>en"))
    assert pairs(models("de>en", "en>de")) == []  # not from a language into itself
    assert pairs(models("de>en", "en>fr", "de>fr")) == []
    two = [("de>en+en>fr", "de", "fr", "en"), ("en>fr+fr>it", "en", "it", "fr")]  # de>it would need three
    assert pairs(models("de>en", "en>fr", "fr>it")) == two
    assert pairs(models("de>en", "en>fr", pivots=False)) == []


def test_the_order_of_the_models_decides():
    given = ["de>es", "de>en", "en>fr", "es>fr"]
    assert pairs(models(*given))[0] == ("de>es+es>fr", "de", "fr", "es")
    assert pairs(models(given[1], given[0], *given[2:]))[0] == ("de>en+en>fr", "de", "fr", "en")


def test_regions_do_not_matter():
    assert pairs(models("de-AT>en-GB", "en_US>fr")) == [("de-AT>en-GB+en_US>fr", "de-AT", "fr", "en_US")]
    assert pairs(models("de-AT>en-GB", "en_US>fr", "de>fr-CA")) == []


def test_the_last_translates_what_the_first_says():
    service = service_of(models("de>en", "en>fr"))
    model = service.models.find("de", "fr")
    found = asyncio.run(service.in_pieces(model, ["x", "z"], Ask(3, glossary=(("x", "y"),)), ""))
    assert [one[0].text for one in found] == ["en>fr de>en x", "en>fr de>en z"]
    first, last = (one.engine for one in service.models.loaded)
    assert first.terms_in is None and last.terms_in == ["x", "z"]
    assert [more["accepted"] for _, more in first.calls] == [False] and [m["accepted"] for _, m in last.calls] == [True]


def test_other_pairs_are_refused_as_before():
    found = models("de>en", "en>fr")
    refused(RequestError, "fr to de is not supported", found.find, "fr", "de")
    refused(RequestError, "de to fr by de>en is not supported", found.find, "de", "fr", "de>en")
    assert found.find("de", "fr", "de>en+en>fr").via == "en"


def test_loaded_again_a_pair_is_the_new_one():
    service = service_of(models("de>en", "en>fr"))
    former = service.models.find("de", "fr")
    service.models = models("de>en", "en>fr")
    asyncio.run(service.in_pieces(former, ["x"], Ask(), ""))
    assert [len(one.engine.calls) for one in service.models.loaded] == [1, 1]
    service.models = models("de>en")
    refused(RequestError, "de to fr is not supported", asyncio.run, service.in_pieces(former, ["x"], Ask(), ""))


# ---------------------------------------------------------------- a server


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("pivots")
    return (
        model_folder(place / "de-en", "de", "en", "de-en", seed=6),
        model_folder(place / "en-fr", "en", "fr", "en-fr", seed=3, joint=False, subwords="bpe"),
    )


@pytest.fixture(scope="module")
def server(folders):
    with running(*folders, "--no-split") as one:
        yield one


@pytest.fixture(scope="module")
def pivot(folders):
    return Pivot(*map(Translator.load, folders))


def asked(text, **more):
    return {"q": text, "source": "de", "target": "fr"} | more


def test_the_pair_is_offered_everywhere(server):
    languages = {one["code"]: one["targets"] for one in server.json("/languages")}
    assert languages == {"de": ["en", "fr"], "en": ["fr"], "fr": []}
    assert [one["language"] for one in server.json("/v2/languages?type=target")] == ["EN", "FR"]
    known = server.json("/v2/glossary-language-pairs")["supported_languages"]
    assert {"source_lang": "de", "target_lang": "fr"} in known
    assert "de-fr" in server.json("/MTRestService/ListSupportedLanguagePairs")
    found = server.json("/api/models")["models"]
    assert [(one["name"], one["via"]) for one in found] == [("de-en", None), ("en-fr", None), ("de-en+en-fr", "en")]
    assert server.json("/ready")["models"] == ["de-en", "en-fr"]
    assert any("through a third language: de to fr by de-en+en-fr" in one for one in server.log)


def test_every_protocol_gives_what_python_gives(server, pivot, lines):
    few = lines[:12]
    expected = pivot.translate(few)
    assert len(set(expected)) > 3
    assert server.json("/translate", asked(few))["translatedText"] == expected
    body = {"text": few, "source_lang": "DE", "target_lang": "FR"}
    assert [one["text"] for one in server.json("/v2/translate", body)["translations"]] == expected
    sure = server.json("/translate", asked(few, confidence=True))["confidence"]
    best = pivot.translate_nbest(few, n_best=1)
    assert sure == [pytest.approx(one[0].confidence, abs=1e-4) for one in best]
    alternatives = server.json("/translate", asked(few[0], alternatives=2))["alternatives"]
    assert alternatives == [one.text for one in pivot.translate_nbest(few[:1], n_best=3)[0][1:]]


def test_words_attention_and_completions(server, pivot, lines):
    line = next(one for one in lines if pivot.translate([one])[0])
    (part,) = server.json("/api/sentences", asked(line))["parts"]
    (best,) = pivot.translate_nbest([line], n_best=1)[0]
    assert part["translation"] == best.text and part["source_words"] == line.split()
    assert all(sum(row) == pytest.approx(1, abs=0.1) for row in part["attention"])
    done = server.json("/api/complete", asked(line, typed="miti"))["completions"]
    assert done and all(one.startswith("miti") for one in done)


def test_markup_and_files_keep_their_form(server, pivot, lines):
    text = f"<p>{lines[0]} <b>{lines[1]}</b> <i>x</i></p><pre>y</pre>"
    found = server.json("/translate", asked(text, format="html"))["translatedText"]
    for tag in ("<p>", "<b>", "</b>", "<i>", "</i></p><pre>y</pre>"):
        assert found.count(tag) == 1
    body, headers = multipart("a.txt", "\n".join(lines[:5]).encode(), source="de", target="fr")
    path = server.json("/translate_file", body, headers=headers)["translatedFileUrl"].removeprefix(server.url)
    assert server.ask(path)[2].decode().split("\n") == pivot.translate(lines[:5])


def test_a_glossary_is_of_the_source_and_the_last_language(server, pivot, lines):
    line = next(one for one in lines if len(one.split()) > 2 and pivot.translate([one])[0])
    word = line.split()[1]
    assert "yonu" not in server.json("/translate", asked(line))["translatedText"]
    assert "yonu" in server.json("/translate", asked(line, glossary=[[word, "yonu"]]))["translatedText"]
    entries = {"name": "g", "source_lang": "de", "target_lang": "fr", "entries": f"{word}\tyonu"}
    status, _, content = server.ask("/v2/glossaries", entries)
    assert status == 201
    body = {"text": line, "source_lang": "DE", "target_lang": "FR", "glossary_id": json.loads(content)["glossary_id"]}
    assert "yonu" in server.json("/v2/translate", body)["translations"][0]["text"]


def test_it_can_be_turned_off(folders):
    with running(*folders, "--no-pivot") as server:
        languages = {one["code"]: one["targets"] for one in server.json("/languages")}
        assert languages == {"de": ["en"], "en": ["fr"], "fr": []}
        status, message = server.refused("/translate", asked("kara"))
        assert status == 400 and message.startswith("de to fr is not supported; there are de to en (de-en)")
