"""Trains by the plain command on four sizes of text and four kinds, and writes what to expect from each.

    python recipes/four_sizes.py [--seeds 3] [--only captions news] [--sizes 1000 4000] [--options "--threads 1"]

Each model is trained by `nmt-train pairs.tsv` without any setting, on the first 1,000, 4,000, 10,000 or 30,000 pairs of
a fixed order, and scored on sentences of the same kind that it has not read, and on another kind where there is one.
The texts are made by data_scripts: multi30k.py, names.py, and low_resource.py for iwslt14-sample, africa and cherokee.
Models and scores go to runs/four-sizes, the table of the means over the seeds to standard output and to measured.json
there: BLEU and chrF, of names the percentage that is right. Minutes are processor time. Run the same command again to
resume.
"""

import argparse
import json
import random
import resource
import shlex
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from nmt.system.files import write_bytes

SIZES = (1_000, 4_000, 10_000, 30_000)
PLACE = Path("runs/four-sizes")
SCORES = "scores.json"
PARTS = ("held out", "same kind", "another kind")
MOST = 1_000
"""Sentences that a model is scored on."""


@dataclass(frozen=True)
class Kind:
    """Texts of one kind: folder/train, folder/`same`, and `other`, each with the endings of both languages."""

    name: str
    folder: str
    languages: tuple[str, str]
    codes: tuple[str, str]
    same: str = "dev"
    other: str = ""
    metrics: tuple[str, ...] = ("bleu", "chrf")
    is_spelled: bool = False

    def read(self, prefix: str) -> list[tuple[str, str]]:
        """Return the pairs of prefix.SRC and prefix.TGT; of spelled words, letters between spaces are joined."""
        sides = [Path("data", f"{prefix}.{end}").read_text("utf-8").splitlines() for end in self.languages]
        pairs = [pair for pair in zip(*sides, strict=True) if all(pair)]
        return [(a.replace(" ", ""), b.replace(" ", "")) for a, b in pairs] if self.is_spelled else pairs


KINDS = (
    Kind("captions", "multi30k", ("de", "en"), ("de", "en"), "test", "iwslt14-sample/dev"),
    Kind("news", "africa/en-ibo", ("en", "ibo"), ("en", "ig")),
    Kind("Cherokee", "cherokee", ("chr", "en"), ("chr", "en"), other="cherokee/out_dev"),
    Kind("names", "names/russian", ("latin", "script"), ("en", "ru"), metrics=("accuracy",), is_spelled=True),
)
"""Captions from German, news from English to Igbo, Cherokee to English, English names in Cyrillic letters."""


def write_table(path: Path, pairs: list[tuple[str, str]], codes: tuple[str, str]) -> None:
    """Write pairs as people have them: a table with a heading."""
    rows = (tuple(side.replace("\t", " ").replace('"', "'") for side in pair) for pair in [codes, *pairs])
    path.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in rows), "utf-8")


def score(model: Path, src: Path, ref: Path, kind: Kind, options: Sequence[str] = ()) -> dict[str, float]:
    """Return metric -> the model's score on a text."""
    command = ["nmt-evaluate", str(model), "--src", str(src), "--ref", str(ref), "--metric", ",".join(kind.metrics)]
    done = subprocess.run([*command, "--json", *options], check=True, stdout=subprocess.PIPE, text=True)
    return {metric: found["score"] for metric, found in json.loads(done.stdout)["metrics"].items()}


def train(kind: Kind, size: int, seed: int, options: Sequence[str]) -> None:
    """Train and score one model, and write its scores, unless that was done before."""
    folder = PLACE / f"{kind.name}-{size}-{seed}"
    if (folder / SCORES).exists():
        return
    pairs = kind.read(f"{kind.folder}/train")
    random.Random(0).shuffle(pairs)
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / "pairs.tsv", pairs[:size], kind.codes)
    began, model = resource.getrusage(resource.RUSAGE_CHILDREN), folder / "model"
    command = ["nmt-train", str(folder / "pairs.tsv"), "-o", str(model), "--set", f"seed={seed}", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes = (ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime) / 60
    src, tgt = (model / f"dev.{code}" for code in kind.codes)
    scores = {"held out": score(model, src, tgt, kind)}
    for part, prefix, more in (
        ("same kind", f"{kind.folder}/{kind.same}", []),
        ("another kind", kind.other, ["--lowercase"]),
    ):
        if prefix:
            table = folder / f"{part}.tsv"
            write_table(table, kind.read(prefix)[:MOST], kind.codes)
            scores[part] = score(model, table, table, kind, more)
    row = {"text": kind.name, "pairs": min(size, len(pairs)), "seed": seed, "minutes": minutes, "scores": scores}
    write_bytes(folder / SCORES, json.dumps(row).encode())


def point(kind: Kind, group: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means over seeds, with the names that nmt/config/presets/measured.json has."""

    def mean(values: list[float]) -> float:
        return round(statistics.mean(values), 1)

    names = {
        "accuracy": {"same kind": "right"},
        "bleu": {"held out": "bleu_held_out", "same kind": "bleu", "another kind": "bleu_elsewhere"},
        "chrf": {"held out": "chrf_held_out", "same kind": "chrf", "another kind": "chrf_elsewhere"},
    }
    scores = [row["scores"] for row in group]
    return {
        "kind": kind.name,
        "pairs": group[0]["pairs"],
        "seeds": len(group),
        "minutes": max(1, round(statistics.mean(row["minutes"] for row in group))),
        **{
            name: mean([one[part][metric] for one in scores])
            for metric in kind.metrics
            for part, name in names[metric].items()
            if part in scores[0]
        },
    }


def show() -> None:
    """Print the means over the seeds of all models that were scored, as a table and as JSON."""
    groups: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for path in PLACE.glob(f"*/{SCORES}"):
        row = json.loads(path.read_text("utf-8"))
        groups[[kind.name for kind in KINDS].index(row["text"]), row["pairs"]].append(row)
    points = [point(KINDS[place], group) for (place, _), group in sorted(groups.items())]
    heads = list(dict.fromkeys(name for one in points for name in one))
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for one in points:
        print("| " + " | ".join(str(one.get(name, "")) for name in heads) + " |")
    write_bytes(PLACE / "measured.json", json.dumps(points, indent=1).encode())


def main() -> None:
    """Train what was not trained, the small ones first, and print the table."""
    parser = argparse.ArgumentParser(description="The plain command on four sizes of text and four kinds.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[kind.name for kind in KINDS])
    parser.add_argument("--sizes", nargs="+", type=int, choices=SIZES, default=SIZES)
    parser.add_argument("--options", type=shlex.split, default=[], help="options for nmt-train, such as '--threads 1'")
    asked = parser.parse_args()
    kinds = [kind for kind in KINDS if asked.only is None or kind.name in asked.only]
    for size, seed, kind in product(asked.sizes, range(1, asked.seeds + 1), kinds):
        train(kind, size, seed, asked.options)
    show()


if __name__ == "__main__":
    main()
