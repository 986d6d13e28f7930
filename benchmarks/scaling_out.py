"""How training scales over ranks: bytes, time of compute and of waiting, and what a network would make of them.

    python benchmarks/scaling_out.py configs/quickstart.yaml

Runs updates of a config's corpus by 1, 2 and 4 ranks of one thread on this machine (fewer where it has fewer cores, but
for 4, which then share them), and prints what was measured; then the projection of nmt/train/planning/ranks_plan.py for
these runs, with the bandwidth measured between ranks, and for 2 to 256 ranks on 1, 10 and 100 Gbit/s. Assumed there:
every rank has its own cores and computes as fast as one does here, messages cost LATENCY, and what is left of the
backward pass after the output layer, measured here, hides what is sent of the layers that are done.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from _machine import describe

from nmt.config import load_config
from nmt.train.distributed.launch import join_ranks
from nmt.train.planning.dry_run import DryRun
from nmt.train.planning.ranks_plan import LATENCY, NETWORKS, Bytes, bytes_of, update_seconds
from nmt.train.updates.dealing import Dealing
from nmt.train.updates.state import TrainingState
from nmt.train.updates.update import Updater

WARM_UP = 3


def work(config_file, overrides, updates):
    """What one rank does; rank 0 prints what all measured as JSON."""
    ranks = join_ranks()
    config = load_config(config_file, (*overrides, "threads=1"))
    tried = ranks.first_then_others(lambda: DryRun(config, 1, lambda text: None))
    dealing = Dealing(tried.batches, ranks.size, config.seed, rank=ranks.rank, ranks=ranks.size)
    updater = Updater(config, tried.model, tried.optimizer, 1, ranks)
    marks = []
    ready = updater._gradients.ready
    updater._gradients.ready = lambda *names: (marks.append((names, time.perf_counter())), ready(*names))
    found = {name: [] for name in ("seconds", "waited", "bytes", "tokens", "after_output", "source", "target")}
    for number, batches in zip(range(1, WARM_UP + updates + 1), dealing.left(TrainingState()), strict=False):
        ranks.all_gather(None)  # together
        marks.clear()
        began = time.perf_counter()
        updater.update(batches, number, 1e-3)
        took = time.perf_counter() - began
        if number <= WARM_UP:
            continue
        traffic = updater.reduction.traffic if updater.reduction is not None else None
        done = next(at for names, at in marks if not names)
        output = next(at for names, at in marks if names == ("output",))
        values = (
            took,
            traffic.waited if traffic else 0.0,
            traffic.sent_bytes if traffic else 0,
            batches.num_tgt_tokens,
        )
        for name, value in zip(found, (*values, (done - output) / took), strict=False):
            found[name].append(value)
        found["source"].append(batches.num_src_tokens)
        found["target"].append(batches.num_tgt_tokens)
    of_ranks = ranks.all_gather({name: float(np.mean(values)) for name, values in found.items()})
    bandwidth = measured_bandwidth(ranks)
    sizes = bytes_of(tried.model, dealing, config.training.gradient_dtype)
    if ranks.rank == 0:
        result = {name: float(np.mean([one[name] for one in of_ranks])) for name in found}
        result |= {"bandwidth": bandwidth, "early": sizes.early, "late": sizes.late, "dense": sizes.dense}
        if ranks.size == 1:
            factors, *_ = np.linalg.lstsq(np.stack([found["source"], found["target"]], 1), found["seconds"], rcond=None)
            result["source_work"] = float(factors[0] / factors[1])
        print(json.dumps(result))
    ranks.end()


def measured_bandwidth(ranks):
    """Bytes a second that a rank sends while all send; 0 where there is one."""
    if ranks.size == 1:
        return 0.0
    arrays = {"a": np.ones(2 << 20, np.float32)}
    reduction = ranks.reduction(arrays, "float32")
    best = 0.0
    for _ in range(5):
        ranks.all_gather(None)
        began = time.perf_counter()
        reduction.begin({})
        reduction.finish()
        best = max(best, reduction.traffic.sent_bytes / (time.perf_counter() - began))
    return min(ranks.all_gather(best))


def run(count, arguments):
    """The measures of so many ranks."""
    launcher = [str(Path(sys.executable).parent / "mpiexec"), "-n", str(count)] if count > 1 else []
    own = [sys.executable, __file__, arguments.config, "--worker", "--updates", str(arguments.updates)]
    own += [part for value in arguments.set for part in ("--set", value)]
    done = subprocess.run([*launcher, *own], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", default="configs/quickstart.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.config, tuple(arguments.set), arguments.updates)
        return
    with tempfile.TemporaryDirectory() as folder:
        arguments.set.append(f"model_dir={folder}/none")
        found = {count: run(count, arguments) for count in dict.fromkeys([1, *arguments.ranks])}
    one = found[1]
    print(describe(1))
    print(
        f"a source token costs {one['source_work']:.2f} of a target token; of an update {one['after_output']:.0%} are"
    )
    print("left when the output layer's gradient is ready\n")
    print("ranks  s/update  tokens/s   waited     sent/update  of all rows  between ranks  projected  off by")
    for count, got in found.items():
        sizes = Bytes(got["early"], got["late"], got["dense"])
        compute = got["seconds"] - got["waited"]
        projected = update_seconds(compute, sizes, count, got["bandwidth"] or 1.0, hidden=one["after_output"])
        print(
            f"{count:5}  {got['seconds']:8.3f}  {got['tokens'] / got['seconds']:8,.0f}  {got['waited']:7.3f}  "
            f"{got['bytes']:14,.0f}  {got['dense']:11,.0f}  {got['bandwidth'] / 1e6:8,.0f} MB/s  {projected:9.3f}  "
            f"{projected / got['seconds'] - 1:+.0%}"
        )
    counts = [2, 4, 8, 16, 32, 64, 128, 256]
    last = found[max(found)]
    sizes = Bytes(last["early"], last["late"], last["dense"])
    print(f"\nof N times one rank's tokens/s, {LATENCY * 1e6:.0f} us a message, each rank on cores of its own")
    print("ranks       " + "".join(f"{count:>7}" for count in counts))
    for speed in NETWORKS:
        seconds = [
            update_seconds(one["seconds"], sizes, count, speed * 1e9 / 8, hidden=one["after_output"])
            for count in counts
        ]
        print(f"{speed:>3.0f} Gbit/s  " + "".join(f"{one['seconds'] / each:7.0%}" for each in seconds))


if __name__ == "__main__":
    main()
