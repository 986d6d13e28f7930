"""Clients that people have, against a server that runs."""

import io
import json
import shutil
import subprocess
import time

import pytest

from tests.documents import test_packages


def test_libretranslatepy(server, lines, expected):
    library = pytest.importorskip("libretranslatepy")
    client = library.LibreTranslateAPI(server.url + "/")
    assert client.translate(lines[0], "en", "de") == expected[lines[0]]
    assert {one["code"] for one in client.languages()} == {"en", "fr", "de"}
    assert client.detect("Das ist ein Haus, und das ist ein Baum.")[0]["language"] == "de"


def test_deep_translator(server, lines, expected):
    library = pytest.importorskip("deep_translator")
    client = library.LibreTranslator(source="en", target="de", custom_url=server.url + "/", api_key="any")
    assert client.translate(lines[0]) == expected[lines[0]]
    assert client.translate_batch(lines[:3]) == [expected[line] for line in lines[:3]]


def test_deepl(server, lines, expected):
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
    with pytest.raises(library.DeepLException):
        client.translate_text("a", target_lang="JA")


def test_what_takes_the_place_of_glossaries_of_several_languages_reaches_the_client(server):
    library = pytest.importorskip("deepl", minversion="1.24")
    client = library.DeepLClient("any", server_url=server.url, send_platform_info=False)
    with pytest.raises(library.DeepLException, match="for each pair of languages by /v2/glossaries"):
        client.list_multilingual_glossaries()


def test_deepl_documents(server, lines, expected, monkeypatch):
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


def test_curl(server, lines, expected):
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("needs curl")
    fields = [f"-d{name}={value}" for name, value in (("source", "en"), ("target", "de"))]
    command = [curl, "-sS", "--fail", f"{server.url}/translate", *fields, "--data-urlencode", f"q={lines[0]}"]
    answer = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert json.loads(answer) == {"translatedText": expected[lines[0]]}


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
