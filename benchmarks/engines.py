"""A corpus translated by the workers of Ray, Dask and Spark and by shards under xargs, compared with one process.

    python benchmarks/engines.py runs/quickstart --lines 20000

Makes lines as data_scripts/number_words.py does, translates them with `nmt-translate --threads 2`, and then by two
workers of one thread each under every engine that is installed. What comes is compared first: every line once, each
translation compared with its own line and equal to that of the one process. Then speeds, start of the engine included,
as shares of the one process's. Then the same on --kill-lines with a worker killed (SIGKILL) while it translates: the
engine runs its work again (xargs is started again, as docs/many-machines.md says), and what comes is compared as
before. Last, the memory of two workers that have loaded one int8 model, as the system counts it: RSS counts shared
pages once a process, PSS once in all.
"""

import argparse
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from _machine import describe

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
FILES = 32
SHARDS = 8
LEAST_SHARE = 0.9
"""Of the one process's lines a second, what is wanted of each engine."""

HEAD = """
import sys
from nmt.batch import BatchTranslator
model, corpus, out = sys.argv[1:]
"""

SCRIPTS = {
    "ray": """
import ray
# Logical cores: two for the workers, and one for what reads and writes.
ray.init(num_cpus=3, include_dashboard=False, _node_ip_address="127.0.0.1")
ray.data.read_json(corpus).map_batches(
    BatchTranslator, fn_constructor_args=(model,), fn_constructor_kwargs={"threads": 1}, batch_format="pandas",
    batch_size=2048, num_cpus=1, compute=ray.data.ActorPoolStrategy(size=2)
).write_json(out)
""",
    "dask": """
import dask.dataframe
from dask.distributed import Client, LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
    with cluster, Client(cluster):
        translate = BatchTranslator(model, threads=1)
        frame = dask.dataframe.read_json(corpus + "/*.jsonl", lines=True)
        frame.map_partitions(translate, meta=translate(frame._meta)).to_json(out)
""",
    "pyspark": """
from pyspark.sql import SparkSession
# A task that dies is run again, up to four times.
builder = SparkSession.builder.master("local[2,4]").config("spark.sql.files.maxPartitionBytes", 1 << 20)
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
schema = "id long, text string, translation string, translation_error string"
frame = spark.read.json(corpus, schema="id long, text string")
frame.mapInPandas(BatchTranslator(model, threads=1), schema).write.json(out)
""",
}


class Corpus:
    """Lines with their numbers, as one text and as tables; and the translations of the one process, once they are
    there."""

    def __init__(self, folder, lines):
        self.folder, self.lines = folder, lines
        (folder / "corpus").mkdir(parents=True)
        (folder / "big.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        step = -(-len(lines) // FILES)
        for number, first in enumerate(range(0, len(lines), step)):
            rows = ({"id": n, "text": lines[n]} for n in range(first, min(first + step, len(lines))))
            with (folder / "corpus" / f"{number:02}.jsonl").open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    def check(self, translations):
        """Rows of a table are every line once, with the translation of the one process."""
        out = self.folder / "out"
        rows = [
            json.loads(line)
            for path in sorted(out.rglob("*"))
            if path.is_file() and path.name[0] not in "._"
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        assert sorted(row["id"] for row in rows) == list(range(len(self.lines))), f"{len(rows)} rows came"
        for row in rows:
            assert row["text"] == self.lines[row["id"]] and not row["translation_error"], row
            assert row["translation"] == translations[row["id"]], row


def made_lines(count, seed=1):
    """So many English lines of the demo corpus, numbers, dates, times and prices."""
    sys.path.insert(0, str(ROOT / "data_scripts"))
    from demo_corpus.mixture import draw_pair

    rng = random.Random(seed)
    return [draw_pair(rng).en for _ in range(count)]


def environment(word):
    return {
        **os.environ,
        "NMT_ENGINES_WORD": word,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "RAY_DEDUP_LOGS": "0",
    }


# ------------------------------------------------------------ workers


def workers(word, model):
    """Processes that were started with a word in their environment and have the model in memory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if f"NMT_ENGINES_WORD={word}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                if f"{model}/" in (entry / "maps").read_text():
                    found.append(int(entry.name))
        except OSError:
            continue
    return found


class Killer:
    """Kills one of the workers when two of them are at work, once."""

    def __init__(self, word, model, delay):
        self._word, self._model, self._delay = word, model, delay
        self.killed = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._over.set()
        self._thread.join()

    def _watch(self):
        while not self._over.wait(0.1):
            if len(workers(self._word, self._model)) < 2 or self._over.wait(self._delay):
                continue
            for process in workers(self._word, self._model)[:1]:
                os.kill(process, signal.SIGKILL)
                self.killed = process
                return


# ------------------------------------------------------------ ways to translate


def by_engine(engine, corpus, model, word):
    """Seconds of an engine; its table is in `out`."""
    shutil.rmtree(corpus.folder / "out", ignore_errors=True)
    script = corpus.folder / f"{engine}_run.py"
    script.write_text(HEAD + SCRIPTS[engine], encoding="utf-8")
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(script), str(model), str(corpus.folder / "corpus"), str(corpus.folder / "out")],
        cwd=corpus.folder,
        env=environment(word),
        capture_output=True,
        text=True,
    )
    took = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{engine}:\n{done.stderr[-4000:]}")
    return took


def by_shards(corpus, model, word, *, new=True):
    """Seconds of two shards at a time under xargs, and its exit code; new: what is there is removed first."""
    parts = corpus.folder / "parts"
    if new:
        shutil.rmtree(parts, ignore_errors=True)
    line = f"seq {SHARDS} | xargs -P 2 -I {{}} nmt-translate {model} big.txt -o parts --shard {{}}/{SHARDS} --threads 1"
    began = time.perf_counter()
    done = subprocess.run(
        ["bash", "-c", line], cwd=corpus.folder, env=environment(word), capture_output=True, text=True
    )
    return time.perf_counter() - began, done


def check_shards(corpus, translations):
    found = [
        line
        for path in sorted((corpus.folder / "parts").glob("big-*.txt"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert found == translations, f"{len(found)} lines came"


def alone(corpus, model):
    """Seconds and translations of one process with two threads."""
    out = corpus.folder / "alone.txt"
    began = time.perf_counter()
    subprocess.run(
        [BIN / "nmt-translate", model, corpus.folder / "big.txt", "-o", out, "--threads", "2"],
        check=True,
        capture_output=True,
    )
    took = time.perf_counter() - began
    translations = out.read_text(encoding="utf-8").splitlines()
    assert len(translations) == len(corpus.lines)
    return took, translations


def engines_here():
    found = [name for name in SCRIPTS if importlib.util.find_spec(name)]
    return [name for name in found if name != "pyspark" or shutil.which("java")]


# ------------------------------------------------------------ memory

HOLD = """
import sys
from nmt import Translator
translator = Translator.load(sys.argv[1], threads=1)
translator.translate(sys.stdin.readline().split("|") * 64)
print("ready", flush=True)
sys.stdin.read()
"""


def memory(model, lines):
    """Of one and of two workers with one model: sums of RSS and PSS, and of the file of weights alone, in bytes."""
    found = {}
    for count in (1, 2):
        held = [
            subprocess.Popen(
                [sys.executable, "-c", HOLD, str(model)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(count)
        ]
        for process in held:
            process.stdin.write("|".join(lines) + "\n")
            process.stdin.flush()
        for process in held:
            assert process.stdout.readline() == "ready\n"
        found[count] = {
            **{name: sum(mapped(one.pid, name, "") for one in held) for name in ("Rss", "Pss")},
            **{
                f"{name} of weights": sum(mapped(one.pid, name, f"{model}/") for one in held) for name in ("Rss", "Pss")
            },
        }
        for process in held:
            process.communicate()
    return found


def mapped(process, name, path):
    """Bytes of the maps whose file begins so, as /proc/PID/smaps has them under a name."""
    total, counts = 0, False
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            counts = (words[5] if len(words) > 5 else "").startswith(path)
        elif counts and words[0] == f"{name}:":
            total += 1024 * int(words[1])
    return total


# ------------------------------------------------------------ all of it


def measure(corpus, model, engines):
    """Every way once; prints a table, returns the translations."""
    took, translations = alone(corpus, model)
    count = len(corpus.lines)
    print(f"\n{count:,} lines\n\n| by | s | lines/s | of one process |\n|---|---|---|---|")
    print(f"| one process, two threads | {took:.1f} | {count / took:,.0f} | 100 % |", flush=True)
    slow = []
    for name in [*engines, "xargs"]:
        if name == "xargs":
            seconds, done = by_shards(corpus, model, "speed")
            assert not done.returncode, done.stderr
            check_shards(corpus, translations)
        else:
            seconds = by_engine(name, corpus, model, "speed")
            corpus.check(translations)
        print(f"| {name} | {seconds:.1f} | {count / seconds:,.0f} | {took / seconds:.0%} |", flush=True)
        slow += [name] if took / seconds < LEAST_SHARE else []
    print(f"\nbelow {LEAST_SHARE:.0%}: {', '.join(slow) or 'none'}")
    return translations


def kill(corpus, model, engines, translations, delay):
    """Every way with a worker killed."""
    print(f"\na worker killed, {len(corpus.lines):,} lines")
    for name in [*engines, "xargs"]:
        word = f"kill-{os.getpid()}-{name}"
        with Killer(word, model, delay) as killer:
            if name == "xargs":
                _, done = by_shards(corpus, model, word)
            else:
                by_engine(name, corpus, model, word)
        assert killer.killed, f"{name} was done before a worker could be killed; raise --kill-lines"
        if name == "xargs":
            assert done.returncode, "xargs must tell of it"
            first = len(list((corpus.folder / "parts").glob("big-*.txt")))
            _, done = by_shards(corpus, model, word, new=False)
            assert not done.returncode, done.stderr
            check_shards(corpus, translations)
            print(f"{name}: ended with an error after {first} of {SHARDS} shards; started again, the result is whole")
        else:
            corpus.check(translations)
            print(f"{name}: process {killer.killed} killed, the result is whole", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, default=Path("runs/quickstart"))
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--kill-lines", type=int, help="by default as many as there are, at most 20,000")
    parser.add_argument("--kill-after", type=float, default=1.0, help="seconds after two workers have the model")
    parser.add_argument("--engines", nargs="*", choices=list(SCRIPTS), default=engines_here())
    parser.add_argument("--folder", type=Path, help="for what is made; a temporary one by default")
    arguments = parser.parse_args()
    model = arguments.model.resolve()
    print(describe(2))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        corpus = Corpus(folder / "whole", made_lines(arguments.lines))
        translations = measure(corpus, model, arguments.engines)
        count = min(arguments.kill_lines or 20_000, arguments.lines)
        few = Corpus(folder / "few", corpus.lines[:count])
        kill(few, model, arguments.engines, translations[:count], arguments.kill_after)
        small = folder / "int8"
        subprocess.run([BIN / "nmt-quantize", model, "-o", small], check=True, capture_output=True)
        print("\nmemory of workers with one int8 model, MB\n\n| | one worker | two workers |\n|---|---|---|")
        found = memory(small, corpus.lines[:20])
        for kind in found[1]:
            print(f"| {kind} | {found[1][kind] / 1e6:.1f} | {found[2][kind] / 1e6:.1f} |")


if __name__ == "__main__":
    main()
