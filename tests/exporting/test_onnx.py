"""What is exported to ONNX says in ONNX Runtime what the model says."""

import subprocess
import sys

import numpy as np
import pytest

from nmt import Translator
from nmt.errors import CheckpointError
from nmt.inference.pipeline import source_ids, target_ids
from nmt.storage.saved_model import load_saved_model
from tests.importing.checks import imported
from tests.importing.marian_files import Marian
from tests.importing.packages import WORDS, save_e2k
from tests.importing.test_toolkits import PAIRS, Joey, OpenNMT
from tests.saved_models import sentences, write_folder

pytest.importorskip("onnx", reason="needs the extra [onnx]")
pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")

from nmt.exporting.run_onnx import Model
from nmt.exporting.to_onnx import save_onnx

CASES = [(OpenNMT, "mlp"), (OpenNMT, "general"), (Joey, "bridge"), (Joey, "last"), (Marian, "gru"), (Marian, "deep")]


def check(folder, translator, sources, targets):
    """Scores and greedy translations, all sources in one batch, are the translator's."""
    save_onnx(folder / "out", load_saved_model(folder / "model"))
    model = Model(folder / "out", threads=1)
    ids = source_ids(translator, sources)
    for detail, src, tgt in zip(translator.score(sources, targets), ids, target_ids(translator, targets), strict=True):
        np.testing.assert_allclose(model.score(src, tgt), detail.log_probs, atol=1e-5)
    found = translator.tgt_subwords.decode(model.translate(ids))
    assert found == translator.translate(sources, beam_size=1)


@pytest.mark.parametrize(("witness", "name"), CASES, ids=[f"{w.__name__}-{n}" for w, n in CASES])
def test_scores_and_greedy_translations_are_the_models(tmp_path, witness, name):
    translator = imported(witness(name).save(tmp_path), tmp_path / "model")
    check(tmp_path, translator, [src for src, _ in PAIRS], [tgt for _, tgt in PAIRS])


def test_several_heads_and_a_recurrent_readout(tmp_path):
    translator = imported(save_e2k(tmp_path), tmp_path / "model")
    check(tmp_path, translator, WORDS[:3], ["アイ", "", "ウー"])


def test_the_folder_runs_by_itself(tmp_path):
    translator = imported(Marian("gru").save(tmp_path), tmp_path / "model")
    save_onnx(tmp_path / "out", load_saved_model(tmp_path / "model"))
    page = [sys.executable, "-I", str(tmp_path / "out" / "run_onnx.py")]
    done = subprocess.run(page, input="no cat .\n\n", capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == [*translator.translate(["no cat ."], beam_size=1), ""]
    assert "import nmt" not in (tmp_path / "out" / "run_onnx.py").read_text()


@pytest.mark.parametrize("joint", [True, False])
def test_the_page_reads_text_if_sentencepiece_is_there(tmp_path, joint):
    folder = write_folder(tmp_path / "model", joint=joint)
    save_onnx(tmp_path / "out", load_saved_model(folder))
    lines = sentences(3, seed=4)
    page = [sys.executable, str(tmp_path / "out" / "run_onnx.py"), "--text"]
    done = subprocess.run(
        page, input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == Translator.load(folder, threads=1).translate(lines, beam_size=1)


def test_what_the_graphs_do_not_know_is_one_line(tmp_path):
    write_folder(tmp_path / "model", encoder={"rnn_type": "sru"})
    with pytest.raises(CheckpointError, match="model.encoder.rnn_type must be lstm or gru or gru_reset_before for ONN"):
        save_onnx(tmp_path / "out", load_saved_model(tmp_path / "model"))
    assert not (tmp_path / "out").exists()
