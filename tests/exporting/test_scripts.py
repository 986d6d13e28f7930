"""What is exported with a script of its own, to NumPy or ONNX, says what the model says; what the script is given and
cannot use is one line."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from nmt import Translator
from nmt.errors import CheckpointError
from nmt.exporting import plain_numpy, run_onnx
from nmt.exporting.to_numpy import save_numpy
from nmt.exporting.to_onnx import save_onnx
from nmt.inference.pipeline import source_ids, target_ids
from nmt.storage.saved_model import load_saved_model
from tests.importing.checks import imported
from tests.importing.marian_files import Marian
from tests.importing.packages import WORDS, save_e2k
from tests.importing.test_toolkits import PAIRS, Joey, OpenNMT
from tests.refusals import refused
from tests.saved_models import sentences, write_folder

SAVE = {"plain_numpy": save_numpy, "run_onnx": save_onnx}
IN_NUMPY = [(OpenNMT, "mlp"), (Joey, "last"), (Marian, "deep")]
IN_ONNX = [*IN_NUMPY, (OpenNMT, "general"), (Joey, "bridge"), (Marian, "gru")]
CASES = [("plain_numpy", *one) for one in IN_NUMPY] + [("run_onnx", *one) for one in IN_ONNX]
SCRIPTS = pytest.mark.parametrize("script", SAVE)


def exported(script, folder):
    """The folder of an export of the model in `model`."""
    if script == "run_onnx":
        for name in ("onnx", "onnxruntime"):
            pytest.importorskip(name, reason="needs the extra [onnx] and ONNX Runtime")
    SAVE[script](folder / "out", load_saved_model(folder / "model"))
    return folder / "out"


AS_ON_WINDOWS = """
import io, runpy, sys
for name in ("stdin", "stdout", "stderr"):
    setattr(sys, name, io.TextIOWrapper(getattr(sys, name).detach(), "cp1252", newline="\\r\\n"))
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(folder, script, lines, *options):
    """The standard output and error of the script for these lines, with the code page and line ends of Windows."""
    command = [sys.executable, "-I", "-c", AS_ON_WINDOWS, str(folder / f"{script}.py"), *options]
    text = "".join(f"{line}\n" for line in lines).encode()
    done = subprocess.run(command, input=text, capture_output=True, timeout=100, check=True)
    return done.stdout.decode().split("\n")[:-1], done.stderr.decode()


@pytest.mark.parametrize(("script", "witness", "name"), CASES, ids=[f"{s}-{w.__name__}-{n}" for s, w, n in CASES])
def test_scores_and_greedy_translations_are_the_models(tmp_path, script, witness, name):
    translator = imported(witness(name).save(tmp_path), tmp_path / "model")
    folder, (sources, targets) = exported(script, tmp_path), zip(*PAIRS, strict=True)
    model = run_onnx.Model(folder, threads=1) if script == "run_onnx" else plain_numpy.Model(folder)
    ids = source_ids(translator, sources)
    for detail, src, tgt in zip(translator.score(sources, targets), ids, target_ids(translator, targets), strict=True):
        np.testing.assert_allclose(model.score(src, tgt), detail.log_probs, atol=1e-5 if script == "run_onnx" else 1e-4)
    found = model.translate(ids) if script == "run_onnx" else [model.translate(one) for one in ids]
    assert translator.tgt_subwords.decode(found) == translator.translate(sources, beam_size=1)


@SCRIPTS
def test_the_folder_runs_by_itself_with_several_heads_and_a_recurrent_readout(tmp_path, script):
    translator = imported(save_e2k(tmp_path), tmp_path / "model")
    folder = exported(script, tmp_path)
    lines, _ = run(folder, script, [*(" ".join(word.lower()) for word in WORDS[:3]), ""])
    assert [line.replace(" ", "") for line in lines] == [*translator.translate(WORDS[:3], beam_size=1), ""]
    assert "import nmt" not in (folder / f"{script}.py").read_text()


@SCRIPTS
@pytest.mark.parametrize("joint", [True, False])
def test_an_export_has_the_subwords_and_its_script_takes_their_units(joint, script, tmp_path):
    source = write_folder(tmp_path / "model", joint=joint)
    folder, subwords = exported(script, tmp_path), load_saved_model(source).src_subwords
    for name in ("joint.spm",) if joint else ("src.spm", "tgt.spm"):
        assert (folder / name).read_bytes() == (source / name).read_bytes()
    units = subwords.pieces(subwords.encode(["kara losu miti"])[0])
    found = [run(folder, script, [text]) for text in (" ".join(units), "  ".join(units), "hello, you there")]
    assert found[0] == found[1] and found[0][1] == ""
    assert found[2][1].count("\n") == 1 and "few subwords of the model" in found[2][1]
    if script == "run_onnx":
        lines = sentences(3, seed=4)
        expected = Translator.load(source, threads=1).translate(lines, beam_size=1)
        assert run(folder, script, lines, "--text")[0] == expected


@pytest.mark.parametrize(
    ("script", "side", "change", "message"),
    [
        ("run_onnx", "encoder", {"rnn_type": "sru"}, "rnn_type must be lstm or gru or gru_reset_before for ONNX, got"),
        ("plain_numpy", "encoder", {"rnn_type": "sru"}, "rnn_type must be lstm or gru for the page of NumPy, got sru"),
        ("plain_numpy", "decoder", {"copy_source": True}, "copy_source must be false for the page of NumPy, got true"),
        ("plain_numpy", "decoder", {"edit_actions": True}, "edit_actions must be false for the page of NumPy, got tru"),
    ],
)
def test_what_a_script_does_not_know_is_one_line(folder, tmp_path, script, side, change, message):
    saved = load_saved_model(folder)
    changed = getattr(saved.config.model, side).model_copy(update=change)
    model = saved.config.model.model_copy(update={side: changed})
    saved = replace(saved, config=saved.config.model_copy(update={"model": model}))
    refused(CheckpointError, f"model.{side}.{message}", SAVE[script], tmp_path / "out", saved)
    assert not (tmp_path / "out").exists()
