"""Which cell? Each `rnn_type`, and the LSTM with each kind of noise in its recurrence, translates after the same
minutes of training: BLEU, speed, parameters.

The recipe configs/multi30k_de_en.yaml with nothing changed but the cell, of _regularised_cells.py where there is noise
(configs/multi30k_de_en_conv.yaml for `conv_s2s`). First some updates of each are timed; then the models are trained for
as many as fit into the minutes, the learning rate falling to zero at the last one, and translate the test set. So a
training may run while others do, or be interrupted and started again, and its BLEU is that of the same minutes on a
quiet machine. Each cell's figures are kept in FOLDER; cells that have theirs are not run again.

Run: python benchmarks/cells.py --work FOLDER [--minutes 10] [--threads 1] [CELL ...]
     python benchmarks/cells.py --work FOLDER --table
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from _machine import describe
from _timing import note

from nmt.config import load_config
from nmt.config.model_section import RNN_TYPES
from nmt.system.files import write_bytes
from nmt.train.planning.dry_run import DryRun

_ROOT = Path(__file__).parent.parent
_CONV = "conv_s2s"
_REGULARISED = ("zoneout_lstm", "drop_connect_lstm", "recurrent_dropout_lstm")
_CELLS = (*RNN_TYPES, *_REGULARISED, _CONV)
_UPDATES, _WARM_UP = 12, 3


def settings(cell: str, args: argparse.Namespace) -> tuple[str, list[str]]:
    """The recipe of a cell, and what is changed in it."""
    changes = [f"model_dir={args.work / cell}", f"threads={args.threads}", f"compute_dtype={args.dtype}"]
    changes += [f"data.{part}={args.data / part}" for part in ("train", "dev", "test")]
    if cell == _CONV:
        return str(_ROOT / "configs/multi30k_de_en_conv.yaml"), changes
    rnn_type = f"_regularised_cells.{cell}" if cell in _REGULARISED else cell
    sides = [f"model.{side}.rnn_type={rnn_type}" for side in ("encoder", "decoder")]
    return str(_ROOT / "configs/multi30k_de_en.yaml"), changes + sides


def speed(recipe: str, changes: list[str], threads: int) -> dict[str, Any]:
    """Target tokens and seconds of an update, over some updates of the first epoch, and the number of parameters."""
    dry_run = DryRun(load_config(recipe, changes), threads, note)
    timing = dry_run.measure(_UPDATES, warm_up=_WARM_UP)
    return {
        "tokens_per_second": timing.tgt_tokens / timing.seconds,
        "seconds_per_update": timing.seconds / timing.updates,
        "parameters": dry_run.model.num_params,
    }


def speed_path(cell: str, args: argparse.Namespace) -> Path:
    """Where the speed of a cell is kept: an interrupted training goes on to the end that it had."""
    path: Path = args.work / f"{cell}.speed.json"
    return path


def run(cell: str, args: argparse.Namespace) -> dict[str, Any]:
    """Train, translate and score a cell whose speed is known."""
    recipe, changes = settings(cell, args)
    found: dict[str, Any] = json.loads(speed_path(cell, args).read_text())
    updates = round(args.minutes * 60 / found["seconds_per_update"])
    ends = {"updates": updates, "epochs": 10**6, "max_minutes": "null", "validation_freq": 10**6}
    ends |= {"learning_rate_warmup": min(200, updates // 4)}
    changes += [f"training.{key}={value}" for key, value in ends.items()]
    options = [option for change in changes for option in ("--set", change)]
    command = [sys.executable, "-m", "nmt", "train", recipe, *options]
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))}
    results = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout.splitlines()
    bleu, signature = next(line.split("\t")[2:] for line in results if line.startswith("test\tBLEU\t"))
    found |= {"updates": updates, "bleu": float(bleu), "signature": signature}
    return found | {"minutes": args.minutes, "dtype": args.dtype, "machine": describe(args.threads)}


def table(work: Path) -> str:
    """The figures found so far, best BLEU first."""
    rows = {path.stem: json.loads(path.read_text()) for path in work.glob("*.json") if path.suffixes == [".json"]}
    if not rows:
        raise SystemExit(f"{work}: must contain figures of some cells, got none; run without --table first")
    lines = ["| rnn_type | BLEU | target tokens/s | updates | parameters |", "|---|---|---|---|---|"]
    for cell in sorted(rows, key=lambda name: -rows[name]["bleu"]):
        row = rows[cell]
        millions = row["parameters"] / 1e6
        counts = f"{row['tokens_per_second']:,.0f} | {row['updates']:,} | {millions:.1f} M"
        lines.append(f"| {cell} | {row['bleu']:.1f} | {counts} |")
    kinds = {(row["minutes"], row["dtype"], row["machine"]["threads"], row["machine"]["cpu"]) for row in rows.values()}
    for minutes, dtype, threads, cpu in sorted(kinds):
        lines.append(f"\n{minutes:g} minutes, {dtype}, {threads} thread(s), {cpu}")
    lines.append(next(iter(rows.values()))["signature"])
    return "\n".join(lines)


def main() -> None:
    """Run what is asked for, and print the table."""
    parser = argparse.ArgumentParser(description="BLEU of each cell after the same minutes of training.")
    parser.add_argument("cells", nargs="*", metavar="CELL", help=f"of {', '.join(_CELLS)} (all of them)")
    parser.add_argument("--work", type=Path, required=True, metavar="FOLDER", help="for models and figures")
    parser.add_argument("--data", type=Path, default=_ROOT / "data/multi30k", help="folder with train, dev and test")
    parser.add_argument("--minutes", type=float, default=10.0, help="of training, each (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--speeds", action="store_true", help="only time some updates: this wants a quiet machine")
    parser.add_argument("--table", action="store_true", help="run nothing; print the contents of FOLDER")
    args = parser.parse_args()
    if unknown := [cell for cell in args.cells if cell not in _CELLS]:
        raise SystemExit(f"cells: must be of {', '.join(_CELLS)}, got {', '.join(unknown)}")
    args.work.mkdir(parents=True, exist_ok=True)
    cells = [] if args.table else args.cells or _CELLS
    for cell in cells:
        if not speed_path(cell, args).exists():
            write_bytes(speed_path(cell, args), json.dumps(speed(*settings(cell, args), args.threads)).encode())
    if args.speeds:
        return
    for cell in cells:
        path = args.work / f"{cell}.json"
        if not path.exists():
            write_bytes(path, json.dumps(run(cell, args), indent=1).encode())
    print(table(args.work))


if __name__ == "__main__":
    main()
