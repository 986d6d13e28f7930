"""A server of small models that have learnt nothing, in a process of its own, for tests of requests."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress

import pytest

from tests import saved_models

for _needed in ("starlette", "uvicorn", "prometheus_client", "python_multipart", "sentencex", "langcodes"):
    pytest.importorskip(_needed, reason="needs the extra [serve]")


def model_folder(folder, source="en", target="de", name="small", **changes):
    """A folder of a model from one language to another."""
    saved_models.write_pair(folder, source, target, **{"seed": 6} | changes)
    path = folder / "config.yaml"
    path.write_text(re.sub(r"(?m)^name: .*", f"name: {name}", path.read_text("utf-8")), "utf-8")
    return folder


class Server:
    """One that runs; `log` holds what it has said so far. before: a statement that it begins with."""

    def __init__(self, *arguments, before="pass"):
        self.log = []
        port = () if "--port" in arguments else ("--port", "0")
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{before}; from nmt.cli.entry import serve; serve()", *port, *map(str, arguments)],
            stderr=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        self.port = None
        listening = threading.Event()

        def read():
            for line in self.process.stderr:
                self.log.append(line.decode())
                if '"listening on' in self.log[-1]:
                    self.port = int(json.loads(self.log[-1])["event"].rpartition(":")[2])
                    listening.set()
            listening.set()

        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()
        listening.wait(120)
        assert self.port, "".join(self.log)
        self.url = f"http://127.0.0.1:{self.port}"

    def ask(self, path, body=None, headers=None, method=None):
        """Status, headers and content of an answer; a dictionary or list is sent as JSON."""
        headers = dict(headers or {})
        if isinstance(body, dict | list):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def json(self, path, body=None, **more):
        """The content of an answer that must be a good one."""
        status, _, content = self.ask(path, body, **more)
        assert status == 200, content
        return json.loads(content)

    def refused(self, path, body=None, **more):
        """Status and message of an answer that must not be a good one."""
        status, _, content = self.ask(path, body, **more)
        assert 400 <= status < 600, content
        (message,) = json.loads(content).values()
        assert "\n" not in message
        return status, message

    def send(self, data, *, end=False, seconds=20):
        """What comes back for bytes as they are."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as plug:
            plug.sendall(data)
            if end:
                plug.shutdown(socket.SHUT_WR)
            found = b""
            with suppress(ConnectionResetError):
                while piece := plug.recv(65536):
                    found += piece
            return found

    def end(self, number=signal.SIGTERM, seconds=60):
        """Its exit code after a signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(seconds)
        self._reader.join(10)
        return code


@contextmanager
def running(*arguments, **more):
    """A server until the end of the block."""
    server = Server(*arguments, **more)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait(30)


def asked(text, **more):
    """The fields of a request for a translation."""
    return {"q": text, "source": "en", "target": "de"} | more


def multipart(name, content, **fields):
    """A form with a file, and its headers."""
    rows = [(key, "", value.encode()) for key, value in fields.items()] + [("file", f'; filename="{name}"', content)]
    body = b"".join(
        b'--bb\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (key.encode(), more.encode(), value)
        for key, more, value in rows
    )
    return body + b"--bb--\r\n", {"Content-Type": "multipart/form-data; boundary=bb"}
