"""How long does training take until the validation text is translated with so much BLEU, by us and by OpenNMT-py?

Ours is trained by its configuration and stopped when the last target is reached; then the same model in OpenNMT-py
(_toolkits.py) on the same text in the same subwords, with as many threads, for `--most` times our minutes or until its
checkpoints get there. Its learning rate is `--peer-rate`: constant, as its documentation has it for Adam. The clocks of
both logs count updates and batches; validations, saving and translating are excluded. Both translate with beam 5, and
BLEU is sacrebleu's of lower-cased text. A target that OpenNMT-py does not reach in that time is printed as "more than".

Run: python benchmarks/time_to_bleu.py CONFIG --peers FOLDER --out FOLDER [--targets 28 34] [--set KEY=VALUE]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import sacrebleu
from _machine import describe
from _toolkits import TOOLKITS, Corpus, Toolkit
from train_step import write_corpus

from nmt.config import Config
from nmt.storage.model_folder import load_folder_config
from nmt.storage.saved_model import load_saved_model
from nmt.system.lines import read_lines

_BEAM, _BATCH = 5, 64


def train_ours(
    config: str, folder: Path, threads: int, targets: list[float], settings: list[str]
) -> dict[float, float]:
    """Minutes of training until each target, by the run's own validations."""
    words = [word for text in [f"model_dir={folder}", *settings] for word in ("--set", text)]
    command = [sys.executable, "-m", "nmt", "train", config, "--threads", str(threads), *words]
    log = folder / "metrics.jsonl"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and len(reached(log, targets)) < len(targets):
            time.sleep(1)
        process.send_signal(signal.SIGINT)
    return reached(log, targets)


def reached(log: Path, targets: list[float]) -> dict[float, float]:
    """Target to minutes, of those that a run of ours has got to."""
    found: dict[float, float] = {}
    validating = 0.0
    for line in log.read_text("utf-8").splitlines() if log.is_file() else []:
        event = json.loads(line) if line.endswith("}") else {}
        if event.get("event") == "validation":
            validating += event["seconds"]
            for target in targets:
                if event["bleu"] >= target:
                    found.setdefault(target, (event["elapsed"] - validating) / 60)
    return found


def train_peer(
    toolkit: Toolkit, config: Config, corpus: Corpus, work: Path, args: argparse.Namespace, minutes: float
) -> list[tuple[float, Path]]:
    """Trains for so many minutes; its checkpoints and after how many minutes of training each was written."""
    command = toolkit.train_command(config, corpus, work, args.threads)
    # Written as the settings' last word: the toolkit's own options win over its file.
    command += ["-save_checkpoint_steps", str(args.every), "-learning_rate", str(args.peer_rate)]
    command += ["-train_steps", "1000000", "-keep_checkpoint", "-1"]
    log = work / "train.log"
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=_environment(toolkit, args))
        until = time.monotonic() + 60 * minutes
        while process.poll() is None and time.monotonic() < until:
            time.sleep(1)
        process.kill()
        process.wait()
    windows = toolkit.windows(log.read_text("utf-8", "replace").splitlines())
    if not windows:
        raise SystemExit(f"{log}: must tell how far it came, got nothing; see there")
    found, passed, updates = [], 0.0, 0
    # Checkpoints are written between two reports; the stretch that has one in it is longer by the writing, which
    # counts as a typical one does.
    typical = sorted(seconds / count for _, seconds, _, count in windows)[len(windows) // 2]
    updates = round(windows[0][3])
    passed = updates * typical
    for _, seconds, _, count in windows:
        passed, updates = passed + min(seconds, 2 * typical * count), updates + count
        model = toolkit.model_path(work, updates)
        if updates % args.every == 0 and model.is_file():
            found.append((passed / 60, model))
    return found


def _environment(toolkit: Toolkit, args: argparse.Namespace) -> dict[str, str]:

    return os.environ | toolkit.env(args.threads)


class Scored:
    """BLEU of checkpoints on the validation text, each translated once."""

    def __init__(self, toolkit: Toolkit, config: Config, model: Path, work: Path, args: argparse.Namespace) -> None:
        saved = load_saved_model(model)
        src, tgt = (f"{config.data.dev}.{side.lang}" for side in (config.data.src, config.data.tgt))
        lines = [line.lower() if config.data.src.lowercase else line for line in read_lines(src)]
        self._source, self._subwords = work / "valid.src", saved.src_subwords
        self._source.write_text(
            "".join(" ".join(self._subwords.pieces(ids)) + "\n" for ids in saved.src_subwords.encode(lines))
        )
        self._references = [line.lower() for line in read_lines(tgt)]
        self._toolkit, self._args, self._known = toolkit, args, dict[Path, float]()

    def bleu(self, model: Path) -> float:
        """Of one checkpoint."""
        if model not in self._known:
            output = model.with_suffix(".out")
            options = {"model": model, "src": self._source, "output": output, "beam_size": _BEAM, "batch_size": _BATCH}
            options |= {"gpu": -1, "max_length": 100}
            words = [str(word) for name, value in options.items() for word in (f"-{name}", value)]
            program = str(self._toolkit.path.with_name("onmt_translate"))
            environment = _environment(self._toolkit, self._args)
            subprocess.run([program, *words], check=True, capture_output=True, env=environment)
            text = ["".join(line.split()).replace("▁", " ").strip().lower() for line in read_lines(str(output))]
            self._known[model] = sacrebleu.corpus_bleu(text, [self._references]).score
            print(f"{model.name}: BLEU {self._known[model]:.2f}", file=sys.stderr, flush=True)
        return self._known[model]

    def first(self, checkpoints: list[tuple[float, Path]], target: float) -> float | None:
        """Minutes of the first checkpoint with so much, found by halving: scores are taken to rise."""
        low, high = 0, len(checkpoints)
        while low < high:
            middle = (low + high) // 2
            if self.bleu(checkpoints[middle][1]) >= target:
                high = middle
            else:
                low = middle + 1
        return checkpoints[low][0] if low < len(checkpoints) else None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--peers", type=Path, required=True, metavar="FOLDER", help="folder with venv-onmt")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--targets", type=float, nargs="+", default=[28.0, 34.0], metavar="BLEU")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--every", type=int, default=50, help="updates between checkpoints of OpenNMT-py")
    parser.add_argument("--most", type=float, default=5.0, help="times our minutes that OpenNMT-py gets")
    parser.add_argument("--peer-rate", type=float, default=1e-3)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="of ours")
    return parser.parse_args()


def main() -> None:
    """Train both, and print minutes and ratios."""
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    print(describe(args.threads), flush=True)
    targets = sorted(args.targets)
    ours = train_ours(args.config, args.out / "ours", args.threads, targets, args.settings)
    if targets[-1] not in ours:
        raise SystemExit(f"{args.out / 'ours'}: must reach {targets[-1]:g} BLEU, got not there; see its train.log")
    config, toolkit, work = load_folder_config(args.out / "ours"), TOOLKITS["onmt"](args.peers), args.out / "onmt"
    work.mkdir(exist_ok=True)
    corpus = write_corpus(config, load_saved_model(args.out / "ours").src_subwords, config.data.train, args.out)
    most = args.most * ours[targets[-1]]
    checkpoints = train_peer(toolkit, config, corpus, work, args, most)
    scored = Scored(toolkit, config, args.out / "ours", work, args)
    print("| BLEU | ours, minutes | OpenNMT-py, minutes | ours takes |\n|---|---|---|---|")
    for target in targets:
        minutes = scored.first(checkpoints, target)
        told, share = f"{minutes or most:.1f}", f"{ours[target] / (minutes or most):.2f}"
        prefix = ("more than ", "less than ") if minutes is None else ("", "")
        print(f"| {target:g} | {ours[target]:.1f} | {prefix[0]}{told} | {prefix[1]}{share} |")


if __name__ == "__main__":
    main()
