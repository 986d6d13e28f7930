"""What a stranger sends to stop the server for others: each row is something that once did."""

import http.client
import json
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import psutil
import pytest

from nmt.errors import DataError
from nmt.serve.settings import ServerSettings
from tests.documents import test_packages
from tests.documents.test_packages import packed
from tests.documents.test_xliff import whole
from tests.processes import python
from tests.refusals import refused
from tests.serve.servers import model_folder, multipart, running
from tests.waiting import beside, until

TIMES_AS_LONG = 5
"""How much longer than beside innocent requests of the same size anybody else may wait beside an attack, whatever the
machine does besides: attacks that worked took minutes, innocent requests take tenths of a second."""
INNOCENT = {"q": "kara mo. " * 5_000, "source": "en", "target": "de"}


@pytest.fixture(scope="module")
def attacked(folder, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("attacker\t0\nother\t0\n")
    with running(folder, "--keys", keys, "--threads", 2, "--cache", 0) as one:
        yield one


@pytest.fixture
def open_server(folder):
    """One without keys: clients are their addresses."""
    with running(folder, "--threads", 1, "--cache", 0) as one:
        yield one


def key(name):
    return {"Authorization": f"Bearer {name}"}


def cpu_seconds(process):
    """Of a process and all its children, those that have ended among them."""
    found = 0.0
    for one in [process, *descendants(process)]:
        with suppress(psutil.NoSuchProcess):
            times = psutil.Process(one).cpu_times()
            found += times.user + times.system + times.children_user + times.children_system
    return found


def descendants(process):
    return [one.pid for one in psutil.Process(process).children(recursive=True)]


def memory(process):
    return psutil.Process(process).memory_info().rss / 2**20  # MiB


def ask_others(server, count=3):
    """Seconds until somebody else is answered, the worst of some; a short text, and one beyond what the loop cuts."""
    worst = 0.0
    for n in range(count):
        for text in ("kara", "kara mo. " * 250):
            began = time.monotonic()
            fields = {"q": text, "source": "en", "target": "de"}
            assert "translatedText" in server.json("/translate", fields, headers=key("other")), n
            worst = max(worst, time.monotonic() - began)
    return worst


def beside_innocents(server):
    """Seconds until somebody is answered, the worst of some, while three clients have long but ordinary texts."""
    return worst_beside(server, partial(give_up_soon, server, "/translate", INNOCENT), 0, 90)


def give_up_soon(server, path, fields):
    """Ask as an attacker or like one; the status, 400 when patience has ended."""
    try:
        return server.ask(path, fields, headers=key("attacker"))[0]
    except TimeoutError:
        return 400


def is_bearable(server, worst, innocent):
    """Whether somebody waited `worst` seconds beside an attack and `innocent` beside others, now or before."""
    return worst < TIMES_AS_LONG * innocent or worst < TIMES_AS_LONG * beside_innocents(server)


def worst_beside(server, attack, begins, most):
    """Run an attack three times at once and return the longest wait of others beside it, from `begins` seconds on; each
    attack has `most` seconds to end."""
    with beside(*[attack] * 3, seconds=most):
        time.sleep(begins)
        worst = ask_others(server)
    return worst


ATTACKS = {
    "A1 spaces in a glossary": ("/translate", {"q": "on monday", "glossary": "a" + " " * 110_000 + "b"}),
    "A1 by the page": ("/api/sentences", {"q": "on monday", "glossary": "a" + " " * 110_000 + "b"}),
    "A2 a row of digits": ("/translate", {"q": " ".join(str(i % 10) for i in range(999))}),
    "A2 a row of digits for the page": (
        "/api/sentences",
        {"q": " ".join(str(i % 10) for i in range(1000)), "alternatives": 4},
    ),
    "A3 unclosed tags": ("/translate", {"q": "<a " * 16_666, "format": "html"}),
    "A3 slashes": ("/translate", {"q": "<a/" * 16_666, "format": "html"}),
    "A3 comments": ("/translate", {"q": "<!--" * 12_000, "format": "html"}),
    "A17 quotation marks": ("/translate", {"q": "«" * 49_000}),
    "A17 placeholders": ("/translate", {"q": " ".join(["%" + "0" * 990] * 50)}),
    "A17 named placeholders": ("/translate", {"q": " ".join(["%(a)" + "0" * 980] * 50)}),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_no_text_keeps_others_waiting(attacked, name):
    path, fields = ATTACKS[name]
    fields = {"source": "en", "target": "de"} | fields
    innocent = beside_innocents(attacked)

    def waited():
        """Return how long others wait beside the attack."""
        began, found = cpu_seconds(attacked.process.pid), []
        worst = worst_beside(attacked, lambda: found.append(give_up_soon(attacked, path, fields)), 0.1, 90)
        assert len(found) == 3 and set(found) <= {200, 400}
        assert cpu_seconds(attacked.process.pid) - began < 60
        return worst

    # What an attack holds up it holds up each time; other work of the machine does not.
    assert any(is_bearable(attacked, waited(), innocent) for _ in range(2))
    assert not any("traceback" in line.lower() for line in attacked.log)


FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "A5 one run of many texts": ("a.docx", lambda: packed("docx", f"<w:p><w:r>{'<w:t>a</w:t>' * 16_000}</w:r></w:p>")),
    "A6 many sources": ("a.xliff", lambda: whole(f"<trans-unit>{'<source/>' * 20_000}</trans-unit>").encode()),
    "A6 deep units": ("a.xliff", lambda: whole("<trans-unit>" * 9_000 + "</trans-unit>" * 9_000).encode()),
    "A7 many paragraphs": ("a.docx", lambda: packed("docx", "<w:p/>" * 7_000_000)),
    "A7 many paragraphs of a book": ("a.epub", lambda: test_packages.packed("epub", "<p></p>" * 5_000_000)),
    "A7 many cells": ("a.ods", lambda: test_packages.packed("ods", test_packages.BODIES["ods"] * 190_000)),
    "A10 a page of many paragraphs": ("a.md", lambda: b"a\n\n" * 1_000_000),
    "A10 a line without end": ("a.txt", lambda: b"a" * 4_000_000 + "\U0001f600".encode()),
    "A18 deep elements": ("a.docx", lambda: packed("docx", "<w:p>" * 5_000 + "</w:p>" * 5_000)),
}
"""By name and what makes their content: some take a second."""


@pytest.mark.parametrize("name", FILES)
def test_no_file_keeps_others_waiting_or_takes_the_memory(attacked, name):
    file, content = FILES[name]
    innocent = beside_innocents(attacked)
    before = memory(attacked.process.pid)
    body, head = multipart(file, content(), source="en", target="de")

    def send():
        try:
            connection = http.client.HTTPConnection("127.0.0.1", attacked.port, timeout=3)
            connection.request("POST", "/translate_file", body, head | key("attacker"))
            connection.getresponse().read()
        except TimeoutError:
            pass  # the client has gone; so must its work be
        connection.close()

    worst = worst_beside(attacked, send, 0.2, 60)
    until(lambda: b"nmt_requests_in_flight 1.0" in attacked.ask("/metrics")[2])
    until(lambda: b"nmt_sentences_waiting 0.0" in attacked.ask("/metrics")[2])
    assert memory(attacked.process.pid) - before < 150
    used = cpu_seconds(attacked.process.pid)
    time.sleep(0.5)
    assert cpu_seconds(attacked.process.pid) - used < 0.4  # nobody works for who has gone (A4)
    # On Windows a worker whose client has gone is ended, and the next takes seconds to start.
    assert sys.platform == "win32" or is_bearable(attacked, worst, innocent)


def test_a_glossary_line_is_a_phrase_and_its_translation(attacked):
    for text, status in (("a = b", 200), ("a\tb = c", 200), ("a b", 400), ("=", 400), ("a = " + "b" * 5000, 400)):
        fields = {"q": "kara", "source": "en", "target": "de", "glossary": text}
        assert attacked.ask("/translate", fields, headers=key("other"))[0] == status, text[:20]


def seconds_to_end(folder, fields):
    """Seconds that a server takes to end, and all of its processes, after six clients who have asked for this left."""
    with running(folder) as server:
        body = json.dumps(fields).encode()
        head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        plugs = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(6)]
        for plug in plugs:
            plug.sendall(head + body)
        time.sleep(0.3)
        assert server.json("/health") == {"status": "ok"}
        home = descendants(server.process.pid)
        for plug in plugs:
            plug.close()
        began = time.monotonic()
        assert server.end() == 0
        took = time.monotonic() - began
        until(lambda: not any(map(psutil.pid_exists, home)))
    return took


def test_a_server_under_attack_ends_at_once(folder):
    took = seconds_to_end(folder, {"q": "<a/" * 16_000, "format": "html", "source": "en", "target": "de"})
    assert took < TIMES_AS_LONG * seconds_to_end(folder, INNOCENT)


def test_trailers_are_refused_and_not_kept(attacked):
    """A8"""
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer other\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    assert b"evil" not in attacked.send(head + b"X-Request-Id: evil\r\n\r\n", end=True)
    before = memory(attacked.process.pid)
    for trailer in (b"X-1: " + b"y" * 60_000 + b"\r\n", b"y" * 2**18):
        with socket.create_connection(("127.0.0.1", attacked.port), timeout=10) as plug:
            plug.sendall(head + b"X-0: ")
            with pytest.raises(OSError):
                for _ in range(2_000):
                    plug.sendall(trailer)
    assert memory(attacked.process.pid) - before < 20


def test_who_has_no_key_is_told_before_the_body(attacked):
    """A11"""
    head = "POST {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: 20000000\r\n"
    head += "Content-Type: multipart/form-data; boundary=a\r\n\r\n"
    for path in ("/translate_file", "/v2/document", "/api/file"):
        answer = attacked.send(head.format(path, "nobody").encode(), seconds=10)
        assert answer[9:12] in (b"403", b"429"), (path, answer)  # 429: after many guesses


def test_bodies_together_take_bounded_memory_and_give_it_back(open_server):
    """A11"""
    before = memory(open_server.process.pid)
    plugs = []
    head = b"POST /translate_file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 19000000\r\n"
    head += b"Content-Type: multipart/form-data; boundary=a\r\n\r\n"
    head += b'--a\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    for _ in range(20):
        plug = socket.create_connection(("127.0.0.1", open_server.port), timeout=5)
        try:
            plug.sendall(head + b"x" * 18_000_000)
        except OSError:
            pass  # refused, and closed
        plugs.append(plug)
    assert memory(open_server.process.pid) - before < 120
    for plug in plugs:
        plug.close()
    until(lambda: b"nmt_requests_in_flight 1.0" in open_server.ask("/metrics")[2])
    assert open_server.json("/health")
    until(lambda: memory(open_server.process.pid) - before < 60)


def test_more_connections_than_files_leave_the_server_answering_and_the_log_short(folder):
    """A12"""
    limits = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))"
    with running(folder, before=limits) as server:
        plugs = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(230)]
        assert server.json("/health")
        for plug in plugs:
            plug.close()
        assert server.end(seconds=30) == 0
    assert len(server.log) < 40
    for line in server.log:
        json.loads(line)


def test_documents_of_one_client_leave_room_for_others(attacked):
    """A13"""
    text = b"".join(b"kara mo %d. " % n for n in range(13_000))
    body, head = multipart("a.txt", text, target_lang="DE", source_lang="EN")
    statuses = [attacked.ask("/v2/document", body, head | key("attacker"), "POST")[0] for _ in range(40)]
    assert statuses.count(200) >= 1 and set(statuses) == {200, 429}
    small, head = multipart("a.txt", b"kara", target_lang="DE", source_lang="EN")
    told = attacked.json("/v2/document", small, headers=head | key("other"), method="POST")

    ask = f"/v2/document/{told['document_id']}", {"document_key": told["document_key"]}, key("other")
    until(lambda: json.loads(attacked.ask(*ask)[2])["status"] == "done")


def test_glossaries_of_one_client_push_out_nobody_elses(attacked):
    """A14"""
    given = {"name": "a", "source_lang": "en", "target_lang": "de", "entries": "kara\tb"}
    mine = attacked.ask("/v2/glossaries", given, key("other"))
    assert mine[0] == 201
    statuses = [attacked.ask("/v2/glossaries", given, key("attacker"))[0] for _ in range(1100)]
    assert statuses[0] == 201 and statuses[-1] == 400
    name = json.loads(mine[2])["glossary_id"]
    assert attacked.json(f"/v2/glossaries/{name}", headers=key("other"))["entry_count"] == 1


@pytest.mark.parametrize(
    "path, fields",
    [
        ("/v2/glossaries", {"name": "\ud800", "source_lang": "en", "target_lang": "de", "entries": "a\tb"}),
        ("/translate", {"q": "a", "source": "en", "target": "\ud800"}),
        ("/translate", {"q": "a", "source": "en", "target": "de", "model": "\udfff"}),
        ("/translate", {"q": "a", "source": "en", "target": "de", "model": ["x"]}),
        ("/MTRestService/TranslateJson", {"input": "a", "srcLangCode": "en", "trgLangCode": "de", "modelTag": ["x"]}),
        ("/api/complete", {"q": "a", "source": "en", "target": "de", "typed": "x" * 45_000}),
        ("/api/complete", {"q": "a" * 45_000, "source": "en", "target": "de"}),
    ],
)
def test_a_mistake_is_400_and_leaves_no_trace(attacked, path, fields):
    """A15, A16, A18"""
    assert attacked.refused(path, fields, headers=key("other"))[0] == 400
    assert attacked.ask("/v2/glossaries", headers=key("other"))[0] == 200


def test_pairs_of_surrogates_are_text(attacked):
    body = b'{"q": "\\ud83d\\ude00", "source": "en", "target": "de"}'
    assert attacked.json("/translate", body, headers=key("other") | {"Content-Type": "application/json"})


def test_a_host_is_given_once_and_nobody_is_sent_to_it(attacked):
    """A19"""
    for head, status in (
        (b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400),
        (b"GET /health HTTP/1.0\r\n\r\n", 200),
        (b"GET /languages/ HTTP/1.1\r\nHost: evil\r\nConnection: close\r\n\r\n", 421),
        (b"GET /languages/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200),
    ):
        answer = attacked.send(head)
        assert int(answer.split(b" ", 2)[1]) == status, answer
        assert b"location:" not in answer.lower()


def test_wrong_keys_are_refused_faster_and_faster(attacked):
    """A19"""
    fields = {"q": "a", "source": "en", "target": "de"}
    statuses = [attacked.ask("/translate", fields, key(f"guess{n}"))[0] for n in range(80)]
    assert statuses[0] == 403 and statuses[-1] == 429
    assert attacked.ask("/translate", fields, key("other"))[0] == 200


def test_a_key_with_a_space_is_refused_at_the_start(tmp_path):
    """A19"""
    (tmp_path / "keys").write_text("good\ntwo words\t5\n")
    settings = ServerSettings((), keys=str(tmp_path / "keys"))
    refused(DataError, "line 2 must be a key without spaces", settings.read_keys)


def test_warnings_and_tracebacks_are_lines_of_json():
    """A12, A19"""
    code = (
        "import logging, threading, warnings\nfrom nmt.serve.log import written_log\nwith written_log():\n"
        "  warnings.warn('a warning of the library')\n  logging.getLogger('other').error('said')\n"
        "  logging.getLogger('asyncio').error('said')\n"
        "  t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()\n"
    )
    found = [json.loads(line) for line in python(code).stderr.splitlines()]
    assert len(found) == 4 and "ZeroDivisionError" in found[-1]["traceback"]


def test_errors_of_the_loop_are_told_once_and_counted(caplog):
    """A12"""
    from nmt.serve.log import LoopErrors

    tell = LoopErrors()
    for _ in range(1000):
        tell(None, {"message": "socket.accept() out of system resource", "exception": OSError(24, "Too many")})
    assert len(caplog.records) == 1


def test_tickets_are_short(attacked):
    """A20"""
    body, head = multipart("a.txt", b"kara", source="en", target="de", ticket="t" * 101)
    assert attacked.refused("/api/file", body, headers=head | key("other"), method="POST")[0] == 400


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_model_file_that_is_overwritten_harms_no_request(tmp_path, dtype):
    """A9: the server died of SIGBUS."""
    folder = model_folder(tmp_path / "model")
    with running(folder, "--compute-dtype", dtype, "--cache", 0) as server:
        fields = {"q": "kara mo", "source": "en", "target": "de", "alternatives": 2}
        before = server.json("/translate", fields)
        for file in folder.iterdir():
            with file.open("r+b") as plug:
                plug.truncate(1000)
                plug.write(b"\xff" * 500)
        assert server.json("/translate", fields) == before
        assert server.json("/api/complete", {"q": "kara", "source": "en", "target": "de"})
        server.process.send_signal(signal.SIGHUP)
        until(lambda: any("the old ones stay in use" in line for line in server.log))
        assert server.json("/translate", fields) == before
        assert server.end() == 0


def test_sessions_end_with_their_model(tmp_path):
    """A kept session was found by the id of an engine, which another one may have after a reload."""
    from nmt.serve.service import Sessions

    session, made = SimpleNamespace(complete=lambda typed, **more: [typed]), []
    translator = SimpleNamespace(session=lambda sentence: made.append(sentence) or session)

    def model(generation):
        return SimpleNamespace(generation=generation, engine=SimpleNamespace(translator=translator))

    sessions = Sessions()
    for _ in range(2):
        sessions._complete(model(1), "a", "s", "t", 1)
    assert made == ["s"]
    sessions.renew({2})
    assert len(sessions._kept) == 0
    sessions._complete(model(1), "a", "s", "t", 1)  # a request that has begun before
    assert made == ["s", "s"] and len(sessions._kept) == 0
    sessions._complete(model(2), "b", "s", "t", 1)
    assert len(made) == 3 and len(sessions._kept) == 1


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.po", b'msgid ""\nmsgstr "Content-Type: text/plain; charset=rot13\\n"\n\nmsgid "a"\nmsgstr ""\n'),
        ("a.docx", packed("docx", f"{'<w:p>' * 1_000}<w:r><w:t>a</w:t></w:r>{'</w:p>' * 1_000}")),
        ("a.docx", b"PK nothing"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_mistake_of_its_sender(attacked, name, content):
    """A18: these were 500."""
    body, head = multipart(name, content, source="en", target="de")
    status, _, told = attacked.ask("/translate_file", body, head | key("other"))
    assert status in (200, 400) and b"\n" not in told
