"""What clients of today's servers send, and what they get."""

import json
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import pytest


def asked(text, **more):
    return {"q": text, "source": "en", "target": "de"} | more


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


def test_deepl(server, lines, expected):
    found = server.json("/v2/translate", {"text": lines[:2], "target_lang": "DE", "source_lang": "EN"})
    told = found["translations"]
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


def test_cat_tools(server, lines, expected):
    query = urllib.parse.urlencode({"tokenCode": "", "input": lines[0], "srcLangCode": "en", "trgLangCode": "de"})
    assert server.json(f"/MTRestService/TranslateJson?{query}&modelTag=") == {"translation": expected[lines[0]]}
    assert "en-de" in server.json("/MTRestService/ListSupportedLanguagePairs")
    # A list for each rank, as OpenNMT-py's own server answers (onmt/bin/server.py), not one for each source.
    found = server.json("/translator/translate", [{"id": 0, "src": line} for line in lines[:3]])
    assert [[one["tgt"] for one in rows] for rows in found] == [[expected[line] for line in lines[:3]]]
    assert found[0][0]["pred_score"] < 0
    found = server.json("/translator/translate", [{"id": 0, "src": line, "n_best": 2} for line in lines[:3]])
    assert [len(rows) for rows in found] == [3, 3]
    assert [one["src"] for one in found[1]] == lines[:3]
    assert server.refused("/translator/translate", [])[0] == 400
    assert "id" in server.refused("/translator/translate", [{"id": 9, "src": "a"}])[1]


def test_what_the_page_asks(server, lines, expected):
    found = server.json("/api/sentences", asked(f"{lines[0]}\n{lines[1]}", alternatives=1))
    first = found["parts"][0]
    assert first["translation"] == expected[lines[0]] and first["words"] == expected[lines[0]].split()
    assert len(first["attention"]) == len(first["words"]) == len(first["probabilities"])
    assert all(abs(sum(row) - 1) < 0.1 for row in first["attention"])
    word = expected[lines[0]].split()[0]
    done = server.json("/api/complete", asked(lines[0], typed=word))["completions"]
    assert done and all(one.startswith(word) for one in done)
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
    assert headers["X-Request-Id"] == "mine-1" and headers["Access-Control-Allow-Origin"] == "*"
    assert server.ask("/translate", method="OPTIONS")[0] == 204
    assert server.refused("/nowhere")[0] == 404
    assert server.refused("/translate")[0] == 405
    for path in ("/", "/docs"):
        status, headers, content = server.ask(path)
        assert status == 200 and "default-src 'none'" in headers["Content-Security-Policy"] and b"<html" in content


def test_every_route_is_described(server):
    pytest.importorskip("starlette")
    from nmt.serve.app import ROUTES

    described = server.json("/spec")["paths"].keys()
    assert described <= {route.path for route in ROUTES}
    assert {r.path for r in ROUTES if r.path.startswith("/api/") or r.path in ("/translate", "/detect")} - {
        "/api/file",
        "/api/progress",
    } <= described


def test_files(server, lines, expected):
    content = "\r\n".join(lines[:3]).encode()
    parts = [("source", b"en", ""), ("target", b"de", ""), ("file", content, '; filename="../a b.txt"')]
    body = b"".join(
        b'--bb\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (n.encode(), f.encode(), c)
        for n, c, f in parts
    )
    kind = {"Content-Type": "multipart/form-data; boundary=bb"}
    answer = server.json("/translate_file", body + b"--bb--\r\n", headers=kind)
    path = urllib.parse.urlsplit(answer["translatedFileUrl"]).path
    status, headers, found = server.ask(path)
    assert found.decode() == "\r\n".join(expected[line] for line in lines[:3])
    assert headers["Content-Disposition"] == 'attachment; filename="a_b_de.txt"'
    assert server.refused("/download_file/other.txt")[0] == 404
    assert server.refused("/translate_file", body, headers=kind)[0] == 400
    of_other = (
        body.replace(b"\r\nen\r\n", b"\r\nfr\r\n") + b'--bb\r\nContent-Disposition: form-data; name="model"\r\n\r\n'
    )
    assert server.ask("/translate_file", of_other + b"other\r\n--bb--\r\n", headers=kind)[0] == 200
    assert "by small" in server.refused("/translate_file", of_other + b"small\r\n--bb--\r\n", headers=kind)[1]
    bad = body.replace(b"a b.txt", b"a.exe") + b"--bb--\r\n"
    assert "must end in one of" in server.refused("/translate_file", bad, headers=kind)[1]
