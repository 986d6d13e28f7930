"""Jobs that run usual models on a few made-up lines, so that their machine code gets compiled. It depends on the cell,
its surroundings and dtypes, not on sizes: these models represent all of their kind."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nmt.config import config_from_dict
from nmt.config.presets import merged
from nmt.exporting.elsewhere import run_for_level
from nmt.rnn.cores import default_threads
from nmt.rnn.kernels.machine_code.native import Native, when_used
from nmt.rnn.kernels.machine_code.recipes import Recipe, native_of, recipe_of
from nmt.rnn.kernels.machine_code.store import Record, write_pack

_WORDS = "a the red blue big small house dog cat tree man sees finds has one two three and or with".split()
_LINES = 64

_USUAL = ("lstm", "gru")
_OTHERS = ("gru_reset_before", "rnn_tanh", "layer_norm_lstm", "layer_norm_gru")
_TYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class ModelJob:
    """A model's settings without its texts, and whether int8 and all kinds of search are also run."""

    name: str
    settings: dict[str, Any] = field(hash=False)
    thorough: bool = False


def standard_jobs() -> Iterator[ModelJob]:
    """Yield the models for which the wheel contains code."""
    for cell in _USUAL:
        yield from _typed(cell, _translation(cell), thorough=True)
        for name, change in _CHANGES.items():
            yield from _typed(f"{cell}, {name}", merged(_translation(cell), {"model": change}))
    for cell in _OTHERS:
        yield from _typed(cell, _translation(cell))
    yield from _typed("few sentences", merged(_translation("deep_transition_gru"), {"model": _FEW_SENTENCES}))


def _typed(name: str, settings: dict[str, Any], *, thorough: bool = False) -> Iterator[ModelJob]:
    for number in _TYPES:
        yield ModelJob(f"{name} {number}", {**deepcopy(settings), "compute_dtype": number}, thorough)


def _translation(cell: str) -> dict[str, Any]:
    embedding, encoder, decoder = 64, 96, 192  # sizes; of the encoder, of each direction
    return {
        "model": {
            "encoder": {"rnn_type": cell, "embeddings": {"embedding_dim": embedding}, "hidden_size": encoder},
            "decoder": {"rnn_type": cell, "embeddings": {"embedding_dim": embedding}, "hidden_size": decoder},
        }
    }


_DROPOUT = {
    "encoder": {"embeddings": {"dropout": 0.2}},
    "decoder": {"embeddings": {"dropout": 0.2}, "hidden_dropout": 0.2},
}
_LAYERS = {"num_layers": 2, "dropout": 0.2}
_FEW_SENTENCES = merged(_DROPOUT, {"decoder": {"lexical": True}})
"""As in the preset low-resource."""
_CHANGES: dict[str, dict[str, Any]] = {
    "dropout": _DROPOUT,
    "deep": merged(_DROPOUT, {"encoder": _LAYERS, "decoder": _LAYERS}),
    "no feeding": {"decoder": {"input_feeding": False}},
    "general": {"decoder": {"attention": "general"}},
    "dot": {"decoder": {"attention": "dot"}},
}
"""Changes to the model's section."""


def run_job_aside(job: ModelJob, threads: int) -> None:
    """Do `run_job` in a temporary folder."""
    with TemporaryDirectory() as folder:
        run_job(job, Path(folder), threads)


def run_job(job: ModelJob, folder: Path, threads: int) -> None:
    """Train for two updates, then translate, in `folder`. Raises NMTError if the settings are wrong."""
    from nmt.storage.saved_model import load_saved_model, save_quantised
    from nmt.train.run.trainer import Trainer

    settings = deepcopy(job.settings)
    data = _write_texts(folder)
    settings |= {
        "name": "standard",
        "model_dir": str(folder / "model"),
        "data": {
            "train": str(data),
            "dev": str(data),
            "src": {"lang": "a"},
            "tgt": {"lang": "b"},
            "subwords": {"type": "word"},
        },
        "training": {"updates": 2, "batch_size": 256, "validation_freq": 2, "stop_after": None},
    }
    Trainer(config_from_dict(settings, job.name), threads=threads).run()
    fill_for_model(folder / "model", threads, thorough=job.thorough)
    save_quantised(folder / "int8", load_saved_model(folder / "model", None))
    fill_for_model(folder / "int8", threads, thorough=job.thorough)


def _write_texts(folder: Path) -> Path:
    """Write two parallel files in made-up languages; return their common prefix."""
    drawn = random.Random(1)
    lines = [" ".join(drawn.choices(_WORDS, k=drawn.randint(1, 12))) for _ in range(_LINES)]
    stem = folder / "text"
    for suffix, text in (("a", lines), ("b", [line[::-1] for line in lines])):
        stem.with_suffix(f".{suffix}").write_text("".join(f"{line}\n" for line in text))
    return stem


def fill_for_model(
    model: Path, threads: int, compute_dtype: str | None = None, cells: Sequence[str] = (), *, thorough: bool = False
) -> None:
    """Run what a trained model needs to translate, so that its code is compiled and stored."""
    from nmt import Translator

    lines = [" ".join(_WORDS[:n]) for n in range(1, 9)]
    translator = Translator.load(model, threads=threads, compute_dtype=compute_dtype, cells=cells)
    for count in (len(lines), 1):
        for beam_size in (5, 1):
            translator.translate_nbest(lines[:count], beam_size=beam_size)
    translator.score(lines, lines)
    if thorough:
        translator.translate_nbest(lines, n_best=3, details=True)
        translator.translate_nbest(lines, sampling=True, sampling_topk=5)
        translator.translate_nbest(lines, sampling=True, sampling_topp=0.9)
        translator.translate_nbest(lines, no_repeat_ngram_size=2, repetition_penalty=1.1)
        translator.session(lines[3]).complete("")


Notify = Callable[[str], None]
_THREADS = 2
"""Threads of the jobs on any machine: one more function runs where threads share work."""


def recipes_of(jobs: Iterable[ModelJob], notify: Notify) -> list[Recipe]:
    """Run the jobs in this process and return the recipes of all functions that they use, in a fixed order."""
    found: dict[str, Recipe] = {}

    def note(native: Native) -> None:
        recipe = recipe_of(native)
        if recipe is not None:
            found[json.dumps(recipe)] = recipe

    when_used.append(note)
    try:
        for job in jobs:
            before = len(found)
            run_job_aside(job, _THREADS)
            notify(f"{job.name}: {len(found) - before} functions")
    finally:
        when_used.remove(note)
    return [found[key] for key in sorted(found)]


def compile_all(recipes: Sequence[Recipe], level: str, elsewhere: str) -> None:
    """Compile the functions that the store lacks, on all cores; a process chooses its target only once."""
    count = default_threads()
    # Functions that others call come first, in one process: otherwise every process would compile them.
    called = [recipe for recipe in recipes if recipe[0] == "named"]
    rest = [recipe for recipe in recipes if recipe[0] != "named"]
    for group in (called,), tuple(rest[n::count] for n in range(count)):
        with ThreadPoolExecutor(count) as threads:
            parts = [["compile", *part] for part in group if part]
            list(threads.map(lambda part: run_for_level("nmt.precompile", level, part, elsewhere), parts))


def make_packs(
    recipes: Sequence[Recipe], folder: Path, levels: Sequence[str], notify: Notify, elsewhere: str = "1"
) -> None:
    """Write `LEVEL.pack` into a folder for each level; `elsewhere`: the machines they are for (see features.py)."""
    for level in levels:
        compile_all(recipes, level, elsewhere)
        notify(f"{level}: {len(recipes)} functions compiled")
        path = folder / f"{level}.pack"
        run_for_level("nmt.precompile", level, ["pack", str(path), *recipes], elsewhere)
        notify(f"{path}: {path.stat().st_size:,} bytes")


def compile_here(recipes: Sequence[Recipe]) -> None:
    """Compile and store functions in this process, which loads none: they may be for another machine."""
    for recipe in recipes:
        native_of(recipe).made()


def pack_here(path: Path, recipes: Sequence[Recipe]) -> None:
    """Write a pack of these functions from the store."""
    records: dict[str, Record] = {}
    for recipe in recipes:
        native = native_of(recipe)
        if native.source_name is None:
            raise RuntimeError(f"{recipe[:3]} has no name")
        records[native.source_name] = native.made()
    write_pack(path, records)
