"""Our side of `train_step.py`, run as a process of its own so that its peak memory is training's alone.

Run by it as: python _training.py CONFIG FOLDER BATCHES THREADS DTYPE; prints one line of JSON.
"""

import json
import math
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import Config, load_config
from nmt.data.batching.batches import Batch, TrainBatches
from nmt.data.corpora.corpus import Side, load_parallel
from nmt.data.tokens.factors import subwords_from_file
from nmt.model.translation import TranslationModel
from nmt.storage.model_folder import build_model
from nmt.train.updates.optimizer import clip_scale, gradient_norm, make_optimizer

# What belongs to which part of a step, by the model's methods.
_PARTS = {
    "embedding": [("", "embed"), ("", "_embedding_gradient")],
    "encoder": [("encoder", "forward"), ("encoder", "backward")],
    "bridge": [("bridge", "forward"), ("bridge", "backward")],
    "decoder": [("decoder", "forward"), ("decoder", "backward")],
    "output": [("", "_output")],
}


def load(config: Config, folder: Path) -> tuple[TrainBatches, TranslationModel]:
    """The corpus in `folder` (train.*, joint.spm) in batches, and a fresh model."""
    subwords = subwords_from_file(folder / "joint.spm")
    src, tgt = Side(config.data.src, subwords), Side(config.data.tgt, subwords)
    training = config.training
    corpus = load_parallel(str(folder / "text" / "train"), src, tgt)
    batches = TrainBatches(corpus, training.batch_size, training.batch_type, config.seed, training.shuffle)
    model = build_model(config, subwords.vocab_size, subwords.vocab_size)
    model.initialize(config.seed, corpus.target_counts(subwords.vocab_size))
    return batches, model


def check_gradients(model: TranslationModel, batch: Batch, threads: int) -> float:
    """Relative error of the gradients' norm against the slope of the loss along them, by finite differences.

    Both cost as much as the loss changes over a short way; float32 leaves about three digits.
    """
    _, gradients = model.loss_and_gradients(batch, seed=0, threads=threads)
    norm = gradient_norm(gradients, threads)
    way = 0.02 / norm  # the loss of a token changes by about this much in each direction
    kept = {name: array.copy() for name, array in model.params.items()}
    losses = []
    for sign in (1, -1):
        for name, array in model.params.items():
            np.add(kept[name], np.float32(sign * way / norm) * gradients[name], out=array)
        model.changed()
        stats = model.loss(batch, threads)
        losses.append(stats.loss / stats.tokens)
    for name, array in model.params.items():
        array[...] = kept[name]
    model.changed()
    slope = (losses[0] - losses[1]) / (2 * way)
    return abs(slope - norm) / norm


def timers(model: TranslationModel) -> dict[str, float]:
    """Seconds by part from here on: each method is replaced by one that is timed."""
    seconds = dict.fromkeys((*_PARTS, "optimizer"), 0.0)

    def timed(part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                seconds[part] += time.perf_counter() - start

        return run

    for part, methods in _PARTS.items():
        for owner, name in methods:
            target = getattr(model, owner) if owner else model
            setattr(target, name, timed(part, getattr(target, name)))
    return seconds


def measure(config: Config, folder: Path, count: int, threads: int) -> dict[str, Any]:
    """Check, then time `count` updates, after as many that are not counted."""
    batches, model = load(config, folder)
    chosen = [batch for batch, _ in zip(batches.epoch(1), range(count), strict=False)]
    error = check_gradients(model, chosen[0], threads)
    optimizer = make_optimizer(config.training, model.params, threads)
    seconds = timers(model)
    into, losses, times, marks = None, [], [], dict(seconds)
    for update in range(2 * len(chosen)):
        batch = chosen[update % len(chosen)]
        if update == len(chosen):
            marks = dict(seconds)
        start = time.perf_counter()
        stats, into = model.loss_and_gradients(
            batch, seed=update, label_smoothing=config.training.label_smoothing, threads=threads, into=into
        )
        middle = time.perf_counter()
        norm = gradient_norm(into, threads)
        scale = clip_scale(norm, config.training.clip_grad_norm)
        optimizer.step(model.params, into, config.training.learning_rate, scale)
        model.changed()
        end = time.perf_counter()
        seconds["optimizer"] += end - middle
        times.append(end - start)
        losses.append(stats.nll / stats.tokens)
    if not (error < 0.02 and math.isfinite(losses[-1]) and losses[-1] < losses[0]):
        raise SystemExit(f"ours: the gradients must match the loss and training lower it, got {error:.1e}, {losses}")
    parts = {name: seconds[name] - marks[name] for name in seconds}
    counted = times[len(chosen) :]
    parts["other"] = sum(counted) - sum(parts.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1024)
    work = [(batch.src_lengths.tolist(), batch.tgt_lengths.tolist()) for batch in chosen]
    return {"seconds": counted, "lengths": work, "parts": parts, "peak_mb": peak, "gradient_error": error}


def main() -> None:
    """Print the figures."""
    name, folder, count, threads, dtype = sys.argv[1:]
    config = load_config(name, [f"compute_dtype={dtype}"])
    print(json.dumps(measure(config, Path(folder), int(count), int(threads))))


if __name__ == "__main__":
    main()
