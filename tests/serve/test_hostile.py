"""Clients that send half, too much, too slowly or nonsense; that go, come too often or have no key. Others go on."""

import asyncio
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt import Translator
from nmt.cli.options.command import ByteSize
from nmt.errors import DeviceError
from nmt.rnn.kernels.machine_code.store import store
from nmt.serve.settings import Limits, RequestError
from tests.refusals import refused
from tests.serve import servers
from tests.serve.servers import asked, multipart, running
from tests.waiting import at_once, beside, until


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


def test_who_stops_reading_harms_nobody(server, lines):
    plugs = []
    for _ in range(20):
        plug = socket.create_connection(("127.0.0.1", server.port))
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        body = json.dumps(asked(lines[:20])).encode()
        plug.sendall(30 * (head(len(body)) + body))
        plugs.append(plug)
    assert "translatedText" in server.json("/translate", asked(lines[0]))
    for plug in plugs:
        plug.close()
    until(lambda: b"nmt_requests_in_flight 1.0" in server.ask("/metrics")[2])


def test_keys_and_rates(strict):
    def ask(**more):
        return strict.ask("/translate", asked("kara", **more))

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


def free(text):
    """The fields of a request with a key without limits."""
    return asked(text, api_key="free")


def test_too_many_waiting_are_told_to_come_back(strict, lines):
    found = []

    def ask():
        found.append(strict.ask("/translate", free([" ".join(lines[n : n + 5]) for n in range(15)])))

    at_once(*[ask] * 40, seconds=60)
    assert {status for status, *_ in found} == {200, 503}
    assert all(headers["Retry-After"] for status, headers, _ in found if status == 503)
    assert strict.json("/ready")["status"] == "ready"


def test_who_goes_leaves_the_search(strict, lines):
    long = [f"{n} {' '.join(lines[n : n + 8])}" for n in range(45)]
    body = json.dumps(free(long)).encode()
    assert len(body) < 20_000
    with socket.create_connection(("127.0.0.1", strict.port)) as plug:
        plug.sendall(head(len(body)) + body)
        time.sleep(0.02)
    until(lambda: b"nmt_sentences_waiting 0.0" in strict.ask("/metrics")[2])
    until(lambda: b"nmt_requests_in_flight 1.0" in strict.ask("/metrics")[2])
    assert "translatedText" in strict.json("/translate", free(lines[0]))


def test_the_log_is_json_and_has_texts_only_when_asked(strict, server, lines):
    strict.ask("/translate", free("seldom said"))
    server.ask("/translate", asked("seldom said"))
    until(lambda: any('"texts": ["seldom said"]' in line for line in strict.log))
    assert not any("seldom said" in line for line in server.log)
    for line in [*strict.log, *server.log]:
        assert json.loads(line)["level"] in ("info", "warning", "error"), line
    assert not any("traceback" in line for line in [*strict.log, *server.log])


async def test_a_body_that_does_not_come_is_not_waited_for():
    from starlette.requests import Request

    from nmt.serve.web import read_body

    async def receive():
        if not sent:
            sent.append(1)
            return {"type": "http.request", "body": b"half", "more_body": True}
        await asyncio.Event().wait()

    for limits, status in ((Limits(body_seconds=0.01), 408), (Limits(body_bytes=3), 413)):
        service, sent = SimpleNamespace(settings=SimpleNamespace(limits=limits)), []
        with pytest.raises(RequestError) as caught:
            await read_body(Request({"type": "http", "method": "POST", "headers": []}, receive), service)
        assert caught.value.status == status


async def test_a_head_that_does_not_come_is_not_waited_for(folder, monkeypatch):
    import uvicorn

    from nmt.serve import http_protocol

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.3)
    config = uvicorn.Config(app, http=http_protocol.GuardedProtocol, port=0, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    running = asyncio.ensure_future(server._serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    whole = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for head, status in ((b"", b"408"), (b"GET / HTTP/1.1\r\nHost", b"408"), (whole, b"200")):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        assert (await reader.read())[:12] == b"HTTP/1.1 " + status
        writer.close()
    server.should_exit = True
    await running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_under_load_every_request_that_was_accepted_is_answered(folder, lines, number):
    """Many clients over open connections, each asking on and on, a long text beside them: after a signal each has got
    whole answers alone, as many together as the server says."""
    with running(folder, "--no-split", "--cache", 0) as server:
        answered, broken = [], []
        body, long = [json.dumps(asked(line)).encode() for line in lines], json.dumps(asked(lines * 5)).encode()

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

        with beside(*[partial(ask, 7 * n) for n in range(24)], seconds=60):
            until(lambda: len(answered) > 100)
            assert server.end(number) == 0
        told = [json.loads(line) for line in server.log]
        statuses = [one["status"] for one in told if one.get("path", one.get("route")) == "/translate"]
        assert broken == [] and set(answered) == {200}
        assert [status for status in statuses if status != 503] == [200] * len(answered)


COMMAND = [sys.executable, "-c", "from nmt.cli.entry import serve; serve()"]


def test_a_port_that_is_lost_between_binding_and_listening_is_a_line(monkeypatch):
    from nmt.serve.server import listen_on

    def lost(plug, backlog):
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(socket.socket, "listen", lost)
    refused(DeviceError, "must be free to listen on", listen_on, "127.0.0.1", 0)


def test_a_second_server_leaves_the_first_its_port_while_it_loads(server, folder, tmp_path):
    """The first compiles, since its cache lacks a third of what `server` has compiled; it died of "Address already in
    use" when it began to listen."""
    cache = shutil.copytree(store().folder, tmp_path / "nmt-code", ignore=shutil.ignore_patterns(".*"))
    for path in sorted(cache.iterdir())[::3]:
        path.unlink()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    own = {"NMT_CACHE_DIR": str(tmp_path), "NMT_SHIPPED_CODE": "0", "OMP_NUM_THREADS": "1"}
    command, pipe = [*COMMAND, str(folder), "--port", port], subprocess.PIPE
    first = subprocess.Popen(command, stderr=pipe, env=os.environ | own, text=True)
    try:
        assert '"loading' in first.stderr.readline()
        second = subprocess.run(command, capture_output=True, text=True, timeout=120)
        (line,) = second.stderr.splitlines()
        assert second.returncode == 1 and line.startswith(f"Error: 127.0.0.1:{port}: must be free to listen on")
        assert line.removesuffix(".").endswith("; choose another --host or --port")
        with socket.create_connection(("127.0.0.1", int(port)), timeout=120) as plug:  # it waits, and is answered
            plug.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert plug.recv(1000).startswith(b"HTTP/1.1 200")
        first.send_signal(signal.SIGTERM)
        rest = first.communicate(timeout=60)[1].splitlines()
        assert first.returncode == 0
        assert any("compiling machine code" in json.loads(line)["event"] for line in rest)  # every line is JSON
    finally:
        first.kill()
        first.wait()


def test_a_file_is_translated_however_little_may_wait(folder, lines):
    """It was refused for ever, since two of its pieces raced for the empty queue."""
    text = "\n".join(f"{n} {' '.join(lines[n % 50 : n % 50 + 2])}" for n in range(2000))
    with running(folder, "--max-waiting", 40, "--cache", 0, "--no-split", "--threads", 2) as server:
        found = []

        def ask():
            while len(found) < 60:
                found.append(server.ask("/translate", asked(lines[:5]))[0])

        with beside(*[ask] * 3, seconds=60):
            form, headers = multipart("a.txt", text.encode(), source="en", target="de")
            url = server.json("/translate_file", form, headers=headers)["translatedFileUrl"]
            assert len(server.ask(url.removeprefix(server.url))[2].splitlines()) == 2000
        assert set(found) == {200}  # the file leaves them room
        assert server.json("/translate", asked([f"{n} a" for n in range(600)]))  # nor does a long text race


def test_while_it_ends_it_says_so(folder, lines, expected):
    body = json.dumps(asked(lines[0])).encode()
    head = f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with running(folder) as server, socket.create_connection(("127.0.0.1", server.port), timeout=60) as plug:
        plug.sendall(head + body[:5])  # a request that has begun
        until(lambda: b"nmt_requests_in_flight 2.0" in server.ask("/metrics")[2])
        server.process.send_signal(signal.SIGTERM)
        until(lambda: server.ask("/ready")[0] == 503)
        status, headers, content = server.ask("/ready")
        assert (status, json.loads(content)) == (503, {"status": "ending"}) and headers["Connection"] == "close"
        assert server.json("/health")
        assert server.refused("/translate", asked("a")) == (503, "server: is ending; try again later")
        plug.sendall(body[5:])
        answer = plug.makefile("rb").read()
        assert b" 200 OK" in answer
        assert json.loads(answer.rpartition(b"\r\n")[2])["translatedText"] == expected[lines[0]]
        assert server.end() == 0


def test_models_are_loaded_anew_and_nothing_is_lost(folder, tmp_path, lines):
    """The log, /api/models and /metrics tell a file that was replaced as another model, whatever its name."""
    place = servers.model_folder(tmp_path / "model")
    with running(place, "--compute-dtype", "int8") as server:
        stop, wrong, numbers = threading.Event(), [], itertools.count()

        def ask():
            while not stop.is_set():
                text = [f"{line} {next(numbers)}" for line in lines[:3]]
                status, _, content = server.ask("/translate", asked(text))
                if status != 200:
                    wrong.append(content)

        def reloaded(result, number):
            server.process.send_signal(signal.SIGHUP)
            until(lambda: b'nmt_reloads_total{result="%s"} %d.0' % (result, number) in server.ask("/metrics")[2])

        def told():
            (line,) = [json.loads(line) for line in server.log if '"event": "loaded ' in line][-1:]
            (about,) = server.json("/api/models")["models"]
            (row,) = [line for line in server.ask("/metrics")[2].decode().splitlines() if "nmt_model_info{" in line]
            (loaded,) = Translator.load(place).loaded
            for found in (line, about):
                assert (found["compute_dtype"], found["parameters"]) == ("int8", loaded.parameters)
                assert found["fingerprint"] == loaded.digest[:12]
            assert f'fingerprint="{loaded.digest[:12]}"' in row and 'model="small"' in row and row.endswith(" 1.0")
            return loaded.digest

        assert sum('"event": "loading 1 model"' in line for line in server.log) == 1
        with beside(*[ask] * 4, seconds=60):
            reloaded(b"success", 1)
            first, said = told(), server.json("/translate", asked(lines))
            servers.model_folder(tmp_path / "next", seed=9)
            (tmp_path / "model").rename(tmp_path / "former")
            reloaded(b"failure", 1)  # in between there is none
            until(lambda: any("the old ones stay in use" in line for line in server.log))  # logged after it is counted
            (tmp_path / "next").rename(tmp_path / "model")
            reloaded(b"success", 2)
            assert told() != first and server.json("/translate", asked(lines)) != said  # nothing of the cache
            stop.set()
        assert wrong == []


def test_wrong_paths_and_methods_say_what_is_right(server):
    assert server.refused("/nosuch") == (404, "path: must be one of this server, got /nosuch; /spec lists them")
    assert server.refused("/translate") == (405, "method: must be POST for /translate, got GET; see /spec")
    assert server.refused("/languages", method="DELETE")[1].startswith("method: must be GET for /languages, got DELETE")


def started(*arguments, **environment):
    """Exit code and lines of a server that does not get as far as listening, and whose log is written slowly."""
    environment = os.environ | {"NMT_SERVE_PORT": "0"} | environment
    options = {"capture_output": True, "text": True, "timeout": 120, "env": environment}
    slow = "import time; from nmt.serve.log import _Writer as w; w.filter = lambda *_: not time.sleep(0.2)"
    command = [*COMMAND[:-1], f"{slow}; {COMMAND[-1]}", *map(str, arguments)]
    done = subprocess.run(command, check=False, **options)
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("arguments", "environment", "told"),
    [
        ((), {"NMT_SERVE_PORT": "tcp://10.0.0.1:5000"}, "Invalid value for NMT_SERVE_PORT: 'tcp://10.0.0.1:5000' is"),
        (("--port", "abc"), {}, "Invalid value for '--port': 'abc' is"),
        (("--cache", "64 cows"), {}, "'64 cows' is not a number of bytes, such as 67108864, 64M or 2G."),
        (("--max-body", "0K"), {}, "0 is not in the range x>=1"),
        (("--req-limit", "9"), {}, "did you mean --requests-per-minute?"),
        (("--char-limit", "9"), {}, "did you mean --max-characters?"),
        (("--batch-limit", "9"), {}, "did you mean --max-texts?"),
        (("--api-keys",), {}, "did you mean --keys?"),
        (("--load-only", "en,de"), {}, "did you mean MODEL without an option?"),
        (("--host", "999.1.1.1"), {}, "Error: --host: must be an address of this machine"),
        (("--host", "192.0.2.1"), {}, "Error: --host: must be an address of this machine"),
        (("--keys", os.devnull), {}, "must contain one key per line"),
        (("--shortlist", "--port", "0"), {}, "run nmt-shortlist"),
        (("--keys", "/nokeys"), {}, "Error: /nokeys: no such file; make it, with one key per line, or"),
    ],
)
def test_mistakes_at_the_start_are_told_by_their_name(folder, arguments, environment, told):
    code, lines = started(folder, *arguments, **environment)
    assert code in (1, 2) and told in lines[-1], lines
    assert sum("Error" in line for line in lines) == 1


def test_sizes_have_units():
    sizes = {"64M": 2**26, "64 MiB": 2**26, "2G": 2**31, "1GB": 10**9, "8K": 8192, "12": 12, 7: 7}
    assert {given: ByteSize(0).convert(given, None, None) for given in sizes} == sizes


def test_a_mistyped_variable_is_told(tmp_path):
    assert started(tmp_path / "none") == (1, [f"Error: {tmp_path}/none: no such folder; check the path"])
    code, lines = started(tmp_path / "none", NMT_SERVE_PROT="80", NMT_SERVE_PORT="0", NMT_SERVE_XYZZY="1")
    warned = [json.loads(line) for line in lines if line.startswith("{")]
    assert [(one["level"], one["event"]) for one in warned] == [
        ("warning", "NMT_SERVE_PROT: is no variable of nmt-serve; did you mean NMT_SERVE_PORT?"),
        ("warning", "NMT_SERVE_XYZZY: is no variable of nmt-serve"),
    ]


def test_the_description_is_of_this_server(server, folder, tmp_path):
    """Its address, its keys, and what each route may answer."""
    validator = pytest.importorskip("openapi_spec_validator", reason="needs openapi-spec-validator")
    spec = json.loads(server.ask("/spec", headers={"X-Forwarded-Prefix": "/mt"})[2])
    validator.validate(spec)
    assert spec["servers"] == [{"url": f"{server.url}/mt"}] and "components" not in spec
    assert "403" not in spec["paths"]["/translate"]["post"]["responses"]
    keys = tmp_path / "keys"
    keys.write_text("k\n")
    with running(folder, "--keys", keys, "--threads", 1) as strict:
        spec = strict.json("/spec")
        validator.validate(spec)
        assert set(spec["components"]["securitySchemes"]) == {"bearer", "deepl"}
        for path, methods in spec["paths"].items():
            for method, operation in methods.items():
                kinds = operation.get("requestBody", {}).get("content", {})
                form = (b"--b--\r\n", {"Content-Type": "multipart/form-data; boundary=b"})
                example = next((kind["example"].encode() for kind in kinds.values() if "example" in kind), None)
                given = form if "multipart/form-data" in kinds else (example, None)
                status, _, content = strict.ask(path.replace("{", "").replace("}", ""), *given, method=method.upper())
                is_kept_out = status == 403 or b"api_key: must be a key" in content
                assert is_kept_out == ("security" in operation), (method, path, status)
                assert str(status) in operation["responses"], (method, path, status)
    answers = {path: set(methods["post"]["responses"]) for path, methods in spec["paths"].items() if "post" in methods}
    assert answers["/translate"] == {"200", "400", "403", "408", "413", "429", "503", "504"}
    assert "404" in set(spec["paths"]["/download_file/{name}"]["get"]["responses"])
    assert set(spec["paths"]["/health"]["get"]["responses"]) == {"200", "400"}


def test_the_health_check_of_the_container_follows_its_port(server):
    text = (Path(__file__).resolve().parents[2] / "deploy" / "Containerfile").read_text("utf-8")
    (code,) = re.findall(r'^HEALTHCHECK .*python -c "(.*)"$', text, re.M)
    run = [sys.executable, "-c", code]
    assert subprocess.run(run, env=os.environ | {"NMT_SERVE_PORT": str(server.port)}, check=False).returncode == 0
    done = subprocess.run(run, env=os.environ | {"NMT_SERVE_PORT": "1"}, capture_output=True, check=False)
    assert done.returncode == 1


def test_an_answer_reaches_a_client_that_is_still_sending(server):
    """Closing a connection with bytes that nobody has read resets it, and the client loses the answer."""
    head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nOrigin: https://evil.example\r\n"
    body = b"q" * 4_000_000
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as plug:
            plug.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            found = b""
            while piece := plug.recv(65536):
                found += piece
        assert found.startswith(b"HTTP/1.1 403 ") and b"evil.example" in found
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as plug, pytest.raises(OSError):
        plug.sendall(f"{head}Content-Length: 300000000\r\n\r\n".encode())
        for _ in range(300):  # Windows takes any number of bytes at a time, whoever reads them
            plug.sendall(bytes(1_000_000))
