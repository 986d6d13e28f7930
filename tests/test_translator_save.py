"""Models that are saved from Python."""

import pytest

from nmt import Translator
from nmt.errors import CheckpointError, PathError
from nmt.storage.saved_model import load_saved_model, save_quantised
from tests.oracle.compare import assert_same_bits
from tests.refusals import refused
from tests.saved_models import sentences, write_folder

LINES = sentences(12, seed=8)


@pytest.mark.parametrize("name", ["copy", "copy.nmt"])
def test_a_saved_model_translates_alike(name, folder, translator, tmp_path):
    translator.save(tmp_path / name)
    again = Translator.load(tmp_path / name, threads=1)
    assert again.translate(LINES) == translator.translate(LINES)
    again.save(tmp_path / "third")  # and from a file, too
    third, first = load_saved_model(tmp_path / "third"), load_saved_model(folder)
    assert_same_bits(third.params, first.params)
    assert third.scores == first.scores


def test_changed_settings_are_saved(translator, tmp_path):
    changed = Translator.load(translator.place, threads=1)
    changed.config = changed.config.with_changes({"decoding.beam_size": 2})
    for name in ("folder", "file.nmt"):
        changed.save(str(tmp_path / name))
        assert Translator.load(tmp_path / name).config.decoding.beam_size == 2


def test_an_int8_model_stays_one(folder, tmp_path):
    save_quantised(tmp_path / "int8", load_saved_model(folder))
    quantised = Translator.load(tmp_path / "int8", threads=1)
    for name in ("copy", "copy.nmt"):
        quantised.save(tmp_path / name)
        again = Translator.load(tmp_path / name, threads=1)
        assert again.config.compute_dtype == "int8" and again.translate(LINES) == quantised.translate(LINES)
        assert (tmp_path / "int8" / "best.safetensors").stat().st_size > 0
    Translator.load(folder, compute_dtype="int8").save(tmp_path / "float")  # the file has float32, and so has the copy
    assert Translator.load(tmp_path / "float").translate(LINES) == Translator.load(folder).translate(LINES)


def test_what_cannot_be_saved_is_said(folder, translator, tmp_path):
    for name in ("there.nmt", "there"):
        translator.save(tmp_path / name)
        refused(CheckpointError, f"{name}: must be .*new", translator.save, tmp_path / name)
    refused(PathError, "Translator.save: must be the name of a file or folder, got an empty one", translator.save, "")
    refused(CheckpointError, "missing", translator.save, tmp_path / "missing" / "file.nmt")
    pair = translator.together_with([translator], "prob")
    refused(CheckpointError, "Translator.save: must have one model .* got 2", pair.save, tmp_path / "pair")
    in_memory = Translator(translator.model, translator.src_subwords, translator.tgt_subwords, translator.config)
    refused(CheckpointError, "Translator.save: must have one model .* got 0", in_memory.save, tmp_path / "memory")


def test_a_file_that_was_replaced_is_not_saved(tmp_path):
    found = Translator.load(write_folder(tmp_path / "one"), threads=1)
    (write_folder(tmp_path / "other", seed=1) / "best.safetensors").replace(tmp_path / "one" / "best.safetensors")
    line = "must have the parameters of the model, got others; load it again"
    refused(CheckpointError, line, found.save, tmp_path / "copy")
    (tmp_path / "one" / "best.safetensors").unlink()
    refused(CheckpointError, "no such file", found.save, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
