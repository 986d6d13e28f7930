"""Train other toolkits' models of the sizes of ours on the same text in the same subwords: peers of translate.py.

Each in FOLDER/venv-NAME (onmt, marian, joey; `transformer` is one of OpenNMT-py's, for CTranslate2), one after the
other, for as many updates, or for as many minutes as ours had: then a short run says how many updates fit. A model in
int8 is made of Marian's, and one for CTranslate2 of the Transformer. What they leave is printed as
the options of benchmarks/translate.py.

Run: python benchmarks/train_peers.py MODEL_DIR --peers FOLDER --out FOLDER [--updates 390 | --minutes 15]
    [--toolkits onmt,marian]
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from _toolkits import PEERS, Corpus, Toolkit, Transformer
from train_step import write_corpus

from nmt.config import Config
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.storage.model_folder import load_folder_config
from nmt.storage.saved_model import load_saved_model


def run(command: list[str], log: Path, env: dict[str, str]) -> None:
    """Run to the end, what it says into a file; exits where it fails."""
    print(f"{log}: {' '.join(command)}", file=sys.stderr, flush=True)
    with log.open("w") as stream:
        status = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, env=os.environ | env, check=False)
    if status.returncode:
        raise SystemExit(f"{command[0]}: must train, got exit status {status.returncode}; see {log}")


MEASURED_UPDATES = 60


def updates_in(minutes: float, toolkit: Toolkit, config: Config, corpus: Corpus, work: Path, threads: int) -> int:
    """How many updates fit into so many minutes, by the steady part of a short run; exits if its log shows none."""
    command = toolkit.train_command(config, corpus, work, threads, MEASURED_UPDATES)
    log = work / "measured.log"
    run(command, log, toolkit.env(threads))
    speed = toolkit.speed(log.read_text("utf-8", "replace"))
    if speed is None or not speed.updates:
        raise SystemExit(f"{log}: must tell the speed of {MEASURED_UPDATES} updates, got none; give --updates instead")
    return max(1, round(60 * minutes * speed.updates / speed.seconds))


def converted(name: str, toolkit: Toolkit, model: Path, work: Path, threads: int) -> list[str]:
    """What is made of a trained model, as options of translate.py."""
    env = toolkit.env(threads)
    if name == "marian":
        small, log = work / "model.int8.bin", work / "int8.log"
        # Of a form for this processor: the one for any crashes (pymarian 1.12).
        form = {"vnni": "avx512vnni", "pairs": "avx512"}[TARGET.byte_sums] if TARGET.lanes == 16 else "avx2"
        run([str(toolkit.path), "convert", "-f", str(model), "-t", str(small), "-g", f"intgemm8{form}"], log, env)
        return ["--marian", str(model), "--marian-int8", str(small), "--marian-vocab", str(work / "vocab.yml")]
    if name == "transformer":
        made = work / "ctranslate2"
        script = Path(__file__).with_name("_to_ctranslate2.py")
        run([str(toolkit.path.with_name("python")), str(script), str(model), str(made)], work / "int8.log", env)
        return ["--ctranslate2", str(made)]
    return [f"--{name}", str(model)]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, metavar="MODEL_DIR", help="ours: its sizes, text and subwords")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="folder with venv-onmt and the like")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    parser.add_argument("--updates", type=int, default=390)
    parser.add_argument("--minutes", type=float, help="as many updates as fit into these, instead of --updates")
    parser.add_argument("--dropout", type=float, default=Transformer.dropout, help="of the Transformer (%(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--toolkits", default="onmt,marian,joey", help=f"of {', '.join(PEERS)}")
    return parser.parse_args()


def main() -> None:
    """Train them."""
    args = arguments()
    if args.model is None or args.peers is None or args.out is None:
        print("nothing to train: give a model folder of ours, --peers and --out", file=sys.stderr)
        return
    config = load_folder_config(args.model)
    args.out.mkdir(parents=True, exist_ok=True)
    corpus = write_corpus(config, load_saved_model(args.model).src_subwords, config.data.train, args.out)
    found = ["--peers", str(args.peers), "--subwords", str(args.model / "joint.spm")]
    for name in args.toolkits.split(","):
        toolkit, work = PEERS[name](args.peers), args.out / name
        work.mkdir(exist_ok=True)
        if isinstance(toolkit, Transformer):
            toolkit.dropout = args.dropout
        updates = args.updates
        if args.minutes is not None:
            updates = updates_in(args.minutes, toolkit, config, corpus, work, args.threads)
        command = toolkit.train_command(config, corpus, work, args.threads, updates)
        run(command, work / "train.log", toolkit.env(args.threads))
        found += converted(name, toolkit, toolkit.model_path(work, updates), work, args.threads)
    print(" ".join(found))


if __name__ == "__main__":
    main()
