"""Our side of `language_model.py`: trains for some seconds, then scores; prints one line of JSON.

Run by it as: python _language_worker.py FOLDER SECONDS THREADS DTYPE.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import config_from_dict
from nmt.data.batching.streams import StreamBatches
from nmt.data.corpora.rows import TokenRows
from nmt.storage.model_folder import build_model
from nmt.train.log.progress import perplexity
from nmt.train.tasks.validation import Validator
from nmt.train.updates.optimizer import make_optimizer
from nmt.train.updates.update import Updater


def measure(folder: Path, seconds: float, threads: int, dtype: str) -> dict[str, Any]:
    """Train from the first parameters in `folder`."""
    settings = json.loads((folder / "settings.json").read_text())
    config = config_from_dict(settings["config"])
    training, size = config.training, settings["vocab_size"]
    model = build_model(config, size, size, compute_dtype=dtype)
    with np.load(folder / "arrays.npz") as file:
        for name, param in model.params.items():
            param[...] = file[f"params/{name}"]
        texts = {name: TokenRows(file[f"{name}/tokens"], file[f"{name}/starts"]) for name in ("train", "dev")}
    model.changed()
    streams, steps = training.batch_size, training.bptt
    batches = StreamBatches(texts["train"], streams, steps, config.seed, training.shuffle)
    stats = model.loss(batches.batch(1, 0), threads)
    first_loss = stats.nll / stats.tokens
    updater = Updater(config, model, make_optimizer(training, model.params, threads), threads)
    began, update, epoch, tokens, done = 0.0, 0, 0, 0, 0.0
    while done < 1:
        epoch, position = epoch + 1, 0
        for segment in batches.epoch(epoch):
            rate = training.learning_rate * min(1.0, (1 - done) / training.cooldown)
            update, position = update + 1, position + 1
            updater.update_with(segment, update, rate)
            if update == 1:
                began = time.perf_counter()  # it loaded or compiled the kernels
            else:
                tokens += segment.num_tgt_tokens
            done = (time.perf_counter() - began) / seconds
            if done >= 1:
                break
    took = time.perf_counter() - began
    held_out = list(StreamBatches(texts["dev"], streams, steps).epoch(1))
    loss = Validator(held_out).losses(model, threads)["loss"]
    epochs = epoch - 1 + position / batches.num_batches(epoch)
    return {
        "first_loss": first_loss,
        "updates": update,
        "tokens": tokens,
        "seconds": took,
        "epochs": epochs,
        "ppl": perplexity(loss),
    }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
