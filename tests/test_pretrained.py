"""training.src_embeddings and training.tgt_embeddings: vectors that were trained elsewhere."""

import gzip
import io

import numpy as np
import pytest

from nmt.config import config_from_dict
from nmt.errors import ConfigError, DataError
from nmt.storage.model_folder import load_folder_config, load_subwords, read_checkpoint
from nmt.train.run.trainer import Trainer
from nmt.train.tasks.pretrained import read_vectors
from tests.saved_models import write_folder

UNITS = ["<pad>", "<unk>", "<s>", "</s>", "▁", "▁house", "▁the", "ing", "▁ing"]


def vector_lines(words, size=3):
    return [f"{word} " + " ".join(str(n + 0.25 * k) for k in range(size)) for n, word in enumerate(words)]


def write(path, lines):
    opened = gzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb")
    with opened as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
    return str(path)


@pytest.mark.parametrize("name", ["glove.txt", "glove.txt.gz"])
def test_words_are_units_that_begin_a_word(tmp_path, name):
    path = write(tmp_path / name, vector_lines(["the", ". . .", "ing", "</s>", "the", "tree"]))
    found = read_vectors(path, UNITS, 3)
    assert {n: vector.tolist() for n, vector in found.items()} == {
        UNITS.index("▁the"): [0, 0.25, 0.5],
        UNITS.index("▁ing"): [2, 2.25, 2.5],
        UNITS.index("</s>"): [3, 3.25, 3.5],
    }


def test_subwords_are_themselves(tmp_path):
    lines = vector_lines(["the", "ing", "▁house", "▁"])
    found = read_vectors(write(tmp_path / "bpe.vec", ["4 3", *lines]), UNITS, 3)
    assert {UNITS[n]: vector[0] for n, vector in found.items()} == {"ing": 1, "▁house": 2, "▁": 3}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["2 300", "the 1 2"],
            "must have vectors of 3 numbers, the value of embedding_dim, got 300; set embedding_dim: 300",
        ),
        (
            ["the 1 2"],
            "line 1: must be a word and 3 numbers after it, the value of embedding_dim, got 3 parts, 'the 1 2'",
        ),
        (["a 1 2 3", "the 1 2 x"], "line 2: must be a word and numbers after it, got 'the 1 2 x'"),
        (["a 1 2 3", "the 1 2 nan"], "line 2: must be a word and numbers after it, got 'the 1 2 nan'"),
        (["a 1 2 3", ""], "line 2: must be a word and 3 numbers after it"),
    ],
)
def test_what_is_no_file_of_such_vectors_is_one_line(tmp_path, lines, message):
    path = write(tmp_path / "x.vec", lines)
    with pytest.raises(DataError) as error:
        read_vectors(path, UNITS, 3)
    assert str(error.value).startswith(path) and message in str(error.value)
    with pytest.raises(DataError, match="nowhere"):
        read_vectors(str(tmp_path / "nowhere"), UNITS, 3)


@pytest.mark.parametrize("tied", ["none", "all"])
def test_a_run_starts_with_them(tmp_path, tied):
    sizes = {"decoder": {"embeddings": {"embedding_dim": 6}}, "encoder": {"embeddings": {"embedding_dim": 6}}}
    base = write_folder(tmp_path / "base", joint=tied == "all", tied=tied, **sizes)
    subwords = load_subwords(base, joint=tied == "all")
    words = [unit[1:] for unit in subwords[0].pieces(range(4, subwords[0].vocab_size)) if len(unit) > 1]
    words = [word for word in words if f"▁{word}" in subwords[0].pieces(range(subwords[0].vocab_size))][::2]
    path = write(tmp_path / "src.vec", vector_lines(words, 6))
    values = load_folder_config(base).to_dict()
    values["model_dir"] = str(tmp_path / "run")
    values["data"]["check"] = False
    values["training"] |= {"src_embeddings": path, "freeze": ["*embeddings"], "updates": 1}
    said = io.StringIO()
    Trainer(config_from_dict(values), terminal=said).run()
    table = "embeddings" if tied == "all" else "src_embeddings"
    assert (
        f"{table}: {len(words)} of {subwords[0].vocab_size} subwords start with vectors from {path}" in said.getvalue()
    )
    after = read_checkpoint(tmp_path / "run" / "last.safetensors", prefix="params/")[0][f"params/{table}"]
    new = load_subwords(tmp_path / "run", joint=tied == "all")[0]
    found = read_vectors(path, new.pieces(range(new.vocab_size)), 6)
    assert len(found) == len(words) > 2
    for unit, vector in found.items():
        np.testing.assert_array_equal(after[unit], vector)
    others = [unit for unit in range(len(after)) if unit not in found]
    assert (np.abs(after[others]).max(axis=1) > 0).all(), "drawn, as without a file"
    values["training"] |= {"updates": 2, "src_embeddings": None}
    Trainer(config_from_dict(values)).run()  # goes on with what it has learned


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training.load_model": "x", "training.tgt_embeddings": "y"}, "tgt_embeddings must be null with load_model"),
        ({"task": "lm", "training.src_embeddings": "y"}, "src_embeddings must be null with task: lm"),
        (
            {"model.tied_embeddings": "all", "training.src_embeddings": "x", "training.tgt_embeddings": "y"},
            "tgt_embeddings must be training.src_embeddings with model.tied_embeddings: all, got y and x",
        ),
    ],
)
def test_what_does_not_go_together(changes, message):
    data = {"train": "t", "dev": "d", "src": {"lang": "a"}, "tgt": {"lang": "b"}}
    values = {
        "model_dir": "m",
        "data": data,
        "model": {"decoder": {"hidden_size": 256}},
        "training": {"metric": "loss"},
    }
    for key, value in changes.items():
        section, _, name = key.rpartition(".")
        (values[section] if section else values)[name] = value
    with pytest.raises(ConfigError, match="embeddings") as error:
        config_from_dict(values)
    assert message in str(error.value)
