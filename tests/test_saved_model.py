"""Model folders and the file that nmt-bundle makes of one: the same model, and one line where there is none."""

import errno
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from nmt import Translator
from nmt.decode import Shortlist
from nmt.errors import CheckpointError, ConfigError, NMTError, NMTWarning
from nmt.inference.translation import UNSAYABLE
from nmt.storage import model_folder
from nmt.storage.model_folder import find_checkpoint, load_subwords, model_files, save_tensors, shortlist_tensors
from nmt.storage.saved_model import load_saved_model, save_bundle, save_folder
from nmt.storage.tensor_file import map_tensors, write_tensors
from tests.refusals import refused
from tests.saved_models import WORDS, calibrate, sentences, write_folder
from tests.settings import changed
from tests.small_models import batch_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = write_folder(tmp_path_factory.mktemp("saved") / "model")
    saved = load_saved_model(found)
    every = np.arange(saved.tgt_subwords.vocab_size, dtype=np.int32)
    shortlist = Shortlist(np.minimum(np.arange(len(every) + 1), 5) * 3, every[:15], every[4:30], len(every))
    digest = model_folder.subwords_digest(saved.src_subwords, saved.tgt_subwords)
    save_tensors(found / "shortlist.safetensors", shortlist_tensors(shortlist), {"subwords": digest})
    calibrate(found)
    return found


@pytest.fixture(scope="module")
def bundle(folder):
    path = folder.parent / "model.nmt"
    save_bundle(path, load_saved_model(folder))
    return path


def test_confidence_goes_with_the_model_and_is_learned_once(folder, bundle, tmp_path):
    lines = [*sentences(20, seed=5), "", "kara losu"]
    one = Translator.load(folder, threads=1)
    for place in (bundle, tmp_path / "copy"):
        if place != bundle:
            save_folder(place, load_saved_model(bundle))
        other = Translator.load(place, threads=1)
        assert other.novelty(lines) == one.novelty(lines)
        for (own, *_), (mine, *_), line in zip(
            one.translate_nbest(lines), other.translate_nbest(lines), lines, strict=True
        ):
            assert own == mine and (own.chance is None) == (not line)
            assert own.confidence == pytest.approx(1.0 if not line else own.chance)
    assert own.unseen == () and set(one.novelty(lines).words) == set(WORDS[1::2])
    assert one.novelty(lines).is_strange is not one.novelty(WORDS[::2]).is_strange is False
    assert replace(own, warnings=(UNSAYABLE,)).confidence == 0


def test_two_vocabularies(tmp_path):
    folder = write_folder(tmp_path / "m", joint=False)
    save_bundle(tmp_path / "m.nmt", load_saved_model(folder))
    lines = sentences(9, seed=5)
    content = map_tensors(tmp_path / "m.nmt")[1]
    assert content["subwords"] == load_saved_model(folder).content["subwords"]
    assert content["scores"] == load_saved_model(folder).scores == {"bleu": 1.5, "update": 8}
    with pytest.raises(CheckpointError, match="must be a new file, got one that is there"):
        save_bundle(tmp_path / "m.nmt", load_saved_model(folder))
    assert model_files(tmp_path / "m.nmt") == [tmp_path / "m.nmt"] and model_files(tmp_path / "other") == []
    assert {path.name for path in model_files(folder)} == {"best.safetensors", "config.yaml", "src.spm", "tgt.spm"}
    found = Translator.load(tmp_path / "m.nmt", threads=1)
    assert found.src_subwords.vocab_size != found.tgt_subwords.vocab_size
    assert found.translate(lines) == Translator.load(folder, threads=1).translate(lines)


def test_parameters_are_those_of_the_map(bundle):
    saved = load_saved_model(bundle)
    for name, param in saved.build().params.items():
        assert np.shares_memory(param, saved.params[f"params/{name}"])


def rewritten(bundle, path, *, tensors=None, content=None):
    """A bundle whose checksums are right, with other tensors or content."""
    old, said = map_tensors(bundle)
    kept = {name: array for name, array in (old | (tensors or {})).items() if array is not None}
    write_tensors(path, kept, said | (content or {}))
    return path


CONTENT = {"no config": {"config": None}, "a list for a config": {"config": [1]}, "no bundle": {"kind": "x"}}
CONFIG = {
    "code of others": ("model.encoder.rnn_type", "os.system"),
    "far too many layers": ("model.decoder.num_layers", 10**9),
    "too wide": ("model.encoder.hidden_size", 10**12),
    "another width": ("model.encoder.hidden_size", 2),
    "another cell": ("model.encoder.rnn_type", "gru"),
    "no such setting": ("model.encoder.colour", "red"),
    "other subwords": ("data.subwords.joint", False),
}
TOO_LARGE = {
    "within what settings allow": ("model.encoder.hidden_size", 60_000),
    "an attention within that": ("model.decoder.attention_size", 60_000),
    "layers within that": ("model.decoder.num_layers", 90),
}
CONFIG |= TOO_LARGE
TENSORS = {
    "no subwords": {"subwords/joint": None},
    "broken subwords": {"subwords/joint": np.arange(99, dtype=np.uint8)},
    "empty subwords": {"subwords/joint": np.zeros(0, np.uint8)},
    "a parameter too few": {"params/output.b": None},
    "a parameter too many": {"params/x": np.ones(2, "f4")},
    "another shape": {"params/output.b": np.ones(7, "f4")},
    "half a shortlist": {"shortlist/tokens": None},
    "tokens beyond the vocabulary": {"shortlist/always": np.array([48], "i4")},
    "negative tokens": {"shortlist/always": np.array([-1], "i4")},
    "starts of others": {"shortlist/starts": np.array([0, 99])},
    "two axes": {"shortlist/starts": np.zeros((2, 2), np.int64)},
    "falling starts": {"shortlist/starts": np.array([0, 20, 15])},
    "floats": {"shortlist/tokens": np.ones(15, "f4")},
    "half a calibration": {"confidence/words": None},
    "other features": {"confidence/weights": np.ones(3)},
    "no weights": {"confidence/weights": np.full(6, np.nan)},
    "no units": {"confidence/units": np.zeros(0, "u4"), "confidence/sizes": np.zeros(0, "u1")},
}


@pytest.mark.parametrize("case", [*CONTENT, *CONFIG, *TENSORS])
def test_hostile_bundles_with_right_checksums_are_one_line(case, bundle, tmp_path):
    path = tmp_path / "hostile.nmt"
    if case in CONTENT:
        rewritten(bundle, path, content=CONTENT[case])
    elif case in CONFIG:
        rewritten(bundle, path, content={"config": changed(map_tensors(bundle)[1]["config"], [CONFIG[case]])})
    else:
        rewritten(bundle, path, tensors=TENSORS[case])
    told = refused(NMTError, "", Translator.load, path)
    assert told.startswith(f"{path}: ")
    assert ("got none that large" in told) == (case in TOO_LARGE), "before it costs memory"


def test_checkpoints_and_other_files_are_no_bundles(folder, bundle, tmp_path, monkeypatch):
    refused(CheckpointError, "give its folder", Translator.load, folder / "best.safetensors")
    (tmp_path / "text").write_text("hello, this is no model at all\n")
    refused(CheckpointError, "got another file; check the path", Translator.load, tmp_path / "text")
    refused(CheckpointError, "leave it out", Translator.load, bundle, checkpoint="last")
    assert load_saved_model(bundle, checkpoint="best").path == bundle
    (tmp_path / "cut.nmt").write_bytes(bundle.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="must be a whole checkpoint, got a damaged or truncated file"):
        Translator.load(tmp_path / "cut.nmt")
    monkeypatch.setattr(Path, "open", lambda self, mode: os.open(tmp_path / "missing", os.O_RDONLY))
    with pytest.raises(CheckpointError, match=f"text: must be readable, got {os.strerror(errno.ENOENT).lower()}"):
        Translator.load(tmp_path / "text")


def test_other_subwords_are_noticed_before_they_are_read(tmp_path, monkeypatch):
    """sentencepiece interprets bytes in C++: only those that the model was trained with come there."""
    folder = write_folder(tmp_path / "m")
    (folder / "joint.spm").write_bytes(b"\x0a\xff\xff\xff\xff\x0f")
    refused(CheckpointError, r"restore the \.spm files", Translator.load, folder)
    line = r"joint\.spm: must be a subword model, got a damaged file \(.*; restore a"
    refused(CheckpointError, line, load_subwords, folder, joint=True)

    refusal = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    monkeypatch.setattr(Path, "read_bytes", Mock(side_effect=refusal))
    refused(CheckpointError, r"joint\.spm: must be readable, got permission denied", load_subwords, folder, joint=True)
    (folder / "joint.spm").unlink()
    refused(CheckpointError, "no such file, the subwords of the model", load_subwords, folder, joint=True)


def test_a_shortlist_of_other_subwords_is_refused(tmp_path):
    folder = write_folder(tmp_path / "m")
    empty = Shortlist(*([np.zeros(1, "i8")] + [np.zeros(0, "i4")] * 2), 9)
    save_tensors(folder / "shortlist.safetensors", shortlist_tensors(empty), {})
    refused(CheckpointError, "nmt-shortlist, or remove it", Translator.load, folder)


def test_what_is_not_there_is_said_when_it_is_asked_for(tmp_path):
    translator = Translator.load(write_folder(tmp_path / "m"), threads=1)
    refused(NMTError, "run nmt-shortlist", translator.translate, ["kara"], shortlist=True)


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_translator_notices_that_its_file_was_written_into_if_it_is_mapped(tmp_path, is_whole):
    folder = write_folder(tmp_path / "model")
    translator = Translator.load(folder, threads=1, share=not is_whole)
    expected = translator.translate(["kara"])
    os.utime(folder / "best.safetensors", ns=(1, 1))  # as after a write
    if is_whole:
        assert translator.translate(["kara"]) == expected
    else:
        refused(CheckpointError, "got one that was modified; reload the model", translator.translate, ["kara"])


def test_scores_are_those_of_the_best_validation_whoever_has_kept_them(folder, bundle):
    saved = load_saved_model(folder)
    assert saved.scores == load_saved_model(bundle).scores == {"bleu": 1.5, "update": 8}
    for content, expected in (
        ({"state": {"update": 9, "best_update": 4, "best_scores": {"ppl": 2.0}}}, {"ppl": 2.0, "update": 4}),
        ({"state": {"update": 9, "best_update": 0, "best_scores": {}}}, {"update": 9}),
        ({"state": {"update": 9}, "scores": {"bleu": 3.0, "update": 7}}, {"bleu": 3.0, "update": 9}),
        ({"scores": None}, {"update": None}),
        ({}, {"update": None}),
    ):
        assert replace(saved, content=content).scores == expected


def test_the_digest_is_of_all_that_translations_depend_on(folder, bundle):
    saved = load_saved_model(folder)
    own = saved.shortlist
    others = [
        {"shortlist": None},
        {"shortlist": Shortlist(own.starts, own.tokens, np.arange(4, 31, dtype=np.int32), own.vocab_size)},
        {"config": saved.config.with_changes({"data.tgt.lowercase": True})},
        {"content": {"checksums": saved.content["checksums"] | {"params/output.b": 3}}},
    ]
    assert len({saved.digest, *[replace(saved, **change).digest for change in others]}) == 1 + len(others)
    assert load_saved_model(bundle).digest == saved.digest
    assert replace(saved, content={"checksums": saved.content["checksums"] | {"optimizer/m": 3}}).digest == saved.digest


def test_what_is_known_of_a_checkpoint_goes_with_the_model(folder, tmp_path):
    saved = load_saved_model(folder)
    known = {"quantization": {"numbers": "int8"}, "averaged": ["a"], "cells": {"own.Cell": "x"}, "seen": "y"}
    saved.content.update(known)
    save_folder(tmp_path / "folder", saved)
    save_bundle(tmp_path / "one.nmt", saved)
    save_bundle(tmp_path / "again.nmt", load_saved_model(tmp_path / "one.nmt"))
    for place in (tmp_path / "folder", tmp_path / "one.nmt", tmp_path / "again.nmt"):
        found = load_saved_model(place)
        assert {**found.content, **known} == found.content and found.scores == saved.scores


def test_a_cell_that_was_edited_since_the_training_is_told(folder, monkeypatch):
    monkeypatch.setattr("nmt.storage.saved_model.edited_cells", lambda config, cells: ["my_cells.MyCell"])
    with pytest.warns(NMTWarning, match=r"safetensors: my_cells\.MyCell has been edited since the training; what was"):
        load_saved_model(folder).build()


def test_a_model_larger_than_memory_is_one_line(folder, monkeypatch):
    monkeypatch.setattr("nmt.storage.model_folder.build_model", Mock(side_effect=MemoryError))
    refused(CheckpointError, "got sizes larger than any memory", load_saved_model(folder).build)


def test_parameters_are_copied_unless_a_model_may_have_them(folder):
    saved = load_saved_model(folder)
    model = model_folder.build_model(saved.config, saved.src_subwords.vocab_size, saved.tgt_subwords.vocab_size)
    batch = batch_of([([4, 5], [6])])
    before = model.loss(batch, threads=1).nll
    model_folder.set_params(model, saved.params, saved.path)
    assert before != model.loss(batch, threads=1).nll == saved.build().loss(batch, threads=1).nll
    for name, param in model.params.items():
        stored = saved.params[f"params/{name}"]
        np.testing.assert_array_equal(param, stored)
        assert not np.shares_memory(param, stored)


def test_a_model_in_use_is_opened_again_with_other_facts_while_its_file_has_its_parameters(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    loaded = load_saved_model(tmp_path / "model").load()
    again = loaded.reopened(shortlist=None)
    assert again.shortlist is None and again.digest != loaded.digest
    for name, param in loaded.network.params.items():
        np.testing.assert_array_equal(again.params[f"params/{name}"], param)
    tensors, content = map_tensors(loaded.path)
    write_tensors(loaded.path, {name: array + 1 for name, array in tensors.items()}, content)
    refused(CheckpointError, "must have the parameters of the model, got others; load it again", loaded.reopened)


def test_numbered_checkpoints_are_found_the_newest_first(tmp_path):
    for name in (None, "best-5"):
        with pytest.raises(CheckpointError, match=r"must contain best\.safetensors or last\.safetensors, got neither"):
            find_checkpoint(tmp_path, name)
    for name in ("best", "best-5", "best-40", "best-x", "best-", "last-7", "last", "other-3"):
        (tmp_path / f"{name}.safetensors").touch()
    (tmp_path / "best-6.txt").touch()
    assert model_folder.checkpoint_names(tmp_path) == ["best", "last", "best-40", "best-5", "last-7"]
    assert find_checkpoint(tmp_path, "best-5") == model_folder.numbered_checkpoint(tmp_path, "best", 5)
    assert model_folder.numbered_checkpoint(tmp_path, "best", 5) == tmp_path / "best-5.safetensors"
    with pytest.raises(CheckpointError, match="got best, last, best-40, best-5, last-7; name one of these"):
        find_checkpoint(tmp_path, "best-6")


@pytest.mark.skipif(sys.platform == "win32", reason="files have no inodes there")
@pytest.mark.parametrize("joint", [False, True])
def test_all_files_of_a_folder_are_on_the_disk_before_it_appears(joint, tmp_path, monkeypatch):
    saved = load_saved_model(write_folder(tmp_path / "model", joint=joint))
    shortlist = Shortlist(*([np.zeros(1, "i8")] + [np.zeros(0, "i4")] * 2), saved.tgt_subwords.vocab_size)
    synced, sync = set(), os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.add(os.fstat(file).st_ino), sync(file)))
    save_folder(tmp_path / "new", replace(saved, shortlist=shortlist))
    files = list((tmp_path / "new").iterdir())
    assert len(files) == (4 if joint else 5) and {file.stat().st_ino for file in files} <= synced


FORMER = sorted(path for path in (Path(__file__).parent / "fixtures" / "models").iterdir() if path.name[0].isdigit())
# Log-probabilities are sums of some ten numbers in float32, computed by other instructions on other machines.
CLOSE = 2e-3


def expected(place):
    return json.loads((place / "expected.json").read_text("utf-8"))


@pytest.mark.parametrize("name", ["folder", "bundle.nmt", "int8.nmt"])
@pytest.mark.parametrize("place", FORMER, ids=lambda path: path.name)
def test_a_former_translator_says_what_it_said(place, name):
    known = expected(place)
    found = Translator.load(place / name, threads=1).translate_nbest(known["sources"], n_best=1, beam_size=3)
    assert [best.text for best, *_ in found] == known["translations"][name]
    assert [best.log_prob for best, *_ in found] == pytest.approx(known["log_probs"][name], abs=CLOSE)


@pytest.mark.parametrize("place", FORMER, ids=lambda path: path.name)
def test_a_former_language_model_is_refused_in_one_line(place):
    refused(
        ConfigError, "task is not there any more; all models are translators", Translator.load, place / "language.nmt"
    )


def test_there_are_such_files_and_they_are_small():
    assert FORMER, "the sdist or the checkout lacks tests/fixtures/models"
    for place in FORMER:
        files = [path for path in place.rglob("*") if path.is_file()]
        assert len(files) >= 7 and sum(path.stat().st_size for path in files) < 150_000
