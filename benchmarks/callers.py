"""How fast are many callers of one model together, and how does search fare with more threads than cores?

Single lines, translated by 1, 2, 4, 8 threads of Python that share a model of the peers' sizes (with parameters that
mean nothing: sentences run to the limit), compared with one caller; then one caller's batches with 1 to 64 threads of
the engine. Checks first that all translations are the same. Medians of turns. Run: python benchmarks/callers.py
"""

import statistics
import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from _timing import note, options, print_machine

from nmt.config import load_config
from nmt.decode import Hypothesis, search
from nmt.model.translation import TranslationModel
from nmt.rnn.cores import default_threads, usable_threads

_CONFIG, _VOCAB = "configs/multi30k_en_de_peers.yaml", 8000
_CALLERS, _THREADS = (1, 2, 4, 8), (1, 2, 3, 4, 8, 16, 64)
_LIMITS = {"max_length_ratio": 1.0, "max_length_extra": 0}

Ids = list[list[int]]


def make_model(compute_dtype: str) -> TranslationModel:
    """The same numbers in each type."""
    config = load_config(_CONFIG).model
    model = TranslationModel(config, _VOCAB, _VOCAB, compute_dtype=compute_dtype)
    drawn = TranslationModel(config, _VOCAB, _VOCAB)
    drawn.initialize(1)
    model.adopt(dict(drawn.params))
    return model


def by_callers(model: TranslationModel, sources: Ids, callers: int, threads: int) -> list[list[Hypothesis]]:
    """Each caller takes the next sentence until none is left."""
    found: list[list[Hypothesis]] = [[] for _ in sources]
    left = iter(range(len(sources)))

    def call() -> None:
        for n in left:
            found[n] = search(model, [sources[n]], beam_size=5, threads=threads, **_LIMITS)[0]

    calling = [threading.Thread(target=call) for _ in range(callers)]
    for caller in calling:
        caller.start()
    for caller in calling:
        caller.join()
    return found


def measure(
    turns: int, runs: dict[str, Callable[[], list[list[Hypothesis]]]], expected: list[list[Hypothesis]]
) -> None:
    """One row a run: sentences a second, and relative to the first."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for name, run in runs.items():
        if run() != expected:
            raise SystemExit(f"{name}: other translations")
    for turn in range(turns):
        note(f"turn {turn + 1} of {turns}")
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    first = statistics.median(next(iter(times.values())))
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        print(f"{name:28} {len(expected) / middle:8.1f} sentences/s  {first / middle:5.2f}x", flush=True)


def main() -> None:
    """Both tables, in float32 and int8."""
    given = options(__doc__).parse_args()
    print_machine(given.threads)
    rng = np.random.default_rng(0)
    sources = [rng.integers(4, _VOCAB, rng.integers(5, 22)).tolist() for _ in range(24 if given.quick else 96)]
    turns = 3 if given.quick else 5
    for dtype in ("float32", "int8"):
        model = make_model(dtype)
        alone = by_callers(model, sources, 1, 1)
        batch = {"beam_size": 5, "batch_size": 64, **_LIMITS}
        print(f"\nsingle lines, {dtype}, beam 5")
        counts = [
            (callers, threads) for threads in sorted({default_threads(), 1}, reverse=True) for callers in _CALLERS
        ]
        runs = {f"{c} callers, {t} threads each": partial(by_callers, model, sources, c, t) for c, t in counts}
        measure(turns, runs, alone)
        print(f"\nbatches of 64, {dtype}, beam 5, one caller; forced: the engine itself, without a limit")
        for title, limit in (("", usable_threads), ("forced: ", int)):
            runs = {
                f"{title}--threads {n}": partial(search, model, sources, threads=limit(n), **batch) for n in _THREADS
            }
            measure(turns, runs, alone)


if __name__ == "__main__":
    main()
