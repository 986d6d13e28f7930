"""Runs that are killed at random moments and started again: do they come to the bits of one that was not?

    python benchmarks/kill_runs.py [--times 20] [--task translation] [--seed 1]

Trains a small model on data/demo with accumulation, a moving average, two corpora, sampled subwords, word dropout and
loss spikes (task lm: those that it has) once undisturbed; then `--times` times with one to three kills (SIGKILL) at
random moments, goes on by the same command until it ends, and compares all arrays of the last and the best checkpoint,
the state, and the scores of every validation. Exit code 1 where anything differs.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from nmt.storage.model_folder import read_checkpoint

ROOT = Path(__file__).parents[1]


def settings(task: str, folder: Path) -> dict[str, Any]:
    """A run of some seconds."""
    side = {"embeddings": {"embedding_dim": 32, "dropout": 0.1}, "hidden_size": 32}
    training: dict[str, Any] = {
        "batch_size": 512,
        "updates": 60,
        "validation_freq": 10,
        "logging_freq": 10,
        "batch_multiplier": 2,
        "ema_decay": 0.99,
        "tgt_word_dropout": 0.1,
        "loss_spikes": "rollback",
        "spike_deviations": 1.0,
        "early_stopping_metric": "loss",
        "early_stopping_patience": None,
    }
    data: dict[str, Any] = {"train": "data/demo/train", "dev": "data/demo/dev", "tgt": {"lang": "en"}, "check": False}
    data["subwords"] = {"type": "bpe", "vocab_size": 800}
    if task == "lm":
        training |= {"batch_type": "sentence", "batch_size": 32, "bptt": 16, "shuffle": False}
    else:
        data |= {"src": {"lang": "de", "sampling_alpha": 0.1}, "tgt": {"lang": "en", "sampling_alpha": 0.1}}
        data["train"] = [{"path": "data/demo/train"}, {"path": "data/demo/test", "weight": 3.0, "tag": "<2nd>"}]
        training |= {"src_word_dropout": 0.1, "scheduled_sampling": 0.1, "coverage_loss": 0.1, "r_drop": 1.0}
    model = {"encoder": side, "decoder": {**side, "hidden_dropout": 0.1}}
    decoding = {"beam_size": 1}
    return {
        "model_dir": str(folder),
        "task": task,
        "threads": 1,
        "data": data,
        "model": model,
        "training": training,
        "decoding": decoding,
    }


def start(task: str, folder: Path) -> subprocess.Popen[bytes]:
    """nmt-train in a folder."""
    config = folder.with_suffix(".yaml")
    config.write_text(yaml.safe_dump(settings(task, folder)))
    command = [sys.executable, "-m", "nmt", "train", str(config)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> None:
    """Wait for its end. Exits where it failed."""
    _, errors = process.communicate()
    if process.returncode:
        sys.exit(errors.decode()[-2000:])


def result(folder: Path) -> dict[str, Any]:
    """What is to be equal."""
    found: dict[str, Any] = {}
    for name in ("last", "best"):
        arrays, content = read_checkpoint(folder / f"{name}.safetensors")
        found |= {f"{name} {key}": array.tobytes() for key, array in arrays.items()}
        found[f"{name} state"] = {key: value for key, value in content["state"].items() if key != "elapsed"}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "validation":  # one that was repeated stands there twice, with the same scores
            scores = {key: value for key, value in event.items() if key not in ("time", "elapsed", "seconds")}
            found.setdefault(f"validation {event['update']}", []).append(json.dumps(scores))
    return {key: sorted(set(value)) if key.startswith("validation") else value for key, value in found.items()}


def main() -> None:
    """Compare, and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--task", choices=["translation", "lm"], default="translation")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)  # noqa: S311 - not a secret
    with tempfile.TemporaryDirectory(prefix="nmt-kill-runs-") as top:
        began = time.monotonic()
        finish(start(options.task, Path(top) / "whole"))
        took = time.monotonic() - began
        whole = result(Path(top) / "whole")
        skipped = whole["last state"]["skipped"]
        print(f"undisturbed: {took:.1f} s, {len(whole)} values to compare, {skipped} updates skipped", flush=True)
        failures = kills = 0
        for number in range(options.times):
            folder = Path(top) / f"cut{number}"
            for _ in range(draw.randint(1, 3)):
                process = start(options.task, folder)
                time.sleep(draw.uniform(0.0, took))
                kills += process.poll() is None
                process.kill()
                process.communicate()
            finish(start(options.task, folder))
            found = result(folder)
            wrong = [key for key in whole.keys() | found.keys() if whole.get(key) != found.get(key)]
            failures += bool(wrong)
            if wrong:
                print(f"run {number}: {len(wrong)} values differ: {', '.join(sorted(wrong)[:5])}", flush=True)
            shutil.rmtree(folder)
    print(f"{options.task}: {options.times} runs, {kills} kills, {failures} runs with other bits")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
