"""How fast is nmt-serve, and does it stay right under load?

    python benchmarks/serving.py MODEL LINES [--compute-dtype int8] [--clients 1 8 64 256] [--seconds 60] [--quick]

Starts a server on the loopback, and clients in a process of their own that send single sentences of LINES one after
another over connections that stay open. Every answer is compared with that of nmt-translate. Then a document of 5,000
lines runs beside 64 clients, and a part of `--requests` more shows whether memory grows. Clients share the cores with
the server: what they take is told.
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
from pathlib import Path
from typing import Any


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, texts: Any) -> Any:
    """One request of LibreTranslate's API over an open connection."""
    body = json.dumps({"q": texts, "source": "en", "target": "de"}).encode()
    writer.write(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n")
    writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head, re.I)[1])  # type: ignore[index]
    content = await reader.readexactly(length)
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(content[:200])
    return json.loads(content)["translatedText"]


async def load(port: int, lines: list[str], answers: list[str], clients: int, seconds: float, document: int) -> dict:
    """Clients ask for so long; milliseconds of each request, and how many answers were wrong."""
    times: list[float] = []
    wrong = 0
    end = time.monotonic() + seconds
    stop = asyncio.Event()

    async def client(number: int) -> None:
        nonlocal wrong
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        at = number * 7919
        while time.monotonic() < end:
            at = (at + 1) % len(lines)
            began = time.perf_counter()
            found = await ask(reader, writer, port, lines[at])
            times.append(1000 * (time.perf_counter() - began))
            wrong += found != answers[at]
        writer.close()

    async def long_text() -> int:
        done = 0
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
        while not stop.is_set():
            found = await ask(reader, writer, port, (lines * (document // len(lines) + 1))[:document])
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


def in_process(given: tuple) -> dict:
    return asyncio.run(load(*given))


def measured(*given: Any) -> dict:
    """`load` in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(in_process, given).result()


def memory(process: int) -> float:
    """Resident MiB of a process."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("lines", type=Path)
    parser.add_argument("--compute-dtype", default="int8")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=int, default=100_000, help="after which memory is looked at again")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    given = parser.parse_args()
    seconds = 5.0 if given.quick else given.seconds
    kind = ["--compute-dtype", given.compute_dtype, "--threads", str(given.threads)]
    lines = [line for line in given.lines.read_text("utf-8").splitlines() if line.strip()]
    with tempfile.TemporaryDirectory() as scratch:
        source, out = Path(scratch) / "in", Path(scratch) / "out"
        source.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        program = "from nmt.cli.entry import translate; translate()"
        command = [sys.executable, "-c", program, given.model, *kind, "--format", "text", "--no-split"]
        subprocess.run([*command, str(source), "-o", str(out)], check=True)
        answers = out.read_text("utf-8").split("\n")[: len(lines)]
    # The rate of a file without start and load: the same translator, called once more.
    from nmt import Translator

    translator = Translator.load(given.model, threads=given.threads, compute_dtype=given.compute_dtype)
    translator.translate(lines[:64])
    many = (lines * (2000 // len(lines) + 1))[:2000]
    began = time.perf_counter()
    translator.translate(many)
    rate = len(many) / (time.perf_counter() - began)
    print(f"a file: {rate:,.0f} sentences/s")
    del translator
    program = "from nmt.cli.entry import serve; serve()"
    arguments = [
        given.model,
        *kind,
        "--port",
        "0",
        "--no-split",
        "--max-texts",
        "0",
        "--max-characters",
        "0",
        "--timeout",
        "0",
    ]
    began = time.perf_counter()
    server = subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True)
    port = 0
    for line in server.stderr:  # type: ignore[union-attr]
        if "listening on" in line:
            port = int(json.loads(line)["event"].rpartition(":")[2])
            break
    first = measured(port, lines[:1], answers[:1], 1, 0.05, 0)
    print(f"start and client: {time.perf_counter() - began:.1f} s; first answer {first['p99_ms']:.0f} ms")
    subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
    print(f"memory: {memory(server.pid):.0f} MiB")
    print("| clients | sentences/s | of the file's | 50th ms | 99th ms | wrong | clients' CPU |\n" + "|---" * 7 + "|")
    for clients, document in [*((n, 0) for n in given.clients), (1, 5000), (64, 5000)]:
        if given.quick and clients > 64:
            continue
        found = measured(port, lines, answers, clients, seconds, document)
        share = found["sentences_per_second"] / rate
        name = f"{clients} and a document" if document else str(clients)
        cpu = found["client_cpu_seconds"] / seconds
        print(
            f"| {name} | {found['sentences_per_second']:,.0f} | {share:.0%} | {found['p50_ms']:.0f} | "
            f"{found['p99_ms']:.0f} | {found['wrong']} of {found['requests']:,} | {cpu:.2f} cores |",
            flush=True,
        )
    before, done = memory(server.pid), 0
    while done < (2000 if given.quick else given.requests):
        done += measured(port, lines, answers, 64, seconds, 0)["requests"]
    print(f"memory after {done:,} more requests: {memory(server.pid):.0f} MiB, {before:.0f} before")
    server.send_signal(signal.SIGTERM)
    print(f"ended by SIGTERM with {server.wait(60)}")


if __name__ == "__main__":
    main()
