"""Alignments of words to those of subwords, and what a file of them must be."""

import numpy as np
import pytest

from nmt.data.alignment.word_alignment import WordAlignments
from nmt.data.batching.batches import TrainBatches
from nmt.data.corpora.corpus import load_parallel
from nmt.errors import DataError
from tests.data.corpora import side, small_subwords, write_pair

SRC = ["the old house", "tree", "a cat sleeps"]
TGT = ["house old the the", "river tree", "cat"]
LINES = ["0-2 0-3 1-1 2-0", "", "0-0 1-0"]


def setup(tmp_path, lines=LINES, type="bpe", boundaries="eos"):
    subwords = small_subwords(type, 52)
    prefix = write_pair(tmp_path, SRC, TGT)
    (tmp_path / "align").write_text("".join(f"{line}\n" for line in lines))
    corpus = load_parallel(prefix, side("de", subwords), side("en", subwords))
    pair = subwords, subwords
    return corpus, subwords, WordAlignments.read(str(tmp_path / "align"), corpus, pair, boundaries)


@pytest.mark.parametrize("boundaries", ["eos", "bos_eos", "none"])
@pytest.mark.parametrize("type", ["bpe", "unigram", "word", "char"])
def test_every_subword_has_those_of_its_word(tmp_path, type, boundaries):
    corpus, subwords, found = setup(tmp_path, type=type, boundaries=boundaries)
    batch = TrainBatches(corpus, 1000, boundaries=boundaries).batch(1, 0)
    step, row, position, share = found.of_batch(
        batch.src, batch.src_lengths, batch.tgt_out, batch.tgt_lengths, batch.indices
    )
    before = boundaries == "bos_eos"
    expected = {}
    for b, line in enumerate(batch.indices.tolist()):
        sides = []
        for ids in (batch.src[before : batch.src_lengths[b], b], batch.tgt_out[: batch.tgt_lengths[b], b]):
            words = []
            for piece in subwords.pieces(ids[ids > 3].tolist()):
                words.append((words[-1] if words else 0) + (piece.startswith("▁") and bool(words)))
            sides.append(words)
        pairs = {tuple(map(int, pair.split("-"))) for pair in LINES[line].split()}
        for t, target in enumerate(sides[1]):
            places = [s for s, source in enumerate(sides[0]) if (source, target) in pairs]
            expected |= {(t, b, s + before): 1 / len(places) for s in places}
    assert {
        key: s
        for *key, s in zip(step.tolist(), row.tolist(), position.tolist(), share.tolist(), strict=True)
        for key in [tuple(key)]
    } == pytest.approx(expected)
    assert len(expected) >= 6


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (LINES[:2], r"align: must have a line for each of the 3 pairs of data.train, got 2"),
        (["0-0", "0 0", ""], r"align:2: must be pairs of words such as 0-0 1-2, got '0 0'"),
        (["0-0", "0-x", ""], r"align:2: must be pairs of words"),
        (["0-0", "", "0-1"], r"align:3: must align words that the pair has, 3 and 1, from 0 on, got 0-1"),
        (["0-0", "1-0", ""], r"align:2: must align words that the pair has, 1 and 2, from 0 on, got 1-0"),
        (["0-99999999999999999999", "", ""], r"align:1: must be pairs"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path, lines, message):
    with pytest.raises(DataError, match=message) as caught:
        setup(tmp_path, lines)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path):
    corpus, subwords, _ = setup(tmp_path)
    with pytest.raises(DataError, match="nothing"):
        WordAlignments.read(str(tmp_path / "nothing"), corpus, (subwords, subwords))


def test_a_batch_without_any(tmp_path):
    corpus, _, found = setup(tmp_path, ["", "", ""])
    batch = TrainBatches(corpus, 1000).batch(1, 0)
    arrays = found.of_batch(batch.src, batch.src_lengths, batch.tgt_out, batch.tgt_lengths, batch.indices)
    assert all(len(array) == 0 for array in arrays)
    assert arrays[0].dtype == np.int64
