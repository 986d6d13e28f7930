"""Models in the layout of Nematus's npz, beside NumPy after Marian's code, which reads them as `amun`."""

import json

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.importing.marian import NEMATUS_NAMES
from nmt.importing.sources import import_model
from tests.importing.checks import check_scores, imported
from tests.importing.marian_files import PAIRS, SRC, TGT, Marian


def save(folder, model, **options):
    """The file with its settings and vocabularies beside it."""
    theirs = {ours: name for name, ours in NEMATUS_NAMES.items()}
    arrays = {theirs.get(name, name): array for name, array in model.arrays.items()}
    # Theano's weights of the output are [in, out], its biases vectors, its score's bias one number.
    arrays["ff_logit_W"] = arrays.pop("decoder_ff_logit_l2_Wt").T
    arrays = {name: array[0] if array.shape[0] == 1 else array for name, array in arrays.items()}
    arrays |= {"decoder_c_tt": np.ones(1, np.float32), "uidx": np.int64(7), "adam_t": np.float32(1)}
    path = folder / "model.npz"
    np.savez(path, **arrays)
    settings = {"dictionaries": ["/data/en.json", "/data/de.json"], "encoder": "gru", "decoder": "gru_cond"} | options
    (folder / "model.npz.json").write_text(json.dumps(settings))
    for lang, units in (("en", SRC), ("de", TGT)):
        numbers = {unit: n for n, unit in enumerate(["eos", "UNK", *units[2:]])}
        (folder / f"{lang}.json").write_text(json.dumps(numbers))
    return path


def test_log_probabilities_are_those_of_amun(tmp_path):
    model = Marian("amun")
    translator = imported(save(tmp_path, model), tmp_path / "model")
    check_scores(translator, PAIRS, [model.scores(*pair) for pair in PAIRS])
    assert import_model(tmp_path / "model.npz").kind == "nematus"


def test_what_nematus_computes_otherwise_is_refused(tmp_path):
    path = save(tmp_path, Marian("amun"), layer_normalisation=True)
    with pytest.raises(CheckpointError, match="layer_normalisation must be false, got True; it cannot be represented"):
        import_model(path)
    (tmp_path / "model.npz.json").write_text('{"dictionaries": ["en.json"]}')
    with pytest.raises(CheckpointError, match="dictionaries must be two files"):
        import_model(path)
    (tmp_path / "model.npz.json").unlink()
    with pytest.raises(CheckpointError, match="model.npz.json: must be the settings next to the model"):
        import_model(path)


def test_a_kind_that_a_file_is_not_is_one_line(tmp_path):
    path = save(tmp_path, Marian("amun"))
    for kind in ("marian", "fairseq", "opennmt-py", "joeynmt"):
        with pytest.raises(CheckpointError, match="must be a model of"):
            import_model(path, kind)
