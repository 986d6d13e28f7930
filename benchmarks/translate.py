"""How fast is translation, compared with other toolkits?

Our model in float32, bfloat16 and int8, each with and without its shortlist, compared with models of OpenNMT-py and
Marian
(float32 and int8), JoeyNMT, and CTranslate2 with a Transformer in int8; benchmarks/train_peers.py trains those. Two
texts: a test set, and one of 10,000 lines made of it and of other lines, shuffled. At each setting (beam 1 and 5,
batch 1 and more, one thread and two) the systems take turns; the fastest turn of each counts.

- sentences/s, words/s: net of loading (the time of the whole text less that of its first line).
- p50, p95, p99: milliseconds that single sentences take, given one after another to a running command, each when the
  one before is answered; of systems that answer so.
- peak MB: memory of the whole run; disk MB: the files that translating needs.

Models of different training write texts of different lengths, so output tokens a source token stand in the JSON.
Checks first that batch and threads do not change our translations.

Run: python benchmarks/translate.py MODEL_DIR [--src FILE --ref FILE] [--quick] [--json FILE] [--markdown FILE]
     [--peers FOLDER --subwords SPM --onmt MODEL.pt --joey CONFIG.yaml --marian MODEL.npz --marian-vocab FILE
      --marian-int8 MODEL.bin --ctranslate2 FOLDER]
"""

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _machine import describe
from _systems import DTYPES, Setting, System, note, ours_in_all, peers
from _translation_table import markdown, ratios
from _watch import Watched, converse

from nmt.evaluate.scores import score_translations

_CHECKED_LINES = 20
_WARM_UP = 5
"""Single sentences that are translated before those that count."""


def read(prefix: Path) -> list[str]:
    """The lines of a text; none where it is not there."""
    return prefix.read_text("utf-8").splitlines() if prefix.exists() else []


def long_text(src: Path, ref: Path, count: int) -> tuple[list[str], list[str]]:
    """A text of `count` lines: the test set, the files next to it called dev and train, then again, all shuffled."""
    pairs: list[tuple[str, str]] = []
    for name in (src.stem, "dev", "train"):
        sides = (read(path.with_name(name + path.suffix)) for path in (src, ref))
        pairs += zip(*sides, strict=True)
    pairs = (pairs * -(-count // max(1, len(pairs))))[:count]
    random.Random(0).shuffle(pairs)
    return [one for one, _ in pairs], [other for _, other in pairs]


def translate(system: System, setting: Setting, lines: list[str], folder: Path) -> tuple[Watched, list[str]]:
    """Translate lines; exits where there is not one line for each."""
    source, target = folder / "source", folder / "target"
    shown = system.encode(lines) if system.reads_pieces else lines
    source.write_text("".join(f"{line}\n" for line in shown), "utf-8")
    target.unlink(missing_ok=True)
    watched = system.run(setting, source, target)
    found = target.read_text("utf-8").split("\n")[:-1] if target.exists() else []
    if watched.status or len(found) != len(lines):
        fact = f"{len(found)} and exit status {watched.status}"
        raise SystemExit(f"{system.name}, {setting}: must give {len(lines)} lines, got {fact}")
    return watched, found


def check(system: System, lines: list[str], settings: list[Setting], folder: Path) -> None:
    """Batch and threads must not change a translation of ours."""
    for beam in {s.beam for s in settings}:
        found = {s: translate(system, s, lines, folder)[1] for s in settings if s.beam == beam}
        first = next(iter(found))
        for setting, translations in found.items():
            if translations != found[first]:
                raise SystemExit(f"{system.name}: {setting} must translate as {first} does, got something else")


def latencies(system: System, setting: Setting, lines: list[str]) -> dict[str, float] | None:
    """Milliseconds of single sentences: percentiles; None where the system does not answer line by line."""
    if system.answers is None or setting.batch > 1:
        return None
    command, env = system.answers(setting)
    shown = system.encode(lines) if system.reads_pieces else lines
    warm = shown[:_WARM_UP]
    watched, found, seconds = converse(command, [*warm, *shown], env)
    if watched.status or len(found) != len(warm) + len(shown):
        raise SystemExit(f"{system.name}, {setting}: must answer {len(lines)} lines, got {len(found) - len(warm)}")
    return {f"p{p}": 1e3 * float(np.percentile(seconds[len(warm) :], p)) for p in (50, 95, 99)}


def measure(
    system: System, setting: Setting, text: tuple[list[str], list[str]], folder: Path, loads: dict[Any, float]
) -> dict[str, Any]:
    """Figures of one turn of one system in one setting; `loads`: seconds of the first line, kept between turns."""
    lines, references = text
    key = system.name, setting
    watched, found = translate(system, setting, lines[:1], folder)
    loads[key] = load = min(watched.seconds, loads.get(key, np.inf))
    watched, found = translate(system, setting, lines, folder)
    net: float | None = watched.seconds - load
    if net is not None and net < 0.1 * load:
        note(f"{system.name}, {setting}: {watched.seconds:.1f} s are hardly more than loading; give more lines")
        net = None
    tokens_in = sum(len(row.split()) for row in system.encode(lines))
    tokens_out = sum(len(row.split()) for row in (found if system.reads_pieces else system.encode(found)))
    scores = score_translations(system.text(found), references, metrics=("bleu",))
    return {
        "system": system.name,
        **vars(setting),
        "lines": len(lines),
        "seconds": watched.seconds,
        "load_seconds": load,
        "sentences_per_second": net and len(lines) / net,
        "source_words_per_second": net and sum(len(line.split()) for line in lines) / net,
        "output_tokens_per_second": net and tokens_out / net,
        "output_tokens_per_source_token": tokens_out / tokens_in,
        "peak_mb": watched.peak_mb,
        "disk_mb": system.disk_mb,
        "bleu": scores["bleu"].score,
    }


def better(one: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    """The faster turn."""
    faster = one is None or (other["sentences_per_second"] or 0) > (one["sentences_per_second"] or 0)
    return other if faster or one is None else one


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """What is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def numbers(text: str) -> list[int]:
        return [int(word) for word in text.split(",")]

    parser.add_argument("model", nargs="?", type=Path, metavar="MODEL_DIR", help="model folder of ours")
    parser.add_argument("--src", type=Path, default=Path("data/multi30k/test.en"), help="what to translate")
    parser.add_argument("--ref", type=Path, default=Path("data/multi30k/test.de"), help="its reference")
    parser.add_argument("--lines", type=int, help="of the test set, only so many (all; 100 with --quick)")
    parser.add_argument("--single-lines", type=int, help="of them, one at a time (300; 20 with --quick)")
    parser.add_argument("--long-lines", type=int, help="of the long text, 0 for none (10,000; 0 with --quick)")
    parser.add_argument("--beams", type=numbers, default=[1, 5])
    parser.add_argument("--batches", type=numbers, default=[1, 64], help="1, and those of which the fastest counts")
    parser.add_argument("--threads", type=numbers, default=[2, 1])
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="of our model")
    parser.add_argument("--turns", type=int, default=1, help="of each system at each setting")
    parser.add_argument("--quick", action="store_true", help="few lines")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the tables, for a page")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="folder with venv-onmt, venv-joey, venv-marian")
    parser.add_argument("--subwords", type=Path, metavar="SPM", help="sentencepiece model of the others' text")
    parser.add_argument("--onmt", type=Path, metavar="MODEL.pt")
    parser.add_argument("--joey", type=Path, metavar="CONFIG.yaml")
    parser.add_argument("--marian", type=Path, metavar="MODEL.npz")
    parser.add_argument("--marian-int8", type=Path, metavar="MODEL.bin")
    parser.add_argument("--marian-vocab", type=Path, metavar="FILE")
    parser.add_argument("--ctranslate2", type=Path, metavar="FOLDER")
    args = parser.parse_args(words)
    few = {"lines": 100, "single_lines": 20, "long_lines": 0}
    usual = {"lines": None, "single_lines": 300, "long_lines": 10_000}
    for name, value in (few if args.quick else usual).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return args


def run(args: argparse.Namespace, found: list[System], folder: Path) -> list[dict[str, Any]]:
    """All records, each setting's systems in turns."""
    test = tuple(read(path)[: args.lines] for path in (args.src, args.ref))
    single = tuple(side[: args.single_lines] for side in test)
    texts = [("test", test)]
    if args.long_lines:
        texts.append(("long", long_text(args.src, args.ref, args.long_lines)))
    settings = [Setting(b, n, t) for t in args.threads for n in args.batches for b in args.beams]
    for system in found:
        if system.model is not None:
            check(system, test[0][:_CHECKED_LINES], settings, folder)
    records, loads = [], {}  # type: list[dict[str, Any]], dict[Any, float]
    for name, text in texts:
        for setting in settings:
            if name == "long" and setting.batch == 1:
                continue
            part = single if setting.batch == 1 else text
            best: dict[str, dict[str, Any]] = {}
            for _ in range(args.turns):
                for system in found:
                    best[system.name] = better(best.get(system.name), measure(system, setting, part, folder, loads))
            for system in found:
                record = best[system.name] | {"text": name, "latency_ms": latencies(system, setting, single[0])}
                records.append(record)
                note(f"{name}, {setting}: {system.name}, {record['sentences_per_second'] or 0:.1f} sentences/s")
    return records


def main() -> None:
    """Print the tables."""
    args = arguments()
    if not args.src.exists() or not args.ref.exists():
        note(f"{args.src}, {args.ref}: not there, skipped; python data_scripts/multi30k.py brings them")
        return
    machine = describe(max(args.threads))
    with tempfile.TemporaryDirectory(prefix="translate") as name:
        folder = Path(name)
        found = [] if args.model is None else ours_in_all(args.model, args.dtypes.split(","), folder)
        found += peers(args)
        if not found:
            note("no model given: nothing to measure; name a model folder")
            return
        records = run(args, found, folder)
    head = ", ".join(f"{name} {value}" for name, value in machine.items() if name != "threads")
    page = "\n".join([head, "", *markdown(records), "", *ratios(records)])
    print(page)
    if args.markdown:
        args.markdown.write_text(page + "\n", "utf-8")
    if args.json:
        args.json.write_text(json.dumps({"machine": machine, "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
