"""Two ranks of one thread beside one process of two threads, at the same batches an update: speed, or a whole training.

    python benchmarks/ranks_training.py configs/quickstart.yaml --speed 3
    python benchmarks/ranks_training.py configs/multi30k_de_en.yaml --train

--speed N runs some updates by each N times in turn, and prints target tokens a second, the middle of the lines of
progress of each run but the first. Both run the same updates: losses are compared first, bit for bit. --train trains
each to the end, with float32 and with bfloat16 between ranks, and prints the scores of the test set. Both need cores
that nobody else uses.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _machine import describe

BIN = Path(sys.executable).parent
LOGGING = 10
ONE = "one process, 2 threads"
WAYS = {
    ONE: ([], "2", ["training.batch_multiplier=2"]),
    "2 ranks, 1 thread": ([BIN / "mpiexec", "-n", "2", "-bind-to", "core"], "1", []),
    "2 ranks, bfloat16": (
        [BIN / "mpiexec", "-n", "2", "-bind-to", "core"],
        "1",
        ["training.gradient_dtype=bfloat16"],
    ),
}


def train(arguments, name, folder, settings):
    """The events of a run, by kind."""
    launcher, threads, own = WAYS[name]
    command = [*launcher, BIN / "nmt-train", arguments.config, "--threads", threads]
    for setting in (*arguments.set, *own, *settings, f"model_dir={folder}"):
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    events = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return {kind: [event for event in events if event["event"] == kind] for kind in {e["event"] for e in events}}


def speed(arguments, place):
    """Ways in turn, `arguments.speed` times; prints a table."""
    found = {name: [] for name in WAYS}
    losses = {}
    settings = [
        *(
            f"training.updates={arguments.updates}",
            "training.validation_freq=1000000",
            f"training.logging_freq={LOGGING}",
        ),
        *("training.scheduling=constant", "data.test=null", "data.check=false", "decoding.beam_size=1"),
        "training.early_stopping_metric=loss",
    ]
    for number in range(arguments.speed):
        for name in WAYS:
            lines = train(arguments, name, f"{place}/run{number}-way{list(WAYS).index(name)}", settings)["train"]
            found[name].append(statistics.median(line["tgt_tokens_per_second"] for line in lines[1:]))
            losses.setdefault(name, [line["loss"] for line in lines])
            assert losses[name] == [line["loss"] for line in lines], f"{name}: other bits in another run"
    assert losses[ONE] == losses["2 ranks, 1 thread"], "ranks must be one process that accumulates"
    print("| by | target tokens/s | of one process | runs | last loss |\n|---|---|---|---|---|")
    usual = statistics.median(found[ONE])
    for name, speeds in found.items():
        middle = statistics.median(speeds)
        each = ", ".join(f"{one:,.0f}" for one in speeds)
        print(f"| {name} | {middle:,.0f} | {middle / usual:.0%} | {each} | {losses[name][-1]:.4f} |")


def whole(arguments, place):
    """Each way to the end; prints the scores."""
    print("| by | updates | minutes | scores of the test set |\n|---|---|---|---|")
    for name in WAYS:
        events = train(arguments, name, f"{place}/way{list(WAYS).index(name)}", [])
        last = events["validation"][-1]
        test = events["test"][-1]
        scores = ", ".join(
            f"{key} {value:.2f}" for key, value in test.items() if isinstance(value, float) and key != "time"
        )
        print(f"| {name} | {last['update']} | {last['elapsed'] / 60:.1f} | {scores} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", default="configs/quickstart.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--speed", type=int, metavar="N", default=3, help="time so many runs of each in turn")
    parser.add_argument("--updates", type=int, default=100, help="of a run that is timed")
    parser.add_argument("--train", action="store_true", help="train each to the end")
    parser.add_argument("--folder", help="where models go and stay; a temporary one by default")
    arguments = parser.parse_args()
    print(describe(2))
    with contextlib.ExitStack() as stack:
        place = arguments.folder or stack.enter_context(tempfile.TemporaryDirectory())
        (whole if arguments.train else speed)(arguments, place)


if __name__ == "__main__":
    main()
