"""nmt-shortlist: learn which words translate which from a model's own attention."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.lines.judging import langs_of, tell_doubts
from nmt.cli.lines.streams import check_apart, in_step, say, tell, telling_notices
from nmt.cli.options.command import Command, FiniteRange, cells_option, compute_dtype_option, threads_option
from nmt.cli.options.path_types import INPUT, reads
from nmt.errors import CheckpointError, DataError
from nmt.system.lines import chunks
from nmt.system.paths import is_folder

if TYPE_CHECKING:
    from nmt.config import DataConfig
    from nmt.inference.shortlist_learning import ShortlistLearner
    from nmt.inference.translator import Translator

_CHUNK = 4096
"""Number of pairs to read at a time."""

_TEXTS = ("src", "tgt")
"""The sides of a text, as options name them."""
_DOUBTFUL, _ENOUGH = 10.0, 100
"""Percentage of missed subwords of the references from which texts may be swapped, and least number of subwords."""

Ids = tuple[list[list[int]], list[list[int]]]


@click.command(cls=Command)
@click.argument("model_dir", metavar="MODEL", type=INPUT)
@reads("--src", show_default="data.train of the config", text="Source text to learn from.")
@reads("--tgt", show_default="data.train of the config", text="Its translations.")
@reads("--dev-src", show_default="data.dev of the config", text="Source text to tune and measure with.")
@reads("--dev-tgt", show_default="data.dev of the config", text="Its translations.")
@click.option(
    "--pairs", type=click.IntRange(min=1), default=200_000, help="Maximum number of sentence pairs to learn from."
)
@click.option(
    "--translated",
    type=click.IntRange(min=0),
    default=50_000,
    help="Maximum number of those pairs to translate as well, to learn from the model's own output.",
)
@click.option(
    "--per-source", type=click.IntRange(min=1), default=20, help="Maximum number of target subwords per source subword."
)
@click.option(
    "--mass",
    type=FiniteRange(0.0, 1.0, min_open=True),
    default=1.0,
    help="Keep the fewest target subwords with this share of a source subword's attention.",
)
@click.option(
    "--frequent",
    type=click.IntRange(min=0),
    show_default="as few as --most-missed permits",
    help="Number of frequent target subwords to allow in every sentence.",
)
@click.option(
    "--most-missed",
    type=FiniteRange(0.0, 100.0),
    default=1.0,
    help="Maximum percentage of the model's own output on the second text that the shortlist may miss.",
)
@compute_dtype_option
@threads_option
@cells_option
def shortlist(model_dir: str, **options: Any) -> None:
    """Learn a shortlist of output words, which speeds up translation.

    It is saved in the folder MODEL for nmt-translate --shortlist. The model reads the training text once, and then its
    own translations of that text; each target subword counts for the source subwords it attends to. A second text, on
    which the model was not trained, then decides how many frequent subwords are candidates in every sentence. It also
    shows how many subwords the shortlist misses, of the reference and of the model's output with its whole vocabulary.
    These figures go to standard output.

    \b
    Example:
        nmt-shortlist runs/de-en --compute-dtype bfloat16
    """
    from nmt.inference.pipeline import check_no_factors
    from nmt.inference.shortlist_learning import ShortlistLearner, candidates_together, count_misses
    from nmt.inference.translator import Translator
    from nmt.storage.model_folder import SHORTLIST_NAME, save_tensors, shortlist_tensors, subwords_digest

    for one, other in (("src", "tgt"), ("dev_src", "dev_tgt")):
        if (options[one] is None) != (options[other] is None):
            raise click.UsageError("Give --src with --tgt, and --dev-src with --dev-tgt.")
    folder = Path(model_dir)
    kinds = {name: options[name] for name in ("threads", "compute_dtype", "cells")}
    translator = Translator.load(folder, device="cpu", **kinds)
    if not is_folder(folder):
        raise CheckpointError(
            f"{folder}: must be a model folder, got a file; learn the shortlist in the folder, then bundle it again"
        )
    _tell_doubts(translator, options)
    check_no_factors(translator, "nmt-shortlist")
    learner = ShortlistLearner(translator.src_subwords.vocab_size, translator.tgt_subwords.vocab_size)
    _learn(translator, learner, options)
    texts = _held_out(translator, options)
    kept = {name: options[name] for name in ("per_source", "mass", "frequent")}
    if kept["frequent"] is None:
        kept["frequent"] = learner.enough_frequent(
            kept["per_source"], kept["mass"], options["most_missed"], texts["source"], texts["translation"]
        )
    found = learner.shortlist(**kept)
    misses = {name: count_misses(found, texts["source"], texts[name]) for name in ("reference", "translation")}
    content = {
        "subwords": subwords_digest(translator.src_subwords, translator.tgt_subwords),
        **kept,
        "miss_percent": {name: counted.rate for name, counted in misses.items()},
    }
    _check_misses(folder / SHORTLIST_NAME, misses["translation"].rate, options)
    save_tensors(folder / SHORTLIST_NAME, shortlist_tensors(found), content)
    size = translator.config.decoding.batch_size
    means = {"a sentence": misses["reference"].candidates}
    means[f"{size} sentences in a batch"] = candidates_together(found, texts["source"], size)
    say(f"frequent\t{len(found.always)} of {found.vocab_size} subwords\tfor all sentences")
    for name, mean in means.items():
        say(f"candidates\t{mean:.1f} of {found.vocab_size} subwords\t{name}")
    if misses["reference"].rate >= _DOUBTFUL and misses["reference"].tokens >= _ENOUGH:
        tell(
            f"warning: the shortlist misses {misses['reference'].rate:.0f} % of the second text's translations, as it "
            "does where source and target are swapped or are no translations of one another; look at the files"
        )
    for name, counted in misses.items():
        say(f"miss rate\t{counted.rate:.2f} %\t{counted.missing} of {counted.tokens} subwords\t{name}")


def _tell_doubts(translator: Translator, options: dict[str, Any]) -> None:
    """Warn about texts whose names or words contradict the model's languages, each pair by itself."""
    for dev in ("", "dev-"):
        named = [
            (options[f"{dev}{name}".replace("-", "_")], f"--{dev}{name}", side) for side, name in enumerate(_TEXTS)
        ]
        tell_doubts(langs_of(translator.config.data), named)


def _learn(translator: Translator, learner: ShortlistLearner, options: dict[str, Any]) -> None:
    """Run the model on the training text, and on its own translations of the first lines."""
    from nmt.cli.lines.meter import Meter
    from nmt.inference.shortlist_learning import learn_from, translated

    left = options["translated"]
    with contextlib.closing(Meter("learnt from")) as meter:
        for sources, targets in _pairs(translator, "train", options["src"], options["tgt"], options["pairs"]):
            learn_from(translator, learner, sources, targets)
            own = sources[:left]
            left -= len(own)
            learn_from(translator, learner, own, translated(translator, own))
            meter.add(len(sources))


def _held_out(translator: Translator, options: dict[str, Any]) -> dict[str, list[list[int]]]:
    """Return a text on which the model was not trained: `source`, `reference`, and the model's `translation`."""
    from nmt.cli.lines.meter import Meter
    from nmt.inference.shortlist_learning import translated

    texts: dict[str, list[list[int]]] = {"source": [], "reference": []}
    for sources, targets in _pairs(translator, "dev", options["dev_src"], options["dev_tgt"]):
        texts["source"] += sources
        texts["reference"] += targets
    with contextlib.closing(Meter(total=len(texts["source"]))) as meter:
        texts["translation"] = translated(translator, texts["source"], meter.add)
    return texts


def _check_misses(path: Path, rate: float, options: dict[str, Any]) -> None:
    """Raise DataError if a shortlist misses more than --most-missed permits, unless --frequent is given."""
    if options["frequent"] is None and rate > options["most_missed"]:
        raise DataError(
            f"{path}: must miss at most {options['most_missed']:g} % of the model's own output (--most-missed), got "
            f"{rate:.2f} % with all words of the text; nothing is written: check whether --src and --tgt are swapped, "
            "give more text, or raise --most-missed"
        )


def _pairs(
    translator: Translator, part: str, src: str | None, tgt: str | None, most: int | None = None
) -> Iterator[Ids]:
    """Yield at most `most` pairs of ids from two files, or else from the config's `part`, read in chunks, without the
    pairs that training skips."""
    from nmt.data.corpora.sources import side_lines
    from nmt.inference.pipeline import source_ids, target_ids
    from nmt.inference.translation import CUT

    data = translator.config.data
    src, tgt = _files(data, part, src, tgt)
    check_apart({}, {"--src": src, "--tgt": tgt})
    done = 0
    with telling_notices(src) as notices:
        langs = data.src.lang, data.tgt.lang
        pairs = in_step(side_lines(src, 0, langs), {tgt: side_lines(tgt, 1, langs)})
        for chunk in chunks(islice(pairs, most), _CHUNK):
            cut: set[int] = set()
            sources = source_ids(translator, [line for line, _ in chunk], cut)
            for place in sorted(cut):
                notices.add(done + place, [CUT])
            done += len(chunk)
            kept = [
                (s, t)
                for s, t in zip(sources, target_ids(translator, [parallel[tgt] for _, parallel in chunk]), strict=True)
                if 0 < len(s) <= data.src.max_length and 0 < len(t) <= data.tgt.max_length
            ]
            yield [s for s, _ in kept], [t for _, t in kept]


def _files(data: DataConfig, part: str, src: str | None, tgt: str | None) -> tuple[str, str]:
    """Return the files to read: the given ones, else those of the config. Raises DataError if the config names none."""
    from nmt.data.corpora.sources import name_of, sources_of

    if src is not None and tgt is not None:
        return src, tgt
    corpora = getattr(data, part)
    parts = [one for source in sources_of(corpora) for one in source.parts((data.src.lang, data.tgt.lang))]
    if len(parts) != 1 or parts[0].form != "lines":
        options = "--src and --tgt" if part == "train" else "--dev-src and --dev-tgt"
        raise DataError(f"data.{part}: must be one pair of text files, got {name_of(corpora)}; give {options}")
    return parts[0].files[0], parts[0].files[-1]
