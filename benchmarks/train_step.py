"""How fast is a whole training step, compared with other toolkits and the machine's peak?

The model of configs/multi30k_en_de_peers.yaml on its own batches: embeddings, encoder, bridge,
attention decoder, output layer, loss, all gradients, norm clipping, optimiser. For comparison, JoeyNMT,
OpenNMT-py and Marian on the same text in the same subwords, each in FOLDER/venv-NAME (onmt, joey,
marian), one after the other. Checks our gradients against the loss first.

Run: python benchmarks/train_step.py [--data data/multi30k/train] [--peers FOLDER] [--json FILE]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _machine import describe
from _toolkits import TOOLKITS, Corpus
from _watch import watch
from peak import measure_peak

from nmt.config import Config, ModelConfig, load_config
from nmt.data.corpora.corpus import Side
from nmt.data.corpora.prepare import training_text
from nmt.data.tokens.subwords import Subwords, train_subwords
from nmt.rnn.cores import default_threads
from nmt.system.lines import read_lines

_HERE = Path(__file__).parent


def operations(model: ModelConfig, vocab_size: int, src_lengths: list[int], tgt_lengths: list[int]) -> int:
    """Floating-point operations of a training step's matrix products, a multiply-add counted as two.

    Forward, for S real source and T real target tokens of B sentences (ends of sentence counted, padding
    not), E embedding, h and H hidden sizes of encoder and decoder, d directions, M = d h, A = H:

        encoder      2 S d (D + h) 4h   a layer, D = E or M
        bridge       2 B 2 M H          a layer
        decoder      2 T (D + H) 4H     a layer, D = E + H with input feeding, or H
        attention    2 S M A + 2 T H A + 2 P A + 2 P M   P = the sum over sentences of source times target tokens
        combination  2 T (M + H) H
        output       2 T H V

    (an LSTM's 4 gates; a GRU has 3, an RNN 1). Training is three times that.
    """
    encoder, decoder = model.encoder, model.decoder
    gates = {"lstm": 4, "gru": 3, "gru_reset_before": 3}
    S, T, B = sum(src_lengths), sum(tgt_lengths), len(src_lengths)
    pairs = sum(s * t for s, t in zip(src_lengths, tgt_lengths, strict=True))
    d, h, H = 2 if encoder.bidirectional else 1, encoder.hidden_size, decoder.hidden_size
    M, A = d * h, decoder.attention_size or H
    total = 0
    for layer in range(encoder.num_layers):
        D = M if layer else encoder.embeddings.embedding_dim
        total += 2 * S * d * (D + h) * gates.get(encoder.rnn_type, 1) * h
    for layer in range(decoder.num_layers):
        D = H if layer else decoder.embeddings.embedding_dim + H * decoder.input_feeding
        total += 2 * T * (D + H) * gates.get(decoder.rnn_type, 1) * H
        if decoder.init_hidden == "bridge":
            total += 2 * B * M * H * (2 if decoder.rnn_type == "lstm" else 1)
    if decoder.attention == "bahdanau":
        total += 2 * S * M * A + 2 * T * H * A + 2 * pairs * A
    else:
        total += 2 * pairs * H + (2 * S * M * H if decoder.attention == "general" else 0)
    total += 2 * pairs * M + 2 * T * (M + H) * H + 2 * T * H * vocab_size
    return 3 * total


def note(text: str) -> None:
    """A line about what happens, outside the table."""
    print(text, file=sys.stderr, flush=True)


def prepare(config: Config, prefix: str, folder: Path) -> Corpus:
    """Subwords trained on the text, the text as it is for us, and in subwords for the others."""
    settings = config.data.subwords
    subwords = train_subwords(
        training_text(prefix, (config.data.src, config.data.tgt)), type=settings.type, vocab_size=settings.vocab_size
    )
    (folder / "joint.spm").write_bytes(subwords.model_bytes)
    (folder / "text").mkdir()
    return write_corpus(config, subwords, prefix, folder)


def write_corpus(config: Config, subwords: Subwords, prefix: str, folder: Path) -> Corpus:
    """A text in subwords, two parallel files, and its first lines as validation text; where there is a folder
    `text`, the text as it is for us there."""
    used: set[str] = set()
    for side in (config.data.src, config.data.tgt):
        lines = Side(side, subwords).clean(list(read_lines(f"{prefix}.{side.lang}")))
        rows = [subwords.pieces(ids) for ids in subwords.encode(lines)]
        used.update(piece for row in rows for piece in row)
        if (folder / "text").is_dir():
            (folder / "text" / f"train.{side.lang}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        (folder / f"train.{side.lang}").write_text("".join(" ".join(row) + "\n" for row in rows), "utf-8")
        (folder / f"dev.{side.lang}").write_text("".join(" ".join(row) + "\n" for row in rows[:200]), "utf-8")
    # A piece that is a space of some kind, as Unicode has many, would not be one word of a vocabulary file.
    (folder / "vocab").write_text("".join(f"{piece}\n" for piece in sorted(used) if piece.split() == [piece]), "utf-8")
    return Corpus(folder, config.data.src.lang, config.data.tgt.lang)


def run_ours(config: Config, args: argparse.Namespace, folder: Path, dtype: str) -> dict[str, Any]:
    """Figures of our training step with products in `dtype`."""
    command = [sys.executable, str(_HERE / "_training.py"), args.config, str(folder), str(args.batches)]
    before = measure_peak(args.threads)
    done = subprocess.run([*command, str(args.threads), dtype], capture_output=True, text=True, env=os.environ)
    if done.returncode:
        raise SystemExit((done.stderr.strip().splitlines() or ["ours: it ended without a word"])[-1])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    peak = max(before, measure_peak(args.threads))
    V = config.data.subwords.vocab_size
    tokens = [sum(tgt) for _, tgt in found["lengths"]]
    work = [operations(config.model, V, src, tgt) for src, tgt in found.pop("lengths")]
    speeds = [n / seconds for n, seconds in zip(tokens, found["seconds"], strict=True)]
    gflops = statistics.median(w / seconds / 1e9 for w, seconds in zip(work, found["seconds"], strict=True))
    found |= {
        "name": "ours" if dtype == "float32" else "our bf16",
        "tokens_per_second": statistics.median(speeds),
        "range": [min(speeds), max(speeds)],
    }
    found |= {"mflop_per_token": sum(work) / sum(tokens) / 1e6, "gflops": gflops}
    return found | {"peak_gflops": peak, "share_of_peak": gflops / peak, "updates": len(tokens)}


def run_toolkit(name: str, config: Config, corpus: Corpus, args: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Figures of another toolkit; a line and nothing where it does not run."""
    toolkit = TOOLKITS[name](args.peers)
    if not toolkit.installed:
        note(f"{name}: skipped; {toolkit.path} is not there")
        return {}
    work.mkdir()
    command = toolkit.train_command(config, corpus, work, args.threads)
    log = work / "log"
    with log.open("w") as file:
        watched = watch(command, log=file, env=toolkit.env(args.threads), deadline=args.seconds)
    text = log.read_text("utf-8", errors="replace")
    speed = toolkit.speed(text)
    if speed is None:
        last = (text.strip().splitlines() or ["it said nothing"])[-1]
        note(f"{name}: skipped; too few reports in {args.seconds:.0f} s: {last}")
        return {}
    found = {"name": name, "tokens_per_second": speed.tokens_per_second, "updates": speed.updates}
    return found | {"peak_mb": watched.peak_mb, "seconds": speed.seconds}


def show(found: dict[str, Any], ours: dict[str, Any]) -> str:
    """One line of the table."""
    ratio = ours["tokens_per_second"] / found["tokens_per_second"]
    memory = found["peak_mb"] / ours["peak_mb"]
    return (
        f"{found['name']:8s} {found['tokens_per_second']:12.0f} {found['updates']:8d} {found['peak_mb']:8.0f} "
        f"{ratio:9.2f}x {memory:9.2f}x"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default=str(_HERE.parent / "configs" / "multi30k_en_de_peers.yaml"))
    parser.add_argument("--data", help="prefix of the training text; the configuration's own if omitted")
    parser.add_argument("--batches", type=int, default=12, help="updates to time")
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="folder with venv-onmt, venv-joey, venv-marian")
    parser.add_argument("--toolkits", default=",".join(TOOLKITS), help="which of them")
    parser.add_argument("--seconds", type=float, default=90.0, help="that each of them trains")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    args = arguments()
    config = load_config(args.config)
    prefix = args.data or config.data.train
    if not Path(f"{prefix}.{config.data.src.lang}").exists():
        note(f"{prefix}.{config.data.src.lang}: not there, skipped; python data_scripts/multi30k.py brings it")
        return
    machine = describe(args.threads)
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    with tempfile.TemporaryDirectory(prefix="train_step") as name:
        folder = Path(name)
        corpus = prepare(config, prefix, folder)
        ours = run_ours(config, args, folder, "float32")
        bfloat16 = run_ours(config, args, folder, "bfloat16")
        total = sum(ours["parts"].values())
        parts = ", ".join(f"{part} {100 * seconds / total:.0f}%" for part, seconds in ours["parts"].items())
        low, high = ours["range"]
        print(f"ours: {low:.0f} to {high:.0f} target tokens/s over {ours['updates']} batches; {parts}")
        print(
            f"ours: {ours['mflop_per_token']:.1f} MFLOP a target token, {ours['gflops']:.0f} GFLOP/s, "
            f"{100 * ours['share_of_peak']:.1f}% of the peak of {ours['peak_gflops']:.0f}"
        )
        print(f"{'':8s} {'tgt tokens/s':>12s} {'updates':>8s} {'peak MB':>8s} {'ours is':>10s} {'its memory':>10s}")
        print(show(ours, ours), show(bfloat16, ours), sep="\n", flush=True)
        records = [ours, bfloat16]
        for toolkit in args.toolkits.split(",") if args.peers else []:
            found = run_toolkit(toolkit, config, corpus, args, folder / toolkit)
            if found:
                records.append(found)
                print(show(found, ours), flush=True)
        if not args.peers:
            note("other toolkits: skipped; name the folder of their environments with --peers")
    if args.json:
        args.json.write_text(json.dumps({"machine": machine, "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
