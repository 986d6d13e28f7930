"""Each file of a model is opened once by the command that uses the model."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from nmt.cli.commands.score import score
from nmt.cli.commands.translate import translate
from nmt.errors import CheckpointError
from nmt.inference.translator import Translator
from nmt.serve.models import load_models
from nmt.serve.settings import ServerSettings
from nmt.storage.saved_model import load_saved_model, save_bundle
from tests.cli.test_cli_models import call
from tests.refusals import refused
from tests.saved_models import write_folder

MODEL_FILES = {"config.yaml", "best.safetensors", "src.spm", "tgt.spm", "joint.spm"}


class Opens:
    """Counts the opens of files by this process while `where` is a folder that they lie in."""

    def __init__(self):
        self.where, self.counts = None, Counter()
        sys.addaudithook(self._hear)

    def _hear(self, event, arguments):
        if self.where is not None and event == "open" and str(arguments[0]).startswith(str(self.where)):
            self.counts[Path(str(arguments[0])).relative_to(self.where)] += 1

    def during(self, where, action):
        """Return how often each file under `where` was opened while `action` ran, without its outputs."""
        self.where, self.counts = where, Counter()
        try:
            action()
        finally:
            self.where = None
        return {str(path): n for path, n in self.counts.items() if path.name in MODEL_FILES or path.suffix == ".nmt"}


OPENS = Opens()  # a hook of the interpreter cannot be removed: there is one for all tests


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return a folder with two translators of the same subwords and a bundle."""
    where = tmp_path_factory.mktemp("once")
    first = write_folder(where / "first")
    write_folder(where / "second", seed=1)
    save_bundle(where / "bundle.nmt", load_saved_model(first))
    (where / "text").write_text("kara losu\n")
    return where


def test_translate_with_every_kind_of_model(models, tmp_path):
    words = [models / "first", models / "text", "-o", tmp_path / "out", "--resume", "--threads", "1"]
    for resumed in range(2):
        found = OPENS.during(models, lambda: call(translate, *words, "--ensemble", models / "second"))
        assert set(found.values()) == {1}, (resumed, found)
        assert {str(Path(path).parent) for path in found} == {"first", "second"}


def test_translate_a_folder_with_a_bundle(models, tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a").write_text("kara\n")
    out = tmp_path / "out"
    found = OPENS.during(models, lambda: call(translate, models / "bundle.nmt", tmp_path / "texts", "-o", out))
    assert found == {"bundle.nmt": 1}


def test_score(models):
    (models / "same").write_text("kara losu\n")
    texts = "--src", models / "text", "--tgt", models / "same"
    found = OPENS.during(models, lambda: call(score, models / "first", *texts, "--threads", "1"))
    assert found and set(found.values()) == {1}, found


def test_a_server_loading_and_reloading(models):
    settings = ServerSettings((models / "first",), threads=1)
    for _ in range(2):
        found = OPENS.during(models, lambda: load_models(settings).close())
        assert found and set(found.values()) == {1}, found


@pytest.mark.parametrize("changed", ["first", "second"])
def test_every_model_in_use_is_checked_for_changes(changed, tmp_path):
    first = write_folder(tmp_path / "first")
    write_folder(tmp_path / "second", seed=1)
    one = Translator.load(first, threads=1)
    both = one.together_with([Translator.load(tmp_path / "second", threads=1)], "log_prob")
    both.translate(["kara"])
    path = tmp_path / changed / "best.safetensors"
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.write(whole + b"\0")
    refused(CheckpointError, f"{changed}/best.safetensors: must not change", both.translate, ["kara"])
