"""What ranks send one another for an update: bytes by what is sent as what, and when, compared with what is computed.

    python benchmarks/gradient_traffic.py configs/quickstart.yaml --svg docs/pictures/overlap.svg

Runs updates of a config's corpus by ranks of one thread. The table has the bytes that a rank sends for an update:
float32 or bfloat16, all rows of embeddings or those of words that occur, and the seconds it waits when its backward
pass is over. Before it is printed the losses of all ways are compared. The picture is the trace of one update, the one
of median length.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path

import numpy as np
from _machine import describe

from nmt.config import load_config
from nmt.train.distributed.launch import join_ranks
from nmt.train.planning.dry_run import DryRun
from nmt.train.updates.dealing import Dealing
from nmt.train.updates.state import TrainingState
from nmt.train.updates.update import Updater

WARM_UP = 3
WAYS = [("float32", "all"), ("float32", "occurring"), ("bfloat16", "all"), ("bfloat16", "occurring")]
LARGEST_DIFFERENCE = 0.02
"""Of the mean loss of a token between float32 and bfloat16, over the updates that are run here."""


def work(arguments):
    """What one rank does; rank 0 prints what all measured as JSON."""
    ranks = join_ranks()
    config = load_config(
        arguments.config, (*arguments.set, "threads=1", f"training.gradient_dtype={arguments.worker[0]}")
    )
    tried = ranks.first_then_others(lambda: DryRun(config, 1, lambda text: None))
    if arguments.worker[1] == "all":
        tried.model.touched_rows = lambda batches: {}
    dealing = Dealing(tried.batches, ranks.size, config.seed, rank=ranks.rank, ranks=ranks.size)
    updater = Updater(config, tried.model, tried.optimizer, 1, ranks)
    marks = []
    ready = updater._gradients.ready
    updater._gradients.ready = lambda *names: (marks.append((" ".join(names), time.perf_counter())), ready(*names))
    found = []
    updates = zip(range(1, WARM_UP + arguments.updates + 1), dealing.left(TrainingState()), strict=False)
    for number, batches in updates:
        ranks.all_gather(None)  # together
        marks.clear()
        began = time.perf_counter()
        outcome = updater.update(batches, number, 1e-3)
        ended = time.perf_counter()
        traffic = updater.reduction.traffic
        found.append(
            {
                "seconds": ended - began,
                "sent": traffic.sent_bytes,
                "waited": traffic.waited,
                "loss": outcome.stats.loss / outcome.stats.tokens,
                "trace": {
                    **{"began": began, "ended": ended, "waited": traffic.waited},
                    **{"marks": list(marks), "spans": list(traffic.spans)},
                },
            }
        )
    of_ranks = ranks.all_gather(found[WARM_UP:])
    if ranks.rank == 0:
        print(json.dumps(of_ranks))
    ranks.end()


def run(arguments, way):
    """Of every rank what it found of each update."""
    launcher = [str(Path(sys.executable).parent / "mpiexec"), "-n", str(arguments.ranks)]
    own = [sys.executable, __file__, arguments.config, "--worker", *way, "--updates", str(arguments.updates)]
    own += [part for value in arguments.set for part in ("--set", value)]
    done = subprocess.run([*launcher, *own], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def mean(of_ranks, name):
    return float(np.mean([[update[name] for update in updates] for updates in of_ranks]))


# ------------------------------------------------------------ the picture

WIDTH, LEFT, RIGHT, LANE, GAP, TOP = 860, 96, 16, 30, 10, 44
COLOURS = {"output": "#1f5fa8", "decoder": "#2a8a55", "bridge": "#8a6d1f", "embeddings": "#7a4aa0", "rest": "#c2571a"}
WAITING, STEP = "#b0b0b0", "#555"
TEXTS = {
    "output": "forward pass, output layer",
    "decoder": "decoder, backward",
    "bridge": "bridge",
    "embeddings": "embeddings",
    "rest": "encoder, backward",
}


def part_of(name):
    """The part of the model that a parameter, or a mark, belongs to."""
    first = name.split(" ")[0].partition(".")[0]
    if first in ("output", "decoder", "bridge"):
        return first
    return "embeddings" if "embed" in first else "rest"


def draw(of_ranks):
    """The SVG of one update by all ranks."""
    whole = [update["seconds"] for update in of_ranks[0]]
    number = int(np.argsort(whole)[len(whole) // 2])
    traces = [updates[number]["trace"] for updates in of_ranks]
    start, end = min(one["began"] for one in traces), max(one["ended"] for one in traces)
    height = TOP + len(traces) * (2 * LANE + 2 * GAP) + 52

    def x(at):
        return LEFT + (at - start) / (end - start) * (WIDTH - LEFT - RIGHT)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        text(LEFT, 22, f"One update by {len(traces)} ranks: what is computed, and what is sent meanwhile", "bold"),
    ]
    for rank, trace in enumerate(traces):
        y = TOP + rank * (2 * LANE + 2 * GAP)
        parts += [text(8, y + 19, f"rank {rank}"), text(8, y + LANE + 22, "sends", "normal", "#555")]
        parts += computed(trace, x, y)
        for name, begun, done in trace["spans"]:
            parts.append(block(x(begun), x(done), y + LANE + 3, LANE - 6, COLOURS[part_of(name)]))
    bottom = TOP + len(traces) * (2 * LANE + 2 * GAP)
    parts += axis(end - start, x, start, bottom)
    return "\n".join([*parts, "</svg>"]) + "\n"


def computed(trace, x, y):
    """The blocks of one rank's computation, from one mark to the next, and what it waits for the sums."""
    found, at = [], trace["began"]
    last = len(trace["marks"]) - 1
    for number, (name, when) in enumerate(trace["marks"]):
        part = part_of(name) if number < last else "rest"
        found.append(block(x(at), x(when), y, LANE, COLOURS[part], TEXTS[part]))
        at = when
    found.append(block(x(at), x(at + trace["waited"]), y, LANE, WAITING, "waiting"))
    found.append(block(x(at + trace["waited"]), x(trace["ended"]), y, LANE, STEP, "norm, step"))
    return found


def block(left, right, y, height, colour, label=""):
    """A box; its label is drawn inside if it fits, and is always shown as a tooltip."""
    width = max(0.8, right - left)
    inside = text(left + 5, y + height / 2 + 4, label, colour="white") if len(label) * 6.6 < width else ""
    title = f"<title>{escape(label)}</title>" if label else ""
    return f'<rect x="{left:.2f}" y="{y}" width="{width:.2f}" height="{height}" fill="{colour}">{title}</rect>{inside}'


def axis(seconds, x, start, y):
    """Milliseconds below all lanes."""
    step = next(s for s in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10) if seconds / s <= 12)
    found = [f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#999"/>']
    for number in range(int(seconds / step) + 1):
        at = x(start + number * step)
        found.append(f'<line x1="{at:.1f}" y1="{y}" x2="{at:.1f}" y2="{y + 5}" stroke="#999"/>')
        found.append(text(at, y + 18, f"{1000 * number * step:g}", anchor="middle"))
    found.append(text((LEFT + WIDTH - RIGHT) / 2, y + 38, "milliseconds", anchor="middle"))
    return found


def text(x, y, content, weight="normal", colour="black", anchor="start"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-weight="{weight}" text-anchor="{anchor}">'
        f"{escape(content)}</text>"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", default="configs/quickstart.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--svg", type=Path, metavar="FILE", help="where to draw an update that sends float32")
    parser.add_argument("--worker", nargs=2, metavar=("DTYPE", "ROWS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        arguments.set.append(f"model_dir={folder}/none")
        found = {way: run(arguments, way) for way in WAYS}
    print(describe(1))
    losses = {way: mean(of_ranks, "loss") for way, of_ranks in found.items()}
    assert losses["float32", "all"] == losses["float32", "occurring"], losses
    assert max(losses.values()) - min(losses.values()) < LARGEST_DIFFERENCE, losses
    whole = mean(found["float32", "all"], "sent")
    print(f"\n{arguments.ranks} ranks, bytes that each sends for an update, mean of {arguments.updates}")
    print("| sent as | rows of embeddings | bytes | of all in float32 | waited, ms | update, ms |")
    print("|---|---|---|---|---|---|")
    for (dtype, rows), of_ranks in found.items():
        sent, waited, took = (mean(of_ranks, name) for name in ("sent", "waited", "seconds"))
        print(f"| {dtype} | {rows} | {sent:,.0f} | {sent / whole:.0%} | {1e3 * waited:.1f} | {1e3 * took:.0f} |")
    if arguments.svg:
        arguments.svg.write_text(draw(found["float32", "occurring"]), encoding="utf-8")
        print(f"\n{arguments.svg}")


if __name__ == "__main__":
    main()
