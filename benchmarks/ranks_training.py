"""Ranks compared with one process at the same batches an update: speed, a whole training, or the losses of each update.

    python benchmarks/ranks_training.py configs/quickstart.yaml --speed 3
    python benchmarks/ranks_training.py configs/multi30k_de_en.yaml --train
    python benchmarks/ranks_training.py configs/quickstart.yaml --losses

--speed N runs some updates by each N times in turn, and prints target tokens a second, the middle of the lines of
progress of each run but the first. Both run the same updates: losses are compared first, bit for bit. --train trains
each to the end, with float32 and with bfloat16 between ranks, and prints the scores of the test set. Both have two
ranks of one thread compared with one process of two, and need cores that are not shared. --losses compares 1, 2 and 4
ranks
with one process that accumulates over as many batches, computed in float32 and in bfloat16, and with themselves again.
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


def train(arguments, way, folder, settings):
    """The events of a run, by kind."""
    launcher, threads, own = way
    command = [*launcher, BIN / "nmt-train", arguments.config, "--threads", threads]
    for setting in (*arguments.set, *own, *settings, f"model_dir={folder}"):
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    events = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return {kind: [event for event in events if event["event"] == kind] for kind in {e["event"] for e in events}}


def updates_alone(arguments, logging):
    """Settings of a run without validation."""
    return [
        f"training.updates={arguments.updates}",
        "training.validation_freq=1000000",
        f"training.logging_freq={logging}",
        *("training.scheduling=constant", "data.test=null", "data.check=false", "decoding.beam_size=1"),
        "training.early_stopping_metric=loss",
    ]


def losses(arguments, place):
    """Ranks compared with one process that accumulates, and compared with themselves; prints a table."""
    print("| computed in | ranks | largest difference of a loss from one process | the same bits again | last loss |")
    print("|---|---|---|---|---|")
    for dtype in ("float32", "bfloat16"):
        for count in (1, 2, 4):
            settings = [*updates_alone(arguments, 1), f"compute_dtype={dtype}"]
            ways = [([], "1", [f"training.batch_multiplier={count}"])]
            ways += 2 * [([BIN / "mpiexec", "-n", str(count)], "1", [])]
            one, ranks, again = (
                [line["loss"] for line in train(arguments, way, f"{place}/{dtype}{count}-{n}", settings)["train"]]
                for n, way in enumerate(ways)
            )
            assert len(one) == len(ranks) == arguments.updates
            most = max(abs(a - b) for a, b in zip(one, ranks, strict=True))
            print(f"| {dtype} | {count} | {most:g} | {'yes' if ranks == again else 'NO'} | {one[-1]:.6f} |", flush=True)


def speed(arguments, place):
    """Ways in turn, `arguments.speed` times; prints a table."""
    found = {name: [] for name in WAYS}
    losses = {}
    settings = updates_alone(arguments, LOGGING)
    for number in range(arguments.speed):
        for name in WAYS:
            lines = train(arguments, WAYS[name], f"{place}/run{number}-way{list(WAYS).index(name)}", settings)["train"]
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
    for name in list(WAYS)[: arguments.ways]:
        events = train(arguments, WAYS[name], f"{place}/way{list(WAYS).index(name)}", [])
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
    parser.add_argument("--ways", type=int, default=len(WAYS), metavar="N", help="of --train, the first N alone")
    parser.add_argument("--losses", action="store_true", help="compare the losses of all updates")
    parser.add_argument("--folder", help="where models go and stay; a temporary one by default")
    arguments = parser.parse_args()
    print(describe(2))
    with contextlib.ExitStack() as stack:
        place = arguments.folder or stack.enter_context(tempfile.TemporaryDirectory())
        (whole if arguments.train else losses if arguments.losses else speed)(arguments, place)


if __name__ == "__main__":
    main()
