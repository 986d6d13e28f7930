"""What translates: our models in each precision, and other toolkits' models, as commands."""

import argparse
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sentencepiece
import yaml
from _toolkits import PEERS, TOOLKITS
from _watch import Watched, watch

from nmt.storage.model_folder import SHORTLIST_NAME, load_folder_config

DTYPES = ("float32", "bfloat16", "int8")
_HERE = Path(__file__).parent


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

    `reads_pieces` says that it reads and writes subwords, those of `pieces`. files: what it needs on disk. answers:
    the command and variables with which it answers standard input line by line, where it can. model, dtype: of ours.
    """

    name: str
    run: Callable[[Setting, Path, Path], Watched]
    pieces: sentencepiece.SentencePieceProcessor
    reads_pieces: bool
    files: list[Path] = field(default_factory=list)
    answers: Callable[[Setting], tuple[list[str], dict[str, str]]] | None = None
    model: Path | None = None
    dtype: str = "float32"
    shortlist: bool = False

    def encode(self, lines: list[str]) -> list[str]:
        """Lines as pieces between spaces."""
        return [" ".join(row) for row in self.pieces.encode(lines, out_type=str)]

    def text(self, lines: list[str]) -> list[str]:
        """Output as people read it."""
        return ["".join(line.split()).replace("▁", " ").strip() for line in lines] if self.reads_pieces else lines

    @property
    def disk_mb(self) -> float:
        """Size of its files."""
        found = [file for path in self.files for file in (path.rglob("*") if path.is_dir() else [path])]
        return sum(file.stat().st_size for file in found if file.is_file()) / 1e6


def note(text: str) -> None:
    """A line about what happens, outside the table."""
    print(text, file=sys.stderr, flush=True)


def logged(command: list[str], target: Path, **options: Any) -> Watched:
    """Run it; what it says goes next to its output."""
    with target.with_suffix(".log").open("w") as log:
        return watch(command, log=log, **options)


def quantised(model: Path, folder: Path) -> Path:
    """The model in int8, made by nmt-quantize."""
    out = folder / f"{model.name}-int8"
    command = [sys.executable, "-m", "nmt", "quantize", str(model), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{model}: must become int8, got {done.stderr.strip()}")
    return out


def ours(model: Path, dtype: str, shortlist: bool) -> System:
    """Our command on a model folder."""

    def command(setting: Setting, source: str) -> list[str]:
        words = [sys.executable, "-m", "nmt", "translate", str(model), source, "--compute-dtype", dtype]
        words += ["--beam-size", str(setting.beam), "--batch-size", str(setting.batch)]
        return [*words, "--threads", str(setting.threads), *(["--shortlist"] if shortlist else [])]

    def run(setting: Setting, source: Path, target: Path) -> Watched:
        return logged([*command(setting, str(source)), "-o", str(target)], target)

    name = "joint.spm" if load_folder_config(model).data.subwords.joint else "tgt.spm"
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(model / name))
    files = [model / "config.yaml", *model.glob("*.spm"), model / "best.safetensors"]
    files += [model / SHORTLIST_NAME] if shortlist else []
    label = f"nmt {dtype}" + (", shortlist" if shortlist else "")
    return System(label, run, pieces, False, files, lambda s: (command(s, "-"), {}), model, dtype, shortlist)


def ours_in_all(model: Path, dtypes: list[str], folder: Path) -> list[System]:
    """Our model in each precision, with and without its shortlist."""
    has = (model / SHORTLIST_NAME).exists()
    if not has:
        note(f"{model}: no shortlist, skipped; nmt-shortlist {model} makes one")
    folders = {dtype: quantised(model, folder) if dtype == "int8" else model for dtype in dtypes}
    return [ours(folders[dtype], dtype, shortlist) for dtype in dtypes for shortlist in ([False, True][: 1 + has])]


def onmt(args: argparse.Namespace, pieces: sentencepiece.SentencePieceProcessor) -> list[System]:
    """OpenNMT-py, in float32 and with its int8."""
    toolkit = TOOLKITS["onmt"](args.peers)
    plain = [str(toolkit.path.with_name("onmt_translate"))]
    quantised = [str(toolkit.path.with_name("python")), str(_HERE / "_onmt_int8.py")]

    def system(precision: str, program: list[str]) -> System:
        def run(setting: Setting, source: Path, target: Path) -> Watched:
            options = {"model": args.onmt, "src": source, "output": target, "beam_size": setting.beam}
            options |= {"batch_size": setting.batch, "gpu": -1, "max_length": 100, "max_length_ratio": 2}
            options |= {"precision": precision}
            words = [str(word) for name, value in options.items() for word in (f"-{name}", value)]
            return logged([*program, *words], target, env=toolkit.env(setting.threads))

        return System(f"OpenNMT-py {precision}", run, pieces, True, [args.onmt])

    return [system("fp32", plain), system("int8", quantised)]


def marian(args: argparse.Namespace, pieces: sentencepiece.SentencePieceProcessor) -> list[System]:
    """Marian, in float32 and, where there is a converted model, int8."""
    toolkit = TOOLKITS["marian"](args.peers)

    def system(model: Path, precision: str) -> System:
        def command(setting: Setting) -> list[str]:
            many = max(1, 1000 // setting.batch) if setting.batch > 1 else 1
            words = [str(toolkit.path), "decode", "-m", str(model), "-v", *[str(args.marian_vocab)] * 2]
            words += ["-b", str(setting.beam), "--mini-batch", str(setting.batch), "--maxi-batch", str(many)]
            words += ["--maxi-batch-sort", "src", "--cpu-threads", str(setting.threads)]
            return [*words, "-w", "512", "--max-length-factor", "2", "--quiet"]

        def run(setting: Setting, source: Path, target: Path) -> Watched:
            files = ["-i", str(source), "-o", str(target)]
            return logged([*command(setting), *files], target, env=toolkit.env(setting.threads))

        return System(f"Marian {precision}", run, pieces, True, [model])

    small = [system(args.marian_int8, "int8")] if args.marian_int8 else []
    return [system(args.marian, "float32"), *small]


def joey(args: argparse.Namespace, pieces: sentencepiece.SentencePieceProcessor) -> list[System]:
    """JoeyNMT."""
    toolkit = TOOLKITS["joey"](args.peers)
    config = yaml.safe_load(args.joey.read_text("utf-8"))

    def run(setting: Setting, source: Path, target: Path) -> Watched:
        config["testing"] |= {"batch_size": setting.batch, "batch_type": "sentence", "beam_size": setting.beam}
        path = target.with_suffix(".yaml")
        path.write_text(yaml.safe_dump(config, allow_unicode=True), "utf-8")
        command = f"{toolkit.path} -m joeynmt translate {path} < {source} > {target} 2> {target}.err"
        return watch(["sh", "-c", command], env=toolkit.env(setting.threads))

    best = sorted(Path(config["model_dir"]).glob("*.ckpt"), key=lambda path: path.stat().st_mtime)[-1:]
    return [System("JoeyNMT float32", run, pieces, True, best)]


def ctranslate2(args: argparse.Namespace, pieces: sentencepiece.SentencePieceProcessor) -> list[System]:
    """CTranslate2 with a Transformer in int8, from OpenNMT-py's environment, which holds it."""
    toolkit = PEERS["transformer"](args.peers)
    command = [str(toolkit.path.with_name("python")), str(_HERE / "_ctranslate2.py"), str(args.ctranslate2)]

    def words(setting: Setting, source: str, target: str) -> list[str]:
        return [*command, source, target, str(setting.beam), str(setting.batch), str(setting.threads)]

    def run(setting: Setting, source: Path, target: Path) -> Watched:
        return logged(words(setting, str(source), str(target)), target, env=toolkit.env(setting.threads))

    def answers(setting: Setting) -> tuple[list[str], dict[str, str]]:
        return words(setting, "-", "-"), toolkit.env(setting.threads)

    return [System("CTranslate2 int8 Transformer", run, pieces, True, [args.ctranslate2], answers)]


_MAKERS = {"onmt": onmt, "marian": marian, "joey": joey, "ctranslate2": ctranslate2}


def peers(args: argparse.Namespace) -> list[System]:
    """Other toolkits' models that were given and whose toolkits are installed."""
    found = []
    for name, make in _MAKERS.items():
        needed = ["peers", "subwords", name] + (["marian_vocab"] if name == "marian" else [])
        missing = [option for option in needed if getattr(args, option) is None]
        if missing:
            note(f"{name}: skipped; give --{', --'.join(missing).replace('_', '-')}")
            continue
        toolkit = PEERS["transformer" if name == "ctranslate2" else name](args.peers)
        if not toolkit.installed:
            note(f"{name}: skipped; {toolkit.path} is not there")
            continue
        found += make(args, sentencepiece.SentencePieceProcessor(model_file=str(args.subwords)))
    return found
