"""How well does a language model predict after the same time of training, compared with PyTorch's LSTM of the same
sizes?

The text and sizes of configs/multi30k_lm.yaml. Both begin with the same parameters, read the same segments of the same
streams in the same order, with the same dropout rates, Adam, clipping and learning rate as a share of the time; each in
a process of its own, one after the other, with as many threads. First the loss of one segment without dropout must
agree. What compiles or loads kernels, the first update, is not counted. Then each is scored on the validation text.

Run: python benchmarks/language_model.py --data data/multi30k [--torch-python PATH] [--minutes 5] [--json FILE]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _machine import describe

from nmt.config import load_config
from nmt.data.corpora.prepare import load_side
from nmt.data.corpora.text import load_text
from nmt.storage.model_folder import build_model

_HERE = Path(__file__).parent
_TOLERANCE = 1e-4  # of the first loss, in nats: sums of 2,048 tokens in float32, in another order


def prepare(config_file: Path, data: Path, folder: Path, dropout: bool) -> dict[str, Any]:
    """Write texts, settings and first parameters for both; return the settings."""
    none = ["embeddings.dropout=0", "dropout=0", "hidden_dropout=0"]
    changes = [f"data.train={data / 'train'}", f"data.dev={data / 'dev'}"]
    config = load_config(config_file, changes + ([] if dropout else [f"model.decoder.{change}" for change in none]))
    if config.model.decoder.rnn_type != "lstm" or config.training.batch_type != "sentence":
        raise SystemExit(f"{config_file}: must be a language model of LSTMs, its batch_size counting streams")
    side = load_side(config.data)
    texts = {name: load_text(getattr(config.data, name), side) for name in ("train", "dev")}
    size = side.subwords.vocab_size
    model = build_model(config, size, size)
    model.initialize(config.seed, texts["train"].target_counts(size))
    arrays = {f"params/{name}": array for name, array in model.params.items()}
    for name, text in texts.items():
        arrays |= {f"{name}/tokens": text.lines.tokens, f"{name}/starts": text.lines.starts}
    np.savez(folder / "arrays.npz", **arrays)  # type: ignore[arg-type]
    settings = {"config": config.to_dict(), "vocab_size": size, "parameters": model.num_params}
    (folder / "settings.json").write_text(json.dumps(settings))
    return settings


def run(python: str, worker: str, folder: Path, seconds: float, threads: int, dtype: str) -> dict[str, Any]:
    """Train and score in a process of its own."""
    count = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "MKL", "OPENBLAS")}
    ours = python == sys.executable
    path = {"PYTHONPATH": os.pathsep.join([str(_HERE.parent), os.environ.get("PYTHONPATH", "")]) if ours else ""}
    command = [python, str(_HERE / worker), str(folder), str(seconds), str(threads), dtype]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | count | path, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise SystemExit(f"{worker}: {lines[-1] if lines else done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Perplexity after the same time of training, compared with PyTorch.")
    parser.add_argument("--data", type=Path, required=True, help="folder with train.en and dev.en")
    parser.add_argument("--config", type=Path, default=_HERE.parent / "configs" / "multi30k_lm.yaml")
    parser.add_argument("--torch-python", default=os.environ.get("NMT_TORCH_PYTHON"), metavar="PATH")
    parser.add_argument("--minutes", type=float, default=5.0, help="of training, each (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-dropout", action="store_true", help="without any dropout, on both sides")
    parser.add_argument("--bfloat16", action="store_true", help="ours with bfloat16 products as well")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="language_model") as name:
        folder = Path(name)
        settings = prepare(args.config, args.data, folder, not args.no_dropout)
        kinds = [("nmt", sys.executable, "_language_worker.py", "float32")]
        kinds += [("nmt, bfloat16", sys.executable, "_language_worker.py", "bfloat16")] if args.bfloat16 else []
        kinds += [("torch", args.torch_python, "_torch_language.py", "float32")] if args.torch_python else []
        for kind, python, worker, dtype in kinds:
            rows[kind] = run(python, worker, folder, args.minutes * 60, args.threads, dtype)
            difference = abs(rows[kind]["first_loss"] - rows["nmt"]["first_loss"])
            if dtype == "float32" and not difference <= _TOLERANCE:
                raise SystemExit(f"{kind}: the first loss must be ours, {rows['nmt']['first_loss']}, got {rows[kind]}")
    machine = describe(args.threads)
    print(" ".join(f"{key}={value}" for key, value in machine.items()))
    print(f"{settings['parameters']:,} parameters, {args.minutes:g} minutes each, dropout {not args.no_dropout}")
    print(f"{'':16}{'tokens/s':>10}{'updates':>9}{'epochs':>8}{'first loss':>12}{'dev ppl':>9}")
    for kind, row in rows.items():
        print(
            f"{kind:16}{row['tokens'] / row['seconds']:>10,.0f}{row['updates']:>9,}{row['epochs']:>8.2f}"
            f"{row['first_loss']:>12.5f}{row['ppl']:>9.2f}"
        )
    if args.json:
        args.json.write_text(json.dumps({"machine": machine, "minutes": args.minutes, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
