"""How fast is nmt-serve, and does it stay right under load?

    python benchmarks/serving.py MODEL LINES [--compute-dtype int8] [--clients 1 8 64 256] [--seconds 60] [--quick]
    python benchmarks/serving.py - LINES --other opennmt=http://127.0.0.1:5001/translator/translate

Starts a server on the loopback, and clients in a process of their own that send single sentences of LINES one after
another over connections that stay open. Every answer is compared with that of nmt-translate. Then a document of 5,000
lines runs beside 1, 8 and 64 clients, and `--requests` more show whether memory grows. The rate of a file is measured
before and after, in the same run. Clients share the cores with the server: what they take is told. A minute a row and
100,000 requests take 20 to 30 minutes on two cores.

--other sends the same to a server that runs already and speaks LibreTranslate's API or that of OpenNMT-py's server;
its answers are not compared. OpenNMT-py 3.5.1: `onmt_server --ip 127.0.0.1 --port 5001 --config conf.json` with
{"models_root": ".", "models": [{"id": 0, "model": "model.pt", "load": true, "opt": {"beam_size": 5},
"tokenizer": {"type": "sentencepiece", "model": "joint.spm"}}]}.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Place:
    """Where a server listens, and what it speaks."""

    port: int
    path: str = "/translate"
    protocol: str = "libretranslate"


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: Place, texts: Any) -> Any:
    """One request over an open connection: a text, or a list."""
    given: Any = {"q": texts, "source": "en", "target": "de"}
    if place.protocol == "opennmt":
        given = [{"id": 0, "src": text} for text in ([texts] if isinstance(texts, str) else texts)]
    body = json.dumps(given).encode()
    writer.write(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" % place.path.encode())
    writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head, re.I)[1])  # type: ignore[index]
    content = await reader.readexactly(length)
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(content[:200])
    told = json.loads(content)
    if place.protocol == "opennmt":
        found = [one["tgt"] for one in told[0]]
        return found[0] if isinstance(texts, str) else found
    return told["translatedText"]


async def load(place: Place, lines: list[str], answers: list[str], clients: int, seconds: float, document: int) -> dict:
    """Clients ask for so long; milliseconds of each request, and how many answers were wrong."""
    times: list[float] = []
    wrong = 0
    end = time.monotonic() + seconds
    stop = asyncio.Event()

    async def client(number: int) -> None:
        nonlocal wrong
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        at = number * 7919
        while time.monotonic() < end:
            at = (at + 1) % len(lines)
            began = time.perf_counter()
            found = await ask(reader, writer, place, lines[at])
            times.append(1000 * (time.perf_counter() - began))
            wrong += bool(answers) and found != answers[at]
        writer.close()

    async def long_text() -> int:
        done = 0
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port, limit=2**26)
        while not stop.is_set():
            found = await ask(reader, writer, place, (lines * (document // len(lines) + 1))[:document])
            done += len(found)
        return done

    beside = asyncio.ensure_future(long_text()) if document else None
    await asyncio.gather(*(client(n) for n in range(clients)))
    stop.set()
    if beside is not None:
        beside.cancel()
    times.sort()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "clients": clients,
        "sentences_per_second": len(times) / seconds,
        "p50_ms": times[len(times) // 2],
        "p99_ms": times[int(len(times) * 0.99)],
        "requests": len(times),
        "wrong": wrong,
        "client_cpu_seconds": used.ru_utime + used.ru_stime,
    }


def run_load(*given: Any) -> dict:
    """`load` from its beginning to its end."""
    return asyncio.run(load(*given))


def measured(*given: Any) -> dict:
    """`load` in a process of its own."""
    return in_a_process(run_load, *given)


def memory(process: int) -> float:
    """Resident MiB of a process."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


def file_rate(model: str, threads: int, compute_dtype: str, lines: list[str]) -> float:
    """Sentences a second of a file without start and load: the translator of nmt-translate, called once more."""
    from nmt import Translator

    translator = Translator.load(model, threads=threads, compute_dtype=compute_dtype)
    translator.translate(lines[:64])
    many = (lines * (2000 // len(lines) + 1))[:2000]
    began = time.perf_counter()
    translator.translate(many)
    return len(many) / (time.perf_counter() - began)


def in_a_process(function: Any, *given: Any) -> Any:
    """Its result; what it loads is gone afterwards."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *given).result()


def answers_of(given: argparse.Namespace, kind: list[str], lines: list[str]) -> list[str]:
    """What nmt-translate says of the lines."""
    with tempfile.TemporaryDirectory() as scratch:
        source, out = Path(scratch) / "in", Path(scratch) / "out"
        source.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        program = "from nmt.cli.entry import translate; translate()"
        command = [sys.executable, "-c", program, given.model, *kind, "--format", "text", "--no-split"]
        subprocess.run([*command, str(source), "-o", str(out)], check=True)
        return out.read_text("utf-8").split("\n")[: len(lines)]


def started(arguments: list[str]) -> tuple[subprocess.Popen, int]:
    """A server, and its port."""
    program = "from nmt.cli.entry import serve; serve()"
    server = subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True)
    for line in server.stderr:  # type: ignore[union-attr]
        if "listening on" in line:
            subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
            return server, int(json.loads(line)["event"].rpartition(":")[2])
    raise SystemExit("the server has ended before it listened")


def rows(given: argparse.Namespace, place: Place, lines: list[str], answers: list[str], rate: float | None) -> None:
    """The table."""
    print(
        "| clients | sentences/s | of the file's | 50th ms | 99th ms | 99th without document | wrong | clients' CPU |\n"
        + "|---" * 8
        + "|"
    )
    alone: dict[int, float] = {}
    for clients, document in [*((n, 0) for n in given.clients), *((n, 5000) for n in given.clients if n <= 64)]:
        found = measured(place, lines, answers, clients, given.seconds, document)
        alone.setdefault(clients, found["p99_ms"])
        name = f"{clients} and a document" if document else str(clients)
        share = "" if rate is None else f"{found['sentences_per_second'] / rate:.0%}"
        times = f"{found['p99_ms'] / alone[clients]:.2f} times" if document else ""
        wrong = f"{found['wrong']} of {found['requests']:,}" if answers else f"? of {found['requests']:,}"
        print(
            f"| {name} | {found['sentences_per_second']:,.1f} | {share} | {found['p50_ms']:.0f} "
            f"| {found['p99_ms']:.0f} | {times} | {wrong} | {found['client_cpu_seconds'] / given.seconds:.2f} cores |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("lines", type=Path)
    parser.add_argument("--compute-dtype", default="int8")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=int, default=100_000, help="during which memory is looked at")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--other", help="PROTOCOL=URL of a server that runs: libretranslate or opennmt")
    given = parser.parse_args()
    if given.quick:
        given.seconds, given.requests, given.clients = 5.0, 2000, [n for n in given.clients if n <= 64]
    lines = [line for line in given.lines.read_text("utf-8").splitlines() if line.strip()]
    if given.other:
        protocol, _, url = given.other.partition("=")
        parts = urlsplit(url)
        rows(given, Place(parts.port or 80, parts.path, protocol), lines, [], None)
        return
    kind = ["--compute-dtype", given.compute_dtype, "--threads", str(given.threads)]
    answers = answers_of(given, kind, lines)
    same = given.model, given.threads, given.compute_dtype, lines
    rate = in_a_process(file_rate, *same)
    print(f"a file: {rate:,.0f} sentences/s")
    limits = ["--max-texts", "0", "--max-characters", "0", "--timeout", "0"]
    began = time.perf_counter()
    server, port = started([given.model, *kind, "--port", "0", "--no-split", *limits])
    place = Place(port)
    first = measured(place, lines[:1], answers[:1], 1, 0.05, 0)
    print(f"start and client: {time.perf_counter() - began:.1f} s; first answer {first['p99_ms']:.0f} ms")
    print(f"memory: {memory(server.pid):.0f} MiB")
    rows(given, place, lines, answers, rate)
    print("| requests | memory MiB | wrong |\n" + "|---" * 3 + "|")
    done = wrong = 0
    print(f"| 0 | {memory(server.pid):.0f} | 0 |")
    while done < given.requests:
        found = measured(place, lines, answers, 64, given.seconds, 0)
        done, wrong = done + found["requests"], wrong + found["wrong"]
        print(f"| {done:,} | {memory(server.pid):.0f} | {wrong} |", flush=True)
    server.send_signal(signal.SIGTERM)
    print(f"ended by SIGTERM with {server.wait(60)}")
    print(f"a file: {in_a_process(file_rate, *same):,.0f} sentences/s")


if __name__ == "__main__":
    main()
