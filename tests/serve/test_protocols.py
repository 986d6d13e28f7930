"""What clients of today's servers send, and what they get."""

import io
import json
import re
import shutil
import subprocess
import time
import urllib.parse
import xmlrpc.client
from concurrent.futures import ThreadPoolExecutor

import pytest

from nmt import Translator
from nmt.inference.translation import confidence_in
from tests.documents import test_packages
from tests.refusals import refused
from tests.serve.servers import asked, multipart


@pytest.fixture(scope="module")
def sure(folder, lines):
    """The confidence in each line, as Python has it."""
    found = Translator.load(folder).translate_nbest(lines)
    return {line: one[0] for line, one in zip(lines, found, strict=True)}


def near(number):
    return pytest.approx(number, abs=1e-4)


def test_every_answer_is_the_translators(server, lines, expected):
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda line: server.json("/translate", asked(line))["translatedText"], lines))
    assert found == [expected[line] for line in lines]


def test_lists_forms_and_query_strings(server, lines, expected):
    few = lines[:5]
    assert server.json("/translate", asked(few))["translatedText"] == [expected[line] for line in few]
    form = urllib.parse.urlencode(asked(few[0])).encode()
    assert server.json("/translate", form)["translatedText"] == expected[few[0]]
    assert server.json("/translate?" + form.decode(), b"", method="POST")["translatedText"] == expected[few[0]]
    several = urllib.parse.urlencode([("q", few[0]), ("q", few[1]), ("source", "en"), ("target", "de")]).encode()
    assert server.json("/translate", several)["translatedText"] == [expected[line] for line in few[:2]]


def test_white_space_stays(server, lines, expected):
    a, b = lines[:2]
    text = f"  {a}\n\n{b} \r\n"
    assert server.json("/translate", asked(text))["translatedText"] == f"  {expected[a]}\n\n{expected[b]} \r\n"
    assert server.json("/translate", asked(["", " \n "]))["translatedText"] == ["", " \n "]


def test_alternatives_and_detection(server, lines, expected):
    found = server.json("/translate", asked(lines[:2], source="auto", alternatives=2))
    assert all(len(others) == 2 and len(set(others)) == 2 for others in found["alternatives"])
    assert len(found["detectedLanguage"]) == 2 and found["detectedLanguage"][0]["language"] in ("en", "fr")
    single = server.json("/translate", asked(lines[0], alternatives=1))
    assert single["translatedText"] == expected[lines[0]] and len(single["alternatives"]) == 1
    assert "detectedLanguage" not in single
    assert server.json("/detect", {"q": "Das ist ein Haus, und das ist ein Baum."})[0]["language"] == "de"


def test_html_keeps_its_tags(server, lines):
    text = f"<p>{lines[0]} <b>{lines[1]}</b> <!-- x --><img src='a'></p><script>a<b</script>"
    found = server.json("/translate", asked(text, format="html"))["translatedText"]
    for tag in ("<p>", "<b>", "</b>", "<!-- x -->", "<img src='a'>", "</p><script>a<b</script>"):
        assert found.count(tag) == 1


def test_pairs_and_models_by_name(server, lines):
    languages = {one["code"]: one for one in server.json("/languages")}
    assert languages["en"] == {"code": "en", "name": "English", "targets": ["de"]}
    assert languages["fr"]["targets"] == ["de"] and languages["de"]["targets"] == []
    assert server.json("/frontend/settings")["charLimit"] == 20000
    own, other = (
        server.json("/translate", asked(lines[0], source=s, model=m))["translatedText"]
        for s, m in (("en-GB", "small"), ("fr", "other"))
    )
    assert own != other
    assert server.refused("/translate", asked("a", model="other"))[0] == 400


@pytest.mark.parametrize(
    "body, said",
    [
        ({"source": "en", "target": "de"}, "q: must be given"),
        (asked(7), "q: must be a text or a list of texts, got a number"),
        (asked(["a", None]), "got null"),
        (asked({"a": 1}), "got an object"),
        (asked("a", target="xx"), "en to xx is not supported"),
        (asked("a", target=None), "target: must be given"),
        (asked("a", format="pdf"), "format: must be text or html"),
        (asked("a", alternatives=99), "alternatives: must be 0 to 4, got 99"),
        (asked("a", alternatives=-1), "alternatives"),
        (asked("x" * 20001), "at most 20,000 characters, got 20,001"),
        (asked(["a"] * 1001), "at most 1,000 texts"),
        (asked("\ud800"), "surrogate"),
        ([], "must be a JSON object"),
        (b"{", "must be JSON"),
        (b'{"q": "\xff"}', "must be UTF-8, got byte 0xff at position 8"),
        (b"[" * 100_000, "must be JSON"),
        (b'{"q": ' * 100_000, "must be JSON"),
        (b"q=%ff&source=en&target=de", "must be UTF-8"),
    ],
)
def test_mistakes_are_told_in_a_line(server, body, said):
    status, message = server.refused("/translate", body)
    assert status == 400 and said in message


def test_deepl(server, lines, expected, sure):
    body = {"text": lines[:2], "target_lang": "DE", "source_lang": "EN"}
    told = server.json("/v2/translate", body)["translations"]
    found = server.json("/v2/translate", body | {"confidence": True})["translations"]
    assert found == [one | {"confidence": near(sure[line].confidence)} for one, line in zip(told, lines, strict=False)]
    assert [one["text"] for one in told] == [expected[line] for line in lines[:2]]
    assert [one["billed_characters"] for one in told] == [len(line) for line in lines[:2]]
    assert {one["detected_source_language"] for one in told} == {"EN"}
    office = urllib.parse.urlencode({"auth_key": "k", "target_lang": "DE", "text": lines[0]}).encode()
    assert server.json("/v2/translate", office)["translations"][0]["detected_source_language"] in ("EN", "FR")
    tagged = {"text": [f"<a>{lines[0]}</a> <x>keep me</x>"], "target_lang": "DE", "source_lang": "EN"}
    found = server.json("/v2/translate", tagged | {"tag_handling": "xml", "ignore_tags": ["x"]})
    assert found["translations"][0]["text"].count("<x>keep me</x>") == 1
    assert {one["language"] for one in server.json("/v2/languages?type=target")} == {"DE"}
    assert {one["language"] for one in server.json("/v2/languages")} == {"EN", "FR"}
    assert server.refused("/v2/translate", {"text": ["a"], "target_lang": "JA"})[0] == 400
    status, _, content = server.ask("/v2/translate", {"target_lang": "DE"})
    assert status == 400 and "message" in json.loads(content)


def test_glossaries(server, lines):
    new = {"name": "g", "source_lang": "en", "target_lang": "de", "entries_format": "tsv", "entries": "kara\tlosu\n"}
    status, _, content = server.ask("/v2/glossaries", new)
    name = json.loads(content)["glossary_id"]
    assert status == 201
    assert server.json(f"/v2/glossaries/{name}")["entry_count"] == 1
    assert server.ask(f"/v2/glossaries/{name}/entries")[2] == b"kara\tlosu"
    asked = {"text": ["kara kara miti"], "source_lang": "EN", "target_lang": "DE", "glossary_id": name}
    assert "losu" in server.json("/v2/translate", asked)["translations"][0]["text"]
    assert server.ask(f"/v2/glossaries/{name}", method="DELETE")[0] == 204
    assert server.refused(f"/v2/glossaries/{name}")[0] == 404
    mine = {"q": "kara kara miti", "source": "en", "target": "de", "glossary": [["kara", "losu"]]}
    assert "losu" in server.json("/translate", mine)["translatedText"]
    assert "losu" in server.json("/translate", mine | {"glossary": "kara = losu"})["translatedText"]
    assert server.refused("/translate", mine | {"glossary": ["kara"]})[0] == 400
    assert "line 1" in server.refused("/v2/glossaries", new | {"entries": "kara"})[1]


def test_cat_tools(server, lines, expected, sure):
    query = urllib.parse.urlencode({"tokenCode": "", "input": lines[0], "srcLangCode": "en", "trgLangCode": "de"})
    assert server.json(f"/MTRestService/TranslateJson?{query}&modelTag=") == {"translation": expected[lines[0]]}
    found = server.json(f"/MTRestService/TranslateJson?{query}&confidence=true")
    assert found == {"translation": expected[lines[0]], "confidence": near(sure[lines[0]].confidence)}
    assert "en-de" in server.json("/MTRestService/ListSupportedLanguagePairs")
    pair = "srcLangCode=en&trgLangCode=de"
    assert server.json(f"/MTRestService/GetLanguagePairModelTags?tokenCode=0&{pair}") == ["small"]
    assert server.json(f"/MTRestService/TranslateJson?{query}&modelTag=small") == {"translation": expected[lines[0]]}


def test_moses(server, lines, expected, sure):
    with xmlrpc.client.ServerProxy(server.url + "/RPC2") as client:
        assert client.system.listMethods() == ["system.listMethods", "translate"]
        assert client.translate({"text": lines[0], "align": "true"}) == {"text": expected[lines[0]]}
        found = client.translate({"text": lines[0], "confidence": True})
        assert found == {"text": expected[lines[0]], "confidence": near(sure[lines[0]].confidence)}
        refused(xmlrpc.client.Fault, "text: must be given", client.translate, {"q": lines[0]})
        refused(xmlrpc.client.Fault, "must be one of", client.shutdown)
    with xmlrpc.client.ServerProxy(server.url + "/RPC2?source=fr&target=de&model=other") as client:
        of_other = server.json("/translate", asked(lines[0], source="fr"))["translatedText"]
        assert client.translate({"text": lines[0]}) == {"text": of_other}
    # OmegaT's library writes texts without their type.
    struct = f"<struct><member><name>text</name><value>{lines[0]}</value></member></struct>"
    call = f"<methodName>translate</methodName><params><param><value>{struct}</value></param></params>"
    assert expected[lines[0]] in server.ask("/RPC2", f"<methodCall>{call}</methodCall>".encode())[2].decode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<methodCall>",
        b'<!DOCTYPE a [<!ENTITY b "c">]><methodCall><methodName>&b;</methodName></methodCall>',
        '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE a []><methodCall/>'.encode("utf-16"),
        b"<methodCall><methodName>translate</methodName><params><param><value><int>" + b"9" * 9000 + b"</int></value>",
        b"<methodCall><methodName>translate</methodName><params><param><value><struct><member><name><array><data>"
        b"</data></array></name></member></struct></value></param></params></methodCall>",
        b"<value></struct></array></value>",
        b"<a>" * 100_000,
        b"\xff",
    ],
)
def test_broken_calls_of_moses_are_faults(server, body):
    status, _, content = server.ask("/RPC2", body, method="POST")
    assert status == 200
    with pytest.raises(xmlrpc.client.Fault) as raised:
        xmlrpc.client.loads(content)
    assert raised.value.faultCode == 400


def test_removed_protocols_name_what_takes_their_place(server):
    for path, instead in (("/v3/glossaries", "/v2/glossaries"), ("/translator/translate", "/translate")):
        status, message = server.refused(path, {"text": ["a"]})
        assert status == 404 and message.startswith(f"path: {path} is ") and message.endswith(instead)
        assert "\n" not in message


def test_what_the_page_asks(server, lines, expected, sure):
    found = server.json("/api/sentences", asked(f"{lines[0]}\n{lines[1]}", alternatives=1))["parts"]
    first, second = (one for one in found if "source" in one)
    assert [first["confidence"], second["confidence"]] == [near(sure[line].confidence) for line in lines[:2]]
    assert all(0 < other["confidence"] < 1 for one in (first, second) for other in one["alternatives"])
    assert first["translation"] == expected[lines[0]] and first["words"] == expected[lines[0]].split()
    assert len(first["attention"]) == len(first["words"]) == len(first["probabilities"])
    assert all(abs(sum(row) - 1) < 0.1 for row in first["attention"])
    word = expected[lines[0]].split()[0]
    done = server.json("/api/complete", asked(lines[0], typed=word))["completions"]
    assert done and all(one.startswith(word) for one in done)
    done = server.json("/api/complete", asked(lines[0], typed="", count=2))
    assert len(done["confidence"]) == len(done["completions"]) and all(0 < one < 1 for one in done["confidence"])
    told = server.json("/api/models")["models"]
    assert [one["name"] for one in told] == ["small", "other"]
    assert "tok:13a" in told[0]["signature"] and "bleu" in told[0]["validation"]


def test_who_runs_it_is_told(server):
    assert server.json("/health") == {"status": "ok"}
    assert server.json("/ready")["models"] == ["small", "other"]
    assert server.json("/spec")["openapi"] == "3.1.0"
    text = server.ask("/metrics")[2].decode()
    assert 'nmt_requests_total{route="/translate",status="200"}' in text and "nmt_sentences_waiting 0.0" in text
    status, headers, _ = server.ask("/health", headers={"X-Request-Id": "mine-1"})
    assert headers["X-Request-Id"] == "mine-1"
    status, headers, _ = server.ask("/translate", method="OPTIONS")  # browsers ask once a day, not each time
    assert status == 204 and headers["Access-Control-Max-Age"] == "86400"
    status, headers, content = server.ask("/")
    assert status == 200 and "default-src 'none'" in headers["Content-Security-Policy"] and b"<html" in content


def test_what_the_page_loads_is_its_own(server):
    headers, content = server.ask("/")[1:]
    policy, text = headers["Content-Security-Policy"], content.decode()
    assert "unsafe" not in policy and "style-src 'self'" in policy and "script-src 'self'" in policy
    assert "<style" not in text and "<script>" not in text and " style=" not in text
    for name in re.findall(r'(?:src|href)="([\w.]+\.(?:css|js))"', text):
        status, headers, content = server.ask(f"/{name}")
        assert status == 200 and headers["X-Content-Type-Options"] == "nosniff" and content
    assert b"innerHTML" not in server.ask("/page.js")[2]


@pytest.mark.parametrize(
    "name, kept, plain",
    [
        ("Bericht für Müller.txt", "Bericht für Müller_de.txt", "Bericht_f_r_M_ller_de.txt"),
        ("日本語.txt", "日本語_de.txt", "file_de.txt"),
        ("../..\\a\u202eb<c>|d.txt", "a_b_c_d_de.txt", "a_b_c_d_de.txt"),
        ("a b.txt", "a b_de.txt", "a_b_de.txt"),
    ],
)
def test_names_of_files_stay(server, lines, name, kept, plain):
    body, headers = multipart(name, lines[0].encode(), source="en", target="de")
    answer = server.json("/api/file", body, headers=headers)
    assert answer["name"] == kept and answer["seconds"] == 600
    told = server.ask("/" + answer["url"])[1]["Content-Disposition"]
    assert told.startswith(f'attachment; filename="{plain}"')
    assert (f"filename*=UTF-8''{urllib.parse.quote(kept, safe='')}" in told) == (kept != plain)


def test_addresses_behind_a_proxy(server, lines):
    body, headers = multipart("a.txt", lines[0].encode(), source="en", target="de")
    for given, there in (("/mt/v1", "/mt/v1"), ("/mt/", "/mt"), ("//evil.example", ""), ("/a b", ""), ("", "")):
        answer = server.json("/translate_file", body, headers=headers | {"X-Forwarded-Prefix": given})
        assert answer["translatedFileUrl"].startswith(f"{server.url}{there}/download_file/")


def test_a_slash_at_the_end_is_no_other_path(server, lines, expected):
    assert server.json("/translate/", asked(lines[0]))["translatedText"] == expected[lines[0]]
    assert server.json("/languages/") == server.json("/languages")
    assert server.refused("/nowhere/")[0] == 404


def test_a_language_into_itself(server, lines):
    same = server.json("/translate", asked([lines[0], " b "], source="de", alternatives=1))
    assert same == {"translatedText": [lines[0], " b "], "alternatives": [[], []]}
    assert server.json("/translate", asked(lines[0], source="en-GB", target="en"))["translatedText"] == lines[0]
    assert server.refused("/translate", asked("a", source="ja", target="ja"))[0] == 400  # no language of this server
    german = "Das ist ein Haus, und das ist ein Baum."
    found = server.json("/translate", asked(german, source="auto"))
    assert found["translatedText"] == german and found["detectedLanguage"]["language"] == "de"
    assert found["detectedLanguage"]["confidence"] > 90


def test_confidence_is_honest(server):
    italian = "Ciao, come stai? Tutto bene, grazie mille."
    assert server.json("/translate", asked(italian, source="auto"))["detectedLanguage"]["confidence"] < 20
    found = server.json("/detect", {"q": italian})
    assert {one["language"] for one in found} <= {"en", "fr", "de"} and found[0]["confidence"] < 20
    english = server.json("/detect", {"q": "This is the house of a man who lives in the old town."})[0]
    assert english["language"] == "en" and english["confidence"] > 90


def test_terms_that_were_not_followed_are_told(server, expected, lines):
    text = "kara kara miti"
    wanted = {"glossary": [["kara", "losu"], ["lox", "nux"], ["miti", "zorro quito vaux"]]}
    (part,) = server.json("/api/sentences", asked(text) | wanted)["parts"]
    assert "losu" in part["translation"] and part["not_followed"] == [["miti", "zorro quito vaux"]]
    (part,) = server.json("/api/sentences", asked(text, alternatives=2))["parts"]
    assert part.get("not_followed", []) == []
    assert part["translation"] not in [other["translation"] for other in part["alternatives"]]
    for other in part["alternatives"]:
        assert "words" not in other or len(other["attention"]) == len(other["words"]) == len(other["probabilities"])
    assert any("words" in other for other in part["alternatives"])


def test_files(server, lines, expected):
    form, kind = multipart("../a b.txt", "\r\n".join(lines[:3]).encode(), source="en", target="de")
    answer = server.json("/translate_file", form, headers=kind)
    status, headers, found = server.ask(urllib.parse.urlsplit(answer["translatedFileUrl"]).path)
    assert found.decode() == "\r\n".join(expected[line] for line in lines[:3])
    assert headers["Content-Disposition"].startswith('attachment; filename="a_b_de.txt"')
    assert server.refused("/download_file/other.txt")[0] == 404
    assert server.refused("/translate_file", form.removesuffix(b"--bb--\r\n"), headers=kind)[0] == 400
    for model, status in (("other", 200), ("small", 400)):
        form, _ = multipart("a.txt", lines[0].encode(), source="fr", target="de", model=model)
        found, _, content = server.ask("/translate_file", form, headers=kind)
        assert found == status and (b"by small" in content) == (status == 400)
    form, _ = multipart("a.exe", lines[0].encode(), source="en", target="de")
    assert "must end in one of" in server.refused("/translate_file", form, headers=kind)[1]


def test_what_of_a_file_is_left_untranslated_is_told(server, lines):
    for more, told in (("", None), ("{n, plural, one {x}", "1 ICU messages that cannot be read")):
        unit = "<trans-unit><source>{}</source></trans-unit>"
        content = f'<xliff version="1.2"><file><body>{unit.format(lines[0])}{unit.format(more)}</body></file></xliff>'
        body, headers = multipart("a.xlf", content.encode(), source="en", target="de")
        for path in ("/translate_file", "/api/file"):
            assert server.json(path, body, headers=headers).get("untranslated") == told


@pytest.mark.parametrize("suffix", ["vtt", "md", "html", "pptx", "odt", "ods", "odp", "epub"])
def test_files_of_each_format(server, lines, expected, suffix):
    """The translation is in the file that comes back, and in its own format; files in zip archives are packed again."""
    inside = {
        "vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\n{}\n",
        "md": "- {}\n",
        "html": '<img alt="{}">',
        "pptx": "<a:p><a:r><a:t>{}</a:t></a:r></a:p>",
        "epub": "<p>{}</p>",
    }.get(suffix, "<text:p>{}</text:p>")
    is_packed = suffix in test_packages.CONTENTS
    line = next(one for one in lines if " ".join(expected[one].split()) == expected[one])
    text = inside.format(line)
    content = test_packages.packed(suffix, text) if is_packed else text.encode()
    form, kind = multipart(f"a.{suffix}", content, source="en", target="de")
    answer = server.json("/translate_file", form, headers=kind)
    status, headers, found = server.ask(urllib.parse.urlsplit(answer["translatedFileUrl"]).path)
    assert status == 200 and headers["Content-Disposition"].endswith(f'"a_de.{suffix}"')
    if is_packed:
        found = test_packages.part_of(found, test_packages.MAIN.get(suffix, "content.xml")).encode()
    assert inside.format(expected[line]) in found.decode()
    assert f".{suffix}" in server.json("/frontend/settings")["supportedFilesFormat"]


def test_confidence_of_libretranslate(server, lines, sure):
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


@pytest.mark.parametrize("wrong", ["maybe", 2, [], {"a": 1}, "yes\n"])
def test_what_is_neither_true_nor_false_is_refused(server, wrong):
    assert server.refused("/translate", asked("a", confidence=wrong))[0] == 400
    status, message = server.refused("/v2/translate", {"text": "a", "target_lang": "DE", "confidence": wrong})
    assert status == 400 and message.startswith("confidence: must be true or false, got ")


def test_libretranslatepy(server, lines, expected):
    client = pytest.importorskip("libretranslatepy").LibreTranslateAPI(server.url + "/")
    assert client.translate(lines[0], "en", "de") == expected[lines[0]]
    assert {one["code"] for one in client.languages()} == {"en", "fr", "de"}
    assert client.detect("Das ist ein Haus, und das ist ein Baum.")[0]["language"] == "de"


def test_deep_translator(server, lines, expected):
    library = pytest.importorskip("deep_translator")
    client = library.LibreTranslator(source="en", target="de", custom_url=server.url + "/", api_key="any")
    assert client.translate(lines[0]) == expected[lines[0]]
    assert client.translate_batch(lines[:3]) == [expected[line] for line in lines[:3]]


def test_the_library_deepl(server, lines, expected):
    library = pytest.importorskip("deepl")
    client = library.Translator("any", server_url=server.url, send_platform_info=False)
    found = client.translate_text(lines[:3], source_lang="EN", target_lang="DE")
    assert [one.text for one in found] == [expected[line] for line in lines[:3]]
    assert [one.code for one in client.get_target_languages()] == ["DE"]
    assert not client.get_usage().any_limit_reached
    glossary = client.create_glossary("mine", "EN", "DE", {"kara": "losu"})
    found = client.translate_text("kara kara miti", source_lang="EN", target_lang="DE", glossary=glossary)
    assert "losu" in found.text
    assert client.get_glossary_entries(glossary) == {"kara": "losu"}
    client.delete_glossary(glossary)
    assert client.get_usage().character.count > 0
    refused(library.DeepLException, "", client.translate_text, "a", target_lang="JA")


def test_what_takes_the_place_of_glossaries_of_several_languages_reaches_the_client(server):
    library = pytest.importorskip("deepl", minversion="1.24")
    client = library.DeepLClient("any", server_url=server.url, send_platform_info=False)
    refused(library.DeepLException, "for each pair of languages by /v2/glossaries", client.list_multilingual_glossaries)


def test_documents_of_the_library_deepl(server, lines, expected, monkeypatch):
    library = pytest.importorskip("deepl")
    client = library.Translator("any", server_url=server.url, send_platform_info=False)
    monkeypatch.setattr("time.sleep", lambda seconds, sleep=time.sleep: sleep(0.02))  # the client waits for 5 s
    out, text = io.BytesIO(), "\n".join(lines[:20])
    status = client.translate_document(text.encode(), out, source_lang="EN", target_lang="DE", filename="a.txt")
    assert out.getvalue().decode() == "\n".join(expected[line] for line in lines[:20])
    assert status.done and status.billed_characters == sum(map(len, lines[:20]))
    out, book = io.BytesIO(), test_packages.packed("epub", f"<p>{lines[0]}</p>")
    client.translate_document(book, out, source_lang="EN", target_lang="DE", filename="a.epub")
    assert f"<p>{expected[lines[0]]}</p>" in test_packages.part_of(out.getvalue(), "EPUB/a.xhtml")
    with pytest.raises(library.DeepLException, match="must end in one of"):
        client.translate_document(b"a", io.BytesIO(), target_lang="DE", filename="a.exe")
    with pytest.raises(library.DocumentTranslationException, match="must be a DOCX file"):
        client.translate_document(b"a", io.BytesIO(), source_lang="EN", target_lang="DE", filename="a.docx")
    with pytest.raises(library.DeepLException):
        client.translate_document_get_status(library.DocumentHandle("0" * 32, "0" * 64))


def test_npm_client(server, lines, expected):
    """Where node is there, and `npm install --global libretranslate` or NODE_PATH has brought the client."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    asked = json.dumps({"query": lines[0], "source": "en", "target": "de", "apiurl": server.url})
    script = f"""
        let library; try {{ library = require("libretranslate"); }} catch (e) {{ process.exit(3); }}
        library.translate({asked}).then(found => console.log(JSON.stringify(found)));
    """
    answer = subprocess.run([node, "-e", script], capture_output=True, text=True, timeout=60)
    if answer.returncode == 3:
        pytest.skip("needs the npm package libretranslate")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == expected[lines[0]]
