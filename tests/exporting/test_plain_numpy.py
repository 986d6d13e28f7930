"""The exported page of NumPy says what the model says."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.exporting.plain_numpy import Model
from nmt.exporting.to_numpy import save_numpy
from nmt.inference.pipeline import source_ids, target_ids
from nmt.storage.saved_model import load_saved_model
from tests.importing.checks import imported
from tests.importing.marian_files import Marian
from tests.importing.packages import WORDS, save_e2k
from tests.importing.test_toolkits import PAIRS, Joey, OpenNMT


def exported(folder, translator):
    """The page of a model folder, after its scores of some pairs were compared with the translator's."""
    save_numpy(folder / "out", load_saved_model(folder / "model"))
    page = Model(folder / "out")
    for src, tgt in PAIRS:
        (detail,) = translator.score([src], [tgt])
        ids = source_ids(translator, [src])[0], target_ids(translator, [tgt])[0]
        np.testing.assert_allclose(page.score(*ids), detail.log_probs, atol=1e-4)
    return page


@pytest.mark.parametrize(("witness", "name"), [(OpenNMT, "mlp"), (Joey, "last"), (Marian, "deep")])
def test_scores_and_greedy_translations_are_the_models(tmp_path, witness, name):
    translator = imported(witness(name).save(tmp_path), tmp_path / "model")
    page = exported(tmp_path, translator)
    sources = [src for src, _ in PAIRS]
    for src, ids, text in zip(
        sources, source_ids(translator, sources), translator.translate(sources, beam_size=1), strict=True
    ):
        assert translator.tgt_subwords.decode([page.translate(ids)])[0] == text, src


def test_the_folder_runs_by_itself(tmp_path):
    translator = imported(save_e2k(tmp_path), tmp_path / "model")
    save_numpy(tmp_path / "out", load_saved_model(tmp_path / "model"))
    lines = "".join(" ".join(word.lower()) + "\n" for word in WORDS[:3])
    page = [sys.executable, "-I", str(tmp_path / "out" / "plain_numpy.py")]
    done = subprocess.run(page, input=lines, capture_output=True, text=True, check=True)
    assert [line.replace(" ", "") for line in done.stdout.splitlines()] == translator.translate(WORDS[:3])
    assert "nmt" not in (tmp_path / "out" / "plain_numpy.py").read_text().replace("nmt-export", "")


def test_what_the_page_does_not_know_is_one_line(tmp_path):
    imported(OpenNMT("mlp").save(tmp_path), tmp_path / "model")
    saved = load_saved_model(tmp_path / "model")
    for side, change, message in (
        ("encoder", {"rnn_type": "sru"}, "model.encoder.rnn_type must be lstm or gru"),
        ("decoder", {"copy_source": True}, "model.decoder.copy_source must be false for the page of NumPy, got true"),
        ("decoder", {"edit_actions": True}, "model.decoder.edit_actions must be false for the page of NumPy, got true"),
    ):
        changed = getattr(saved.config.model, side).model_copy(update=change)
        model = saved.config.model.model_copy(update={side: changed})
        other = replace(saved, config=saved.config.model_copy(update={"model": model}))
        with pytest.raises(CheckpointError, match=message):
            save_numpy(tmp_path / "out", other)
    assert not (tmp_path / "out").exists()
