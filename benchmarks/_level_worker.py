"""The worker of `levels.py`: the engine in one process, compiled for what the environment names.

`NMT_CPU` chooses what is compiled for (see nmt/rnn/kernels/machine_code/features.py). Answers requests of `_peer.py`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from _worker import Bench, serve

import nmt.rnn
from nmt import Translator
from nmt.config import load_config
from nmt.data.batching.batches import Batch, make_batch
from nmt.data.tokens.subwords import Subwords
from nmt.decode import Hypothesis, search
from nmt.model.translation import TranslationModel
from nmt.storage.model_folder import build_model
from nmt.train.updates.optimizer import clip_scale, gradient_norm, make_optimizer

Arrays = dict[str, np.ndarray]

_ROOT = Path(__file__).parent.parent
_DEMO_MODEL, _DEMO_TEXT = _ROOT / "runs" / "quickstart", _ROOT / "data" / "demo"
_PEERS_VOCAB = 8000
_THREADS = 1
"""A second one would measure who else is at work."""


@contextmanager
def _on_one_core() -> Iterator[None]:
    """On more the engine would have another process compile ahead, which NMT_CPU alone would tell what for."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


class Case(Bench):  # type: ignore[misc]
    """`found`: what it computes."""

    found: Arrays

    def compute(self) -> Arrays:
        """What is compared."""
        raise NotImplementedError

    def results(self) -> Arrays:
        """What was computed when it was made."""
        return self.found


class Layer(Case):
    """A recurrent layer: a forward pass, or with `training` forward and backward."""

    def __init__(self, cell: str, T: int, N: int, H: int, dtype: str) -> None:
        options: dict[str, Any] = {"reset_after": True} if cell == "gru" else {}
        self.layer = getattr(nmt.rnn, cell.upper())(H, H, compute_dtype=dtype, threads=_THREADS, **options)
        rng = np.random.default_rng(1)
        for array in self.layer.params.values():
            array[...] = rng.uniform(-(H**-0.5), H**-0.5, array.shape)
        self.x, self.d_y = (rng.standard_normal((T, N, H), "f4") for _ in range(2))

    def run(self, training: bool) -> None:
        """One pass, or both."""
        self.layer.forward(self.x) if training else self.layer(self.x)
        if training:
            self.layer.backward(self.d_y)

    def compute(self) -> Arrays:
        """Outputs and gradients."""
        found = {"inference_y": self.layer(self.x)[0].copy(), "y": self.layer.forward(self.x)[0].copy()}
        gradients = self.layer.backward(self.d_y)
        return found | {"d_x": gradients.d_x} | {f"d_{name}": array for name, array in gradients.params.items()}


class Step(Case):
    """A whole training step on one batch: loss, gradients, their norm, the optimiser."""

    def __init__(self, config: str, dtype: str) -> None:
        self.config = load_config(str(_ROOT / "configs" / f"{config}.yaml"), [f"compute_dtype={dtype}"])
        vocab_size, self.batch = _demo_batch() if config == "quickstart" else (_PEERS_VOCAB, _random_batch())
        self.model = build_model(self.config, vocab_size, vocab_size)
        self.model.initialize(1)
        self.optimizer = make_optimizer(self.config.training, self.model.params, _THREADS)
        self.into: dict[str, np.ndarray] | None = None

    def _gradients(self) -> float:
        settings = {"label_smoothing": self.config.training.label_smoothing, "threads": _THREADS}
        stats, self.into = self.model.loss_and_gradients(self.batch, seed=1, into=self.into, **settings)
        return float(stats.loss)

    def run(self, training: bool) -> None:
        """One update."""
        self._gradients()
        scale = clip_scale(gradient_norm(self.into, _THREADS), self.config.training.clip_grad_norm)
        self.optimizer.step(self.model.params, self.into, self.config.training.learning_rate, scale)
        self.model.changed()

    def compute(self) -> Arrays:
        """Loss and gradients of the first parameters."""
        loss = self._gradients()
        return {"loss": np.array(loss)} | {name: array.copy() for name, array in (self.into or {}).items()}


def _random_batch() -> Batch:
    """Forty pairs of 5 to 21 random tokens."""
    rng = np.random.default_rng(0)
    sides = [[rng.integers(4, _PEERS_VOCAB, n) for n in rng.integers(5, 22, 40)] for _ in range(2)]
    return make_batch(*sides, np.arange(40))


def _demo_batch() -> tuple[int, Batch]:
    """The vocabulary's size, and 120 pairs of the demo's training text, about 1,000 tokens."""
    subwords = Subwords.from_file(_DEMO_MODEL / "joint.spm")
    sides = [subwords.encode(_lines("train", language, 120)) for language in ("en", "de")]
    return subwords.vocab_size, make_batch(*sides, np.arange(120))


def _lines(name: str, language: str, count: int) -> list[str]:
    with (_DEMO_TEXT / f"{name}.{language}").open(encoding="utf-8") as file:
        return [line.rstrip("\n") for line in islice(file, count)]


class Search(Case):
    """Translating: with the demo's model, or a model of the peers' sizes with random parameters."""

    def __init__(self, model: str, dtype: str, beam: int, count: int, batch: int) -> None:
        limits: dict[str, Any] = {}
        if model == "quickstart":
            translator = Translator.load(_DEMO_MODEL, threads=_THREADS, compute_dtype=dtype)
            self.model: Any = translator.model
            sources = translator.src_subwords.encode(_lines("test", "en", count))
        else:
            self.model, rng = _random_model(dtype), np.random.default_rng(0)
            sources = [rng.integers(4, _PEERS_VOCAB, rng.integers(5, 22)).tolist() for _ in range(count)]
            limits = {"max_length_ratio": 1.0, "max_length_extra": 0}
        self._search: Callable[[], list[list[Hypothesis]]] = lambda: search(
            self.model, sources, beam_size=beam, batch_size=batch, threads=_THREADS, **limits
        )

    def run(self, training: bool) -> None:
        """All sentences, so many at a time."""
        self._search()

    def compute(self) -> Arrays:
        """Tokens and scores."""
        best = [found[0] for found in self._search()]
        tokens = np.concatenate([np.append(np.asarray(one.ids, np.int64), -1) for one in best])
        return {"tokens": tokens, "score": np.array([one.score for one in best])}


def _random_model(dtype: str) -> TranslationModel:
    """The same parameters in each type."""
    config = load_config(str(_ROOT / "configs" / "multi30k_en_de_peers.yaml")).model
    drawn = TranslationModel(config, _PEERS_VOCAB, _PEERS_VOCAB, False)
    drawn.initialize(1)
    if dtype == "float32":
        return drawn
    model = TranslationModel(config, _PEERS_VOCAB, _PEERS_VOCAB, False, compute_dtype=dtype)
    model.adopt(dict(drawn.params))
    return model


_KINDS: dict[str, Callable[..., Case]] = {"layer": Layer, "step": Step, "search": Search}


def make(request: dict[str, Any], arrays: Arrays) -> Case:
    """What a request names, with all that it runs compiled."""
    with _on_one_core():
        bench = _KINDS[request["kind"]](*request["sizes"])
        bench.found = bench.compute()
    return bench


if __name__ == "__main__":
    serve("nmt", make)
