"""How fast is the translation of a file, beside other toolkits?

Sentences a second net of loading (the time of the whole file less that of its first line), at beam 1
and 5, batch 1 and 64, one thread and two. Beside our models the ones of OpenNMT-py, JoeyNMT and
Marian, run by FOLDER/venv-NAME. Models of different training write texts of different lengths, so
output tokens a second stand beside sentences. Checks first that batch and threads do not change our
translations.

Run: python benchmarks/translate.py MODEL_DIR... [--src FILE --ref FILE] [--quick]
     [--peers FOLDER --subwords SPM --onmt MODEL.pt --joey CONFIG.yaml --marian MODEL.npz --marian-vocab FILE]
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece
import yaml
from _machine import describe
from _toolkits import TOOLKITS
from _watch import Watched, watch

from nmt.evaluate import score_translations
from nmt.model_folder import load_folder_config

_CHECKED_LINES = 20


@dataclass(frozen=True)
class Setting:
    """One way to translate."""

    beam: int
    batch: int
    threads: int

    def __str__(self) -> str:
        """As in error messages."""
        return f"beam {self.beam}, batch {self.batch}, {self.threads} threads"


@dataclass(frozen=True)
class System:
    """A model and how to run it: `run(setting, input, output)` translates a file.

    `encode` counts its tokens, `text` makes its output readable; `subwords` says that it reads pieces.
    """

    name: str
    run: Callable[[Setting, Path, Path], Watched]
    pieces: sentencepiece.SentencePieceProcessor
    reads_pieces: bool

    def encode(self, lines: list[str]) -> list[str]:
        """Lines as pieces between spaces."""
        return [" ".join(row) for row in self.pieces.encode(lines, out_type=str)]

    def text(self, lines: list[str]) -> list[str]:
        """Output as people read it."""
        return ["".join(line.split()).replace("▁", " ").strip() for line in lines] if self.reads_pieces else lines


def note(text: str) -> None:
    """A line about what happens, beside the table."""
    print(text, file=sys.stderr, flush=True)


def ours(folder: Path) -> System:
    """Our command on a model folder."""

    def run(setting: Setting, source: Path, target: Path) -> Watched:
        command = [sys.executable, "-m", "nmt.cli.translate", str(folder), str(source), "-o", str(target)]
        command += ["--beam-size", str(setting.beam), "--batch-size", str(setting.batch)]
        return logged([*command, "--threads", str(setting.threads)], target)

    joint = load_folder_config(folder).data.subwords.joint
    name = "joint.spm" if joint else "tgt.spm"
    return System(folder.name, run, sentencepiece.SentencePieceProcessor(model_file=str(folder / name)), False)


def logged(command: list[str], target: Path, **options: Any) -> Watched:
    """Run it; what it says goes beside its output."""
    with target.with_suffix(".log").open("w") as log:
        return watch(command, log=log, **options)


def onmt(args: argparse.Namespace, pieces: sentencepiece.SentencePieceProcessor) -> System:
    toolkit = TOOLKITS["onmt"](args.peers)
    program = toolkit.path.with_name("onmt_translate")

    def run(setting: Setting, source: Path, target: Path) -> Watched:
        options = {"model": args.onmt, "src": source, "output": target, "beam_size": setting.beam}
        options |= {"batch_size": setting.batch, "gpu": -1, "max_length": 100, "max_length_ratio": 2}
        words = [str(word) for name, value in options.items() for word in (f"-{name}", value)]
        return logged([str(program), *words], target, env=toolkit.env(setting.threads))

    return System("OpenNMT-py", run, pieces, True)


def joey(args: argparse.Namespace, pieces: sentencepiece.SentencePieceProcessor) -> System:
    toolkit = TOOLKITS["joey"](args.peers)
    config = yaml.safe_load(args.joey.read_text("utf-8"))

    def run(setting: Setting, source: Path, target: Path) -> Watched:
        config["testing"] |= {"batch_size": setting.batch, "batch_type": "sentence", "beam_size": setting.beam}
        path = target.with_suffix(".yaml")
        path.write_text(yaml.safe_dump(config, allow_unicode=True), "utf-8")
        command = f"{toolkit.path} -m joeynmt translate {path} < {source} > {target} 2> {target}.err"
        return watch(["sh", "-c", command], env=toolkit.env(setting.threads))

    return System("JoeyNMT", run, pieces, True)


def marian(args: argparse.Namespace, pieces: sentencepiece.SentencePieceProcessor) -> System:
    toolkit = TOOLKITS["marian"](args.peers)

    def run(setting: Setting, source: Path, target: Path) -> Watched:
        many = max(1, 1000 // setting.batch) if setting.batch > 1 else 1
        command = [str(toolkit.path), "decode", "-m", str(args.marian), "-v", *[str(args.marian_vocab)] * 2]
        command += ["-i", str(source), "-o", str(target), "-b", str(setting.beam), "--mini-batch", str(setting.batch)]
        command += ["--maxi-batch", str(many), "--maxi-batch-sort", "src", "--cpu-threads", str(setting.threads)]
        command += ["-w", "512", "--max-length-factor", "2", "--quiet"]
        return logged(command, target, env=toolkit.env(setting.threads))

    return System("Marian", run, pieces, True)


def systems(args: argparse.Namespace) -> list[System]:
    """Those that were given and are installed."""
    found = [ours(folder) for folder in args.models]
    for name, make in (("onmt", onmt), ("joey", joey), ("marian", marian)):
        missing = [o for o in ("peers", "subwords", name) if getattr(args, o) is None]
        if name == "marian" and args.marian_vocab is None:
            missing.append("marian_vocab")
        if missing:
            note(f"{name}: skipped; give --{', --'.join(missing).replace('_', '-')}")
        elif not TOOLKITS[name](args.peers).installed:
            note(f"{name}: skipped; {TOOLKITS[name](args.peers).path} is not there")
        else:
            found.append(make(args, sentencepiece.SentencePieceProcessor(model_file=str(args.subwords))))
    return found


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


def measure(system: System, setting: Setting, lines: list[str], references: list[str], folder: Path) -> dict[str, Any]:
    """Figures of one system in one setting."""
    load = min(translate(system, setting, lines[:1], folder)[0].seconds for _ in range(2))
    watched, found = translate(system, setting, lines, folder)
    net: float | None = watched.seconds - load
    if net < 0.1 * load:
        note(f"{system.name}, {setting}: {watched.seconds:.1f} s are hardly more than loading; give more lines")
        net = None
    text = system.text(found)
    tokens_in = sum(len(row.split()) for row in system.encode(lines))
    tokens_out = sum(len(row.split()) for row in (found if system.reads_pieces else system.encode(found)))
    bleu = score_translations(text, references, metrics=("bleu",))["bleu"].score
    return {
        "system": system.name,
        "beam": setting.beam,
        "batch": setting.batch,
        "threads": setting.threads,
        "lines": len(lines),
        "seconds": watched.seconds,
        "load_seconds": load,
        "sentences_per_second": net and len(lines) / net,
        "source_words_per_second": net and sum(len(line.split()) for line in lines) / net,
        "output_tokens_per_second": net and tokens_out / net,
        "output_tokens_per_source_token": tokens_out / tokens_in,
        "peak_mb": watched.peak_mb,
        "bleu": bleu,
    }


_HEAD = (
    f"{'system':22s} {'beam':>4s} {'batch':>5s} {'thr':>3s} {'sent/s':>8s} {'words/s':>9s} {'out tok/s':>9s} "
    f"{'out/src':>7s} {'load s':>6s} {'peak MB':>8s} {'BLEU':>6s}"
)


def row(r: dict[str, Any]) -> str:
    """One line of the table."""
    names = ("sentences_per_second", "source_words_per_second", "output_tokens_per_second")
    sentences, words, tokens = ("-" if r[name] is None else f"{r[name]:.1f}" for name in names)
    return (
        f"{r['system']:22s} {r['beam']:4d} {r['batch']:5d} {r['threads']:3d} {sentences:>8s} {words:>9s} {tokens:>9s} "
        f"{r['output_tokens_per_source_token']:7.2f} {r['load_seconds']:6.1f} {r['peak_mb']:8.0f} {r['bleu']:6.2f}"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def numbers(text: str) -> list[int]:
        return [int(word) for word in text.split(",")]

    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL_DIR", help="model folders of ours")
    parser.add_argument("--src", type=Path, default=Path("data/multi30k/test.en"), help="what to translate")
    parser.add_argument("--ref", type=Path, default=Path("data/multi30k/test.de"), help="its reference")
    parser.add_argument("--lines", type=int, help="only so many (1000; 200 with --quick)")
    parser.add_argument("--beams", type=numbers, default=[1, 5])
    parser.add_argument("--batches", type=numbers, default=[64, 1])
    parser.add_argument("--threads", type=numbers, default=[2, 1])
    parser.add_argument("--quick", action="store_true", help="fewer lines")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="holds venv-onmt, venv-joey, venv-marian")
    parser.add_argument("--subwords", type=Path, metavar="SPM", help="sentencepiece model of the others' text")
    parser.add_argument("--onmt", type=Path, metavar="MODEL.pt")
    parser.add_argument("--joey", type=Path, metavar="CONFIG.yaml")
    parser.add_argument("--marian", type=Path, metavar="MODEL.npz")
    parser.add_argument("--marian-vocab", type=Path, metavar="FILE")
    args = parser.parse_args()
    args.lines = args.lines or (200 if args.quick else 1000)
    return args


def main() -> None:
    """Print the table."""
    args = arguments()
    if not args.src.exists() or not args.ref.exists():
        note(f"{args.src}, {args.ref}: not there, skipped; python data_scripts/multi30k.py brings them")
        return
    lines, references = (path.read_text("utf-8").splitlines()[: args.lines] for path in (args.src, args.ref))
    found = systems(args)
    if not found:
        note("no model given: nothing to measure; name a model folder")
        return
    settings = [Setting(b, n, t) for t in args.threads for n in args.batches for b in args.beams]
    machine = describe(max(args.threads))
    print(", ".join(f"{name} {value}" for name, value in machine.items() if name != "threads"))
    records = []
    with tempfile.TemporaryDirectory(prefix="translate") as name:
        folder = Path(name)
        for system in found:
            if not system.reads_pieces:
                check(system, lines[:_CHECKED_LINES], settings, folder)
        print(_HEAD, flush=True)
        for setting in settings:
            for system in found:
                records.append(measure(system, setting, lines, references, folder))
                print(row(records[-1]), flush=True)
    if args.json:
        args.json.write_text(json.dumps({"machine": machine, "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
