"""A model that a YAML file describes, and what is wrong with descriptions."""

import numpy as np
import pytest

from nmt.config.yaml_text import format_yaml
from nmt.errors import CheckpointError
from nmt.importing.g2p_en import LETTERS, PHONEMES
from nmt.importing.sources import import_model
from tests.importing.test_g2p_en import E, H, arrays

GRU = {"rnn_type": "gru", "hidden_size": H, "embeddings": {"embedding_dim": E}}


def description():
    cells = {}
    for ours, theirs in (("encoder.0.forward", "enc"), ("decoder.cell.0", "dec")):
        cells |= {f"{ours}.W_x": f"{theirs}_w_ih.T", f"{ours}.W_h": f"{theirs}_w_hh.T"}
        cells |= {f"{ours}.b": f"{theirs}_b_ih", f"{ours}.b_h": f"{theirs}_b_hh"}
    return {
        "file": "weights.npz",
        "model": {
            "encoder": GRU | {"bidirectional": False},
            "decoder": GRU | {"attention": "none", "input_feeding": False, "init_hidden": "last"},
        },
        "decoding": {"beam_size": 1, "max_length_ratio": 1e-6, "max_length_extra": 20},
        "source": {
            "units": ["<pad>", "<unk>", "</s>", *LETTERS],
            "split": "characters",
            "lowercase": True,
            "special": {"pad": 0, "unk": 1, "eos": 2},
        },
        "target": {"units": "phonemes.txt", "special": {"pad": 0, "unk": 1, "bos": 2, "eos": 3}},
        "tensors": cells
        | {"src_embeddings": "enc_emb", "tgt_embeddings": "dec_emb", "output.W": "fc_w.T", "output.b": "fc_b"},
    }


@pytest.fixture
def written(tmp_path):
    np.savez(tmp_path / "weights.npz", **arrays())
    (tmp_path / "phonemes.txt").write_text("\n".join(["<pad>", "<unk>", "<s>", "</s>", *PHONEMES]) + "\n")

    def write(**changes):
        path = tmp_path / "model.yaml"
        path.write_text(format_yaml(description() | changes))
        return path

    return write


def test_a_description_says_what_the_module_of_its_kind_knows(written):
    found, same = import_model(written()), import_model(written().parent / "weights.npz")
    assert found.params.keys() == same.params.keys()
    for name, array in same.params.items():
        np.testing.assert_array_equal(found.params[name], array)
    assert (found.src.model_bytes, found.tgt.model_bytes) == (same.src.model_bytes, same.tgt.model_bytes)


def test_tensors_are_put_together(written):
    tensors = description()["tensors"]
    tensors["encoder.0.forward.b"] = "enc_b_ih[0:6] | enc_b_ih[6:18]"
    tensors["encoder.0.forward.b_h"] = "enc_b_hh + enc_b_hh"
    found = import_model(written(tensors=tensors)).params
    np.testing.assert_array_equal(found["encoder.0.forward.b"], arrays()["enc_b_ih"])
    np.testing.assert_array_equal(found["encoder.0.forward.b_h"], 2 * arrays()["enc_b_hh"])


def without(name):
    return {k: v for k, v in description()["tensors"].items() if k != name}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"tensors": without("output.b")}, "'fc_b', which has no counterpart here"),
        ({"tensors": without("output.b") | {"output.b": "fc_c"}}, "must contain the tensor fc_c"),
        ({"tensors": without("output.b") | {"output.b": "fc_b +"}}, "must be made of NAME"),
        ({"tensors": without("output.b") | {"output.b": "fc_b + enc_b_ih"}}, "must have one shape"),
        ({"tensors": without("output.W") | {"output.W": "fc_w"}}, "output.W must have 74 columns"),
        ({"tensors": 3}, "tensors must have an expression for each"),
        ({"weights": 1}, "weights is unknown"),
        ({"file": 1}, "file must be a path"),
        ({"below": "model/state"}, "must contain tensors by name below model/state"),
        ({"source": {"units": ["a"], "special": {"unk": 9}}}, "source.special must be numbers of units"),
        ({"target": {"units": "missing.txt", "special": {}}}, "target.units must be a list, or a file"),
        ({"source": {"special": {}}}, "source.units must be given"),
    ],
)
def test_mistakes_are_one_line(written, changes, line):
    with pytest.raises(CheckpointError, match=line) as caught:
        import_model(written(**changes))
    assert "\n" not in str(caught.value)


def test_what_is_ignored_is_named(written):
    found = import_model(written(tensors=without("output.b"), ignore=["fc_b"]))
    assert "output.b" not in found.params
