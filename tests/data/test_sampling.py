"""BPE-dropout and unigram sampling: other cuts of the same text, the same ones again for the same seed."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nmt.data.batching.batches import TrainBatches
from nmt.data.batching.sampling import SubwordSampler
from nmt.data.corpora.corpus import load_parallel
from nmt.data.tokens.subwords import train_subwords
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import ConfigError
from nmt.special_tokens import BOS_ID, UNK_ID
from tests.data.corpora import sentences, side, small_subwords, write_pair

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def subwords(request):
    return small_subwords(request.param, 52)


def corpus_of(tmp_path, subwords, count=300):
    prefix = write_pair(tmp_path, sentences(count, 1), sentences(count, 2))
    return load_parallel(prefix, side("de", subwords), side("en", subwords), keep_texts=True)


def batches(corpus, subwords, alphas=(0.3, 0.3), seed=1, size=200, **options):
    return TrainBatches(corpus, size, seed=seed, sampler=SubwordSampler((subwords, subwords), alphas, seed), **options)


def rows_of(batch, name):
    lengths = batch.src_lengths if name == "src" else batch.tgt_lengths
    ids = batch.src if name == "src" else batch.tgt_out
    return {int(i): ids[: n - 1, b].tolist() for b, (i, n) in enumerate(zip(batch.indices, lengths, strict=True))}


def test_the_text_stays_and_its_cut_changes(tmp_path, subwords):
    corpus = corpus_of(tmp_path, subwords)
    found = batches(corpus, subwords)
    other = {"src": 0, "tgt": 0}
    for batch in found.epoch(1):
        for name, texts, ids in (("src", corpus.src_texts, corpus.src), ("tgt", corpus.tgt_texts, corpus.tgt)):
            for line, row in rows_of(batch, name).items():
                assert subwords.decode([row]) == [texts[line]]
                other[name] += row != ids[line].tolist()
        assert batch.num_tgt_tokens == int((batch.tgt_lengths).sum())
        assert (batch.tgt_in[0] == BOS_ID).all()
        assert (np.diff(batch.tgt_lengths) <= 0).all(), "longest first, as the engine wants them"
    assert other["src"] > 30
    assert other["tgt"] > 30


def test_seed_epoch_and_batch_decide(tmp_path, subwords):
    corpus = corpus_of(tmp_path, subwords)
    first = [batch.src.tolist() for batch in batches(corpus, subwords, shuffle=False).epoch(1)]
    again = batches(corpus, subwords, shuffle=False)
    assert [again.batch(1, n).src.tolist() for n in reversed(range(len(first)))] == first[::-1], "entered anywhere"
    assert [batch.src.tolist() for batch in again.epoch(2)] != first
    assert [batch.src.tolist() for batch in batches(corpus, subwords, seed=2, shuffle=False).epoch(1)] != first


def test_a_side_can_stay_and_less_alpha_of_bpe_is_milder(tmp_path):
    subwords = small_subwords("bpe", 60)
    corpus = corpus_of(tmp_path, subwords)
    lengths = []
    for alpha in (0.01, 0.3):
        drawn, kept = zip(
            *((b.src_lengths.sum(), b) for b in batches(corpus, subwords, (alpha, None)).epoch(1)), strict=True
        )
        lengths.append(sum(drawn))
        for batch in kept:
            for line, row in rows_of(batch, "tgt").items():
                assert row == corpus.tgt[line].tolist()
    assert lengths[0] < lengths[1]


def test_batches_are_as_large_as_without(tmp_path, subwords):
    corpus = corpus_of(tmp_path, subwords, 2000)
    found = batches(corpus, subwords, size=500)
    sizes = np.array([batch.num_tgt_tokens for batch in found.epoch(1)])
    assert sizes.mean() <= 500
    assert np.quantile(sizes, 0.95) < 1.1 * 500  # a sum of some fifty lengths that are drawn
    foretold = found.tokens(1)[:, 1]
    assert abs(foretold.sum() / sizes.sum() - 1) < 0.05


def test_unknown_characters_and_symbols_stay(tmp_path):
    subwords = train_subwords(sentences(400), type="unigram", vocab_size=51, symbols=["<2de>"])
    lines = ["<2de> the house § green", *sentences(20)]
    prefix = write_pair(tmp_path, lines, lines)
    corpus = load_parallel(prefix, side("de", subwords), side("en", subwords))
    drawn_anew = batches(corpus, subwords, (0.01, None), size=9999)
    drawn = [rows_of(batch, "src")[0] for n in range(1, 40) for batch in drawn_anew.epoch(n)]
    assert len({tuple(row) for row in drawn}) > 2
    fixed = [UNK_ID, subwords.encode(["<2de>"])[0][-1]]
    for row in drawn:
        assert subwords.decode([row]) == subwords.decode([corpus.src[0].tolist()])
        assert [row.count(one) for one in fixed] == [1, 1]


def test_what_is_cut_in_one_way_alone_is_refused():
    kinds = [small_subwords("char", 60), small_subwords("word", 60), Vocabulary(["the", "a"])]
    for kind in kinds:
        with pytest.raises(ConfigError, match="data.src.sampling_alpha: must be null with subwords that have only one"):
            SubwordSampler((kind, kind), (0.1, None), 1)


def test_another_process_draws_the_same(tmp_path):
    """So that a run that is resumed, and each of several ranks, has the bits of one that was not."""
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.data.test_sampling import batches, corpus_of; from tests.data.corpora import small_subwords\n"
        "for type in ('unigram', 'bpe'):\n"
        "    subwords = small_subwords(type, 52)\n"
        "    print([b.src.tolist() for b in batches(corpus_of(Path(sys.argv[1]), subwords), subwords).epoch(1)])\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    several = [subprocess.run(command, capture_output=True, text=True, cwd=ROOT) for _ in range(2)]
    assert [done.returncode for done in several] == [0, 0], several[0].stderr
    assert several[0].stdout == several[1].stdout
