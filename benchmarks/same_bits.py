"""Does another checkout of nmt give the same bits as this one?

    python benchmarks/same_bits.py ../nmt-before

Both checkouts make the demo corpus, train small models for 50 updates each, and translate 1,000 lines in many settings,
by the commands alone. Parameters, and translations with scores, must agree bit for bit. A line for each case, then the
number of cases that differ; exit code 1 if there is any. Without a name, this checkout is run twice: are its results
reproducible?
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors.numpy import load_file

HERE = Path(__file__).resolve().parent.parent

TRAININGS = {
    "lstm": (),
    "gru": ("model.encoder.rnn_type=gru", "model.decoder.rnn_type=gru", "training.label_smoothing=0.1"),
    "stack": (
        "model.encoder.num_layers=2",
        "model.decoder.num_layers=2",
        "model.encoder.dropout=0.2",
        "model.decoder.hidden_dropout=0.2",
        "model.encoder.residual=true",
        "model.tied_embeddings=softmax",
        "model.decoder.hidden_size=64",
    ),
    "bfloat16": ("compute_dtype=bfloat16",),
    "norm": ("model.encoder.rnn_type=layer_norm_lstm", "model.decoder.attention=luong", "threads=2"),
    "min_gru": ("model.encoder.rnn_type=min_gru", "model.decoder.rnn_type=ssru", "model.encoder.zoneout=0.1"),
}
"""Name of a training and what it sets besides the quickstart's settings."""

TRANSLATIONS = {
    "greedy": ("lstm", "--beam-size", "1"),
    "beam 5": ("lstm", "--beam-size", "5"),
    "two threads": ("lstm", "--beam-size", "5", "--threads", "2"),
    "5 best": ("gru", "--n-best", "5"),
    "length average": ("stack", "--length-penalty", "average", "--min-length", "3"),
    "no repeats": ("norm", "--no-repeat-ngram-size", "3", "--repetition-penalty", "1.2"),
    "sampling": ("gru", "--sampling", "--seed", "7"),
    "prefix": ("gru", "--prefix-text", "der"),
    "bfloat16": ("bfloat16", "--beam-size", "5"),
    "int8": ("lstm int8", "--beam-size", "5"),
    "ensemble": ("lstm", "--ensemble", "min_gru"),
}
"""Name of a search, the folder of the model that it uses, and its options."""


def run(checkout: Path, arguments: list[str], folder: Path) -> str:
    """Run `python -m nmt` of a checkout in `folder` and return its standard output.

    Raises:
        SystemExit: The command failed; its standard error has been printed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "nmt", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{checkout}: nmt {' '.join(arguments)}\n{done.stderr}")
    return done.stdout


def digest_of_arrays(path: Path) -> str:
    """Return a digest of the names and values in a safetensors file; metadata do not count."""
    digest = hashlib.sha256()
    for name, array in sorted(load_file(path).items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def digests(checkout: Path, folder: Path, updates: int, lines: int) -> dict[str, str]:
    """Train and translate with a checkout; return a digest for each case."""
    folder.mkdir()
    subprocess.run(
        [sys.executable, checkout / "data_scripts/number_words.py", "--out", folder / "data/demo"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    text = (folder / "data/demo/train.en").read_text("utf-8").splitlines()[:lines]
    (folder / "text.en").write_text("".join(line + "\n" for line in text), "utf-8")
    found: dict[str, str] = {}
    for name, settings in TRAININGS.items():
        chosen = (
            "threads=1",
            f"model_dir={name}",
            f"training.updates={updates}",
            f"training.validation_freq={updates}",
            "training.learning_rate_warmup=10",
            *settings,
        )
        options = [part for setting in chosen for part in ("--set", setting)]
        run(checkout, ["train", str(HERE / "configs/quickstart.yaml"), *options], folder)
        found[f"parameters: {name}"] = digest_of_arrays(folder / name / "last.safetensors")
    run(checkout, ["quantize", "lstm", "-o", "lstm int8"], folder)
    for name, (model, *options) in TRANSLATIONS.items():
        threads = () if "--threads" in options else ("--threads", "1")
        output = run(checkout, ["translate", model, "text.en", "--scores", *threads, *options], folder)
        found[f"translations: {name}"] = hashlib.sha256(output.encode()).hexdigest()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("other", nargs="?", type=Path, default=HERE, help="another checkout")
    parser.add_argument("--quick", action="store_true", help="20 updates and 100 lines instead of 50 and 1,000")
    chosen = parser.parse_args()
    size = (20, 100) if chosen.quick else (50, 1000)
    with tempfile.TemporaryDirectory() as scratch:
        ours = digests(HERE, Path(scratch) / "ours", *size)
        theirs = digests(chosen.other.resolve(), Path(scratch) / "theirs", *size)
    differ = [case for case in ours if ours[case] != theirs[case]]
    for case, digest in ours.items():
        print(f"{case:32} {digest[:16]}  {'DIFFERS' if case in differ else 'same'}")
    print(f"{len(differ)} of {len(ours)} cases differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
