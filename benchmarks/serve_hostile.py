"""Does nmt-serve stay quick, right and within its memory for ordinary clients under attack?

    python benchmarks/serve_hostile.py MODEL [--seconds 600] [--clients 16] [--server FOLDER]
    python benchmarks/serve_hostile.py MODEL --seconds 7200 --clients 50 --pause 5 --attack-pause 30 --reload 300

Starts a server on the loopback with keys, and 16 ordinary clients that each ask for a sentence, compare the answer
with that of the beginning, pause and ask again; one in fifty goes before its answer comes. They have the first quarter
of the time alone; then attackers send, at the same time, all of `requests()` in a loop: texts, files, trailers, bodies
without a key, idle connections, wrong keys. Prints the ordinary clients' 50th and 99th milliseconds in both parts and
how many answers were not good, memory of the server and its workers over time, open files, lines of the log that are no
JSON and lines with a traceback (both must be 0), and how long it takes to obey SIGTERM in the midst of the attack.
--server: the folder of another version of nmt, whose server is attacked instead. The second line is a service of two
hours whose models are loaded again every five minutes; its growth of memory is the difference between the medians of
the second and the last quarter of the attack.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import multiprocessing
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
SENTENCES = ("the train leaves on monday .", "the ship arrives at nine .", "i know that my sister arrives at nine .")
FORM = {"Content-Type": "multipart/form-data; boundary=----a"}


def docx(body: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f"<w:document {W}>{body}</w:document>")
    return packed.getvalue()


def form(name: str, content: bytes, **fields: str) -> bytes:
    head = "".join(
        f'------a\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, value in fields.items()
    )
    head += f'------a\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return head.encode() + content + b"\r\n------a--\r\n"


def text(path: str, **fields: Any) -> tuple[str, bytes, dict[str, str]]:
    given = {"source": "en", "target": "de", "q": "on monday"} | fields
    return path, json.dumps(given).encode(), {"Content-Type": "application/json"}


def file(name: str, content: bytes, path: str = "/translate_file", **more: str) -> tuple[str, bytes, dict[str, str]]:
    return path, form(name, content, source="en", target="de", **more), FORM


def requests() -> dict[str, tuple[str, bytes, dict[str, str]]]:
    """Whole requests, by the row of what they once did."""
    units = (
        "<xliff version='1.2'><file><body><trans-unit>" + "<source/>" * 20_000 + "</trans-unit></body></file></xliff>"
    )
    nested = "<xliff version='1.2'>" + "<trans-unit>" * 9_000 + "</trans-unit>" * 9_000 + "</xliff>"
    glossary = {"source_lang": "en", "target_lang": "de", "entries": "\n".join(f"a{n}\tb" for n in range(9_900))}
    document = form("a.txt", b"the train leaves on monday . " * 20_000, source_lang="EN", target_lang="DE")
    return {
        "A1": text("/translate", glossary="a" + " " * 110_000 + "b"),
        "A1 page": text("/api/sentences", glossary="a" + " " * 110_000 + "b"),
        "A2": text("/translate", q=" ".join(str(i % 10) for i in range(999))),
        "A2 page": text("/api/sentences", q=" ".join(str(i % 10) for i in range(2_000)), alternatives=4),
        "A2 long": text("/translate", q=" ".join(str(i % 10) for i in range(24_000))),
        "A3 tags": text("/translate", q="<a " * 16_666, format="html"),
        "A3 slashes": text("/translate", q="<a/" * 16_666, format="html"),
        "A3 quotes": text("/translate", q='<a b="' * 8_000, format="html"),
        "A3 comments": text("/translate", q="<!--" * 12_000, format="html"),
        "A5": file("a.docx", docx(f"<w:p><w:r>{'<w:t>a</w:t>' * 16_000}</w:r></w:p>")),
        "A6": file("a.xliff", units.encode()),
        "A6 nested": file("a.xliff", nested.encode()),
        "A7": file("a.docx", docx("<w:p/>" * 7_000_000)),
        "A10": file("a.txt", b"a" * 4_000_000 + "\U0001f600".encode()),
        "A10 xliff": file(
            "a.xliff",
            b"<xliff version='1.2'>" + b"<trans-unit><source>a b</source></trans-unit>" * 20_000 + b"</xliff>",
        ),
        "A13": ("/v2/document", document, FORM),
        "A14": ("/v2/glossaries", json.dumps(glossary | {"name": "a"}).encode(), {"Content-Type": "application/json"}),
        "A15": (
            "/v2/glossaries",
            json.dumps(glossary | {"name": "\ud800"}).encode(),
            {"Content-Type": "application/json"},
        ),
        "A16": text("/api/complete", typed="x y " * 11_000),
        "A16 q": text("/api/complete", q="x y " * 11_000),
        "A17 marks": text("/translate", q="«" * 49_000),
        "A17 formats": text("/translate", q=" ".join(["%" + "0" * 990] * 50)),
        "A17 names": text("/translate", q=" ".join(["%(a)" + "0" * 980] * 50)),
        "A18 target": text("/translate", target="\ud800"),
        "A18 list": text("/MTRestService/TranslateJson", input="a", srcLangCode="en", trgLangCode="de", modelTag=["x"]),
        "A18 po": file(
            "a.po", b'msgid ""\nmsgstr "Content-Type: text/plain; charset=rot13\\n"\n\nmsgid "a"\nmsgstr ""\n'
        ),
        "A18 docx": file("a.docx", docx("<w:p>" * 1_000 + "</w:p>" * 1_000)),
        "A20": file("a.txt", b"a", "/api/file", ticket="t" * 1_000_000),
    }


class Attack:
    """Everything in a loop, by some threads; what is no whole request by others."""

    def __init__(self, port: int, threads: int, pause: float) -> None:
        self.port, self.stop, self.sent, self.pause = port, threading.Event(), Counter[str](), pause
        wholes = requests()
        loops = [lambda n=n: self.whole(wholes, n) for n in range(threads)]
        loops += [self.trailers, self.bodies, self.idle, self.keys, self.heads]
        self._threads = [threading.Thread(target=self._on, args=(loop,), daemon=True) for loop in loops]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def _on(self, loop: Any) -> None:
        while not self.stop.is_set():
            try:
                loop()
            except OSError:
                time.sleep(0.05)
            self.stop.wait(self.pause)

    def _plug(self, seconds: float = 5.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=seconds)

    def whole(self, wholes: dict[str, Any], number: int) -> None:
        """Send one whole request, and wait for its answer for a while."""
        draw = random.Random(number + time.monotonic())
        name = draw.choice(list(wholes))
        path, body, head = wholes[name]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=draw.choice((0.3, 3, 20)))
        try:
            connection.request("POST", path, body, head | {"Authorization": "Bearer attacker"})
            self.sent[f"{name} {connection.getresponse().status}"] += 1
        except TimeoutError:
            self.sent[f"{name} gone"] += 1
        finally:
            connection.close()

    def trailers(self) -> None:
        """Send a trailer without end (A8)."""
        with self._plug() as plug:
            plug.sendall(
                b"POST /translate HTTP/1.1\r\nHost: localhost\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-1: "
            )
            for _ in range(1_000):
                plug.sendall(b"y" * 2**16)

    def bodies(self) -> None:
        """Send large bodies without a key (A11)."""
        plugs = [self._plug() for _ in range(20)]
        for plug in plugs:
            try:
                plug.sendall(b"POST /translate_file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 19000000\r\n")
                plug.sendall(b"Content-Type: multipart/form-data; boundary=a\r\n\r\n" + b"x" * 18_000_000)
            except OSError:
                pass
        time.sleep(1)
        for plug in plugs:
            plug.close()

    def idle(self) -> None:
        """Open connections and say nothing (A12)."""
        plugs = [self._plug() for _ in range(300)]
        time.sleep(5)
        for plug in plugs:
            plug.close()

    def keys(self) -> None:
        """Guess keys (A19)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        path, body, head = text("/translate")
        for n in range(100):
            connection.request("POST", path, body, head | {"Authorization": f"Bearer {n}"})
            connection.getresponse().read()
        connection.close()
        time.sleep(1)

    def heads(self) -> None:
        """Give two hosts (A19)."""
        with self._plug() as plug:
            plug.sendall(b"GET /languages/ HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n")
            plug.recv(1000)
        time.sleep(0.1)


class Ordinary:
    """Clients that ask for sentences; milliseconds of each answer, and how many were not good."""

    def __init__(self, port: int, clients: int, pause: float) -> None:
        self.port, self.stop, self.pause = port, threading.Event(), pause
        self.right = [self._answer(sentence) for sentence in SENTENCES]
        self.times: list[float] = []
        self.bad: Counter[str] = Counter()
        self._threads = [threading.Thread(target=self._ask, args=(n,), daemon=True) for n in range(clients)]
        for thread in self._threads:
            thread.start()

    def _answer(self, sentence: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        path, body, head = text("/translate", q=sentence)
        connection.request("POST", path, body, head | {"Authorization": "Bearer ordinary0"})
        return connection.getresponse().read()

    def _ask(self, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self.stop.is_set():
            number += 1
            which = number % len(SENTENCES)
            path, body, head = text("/translate", q=SENTENCES[which])
            began = time.perf_counter()
            try:
                connection.request("POST", path, body, head | {"Authorization": f"Bearer ordinary{number % 4}"})
                if number % 50 == 0:
                    connection.close()
                    continue
                answer = connection.getresponse()
                content = answer.read()
                if answer.status != 200:
                    self.bad[str(answer.status)] += 1
                elif content != self.right[which]:
                    self.bad["another answer"] += 1
            except (OSError, http.client.HTTPException) as error:
                if not self.stop.is_set():
                    self.bad[type(error).__name__] += 1
                connection.close()
            self.times.append(1000 * (time.perf_counter() - began))
            time.sleep(self.pause)

    def taken(self) -> str:
        """The figures since this was last asked."""
        times, self.times = sorted(self.times), []
        bad, self.bad = dict(self.bad), Counter()
        if not times:
            return "no answer at all"
        return (
            f"{times[len(times) // 2]:.0f} / {times[int(len(times) * 0.99)]:.0f} ms, {len(times)} answers, bad: {bad}"
        )


def attack_from(port: int, attackers: int, pause: float, stop: Any, sent: Any) -> None:
    """Attack from a process of its own, as from another machine: it gives way to the server and its clients."""
    os.nice(10)
    attack = Attack(port, attackers, pause)
    attack.start()
    stop.wait()
    attack.stop.set()
    sent.put(dict(attack.sent))
    os._exit(0)  # threads may still wait for answers


def tree(process: int) -> list[int]:
    found = [process]
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                found += tree(int(child))
        except OSError:
            continue
    return found


def memory(process: int) -> float:
    try:
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between an answer and the next request")
    parser.add_argument("--attackers", type=int, default=8)
    parser.add_argument("--attack-pause", type=float, default=0.0, help="seconds between two attacks of a kind")
    parser.add_argument("--reload", type=float, default=0.0, help="seconds between two reloads of the models")
    parser.add_argument("--compute-dtype", default="int8")
    parser.add_argument("--server", type=Path, help="folder of another version of nmt")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        keys = Path(scratch) / "keys"
        keys.write_text("attacker\n" + "".join(f"ordinary{n}\n" for n in range(4)))
        command = [sys.executable, "-c", "from nmt.cli.entry import serve; serve()", given.model, "--port", "0"]
        command += ["--keys", str(keys), "--compute-dtype", given.compute_dtype]
        env = os.environ | {"NMT_SERVE_CACHE": "0"} | ({"PYTHONPATH": str(given.server)} if given.server else {})
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
        log: list[str] = []
        port = 0
        for line in server.stderr:  # type: ignore[union-attr]
            log.append(line)
            if '"listening on' in line:
                port = int(json.loads(line)["event"].rpartition(":")[2])
                break
        reader = threading.Thread(target=lambda: log.extend(server.stderr or ()), daemon=True)
        reader.start()
        ordinary = Ordinary(port, given.clients, given.pause)
        every: list[float] = []
        sizes: list[float] = []
        reloads = 0
        time.sleep(given.seconds / 4)
        print(
            f"ordinary clients alone:  50th / 99th {ordinary.taken()}; memory {memory(server.pid):.0f} MiB", flush=True
        )
        context = multiprocessing.get_context("fork")
        stop, sent = context.Event(), context.SimpleQueue()
        attack = context.Process(
            target=attack_from, args=(port, given.attackers, given.attack_pause, stop, sent), daemon=True
        )
        attack.start()
        began = time.monotonic()
        while time.monotonic() < began + given.seconds * 3 / 4 and server.poll() is None:
            time.sleep(min(15.0, max(1.0, given.seconds / 20)))
            if given.reload and (time.monotonic() - began) // given.reload > reloads:
                reloads += 1
                server.send_signal(signal.SIGHUP)
            every += ordinary.times
            sizes.append(memory(server.pid))
            workers = [memory(one) for one in tree(server.pid)[1:]]
            print(
                f"under attack: {ordinary.taken()}; memory {sizes[-1]:.0f} MiB, {len(workers)} workers "
                f"{sum(workers):.0f} MiB, {len(os.listdir(f'/proc/{server.pid}/fd'))} open files",
                flush=True,
            )
        every.sort()
        quarter = len(sizes) // 4
        second, last = statistics.median(sizes[quarter : 2 * quarter]), statistics.median(sizes[-quarter:])
        print(f"memory: {second:.1f} to {last:.1f} MiB, {100 * (last / second - 1):+.2f} %, {reloads} reloads")
        print(
            f"under attack, in all: 50th / 99th {every[len(every) // 2]:.0f} / {every[int(len(every) * 0.99)]:.0f} ms"
        )
        began = time.monotonic()
        ordinary.stop.set()
        server.send_signal(signal.SIGTERM)
        code = server.wait(300)
        stop.set()
        print(f"SIGTERM obeyed in {time.monotonic() - began:.1f} s with {code}")
        reader.join(10)
    bad = sum(not line.startswith("{") for line in log)
    print(f"log: {len(log):,} lines, {bad} no JSON, {sum('raceback' in line for line in log)} with a traceback")
    for line in {json.loads(one)["traceback"][-300:] for one in log if one.startswith("{") and '"traceback"' in one}:
        print(line)
    print("sent:", ", ".join(f"{name} ×{count}" for name, count in sorted(sent.get().items())))


if __name__ == "__main__":
    main()
