"""Settings for a training that names only its texts: `nmt-train SRC TGT -o DIR`.

The open choices are made here: the preset, by the number of pairs and by whether the lines are single
words; the languages, by the names of the files; and the validation text, which is held out from the training text.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from nmt.config.presets import OF_WORDS, expectation
from nmt.data.alignment.edits import MOST_SYMBOLS, gain_of_edits
from nmt.data.corpora.looking import columns_advice
from nmt.data.corpora.sources import format_of, name_of
from nmt.data.tokens.factors import is_word
from nmt.errors import CheckpointError, DataError
from nmt.storage.model_folder import CONFIG_NAME, LAST_NAME, load_folder_config
from nmt.system.files import write_bytes
from nmt.system.notices import Show, tell_nobody
from nmt.system.paths import exists
from nmt.train.tasks.named_texts import Texts
from nmt.train.tasks.prepare import check_own, made_folder

if TYPE_CHECKING:
    from nmt.config import Config

MOST_HELD_OUT = 1000
"""Largest number of pairs that are held out for validation."""
SHARE_HELD_OUT = 0.05
"""Share of the pairs that are held out, if that is fewer."""
FEW_PAIRS = 15_000
"""Number of pairs below which the preset is low-resource; from here on it is captions."""
SHARE_OF_WORDS = 0.9
"""Share of source lines without a space from which the corpus is a word list, for the presets edits and character."""
LEAST_GAIN = 5.0
"""Bits for each target letter (see `gain_of_edits`) from which words are rewritten by the preset edits."""
MOST_GROWTH = 1.75
"""Letters of a target for each letter of its word above which attention, which copies, is better than edits."""
PAIRS_OF_GAIN = 500
"""Pairs by which that is decided."""
MANY_WORDS = 3_000
"""Number of pairs from which the preset edits gets a larger model and larger batches."""
PAIRS_READ = 300_000
"""Pairs that such a training reads, of more than 25,000 each a dozen times."""
SHARE_OF_RATE = 0.1
"""Share of a model's learning rate with which it is trained further."""


@dataclass(frozen=True)
class Survey:
    """Facts about a corpus.

    pairs: Number of pairs. words: Number of those whose source is a single word. sample: Up to twice MOST_HELD_OUT
    pairs, drawn uniformly. has_features: Whether the words have features in a column. symbols: Number of different
    letters and features of these words and their targets.
    """

    pairs: int
    words: int
    sample: list[tuple[str, str]]
    has_features: bool = False
    symbols: int = 0

    @property
    def preset(self) -> str:
        """Return the name of the preset that suits the corpus."""
        if self.has_features or self.words >= SHARE_OF_WORDS * self.pairs:
            edits = self.symbols < MOST_SYMBOLS and self.growth <= MOST_GROWTH and self.gain >= LEAST_GAIN
            return "edits" if edits else "character"
        return "low-resource" if self.pairs < FEW_PAIRS else "captions"

    @property
    def growth(self) -> float:
        """Return how many letters targets have for each letter of their words, without features."""
        letters = sum(len(one) == 1 for source, _ in self.sample for one in _symbols(source))
        return sum(len(_symbols(target)) for _, target in self.sample) / max(1, letters)

    @property
    def gain(self) -> float:
        """Return how well edits explain the pairs of the sample, in bits (see `gain_of_edits`)."""
        return gain_of_edits([(_symbols(source), _symbols(target)) for source, target in self.sample[:PAIRS_OF_GAIN]])


@dataclass(frozen=True)
class Chosen:
    """The settings for a training on texts, and the validation text that belongs to them.

    values: The settings, as `nmt.config.config_from_dict` takes them. files: Two files for the held-out text.
    held_out: The pairs to write there; None if there is nothing to write.
    """

    values: dict[str, Any]
    files: list[Path]
    held_out: list[tuple[str, str]] | None

    def write(self, tell: Show = tell_nobody) -> None:
        """Write the held-out text, if there is one. Raises CheckpointError if other text is there."""
        if self.held_out is None:
            return
        os.close(made_folder(self.files[0].parent))
        for file, lines in zip(self.files, zip(*self.held_out, strict=True), strict=True):
            content = "".join(f"{line}\n" for line in lines).encode()
            if exists(file) and file.read_bytes() != content:
                raise CheckpointError(
                    f"{file}: must be text held out of this training text, got other text; name another "
                    "folder with -o, or this text with --dev, or remove it"
                )
            write_bytes(file, content)
        files = f"{self.files[0]} and {self.files[1]}"
        tell(f"no --dev: {len(self.held_out):,} pairs held out for validation, in {files}, kept for the training")


def settings_of(
    train: Texts,
    dev: Texts | None,
    folder: Path,
    preset: str | None,
    tell: Show = tell_nobody,
    *,
    start: Config | None = None,
    write: bool = True,
) -> Chosen:
    """Return the settings for training on the texts `train` into `folder`. Nothing is written; see `Chosen.write`.

    Without `dev`, a run that has a checkpoint keeps its validation text, since another one could be in what it has
    learned. For a new run, a twentieth of the pairs, at most MOST_HELD_OUT, is held out for `folder`/dev.LANG, and kept
    out of the training text by data.filter.overlap.

    `preset`: its name; None chooses one. `tell`: called with a line for each choice. `start`: the settings of the model
    that the training starts from; they take the place of a preset. `write`: whether the held-out text will be written;
    False only names the files. Raises DataError if the texts cannot be read, or are too few to hold some out, and
    CheckpointError if the folder contains other files.
    """
    if write:
        check_own(folder)
    train = train.recognised(tell)
    langs = train.langs
    dev = dev and dev.in_order_of(langs, tell).recognised(tell_nobody)
    files = [folder / f"dev.{lang}" for lang in langs]
    saved = _begun(folder, langs) if exists(folder / LAST_NAME) else None
    validation, named = _validation(dev, folder, files, saved)
    holds_out = write and validation is None
    if preset is None and saved is not None and start is None:
        preset = saved.preset
    # A corpus is read only for what is still open.
    survey, chooses = None, preset is None and start is None
    if chooses or holds_out or preset == "edits":
        survey = _survey(train.pairs(langs), Random(0), train.features is not None)
    if chooses and survey is not None:
        preset = survey.preset
        tell(_reason(survey, train.features))
        if not survey.has_features and (said := expectation(survey.pairs, survey.preset in OF_WORDS)) is not None:
            tell(said)
    held_out = _held_out(train, survey) if holds_out and survey is not None else None
    if write and validation is not None:
        tell(f"validation text: {named}")
    own = {"preset": preset} if start is None else _settings_after(start, tell)
    values = own | {"name": folder.resolve().name, "model_dir": str(folder)}
    sections = _sections(train, validation or _of_held_out(folder), preset, survey.pairs if survey is not None else 0)
    if start is not None:
        for side, theirs in zip(("src", "tgt"), (start.data.src, start.data.tgt), strict=True):
            sections["data"][side]["max_length"] = theirs.max_length
    return Chosen(values | sections, files, held_out)


def _begun(folder: Path, langs: tuple[str, str]) -> Config:
    """Return the settings of the run in a folder. Raises CheckpointError if it has other languages than these."""
    saved = load_folder_config(folder)
    if (begun := (saved.data.src.lang, saved.data.tgt.lang)) != langs:
        raise CheckpointError(
            f"{folder}: must stay a model from {' to '.join(begun)}, as it was begun, got {' to '.join(langs)}; name "
            f"another folder with -o, or train on with its own settings: nmt-train {folder / CONFIG_NAME}"
        )
    return saved


def _reason(survey: Survey, features: int | None) -> str:
    """Return a line that says which preset a text has, and why."""
    kind = "single words" if survey.preset in OF_WORDS else "sentences"
    if features is not None:
        kind += f" with features in column {features}"
    if survey.preset == "edits":
        kind += ", whose targets are edits of the sources"
    return f"{survey.pairs:,} pairs of {kind}: preset {survey.preset}; --preset chooses another"


def _of_held_out(folder: Path) -> dict[str, Any]:
    """Return the settings for a validation text that is held out."""
    return {"dev": str(folder / "dev"), "filter": {"overlap": "exact"}}


def _validation(
    dev: Texts | None, folder: Path, files: list[Path], saved: Config | None
) -> tuple[dict[str, Any] | None, str]:
    """Return the settings for the validation text, as values of the section data, and its name; None if it is to be
    held out. saved: The settings of the run in `folder`, if it has a checkpoint."""
    if dev is not None and [Path(file) for file in dev.files] != files:
        return {"dev": dev.setting()}, " and ".join(dev.files)
    if saved is None and dev is None:
        return None, ""
    if saved is not None and saved.data.dev != str(Path(saved.model_dir) / "dev"):
        data = saved.to_dict()["data"]
        kept = {"dev": data["dev"], "filter": {"overlap": data["filter"]["overlap"]}}
        return kept, f"{name_of(saved.data.dev)}, that of the run so far"
    return _of_held_out(folder), f"{files[0]} and {files[1]}, which are there already"


def _sections(train: Texts, validation: dict[str, Any], preset: str | None, pairs: int) -> dict[str, Any]:
    """Return the settings that follow from the texts: the section data, and what the preset lacks for so many pairs."""
    src, tgt = train.langs
    data: dict[str, Any] = {"train": train.setting(), "src": {"lang": src}, "tgt": {"lang": tgt}}
    data |= validation
    if preset == "low-resource":
        data["subwords"] = {"vocab_size": "auto"}  # the preset's is too large for the smallest texts
    if preset == "edits" and pairs >= MANY_WORDS:
        sizes = {"embeddings": {"embedding_dim": 128}, "hidden_size": 256}
        training = {"batch_size": 512, "auto_epochs": max(12, min(50, PAIRS_READ // pairs))}
        return {"data": data, "model": {"encoder": sizes, "decoder": sizes}, "training": training}
    if train.features is None or preset != "character":
        return {"data": data}
    # Most letters of a form are those of its word.
    return {"data": data | {"subwords": {"joint": True}}, "model": {"decoder": {"copy_source": True}}}


def _settings_after(start: Config, tell: Callable[[str], None]) -> dict[str, Any]:
    """Return the settings of training and decoding of a model that starts from another: those of the other one, with a
    tenth of its learning rate and as many updates as suit the new text."""
    theirs = start.training
    rate = theirs.learning_rate * SHARE_OF_RATE
    tell(f"training.load_model: the settings are those of that model, with a tenth of its learning rate, {rate:.2g}")
    training = {
        **{key: getattr(theirs, key) for key in ("optimizer", "label_smoothing", "batch_size", "batch_type", "metric")},
        "learning_rate": rate,
        "scheduling": "linear",
        "stop_after": None,
        **dict.fromkeys(("learning_rate_warmup", "updates", "validation_freq"), "auto"),
    }
    return {"training": training, "decoding": {"beam_size": start.decoding.beam_size}}


def _survey(pairs: Iterator[tuple[str, str]], random: Random, has_features: bool) -> Survey:
    """Return the facts about a corpus that is read once (the sample by Vitter's algorithm R, 1985)."""
    sample: list[tuple[str, str]] = []
    number = words = 0
    symbols: set[str] = set()
    for number, pair in enumerate(pairs, start=1):
        if has_features or is_word(pair[0]):
            words += 1
            symbols.update(_symbols(pair[0]), _symbols(pair[1]))
        if len(sample) < 2 * MOST_HELD_OUT:
            sample.append(pair)
        elif (place := random.randrange(number)) < len(sample):
            sample[place] = pair
    random.shuffle(sample)
    return Survey(number, words, sample, has_features, len(symbols))


def _symbols(line: str) -> list[str]:
    """Return the letters of a line, without spaces, and its features after the first word, each as a whole."""
    first, *others = line.split()
    return [*first, *(one for word in others for one in ([word] if word[0] == "+" else word))]


def _held_out(train: Texts, survey: Survey) -> list[tuple[str, str]]:
    """Return the pairs to hold out: of the sample, those whose sources are rarest in the corpus, since all pairs with
    a held-out source are kept out of training."""
    if not survey.pairs:
        table = format_of(train.files[0]) != "lines"
        advice = columns_advice(train.files[0]) if table else "give two files with text"
        raise DataError(
            f"{', '.join(train.files)}: must have pairs with text on both sides, got an empty source or target in each "
            f"row; {advice}"
        )
    wanted = min(MOST_HELD_OUT, int(survey.pairs * SHARE_HELD_OUT))
    if wanted < 1:
        least = round(1 / SHARE_HELD_OUT)
        raise DataError(
            f"{', '.join(train.files)}: must have at least {least} pairs to hold some out for validation, "
            f"got {survey.pairs}; name a validation text with --dev"
        )
    sampled = {source for source, _ in survey.sample}
    times = Counter(source for source, _ in train.pairs(train.langs) if source in sampled)
    chosen: dict[str, tuple[str, str]] = {}
    for pair in sorted(survey.sample, key=lambda pair: times[pair[0]]):
        chosen.setdefault(pair[0], pair)
    return list(chosen.values())[:wanted]
