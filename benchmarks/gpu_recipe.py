"""Does a recipe learn the same and translate the same on the processor and on a GPU? Real text, the user's commands.

Trains CONFIG on both devices from one seed with `nmt-train`, and compares the loss of every update; then translates the
recipe's test text on both with the model that the first one left, and compares the lines. A line may differ where two
translations are a tie: their scores are as near as rounding makes them. Such lines are named. Exit code 1 where
anything else differs.

Run: python benchmarks/gpu_recipe.py configs/multi30k_de_en.yaml [--updates 200] [--devices cpu cuda] [--out FOLDER]
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from nmt.config import load_config

# Relative. A GPU sums in another order: some 1e-6 in the first update, and each begins where the ones before have led.
LOSS_TOLERANCE = 0.01
# Of a hypothesis' score, which is a sum of some 15 log-probabilities: below this two of them are a tie.
TIE = 1e-3


def run(command: str, *args: str) -> None:
    """Run a command of ours as a user would; its progress stays visible."""
    name = command.removeprefix("nmt-")
    code = f"import sys; sys.argv[0] = {command!r}; from nmt.cli import entry; entry.{name}()"
    done = subprocess.run([sys.executable, "-c", code, *args], check=False)
    if done.returncode:
        raise SystemExit(f"{command} {' '.join(args)}: must end with exit code 0, got {done.returncode}")


def train(config: Path, device: str, updates: int, folder: Path) -> list[float]:
    """Train; the loss of each update."""
    settings = {
        "model_dir": folder,
        "training.updates": updates,
        "training.max_minutes": "null",
        # A recipe's schedule is made for its own number of updates.
        "training.scheduling": "constant",
        "training.learning_rate_warmup": 0,
        "training.logging_freq": 1,
        "training.validation_freq": 10 * updates,
        "training.stop_after": "null",
        "data.test": "null",
    }
    changes = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    run("nmt-train", str(config), "--device", device, "--seed", "1", *changes)
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [event["loss"] for event in events if event["event"] == "train"]


def compare_losses(first: list[float], second: list[float]) -> float:
    """Print how far the curves are apart; the largest relative difference."""
    if len(first) != len(second) or not first:
        raise SystemExit(f"losses: must be as many on both devices, got {len(first)} and {len(second)}")
    apart = [abs(a - b) / a for a, b in zip(first, second, strict=True)]
    for update in sorted({1, 10, 50, 100, 200, len(apart)}):
        if update <= len(apart):
            a, b, difference = first[update - 1], second[update - 1], apart[update - 1]
            print(f"update {update:5d}  loss {a:.6f}  {b:.6f}  apart {difference:.1e}")
    return max(apart)


def translate(model: Path, device: str, source: Path, out: Path) -> list[dict[str, Any]]:
    """The best translation of each line and its score."""
    run("nmt-translate", str(model), str(source), "-o", str(out), "--device", device, "--output-format", "json")
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    return [line["translations"][0] for line in lines]


def compare_translations(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> int:
    """Print the lines that differ; how many of them are no tie."""
    wrong = 0
    for number, (a, b) in enumerate(zip(first, second, strict=True), 1):
        if a["text"] != b["text"]:
            tie = abs(a["score"] - b["score"]) <= TIE
            wrong += not tie
            said = [f"{one['score']:.6f} {one['text']!r}" for one in (a, b)]
            print(f"line {number}: {'tie' if tie else 'DIFFERS'}: {said[0]}, {said[1]}")
    same = sum(a["text"] == b["text"] for a, b in zip(first, second, strict=True))
    print(f"{same} of {len(first)} lines are the same, {len(first) - same - wrong} ties, {wrong} differ")
    return wrong


def main() -> None:
    """Train, translate, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--devices", nargs=2, default=["cpu", "cuda"], choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=Path("build/gpu_recipe"), help="models and translations")
    args = parser.parse_args()
    settings = load_config(args.config)
    folders = [args.out / f"{number}_{device}" for number, device in enumerate(args.devices, 1)]
    if any(folder.exists() for folder in folders):
        raise SystemExit(f"{args.out}: must be without models of an earlier run, got some; remove them or name another")
    pairs = list(zip(args.devices, folders, strict=True))
    curves = [train(args.config, device, args.updates, folder) for device, folder in pairs]
    apart = compare_losses(*curves)
    source = Path(f"{settings.data.test or settings.data.dev}.{settings.data.src.lang}")
    outputs = [args.out / f"{number}_{device}.jsonl" for number, device in enumerate(args.devices, 1)]
    found = [translate(folders[0], device, source, out) for device, out in zip(args.devices, outputs, strict=True)]
    wrong = compare_translations(*found)
    print(f"losses are at most {apart:.1e} apart over {len(curves[0])} updates (allowed: {LOSS_TOLERANCE})")
    if wrong or apart > LOSS_TOLERANCE:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
