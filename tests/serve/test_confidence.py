"""How sure a model is of an answer, in the answers of every protocol: only where it is asked for, and the same number
as in Python."""

import xmlrpc.client

import pytest

from nmt import Translator
from nmt.inference.translation import confidence_in
from tests.serve.servers import asked


@pytest.fixture(scope="module")
def sure(folder, lines):
    """The confidence in each line, as Python has it."""
    found = Translator.load(folder).translate_nbest(lines)
    return {line: one[0] for line, one in zip(lines, found, strict=True)}


def near(number):
    return pytest.approx(number, abs=1e-4)


def test_libretranslate(server, lines, sure):
    few = lines[:4]
    plain = server.json("/translate", asked(few))
    found = server.json("/translate", asked(few, confidence=True))
    assert plain == {"translatedText": found["translatedText"]}
    assert found["confidence"] == [near(sure[line].confidence) for line in few]
    single = server.json("/translate", asked(few[0], confidence="1", alternatives=2))
    assert single["confidence"] == near(sure[few[0]].confidence)
    others = single["alternativesConfidence"]
    assert len(others) == len(single["alternatives"]) == 2 and all(0 < one < 1 for one in others)
    assert server.json("/translate", asked(few[0], confidence=False)) == server.json("/translate", asked(few[0]))


def test_a_text_of_several_sentences_and_markup(server, lines, sure):
    text = f"{lines[0]}\n\n{lines[1]} \n"
    expected = near(confidence_in([sure[lines[0]], sure[lines[1]]]))
    assert server.json("/translate", asked(text, confidence=True))["confidence"] == expected
    html = f"<p>{lines[0]}</p><p><b>{lines[1]}</b></p>"
    assert server.json("/translate", asked(html, format="html", confidence=True))["confidence"] == expected
    long = "\n".join(lines)
    found = server.json("/translate", asked(long, confidence=True))["confidence"]  # joined by a worker
    assert found == near(confidence_in(sure[line] for line in lines))
    assert server.json("/translate", asked(" \n", confidence=True))["confidence"] == 1.0
    assert server.json("/translate", asked("a", source="de", confidence=True))["confidence"] == 1.0  # unchanged


def test_deepl(server, lines, sure):
    body = {"text": lines[:2], "source_lang": "EN", "target_lang": "DE"}
    plain = server.json("/v2/translate", body)["translations"]
    found = server.json("/v2/translate", body | {"confidence": True})["translations"]
    assert [one["confidence"] for one in found] == [near(sure[line].confidence) for line in lines[:2]]
    assert plain == [{name: value for name, value in one.items() if name != "confidence"} for one in found]


def test_cat_tools(server, lines, sure):
    line = lines[0]
    query = f"/MTRestService/TranslateJson?input={line.replace(' ', '%20')}&srcLangCode=en&trgLangCode=de"
    query = query.replace("é", "%C3%A9").replace("ß", "%C3%9F")
    assert server.json(query).keys() == {"translation"}
    assert server.json(f"{query}&confidence=true")["confidence"] == near(sure[line].confidence)


def test_moses(server, lines, sure):
    proxy = xmlrpc.client.ServerProxy(server.url + "/RPC2?source=en&target=de")
    assert proxy.translate({"text": lines[0]}).keys() == {"text"}
    assert proxy.translate({"text": lines[0], "confidence": True})["confidence"] == near(sure[lines[0]].confidence)


def test_the_pages_routes(server, lines, sure):
    found = server.json("/api/sentences", asked(f"{lines[0]}\n{lines[1]}", alternatives=1))["parts"]
    sentences = [one for one in found if "source" in one]
    assert [one["confidence"] for one in sentences] == [near(sure[line].confidence) for line in lines[:2]]
    assert all(0 < other["confidence"] < 1 for one in sentences for other in one["alternatives"])
    done = server.json("/api/complete", asked(lines[0], typed="", count=2))
    assert len(done["confidence"]) == len(done["completions"]) and all(0 < one < 1 for one in done["confidence"])


@pytest.mark.parametrize("wrong", ["maybe", 2, [], {"a": 1}, "yes\n"])
def test_what_is_neither_true_nor_false_is_refused(server, wrong):
    assert server.refused("/translate", asked("a", confidence=wrong))[0] == 400
    status, message = server.refused("/v2/translate", {"text": "a", "target_lang": "DE", "confidence": wrong})
    assert status == 400 and message.startswith("confidence: must be true or false, got ")
