"""How much of an update is Python, and how fast are whole updates, compared with an older checkout?

Updates as `nmt-train` does them, making batches, clipping and the optimizer included, with one thread, of three models:
that of configs/quickstart.yaml, configs/multi30k_en_de_peers.yaml and configs/sigmorphon2020_g2p.yaml. Their texts are
made here, of random words with the lengths of the corpora, each word a unit; so nothing must be downloaded.

First the parameters after some updates are compared: checkouts with the same letter have the same bits. Then Python's
share: every launch of compiled code is timed by the processor's clock of the thread, and what is left of the update
is Python's: the interpreter, NumPy's own work on arrays, and reading the clock twice a launch. "tiny" checks it by
another way: an update of the same calls, but with all sizes 8 and 60 tokens a batch, is next to nothing but Python,
with all it needs in the cache; its time is given as a share of the model's update. The checkouts take turns,
each with the same updates.

Run: python benchmarks/update.py [--also NAME=CHECKOUT] [--cases A,B] [--updates N] [--turns N] [--json FILE]
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np
from _machine import describe
from _peer import Peer

_HERE = Path(__file__).parent
_SIZES = ("encoder.hidden_size", "decoder.hidden_size", "decoder.attention_size")
_EMBEDDINGS = ("encoder.embeddings.embedding_dim", "decoder.embeddings.embedding_dim")
_TURN_UPDATES = 8


class Text(NamedTuple):
    """A corpus to be made: pairs, words of the vocabulary, and words of the shortest and the longest line."""

    pairs: int
    words: int
    shortest: int
    longest: int


# Lengths as the corpora have them, in the units of their configs.
MODELS = {
    "quickstart": ("quickstart", Text(4000, 400, 4, 22)),
    "peers": ("multi30k_en_de_peers", Text(8000, 8000, 7, 26)),
    "g2p": ("sigmorphon2020_g2p", Text(3600, 40, 3, 14)),
}
CASES = [f"{model}-{short}" for model in MODELS for short in ("f4", "bf16")]


def write_text(text: Text, folder: Path, languages: tuple[str, str]) -> Path:
    """Lines of random words, frequent ones more often; each word occurs. Returns the prefix of the files."""
    rng = np.random.default_rng(0)
    weights = 1 / (np.arange(text.words) + 10)
    for language in languages:
        lengths = rng.integers(text.shortest, text.longest + 1, text.pairs)
        words = rng.choice(text.words, lengths.sum(), p=weights / weights.sum())
        words[: text.words] = np.arange(text.words)
        lines = np.split(words, np.cumsum(lengths)[:-1])
        content = "".join(" ".join(f"w{word}" for word in line) + "\n" for line in lines)
        (folder / f"train.{language}").write_text(content, "utf-8")
    return folder / "train"


def settings(case: str, folder: Path, *, tiny: bool) -> tuple[str, list[str]]:
    """The config and the settings of a case, its text written below `folder`."""
    model, _, short = case.rpartition("-")
    name, text = MODELS[model]
    inside = folder / f"{case}{'-tiny' * tiny}"
    inside.mkdir()
    prefix = write_text(text._replace(words=20) if tiny else text, inside, ("a", "b"))
    given = [f"data.train={prefix}", f"data.dev={prefix}", "data.test=null", f"model_dir={inside / 'run'}"]
    given += ["data.src={lang: a}", "data.tgt={lang: b}", "data.filter={}"]
    given += ["data.subwords={type: word, vocab_size: auto, joint: false}", "model.tied_embeddings=none"]
    given += [f"compute_dtype={'float32' if short == 'f4' else 'bfloat16'}"]
    if tiny:
        given += [f"model.{key}=8" for key in (*_SIZES, *_EMBEDDINGS)] + ["training.batch_size=60"]
    return str(_HERE.parent / "configs" / f"{name}.yaml"), given


def load(peer: Peer, name: str, case: str, args: argparse.Namespace, *, tiny: bool = False, shares: bool) -> None:
    """Have a peer do updates of a case."""
    with tempfile.TemporaryDirectory(prefix="update") as folder:
        config, given = settings(case, Path(folder), tiny=tiny)
        request = {"config": config, "settings": given, "updates": args.updates, "shares": shares}
        peer.load(name, request, {})


def letters(peers: dict[str, Peer]) -> dict[str, str]:
    """For each checkout a letter; those of the same bits share it."""
    seen: list[dict[str, np.ndarray]] = []
    found = {}
    for name, peer in peers.items():
        result = peer.results("bits")
        same = (at for at, one in enumerate(seen) if all(np.array_equal(one[key], result[key]) for key in result))
        at = next(same, len(seen))
        if at == len(seen):
            seen.append(result)
        found[name] = ascii_lowercase[at]
    return found


def shares(peer: Peer, case: str, args: argparse.Namespace) -> dict[str, float]:
    """Python's share of an update in percent, and what else `main` shows of a checkout."""
    load(peer, "shares", case, args, shares=True)
    load(peer, "tiny", case, args, tiny=True, shares=True)
    results, tiny = peer.results("shares"), peer.results("tiny")
    whole, inside, launches, _ = results["updates"].T
    return {
        "python_percent": 100 * float(np.median(1 - inside / whole)),
        "tiny_percent": 100 * float(np.median(tiny["updates"][:, 0]) / np.median(whole)),
        "launches": float(np.median(launches)),
    }


def take_turns(peers: dict[str, Peer], turns: int) -> dict[str, list[float]]:
    """Processor seconds of each update; all do the same ones."""
    times: dict[str, list[float]] = {name: [] for name in peers}
    for turn in range(turns):
        for name in sorted(peers, key=list(peers).index, reverse=turn % 2 == 1):
            times[name] += peers[name].ask(op="time", name="bits", mode="training", count=_TURN_UPDATES)["each"]
    return times


def run_case(case: str, peers: dict[str, Peer], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Compare, measure and print one case; a record for each checkout."""
    for peer in peers.values():
        load(peer, "bits", case, args, shares=False)
    same, times = letters(peers), take_turns(peers, args.turns)
    base = next(iter(peers))
    records = []
    for name, peer in peers.items():
        found = shares(peer, case, args)
        faster = statistics.median(one / own for one, own in zip(times[base], times[name], strict=True))
        milliseconds = 1000 * statistics.median(times[name])
        print(
            f"{case:16s} {name:10s} {same[name]:>4s} {milliseconds:8.2f} {faster:7.3f}x {found['launches']:8.0f} "
            f"{found['python_percent']:6.1f} % {found['tiny_percent']:6.1f} %",
            flush=True,
        )
        records.append({"case": case, "checkout": name, "bits": same[name], "seconds": times[name]} | found)
        peer.ask(op="drop")
    return records


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--also", action="append", default=[], metavar="NAME=CHECKOUT", help="another version")
    parser.add_argument("--cases", default="", help=f"beginnings of names among {','.join(CASES)}")
    parser.add_argument("--updates", type=int, default=20, help="before results are compared, and for the shares")
    parser.add_argument("--turns", type=int, default=5, help=f"of each checkout, {_TURN_UPDATES} updates each")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return parser.parse_args()


def main() -> None:
    """A table."""
    args = arguments()
    print(", ".join(f"{name} {value}" for name, value in describe(1).items()))
    columns = f"{'bits':>4s} {'ms':>8s} {'speed':>8s} {'launches':>8s} {'Python':>8s} {'tiny':>8s}"
    print(f"{'case':16s} {'checkout':10s} {columns}")
    checkouts = {"this": str(_HERE.parent)} | dict(entry.split("=", 1) for entry in args.also)
    worker = str(_HERE / "_update_worker.py")  # for older checkouts, too, which may have none
    peers = {name: Peer(sys.executable, worker, 1, {"PYTHONPATH": folder}) for name, folder in checkouts.items()}
    records = []
    try:
        for case in CASES:
            if case.startswith(tuple(args.cases.split(","))):
                print(case, file=sys.stderr, flush=True)
                records += run_case(case, peers, args)
    finally:
        for peer in peers.values():
            peer.close()
    if args.json:
        args.json.write_text(json.dumps({"machine": describe(1), "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
