"""Settings that were edited after training: what changes the meaning of parameters is refused, all else is free."""

import errno
import json
import shutil
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import yaml

from nmt import Translator
from nmt.cli.commands.average import average
from nmt.cli.commands.bundle import bundle
from nmt.cli.commands.quantize import quantize
from nmt.cli.commands.translate import translate
from nmt.config import config_from_dict, dump_config, load_config
from nmt.errors import CheckpointError
from nmt.storage.model_card import model_card, write_card
from nmt.storage.model_folder import build_model, load_folder_config, read_checkpoint, set_params
from nmt.storage.saved_model import load_saved_model, save_bundle, save_quantised
from nmt.storage.tensor_file import write_tensors
from nmt.storage.trained_settings import Difference, differences
from nmt.train.checkpoints.checkpoint import save_average
from nmt.train.checkpoints.resume import compare_settings
from tests.cli.test_cli_models import call
from tests.oracle.compare import assert_same_bits
from tests.refusals import refused
from tests.saved_models import sentences, write_folder
from tests.settings import changed, leaves


@pytest.fixture
def folder(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "model")


def edit(folder, key, value):
    """Change one key of a folder's config.yaml."""
    former = load_config(folder / "config.yaml")
    new = config_from_dict(changed(former.to_dict(), [(key, value)]))
    assert new != former, "this changes nothing"
    (folder / "config.yaml").write_text(dump_config(new), "utf-8")
    return folder


BOUND = {
    "model.encoder.embeddings.scale": True,
    "model.decoder.embeddings.scale": True,
    "data.src.lowercase": True,
    "data.tgt.lowercase": True,
    "data.src.normalize": "nfkc",
    "data.tgt.normalize": "none",
    "model.decoder.attention": "general",
    "model.decoder.residual": True,
    "model.decoder.init_hidden": "last",
    "model.encoder.rnn_type": "gru",
    "model.encoder.num_layers": 2,
    "model.decoder.input_feeding": False,
    "model.encoder.max_positions": 99,
    "data.subwords.joint": False,
}
FREE = {
    "name": "another",
    "seed": 7,
    "threads": 2,
    "device": "auto",
    "compute_dtype": "bfloat16",
    "model_dir": "elsewhere",
    "data.train": "elsewhere/train",
    "data.dev": "elsewhere/dev",
    "data.test": "elsewhere/test",
    "data.src.lang": "other",
    "data.src.max_length": 7,
    "data.subwords.vocab_size": 99,
    "data.subwords.character_coverage": 0.99,
    "model.encoder.dropout": 0.5,
    "model.encoder.embeddings.dropout": 0.5,
    "model.decoder.hidden_dropout": 0.5,
    "model.decoder.variational_dropout": True,
    "model.initializer": "uniform",
    "model.init_weight": 0.3,
    "model.forget_bias": 0.0,
    "training.optimizer": "sgd",
    "training.batch_size": 5,
    "decoding.beam_size": 3,
    "decoding.batch_size": 3,
    "decoding.length_penalty": "none",
}
NOISE = {
    "model.encoder.variational_dropout": True,
    "model.decoder.dropout": 0.5,
    "model.decoder.embeddings.dropout": 0.5,
}
# With these alone the settings are valid no more, so that nobody comes to comparing them.
NEED_OTHERS = {"model.encoder.max_positions"}


@pytest.mark.parametrize("key", sorted(BOUND.keys() - NEED_OTHERS))
def test_what_gives_parameters_their_meaning_must_stay(key, folder):
    """Resuming refuses what loading does."""
    former = load_folder_config(folder).to_dict()
    before = leaves(former)[key]
    edited = load_folder_config(edit(folder, key, BOUND[key])).to_dict()
    refused(CheckpointError, f"{key} must stay", compare_settings, folder, former, edited)
    told = refused(CheckpointError, "", Translator.load, folder, threads=1)
    before, now = (str(value).lower() for value in (before, BOUND[key]))
    assert told == (
        f"{folder}/config.yaml: {key} must be {before}, which best.safetensors was trained with, got {now}; "
        "set it back, or train a new model with it"
    )


def test_what_does_not_is_free(folder):
    for key, value in FREE.items():
        edit(folder, key, value)
    load_saved_model(folder).build()


def test_every_setting_is_one_or_the_other(folder):
    """A new one of the model is bound unless somebody says that it is free; of other sections it is free."""
    settings = load_folder_config(folder).to_dict()
    others = json.loads(json.dumps(settings), object_hook=lambda section: {k: _other(v) for k, v in section.items()})
    found = {one.key: one.changes_meaning for one in differences(others, settings)}
    assert found.keys() == leaves(settings).keys()
    assert {key for key, bound in found.items() if bound} >= BOUND.keys()
    assert not any(found[key] for key in FREE)
    assert all(bound for key, bound in found.items() if key.startswith("model.") and key not in FREE | NOISE)


def _other(value):
    return value if isinstance(value, dict) else "another"


def test_every_command_says_it(folder, tmp_path):
    edit(folder, "model.encoder.embeddings.scale", True)
    calls = {
        translate: [folder],
        bundle: [folder, "-o", tmp_path / "m.nmt"],
        quantize: [folder, "-o", tmp_path / "int8"],
        average: [folder, *["--checkpoint", folder / "best.safetensors"], "-o", tmp_path / "mean"],
    }
    for command, arguments in calls.items():
        result = call(command, *arguments, given="kara\n", code=1)
        assert result.stdout == "" and result.stderr.count("\n") == 1, command
        assert "model.encoder.embeddings.scale must be false, which best.safetensors was trained with" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"model"}, "nothing is left half done"


def test_what_was_made_of_a_model_remembers_too(folder, tmp_path):
    save_quantised(tmp_path / "int8", load_saved_model(folder))
    save_average(folder, [folder / "best.safetensors"], tmp_path / "mean")
    for made in ("int8", "mean"):
        Translator.load(tmp_path / made, threads=1)
        edit(tmp_path / made, "data.src.lowercase", True)
        with pytest.raises(CheckpointError, match="data.src.lowercase must be false, which best.safetensors was"):
            Translator.load(tmp_path / made)
    save_bundle(tmp_path / "m.nmt", load_saved_model(folder))
    lines = sentences(4, seed=2)
    assert Translator.load(tmp_path / "m.nmt").translate(lines) == Translator.load(folder).translate(lines)


def test_checkpoints_of_other_settings_are_not_averaged(folder, tmp_path):
    other = write_folder(tmp_path / "other", encoder={"embeddings": {"embedding_dim": 4, "scale": True}})
    with pytest.raises(CheckpointError, match=r"scale must be true, which .*other/best.safetensors was"):
        save_average(folder, [folder / "best.safetensors", other / "best.safetensors"], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


@pytest.mark.parametrize("record", [None, 3, [], {}, {"model": 3}, {"model": {"encoder": None}}, "missing"])
def test_a_checkpoint_without_a_record_still_loads(record, folder):
    path = folder / "best.safetensors"
    tensors, content = read_checkpoint(path)
    content["config"] = record
    if record == "missing":
        del content["config"]
    write_tensors(path, tensors, content)
    expected = Translator.load(folder, threads=1).translate(["kara losu"])
    edit(folder, "decoding.batch_size", 3)
    assert Translator.load(folder, threads=1).translate(["kara losu"]) == expected


def test_what_a_record_holds_is_shown_in_one_line(folder):
    path = folder / "best.safetensors"
    tensors, content = read_checkpoint(path)
    content["config"]["model"]["encoder"]["rnn_type"] = "a\nb" * 500
    write_tensors(path, tensors, content)
    assert len(refused(CheckpointError, "", Translator.load, folder)) < 300


def test_all_settings_that_differ_are_named(folder):
    edit(folder, "model.encoder.hidden_size", 7)
    with pytest.raises(CheckpointError, match=r"encoder\.hidden_size must be .*; set it back, or train .* with it$"):
        Translator.load(folder)
    edit(folder, "model.encoder.rnn_type", "gru")
    edit(folder, "data.src.lowercase", True)
    keys = r"src\.lowercase must be .*, and model\.encoder\.hidden_size .*, and model\.encoder\.rnn_type lstm, got gru"
    refused(CheckpointError, rf"{keys}; set them back, or train a new model with them$", Translator.load, folder)


def test_long_values_are_shown_by_their_beginnings():
    assert Difference("x", "a" * 60, [0, 1, 2]).shown == ("a" * 60, "[0, 1, 2]")
    assert Difference("x", 10**59, 10**60).shown == (f"1{59 * '0'}", f"1{56 * '0'}...")
    for text, shown in zip(("a" * 61, list(range(99))), Difference("x", "a" * 61, list(range(99))).shown, strict=True):
        assert len(shown) == 60 and shown.endswith("...") and json.dumps(text).startswith(shown[:-3])


@pytest.mark.parametrize(
    ("before", "now", "bound"),
    [
        ("my_cells.MyCell", "pkg.cells.MyCell", False),
        ("my_cells.MyCell", "my_cells.Other", True),
        ("my_cells.gru", "gru", True),
        ("lstm", "my_cells.lstm", True),
    ],
)
def test_a_cell_may_move_to_another_module(before, now, bound):
    (found,) = differences(*[{"model": {"encoder": {"rnn_type": name}}} for name in (before, now)])
    assert found.changes_meaning is bound and found.shown == (before, now)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"params/output.b": None}, r"must contain output.b \[48\], which the settings require, got no such parameter"),
        ({"params/more": [3, 4]}, r"that the settings require, got 'more' \[3, 4\] too"),
        ({"params/output.b": [7]}, r"must contain output.b as \[48\], which the settings require, got \[7\]"),
    ],
)
def test_parameters_that_do_not_fit_are_named_with_their_shapes(change, words, folder):
    saved = load_saved_model(folder)
    model = build_model(saved.config, saved.src_subwords.vocab_size, saved.tgt_subwords.vocab_size)
    tensors = dict(saved.params)
    for name, shape in change.items():
        tensors.pop(name, None)
        if shape is not None:
            tensors[name] = np.zeros(shape, np.float32)
    before = {name: param.copy() for name, param in model.params.items()}
    assert "None" not in refused(CheckpointError, words, set_params, model, tensors, folder / "best.safetensors")
    assert_same_bits(model.params, before, "nothing is copied unless everything fits:")


def front_matter(text):
    before, front, page = text.split("---\n", 2)
    assert before == ""
    return yaml.safe_load(front), page


def card_of(saved, path, **scores):
    """The two parts of the card of a file of five bytes."""
    path.write_bytes(b"12345")
    saved.content["scores"] = scores
    return front_matter(model_card(saved, path))


def test_a_card_is_written_beside_the_file(folder, tmp_path):
    path = tmp_path / "small.nmt"
    call(bundle, folder, "-o", path, "--card")
    front, page = front_matter((tmp_path / "small.md").read_text("utf-8"))
    assert front["library_name"] == "recurrent-nmt" and front["pipeline_tag"] == "translation"
    assert front["language"] == ["xx", "yy"] and "lstm" in front["tags"]
    saved = load_saved_model(path)
    assert f"{path.stat().st_size:,} bytes" in page and saved.digest in page and "computed in float32" in page
    saved.content["quantization"] = {}
    assert "computed in int8" in model_card(saved, path)
    assert "nmt-translate small.nmt" in page and "**Licence**" in page
    assert "- vocabulary: 48 and 48 units (unigram)" in page
    assert json.loads(page.split("```json\n")[1].split("```")[0])["model"] == saved.config.model.to_dict()
    assert str(folder.parent) not in page
    assert page.index("**Licence**") < page.index("```json"), "what people read comes first"


@pytest.mark.parametrize(("read", "sample"), [(178, "178 of 500 pairs of "), (500, ""), (0, ""), ("all", "")])
def test_scores_say_on_how_many_pairs_they_are(folder, tmp_path, read, sample):
    saved = load_saved_model(folder)
    saved.content["state"] |= {"validation_pairs": read, "dev": [500, 17]}
    front, page = card_of(saved, tmp_path / "m.nmt", bleu=41.0)
    assert f"| on {sample}the validation text |" in page
    assert front["model-index"][0]["results"][0]["dataset"]["name"] == f"{sample}dev"


def test_scores_become_an_index_that_hubs_read(folder, tmp_path):
    saved = load_saved_model(folder)
    front, page = card_of(saved, tmp_path / "m.nmt", update=7, bleu=41.237, ppl=3.0)
    result = front["model-index"][0]["results"][0]
    assert [(one["type"], one["value"]) for one in result["metrics"]] == [("bleu", 41.24), ("ppl", 3.0)]
    assert result["task"] == {"type": "translation"} and result["dataset"]["name"] == "dev"
    assert "| BLEU | 41.24 |" in page and "5 bytes" in page
    front, page = card_of(saved, tmp_path / "m.nmt", update=7)
    assert "model-index" not in front and "None are known." in page


def test_sides_that_are_no_languages_are_not_called_so(folder, tmp_path):
    saved = load_saved_model(folder)
    saved = replace(saved, config=saved.config.with_changes({"data.tgt.lang": "phoneme"}))
    front, page = card_of(saved, tmp_path / "m.nmt")
    assert front["language"] == ["xx"] and "turns `xx` into `phoneme`" in page


def test_a_card_has_no_place_of_the_machine(folder, tmp_path):
    saved = load_saved_model(folder)
    saved = replace(saved, config=saved.config.with_changes({"training.load_model": "/home/me/model"}))
    (tmp_path / "m.nmt").write_bytes(b"12345")
    write_card(tmp_path / "m.md", saved, tmp_path / "m.nmt")
    text = (tmp_path / "m.md").read_text("utf-8")
    assert "/home/me" not in text and '"learning_rate"' in text
    refused(CheckpointError, "m.md: must be a new file", write_card, tmp_path / "m.md", saved, tmp_path / "m.nmt")


def test_a_card_that_cannot_be_written_leaves_no_bundle(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.storage.model_card.write_bytes", Mock(side_effect=OSError(errno.ENOSPC, "full")))
    result = call(bundle, folder, "-o", tmp_path / "m.nmt", "--card", code=1)
    assert "m.md" in result.output and "Traceback" not in result.output
    assert not list(tmp_path.glob("m.*"))
