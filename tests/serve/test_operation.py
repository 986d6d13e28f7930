"""What an operator of a server relies on: starts, ends, the log, and what is told of the models."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nmt.errors import DeviceError
from nmt.rnn.kernels.machine_code.store import store
from tests.serve import servers
from tests.serve.test_protocols import multipart
from tests.waiting import until

COMMAND = [sys.executable, "-c", "from nmt.cli.entry import serve; serve()"]
PAIR = {"source": "en", "target": "de"}


def test_a_port_is_taken_before_models_are_loaded():
    from nmt.serve.server import listen_on

    with listen_on("127.0.0.1", 0) as place:
        with pytest.raises(DeviceError, match="must be free to listen on, got .*; choose another --host or --port"):
            listen_on("127.0.0.1", place.getsockname()[1])


def test_a_port_that_is_lost_between_binding_and_listening_is_a_line(monkeypatch):
    from nmt.serve.server import listen_on

    def lost(plug, backlog):
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(socket.socket, "listen", lost)
    with pytest.raises(DeviceError, match="must be free to listen on"):
        listen_on("127.0.0.1", 0)


def test_a_second_server_leaves_the_first_its_port_while_it_loads(server, folder, tmp_path):
    """The first compiles, since its cache lacks a third of what `server` has compiled; it died of "Address already in
    use" when it began to listen."""
    cache = shutil.copytree(store().folder, tmp_path / "nmt-code", ignore=shutil.ignore_patterns(".*"))
    for path in sorted(cache.iterdir())[::3]:
        path.unlink()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    first = subprocess.Popen(
        [*COMMAND, str(folder), "--port", port],
        stderr=subprocess.PIPE,
        env=os.environ | {"NMT_CACHE_DIR": str(tmp_path), "NMT_SHIPPED_CODE": "0", "OMP_NUM_THREADS": "1"},
        text=True,
    )
    try:
        assert '"loading' in first.stderr.readline()
        second = subprocess.run([*COMMAND, str(folder), "--port", port], capture_output=True, text=True, timeout=120)
        (line,) = second.stderr.splitlines()
        assert second.returncode == 1 and line.startswith(f"Error: 127.0.0.1:{port}: must be free to listen on")
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
    with servers.running(folder, "--max-waiting", 40, "--cache", 0, "--no-split", "--threads", 2) as server:
        found = []

        def ask():
            while len(found) < 60:
                found.append(server.ask("/translate", {"q": lines[:5], **PAIR})[0])

        others = [threading.Thread(target=ask) for _ in range(3)]
        for one in others:
            one.start()
        form, headers = multipart("a.txt", text.encode(), **PAIR)
        status, _, content = server.ask("/translate_file", form, headers)
        assert status == 200, content
        done = server.ask(json.loads(content)["translatedFileUrl"].removeprefix(server.url))[2].decode()
        assert len(done.splitlines()) == 2000
        for one in others:
            one.join(60)
        assert set(found) == {200}  # the file leaves them room
        assert server.json("/translate", {"q": [f"{n} a" for n in range(600)], **PAIR})  # nor does a long text race


def test_while_it_ends_it_says_so(folder, lines, expected):
    body = json.dumps({"q": lines[0], **PAIR}).encode()
    head = f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with servers.running(folder) as server, socket.create_connection(("127.0.0.1", server.port), timeout=60) as plug:
        plug.sendall(head + body[:5])  # a request that has begun
        until(lambda: b"nmt_requests_in_flight 2.0" in server.ask("/metrics")[2])
        server.process.send_signal(signal.SIGTERM)
        until(lambda: server.ask("/ready")[0] == 503)
        status, headers, content = server.ask("/ready")
        assert (status, json.loads(content)) == (503, {"status": "ending"}) and headers["Connection"] == "close"
        assert server.json("/health")
        assert server.refused("/translate", {"q": "a", **PAIR}) == (503, "server: is ending; try again later")
        plug.sendall(body[5:])
        answer = plug.makefile("rb").read()
        assert (
            b" 200 OK" in answer and json.loads(answer.rpartition(b"\r\n")[2])["translatedText"] == expected[lines[0]]
        )
        assert server.end() == 0


def test_which_model_is_in_use_is_told(folder, tmp_path):
    """By the log, /api/models and /metrics: a file that was replaced is another model, whatever its name."""
    from nmt import Translator

    place = servers.model_folder(tmp_path / "model")
    with servers.running(place, "--compute-dtype", "int8") as server:

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
        first = told()
        servers.model_folder(tmp_path / "next", seed=9)
        (tmp_path / "model").rename(tmp_path / "former")
        server.process.send_signal(signal.SIGHUP)  # in between there is none
        until(lambda: b'nmt_reloads_total{result="failure"} 1.0' in server.ask("/metrics")[2])
        assert b'nmt_reloads_total{result="success"} 0.0' in server.ask("/metrics")[2]
        (tmp_path / "next").rename(tmp_path / "model")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: b'nmt_reloads_total{result="success"} 1.0' in server.ask("/metrics")[2])
        assert told() != first


def test_wrong_paths_and_methods_say_what_is_right(server):
    assert server.refused("/nosuch") == (404, "path: must be one of this server, got /nosuch; /spec lists them")
    assert server.refused("/translate")[1] == "method: must be POST for /translate, got GET; see /spec"
    assert server.refused("/languages", method="DELETE")[1].startswith("method: must be GET for /languages, got DELETE")


def started(*arguments, **environment):
    """Exit code and lines of a server that does not get as far as listening."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
        check=False,
    )
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
        (("--host", "999.1.1.1"), {}, "Error: --host: must be an address of this machine, got 999.1.1.1 ("),
        (("--host", "192.0.2.1"), {}, "Error: --host: must be an address of this machine, got 192.0.2.1 ("),
        (("--keys", "/nokeys"), {}, "Error: /nokeys: no such file; make it, with one key per line, or"),
    ],
)
def test_mistakes_at_the_start_are_told_by_their_name(folder, arguments, environment, told):
    code, lines = started(folder, *arguments, **environment)
    assert code in (1, 2) and told in lines[-1], lines
    assert sum("Error" in line for line in lines) == 1


def test_sizes_have_units():
    from nmt.cli.options.command import ByteSize

    sizes = {"64M": 2**26, "64 MiB": 2**26, "2G": 2**31, "1GB": 10**9, "8K": 8192, "12": 12, 7: 7}
    assert {given: ByteSize(0).convert(given, None, None) for given in sizes} == sizes


def test_a_mistyped_variable_is_told(tmp_path):
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
    with servers.running(folder, "--keys", keys, "--threads", 1) as strict:
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
