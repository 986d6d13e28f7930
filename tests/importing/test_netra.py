"""A model of netra-transliterate's layers in its own files, beside what Keras computes, in NumPy."""

import zipfile

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.importing.hdf5_file import read_hdf5
from nmt.importing.sources import import_model
from nmt.importing.torch_file import MalformedError
from nmt.special_tokens import EOS_ID
from tests.importing.checks import check_scores, imported
from tests.importing.keras_files import FLOAT32, Hdf5, Khmer, nested

WORDS = ["abc", "c", "bb", "cab", "bacbaca", "a"]


def test_words_become_what_they_become_in_keras(tmp_path):
    model = Khmer()
    translator = imported(model.save(tmp_path), tmp_path / "model")
    expected = [model.predict(word) for word in WORDS]
    assert translator.translate(WORDS, beam_size=1) == expected
    assert translator.translate(["A-b c!"], beam_size=1) == expected[:1]  # all but letters is left out
    assert len(set(expected)) > 3


def test_log_probabilities_are_keras(tmp_path):
    model = Khmer()
    translator = imported(model.save(tmp_path), tmp_path / "model")
    pairs, expected = [("abc", "khmer"), ("b", ""), ("cc", "mmm")], []
    end = model.UNITS.index("\n") + 1
    for src, tgt in pairs:
        ids = [*(model.UNITS.index(unit) + 1 for unit in tgt), end]
        expected.append([model.log_probs(src, ids[:n])[token] for n, token in enumerate(ids)])
    check_scores(translator, pairs, expected)
    assert EOS_ID not in translator.target_ids(["khmer"])[0]


def changed(model, number, **config):
    model.layers[number]["config"] |= config
    return model


@pytest.mark.parametrize(
    ("number", "config", "line"),
    [
        (2, {"mask_zero": True}, "mask_zero: False"),
        (4, {"merge_mode": "sum"}, "merge_mode: concat"),
        (5, {"reset_after": False}, "reset_after: True"),
        (5, {"activation": {"class_name": "Lambda"}}, "activation: tanh"),
        (6, {"layer": 3}, "activation: linear"),
        (7, {"use_scale": False}, "use_scale: True"),
        (9, {"activation": "sigmoid"}, "activation: softmax"),
    ],
)
def test_other_settings_are_one_line(tmp_path, number, config, line):
    source = changed(Khmer(), number, **config).save(tmp_path)
    with pytest.raises(CheckpointError, match=line):
        import_model(source)


def test_other_connections_are_one_line(tmp_path):
    model = Khmer()
    model.layers[8] = model.layer("Concatenate", "cat", ["att", "g"], axis=-1)
    with pytest.raises(CheckpointError, match="whose Concatenate reads GRU and AdditiveAttention"):
        import_model(model.save(tmp_path))
    model = Khmer()
    model.layers[9] = model.layer("Lambda", "out", "cat", function="code")
    with pytest.raises(CheckpointError, match="docs/import.md says how another is described"):
        import_model(model.save(tmp_path))
    model = Khmer()
    model.layers[8]["inbound_nodes"] *= 2
    with pytest.raises(CheckpointError, match="a layer that is used twice"):
        import_model(model.save(tmp_path))


def test_wrong_vocabularies_are_one_line(tmp_path):
    model = Khmer()
    source = model.save(tmp_path)
    path = tmp_path / "gru_transliteration_assets.pkl"
    for content, line in (
        (model.assets(max_eng_len=0), "a length of 0"),
        (model.assets(eng_tokenizer=3), "none of characters"),
        (b"cposix\nsystem\n(S'touch planted'\ntR.", "the vocabularies of the model"),
        (b"", "a damaged file"),
    ):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=line):
            import_model(source)
    path.unlink()
    with pytest.raises(CheckpointError, match="copy them there"):
        import_model(source)


def test_arrays_come_out_of_hdf5():
    arrays = {"a/0": np.arange(6, dtype=np.float32).reshape(2, 3), "a/b/1": np.zeros((), np.float32)}
    arrays["c"] = np.ones(0, np.float32)
    found = read_hdf5(bytes(Hdf5(nested(arrays)).content))
    assert list(found) == sorted(arrays)
    for name, array in arrays.items():
        assert found[name].shape == array.shape and np.array_equal(found[name], array)
    assert list(read_hdf5(bytes(Hdf5(nested(arrays)).content), "a")) == ["a/0", "a/b/1"]


def test_what_hdf5_could_hide_is_refused():
    content = bytes(Hdf5({"a": np.ones(3, np.float32)}).content)
    loop = bytearray(Hdf5({"a": np.ones(3, np.float32)}).content)
    node = loop.index(b"SNOD")
    loop[node + 16 : node + 24] = loop[0x40:0x48]  # the root is a group in itself
    for broken, line in (
        (content.replace(FLOAT32[:8], FLOAT32[:4] + b"\x08\0\0\0"), "no float32"),
        (content.replace(b"\x03\x01", b"\x03\x02"), "packed or in pieces"),
        (bytes(loop), "without an end"),
        (content[:-40], "a part of one"),
        (b"\x89HDF\r\n\x1a\n\x02" + content[9:], "another kind of HDF5"),
    ):
        with pytest.raises(MalformedError, match=line):
            read_hdf5(broken)


def test_a_zip_without_its_parts_is_one_line(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.keras", "w") as archive:
        archive.writestr("config.json", "[]")
    with pytest.raises(CheckpointError, match=r"a zip without model\.weights\.h5"):
        import_model(tmp_path / "a.keras")
