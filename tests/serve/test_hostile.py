"""Clients that send half, too much, too slowly or nonsense; that go, come too often or have no key. Others go on."""

import http.client
import json
import signal
import socket
import threading
import time
import urllib.parse

import pytest

from tests.serve.servers import model_folder, running
from tests.waiting import until


@pytest.fixture(scope="module")
def strict(folder, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("# of the test\nslow\t2\nfree\t0\n")
    given = ("--keys", keys, "--max-body", 20_000, "--max-file", 40_000, "--max-waiting", 50, "--cache", 0)
    with running(folder, *given, "--log-texts") as one:
        yield one


def head(length, path="/translate"):
    fields = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}"
    return f"POST {path} HTTP/1.1\r\n{fields}\r\n\r\n".encode()


def status_of(answer):
    return int(answer.split(b" ", 2)[1])


def test_too_much_is_refused_before_it_has_come(strict):
    assert status_of(strict.send(head(10_000_000))) == 413
    chunked = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = strict.send(chunked + b"4000\r\n" + b"x" * 0x4000 + b"\r\n" + b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
    assert status_of(answer) == 413 and b"at most 20,000 bytes" in answer
    assert strict.refused("/translate_file", b"x" * 50_000)[0] == 413


def test_half_a_request_and_nonsense_harm_nobody(strict):
    assert strict.send(head(100) + b'{"q": "a', end=True) == b""
    assert status_of(strict.send(b"\x00\x01\x02 not HTTP\r\n\r\n")) == 400
    assert status_of(strict.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200_000)) in (400, 431)
    assert strict.json("/health") == {"status": "ok"}


def test_who_stops_reading_harms_nobody(strict, lines):
    plugs = []
    for _ in range(20):
        plug = socket.create_connection(("127.0.0.1", strict.port))
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        body = json.dumps({"q": lines[:20], "source": "en", "target": "de", "api_key": "free"}).encode()
        plug.sendall(30 * (head(len(body)) + body))
        plugs.append(plug)
    fields = {"q": lines[0], "source": "en", "target": "de", "api_key": "free"}
    assert "translatedText" in strict.json("/translate", fields)
    for plug in plugs:
        plug.close()
    until(lambda: b"nmt_requests_in_flight 1.0" in strict.ask("/metrics")[2])


def test_keys_and_rates(strict):
    def ask(**more):
        return strict.ask("/translate", {"q": "kara", "source": "en", "target": "de"} | more)

    assert ask()[0] == 403 and ask(api_key="other")[0] == 403 and ask(api_key=["x"])[0] == 403
    assert [ask(api_key="slow")[0] for _ in range(3)] == [200, 200, 429]
    status, headers, _ = ask(api_key="slow")
    assert 1 <= int(headers["Retry-After"]) <= 31
    bearer = {"Authorization": "DeepL-Auth-Key free"}
    assert strict.json("/v2/translate", {"text": "kara", "target_lang": "DE"}, headers=bearer)
    query = urllib.parse.urlencode({"tokenCode": "free", "input": "a", "srcLangCode": "en", "trgLangCode": "de"})
    assert strict.json("/MTRestService/TranslateJson?" + query)
    for path in ("/api/models", "/health", "/languages"):
        assert strict.json(path)


def test_too_many_waiting_are_told_to_come_back(strict, lines):
    found = []

    def ask():
        body = {"q": [" ".join(lines[n : n + 5]) for n in range(15)], "api_key": "free", "source": "en", "target": "de"}
        found.append(strict.ask("/translate", body))

    threads = [threading.Thread(target=ask) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {status for status, *_ in found} == {200, 503}
    assert all(headers["Retry-After"] for status, headers, _ in found if status == 503)
    assert strict.json("/ready")["status"] == "ready"


def test_who_goes_leaves_the_search(strict, lines):
    long = [f"{n} {' '.join(lines[n : n + 8])}" for n in range(45)]
    body = json.dumps({"q": long, "source": "en", "target": "de", "api_key": "free"}).encode()
    assert len(body) < 20_000
    with socket.create_connection(("127.0.0.1", strict.port)) as plug:
        plug.sendall(head(len(body)) + body)
        time.sleep(0.02)
    until(lambda: b"nmt_sentences_waiting 0.0" in strict.ask("/metrics")[2])
    until(lambda: b"nmt_requests_in_flight 1.0" in strict.ask("/metrics")[2])
    fields = {"q": lines[0], "source": "en", "target": "de", "api_key": "free"}
    assert "translatedText" in strict.json("/translate", fields)


def test_the_log_is_json_and_has_texts_only_when_asked(strict, server, lines):
    strict.ask("/translate", {"q": "seldom said", "source": "en", "target": "de", "api_key": "free"})
    server.ask("/translate", {"q": "seldom said", "source": "en", "target": "de"})
    until(lambda: any('"texts": ["seldom said"]' in line for line in strict.log))
    assert not any("seldom said" in line for line in server.log)
    for line in [*strict.log, *server.log]:
        assert json.loads(line)["level"] in ("info", "warning", "error"), line
    assert not any("traceback" in line for line in [*strict.log, *server.log])


def test_models_are_loaded_anew_and_nothing_is_lost(tmp_path, lines):
    folder = model_folder(tmp_path / "model")
    with running(folder, "--cache", 0) as server:
        stop, wrong = threading.Event(), []

        def ask():
            while not stop.is_set():
                status, _, content = server.ask("/translate", {"q": lines[:3], "source": "en", "target": "de"})
                if status != 200:
                    wrong.append(content)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(3):
            server.process.send_signal(signal.SIGHUP)
            until(lambda n=number: sum("are reloaded" in line for line in server.log) > n)
        (folder / "config.yaml").rename(folder / "away")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: any("the old ones stay in use" in line for line in server.log))
        stop.set()
        for thread in threads:
            thread.join(60)
        assert wrong == []
        assert server.json("/translate", {"q": lines[0], "source": "en", "target": "de"})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_was_accepted_is_answered_before_the_end(folder, lines, number):
    with running(folder, "--cache", 0) as server:
        found = []

        def ask(n):
            try:
                found.append(server.ask("/translate", {"q": lines[:20], "source": "en", "target": "de"})[0])
            except OSError as error:
                found.append(type(error).__name__)

        ask(0)
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        until(lambda: b"nmt_requests_in_flight 9.0" in server.ask("/metrics")[2] or len(found) == 9)
        assert server.end(number) == 0
        for thread in threads:
            thread.join(60)
        assert found == [200] * 9


def test_mistakes_of_who_starts_it_are_a_line(folder, tmp_path):
    from click.testing import CliRunner

    from nmt.cli.commands.serve import serve

    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    empty = tmp_path / "keys"
    empty.write_text("\n")
    with taken:
        for arguments, said in (
            ([str(tmp_path / "none")], "none"),
            ([str(folder), "--port", str(taken.getsockname()[1])], "must be free to listen on"),
            ([str(folder), "--keys", str(empty)], "must contain one key per line"),
            ([str(folder), "--shortlist", "--port", "0"], "run nmt-shortlist"),
            ([], "Missing argument"),
        ):
            result = CliRunner().invoke(serve, arguments)
            assert result.exit_code != 0 and said in result.output, result.output
            errors = [line for line in result.output.splitlines() if line.startswith("Error")]
            assert len(errors) == 1


def test_a_body_that_does_not_come_is_not_waited_for():
    import asyncio
    from types import SimpleNamespace

    from starlette.requests import Request

    from nmt.serve.settings import Limits, RequestError
    from nmt.serve.web import read_body

    async def receive():
        if not sent:
            sent.append(1)
            return {"type": "http.request", "body": b"half", "more_body": True}
        await asyncio.Event().wait()

    async def read(limits):
        service = SimpleNamespace(settings=SimpleNamespace(limits=limits))
        with pytest.raises(RequestError) as caught:
            await read_body(Request({"type": "http", "method": "POST", "headers": []}, receive), service)
        return caught.value.status

    sent = []
    assert asyncio.run(read(Limits(body_seconds=0.01))) == 408
    sent = []
    assert asyncio.run(read(Limits(body_bytes=3))) == 413


def test_a_head_that_does_not_come_is_not_waited_for(folder, monkeypatch):
    import asyncio

    import uvicorn

    from nmt.serve import http_protocol

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def ask():
        config = uvicorn.Config(app, http=http_protocol.GuardedProtocol, port=0, lifespan="off", log_level="critical")
        server = uvicorn.Server(config)
        running = asyncio.ensure_future(server._serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        answers = []
        for head in (b"", b"GET / HTTP/1.1\r\nHost", b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head)
            answers.append((await reader.read())[:12])
            writer.close()
        server.should_exit = True
        await running
        return answers

    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.3)
    assert asyncio.run(ask()) == [b"HTTP/1.1 408", b"HTTP/1.1 408", b"HTTP/1.1 200"]


def test_under_load_every_request_that_was_accepted_is_answered(folder, lines):
    """Many clients over open connections, each asking on and on, a long text beside them: after SIGTERM each has got
    whole answers alone, as many together as the server says."""
    with running(folder, "--no-split", "--cache", 0) as server:
        answered, broken = [], []
        body = [json.dumps({"q": lines[n], "source": "en", "target": "de"}).encode() for n in range(len(lines))]
        long = json.dumps({"q": lines * 5, "source": "en", "target": "de"}).encode()

        def ask(n):
            kind = {"Content-Type": "application/json"}
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            try:
                while True:
                    n += 1
                    connection.request("POST", "/translate", long if n % 20 == 0 else body[n % len(body)], kind)
                    answer = connection.getresponse()
                    content = json.loads(answer.read())
                    if answer.status == 503:  # of a new connection, while the server ends
                        assert content == {"error": "server: is ending; try again later"}
                        return
                    answered.append(answer.status)
            except (http.client.RemoteDisconnected, ConnectionError):
                pass  # closed between two requests
            except Exception as error:  # noqa: BLE001 - half an answer is what is looked for
                broken.append(error)

        threads = [threading.Thread(target=ask, args=(7 * n,)) for n in range(24)]
        for thread in threads:
            thread.start()
        until(lambda: len(answered) > 100)
        assert server.end() == 0
        for thread in threads:
            thread.join(60)
        told = [json.loads(line) for line in server.log]
        statuses = [one["status"] for one in told if one.get("path", one.get("route")) == "/translate"]
        assert broken == [] and set(answered) == {200}
        assert [status for status in statuses if status != 503] == [200] * len(answered)
