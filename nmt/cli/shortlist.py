"""nmt-shortlist: learn which words translate which from a model's own attention."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nmt.cli.command import Command, threads_option, version_option

if TYPE_CHECKING:
    from nmt.translator import Translator

_CHUNK = 4096
"""Pairs read at a time."""

Ids = tuple[list[list[int]], list[list[int]]]


@click.command(cls=Command, context_settings={"show_default": True})
@click.argument("model_dir", metavar="MODEL_DIR")
@click.option("--src", metavar="FILE", show_default="data.train of the config", help="Source text to learn from.")
@click.option("--tgt", metavar="FILE", show_default="data.train of the config", help="Its translations.")
@click.option("--dev-src", metavar="FILE", show_default="data.dev of the config", help="Source text to measure with.")
@click.option("--dev-tgt", metavar="FILE", show_default="data.dev of the config", help="Its translations.")
@click.option("--per-source", type=click.IntRange(min=1), default=50, help="Target subwords for each source subword.")
@click.option("--frequent", type=click.IntRange(min=0), default=100, help="Most frequent target subwords, for all.")
@threads_option()
@version_option()
def shortlist(
    model_dir: str,
    src: str | None,
    tgt: str | None,
    dev_src: str | None,
    dev_tgt: str | None,
    per_source: int,
    frequent: int,
    threads: int | None,
) -> None:
    """Learn a shortlist of output words for the model in MODEL_DIR, and write it there for nmt-translate --shortlist.

    The training text is put through the model once; each target subword counts for the source subwords it attends
    to. Then a second text, which the model was not trained on, says how many subwords the shortlist misses: of the
    reference, and of what the model says with its whole vocabulary. Standard output gets these figures.

    \b
    Example:
        nmt-shortlist runs/de-en --per-source 50 --frequent 100
    """
    from nmt.model_folder import LENGTHS_NAME, SHORTLIST_NAME, subwords_digest
    from nmt.shortlist import ShortlistLearner, count_misses, learn_from, save_shortlist
    from nmt.translator import Translator

    if (src is None) != (tgt is None) or (dev_src is None) != (dev_tgt is None):
        raise click.UsageError("Give --src with --tgt, and --dev-src with --dev-tgt.")
    folder = Path(model_dir)
    translator = Translator.load(folder, threads=threads, device="cpu")
    _check_folder(folder)
    data = translator.config.data
    learner = ShortlistLearner(translator.src_subwords.vocab_size, translator.tgt_subwords.vocab_size)
    lengths: tuple[list[int], list[int]] = ([], [])
    for ids in _pairs(translator, src or f"{data.train}.{data.src.lang}", tgt or f"{data.train}.{data.tgt.lang}"):
        learn_from(translator, learner, *ids)
        for kept, rows in zip(lengths, ids, strict=True):
            kept += [len(row) for row in rows]
    found = learner.shortlist(per_source, frequent)
    figures = {}
    dev = list(_pairs(translator, dev_src or f"{data.dev}.{data.src.lang}", dev_tgt or f"{data.dev}.{data.tgt.lang}"))
    sources = [row for ids in dev for row in ids[0]]
    figures["reference"] = count_misses(found, sources, [row for ids in dev for row in ids[1]])
    figures["translation"] = count_misses(found, sources, _translated(translator, sources))
    content = {
        "subwords": subwords_digest(translator.src_subwords, translator.tgt_subwords),
        "per_source": per_source,
        "frequent": frequent,
        "miss_percent": {name: misses.rate for name, misses in figures.items()},
    }
    save_shortlist(folder / SHORTLIST_NAME, found, content)
    if translator.lengths is None:
        _save_lengths(folder / LENGTHS_NAME, lengths)
    click.echo(f"candidates\t{figures['reference'].candidates:.1f} of {found.vocab_size} subwords a sentence")
    for name, misses in figures.items():
        click.echo(f"miss rate\t{misses.rate:.2f} %\t{misses.missing} of {misses.tokens} subwords\t{name}")


def _check_folder(folder: Path) -> None:
    from nmt.errors import CheckpointError

    if not folder.is_dir():
        raise CheckpointError(
            f"{folder}: must be a model folder, got a file; learn the shortlist in the folder, then bundle it again"
        )


def _pairs(translator: Translator, src: str, tgt: str) -> Iterator[Ids]:
    """Pairs of two files as ids, a chunk at a time, without those that training leaves out."""
    from nmt.cli.streams import chunks, in_step, input_lines

    data = translator.config.data
    for chunk in chunks(in_step(input_lines(src), {tgt: input_lines(tgt)}), _CHUNK):
        sources = translator.source_ids([line for line, _ in chunk])
        targets = translator.target_ids([beside[tgt] for _, beside in chunk])
        kept = [
            (s, t)
            for s, t in zip(sources, targets, strict=True)
            if 0 < len(s) <= data.src.max_length and 0 < len(t) <= data.tgt.max_length
        ]
        yield [s for s, _ in kept], [t for _, t in kept]


def _translated(translator: Translator, sources: list[list[int]]) -> list[list[int]]:
    """What the whole vocabulary gives, by greedy search."""
    from nmt.cli.meter import Meter
    from nmt.decode import search

    decoding = translator.config.decoding
    with contextlib.closing(Meter()) as meter:
        found = search(
            translator.model,
            sources,
            beam_size=1,
            max_length_ratio=decoding.max_length_ratio,
            max_length_extra=decoding.max_length_extra,
            batch_size=decoding.batch_size,
            threads=translator.num_threads,
            on_ended=meter.add,
        )
    return [hypotheses[0].ids for hypotheses in found]


def _save_lengths(path: Path, lengths: tuple[list[int], list[int]]) -> None:
    import numpy as np

    from nmt.errors import DataError
    from nmt.length_model import LengthModel, save_length_model

    if not lengths[0]:
        raise DataError(f"{path}: must be learnt from at least one pair of lines, got none; give --src and --tgt")
    save_length_model(path, LengthModel.learn(np.array(lengths[0]), np.array(lengths[1])))


if __name__ == "__main__":
    shortlist()
