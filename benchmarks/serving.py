"""How fast is nmt-serve, and does it stay right under load?

    python benchmarks/serving.py MODEL LINES [--compute-dtype int8] [--clients 1 8 64 256] [--seconds 60] [--quick]
    python benchmarks/serving.py MODEL LINES --only turns [--turns 6] [--seconds 8]
    python benchmarks/serving.py MODEL LINES --only memory [--requests 100000]
    python benchmarks/serving.py - LINES --other opennmt=http://127.0.0.1:5001/translator/translate

Starts a server on the loopback, and clients in a process of their own that send single sentences of LINES one after
another over connections that stay open. Every answer is compared with that of nmt-translate. Then a document of 5,000
lines runs together with 1, 8 and 64 clients, and `--requests` more show whether memory grows. The rate of a file is
measured
before and after, in the same run. Clients share the cores with the server: their share is printed. They are wrk's
(github.com/wg/wrk, in C; Debian's package wrk) where it is installed, else Python's, which take as much of the cores as
the server's own loop does. A minute a row and 100,000 requests take 20 to 30 minutes on two cores.

--only turns: a file and 64 clients take turns, which says how much of a file's rate they have also where something else
takes part of the machine; also the processor's milliseconds a sentence, of file and server. --only memory: the
requests alone, with what memory is: all of it, and of that what is mapped from files, the libraries and the model.

--other sends the same to a server that runs already and speaks LibreTranslate's API or that of OpenNMT-py's server;
its answers are not compared. OpenNMT-py 3.5.1: `onmt_server --ip 127.0.0.1 --port 5001 --model_config conf.json` with
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
import shutil
import signal
import statistics
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
    source: str
    target: str
    path: str = "/translate"
    protocol: str = "libretranslate"

    def body(self, texts: Any) -> Any:
        """A request for a text, or for a list."""
        if self.protocol == "opennmt":
            return [{"id": 0, "src": text} for text in ([texts] if isinstance(texts, str) else texts)]
        return {"q": texts, "source": self.source, "target": self.target}


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: Place, texts: Any) -> Any:
    """One request over an open connection: a text, or a list."""
    body = json.dumps(place.body(texts)).encode()
    writer.write(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % place.path.encode())
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
    await asyncio.sleep(max(0.0, end - time.monotonic()))  # without clients the document has the time alone
    stop.set()
    if beside is not None:
        beside.cancel()
    times = sorted(times) or [0.0]
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


_by_wrk = shutil.which("wrk") is not None


def bodies_of(place: Place, lines: list[str], scratch: Path) -> Path:
    """A file of requests, one a line."""
    (scratch / "bodies").write_text("".join(json.dumps(place.body(line)) + "\n" for line in lines), "utf-8")
    return scratch / "bodies"


def wrk_load(
    place: Place, lines: list[str], answers: list[str], clients: int, seconds: float, document: int = 0
) -> dict:
    """As `load`, by wrk; the document is asked for by a process of Python."""
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        scratch, expected = Path(name), "-"
        if answers:
            told = [{"translatedText": one} for one in answers]
            text = "".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in told)
            (scratch / "answers").write_text(text, "utf-8")
            expected = str(scratch / "answers")
        lua = str(Path(__file__).parent / "_requests.lua")
        command = ["wrk", "-t1", f"-c{clients}", f"-d{max(1, round(seconds))}s", "--timeout", "300", "-s", lua]
        command += [f"http://127.0.0.1:{place.port}", "--", place.path, str(bodies_of(place, lines, scratch)), expected]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        beside = pool.submit(run_load, place, lines, [], 0, seconds, document) if document else None
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if beside is not None:
            beside.result()
    found = json.loads(ran.stderr.splitlines()[-1])
    found["wrong"] += found["broken"]
    found["clients"], found["sentences_per_second"] = clients, found["requests"] / found["seconds"]
    found["client_cpu_seconds"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found


def measured(*given: Any) -> dict:
    """`load` in a process of its own."""
    return wrk_load(*given) if _by_wrk else in_a_process(run_load, *given)


def memory(process: int, what: str = "VmRSS") -> float:
    """Resident MiB of a process: all, or what is mapped from files (RssFile)."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(re.search(rf"{what}:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


def seconds_of(process: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def file_rate(model: str, threads: int, compute_dtype: str, lines: list[str]) -> tuple[float, float]:
    """Sentences a second of a file without start and load, and the processor's milliseconds a sentence: the translator
    of nmt-translate, called once more."""
    from nmt import Translator

    translator = Translator.load(model, threads=threads, compute_dtype=compute_dtype)
    translator.translate(lines[:64])
    many = (lines * (2000 // len(lines) + 1))[:2000]
    began, used = time.perf_counter(), time.process_time()
    translator.translate(many)
    return len(many) / (time.perf_counter() - began), 1000 * (time.process_time() - used) / len(many)


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
    env = os.environ | {"NMT_SERVE_CACHE": "0"}  # lines come again and again, and must be searched for
    server = subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True, env=env)
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


def turns(given: argparse.Namespace, server: subprocess.Popen, place: Place, same: Any, answers: list[str]) -> None:
    """A file and 64 clients in turns."""
    lines = same[-1]
    print(
        "| turn | a file's/s | ms CPU | 64 clients' /s | share | ms CPU | wrong | clients' CPU |\n" + "|---" * 8 + "|"
    )
    shares, costs = [], []
    for turn in range(given.turns):
        rate, file_ms = in_a_process(file_rate, *same)
        before = seconds_of(server.pid)
        found = measured(place, lines, answers, 64, given.seconds, 0)
        server_ms = 1000 * (seconds_of(server.pid) - before) / found["requests"]
        shares.append(found["sentences_per_second"] / rate)
        costs.append(file_ms / server_ms)
        print(
            f"| {turn + 1} | {rate:,.0f} | {file_ms:.2f} | {found['sentences_per_second']:,.0f} | {shares[-1]:.0%} "
            f"| {server_ms:.2f} | {found['wrong']} of {found['requests']:,} "
            f"| {found['client_cpu_seconds'] / given.seconds:.2f} cores |",
            flush=True,
        )
    print(f"median share {statistics.median(shares):.0%}, of processor time {statistics.median(costs):.0%}")


def steady(
    given: argparse.Namespace, server: subprocess.Popen, place: Place, lines: list[str], answers: list[str]
) -> None:
    """Many requests, and memory."""
    print("| requests | memory MiB | of files | wrong | sentences/s |\n" + "|---" * 5 + "|")
    done = wrong = 0
    print(f"| 0 | {memory(server.pid):.0f} | {memory(server.pid, 'RssFile'):.0f} | 0 | |")
    while done < given.requests:
        found = measured(place, lines, answers, 64, given.seconds, 0)
        done, wrong = done + found["requests"], wrong + found["wrong"]
        print(
            f"| {done:,} | {memory(server.pid):.0f} | {memory(server.pid, 'RssFile'):.0f} | {wrong} "
            f"| {found['sentences_per_second']:,.0f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("lines", type=Path)
    parser.add_argument("--pair", nargs=2, default=["en", "de"], help="languages of source and target")
    parser.add_argument("--compute-dtype", default="int8")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=int, default=100_000, help="during which memory is looked at")
    parser.add_argument("--only", choices=["turns", "memory"], help="a part of all this")
    parser.add_argument("--python-clients", action="store_true", help="also where wrk is installed")
    parser.add_argument("--turns", type=int, default=4, help="of a file and of 64 clients")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--other", help="PROTOCOL=URL of a server that runs: libretranslate or opennmt")
    given = parser.parse_args()
    global _by_wrk
    _by_wrk &= not given.python_clients
    if given.quick:
        given.seconds, given.requests, given.clients = 5.0, 2000, [n for n in given.clients if n <= 64]
    lines = [line for line in given.lines.read_text("utf-8").splitlines() if line.strip()]
    if given.other:
        protocol, _, url = given.other.partition("=")
        parts = urlsplit(url)
        rows(given, Place(parts.port or 80, *given.pair, parts.path, protocol), lines, [], None)
        return
    kind = ["--compute-dtype", given.compute_dtype, "--threads", str(given.threads)]
    answers = answers_of(given, kind, lines)
    same = given.model, given.threads, given.compute_dtype, lines
    rate = in_a_process(file_rate, *same)[0]
    print(f"a file: {rate:,.0f} sentences/s; clients by {'wrk' if _by_wrk else 'Python'}")
    limits = ["--max-texts", "0", "--max-characters", "0", "--timeout", "0"]
    began = time.perf_counter()
    server, port = started([given.model, *kind, "--port", "0", "--no-split", *limits])
    place = Place(port, *given.pair)
    first = in_a_process(run_load, place, lines[:1], answers[:1], 1, 0.05, 0)
    print(f"start and client: {time.perf_counter() - began:.1f} s; first answer {first['p99_ms']:.0f} ms")
    print(f"memory: {memory(server.pid):.0f} MiB, of files {memory(server.pid, 'RssFile'):.0f}")
    if given.only in (None, "turns"):
        turns(given, server, place, same, answers)
    if given.only is None:
        rows(given, place, lines, answers, rate)
    if given.only in (None, "memory"):
        steady(given, server, place, lines, answers)
    server.send_signal(signal.SIGTERM)
    print(f"ended by SIGTERM with {server.wait(60)}")
    print(f"a file: {in_a_process(file_rate, *same)[0]:,.0f} sentences/s")


if __name__ == "__main__":
    main()
