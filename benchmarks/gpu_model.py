"""How fast a whole translation model trains and translates on a GPU, compared with the same model in PyTorch?

Random sentences with lengths as in real corpora, random parameters. Before anything is timed, the loss of one batch is
compared with PyTorch's and with the processor's. Random models hardly ever end a sentence, so every search runs to the
maximum length: the same steps for both. `--check` instead trains twice, on the processor and on the GPU, and compares
the losses of every update and the translations.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import Config, config_from_dict
from nmt.data.batching.batches import Batch, make_batch
from nmt.decode import search
from nmt.errors import DeviceError
from nmt.rnn.device import Device
from nmt.rnn.devices import choose_device, cpu
from nmt.special_tokens import BOS_ID, EOS_ID
from nmt.storage.model_folder import build_model
from nmt.train.updates.optimizer import make_optimizer
from nmt.train.updates.update import Updater

BEAM, LENGTH_RATIO, LENGTH_EXTRA = 5, 1.0, 10


@dataclass(frozen=True)
class Case:
    """A model and the sentences it is given: mean and spread of their lengths, target tokens a batch."""

    model: dict[str, Any]
    vocab: int
    mean: float
    spread: float
    tokens: int
    sentences: int

    def config(self, compute_dtype: str = "float32") -> Config:
        """Its settings."""
        data = {"train": "-", "dev": "-", "src": {"lang": "xx"}, "tgt": {"lang": "yy"}}
        training = {"label_smoothing": 0.1, "learning_rate": 1e-3, "clip_grad_norm": 1.0}
        whole = {"model_dir": "-", "data": data, "model": self.model, "training": training}
        return config_from_dict(whole | {"compute_dtype": compute_dtype})

    def batches(self, count: int) -> list[Batch]:
        """Batches of sentences of like lengths, as training makes them."""
        rng = np.random.default_rng(0)
        found = []
        for _ in range(count):
            middle = self._lengths(rng, 1)[0]
            rows = max(1, self.tokens // (middle + 1))
            sides = [np.clip(rng.normal(middle, spread, rows).round(), 3, 120).astype(int) for spread in (2.5, 0.6)]
            found.append(make_batch(*([self._words(rng, n) for n in side] for side in sides), np.arange(rows)))
        return found

    def sources(self) -> list[list[int]]:
        """Sentences to translate."""
        rng = np.random.default_rng(1)
        return [self._words(rng, n) for n in self._lengths(rng, self.sentences)]

    def _lengths(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return np.clip(rng.normal(self.mean, self.spread, count).round(), 3, 120).astype(int)

    def _words(self, rng: np.random.Generator, count: int) -> list[int]:
        return rng.integers(4, self.vocab, count).tolist()


def _settings(embedded: int, encoder: int, decoder: int, layers: int, tied: str) -> dict[str, Any]:
    embeddings = {"embedding_dim": embedded, "dropout": 0.2}
    return {
        "tied_embeddings": tied,
        "encoder": {
            "rnn_type": "lstm",
            "embeddings": embeddings,
            "hidden_size": encoder,
            "num_layers": layers,
            "bidirectional": True,
        },
        "decoder": {
            "rnn_type": "lstm",
            "embeddings": embeddings,
            "hidden_size": decoder,
            "num_layers": layers,
            "hidden_dropout": 0.3,
            "init_hidden": "bridge",
            "attention": "bahdanau",
            "input_feeding": True,
        },
    }


CASES = {
    "Multi30k": Case(_settings(384, 256, 384, 1, "softmax"), 8000, 15, 5, 2048, 1000),
    "4x1024, 32k words": Case(_settings(1024, 512, 1024, 4, "softmax"), 32000, 27, 13, 4096, 256),
}
QUICK = {"small": Case(_settings(32, 16, 32, 2, "softmax"), 200, 8, 2, 256, 12)}


def lines(
    device: Device, cases: dict[str, Case], *, updates: int = 30, compute_dtypes: tuple[str, ...]
) -> Iterator[str]:
    """The table, a line as soon as it is measured. PyTorch's rows are omitted if it is not installed."""
    yield "| model | what | training, target tokens/s | translation, sentences/s |"
    yield "|---|---|---|---|"
    for name, case in cases.items():
        for compute_dtype in compute_dtypes:
            trained, translated = _ours(device, case, compute_dtype, updates)
            yield f"| {name} | ours, {compute_dtype} | {trained:,.0f} | {translated:.1f} |"
        for kind in ("float32", "TF32", "bfloat16"):
            figures = _torch(device, case, kind, updates)
            if figures is None:
                break
            yield f"| {name} | PyTorch, {kind} | {figures[0]:,.0f} | {figures[1]:.1f} |"


def _rate(work: Callable[[int], float], wait: Callable[[], None], warm_up: int, count: int) -> float:
    """What `work(number)` counts, a second, over `count` calls after some that only warm up."""
    for number in range(warm_up):
        work(number)
    wait()
    began = time.perf_counter()
    done = sum(work(number) for number in range(count))
    wait()
    return done / (time.perf_counter() - began)


def _ours(device: Device, case: Case, compute_dtype: str, updates: int) -> tuple[float, float]:
    config, batches = case.config(compute_dtype), case.batches(8)
    model = build_model(config, case.vocab, case.vocab, device=device)
    model.initialize(1)
    _check_processor(model, config, case)
    updater = Updater(config, model, make_optimizer(config.training, model.params, 1, device), 1)

    def update(number: int) -> float:
        batch = batches[number % len(batches)]
        updater.update_with(batch, number + 1, 1e-4)
        return batch.num_tgt_tokens

    # Sizes come the third time, as replayed recordings; in real training some two thirds do (results/gpu.md).
    trained = _rate(update, device.synchronize, 2 * len(batches), updates)
    sources = case.sources()
    options = {"beam_size": BEAM, "max_length_ratio": LENGTH_RATIO, "max_length_extra": LENGTH_EXTRA, "batch_size": 64}

    def translate(number: int) -> float:
        return len(search(model, sources, **options))

    return trained, _rate(translate, device.synchronize, 1, 1)


def _check_processor(model: Any, config: Config, case: Case) -> None:
    """The loss of a small batch is that of the processor."""
    words = case.sources()[:4]
    batch = make_batch(words, words, np.arange(len(words)))
    other = build_model(config, case.vocab, case.vocab)
    for name, array in model.params.items():
        other.params[name][...] = model.device.download(array)
    other.changed()
    _agree(
        "the processor",
        model.loss(batch).nll,
        other.loss(batch).nll,
        1e-2 if config.compute_dtype != "float32" else 1e-4,
    )


def _agree(what: str, ours: float, theirs: float, tolerance: float) -> None:
    if not abs(ours - theirs) <= tolerance * abs(theirs):
        raise SystemExit(f"gpu_model: the loss must be that of {what} within {tolerance}, got {ours} and {theirs}")


def _torch(device: Device, case: Case, kind: str, updates: int) -> tuple[float, float] | None:
    """The same of PyTorch; None where it is not installed."""
    try:
        import torch
        from _torch_translator import TorchTranslator
    except ImportError:
        return None
    place = torch.device(device.name)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = kind == "TF32"
    ours = build_model(case.config(), case.vocab, case.vocab)
    ours.initialize(1)
    model = TorchTranslator(ours.config, ours.params, place)
    batches = [_to_torch(torch, batch, place) for batch in case.batches(8)]
    counts = [batch.num_tgt_tokens for batch in case.batches(8)]
    words = case.sources()[:4]
    small = make_batch(words, words, np.arange(len(words)))
    model.eval()
    with torch.no_grad():
        theirs = float(model.loss(*_to_torch(torch, small, place), 0.0))
    _agree("PyTorch", ours.loss(small).nll / small.num_tgt_tokens, theirs, 1e-3 if kind == "float32" else 1e-2)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=device.name == "cuda")

    def update(number: int) -> float:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(place.type, torch.bfloat16, enabled=kind == "bfloat16"):
            loss = model.loss(*batches[number % len(batches)], 0.1)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return counts[number % len(batches)]

    def wait() -> None:
        if place.type == "cuda":
            torch.cuda.synchronize()

    trained = _rate(update, wait, len(batches), updates)
    model.eval()
    sources = sorted(case.sources(), key=len, reverse=True)

    def translate(number: int) -> float:
        for first in range(0, len(sources), 64):
            block = sources[first : first + 64]
            steps = int(LENGTH_RATIO * len(block[0])) + LENGTH_EXTRA
            src = make_batch(block, block, np.arange(len(block)))
            with torch.autocast(place.type, torch.bfloat16, enabled=kind == "bfloat16"):
                ids = torch.from_numpy(src.src.astype(np.int64)).to(place)
                lengths = torch.from_numpy(src.src_lengths.astype(np.int64))
                model.beam_search(ids, lengths, BEAM, steps, EOS_ID, BOS_ID).cpu()
        return len(sources)

    return trained, _rate(translate, wait, 1, 1)


def _to_torch(torch: Any, batch: Batch, place: Any) -> tuple[Any, ...]:
    def moved(array: np.ndarray) -> Any:
        return torch.from_numpy(array.astype(np.int64)).to(place)

    return (
        moved(batch.src),
        torch.from_numpy(batch.src_lengths.astype(np.int64)),
        moved(batch.tgt_in),
        moved(batch.tgt_out),
    )


def check(device: Device, case: Case, updates: int, sentences: int) -> Iterator[str]:
    """Train on the processor and on the device from the same parameters with the same batches; compare the losses of
    every update and the translations."""
    config, batches, sources = case.config(), case.batches(16), case.sources()[:sentences]
    losses, found = [], []
    for place in (cpu(), device):
        model = build_model(config, case.vocab, case.vocab, device=place)
        model.initialize(1)
        threads = os.cpu_count() or 1  # the same bits for any number
        updater = Updater(config, model, make_optimizer(config.training, model.params, threads, place), threads)
        done = (updater.update_with(batches[n % len(batches)], n + 1, 1e-3).stats for n in range(updates))
        losses.append(np.array([stats.loss / stats.tokens for stats in done]))
        found.append(search(model, sources, beam_size=BEAM, max_length_ratio=LENGTH_RATIO, batch_size=64))
    ways = np.abs(losses[1] / losses[0] - 1)
    last = f"{losses[0][-1]:.4f} on the processor, {losses[1][-1]:.4f} on the device"
    yield f"{updates} updates: loss {losses[0][0]:.4f}, at last {last}"
    yield f"relative difference: {ways[:20].max():.1e} at most in the first 20 updates, {ways.max():.1e} in all"
    same = [one[0].ids == other[0].ids for one, other in zip(*found, strict=True)]
    yield f"translations: {sum(same)} of {len(same)} equal"
    for n in np.flatnonzero(~np.array(same)).tolist():
        one, other = found[0][n][0], found[1][n][0]
        yield f"  sentence {n}: scores {one.score:.6f} and {other.score:.6f}"


def write(device: Device, path: Path, *, quick: bool) -> None:
    """Print the tables and what the check found, and keep them in a file, line by line."""
    cases = QUICK if quick else CASES
    rows = lines(device, cases, updates=30, compute_dtypes=("float32", "bfloat16"))
    found = check(device, next(iter(cases.values())), 20 if quick else 200, 100)
    with path.open("w") as file:
        for line in chain(rows, found):
            print(line, flush=True)
            print(line, file=file, flush=True)


def main() -> None:
    """Print the table, or what the check found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="a tiny model")
    parser.add_argument("--check", action="store_true", help="compare with the processor instead of timing")
    parser.add_argument("--updates", type=int, help="30 to time, 200 to check")
    options = parser.parse_args()
    try:
        device = choose_device(options.device)
    except DeviceError as error:
        print(f"not measured: {error}")
        return
    cases = QUICK if options.quick else CASES
    if options.check:
        rows = check(device, next(iter(cases.values())), options.updates or 200, 100)
    else:
        rows = lines(device, cases, updates=options.updates or 30, compute_dtypes=("float32", "bfloat16"))
    for line in rows:
        print(line, flush=True)


if __name__ == "__main__":
    main()
