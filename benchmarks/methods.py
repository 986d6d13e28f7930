"""What each method of training brings on little text: the same minutes with and without it.

    python data_scripts/multi30k.py
    python benchmarks/methods.py --minutes 5 --jobs 2

Takes the first --pairs pairs of Multi30k, German to English, and trains the preset `captions` on them for the same
minutes, plainly with several seeds and then with each method, its settings those of its paper (docs/methods.md). Every
run is fitted to its time by `nmt-train --budget`: what makes an update slower gets fewer of them. Prints BLEU of the
test set (lower-cased, as the text is), the difference from the plain mean, and the deviation of the plain runs, by
which a difference can be judged. Further presets are rows of their own. Minimum risk training goes on from the first
plain model for the same minutes again, compared with a plain model that had twice the minutes.

Runs go to --output, and what is there is not done again. Each has one thread; --jobs of them run side by side, on cores
that are not shared.
"""

import argparse
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from _machine import describe

PLAIN_SEEDS = 3
METHODS = {
    "ema_decay: 0.995": ["training.ema_decay=0.995"],
    "src_word_dropout: 0.1": ["training.src_word_dropout=0.1"],
    "tgt_word_dropout: 0.1": ["training.tgt_word_dropout=0.1"],
    "r_drop: 5": ["training.r_drop=5"],
    "zoneout: 0.1": ["model.encoder.zoneout=0.1", "model.decoder.zoneout=0.1"],
    "label_smoothing: 0": ["training.label_smoothing=0"],
    "lexical: true": ["model.decoder.lexical=true"],
}
PRESETS = ("low-resource", "tiny")


def write_pairs(folder, data, pairs):
    """The first pairs of the corpus, its dev and test next to them, and settings that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    for lang in ("de", "en"):
        with (data / f"train.{lang}").open(encoding="utf-8") as file:
            (folder / f"train.{lang}").write_text("".join(islice(file, pairs)), encoding="utf-8")
        for part in ("dev", "test"):
            (folder / f"{part}.{lang}").write_bytes((data / f"{part}.{lang}").read_bytes())
    paths = {part: str(folder / part) for part in ("train", "dev", "test")}
    sides = {"src": {"lang": "de", "lowercase": True}, "tgt": {"lang": "en", "lowercase": True}}
    config = folder / "config.yaml"
    config.write_text(json.dumps({"model_dir": "unused", "compute_dtype": "bfloat16", "data": paths | sides}))
    return config


def train(config, folder, minutes, preset, settings):
    """One run, unless it is there; BLEU of its test set, and its updates."""
    done = folder / "test.json"
    if not done.is_file():
        words = [word for text in [f"model_dir={folder}", *settings] for word in ("--set", text)]
        command = [sys.executable, "-m", "nmt", "train", config, "--preset", preset, "--threads", "1", *words]
        command += ["--budget", f"{minutes:g}m"]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"{folder.name}: {ran.stderr[-1000:]}")
        events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        test = next(event for event in reversed(events) if event["event"] == "test")
        updates = max(event.get("update", 0) for event in events)
        done.write_text(json.dumps({"bleu": test["bleu"], "updates": updates, "seconds": events[-1].get("elapsed")}))
    return json.loads(done.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data/multi30k"))
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--only", nargs="*", help="methods whose names hold one of these; plain runs always")
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/methods"))
    arguments = parser.parse_args()
    place, minutes = arguments.output.resolve(), arguments.minutes
    config = write_pairs(place / "text", arguments.data, arguments.pairs)
    plain = [(f"plain, seed {seed}", minutes, "captions", [f"seed={seed}"]) for seed in range(1, PLAIN_SEEDS + 1)]
    runs = plain + [(name, minutes, "captions", ["seed=1", *settings]) for name, settings in METHODS.items()]
    runs += [(f"preset {name}", minutes, name, ["seed=1"]) for name in PRESETS]
    runs.append(("plain, twice the minutes", 2 * minutes, "captions", ["seed=1"]))
    if arguments.only is not None:
        runs = plain + [run for run in runs[len(plain) :] if any(word in run[0] for word in arguments.only)]

    def done(run):
        name, time, preset, settings = run
        return train(config, place / name.replace(" ", "-").replace(":", "").replace(",", ""), time, preset, settings)

    print(describe(1))
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = dict(zip((run[0] for run in runs), pool.map(done, runs), strict=True))
    scores = [found[run[0]]["bleu"] for run in plain]
    mean = statistics.mean(scores)
    print(f"\n{arguments.pairs:,} pairs, {minutes:g} minutes of one thread; plain {mean:.2f}, ", end="")
    print(f"deviation of {len(scores)} seeds {statistics.stdev(scores):.2f}\n")
    print("| | updates | BLEU | relative to plain |\n|---|---|---|---|")
    for name, one in found.items():
        print(f"| `{name}` | {one['updates']:,} | {one['bleu']:.2f} | {one['bleu'] - mean:+.2f} |")


if __name__ == "__main__":
    main()
