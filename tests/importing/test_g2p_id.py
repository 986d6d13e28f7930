"""A model in the files of g2p-id, beside what its own code computes, in NumPy."""

import json
import zipfile

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.importing.sources import import_model
from tests.importing.checks import imported
from tests.importing.onnx_files import Indonesian, field, node

WORDS = ["abc", "cab", "b", "'a", "aabbcc", "bacbacba", "c a"]


def test_words_sound_as_in_the_package(tmp_path):
    model = Indonesian()
    translator = imported(model.save(tmp_path), tmp_path / "model")
    expected = [model.predict(word) for word in WORDS]
    assert translator.translate(WORDS) == expected
    assert translator.translate(["Abc\u00e9"]) == expected[:1]  # lower-cased; a letter that is not listed is left out
    assert len(set(expected)) > 4


def test_either_file_or_a_wheel_will_do(tmp_path):
    model = Indonesian()
    model.save(tmp_path)
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        for path in sorted(tmp_path.glob("*.*n*")):
            wheel.write(path, f"g2p_id/models/lstm/{path.name}")
        wheel.writestr("g2p_id/models/bert/bert.onnx", b"another")
    found = import_model(tmp_path / "decoder_model.onnx")
    packed = import_model(tmp_path / "a.whl", member="encoder_model.onnx")
    for name, array in found.params.items():
        assert np.array_equal(packed.params[name], array)


def test_another_network_is_one_line(tmp_path):
    model = Indonesian()
    source = model.save(tmp_path)
    for change, line in (
        ({"direction": b"reverse"}, "reads forward"),
        ({"clip": 1.0}, "ONNX' own activations"),
        ({"activations": [b"Sigmoid", b"Relu", b"Tanh"]}, "ONNX' own activations"),
    ):
        source.write_bytes(model.encoder(**change))
        with pytest.raises(CheckpointError, match=line):
            import_model(source)
    source = model.save(tmp_path)
    for change, line in (({"end": "Sigmoid"}, "a softmax"), ({"perm": (0, 1, 2)}, "keep their order")):
        (tmp_path / "decoder_model.onnx").write_bytes(model.decoder(**change))
        with pytest.raises(CheckpointError, match=line):
            import_model(source)


def test_what_would_be_missed_is_refused(tmp_path):
    model = Indonesian()
    source = model.save(tmp_path)
    for more, line in (
        (field(25, field(1, "LSTM")), "functions of its own"),
        (field(7, b""), "something else"),
        (b"\x0b", "something else"),
        (b"\x7a\xff", "a part of one"),
    ):
        source.write_bytes(model.encoder() + more)
        with pytest.raises(CheckpointError, match=line):
            import_model(source)
    for wrong in (field(1, field(1, 7)), field(1, 10**12), field(5, field(9, 10**12)), field(5, field(8, 1))):
        source.write_bytes(field(7, wrong))  # a number where text or bytes belong
        with pytest.raises(CheckpointError, match="a damaged one"):
            import_model(source)
    graph = field(1, node("LSTM", [], [], domain="mine"))
    source.write_bytes(field(7, graph))
    with pytest.raises(CheckpointError, match="operators of 'mine'"):
        import_model(source)
    source.write_bytes(field(7, field(5, field(1, 1) + field(2, 1) + field(8, "a") + field(13, b""))))
    with pytest.raises(CheckpointError, match="another file"):
        import_model(source)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"pad_token": "x"}, "pad_token must be a unit"),
        ({"eos_token": ["\n"]}, "eos_token must be a unit"),
        ({"bos_token": "\n"}, "must be two"),
        ({"max_encoder_seq_length": 10**12}, "from 1 to"),
        ({"max_decoder_seq_length": True}, "from 1 to"),
    ],
)
def test_wrong_settings_are_one_line(tmp_path, change, line):
    source = Indonesian().save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError, match=line):
        import_model(source)
