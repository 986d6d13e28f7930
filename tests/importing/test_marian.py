"""Models in Marian's layout beside NumPy after its code."""

import json

import numpy as np
import sentencepiece

from nmt.errors import CheckpointError
from nmt.importing.sources import import_model
from nmt.inference.pipeline import target_ids
from tests.importing.checks import imported
from tests.importing.marian_files import ROWS, SRC, TGT, E, Marian
from tests.oracle.compare import assert_same_bits
from tests.refusals import refused


def test_the_binary_form_is_the_same_model(tmp_path):
    first = import_model(Marian("deep").save(tmp_path))
    second = import_model(Marian("deep").save(tmp_path, binary=True))
    assert first.lines == second.lines
    assert_same_bits(second.params, first.params)


def test_what_lies_beside_a_model(tmp_path):
    found = import_model(Marian("gru").save(tmp_path))
    assert found.src.units == SRC[2:]
    assert found.tgt.units == [*TGT[2:], f"<unused{ROWS - 1}>"]
    assert f"rows {ROWS - 1} to {ROWS - 1} of decoder_Wemb" in found.lines[0]
    decoding = found.settings["decoding"]
    assert (decoding["beam_size"], decoding["length_penalty"], decoding["generate_unk"]) == (6, "average", False)
    # Every tensor of the decoder starts from the mean; the vector before the first word is zero.
    np.testing.assert_array_equal(found.params["tgt_embeddings"][2], 0)


def test_pieces_stay_as_they_are(tmp_path):
    translator = imported(Marian("gru").save(tmp_path), tmp_path / "model")
    assert translator.config.data.tgt.normalize == "pieces"
    assert target_ids(translator, ["▁die  ▁Ka\ttze die"]) == [[4, 5, 6, 1]]
    assert translator.score(["cat"], ["▁die tze"])[0].tokens == ["▁die", "tze", "</s>"]
    assert translator.tgt_subwords.join(["▁die", "tze"]) == "▁die tze"


def test_what_is_missing_is_named(tmp_path):
    path = Marian("gru").save(tmp_path)
    (tmp_path / "vocab.de.yml").write_text("</s>: 0\n<unk>: 2\n")
    refused(CheckpointError, r"vocab.de.yml: must number its units from 0 on.* got 2 units", import_model, path)
    (tmp_path / "vocab.de.yml").write_text("a: 0\nb: 1\n")
    refused(CheckpointError, "must have </s> and <unk> as its first units, got a, b", import_model, path)
    (tmp_path / "vocab.de.yml").unlink()
    refused(CheckpointError, "vocab.de.yml: must be the vocabulary next to the checkpoint", import_model, path)
    (tmp_path / "model.npz.decoder.yml").write_text("vocabs: [one.yml]\n")
    refused(CheckpointError, "vocabs must be two files", import_model, path)
    (tmp_path / "model.npz.decoder.yml").unlink()
    refused(CheckpointError, r"decoder.yml: must be the settings next to the model", import_model, path)


def test_a_binary_file_packed_for_a_processor_is_refused(tmp_path):
    path = Marian("gru").save(tmp_path, binary=True)
    content = bytearray(path.read_bytes())
    content[16 + 8 : 16 + 16] = (0x4101).to_bytes(8, "little")
    path.write_bytes(content)
    refused(CheckpointError, "packed for one kind of processor", import_model, path)
    path.write_bytes(content[:700])
    refused(CheckpointError, "model.bin: must be a model of Marian", import_model, path)


def test_a_name_with_a_line_feed_is_one_line_all_the_same(tmp_path):
    """Found by broken files: the name of an array stood in the error as it was."""
    path = Marian("gru").save(tmp_path, binary=True)
    content = bytearray(path.read_bytes())
    count = int.from_bytes(content[8:16], "little")
    content[16 + 32 * count + 1] = ord("\n")  # in the first name
    content[16 + 24 : 16 + 32] = (4).to_bytes(8, "little")  # its bytes
    path.write_bytes(content)
    refused(CheckpointError, r"fewer numbers of '.\\n", import_model, path)


def test_a_vocabulary_of_sentencepiece(tmp_path):
    model = Marian("gru")
    (tmp_path / "text").write_text("the cat sat on the mat\na cat and a hat\n" * 20)
    settings = {"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1, "minloglevel": 5, "vocab_size": 20}
    settings |= {"input": str(tmp_path / "text"), "model_prefix": str(tmp_path / "vocab.en"), "model_type": "bpe"}
    sentencepiece.SentencePieceTrainer.train(**settings)
    (tmp_path / "vocab.en.model").rename(tmp_path / "vocab.en.spm")
    table = model.arrays["encoder_Wemb"] = np.arange(20.0 * E, dtype=np.float32).reshape(20, E)
    path = model.save(tmp_path)
    (tmp_path / "model.npz.decoder.yml").write_text("vocabs: [vocab.en.spm, vocab.de.yml]\n")
    found = import_model(path)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "vocab.en.spm"))
    (ours,), theirs = found.src.encode(["the cat"]), processor.encode("the cat")
    np.testing.assert_array_equal(found.params["src_embeddings"][[*ours, 1, 3]], table[[*theirs, 1, 0]])


def test_vocabularies_of_json(tmp_path):
    path = Marian("gru").save(tmp_path)
    for name, units in (("vocab.en.json", SRC), ("vocab.de.json", TGT)):
        (tmp_path / name).write_text(json.dumps({unit: n for n, unit in enumerate(units)}))
    (tmp_path / "model.npz.decoder.yml").write_text("vocabs: [vocab.en.json, vocab.de.json]\n")
    assert import_model(path).src.units == SRC[2:]
    (tmp_path / "vocab.en.json").write_text('{"</s>": 0, "a": ')
    refused(CheckpointError, "vocab.en.json: must be JSON", import_model, path)
