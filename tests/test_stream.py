"""Streams of greedy translations, and models that are saved from Python."""

import logging
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from nmt import Translator
from nmt.data.tokens.subwords import train_subwords
from nmt.decode import Session
from nmt.errors import CheckpointError, ConfigError, DeviceError, PathError
from nmt.inference.translation import MAX_SOURCE_SUBWORDS, UNSAYABLE
from nmt.inference.translator import TypingSession
from nmt.storage.saved_model import load_saved_model, save_quantised
from tests.saved_models import sentences, write_folder, write_language_folder

LINES = sentences(12, seed=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("stream") / "model")


@pytest.fixture(scope="module")
def translator(folder):
    return Translator.load(folder, threads=1)


# ---------------------------------------------------------------- streams


@pytest.mark.parametrize("settings", [{}, {"min_length": 4}, {"repetition_penalty": 2.0}, {"no_repeat_ngram_size": 1}])
def test_pieces_are_the_greedy_translation(settings, translator):
    several = 0
    for line in LINES:
        pieces = list(translator.stream(line, **settings))
        assert "".join(pieces) == translator.translate(line, beam_size=1, **settings)
        assert all(pieces)
        several += len(pieces) > 2
    assert several


def test_a_configured_beam_does_not_matter(translator):
    other = Translator.load(translator.place, threads=1)
    other.config = other.config.with_changes({"decoding.beam_size": 7, "decoding.mbr": "chrf"})
    assert list(other.stream(LINES[0])) == list(translator.stream(LINES[0]))


def test_a_language_model_is_fused_in(translator, tmp_path):
    write_language_folder(tmp_path / "lm", translator.tgt_subwords)
    fused = Translator.load(translator.place, threads=1, lm=tmp_path / "lm")
    for weight in (None, 0.9):
        expected = fused.translate(LINES, beam_size=1, lm_weight=weight)
        assert ["".join(fused.stream(line, lm_weight=weight)) for line in LINES] == expected


def test_a_blank_sentence_has_no_pieces(translator):
    assert list(translator.stream("  ")) == []


def test_streams_run_at_once(translator):
    expected = translator.translate(LINES, beam_size=1)
    with ThreadPoolExecutor(4) as callers:
        assert list(callers.map(lambda line: "".join(translator.stream(line)), LINES)) == expected
    streams = [translator.stream(line) for line in LINES[:3]]
    next(streams[0])  # one is left in the middle, and does not disturb the others
    assert ["".join(one) for one in streams[1:]] == expected[1:3]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"beam_size": 2}, ConfigError, "decoding.beam_size: must be 1 for a stream, got 2; .* call translate"),
        ({"mbr": "bleu"}, ConfigError, "decoding.mbr: must be none for a stream, got bleu"),
        ({"sampling": True}, ConfigError, "decoding.sampling: must be .* for a session"),
        ({"shortlist": True}, ConfigError, "shortlist: must be learnt before it is used"),
        ({"n_best": 2}, TypeError, "settings must be those of SearchSettings, got n_best"),
        ({"greedy": True}, TypeError, "settings must be those of SearchSettings, got greedy"),
        ({"beam": 2}, TypeError, "settings must be those of SearchSettings, got beam; did you mean"),
    ],
)
def test_what_streams_lack_is_said_at_once(settings, error, message, translator):
    with pytest.raises(error, match=message):
        translator.stream(LINES[0], **settings)
    with pytest.raises(TypeError, match="sentence must be one string, got list"):
        translator.stream(LINES)


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_pieces_never_have_to_be_taken_back(kind):
    """The text of the first tokens is the beginning of the whole text, whatever the tokens are."""
    text = ["ein Häuschen , zwei Häuser", "日本 語 ein", "zwei  ein-zwei", "größer \u0301 e\u0301"] * 30
    subwords = train_subwords(text, type=kind, vocab_size=30)
    session = object.__new__(TypingSession)
    session._is_cut = False
    draw = random.Random(3)
    for _ in range(300):
        ids = [draw.randrange(subwords.vocab_size) for _ in range(draw.randrange(1, 9))]
        steps = subwords.decode([ids[:count] for count in range(1, len(ids) + 1)])
        assert "".join(session._pieces(iter(steps))) == steps[-1]


def test_an_incomplete_character_waits_for_its_bytes():
    session = object.__new__(TypingSession)
    session._is_cut = False
    assert list(session._pieces(iter(["a\ufffd", "a\ufffd\ufffd", "aé b", "aé b"]))) == ["a", "é b"]


def test_warnings_are_those_of_translating(translator, caplog):
    for line in ("kara " * (MAX_SOURCE_SUBWORDS + 5), LINES[0]):
        warned = []
        for ask in (partial(translator.translate, beam_size=1), lambda text: list(translator.stream(text))):
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                ask(line)
            warned.append([record.getMessage() for record in caplog.records])
        assert warned[0] == warned[1]
    session = object.__new__(TypingSession)
    session._is_cut = False
    caplog.clear()
    assert list(session._pieces(iter([]))) == []  # the search has found nothing
    assert [record.getMessage() for record in caplog.records] == [f"warning: {UNSAYABLE} (line 1)"]


def test_a_gpu_has_no_stream(translator, monkeypatch):
    monkeypatch.setattr(type(translator.model.device), "is_cpu", property(lambda self: False))
    with pytest.raises(DeviceError, match="session: must run on the processor"):
        Session(translator.model, [4])


# ---------------------------------------------------------------- saving


@pytest.mark.parametrize("name", ["copy", "copy.nmt"])
def test_a_saved_model_translates_alike(name, folder, translator, tmp_path):
    translator.save(tmp_path / name)
    again = Translator.load(tmp_path / name, threads=1)
    assert again.translate(LINES) == translator.translate(LINES)
    again.save(tmp_path / "third")  # and from a file, too
    third = load_saved_model(tmp_path / "third")
    first = load_saved_model(folder)
    assert third.params.keys() == first.params.keys()
    assert all(np.array_equal(third.params[key], first.params[key]) for key in first.params)
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
        with pytest.raises(CheckpointError, match=f"{name}: must be .*new"):
            translator.save(tmp_path / name)
    with pytest.raises(PathError, match="Translator.save: must be the name of a file or folder, got an empty one"):
        translator.save("")
    with pytest.raises(CheckpointError, match="missing"):
        translator.save(tmp_path / "missing" / "file.nmt")
    pair = translator.together_with([translator], "prob")
    with pytest.raises(CheckpointError, match="Translator.save: must have one model .* got 2"):
        pair.save(tmp_path / "pair")
    in_memory = Translator(translator.model, translator.src_subwords, translator.tgt_subwords, translator.config)
    with pytest.raises(CheckpointError, match="Translator.save: must have one model .* got 0"):
        in_memory.save(tmp_path / "memory")


def test_a_file_that_was_replaced_is_not_saved(tmp_path):
    found = Translator.load(write_folder(tmp_path / "one"), threads=1)
    other = write_folder(tmp_path / "other", seed=1) / "best.safetensors"
    other.rename(tmp_path / "one" / "best.safetensors")
    with pytest.raises(CheckpointError, match="must have the parameters of the model, got others; load it again"):
        found.save(tmp_path / "copy")
    (tmp_path / "one" / "best.safetensors").unlink()
    with pytest.raises(CheckpointError, match="no such file"):
        found.save(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
