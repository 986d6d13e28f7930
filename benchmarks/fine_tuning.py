"""What a trained model brings to a little text in another style: BLEU before, after two minutes, and from nothing.

    python data_scripts/multi30k.py
    python benchmarks/fine_tuning.py --base-minutes 10 --minutes 2

The base translates lower-cased captions (Multi30k, German to English, all pairs but the last --pairs). The new text are
those pairs as they stand, with capitals, of which the base has seen neither sentences nor capitals. Three ways to a
model of it, in the same minutes and with one thread:

- from the base: `training.load_model`, `extend_vocabulary`, a tenth of its learning rate, and `lowercase: false`;
- from nothing, by the presets `low-resource` and `captions`.

Prints BLEU of the test set as it is, and without regard to case, which shows what was lost of what the base knew. Runs
go to --output, and what is there is not done again.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from _machine import describe

from nmt.system.lines import read_lines


def write_texts(folder: Path, data: Path, pairs: int) -> None:
    """The corpus without its last pairs, those pairs, dev and test."""
    folder.mkdir(parents=True, exist_ok=True)
    for lang in ("de", "en"):
        lines = list(read_lines(data / f"train.{lang}"))
        for name, part in (("base", lines[:-pairs]), ("new", lines[-pairs:])):
            (folder / f"{name}.{lang}").write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
        for name in ("dev", "test"):
            (folder / f"{name}.{lang}").write_bytes((data / f"{name}.{lang}").read_bytes())


def config(place: Path, name: str, train: str, lowercase: bool, training: dict[str, object]) -> Path:
    """Settings of a run; what the preset of it says is not repeated."""
    side = {"lowercase": lowercase}
    data = {part: str(place / "text" / text) for part, text in (("train", train), ("dev", "dev"))}
    values = {"model_dir": str(place / name), "compute_dtype": "auto", "training": training}
    values["data"] = data | {"src": {"lang": "de", "lowercase": True}, "tgt": {"lang": "en"} | side}
    path = place / f"{name}.yaml"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def nmt(*words: object) -> str:
    """What a command prints on standard output."""
    done = subprocess.run([sys.executable, "-m", "nmt", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"nmt {words[0]}: {done.stderr[-1000:]}")
    return done.stdout


def scores(model: Path, place: Path) -> tuple[float, float]:
    """BLEU of the test set as it is, and without regard to case."""
    output = model / "test.out"
    if not output.is_file():
        nmt("translate", model, place / "text" / "test.de", "-o", output, "--threads", 1)
    words = ["evaluate", "--hyp", output, "--ref", place / "text" / "test.en", "--json"]
    found = [json.loads(nmt(*words, *more))["metrics"]["bleu"]["score"] for more in ([], ["--lowercase"])]
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data/multi30k"))
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--base-minutes", type=float, default=10.0)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/fine_tuning"))
    arguments = parser.parse_args()
    place = arguments.output.resolve()
    write_texts(place / "text", arguments.data, arguments.pairs)
    tuning = {"load_model": str(place / "base"), "extend_vocabulary": 500, "learning_rate": 2e-4}
    minutes = arguments.minutes
    runs = [
        ("base", "captions", arguments.base_minutes, "base", True, {}),
        ("from-the-base", "captions", minutes, "new", False, tuning),
        ("from-nothing-low-resource", "low-resource", minutes, "new", False, {}),
        ("from-nothing-captions", "captions", minutes, "new", False, {}),
    ]
    print(describe(1))
    print(f"\n{arguments.pairs:,} pairs\n\n| | minutes | BLEU | without regard to case |\n|---|---|---|---|")
    for name, preset, time, train, lowercase, training in runs:
        path = config(place, name, train, lowercase, training)
        if not (place / f"{name}.done").is_file():
            nmt("train", path, "--preset", preset, "--threads", 1, "--budget", f"{time:g}m")
            (place / f"{name}.done").touch()
        cased, lower = scores(place / name, place)
        print(f"| {name} | {time:g} | {cased:.2f} | {lower:.2f} |", flush=True)


if __name__ == "__main__":
    main()
