"""Which recurrence predicts long texts best, letter by letter, and how far back does it look?

The text is Python's own: the source files of the standard library, which every machine has; every twentieth is kept
out of training.
A language model of each cell, two layers as in docs/recurrences.md, reads streams of files and learns from segments of
2,000 letters, states carried from one to the next, for the same CPU seconds. Then: bits a letter on the held-out files
after each quarter of the time; and at the end on pieces of 50, 200, 1,000 and 5,000 letters, each read from an empty
state, over the same letters: what a longer past is worth. Drawn by `--plot FILE` if Matplotlib is installed.

Run: python benchmarks/letters.py [--cells lstm,gla] [--seconds 240] [--plot FILE] [--json FILE]
"""

import argparse
import json
import math
import sysconfig
import time
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import config_from_dict
from nmt.data.batching.streams import StreamBatches
from nmt.data.corpora.rows import TokenRows
from nmt.special_tokens import EOS_ID, UNK_ID
from nmt.storage.model_folder import build_model
from nmt.train.tasks.validation import Validator
from nmt.train.updates.optimizer import make_optimizer
from nmt.train.updates.update import Updater

CELLS = "lstm gru slstm min_gru hawk mamba gla mlstm gated_delta_net rwkv7"
STREAMS, SEGMENT = 4, 2000
PASTS = (50, 200, 1000, 5000)
QUARTERS = 4
HELD_OUT = 100_000
"""Letters of the held-out files that are predicted."""


def texts() -> tuple[TokenRows, TokenRows, int]:
    """Return a row for each file to learn from, those held out, and the size of the vocabulary. A letter that is seen
    fewer than a hundred times is unknown."""
    files = [
        path.read_text("utf-8", errors="replace") for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    ]
    letters, counts = np.unique(np.array(list("".join(files))), return_counts=True)
    number = {str(letter): EOS_ID + 1 + n for n, letter in enumerate(letters[counts >= 100])}
    rows = [np.array([number.get(letter, UNK_ID) for letter in text], np.int32) for text in files]
    held_out = np.concatenate(rows[::20])[:HELD_OUT]
    learned = [row for n, row in enumerate(rows) if n % 20]
    starts = np.cumsum([0, *map(len, learned)])
    return (
        TokenRows(np.concatenate(learned), starts),
        TokenRows(held_out, np.array([0, len(held_out)])),
        EOS_ID + 1 + len(number),
    )


def settings(cell: str) -> dict[str, Any]:
    """Return the settings of a model; cells of 2020 and later have a norm and an output product of their own."""
    decoder = {"rnn_type": cell, "hidden_size": 256, "num_layers": 2, "residual": True, "hidden_dropout": 0.0}
    decoder |= {"dropout": 0.0, "embeddings": {"embedding_dim": 64, "dropout": 0.0}}
    training = {
        "batch_type": "sentence",
        "batch_size": STREAMS,
        "bptt": SEGMENT,
        "clip_grad_norm": 1.0,
        "early_stopping_metric": "ppl",
    }
    data = {"train": "-", "dev": "-", "tgt": {"lang": "py"}}
    model = {"decoder": decoder, "tied_embeddings": "none"}
    return {"task": "lm", "model_dir": "-", "data": data, "model": model, "training": training}


def pieces(text: TokenRows, length: int) -> list[Any]:
    """Return the text as streams of `length` letters, each of which begins with an empty state."""
    letters = text.tokens[: len(text.tokens) // max(PASTS) * max(PASTS)]
    count = len(letters) // length
    whole = TokenRows(letters, np.array([0, len(letters)]))
    return list(StreamBatches(whole, count, length + 1).epoch(1))


def bits(model: Any, batches: list[Any]) -> float:
    """Return bits a letter."""
    return Validator(batches).losses(model, 1)["loss"] / math.log(2)


def learn(cell: str, seconds: float, given: tuple[TokenRows, TokenRows, int]) -> dict[str, Any]:
    """Train for CPU seconds and return what the tables show."""
    train, held_out, size = given
    config = config_from_dict(settings(cell))
    model = build_model(config, size, size)
    model.initialize(1)
    updater = Updater(config, model, make_optimizer(config.training, model.params, 1), 1)
    batches, dev = StreamBatches(train, STREAMS, SEGMENT, 1, shuffle=True), pieces(held_out, max(PASTS))
    curve: list[float] = []
    used, update, epoch, letters = 0.0, 0, 0, 0
    while len(curve) < QUARTERS:
        epoch += 1
        for segment in batches.epoch(epoch):
            update += 1
            share = min(1.0, used / seconds)
            rate = 3e-3 * min(1.0, update / 20, 2 * (1 - share) + 0.02)  # falls over the second half
            began = time.process_time()
            updater.update_with(segment, update, rate)
            if update > 1:  # the first one compiles or loads machine code
                used += time.process_time() - began
                letters += segment.num_tgt_tokens
            if used >= seconds * (len(curve) + 1) / QUARTERS:
                curve.append(bits(model, dev))
            if len(curve) == QUARTERS:
                break
    pasts = [bits(model, pieces(held_out, length)) for length in PASTS]
    return {
        "cell": cell,
        "parameters": model.num_params,
        "updates": update,
        "letters": letters / used,
        "curve": curve,
        "pasts": pasts,
    }


def plot(found: list[dict[str, Any]], file: Path) -> None:
    """Draw bits a letter by quarters of the time, and by the length of the past."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for number, row in enumerate(found):
        style = {"marker": "osv^Dx+*<>"[number % 10], "label": row["cell"]}
        left.plot([25, 50, 75, 100], row["curve"], **style)
        right.plot(PASTS, row["pasts"], **style)
    left.set(xlabel="share of the training time, %", ylabel="bits a letter", title="after the same CPU time")
    right.set(xscale="log", xlabel="letters since the state was empty", title="what a longer past is worth")
    right.set_xticks(PASTS, [f"{past:,}" for past in PASTS])
    right.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(file)


def main() -> None:
    """Print the table, a row as soon as a cell is done; what a file of --json has is not learned again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default=CELLS.replace(" ", ","))
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    given = texts()
    print(
        f"{len(given[0].tokens):,} letters to learn from, {len(given[1].tokens):,} held out, vocabulary of {given[2]}"
    )
    head = [f"{100 * n // QUARTERS} %" for n in range(1, QUARTERS + 1)] + [f"past of {past:,}" for past in PASTS]
    print("| cell | parameters | updates | letters/s | " + " | ".join(head) + " |")
    print("|---" * (4 + len(head)) + "|")
    found = json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    known = {row["cell"]: row for row in found}
    for cell in options.cells.split(","):
        row = known.get(cell) or learn(cell, options.seconds, given)
        known[cell] = row
        cells = [f"{value:.3f}" for value in (*row["curve"], *row["pasts"])]
        print(
            f"| {cell} | {row['parameters']:,} | {row['updates']} | {row['letters']:,.0f} | "
            + " | ".join(cells)
            + " |",
            flush=True,
        )
        if options.json:
            options.json.write_text(json.dumps(list(known.values()), indent=1) + "\n")
    if options.plot:
        plot([known[cell] for cell in options.cells.split(",")], options.plot)


if __name__ == "__main__":
    main()
