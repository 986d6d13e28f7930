"""Methods of training together, with the real engine: an interruption changes no bit, and ranks or batches added up are
one update."""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nmt
from nmt import Translator
from nmt.cli.commands.train import train
from nmt.cli.commands.translate import translate
from nmt.config import config_from_dict
from nmt.errors import CheckpointError, ConfigError
from nmt.storage.model_folder import load_folder_config, load_subwords, read_checkpoint
from nmt.storage.saved_model import load_saved_model, save_quantised
from nmt.train.run.trainer import Trainer
from tests.cli.test_cli_models import call
from tests.refusals import refused
from tests.saved_models import sentences, write_folder
from tests.settings import texts_in
from tests.small_models import DECODER, ENCODER
from tests.train.fake_model import write_corpus
from tests.train.resumed import difference, events


def settings(folder: Path, **training: Any) -> dict[str, Any]:
    write_corpus(folder, "train", 60, 1)
    write_corpus(folder, "dev", 5, 2)
    sides = {side: {"lang": lang, "max_length": 30} for side, lang in (("src", "xx"), ("tgt", "yy"))}
    return {
        "model_dir": str(folder / "model"),
        "threads": 1,
        "data": texts_in(folder, **sides, subwords={"type": "bpe", "vocab_size": 28}, check=False),
        "model": {
            "encoder": {**ENCODER, "dropout": 0.1, "zoneout": 0.1},
            "decoder": {**DECODER, "hidden_dropout": 0.1, "zoneout": 0.1},
        },
        "training": {"batch_size": 60, "epochs": 3, "validation_freq": 4, "logging_freq": 1, **training},
    }


ALL = {"ema_decay": 0.9, "src_word_dropout": 0.1, "tgt_word_dropout": 0.1, "r_drop": 2.0}
ALL |= {"guided_alignment": 0.5, "label_smoothing": 0.1}


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_an_interruption_changes_no_bit_with_all_of_them(tmp_path: Path, optimizer: str) -> None:
    momentum = 0.5 if optimizer == "sgd" else 0.0
    values = settings(tmp_path, optimizer=optimizer, momentum=momentum, batch_multiplier=2, **ALL)
    assert difference(config_from_dict(values), 3) == (6, [])


def learned(folder: Path, **training: Any) -> dict[str, bytes]:
    """The arrays that two updates leave."""
    values = settings(folder, updates=2, **training)
    Trainer(config_from_dict(values)).run()
    path = Path(values["model_dir"])
    losses = events(path, "train")
    assert len(losses) == 2 and all(event["nll"] > 0 and event["loss"] > 0 for event in losses)
    return {key: array.tobytes() for key, array in read_checkpoint(path / "last.safetensors")[0].items()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return learned(tmp_path_factory.mktemp("plain"))


EACH = "tgt_word_dropout", "r_drop", "guided_alignment", "label_smoothing"


@pytest.mark.parametrize("name", EACH)
def test_each_changes_what_a_run_learns(tmp_path: Path, name: str, plain: dict[str, bytes]) -> None:
    """Of the others tests/train/test_every_setting.py."""
    assert learned(tmp_path, **{name: ALL[name]}) != plain


SMALL = [
    *("model.encoder.hidden_size=16", "model.decoder.hidden_size=24", "training.learning_rate=0.01"),
    *("training.updates=200", "training.validation_freq=200", "training.ema_decay=0", "compute_dtype=float32"),
]


def test_two_models_of_edits_spell_words_together(tmp_path: Path) -> None:
    """Digits between spaces, which both have learned after 200 updates; a letter that they have not seen is copied."""
    table, given = tmp_path / "words.tsv", tmp_path / "in.txt"
    table.write_text("".join(f"{number:b}\t{' '.join(f'{number:b}')}\n" for number in range(200)))
    given.write_text("1010\n110110110\n\n10Ω0\n")
    words = [word for setting in SMALL for word in ("--set", setting)]
    for seed in "12":
        done = call(train, table, "-o", tmp_path / seed, "--threads", "1", "--set", f"seed={seed}", *words)
        assert "200 pairs of single words, whose targets are edits of the sources: preset edits" in done.stderr
    both = call(translate, tmp_path / "1", given, "--ensemble", tmp_path / "2")
    assert both.stdout.split("\n") == ["1 0 1 0", "1 1 0 1 1 0 1 1 0", "", "1 0 Ω 0", ""]


def test_what_training_never_had_is_copied(tmp_path: Path) -> None:
    """A form equals its word but for the plural: a new letter, a new feature among known ones or alone, or both."""
    table, given = tmp_path / "words.tsv", tmp_path / "in.txt"
    words = [f"{number:b}".translate({48: "a", 49: "t"}) for number in range(32, 132)]
    kinds = {"N;NOM": "", "N;ACC": "", "N;PL": "en"}.items()
    table.write_text("".join(f"{word}\t{word}{end}\t{kind}\n" for word in words for kind, end in kinds))
    given.write_text("taΩatt\tN;ACC\nΩatta\tN;PL\ntatatΩ\tN;NOM\ntaattaa\tN;LOC\ntatat\tV;NFIN\ntattaÅ\tV;LOC\n")
    settings = ["--preset", "edits", "--threads", "1", *(word for setting in SMALL for word in ("--set", setting))]
    call(train, table, "-s", "w", "-t", "f", "-o", tmp_path / "1", *settings)
    found = call(translate, tmp_path / "1", given).stdout.split()
    assert found == ["taΩatt", "Ωattaen", "tatatΩ", "taattaa", "tatat", "tattaÅ"]


SIZES = {"decoder": {"embeddings": {"embedding_dim": 6}}, "encoder": {"embeddings": {"embedding_dim": 6}}}
SLOW = {"learning_rate": 1e-9, "learning_rate_min": 1e-12}


def settings_for(base, tmp_path, lines=(), **data):
    """Settings of a run that starts from the model in `base`, on a text of its own."""
    values = load_folder_config(base).to_dict()
    for lang in ((values["data"] | data)[side]["lang"] for side in ("src", "tgt")):
        (tmp_path / f"new.{lang}").write_text("\n".join(lines or sentences(60, seed=4)) + "\n", "utf-8")
    values["model_dir"] = str(tmp_path / "tuned")
    values["data"] |= {"train": str(tmp_path / "new"), "dev": str(tmp_path / "new"), "check": False} | data
    values["training"] |= {"load_model": str(base), "updates": 1}
    return values


@pytest.mark.parametrize(("joint", "tied"), [(True, "all"), (False, "none")])
def test_a_model_with_more_units_translates_and_goes_on(tmp_path, joint, tied):
    base = write_folder(tmp_path / "base", joint=joint, tied=tied, **SIZES)
    lines = [f"{line} žluť qqq" for line in sentences(60, seed=4)]
    values = settings_for(base, tmp_path, lines)
    values["training"] |= {"extend_vocabulary": 6, "freeze": ["decoder.*"], **SLOW}
    said = io.StringIO()
    Trainer(config_from_dict(values), terminal=said).run()
    assert f"; {6 if joint else 12} subwords were added, each the mean" in said.getvalue()
    old, new = load_subwords(base, joint=joint), load_subwords(tmp_path / "tuned", joint=joint)
    assert [one.vocab_size - other.vocab_size for one, other in zip(new, old, strict=True)] == [6, 6]
    before = read_checkpoint(base / "best.safetensors", prefix="params/")[0]
    after = read_checkpoint(tmp_path / "tuned" / "last.safetensors", prefix="params/")[0]
    assert before.keys() == after.keys()
    for name, array in after.items():
        np.testing.assert_allclose(array[tuple(slice(0, n) for n in before[name].shape)], before[name], atol=1e-6)
        if "decoder" in name:
            assert np.array_equal(array, before[name])
    bias = after["params/output.b"]
    assert len(bias) == new[1].vocab_size and np.isfinite(bias).all()
    assert len(Translator.load(tmp_path / "tuned", threads=1).translate(lines[:3])) == 3
    values["training"]["updates"] = 2
    Trainer(config_from_dict(values)).run()  # goes on with the units it has
    assert load_subwords(tmp_path / "tuned", joint=joint)[0].model_bytes == new[0].model_bytes


def test_a_model_of_lower_cased_text_learns_capitals(tmp_path):
    """Target text that was lower-cased no longer is: with units for it; without them it is refused."""
    base = write_folder(tmp_path / "base", tied="all", side={"lowercase": True}, **SIZES)
    values = settings_for(base, tmp_path, [line.title() for line in sentences(60, seed=4)])
    values["data"]["tgt"] = {**values["data"]["tgt"], "lowercase": False}
    values["training"] |= SLOW
    refused(CheckpointError, r"data.tgt.lowercase must be true", Trainer(config_from_dict(values)).run)
    values["training"]["extend_vocabulary"] = 30
    Trainer(config_from_dict(values)).run()
    subwords = load_subwords(tmp_path / "tuned", joint=True)[1]
    capitals = [piece for piece in subwords.pieces(range(48, subwords.vocab_size)) if piece != piece.lower()]
    table = read_checkpoint(tmp_path / "tuned" / "last.safetensors", prefix="params/")[0]["params/embeddings"]
    units = dict(zip(subwords.pieces(range(subwords.vocab_size)), table, strict=True))
    single = [piece for piece in capitals if len(piece) == 1 and piece.lower() in units]
    assert len(single) > 3
    for piece in single:
        np.testing.assert_allclose(units[piece], units[piece.lower()], atol=1e-6)
    assert len(Translator.load(tmp_path / "tuned", threads=1).translate(["Kara Losu"])) == 1


def test_a_model_in_int8_is_not_trained_further(tmp_path):
    base = write_folder(tmp_path / "base", **SIZES)
    small = tmp_path / "small"
    save_quantised(small, load_saved_model(base))
    values = settings_for(small, tmp_path) | {"compute_dtype": "float32"}
    line = f"must be a model in float32 .* got one in int8.* {re.escape(load_folder_config(base).model_dir)}, as"
    refused(CheckpointError, line, lambda: Trainer(config_from_dict(values)).run())


def test_other_languages_than_those_of_the_model_are_a_warning(tmp_path):
    base = write_folder(tmp_path / "base", **SIZES)
    theirs = load_folder_config(base).data
    for lang, count in (("zz", 1), (theirs.src.lang, 0)):
        values = settings_for(base, tmp_path, src={"lang": lang})
        values["model_dir"] = str(tmp_path / f"tuned-{lang}")
        said = io.StringIO()
        Trainer(config_from_dict(values), terminal=said).run()
        line = f"warning: data.src.lang is zz, and {base} was trained with {theirs.src.lang};"
        assert said.getvalue().count(line) == count


@pytest.mark.parametrize("preset", [None, "low-resource"])
def test_texts_alone_train_a_model_further(tmp_path, preset):
    """Languages, settings of the model and of training are those of the model to start from; no preset is chosen."""
    base = write_folder(tmp_path / "base", **SIZES)
    table, dev = tmp_path / "corrections.tsv", tmp_path / "dev.tsv"
    for file in (table, dev):
        file.write_text("".join(f"{line}\t{line}\n" for line in sentences(3, seed=4)), "utf-8")
    values = {"src": table, "dev": dev, "output": tmp_path / "tuned", "preset": preset, "progress": False}
    changes = {"training.load_model": str(base), "training.updates": 2, "data.check": False}
    if preset is not None:
        refused(ConfigError, "preset: must be omitted with training.load_model", nmt.train, **values, changes=changes)
        return
    nmt.train(**values, changes=changes)
    config, theirs = load_folder_config(tmp_path / "tuned"), load_folder_config(base)
    assert (config.data.src.lang, config.data.tgt.lang, config.preset) == ("xx", "yy", None)
    assert config.model == theirs.model and config.training.updates == 2
    assert config.training.learning_rate == theirs.training.learning_rate / 10
    nmt.train(**values, changes=changes)  # the same goes on
