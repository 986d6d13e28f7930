"""PyTorch's side of `language_model.py`: the same model by `torch.nn`, trained the same way. Imports nothing of ours.

Run by a Python that has PyTorch, as: python _torch_language.py FOLDER SECONDS THREADS DTYPE; prints one line of JSON.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch

EOS_ID = 3


class LanguageModel(torch.nn.Module):
    """Embedding, dropout, LSTM layers with dropout between them, dropout, output layer, maybe the embedding itself."""

    def __init__(self, decoder, tied, vocab_size):
        super().__init__()
        size, hidden = decoder["embeddings"]["embedding_dim"], decoder["hidden_size"]
        self.embedding = torch.nn.Embedding(vocab_size, size)
        self.scale = math.sqrt(size) if decoder["embeddings"]["scale"] else 1.0
        self.embedding_dropout = torch.nn.Dropout(decoder["embeddings"]["dropout"])
        self.layers = torch.nn.LSTM(size, hidden, decoder["num_layers"], dropout=decoder["dropout"])
        self.output_dropout = torch.nn.Dropout(decoder["hidden_dropout"])
        self.output = torch.nn.Linear(hidden, vocab_size)
        if tied:
            self.output.weight = self.embedding.weight

    def load(self, params):
        with torch.no_grad():
            self.embedding.weight.copy_(torch.from_numpy(params["tgt_embeddings"]))
            if "output.W" in params:
                self.output.weight.copy_(torch.from_numpy(params["output.W"].T))
            self.output.bias.copy_(torch.from_numpy(params["output.b"]))
            for n in range(self.layers.num_layers):
                names = {"weight_ih": "W_x", "weight_hh": "W_h", "bias_ih": "b"}
                for theirs, ours in names.items():
                    getattr(self.layers, f"{theirs}_l{n}").copy_(torch.from_numpy(params[f"decoder.{n}.{ours}"].T))
                second = getattr(self.layers, f"bias_hh_l{n}")  # one bias says all that two can
                second.zero_()
                second.requires_grad_(False)

    def forward(self, ids, states):
        y, states = self.layers(self.embedding_dropout(self.embedding(ids) * self.scale), states)
        return self.output(self.output_dropout(y)), states


def stream_of(tokens, starts, order):
    """EOS, and the lines in an order, each with EOS behind it."""
    lines = [np.append(tokens[starts[n] : starts[n + 1]], EOS_ID) for n in order]
    return np.concatenate([[EOS_ID], *lines])


def segments(tokens, starts, streams, steps, seed=None, epoch=1):
    """What to read and to say, [T, B] each, -100 where a stream has ended; a seed shuffles the lines."""
    order = np.arange(len(starts) - 1)
    if seed is not None:
        np.random.default_rng([seed, epoch]).shuffle(order)
    text = stream_of(tokens, starts, order)
    share, more = divmod(len(text) - 1, streams)
    lengths = share + (np.arange(streams) < more)
    first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    longest = int(lengths.max())
    at = first + np.arange(longest)[:, None]
    real = np.arange(longest)[:, None] < lengths
    at = np.minimum(at, len(text) - 2)
    read, said = np.where(real, text[at], 0), np.where(real, text[at + 1], -100)
    for start in range(0, longest, steps):
        piece = slice(start, start + steps)
        yield torch.from_numpy(read[piece].astype(np.int64)), torch.from_numpy(said[piece].astype(np.int64))


def loss_of(logits, said):
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), said.reshape(-1), ignore_index=-100)


def evaluate(model, pieces):
    """Mean negative log-likelihood of all tokens, states carried on."""
    model.eval()
    total, count, states = 0.0, 0, None
    with torch.inference_mode():
        for read, said in pieces:
            logits, states = model(read, states)
            real = int((said >= 0).sum())
            total, count = total + float(loss_of(logits, said)) * real, count + real
    return total / count


def measure(folder, seconds, threads):
    torch.set_num_threads(threads)
    settings = json.loads((folder / "settings.json").read_text())
    config = settings["config"]
    training, decoder = config["training"], config["model"]["decoder"]
    model = LanguageModel(decoder, config["model"]["tied_embeddings"] != "none", settings["vocab_size"])
    with np.load(folder / "arrays.npz") as file:
        arrays = {name: file[name] for name in file.files}
    model.load({name[7:]: array for name, array in arrays.items() if name.startswith("params/")})
    train, dev = ((arrays[f"{name}/tokens"], arrays[f"{name}/starts"]) for name in ("train", "dev"))
    streams, steps = training["batch_size"], training["bptt"]
    seed = config["seed"] if training["shuffle"] else None
    first_loss = evaluate(model, [next(segments(*train, streams, steps, seed, 1))])
    torch.manual_seed(config["seed"])
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(
        learned, training["learning_rate"], betas=tuple(training["adam_betas"]), eps=training["adam_eps"]
    )
    model.train()
    began, update, epoch, tokens, done = 0.0, 0, 0, 0, 0.0
    while done < 1:
        epoch, position = epoch + 1, 0
        states = None
        pieces = list(segments(*train, streams, steps, seed, epoch))
        for read, said in pieces:
            rate = training["learning_rate"] * min(1.0, (1 - done) / training["cooldown"])
            for group in optimizer.param_groups:
                group["lr"] = rate
            update, position = update + 1, position + 1
            states = None if states is None else tuple(state.detach() for state in states)
            optimizer.zero_grad(set_to_none=True)
            logits, states = model(read, states)
            loss_of(logits, said).backward()
            torch.nn.utils.clip_grad_norm_(learned, training["clip_grad_norm"])
            optimizer.step()
            if update == 1:
                began = time.perf_counter()  # it loaded the kernels
            else:
                tokens += int((said >= 0).sum())
            done = (time.perf_counter() - began) / seconds
            if done >= 1:
                break
    took = time.perf_counter() - began
    loss = evaluate(model, segments(*dev, streams, steps))
    return {
        "first_loss": first_loss,
        "updates": update,
        "tokens": tokens,
        "seconds": took,
        "epochs": epoch - 1 + position / len(pieces),
        "ppl": math.exp(loss),
    }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))))
