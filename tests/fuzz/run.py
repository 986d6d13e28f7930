"""Put odd inputs and broken models through nmt-translate:

    python -m tests.fuzz.run --inputs 100000 --models 10000

Each share runs in a process of its own with a time limit, so that a crash or a hang of compiled code is seen, and named
by the numbers that repeat it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from nmt.decode import Shortlist
from nmt.storage.model_folder import SHORTLIST_NAME, load_subwords, save_shortlist, subwords_digest
from nmt.storage.saved_model import load_saved_model, save_bundle
from tests.fuzz.check import check_inputs, check_models
from tests.saved_models import write_folder

_SHARES = {"inputs": 2000, "models": 500}
_SECONDS = 1800


def make_model(folder: Path) -> Path:
    """A tiny model in `folder`/model, and the bundle of it, whose path is returned."""
    made = write_folder(folder / "model")
    src, tgt = load_subwords(made, joint=True)
    V = tgt.vocab_size
    starts = np.minimum(np.arange(V + 1), 30).astype(np.int64)
    shortlist = Shortlist(starts, np.arange(4, 34, dtype=np.int32), np.arange(4, 30, dtype=np.int32), V)
    save_shortlist(made / SHORTLIST_NAME, shortlist, {"subwords": subwords_digest(src, tgt)})
    save_bundle(folder / "model.nmt", load_saved_model(made))
    return folder / "model.nmt"


def main() -> int:
    """Run all shares; 1 if one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--inputs", type=int, default=1000, help="odd lines to translate")
    parser.add_argument("--models", type=int, default=200, help="broken models to load")
    parser.add_argument("--seed", type=int, default=0, help="other lines and models")
    parser.add_argument("--share", nargs=4, metavar=("KIND", "FIRST", "COUNT", "DIR"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.share:
        kind, first, count, folder = given.share[0], int(given.share[1]), int(given.share[2]), Path(given.share[3])
        print(json.dumps(_share(kind, first, count, folder, given.seed)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder))
        failed = sum(_all(kind, getattr(given, kind), folder, given.seed) for kind in _SHARES)
    return 1 if failed else 0


def _share(kind: str, first: int, count: int, folder: Path, seed: int) -> dict[str, int]:
    if kind == "inputs":
        return check_inputs(folder / "model.nmt", first, count, seed)
    with tempfile.TemporaryDirectory() as scratch:
        return check_models(folder / "model", folder / "model.nmt", Path(scratch), first, count, seed)


def _all(kind: str, total: int, folder: str, seed: int) -> int:
    """All shares of a kind, one after another; returns how many failed."""
    failed, counts = 0, Counter[str]()
    for first in range(0, total, _SHARES[kind]):
        count = min(_SHARES[kind], total - first)
        share = [kind, str(first), str(count), folder]
        command = [sys.executable, "-m", "tests.fuzz.run", "--seed", str(seed), "--share", *share]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"{kind} {first} to {first + count - 1}: no end within {_SECONDS} s", flush=True)
            failed += 1
            continue
        if done.returncode:
            print(f"{kind} {first} to {first + count - 1}: exit code {done.returncode}\n{done.stderr}", flush=True)
            failed += 1
            continue
        counts.update(json.loads(done.stdout.splitlines()[-1]))
        print(f"{kind} up to {first + count - 1}: {dict(counts)}", flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
